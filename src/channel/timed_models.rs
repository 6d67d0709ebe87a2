//! Under loom: of two who take at once, one gets what the clock has made.

use super::*;
use crate::primitives::sync::Arc;
use loom::thread::spawn;

const PERIOD: Duration = Duration::from_nanos(10);

/// How many of two get a message now.
fn taken(clock: &Arc<impl Timed<Instant> + 'static>) -> usize {
    let theirs = Arc::clone(clock);
    let other = spawn(move || theirs.take(None).is_some());
    let here = clock.take(None).is_some();
    usize::from(here) + usize::from(other.join().unwrap())
}

#[test]
fn the_one_message() {
    loom::model(|| {
        let (when, due) = (Instant::now(), Moment::now());
        let clock = Arc::new(Once { when, due, taken: AtomicBool::new(false) });
        assert_eq!(taken(&clock), 1);
        assert_eq!(taken(&clock), 0);
        assert_eq!(clock.due(), Moment::NEVER);
    });
}

#[test]
fn each_tick() {
    loom::model(|| {
        let due = Moment::now();
        let clock = Arc::new(Ticks::new(Instant::now(), due, PERIOD));
        assert_eq!(taken(&clock), 1);
        assert_eq!(taken(&clock), 0);
        assert_eq!(clock.due(), due.saturating_add(PERIOD));
        clock.due().pass();
        assert_eq!(taken(&clock), 1);
    });
}
