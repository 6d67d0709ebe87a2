//! Where the waiting one is, for who comes from another processor.
//!
//! Who sends to a receiver that waits goes from the channel to the node on the receiver's stack, from there to its
//! control block, and then to the frames it goes on in. Where another processor has written these last, each takes as
//! long as a line takes from one to the other, and none is known before the one in front of it has come. So who waits
//! leaves both addresses beside the lock, and who comes by fetches all three at once. A thousand actors that send to
//! each other, two workers: 181 -> 132 ns a message in minutes in which lines take long, 58 -> 55 in others (measured).
//!
//! It is left where the lock was not had by its bias, and followed the same way: the lines of one who always comes from
//! the same processor are at hand. It is followed once, since after that the fiber runs, and wants its stack for
//! itself; who goes on for another reason withdraws it.
//!
//! These are places, not pointers: nobody reads there. One that is out of date, since who settled the wait had the
//! bias, costs what it fetches, as does that of a select with so many cases that its nodes do not stand on its stack.

use super::node::Side;
use crate::primitives::prefetch_lines_to_write;
use crate::primitives::sync::atomic::Ordering;
use crate::primitives::sync::hint::AtomicUsize;

/// Lines of a control block that a wake writes, and the wait's end.
const BLOCK: usize = 2;
/// The frames of a wait are below its node, and the fiber's own code above.
const BELOW: usize = 320;
const FRAMES: usize = 9;

/// In the address of a node: it is a sender's.
const SENDS: usize = 1;

#[derive(Debug, Default)]
pub(super) struct Hint {
    /// The node, and for which side; 0 for nobody.
    node: AtomicUsize,
    waiter: AtomicUsize,
}

impl Hint {
    /// By who waits, under the lock. A function of its own: who has the bias goes past it.
    #[cold]
    #[inline(never)]
    pub(super) fn leave<N>(&self, node: *const N, waiter: usize, side: Side) {
        const { assert!(align_of::<N>() > SENDS) };
        let sends = match side {
            Side::Send => SENDS,
            Side::Receive => 0,
            // They are told, and not given anything.
            Side::WatchSend | Side::WatchReceive | Side::Collect => return,
        };
        self.waiter.store(waiter, Ordering::Relaxed);
        self.node.store(node.addr() | sends, Ordering::Relaxed);
    }

    /// By who does not wait there any more, under the lock.
    #[cold]
    #[inline(never)]
    pub(super) fn withdraw<N>(&self, node: *const N) {
        if self.node.load(Ordering::Relaxed) & !SENDS == node.addr() {
            self.node.store(0, Ordering::Relaxed);
        }
    }

