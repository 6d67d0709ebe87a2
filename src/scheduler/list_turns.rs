//! How often the workers may be held up by those who list fibers.

use crate::primitives::clock::Moment;
use crate::primitives::sync::Mutex;
use std::time::Duration;

/// When lists may be made: each is followed by a time without, [`REST`] times as long as it took.
#[derive(Debug, Default)]
pub(super) struct ListTurns(Mutex<Turns>);

#[derive(Debug, Default)]
struct Turns {
    /// Not before then.
    next: Moment,
    /// As long as the last list took.
    length: Duration,
}

/// So the workers have eight ninths of the time for themselves.
const REST: u32 = 8;

impl ListTurns {
    /// Keeps a turn: when the caller's list may be made.
    pub(super) fn turn(&self, now: Moment) -> Moment {
        let mut turns = self.0.lock();
        let turn = turns.next.max(now);
        turns.next = turn.saturating_add(turns.length.saturating_mul(1 + REST));
        turn
    }

    /// A list has been made.
    pub(super) fn rest(&self, now: Moment, length: Duration) {
        let mut turns = self.0.lock();
        turns.next = turns.next.max(now.saturating_add(length.saturating_mul(REST)));
        turns.length = length;
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn at(millis: u64) -> Moment {
        Moment::default().saturating_add(Duration::from_millis(millis))
    }

    #[test]
    fn lists_leave_the_workers_time() {
        let lists = ListTurns::default();
        assert_eq!(lists.turn(at(1)), at(1));
        lists.rest(at(3), Duration::from_millis(2));
        assert_eq!(lists.turn(at(4)), at(3 + 8 * 2), "after a rest");
        assert_eq!(
            lists.turn(at(5)),
            at(19 + 9 * 2),
            "after the one before, which will take as long"
        );
        lists.rest(at(21), Duration::from_millis(2));
        assert_eq!(lists.turn(at(100)), at(100), "nobody waits for long ago");
    }
}
