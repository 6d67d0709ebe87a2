//! Sends and receives, one channel at a time.

use crate::common::{LONG, within};
use crate::harness::{everywhere, ms, on_each};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use volt::channel::{
    Receiver, RecvError, RecvTimeoutError, SendError, SendTimeoutError, Sender, TryRecvError,
    TrySendError, bounded, unbounded,
};
use volt::runtime::Builder;

const COUNT: usize = 2_000;

/// Every kind of channel.
fn channels<T>() -> Vec<(Sender<T>, Receiver<T>)> {
    vec![bounded(0), bounded(1), bounded(3), bounded(1000), unbounded()]
}

/// Who sends may hold what no wait may be held over.
#[test]
fn a_send_without_a_bound_lets_nobody_else_run() {
    const SENDS: usize = 20_000;
    within(LONG, || {
        let runtime = Builder::new_current_thread().build().unwrap();
        runtime.run(|| {
            let ((s, r), turn) = (unbounded(), Arc::new(AtomicUsize::new(0)));
            let (large, _keeps) = unbounded();
            let theirs = Arc::clone(&turn);
            let other = volt::go(move || theirs.store(1, Ordering::SeqCst));
            let began = Instant::now();
            (0..SENDS).for_each(|i| s.send(i).unwrap());
            (0..SENDS / 100).for_each(|_| large.send([0u8; 2048]).unwrap());
            // Long enough for a budget to be used up, in operations and by the clock.
            while began.elapsed() < ms(1) {
                s.send(0).unwrap();
            }
            assert_eq!(turn.load(Ordering::SeqCst), 0, "it has run between two sends");
            // What may wait is charged for them.
            (0..200).for_each(|_| _ = r.recv().unwrap());
            assert_eq!(turn.load(Ordering::SeqCst), 1, "it had no turn");
            other.join().unwrap();
        });
    });
}

/// But not for as long as he has something to pass on, whichever of the two comes when his budget is used up.
#[test]
fn who_receives_between_such_sends_lets_others_run() {
    within(LONG, || {
        let runtime = Builder::new_current_thread().build().unwrap();
        for first in [0, 1] {
            runtime.run(|| {
                let ((s, r), (out, _keeps)) = (unbounded(), unbounded());
                (0..50_000).for_each(|i| s.send(i).unwrap());
                // A budget begins with a dispatch.
                volt::sleep(ms(1));
                let turn = Arc::new(AtomicUsize::new(0));
                let theirs = Arc::clone(&turn);
                let other = volt::go(move || theirs.store(1, Ordering::SeqCst));
                (0..first).for_each(|i| out.send(i).unwrap());
                (0..50_000).for_each(|_| out.send(r.recv().unwrap()).unwrap());
                assert_eq!(turn.load(Ordering::SeqCst), 1, "it had no turn, {first}");
                other.join().unwrap();
            });
        }
    });
}

#[test]
fn messages_come_in_order() {
    everywhere(|one, two| {
        for (s, r) in channels() {
            let sender = one.go(move || (0..COUNT).for_each(|i| s.send(i).unwrap()));
            let receiver = two.go(move || {
                (0..COUNT).for_each(|i| assert_eq!(r.recv(), Ok(i)));
                assert_eq!(r.recv(), Err(RecvError));
                assert_eq!(r.try_recv(), Err(TryRecvError::Disconnected));
                assert_eq!(r.recv_timeout(ms(1)), Err(RecvTimeoutError::Disconnected));
            });
            sender.join();
            receiver.join();
        }
    });
}

#[test]
fn each_message_is_received_once() {
    everywhere(|one, two| {
        for (s, r) in channels() {
            let seen: Arc<Vec<AtomicUsize>> =
                Arc::new((0..COUNT).map(|_| AtomicUsize::new(0)).collect());
            let senders: Vec<_> = (0..4)
                .map(|k| {
                    let s = s.clone();
                    one.go(move || (k..COUNT).step_by(4).for_each(|i| s.send(i).unwrap()))
                })
                .collect();
            drop(s);
            let receivers: Vec<_> = (0..4)
                .map(|_| {
                    let (r, seen) = (r.clone(), Arc::clone(&seen));
                    two.go(move || {
                        r.iter().for_each(|i| {
                            seen[i].fetch_add(1, Ordering::Relaxed);
                        });
                    })
                })
                .collect();
            senders.into_iter().for_each(|sender| sender.join());
            receivers.into_iter().for_each(|receiver| receiver.join());
            assert!(seen.iter().all(|count| count.load(Ordering::Relaxed) == 1));
        }
    });
}

