//! Spawn sites whose fibers block their threads unannounced, as far as the supervisor has seen.
//!
//! A fiber is *stuck* that has kept its thread for a period, if that sleeps at one of the next looks. One that
//! computes, or waits for a processor, needs no thread more: each would make all of them slower, and so stalls of the
//! next ones.
//!
//! A site is *suspect* from the first of its fibers that is stuck until none is. Fibers of a suspect site
//! start and go on in blocking mode: their worker hands its core on before it runs them; but no more than
//! `max_blocking` of all sites together, beyond which they run as any others. A site half
//! of whose fibers get stuck is *flagged*, and stays suspect. (After ZIO's learned blocking sites.)
//!
//! What was learned is forgotten. A log that hung for a second once, with all the connections that came meanwhile, is
//! no reason to hand a core on for each of their requests for ever (ten microseconds, where a wake takes a tenth of
//! one): a flagged site is judged again by its runs since, some of which are stuck where its fibers still block. And
//! what was counted is halved each minute, or so, or one hiccup an hour would add up.
//!
//! While no site is suspect, which is nearly always, a dispatch pays one load. While some are, it looks at their bits,
//! and only where its fiber's is among them into the list of sites.

use crate::primitives::clock::Moment;
use crate::primitives::os_thread::OsThread;
use crate::primitives::sync::Mutex;
use crate::primitives::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::panic::Location;
use std::time::Duration;

/// Fibers of a suspect site that are started before the site can be flagged.
const ENOUGH: u64 = 64;

/// What is known of a suspect site is halved after so many periods of the supervisor.
const HALVED: u32 = 600;
/// A flagged site is judged again after so many runs in blocking mode, and so many periods: those that block are over
/// later than others.
const RUNS: u64 = 1_024;
const PERIODS: u32 = 10;
/// It stays flagged where one of so many was stuck.
const MANY: u64 = 64;

/// Runs in blocking mode at which the supervisor looks at a time, and how often at each.
const AT_A_TIME: usize = 16;
const LOOKS: u32 = 4;

pub(super) type Site = &'static Location<'static>;

#[derive(Debug)]
pub(super) struct Sites {
    enabled: bool,
    /// Runs in blocking mode at the same time.
    most_runs: usize,
    /// The [`bit`]s of the suspect sites; a copy of what is in `inner`.
    suspects: AtomicU64,
    /// Some of them may become flagged, or not suspect any more, at the next look, or some run be found stuck; a copy
    /// too.
    changing: AtomicBool,
    inner: Mutex<Inner>,
}

/// One of 64 for each site, the same for equal ones.
fn bit(site: Site) -> u64 {
    let place = u64::from(site.line()) << 32 | u64::from(site.column());
    1 << (place.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 58)
}

#[derive(Debug, Default)]
struct Inner {
    known: Vec<Record>,
    /// Fibers of suspect sites that run in blocking mode now.
    runs: Vec<Run>,
    next_run: u64,
    /// The supervisor's, as of its last look.
    period: Duration,
}

#[derive(Debug)]
struct Record {
    site: Site,
    stalls: u64,
    /// Those in which the thread slept, and the fibers that were started while the site was suspect; of late.
    blocked: u64,
    started: u64,
    /// When those were halved last.
    halved: Option<Moment>,
    /// Workers that are stalled by one of its fibers which is stuck. Below zero for a moment where a worker is back
    /// before the supervisor has told of its stall.
    stuck: isize,
    suspect: bool,
    /// With what came since.
    flagged: Option<Lately>,
}

/// Of a flagged site.
#[derive(Debug)]
struct Lately {
    since: Moment,
    /// Runs that are over.
    runs: u64,
    /// Times that one was stuck.
    stuck: u64,
}

#[derive(Debug)]
struct Run {
    id: u64,
    site: Site,
    thread: OsThread,
    since: Moment,
    /// How often it was found to last for long.
    looks: u32,
    stuck: bool,
}

/// A spawn site whose fibers have stalled their workers; see [`Handle::blocking_sites`].
///
/// [`Handle::blocking_sites`]: crate::runtime::Handle::blocking_sites
///
/// ```
/// use volt::runtime::{BlockingSite, Handle};
///
/// let sites: Vec<BlockingSite> = Handle::current().blocking_sites();
/// let flagged = sites.iter().filter(|site| site.flagged).count();
/// assert_eq!(flagged, 0);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct BlockingSite {
    /// Where the fibers were spawned.
    pub site: &'static Location<'static>,
    /// How often one of them kept its thread for three quarters of the supervisor's period, or longer.
    pub stalls: u64,
    /// Its fibers run in blocking mode at present, since one of them has kept its thread so while that slept: in a
    /// system call that blocks, say. One that computes for long makes nobody suspect, where the system tells the two
    /// apart (Linux does).
    pub suspect: bool,
    /// And will go on so, since half of them or more have kept a sleeping thread; until of a thousand of their turns
    /// hardly any does.
    pub flagged: bool,
}

