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
    /// Some of them may become flagged, or not suspect any more, at the next look; a copy too.
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
}

#[derive(Debug)]
struct Record {
    site: Site,
    stalls: u64,
    /// Those in which the thread slept.
    blocked: u64,
    /// Fibers started since the site became known, while it was suspect.
    started: u64,
    /// Workers that are stalled by one of its fibers which is stuck. Below zero for a moment where a worker is back
    /// before the supervisor has told of its stall.
    stuck: isize,
    suspect: bool,
    flagged: bool,
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
    /// And will do so for good, since half of them or more have kept a sleeping thread.
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
        let changing = inner.known.iter().any(|record| record.suspect && !record.flagged);
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
            inner.record(site).started += u64::from(fresh);
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
        self.change(|inner| inner.runs.retain(|other| other.id != run));
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
            let Inner { known, runs, .. } = inner;
            for record in known.iter_mut().filter(|record| record.suspect) {
                record.flagged |= record.started >= ENOUGH && 2 * record.blocked >= record.started;
                let stuck = runs.iter().any(|run| run.stuck && run.site == record.site);
                record.suspect = record.flagged || stuck || record.stuck > 0;
            }
        });
    }

    /// Some of those that have lasted for `period` and may be stuck.
    fn long_runs(&self, now: Moment, period: Duration) -> Vec<(u64, OsThread)> {
        let inner = self.inner.lock();
        let is_long =
            |run: &&Run| !run.stuck && run.looks < LOOKS && now.since(run.since) >= period;
        let long = inner.runs.iter().filter(is_long).take(AT_A_TIME);
        long.map(|run| (run.id, run.thread)).collect()
    }

    pub(super) fn report(&self) -> Vec<BlockingSite> {
        let inner = self.inner.lock();
        let site = |record: &Record| BlockingSite {
            site: record.site,
            stalls: record.stalls,
            suspect: record.suspect,
            flagged: record.flagged,
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
                stuck: 0,
                suspect: false,
                flagged: false,
            });
            self.known.len() - 1
        });
        &mut self.known[index]
    }

    /// Unless it is over by now: then it is no stall.
    fn run_stalls(&mut self, id: u64, blocks: bool) {
        // They stand in the order of their beginnings.
        let Ok(place) = self.runs.binary_search_by_key(&id, |run| run.id) else { return };
        let run = &mut self.runs[place];
        let (site, first) = (run.site, run.looks == 0);
        run.looks += 1;
        run.stuck = blocks;
        let record = self.record(site);
        record.stalls += u64::from(first);
        record.blocked += u64::from(blocks);
    }
}