#[test]
fn sizes() {
    on_each(|| {
        let (s, r) = bounded(2);
        assert_eq!((s.capacity(), s.len(), s.is_empty(), s.is_full()), (Some(2), 0, true, false));
        s.send(1).unwrap();
        assert_eq!((r.capacity(), r.len(), r.is_empty(), r.is_full()), (Some(2), 1, false, false));
        s.send(2).unwrap();
        assert_eq!((s.len(), s.is_empty(), s.is_full(), r.is_full()), (2, false, true, true));
        assert_eq!(s.try_send(3), Err(TrySendError::Full(3)));
        assert_eq!(r.recv(), Ok(1));
        assert_eq!(s.try_send(3), Ok(()));
        assert_eq!(r.try_iter().collect::<Vec<_>>(), [2, 3]);

        let (s, r) = unbounded();
        assert_eq!((s.capacity(), r.capacity(), s.is_full()), (None, None, false));
        (0..100).for_each(|i| s.send(i).unwrap());
        assert_eq!((s.len(), r.len(), r.is_full()), (100, 100, false));

        let (s, r) = bounded::<u8>(0);
        assert_eq!((s.capacity(), s.len(), s.is_empty(), s.is_full()), (Some(0), 0, true, true));
        assert_eq!((r.capacity(), r.len(), r.is_empty(), r.is_full()), (Some(0), 0, true, true));
    });
}

#[test]
fn nobody_to_meet() {
    on_each(|| {
        let (s, r) = bounded(0);
        assert_eq!(s.try_send(1), Err(TrySendError::Full(1)));
        assert_eq!(r.try_recv(), Err(TryRecvError::Empty));
        assert_eq!(s.send_timeout(2, Duration::ZERO), Err(SendTimeoutError::Timeout(2)));
        assert_eq!(r.recv_timeout(Duration::ZERO), Err(RecvTimeoutError::Timeout));
        let start = Instant::now();
        assert_eq!(s.send_timeout(2, ms(3)), Err(SendTimeoutError::Timeout(2)));
        assert_eq!(r.recv_timeout(ms(3)), Err(RecvTimeoutError::Timeout));
        assert!(start.elapsed() >= ms(6));
        let past = volt::time::Instant::now();
        assert_eq!(s.send_deadline(3, past), Err(SendTimeoutError::Timeout(3)));
        assert_eq!(r.recv_deadline(start), Err(RecvTimeoutError::Timeout));
    });
}

#[test]
fn a_rendezvous_hands_over() {
    everywhere(|one, two| {
        let (s, r) = bounded(0);
        let (ready, go_on) = bounded(1);
        let receiver = one.go(move || {
            ready.send(()).unwrap();
            r.recv()
        });
        let sender = two.go(move || {
            go_on.recv().unwrap();
            // Not before the receiver waits.
            while let Err(TrySendError::Full(7)) = s.try_send(7) {
                volt::yield_now();
            }
        });
        sender.join();
        assert_eq!(receiver.join(), Ok(7));
    });
}

#[test]
fn a_time_out_that_is_not_needed() {
    everywhere(|one, two| {
        for (s, r) in channels() {
            let sender = one.go(move || {
                (0..COUNT).for_each(|i| s.send_timeout(i, Duration::MAX).unwrap());
            });
            let receiver = two.go(move || {
                (0..COUNT).for_each(|i| assert_eq!(r.recv_timeout(Duration::MAX), Ok(i)));
            });
            sender.join();
            receiver.join();
        }
    });
}

