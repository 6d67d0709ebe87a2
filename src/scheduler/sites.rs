//! Spawn sites whose fibers block their threads unannounced, as far as the supervisor has seen.
//!
//! A site is *suspect* from its first stall until none of its fibers is stuck. Fibers of a suspect site
//! start and go on in blocking mode: their worker hands its core on before it runs them. A site half
//! of whose fibers stall is *flagged*, and stays suspect. (After ZIO's learned blocking sites.)
//!
//! While no site is suspect, which is nearly always, a dispatch pays one load. While some are, it looks at their bits,
//! and only where its fiber's is among them into the list of sites.

use crate::primitives::clock::Moment;
use crate::primitives::sync::Mutex;
use crate::primitives::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::panic::Location;
use std::time::Duration;

/// Fibers of a suspect site that are started before the site can be flagged.
const ENOUGH: u64 = 64;

pub(super) type Site = &'static Location<'static>;

#[derive(Debug)]
pub(super) struct Sites {
    enabled: bool,
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
    /// Fibers started since the site became known, while it was suspect.
    started: u64,
    /// Workers that are stalled by one of its fibers. Below zero for a moment where a worker is back
    /// before the supervisor has told of its stall.
    stuck: isize,
    suspect: bool,
    flagged: bool,
}

#[derive(Debug)]
struct Run {
    id: u64,
    site: Site,
    since: Moment,
    /// Counted as a stall already.
    stuck: bool,
}

/// A spawn site whose fibers have blocked their workers; see [`Handle::blocking_sites`].
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
    /// How often one of them kept its thread for longer than the supervisor's period.
    pub stalls: u64,
    /// Its fibers run in blocking mode at present.
    pub suspect: bool,
    /// And will do so for good, since half of them or more have stalled.
    pub flagged: bool,
}

impl Sites {
    pub(super) fn new(enabled: bool) -> Sites {
        Sites {
            enabled,
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

    /// A fiber of `site` has stalled its worker.
    pub(super) fn stalled(&self, site: Site) {
        self.change(|inner| {
            let record = inner.record(site);
            record.stuck += 1;
            record.stalls += 1;
            record.suspect |= self.enabled;
        });
    }

    /// That worker is back.
    pub(super) fn returned(&self, site: Site) {
        self.change(|inner| inner.record(site).stuck -= 1);
    }

    /// A fiber of a suspect site begins to run in blocking mode.
    #[must_use]
    pub(super) fn begin(&self, site: Site, fresh: bool, now: Moment) -> u64 {
        self.change(|inner| {
            inner.record(site).started += u64::from(fresh);
            inner.next_run += 1;
            inner.runs.push(Run { id: inner.next_run, site, since: now, stuck: false });
            inner.next_run
        })
    }

    /// It has come to a scheduling point.
    pub(super) fn end(&self, run: u64) {
        self.change(|inner| inner.runs.retain(|other| other.id != run));
    }

    /// The supervisor's look: counts who is stuck, and clears the sites none of whose fibers is.
    pub(super) fn look(&self, now: Moment, period: Duration) {
        if self.suspects() == 0 {
            return;
        }
        self.change(|inner| {
            let Inner { known, runs, .. } = inner;
            for run in runs.iter_mut().filter(|run| !run.stuck && now.since(run.since) >= period) {
                run.stuck = true;
                let record = known.iter_mut().find(|record| record.site == run.site);
                record.into_iter().for_each(|record| record.stalls += 1);
            }
            for record in known.iter_mut().filter(|record| record.suspect) {
                record.flagged |= record.started >= ENOUGH && 2 * record.stalls >= record.started;
                let stuck = runs.iter().any(|run| run.stuck && run.site == record.site);
                record.suspect = record.flagged || stuck || record.stuck > 0;
            }
        });
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
                started: 0,
                stuck: 0,
                suspect: false,
                flagged: false,
            });
            self.known.len() - 1
        });
        &mut self.known[index]
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    const PERIOD: Duration = Duration::from_millis(100);

    fn at(millis: u64) -> Moment {
        Moment::from_nanos(millis * 1_000_000)
    }

    #[test]
    fn a_site_is_suspect_while_one_of_its_fibers_is_stuck() {
        let (sites, here) = (Sites::new(true), Location::caller());
        assert!(!sites.is_suspect(here));
        sites.stalled(here);
        assert!(sites.is_suspect(here));
        let run = sites.begin(here, true, at(0));
        sites.returned(here);
        sites.look(at(99), PERIOD);
        assert!(!sites.is_suspect(here), "a run of less than a period is not stuck");
        sites.stalled(here);
        sites.look(at(100), PERIOD);
        sites.returned(here);
        sites.look(at(101), PERIOD);
        assert!(sites.is_suspect(here), "the run in blocking mode is stuck");
        sites.end(run);
        sites.look(at(102), PERIOD);
        assert!(!sites.is_suspect(here));
        assert_eq!(sites.report()[0].stalls, 3);
    }

    /// A dispatch of theirs would wait for whoever has the lock, on all workers at once.
    #[test]
    fn other_sites_are_told_apart_without_the_lock() {
        let (sites, here) = (Sites::new(true), Location::caller());
        let others = [
            Location::caller(),
            Location::caller(),
            Location::caller(), //
        ];
        let other = others.into_iter().find(|other| bit(other) != bit(here)).unwrap();
        sites.stalled(here);
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
        let (sites, here) = (Sites::new(true), Location::caller());
        sites.stalled(here);
        let mut now = 0;
        for fiber in 0..ENOUGH {
            let run = sites.begin(here, true, at(now));
            now += if fiber % 2 == 0 { 100 } else { 10 };
            sites.look(at(now), PERIOD);
            sites.end(run);
        }
        sites.returned(here);
        sites.look(at(now), PERIOD);
        assert!(sites.report()[0].flagged && sites.is_suspect(here), "{:?}", sites.report());
    }

    #[test]
    fn a_worker_may_be_back_before_its_stall_is_told() {
        let (sites, here) = (Sites::new(true), Location::caller());
        sites.returned(here);
        sites.look(at(0), PERIOD);
        assert!(!sites.is_suspect(here));
        sites.stalled(here);
        sites.look(at(1), PERIOD);
        assert!(!sites.is_suspect(here));
        assert_eq!(sites.report()[0].stalls, 1);
    }

    #[test]
    fn one_that_stalls_less_is_not() {
        let (sites, here) = (Sites::new(true), Location::caller());
        sites.stalled(here);
        for _ in 0..2 * ENOUGH {
            let run = sites.begin(here, true, at(0));
            sites.end(run);
        }
        sites.returned(here);
        sites.look(at(0), PERIOD);
        assert!(!sites.is_suspect(here));
    }

    #[test]
    fn where_learning_is_off_stalls_are_only_counted() {
        let (sites, here) = (Sites::new(false), Location::caller());
        sites.stalled(here);
        assert!(!sites.is_suspect(here));
        assert_eq!(sites.report()[0].stalls, 1);
    }
}