impl Record {
    /// A worker is stalled by one of its fibers that is stuck.
    fn blocks(&mut self, enabled: bool) {
        self.blocked += 1;
        self.stuck += 1;
        self.suspect |= enabled;
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    const PERIOD: Duration = Duration::from_millis(100);

    fn at(millis: u64) -> Moment {
        Moment::from_nanos(millis * 1_000_000)
    }

    fn sites() -> Sites {
        Sites::new(true, 512)
    }

    fn begin(sites: &Sites, site: Site, now: Moment) -> u64 {
        sites.begin(site, true, OsThread(7), now).expect("there is room")
    }

    #[test]
    fn a_site_is_suspect_while_one_of_its_fibers_is_stuck() {
        let (sites, here) = (sites(), Location::caller());
        assert!(!sites.is_suspect(here));
        sites.stalled(here, true);
        assert!(sites.is_suspect(here));
        let run = begin(&sites, here, at(0));
        sites.returned(here);
        sites.look(at(99), PERIOD, |_| true);
        assert!(!sites.is_suspect(here), "a run of less than a period is not stuck");
        sites.stalled(here, true);
        sites.look(at(100), PERIOD, |_| true);
        sites.returned(here);
        sites.look(at(101), PERIOD, |_| true);
        assert!(sites.is_suspect(here), "the run in blocking mode is stuck");
        sites.end(run);
        sites.look(at(102), PERIOD, |_| true);
        assert!(!sites.is_suspect(here));
        assert_eq!(sites.report()[0].stalls, 3);
    }

    /// A dispatch of theirs would wait for whoever has the lock, on all workers at once.
    #[test]
    fn other_sites_are_told_apart_without_the_lock() {
        let (sites, here) = (sites(), Location::caller());
        let others = [
            Location::caller(),
            Location::caller(),
            Location::caller(), //
        ];
        let other = others.into_iter().find(|other| bit(other) != bit(here)).unwrap();
        sites.stalled(here, true);
        std::thread::scope(|scope| {
            let ((says, said), sites) = (std::sync::mpsc::channel(), &sites);
            let held = sites.inner.lock();
            scope.spawn(move || says.send(sites.is_suspect(other)).unwrap());
            let suspect = said.recv_timeout(Duration::from_secs(10));
            drop(held);
            assert_eq!(suspect, Ok(false));
        });
        assert!(sites.is_suspect(here) && !sites.is_suspect(other));
    }

    #[test]
    fn a_site_that_stalls_half_the_time_is_flagged_for_good() {
        let (sites, here) = (sites(), Location::caller());
        sites.stalled(here, true);
        let mut now = 0;
        for fiber in 0..ENOUGH {
            let run = begin(&sites, here, at(now));
            now += if fiber % 2 == 0 { 100 } else { 10 };
            sites.look(at(now), PERIOD, |_| true);
            sites.end(run);
        }
        sites.returned(here);
        sites.look(at(now), PERIOD, |_| true);
        assert!(sites.report()[0].flagged && sites.is_suspect(here), "{:?}", sites.report());
    }

    #[test]
    fn a_worker_may_be_back_before_its_stall_is_told() {
        let (sites, here) = (sites(), Location::caller());
        sites.returned(here);
        sites.look(at(0), PERIOD, |_| true);
        assert!(!sites.is_suspect(here));
        sites.stalled(here, true);
        sites.look(at(1), PERIOD, |_| true);
        assert!(!sites.is_suspect(here));
        assert_eq!(sites.report()[0].stalls, 1);
    }

    #[test]
    fn one_that_stalls_less_is_not() {
        let (sites, here) = (sites(), Location::caller());
        sites.stalled(here, true);
        for _ in 0..2 * ENOUGH {
            let run = begin(&sites, here, at(0));
            sites.end(run);
        }
        sites.returned(here);
        sites.look(at(0), PERIOD, |_| true);
        assert!(!sites.is_suspect(here));
    }

    #[test]
    fn where_learning_is_off_stalls_are_only_counted() {
        let (sites, here) = (Sites::new(false, 512), Location::caller());
        sites.stalled(here, true);
        assert!(!sites.is_suspect(here));
        assert_eq!(sites.report()[0].stalls, 1);
    }
    #[test]
    fn who_computes_makes_no_site_suspect() {
        let (sites, here) = (sites(), Location::caller());
        sites.stalled(here, false);
        assert!(!sites.is_suspect(here));
        sites.look(at(0), PERIOD, |_| false);
        assert_eq!(sites.report()[0].stalls, 1, "it is counted all the same");
        sites.stalled(here, true);
        assert!(sites.is_suspect(here), "none that computes, and one that blocks");
        sites.returned(here);
        sites.look(at(0), PERIOD, |_| true);
        assert!(!sites.is_suspect(here));
    }

    /// Each of them slows the others down, so that all last for long.
    #[test]
    fn who_computes_in_blocking_mode_does_not_keep_its_site_suspect() {
        let (sites, here) = (sites(), Location::caller());
        sites.stalled(here, true);
        let runs: Vec<_> = (0..2 * ENOUGH).map(|_| begin(&sites, here, at(0))).collect();
        let asked = std::cell::Cell::new(0);
        let computes = |thread: OsThread| {
            assert_eq!(thread.0, 7);
            asked.set(asked.get() + 1);
            false
        };
        sites.look(at(99), PERIOD, computes);
        assert_eq!(asked.get(), 0, "none has lasted for a period");
        sites.look(at(100), PERIOD, computes);
        assert_eq!(asked.get(), AT_A_TIME as u64);
        (0..99).for_each(|_| sites.look(at(200), PERIOD, computes));
        assert_eq!(asked.get(), 2 * ENOUGH * u64::from(LOOKS), "each a few times");
        assert_eq!(sites.report()[0].stalls, 1 + 2 * ENOUGH);
        assert!(sites.is_suspect(here), "by the first one, which is stuck");
        sites.returned(here);
        sites.look(at(300), PERIOD, computes);
        assert!(!sites.is_suspect(here) && !sites.report()[0].flagged, "{:?}", sites.report());
        runs.into_iter().for_each(|run| sites.end(run));
    }

    /// It was over, and its thread in bed, before anybody knew whether it slept.
    #[test]
    fn a_run_that_ends_while_it_is_looked_at_is_no_stall() {
        let (sites, here) = (sites(), Location::caller());
        sites.stalled(here, true);
        let (run, other) = (begin(&sites, here, at(0)), begin(&sites, here, at(50)));
        sites.look(at(100), PERIOD, |_| {
            sites.end(run);
            true
        });
        sites.returned(here);
        sites.look(at(149), PERIOD, |_| true);
        assert!(!sites.is_suspect(here));
        assert_eq!(sites.report()[0].stalls, 1);
        sites.end(other);
    }

    #[test]
    fn no_more_run_in_blocking_mode_than_may() {
        let (sites, here) = (Sites::new(true, 2), Location::caller());
        let other = Location::caller();
        sites.stalled(here, true);
        sites.stalled(other, true);
        let first = begin(&sites, here, at(0));
        begin(&sites, other, at(0));
        assert_eq!(sites.begin(here, true, OsThread(7), at(0)), None, "of all sites together");
        assert!(sites.is_suspect(here));
        sites.end(first);
        begin(&sites, here, at(1));
    }
}