#[test]
fn a_receiver_that_goes_ends_the_waits_of_senders() {
    everywhere(|one, two| {
        for (s, r) in channels().into_iter().filter(|(s, _)| s.capacity().is_some()) {
            (0..s.capacity().unwrap()).for_each(|i| s.send(i).unwrap());
            let senders: Vec<_> = (0..3)
                .map(|i| {
                    let s = s.clone();
                    one.go(move || s.send(i))
                })
                .collect();
            let timed = s.clone();
            let timed = one.go(move || timed.send_timeout(9, Duration::MAX));
            two.go(move || drop(r)).join();
            for (i, sender) in senders.into_iter().enumerate() {
                assert_eq!(sender.join(), Err(SendError(i)));
            }
            assert_eq!(timed.join(), Err(SendTimeoutError::Disconnected(9)));
            assert_eq!(s.try_send(1), Err(TrySendError::Disconnected(1)));
        }
    });
}

#[test]
fn a_sender_that_goes_ends_the_waits_of_receivers() {
    everywhere(|one, two| {
        for (s, r) in channels::<u8>() {
            let receivers: Vec<_> = (0..3)
                .map(|_| {
                    let r = r.clone();
                    one.go(move || (r.recv(), r.recv_timeout(Duration::MAX)))
                })
                .collect();
            two.go(move || drop(s)).join();
            for receiver in receivers {
                let expected = (Err(RecvError), Err(RecvTimeoutError::Disconnected));
                assert_eq!(receiver.join(), expected);
            }
        }
    });
}

struct Counted(Arc<AtomicUsize>);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

#[test]
fn what_nobody_receives_is_dropped_with_the_last_receiver() {
    on_each(|| {
        for (s, r) in [bounded(10), unbounded()] {
            let drops = Arc::new(AtomicUsize::new(0));
            (0..10).for_each(|_| s.send(Counted(Arc::clone(&drops))).unwrap_or_else(|_| panic!()));
            drop(r.recv());
            let other = r.clone();
            drop(r);
            assert_eq!(drops.load(Ordering::Relaxed), 1);
            drop(other);
            assert_eq!(drops.load(Ordering::Relaxed), 10, "while there is a sender");
            drop(s);
        }
    });
}

#[test]
fn a_message_may_use_its_own_channel_when_it_is_dropped() {
    struct Meddler(Option<Sender<Meddler>>, Receiver<Meddler>);
    impl Drop for Meddler {
        fn drop(&mut self) {
            // The lock is not held.
            assert!(self.1.try_recv().is_err() || self.0.is_none());
            if let Some(s) = self.0.take() {
                let _ = s.try_send(Meddler(None, self.1.clone()));
            }
        }
    }
    on_each(|| {
        let (s, r) = bounded(2);
        s.send(Meddler(Some(s.clone()), r.clone())).unwrap_or_else(|_| panic!());
        drop(r.recv());
        drop((s, r));
    });
}

#[test]
fn a_panic_in_a_drop_leaves_the_channel_usable() {
    struct Bomb;
    impl Drop for Bomb {
        fn drop(&mut self) {
            panic!("dropped");
        }
    }
    on_each(|| {
        let (s, r) = bounded(2);
        s.send(Bomb).unwrap();
        s.send(Bomb).unwrap();
        let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| drop(r)));
        assert!(caught.is_err());
        match s.try_send(Bomb) {
            Err(TrySendError::Disconnected(bomb)) => std::mem::forget(bomb),
            other => panic!("{other:?}"),
        }
        assert_eq!(s.len(), 0);
    });
}

#[test]
fn messages_of_any_size() {
    on_each(|| {
        let (s, r) = bounded(0);
        let sender = volt::go(move || (0..100).for_each(|i| s.send([i; 300]).unwrap()));
        (0..100).for_each(|i| assert_eq!(r.recv(), Ok([i; 300])));
        sender.join().unwrap();
        let (s, r) = unbounded();
        (0..100).for_each(|_| s.send(()).unwrap());
        assert_eq!(r.try_iter().count(), 100);
    });
}