impl Sites {
    pub(super) fn new(enabled: bool, most_runs: usize) -> Sites {
        Sites {
            enabled,
            most_runs,
            suspects: AtomicU64::new(0),
            changing: AtomicBool::new(false),
            inner: Mutex::default(),
        }
    }

    #[inline(always)]
    fn suspects(&self) -> u64 {
        self.suspects.load(Ordering::Relaxed)
    }

    /// Is there something here for the supervisor to look at?
    pub(super) fn wants_a_look(&self) -> bool {
        self.changing.load(Ordering::Relaxed)
    }

    #[inline(always)]
    pub(super) fn is_suspect(&self, site: Site) -> bool {
        let suspects = self.suspects();
        suspects != 0 && self.look_up(suspects, site)
    }

    #[cold]
    fn look_up(&self, suspects: u64, site: Site) -> bool {
        suspects & bit(site) != 0 && self.is_known_suspect(site)
    }

    fn is_known_suspect(&self, site: Site) -> bool {
        self.inner.lock().known.iter().any(|record| record.site == site && record.suspect)
    }

    fn change<R>(&self, step: impl FnOnce(&mut Inner) -> R) -> R {
        let mut inner = self.inner.lock();
        let result = step(&mut inner);
        let suspects = inner.known.iter().filter(|record| record.suspect);
        let bits = suspects.fold(0, |bits, record| bits | bit(record.site));
        self.suspects.store(bits, Ordering::Relaxed);
        let clears = |record: &Record| record.suspect && record.flagged.is_none();
        let changing =
            inner.known.iter().any(clears) || inner.runs.iter().any(Run::is_to_be_looked_at);
        self.changing.store(changing, Ordering::Relaxed);
        result
    }

    /// A fiber of `site` has stalled its worker, and if it `blocks`, is stuck.
    pub(super) fn stalled(&self, site: Site, blocks: bool) {
        self.change(|inner| {
            let record = inner.record(site);
            record.stalls += 1;
            if blocks {
                record.blocks(self.enabled);
            }
        });
    }

    /// One that has stalled its worker, and did not block then, does now.
    pub(super) fn blocks(&self, site: Site) {
        self.change(|inner| inner.record(site).blocks(self.enabled));
    }

    /// The worker of one that was stuck is back.
    pub(super) fn returned(&self, site: Site) {
        self.change(|inner| inner.record(site).stuck -= 1);
    }

    /// A fiber of a suspect site begins to run on `thread`, in blocking mode unless as many do as may.
    #[must_use]
    pub(super) fn begin(
        &self,
        site: Site,
        fresh: bool,
        thread: OsThread,
        now: Moment,
    ) -> Option<u64> {
        self.change(|inner| {
            let each = HALVED * inner.period;
            let record = inner.record(site);
            record.halve(now, each);
            record.started += u64::from(fresh);
            if inner.runs.len() >= self.most_runs {
                return None;
            }
            inner.next_run += 1;
            let id = inner.next_run;
            inner.runs.push(Run { id, site, thread, since: now, looks: 0, stuck: false });
            Some(id)
        })
    }

    /// It has come to a scheduling point.
    pub(super) fn end(&self, run: u64) {
        self.change(|inner| inner.run_ends(run));
    }

    /// The supervisor's look: counts who is stuck, and clears the sites none of whose fibers is. `blocks` says whether
    /// a thread sleeps.
    pub(super) fn look(
        &self,
        now: Moment,
        period: Duration,
        mut blocks: impl FnMut(OsThread) -> bool,
    ) {
        if self.suspects() == 0 {
            return;
        }
        // Without the lock: that takes its time, and who waits for the lock sleeps.
        let long = self.long_runs(now, period).into_iter();
        let looked_at: Vec<_> = long.map(|(run, thread)| (run, blocks(thread))).collect();
        self.change(|inner| {
            looked_at.into_iter().for_each(|(run, blocks)| inner.run_stalls(run, blocks));
            inner.period = period;
            let Inner { known, runs, .. } = inner;
            for record in known.iter_mut().filter(|record| record.suspect) {
                let stuck = runs.iter().any(|run| run.stuck && run.site == record.site);
                record.judge(stuck, now, period);
            }
        });
    }