    /// By who comes to settle one that waits on `side`.
    #[inline(never)]
    pub(super) fn follow(&self, side: Side) {
        let sends = if side == Side::Send { SENDS } else { 0 };
        let node = self.node.load(Ordering::Relaxed);
        if node == 0 || node & SENDS != sends {
            return;
        }
        let waiter = self.waiter.load(Ordering::Relaxed);
        prefetch_lines_to_write::<FRAMES>(std::ptr::without_provenance(node.wrapping_sub(BELOW)));
        prefetch_lines_to_write::<BLOCK>(std::ptr::without_provenance(waiter));
        self.node.store(0, Ordering::Relaxed);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::super::core::Core;
    use super::super::receiver::{Flavor, Receiver};
    use super::*;
    use crate::channel::bounded;
    use crate::primitives::asymmetric;
    use crate::primitives::clock::Moment;
    use crate::runtime::Builder;
    use std::sync::Arc;
    use std::thread;
    use std::time::{Duration, Instant};

    impl Hint {
        fn is_left(&self) -> bool {
            self.node.load(Ordering::Relaxed) != 0
        }
    }

    fn left_for(side: Side) -> Hint {
        let hint = Hint::default();
        hint.leave(&0_usize, 64, side);
        hint
    }

    #[test]
    fn it_is_followed_once_and_by_the_other_side_alone() {
        for (waits, other) in [(Side::Send, Side::Receive), (Side::Receive, Side::Send)] {
            let hint = left_for(waits);
            hint.follow(other);
            assert!(hint.is_left(), "{waits:?}: taken by one of its own side");
            hint.follow(waits);
            assert!(!hint.is_left(), "{waits:?}");
        }
    }

    #[test]
    fn who_left_it_withdraws_it_and_nobody_else() {
        let (hint, nodes) = (Hint::default(), [0_usize, 0]);
        for side in [Side::Send, Side::Receive] {
            hint.leave(&raw const nodes[0], 64, side);
            hint.withdraw(&raw const nodes[1]);
            assert!(hint.is_left(), "{side:?}");
            hint.withdraw(&raw const nodes[0]);
            assert!(!hint.is_left(), "{side:?}");
        }
    }

    #[test]
    fn a_wait_that_ends_otherwise_leaves_none() {
        let core = Core::new(Some(1));
        let deadline = || Some(Moment::now().saturating_add(Duration::from_millis(1)));
        assert!(core.recv(deadline()).is_err());
        assert!(!core.hint.is_left());
        assert_eq!(core.send(1, None), Ok(()));
        assert!(core.send(2, deadline()).is_err());
        assert!(!core.hint.is_left());
    }

    #[test]
    fn who_only_watches_leaves_none() {
        for side in [Side::WatchSend, Side::WatchReceive, Side::Collect] {
            assert!(!left_for(side).is_left(), "{side:?}");
        }
    }

    /// Does it come to be so?
    fn soon(mut is_so: impl FnMut() -> bool) -> bool {
        let start = Instant::now();
        while !is_so() && start.elapsed() < Duration::from_secs(10) {
            thread::yield_now();
        }
        is_so()
    }

    /// Plain threads never have the bias. What fails is told when nobody waits any more.
    fn waits_until_another_comes<T: Send>(waits: fn(&Core<T>), comes: fn(&Core<T>)) {
        let core = Core::new(Some(1));
        let (left, followed) = thread::scope(|scope| {
            scope.spawn(|| waits(&core));
            let left = soon(|| core.hint.is_left());
            comes(&core);
            (left, !core.hint.is_left())
        });
        assert!(left, "who waits has left no hint");
        assert!(followed);
    }

    #[test]
    fn who_waits_leaves_it_and_who_comes_follows_it() {
        let recv = |core: &Core<u32>| assert_eq!(core.recv(None), Ok(1));
        waits_until_another_comes(recv, |core| assert_eq!(core.send(1, None), Ok(())));
        waits_until_another_comes(recv, |core| assert_eq!(core.try_send(1), Ok(())));
        let send = |core: &Core<u32>| {
            assert_eq!((core.send(1, None), core.send(2, None)), (Ok(()), Ok(())));
        };
        waits_until_another_comes(send, |core| assert_eq!(core.recv(None), Ok(1)));
        waits_until_another_comes(send, |core| assert_eq!(core.try_recv(), Ok(1)));
    }

    #[test]
    fn so_it_is_with_large_messages() {
        const SIZE: usize = 2 * super::super::plain::LARGE;
        type Large = [u8; SIZE];
        let recv = |core: &Core<Large>| assert!(core.recv(None).is_ok());
        waits_until_another_comes(recv, |core| assert!(core.send([1; SIZE], None).is_ok()));
        let send = |core: &Core<Large>| {
            assert!(core.send([1; SIZE], None).is_ok() && core.send([2; SIZE], None).is_ok());
        };
        waits_until_another_comes(send, |core| assert!(core.recv(None).is_ok()));
    }

    #[test]
    fn a_select_leaves_it_and_withdraws_it() {
        let ((first, one), (_second, other)) = (bounded::<u32>(1), bounded::<u32>(1));
        let hint = |receiver: &Receiver<u32>| match &receiver.flavor {
            Flavor::Channel(core) => core.hint.is_left(),
            Flavor::Timed(_) | Flavor::Never => unreachable!("it was made as a channel"),
        };
        let (left, followed, withdrawn) = thread::scope(|scope| {
            scope.spawn(|| {
                crate::channel::select! {
                    recv(one) -> message => assert_eq!(message, Ok(1)),
                    recv(other) -> _ => unreachable!("nobody sends there"),
                }
            });
            let left = soon(|| hint(&one) && hint(&other));
            first.send(1).unwrap();
            (left, !hint(&one), soon(|| !hint(&other)))
        });
        assert!(left, "a select has left no hint");
        assert!(followed && withdrawn, "followed: {followed}, withdrawn: {withdrawn}");
    }

    /// One worker, and two that exchange messages on it: the lock is its own after some hundred of them.
    #[test]
    fn who_has_the_bias_leaves_none() {
        let runtime = Builder::new().workers(1).build().unwrap();
        let is_light = runtime.go(asymmetric::is_light).join().unwrap();
        let core = Arc::new(Core::<u32>::new(Some(0)));
        let receiver = Arc::clone(&core);
        let receives =
            runtime.go(move || (0..2_000).for_each(|i| assert_eq!(receiver.recv(None), Ok(i))));
        let left = runtime.go(move || {
            let left = |i| {
                crate::yield_now();
                let left = core.hint.is_left();
                // Of those who have the bias nobody does.
                core.hint.follow(Side::Receive);
                assert_eq!(core.send(i, None), Ok(()));
                left
            };
            ((0..1_000).filter(|i| left(*i)).count(), (1_000..2_000).filter(|i| left(*i)).count())
        });
        let (before, after) = left.join().unwrap();
        receives.join().unwrap();
        assert!(before > 0, "nobody has the bias at first");
        assert_eq!(after == 0, is_light, "{after} of 1,000");
    }
}