#[test]
fn iterators_end() {
    on_each(|| {
        let (s, r) = unbounded();
        let sender = volt::go(move || (0..100).for_each(|i| s.send(i).unwrap()));
        let mut sum = 0;
        for i in &r {
            sum += i;
            if i == 49 {
                break;
            }
        }
        sum += r.iter().take(25).sum::<i32>();
        sum += r.into_iter().sum::<i32>();
        assert_eq!(sum, 4950);
        sender.join().unwrap();
    });
}

/// On one worker a fiber that says it is about to wait does wait before anybody else runs.
#[test]
fn those_who_wait_are_served_in_order() {
    let runtime = volt::runtime::Builder::new().workers(1).build().unwrap();
    runtime.run(|| {
        for capacity in [0, 1] {
            let (s, r) = bounded(capacity);
            (0..capacity).for_each(|_| s.send(100).unwrap());
            let spawn = |i| {
                let s = s.clone();
                let fiber = volt::go(move || s.send(i).unwrap());
                volt::yield_now();
                fiber
            };
            let senders: Vec<_> = (0..20).map(spawn).collect();
            assert_eq!(
                r.try_iter().skip(capacity).collect::<Vec<_>>(),
                (0..20).collect::<Vec<_>>()
            );
            senders.into_iter().for_each(|sender| sender.join().unwrap());

            let (got, results) = unbounded();
            let spawn = |i| {
                let (r, got) = (r.clone(), got.clone());
                let fiber = volt::go(move || got.send((i, r.recv().unwrap())).unwrap());
                volt::yield_now();
                fiber
            };
            let receivers: Vec<_> = (0..20).map(spawn).collect();
            (0..20).for_each(|i| s.send(i).unwrap());
            receivers.into_iter().for_each(|receiver| receiver.join().unwrap());
            assert!(results.try_iter().all(|(i, message)| i == message));
        }
    });
}

#[test]
fn errors_say_what_crossbeam_says() {
    assert_eq!(SendError(1).to_string(), "sending on a disconnected channel");
    assert_eq!(TrySendError::Full(1).to_string(), "sending on a full channel");
    assert_eq!(SendTimeoutError::Timeout(1).to_string(), "timed out waiting on send operation");
    assert_eq!(RecvError.to_string(), "receiving on an empty and disconnected channel");
    assert_eq!(TryRecvError::Empty.to_string(), "receiving on an empty channel");
    assert_eq!(RecvTimeoutError::Timeout.to_string(), "timed out waiting on receive operation");
    assert_eq!(RecvTimeoutError::Disconnected.to_string(), "channel is empty and disconnected");
    assert_eq!(format!("{:?}", SendError(1)), "SendError(..)");
    assert_eq!(format!("{:?}", TrySendError::Full(1)), "Full(..)");
    assert_eq!(TrySendError::from(SendError(1)), TrySendError::Disconnected(1));
    assert_eq!(RecvTimeoutError::from(RecvError), RecvTimeoutError::Disconnected);
    assert_eq!(TryRecvError::from(RecvError), TryRecvError::Disconnected);
    let boxed: Box<dyn std::error::Error + Send + Sync> =
        SendTimeoutError::from(SendError(1)).into();
    assert_eq!(boxed.to_string(), "sending on a disconnected channel");
}

#[test]
fn handles_are_sendable_when_messages_are() {
    fn sendable<T: Send + Sync + std::panic::UnwindSafe + std::panic::RefUnwindSafe>() {}
    sendable::<Sender<std::cell::Cell<u8>>>();
    sendable::<Receiver<std::cell::Cell<u8>>>();
}

/// A build without optimizations has a copy on the stack for each move. One that overflows ends this process.
#[test]
fn a_large_message_does_not_take_fifty_times_its_size_of_the_stack() {
    const SIZE: usize = 32 << 10;
    let pass = || {
        let (sender, receiver) = volt::channel::unbounded();
        sender.send([1_u8; SIZE]).unwrap();
        assert_eq!(receiver.recv().unwrap()[SIZE - 1], 1);
    };
    std::thread::Builder::new().stack_size(48 * SIZE).spawn(pass).unwrap().join().unwrap();
}
