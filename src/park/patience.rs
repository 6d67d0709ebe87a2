//! How long one waits on the processor before one waits properly, and how long behind others.

use super::{charge_current, current_fiber};
use crate::primitives::sync::Mutex;
use crate::primitives::{self, clock::Moment};
use crate::scheduler;
use crate::util::odds::Odds;
use std::time::Duration;

/// How long a waiter that blocks its thread lets others overtake it.
const LIMIT: Duration = Duration::from_micros(500);

/// When a waiter that has been woken and found its turn taken should be served before others.
#[derive(Debug)]
pub(crate) struct Patience(Option<Moment>);

impl Patience {
    pub(crate) fn new() -> Patience {
        Patience(None)
    }

    /// Called each time that the waiter was overtaken. A fiber's patience is over at once: to be
    /// handed something costs it nothing. A thread takes long to come.
    pub(crate) fn is_over(&mut self) -> bool {
        if current_fiber().is_some() {
            return true;
        }
        let now = Moment::now();
        now.since(*self.0.get_or_insert(now)) >= LIMIT
    }
}

/// Tells the fiber that runs from others; 0 on a plain thread.
pub(crate) fn running() -> usize {
    current_fiber().map_or(0, |fiber| fiber.as_ptr().addr())
}

/// Does who waits come soon after its wake? A fiber does, in the mean.
pub(crate) fn comes_soon() -> bool {
    current_fiber().is_some()
}

/// Lets the other side get ahead of a plain thread that has caught up with it. To look at once would take
/// the line of the cache from whoever writes there, again after each value: so two that keep step are
/// slower by far than two of which one follows at a distance.
#[inline]
pub(crate) fn linger() {
    const PAUSES: u32 = 32;
    if current_fiber().is_none() {
        (0..PAUSES).for_each(|_| std::hint::spin_loop());
    }
}

/// Tries for some microseconds on a fiber that has found this `lock` taken, if that has paid of late: for longer where
/// its worker has nothing else to do. Charged for like an operation, before it begins: who never waits must leave its
/// worker to others now and then. `try_once` must not switch.
pub(crate) fn spin_on_fiber(lock: usize, try_once: impl FnMut() -> bool) -> bool {
    if current_fiber().is_none() {
        false
    } else if scheduler::begins_to_spin() {
        charge_current();
        scheduler::spin(try_once)
    } else if scheduler::begins_to_spin_at(lock) {
        charge_current();
        scheduler::spin_at(lock, try_once)
    } else {
        false
    }
}

/// Tries for some microseconds on a plain thread, whose sleep costs much more. A fiber does not:
/// to leave costs it less, and whom it waits for may be a fiber of the same worker; but see [`spin_on_fiber`].
#[inline]
pub(crate) fn spin(try_once: impl FnMut() -> bool) -> bool {
    current_fiber().is_none() && primitives::spin(try_once)
}

/// A plain thread that has spun in vain goes on for as long as a sleep and a wake take, if that has paid of late, or
/// about until `deadline`.
pub(super) fn spin_on(
    odds: &Mutex<Odds>,
    deadline: Option<Moment>,
    try_once: impl FnMut() -> bool,
) {
    let mut odds = odds.lock();
    if !odds.leaves_out() {
        odds.tried(primitives::spin_on(deadline.unwrap_or(Moment::NEVER), try_once));
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::fiber;
    use crate::park::{self, Outcome, Parking, Wait};

    #[test]
    fn a_thread_spins_on_as_long_as_that_pays() {
        let odds = Mutex::new(Odds::default());
        // How often it tries, if that is in vain until then.
        let tries = |successful: u32| {
            let mut tries = 0;
            spin_on(&odds, None, || {
                tries += 1;
                tries >= successful
            });
            tries
        };
        assert!((0..9).all(|_| tries(1) == 1));
        assert!((0..2).all(|_| tries(u32::MAX) > 1), "one is forgiven");
        assert_eq!([(); 2].map(|()| tries(1)), [0; 2], "left out");
        assert_eq!(tries(1), 1);
    }

    /// Was the thread's last wait, in vain for so long, spun for?
    fn is_spun_for(wait: Wait) -> bool {
        let odds = &fiber::thread_block().spins;
        *odds.lock() = Odds::default();
        let deadline = Some(Moment::now().saturating_add(Duration::from_micros(200)));
        assert_eq!(Parking::begin("").park(Wait { deadline, ..wait }), Outcome::TimedOut);
        odds.lock().leaves_out()
    }

    #[test]
    fn a_thread_spins_for_what_others_may_end_soon() {
        let wait = Wait::new("test");
        assert!(is_spun_for(wait));
        assert!(is_spun_for(Wait { has_spun: true, ..wait }));
        assert!(!is_spun_for(Wait { at_once: true, ..wait }));
        assert!(!is_spun_for(Wait { outside: true, ..wait }));
    }

    #[test]
    fn a_sleep_does_not_spin() {
        let odds = &fiber::thread_block().spins;
        *odds.lock() = Odds::default();
        let end = Moment::now().saturating_add(Duration::from_micros(200));
        assert_eq!(park::sleep_until(end), Outcome::TimedOut);
        assert!(!odds.lock().leaves_out());
    }
}