    /// Some of those that have lasted for `period` and may be stuck.
    fn long_runs(&self, now: Moment, period: Duration) -> Vec<(u64, OsThread)> {
        let inner = self.inner.lock();
        let is_long = |run: &&Run| run.is_to_be_looked_at() && now.since(run.since) >= period;
        let long = inner.runs.iter().filter(is_long).take(AT_A_TIME);
        long.map(|run| (run.id, run.thread)).collect()
    }

    pub(super) fn report(&self) -> Vec<BlockingSite> {
        let inner = self.inner.lock();
        let site = |record: &Record| BlockingSite {
            site: record.site,
            stalls: record.stalls,
            suspect: record.suspect,
            flagged: record.flagged.is_some(),
        };
        inner.known.iter().map(site).collect()
    }
}

impl Inner {
    fn record(&mut self, site: Site) -> &mut Record {
        let index = self.known.iter().position(|record| record.site == site).unwrap_or_else(|| {
            self.known.push(Record {
                site,
                stalls: 0,
                blocked: 0,
                started: 0,
                halved: None,
                stuck: 0,
                suspect: false,
                flagged: None,
            });
            self.known.len() - 1
        });
        &mut self.known[index]
    }

    /// Where that run stands, unless it is over.
    fn place(&self, id: u64) -> Option<usize> {
        // They stand in the order of their beginnings.
        self.runs.binary_search_by_key(&id, |run| run.id).ok()
    }

    fn run_ends(&mut self, id: u64) {
        let place = self.place(id).expect("each ends once");
        let site = self.runs.remove(place).site;
        if let Some(lately) = &mut self.record(site).flagged {
            lately.runs += 1;
        }
    }

    /// Unless it is over by now: then it is no stall.
    fn run_stalls(&mut self, id: u64, blocks: bool) {
        let Some(place) = self.place(id) else { return };
        let run = &mut self.runs[place];
        let (site, first) = (run.site, run.looks == 0);
        run.looks += 1;
        run.stuck = blocks;
        let record = self.record(site);
        record.stalls += u64::from(first);
        if blocks {
            record.is_stuck();
        }
    }
}

impl Run {
    /// Once it lasts for long.
    fn is_to_be_looked_at(&self) -> bool {
        !self.stuck && self.looks < LOOKS
    }
}

impl Record {
    /// A worker is stalled by one of its fibers that is stuck.
    fn blocks(&mut self, enabled: bool) {
        self.is_stuck();
        self.stuck += 1;
        self.suspect |= enabled;
    }

    fn is_stuck(&mut self) {
        self.blocked += 1;
        if let Some(lately) = &mut self.flagged {
            lately.stuck += 1;
        }
    }

    /// Is it flagged, and is it suspect? `stuck` says that one in blocking mode is.
    fn judge(&mut self, stuck: bool, now: Moment, period: Duration) {
        self.halve(now, HALVED * period);
        let half = self.started >= ENOUGH && 2 * self.blocked >= self.started;
        match &self.flagged {
            None if half => self.flagged = Some(Lately::new(now)),
            Some(lately) if lately.are_enough(now, period) => {
                self.flagged = lately.are_many_stuck().then(|| Lately::new(now));
                (self.started, self.blocked) = (0, 0);
            }
            _ => {}
        }
        self.suspect = self.flagged.is_some() || stuck || self.stuck > 0;
    }

    fn halve(&mut self, now: Moment, each: Duration) {
        let since = *self.halved.get_or_insert(now);
        let times = now.since(since).as_nanos().checked_div(each.as_nanos()).unwrap_or(0);
        if times > 0 {
            let times = times.min(63) as u32;
            (self.started, self.blocked) = (self.started >> times, self.blocked >> times);
            self.halved = Some(now);
        }
    }
}

impl Lately {
    fn new(now: Moment) -> Lately {
        Lately { since: now, runs: 0, stuck: 0 }
    }

    fn are_enough(&self, now: Moment, period: Duration) -> bool {
        self.runs >= RUNS && now.since(self.since) >= PERIODS * period
    }

    fn are_many_stuck(&self) -> bool {
        MANY * self.stuck >= self.runs
    }
}

#[cfg(all(test, not(loom)))]
#[path = "sites_tests.rs"]
mod tests;
