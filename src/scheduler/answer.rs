//! When a worker stays awake for the answer of a plain thread.
//!
//! A plain thread that spawns a fiber and joins it, again and again, or exchanges messages with one, has two wakes by the system in each
//! turn: its own, and that of the worker, which has nothing else to do meanwhile. Each takes tens of microseconds where a processor is
//! a virtual machine's and has halted. The thread spins for a moment before it sleeps (`park/patience.rs`), and would see its
//! fiber end then if the worker were awake.
//!
//! So a worker that has woken a thread and finds nothing more to do keeps a vigil (`vigil.rs`). It has paid if something came within
//! [`SOON`], whatever it was; then the next one is kept too, since a thread that spins is not woken. One that was in vain is left out the next
//! times (`back_off.rs`). One after which something came late may have waited for the wake of that thread, which is awake
//! now: it has neither paid nor failed, but two in a row have failed.
//!
//! Any worker keeps them, also one that has nobody to steal from, but not while another one searches.

use crate::util::back_off::BackOff;
use std::time::Duration;

/// About the processor time that a sleep and a wake take, 18 us on a virtual machine's processor (measured).
const SOON: Duration = Duration::from_micros(20);

/// What a worker knows of such vigils.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Answers {
    /// A thread was woken since the last sleep, or the last vigil has paid.
    expected: bool,
    /// The last answer was late.
    late: bool,
    back_off: BackOff,
}

impl Answers {
    /// A thread was woken.
    pub(super) fn expect(&mut self) {
        self.expected = true;
    }

    /// The worker finds nothing more to do: does it stay awake?
    pub(super) fn begins(&mut self) -> bool {
        self.expected &= !(self.expected && self.back_off.leaves_out());
        self.expected
    }

    /// Something came after so long, or nothing.
    pub(super) fn ends(&mut self, waited: Option<Duration>) {
        let paid = waited.is_some_and(|waited| waited <= SOON);
        let was_late = std::mem::replace(&mut self.late, false);
        if waited.is_some() && !paid && !was_late {
            self.late = true;
            return;
        }
        self.expected = paid;
        self.back_off.tried(paid);
    }

    /// The worker goes to bed.
    pub(super) fn forget(&mut self) {
        self.expected = false;
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    const LATE: Option<Duration> = Some(SOON.saturating_add(Duration::from_nanos(1)));

    impl Answers {
        /// How many threads are woken until the worker stays awake for one.
        fn wakes(&mut self) -> u32 {
            let wakes = (1..).find(|_| {
                self.expect();
                self.begins()
            });
            wakes.expect("some time")
        }

        /// A vigil ends so: does the worker keep the next one, though no thread was woken meanwhile?
        fn goes_on(&mut self, waited: Option<Duration>) -> bool {
            self.ends(waited);
            self.begins()
        }
    }

    #[test]
    fn what_comes_soon_is_waited_for_again() {
        let mut answers = Answers::default();
        assert!(!answers.begins(), "no thread was woken");
        assert_eq!(answers.wakes(), 1);
        assert!((0..9).all(|_| answers.goes_on(Some(SOON))));
        answers.forget();
        assert!(!answers.begins());
    }

    #[test]
    fn those_in_vain_become_rare() {
        let mut answers = Answers::default();
        assert_eq!(answers.wakes(), 1);
        let wakes = [(); 8].map(|()| {
            assert!(!answers.goes_on(None));
            answers.wakes()
        });
        assert_eq!(wakes, [2, 4, 8, 16, 32, 64, 64, 64]);
        assert!(answers.goes_on(Some(SOON)), "it is as good as ever");
        assert!(!answers.goes_on(None));
        assert_eq!(answers.wakes(), 2);
    }

    #[test]
    fn two_that_are_late_in_a_row_are_in_vain() {
        let mut answers = Answers::default();
        assert_eq!(answers.wakes(), 1);
        assert!(answers.goes_on(LATE) && answers.goes_on(Some(SOON)));
        assert!(answers.goes_on(LATE) && !answers.goes_on(LATE));
        assert_eq!(answers.wakes(), 2);
        assert!(answers.goes_on(LATE) && !answers.goes_on(None));
        assert_eq!(answers.wakes(), 4);
    }
}
