//! `mpsc`: what the standard library's does, on fibers, threads, and both.

mod sync_support;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use sync_support::{Seed, World, until_waiting};
use volt::sync::Arc;
use volt::sync::mpsc::{
    Receiver, RecvError, RecvTimeoutError, SendError, TryRecvError, TrySendError, channel,
    sync_channel,
};

scenarios! {
    smoke
    values_are_dropped
    send_to_nobody
    receive_from_nobody
    one_to_one
    many_to_one
    a_bound_is_kept
    rendezvous
    rendezvous_tries
    many_meet_at_rendezvous
    try_send_full
    a_waiting_sender_gets_its_value_back
    a_waiting_receiver_is_told
    try_recv_states
    recv_timeouts
    recv_timeout_for_ever
    timeouts_under_load
    iterators
    order_is_kept
    senders_go_while_one_waits
    a_channel_of_channels
    bursts
    destructors_run_outside
    one_panic_in_a_destructor_is_the_only_one
}

fn smoke(_: &World) {
    let (sender, receiver) = channel();
    sender.send(1).unwrap();
    assert_eq!(receiver.recv(), Ok(1));
    let (sender, receiver) = sync_channel(1);
    sender.send(1).unwrap();
    assert_eq!(receiver.recv(), Ok(1));
    assert_eq!(format!("{sender:?} {receiver:?}"), "SyncSender { .. } Receiver { .. }");
}

struct CountsDrops(Arc<AtomicUsize>);

impl Drop for CountsDrops {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

fn values_are_dropped(_: &World) {
    let drops = Arc::new(AtomicUsize::new(0));
    let (sender, receiver) = channel();
    (0..5).for_each(|_| sender.send(CountsDrops(Arc::clone(&drops))).unwrap());
    drop(receiver.recv());
    assert_eq!(drops.load(Ordering::SeqCst), 1);
    sender.send(CountsDrops(Arc::clone(&drops))).unwrap();
    drop(receiver);
    assert_eq!(drops.load(Ordering::SeqCst), 6);
    let (sender, receiver) = sync_channel(5);
    (0..5).for_each(|_| sender.send(CountsDrops(Arc::clone(&drops))).unwrap());
    drop((sender, receiver));
    assert_eq!(drops.load(Ordering::SeqCst), 11);
}

fn send_to_nobody(_: &World) {
    let (sender, receiver) = channel();
    drop(receiver);
    assert_eq!(sender.send(1), Err(SendError(1)));
    for bound in [0, 1] {
        let (sender, receiver) = sync_channel(bound);
        drop(receiver);
        assert_eq!(sender.send(1), Err(SendError(1)));
        assert_eq!(sender.try_send(2), Err(TrySendError::Disconnected(2)));
    }
}

fn nobody_sends<S>((sender, receiver): (S, Receiver<u8>)) {
    drop(sender);
    assert_eq!(receiver.recv(), Err(RecvError));
    assert_eq!(receiver.try_recv(), Err(TryRecvError::Disconnected));
    let result = receiver.recv_timeout(Duration::from_secs(9));
    assert_eq!(result, Err(RecvTimeoutError::Disconnected));
}

fn receive_from_nobody(_: &World) {
    nobody_sends(channel());
    nobody_sends(sync_channel(0));
    nobody_sends(sync_channel(2));
    let (sender, receiver) = channel();
    sender.send(1).unwrap();
    drop(sender);
    assert_eq!(receiver.recv(), Ok(1));
    nobody_sends(((), receiver));
}

const VALUES: u64 = 2_000;

fn one_to_one(world: &World) {
    let (sender, receiver) = channel();
    let task = world.go(move || (0..VALUES).for_each(|n| sender.send(n).unwrap()));
    (0..VALUES).for_each(|n| assert_eq!(receiver.recv(), Ok(n)));
    task.join();
    assert_eq!(receiver.recv(), Err(RecvError));
}

fn many_to_one(world: &World) {
    for bound in [None, Some(0), Some(1), Some(7)] {
        let (sent, receiver): (Vec<_>, _) = match bound {
            None => {
                let (sender, receiver) = channel();
                let go = |_| {
                    let sender = sender.clone();
                    world.go(move || (1..=300).for_each(|n: u64| sender.send(n).unwrap()))
                };
                ((0..6).map(go).collect(), receiver)
            }
            Some(bound) => {
                let (sender, receiver) = sync_channel(bound);
                let go = |_| {
                    let sender = sender.clone();
                    world.go(move || (1..=300).for_each(|n: u64| sender.send(n).unwrap()))
                };
                ((0..6).map(go).collect(), receiver)
            }
        };
        assert_eq!(receiver.iter().sum::<u64>(), 6 * 300 * 301 / 2);
        sent.into_iter().for_each(|task| task.join());
    }
}

fn a_bound_is_kept(world: &World) {
    let (sender, receiver) = sync_channel(3);
    let sent = Arc::new(AtomicUsize::new(0));
    let counts = Arc::clone(&sent);
    let task = world.go(move || {
        for n in 0..100 {
            sender.send(n).unwrap();
            counts.fetch_add(1, Ordering::SeqCst);
        }
    });
    for received in 0..100 {
        assert!(sent.load(Ordering::SeqCst) <= received + 3);
        assert_eq!(receiver.recv(), Ok(received));
    }
    task.join();
}

fn rendezvous(world: &World) {
    let (sender, receiver) = sync_channel(0);
    let task = world.go(move || sender.send(1).unwrap());
    until_waiting("channel", [&task]);
    assert!(!task.is_finished(), "nobody has received it");
    assert_eq!(receiver.recv(), Ok(1));
    task.join();
}

fn rendezvous_tries(world: &World) {
    let (sender, receiver) = sync_channel(0);
    assert_eq!(sender.try_send(1), Err(TrySendError::Full(1)));
    assert_eq!(receiver.try_recv(), Err(TryRecvError::Empty));
    let task = world.go(move || receiver.recv());
    while sender.try_send(2).is_err() {
        volt::yield_now();
    }
    assert_eq!(task.join(), Ok(2));
}

fn many_meet_at_rendezvous(world: &World) {
    let (sender, receiver) = sync_channel(0);
    let tasks: Vec<_> = (0..4)
        .map(|_| {
            let sender = sender.clone();
            world.go(move || (0..200u64).for_each(|n| sender.send(n).unwrap()))
        })
        .collect();
    drop(sender);
    assert_eq!(receiver.into_iter().sum::<u64>(), 4 * 199 * 100);
    tasks.into_iter().for_each(|task| task.join());
}

fn try_send_full(_: &World) {
    let (sender, receiver) = sync_channel(2);
    sender.try_send(1).unwrap();
    sender.try_send(2).unwrap();
    assert_eq!(sender.try_send(3), Err(TrySendError::Full(3)));
    assert_eq!(receiver.recv(), Ok(1));
    sender.try_send(3).unwrap();
    assert_eq!(receiver.try_iter().collect::<Vec<_>>(), [2, 3]);
}

fn a_waiting_sender_gets_its_value_back(world: &World) {
    for bound in [0, 1] {
        let (sender, receiver) = sync_channel(bound);
        (0..bound).for_each(|n| sender.send(n).unwrap());
        let tasks: Vec<_> = (10..14)
            .map(|n| {
                let sender = sender.clone();
                world.go(move || sender.send(n))
            })
            .collect();
        until_waiting("channel", &tasks);
        assert!(tasks.iter().all(|task| !task.is_finished()));
        drop(receiver);
        for (n, task) in (10..14).zip(tasks) {
            assert_eq!(task.join(), Err(SendError(n)));
        }
    }
}

fn a_waiting_receiver_is_told(world: &World) {
    let (sender, receiver) = channel::<u8>();
    let task = world.go(move || receiver.recv());
    until_waiting("channel", [&task]);
    drop(sender);
    assert_eq!(task.join(), Err(RecvError));
    let (sender, receiver) = sync_channel::<u8>(0);
    let task = world.go(move || receiver.recv());
    until_waiting("channel", [&task]);
    drop(sender);
    assert_eq!(task.join(), Err(RecvError));
}

fn try_recv_states(_: &World) {
    let (sender, receiver) = channel();
    assert_eq!(receiver.try_recv(), Err(TryRecvError::Empty));
    sender.send(1).unwrap();
    assert_eq!(receiver.try_recv(), Ok(1));
    assert_eq!(receiver.try_recv(), Err(TryRecvError::Empty));
    drop(sender);
    assert_eq!(receiver.try_recv(), Err(TryRecvError::Disconnected));
}

fn timeouts(receiver: &Receiver<u8>) {
    for millis in [0, 1, 15] {
        let (start, timeout) = (Instant::now(), Duration::from_millis(millis));
        assert_eq!(receiver.recv_timeout(timeout), Err(RecvTimeoutError::Timeout));
        assert!(start.elapsed() >= timeout);
    }
}

fn recv_timeouts(_: &World) {
    let (sender, receiver) = channel();
    timeouts(&receiver);
    sender.send(1).unwrap();
    assert_eq!(receiver.recv_timeout(Duration::ZERO), Ok(1));
    let (sender, receiver) = sync_channel(1);
    timeouts(&receiver);
    sender.send(1).unwrap();
    assert_eq!(receiver.recv_timeout(Duration::ZERO), Ok(1));
    let (_sender, receiver) = sync_channel(0);
    timeouts(&receiver);
}

fn recv_timeout_for_ever(world: &World) {
    let (sender, receiver) = channel();
    let task = world.go(move || receiver.recv_timeout(Duration::MAX));
    until_waiting("channel", [&task]);
    sender.send(1).unwrap();
    assert_eq!(task.join(), Ok(1));
    let (sender, receiver) = sync_channel(0);
    let task = world.go(move || receiver.recv_timeout(Duration::MAX));
    until_waiting("channel", [&task]);
    sender.send(1).unwrap();
    assert_eq!(task.join(), Ok(1));
}

/// Receivers that give up at the moment that values come lose none.
fn timeouts_under_load(world: &World) {
    let seed = Seed::new();
    let mut rng = seed.rng();
    for bound in [None, Some(0), Some(2)] {
        let mut pauses = rng.fork();
        let mut nap = move || match pauses.below(4) {
            0 => volt::sleep(Duration::from_micros(pauses.below(300))),
            1 => volt::yield_now(),
            _ => {}
        };
        let (task, receiver) = match bound {
            None => {
                let (sender, receiver) = channel();
                let send = move || (0..400).for_each(|n: u64| (nap(), sender.send(n).unwrap()).1);
                (world.go(send), receiver)
            }
            Some(bound) => {
                let (sender, receiver) = sync_channel(bound);
                let send = move || (0..400).for_each(|n: u64| (nap(), sender.send(n).unwrap()).1);
                (world.go(send), receiver)
            }
        };
        let mut next = 0;
        loop {
            match receiver.recv_timeout(Duration::from_micros(rng.below(200))) {
                Ok(n) => {
                    assert_eq!(n, next);
                    next += 1;
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
        }
        assert_eq!(next, 400);
        task.join();
    }
}

fn iterators(world: &World) {
    let (sender, receiver) = channel();
    let task = world.go(move || (0..5).for_each(|n| sender.send(n).unwrap()));
    assert_eq!((&receiver).into_iter().take(2).collect::<Vec<_>>(), [0, 1]);
    assert_eq!(receiver.iter().next(), Some(2));
    task.join();
    assert_eq!(receiver.try_iter().next(), Some(3));
    assert_eq!(receiver.into_iter().collect::<Vec<_>>(), [4]);
}

fn order_is_kept(world: &World) {
    let (sender, receiver) = sync_channel(3);
    let tasks: Vec<_> = (0..4)
        .map(|who| {
            let sender = sender.clone();
            world.go(move || (0..200).for_each(|n| sender.send((who, n)).unwrap()))
        })
        .collect();
    drop(sender);
    let mut next = [0; 4];
    for (who, n) in receiver {
        assert_eq!(n, next[who]);
        next[who] += 1;
    }
    assert_eq!(next, [200; 4]);
    tasks.into_iter().for_each(|task| task.join());
}

fn senders_go_while_one_waits(world: &World) {
    for _ in 0..50 {
        let (sender, receiver) = channel::<u8>();
        let tasks: Vec<_> = (0..4)
            .map(|_| {
                let sender = sender.clone();
                world.go(move || drop(sender))
            })
            .collect();
        drop(sender);
        assert_eq!(receiver.recv(), Err(RecvError));
        tasks.into_iter().for_each(|task| task.join());
    }
}

fn a_channel_of_channels(world: &World) {
    let (sender, receiver) = channel();
    let task = world.go(move || {
        for (n, back) in receiver {
            let back: volt::sync::mpsc::Sender<u32> = back;
            back.send(n + 1).unwrap();
        }
    });
    for n in 0..100 {
        let (back, answer) = channel();
        sender.send((n, back)).unwrap();
        assert_eq!(answer.recv(), Ok(n + 1));
    }
    drop(sender);
    task.join();
}

fn bursts(_: &World) {
    let (sender, receiver) = channel();
    for round in 0..20 {
        let count = if round % 5 == 0 { 20_000 } else { 3 };
        (0..count).for_each(|n| sender.send(n).unwrap());
        (0..count).for_each(|n| assert_eq!(receiver.recv(), Ok(n)));
    }
}

/// A value's destructor may use the channel that it was in.
fn destructors_run_outside(_: &World) {
    struct Sends(volt::sync::mpsc::Sender<Option<Sends>>);
    impl Drop for Sends {
        fn drop(&mut self) {
            assert!(self.0.send(None).is_err());
        }
    }
    let (sender, receiver) = channel();
    sender.send(Some(Sends(sender.clone()))).unwrap();
    drop(receiver);
}

/// A second would end the process.
fn one_panic_in_a_destructor_is_the_only_one(_: &World) {
    struct Bomb;
    impl Drop for Bomb {
        fn drop(&mut self) {
            panic!("dropped");
        }
    }
    let goes = |receiver| catch_unwind(AssertUnwindSafe(|| drop::<Receiver<Bomb>>(receiver)));
    let (sender, receiver) = channel();
    (0..100).for_each(|_| assert!(sender.send(Bomb).is_ok()));
    drop(sender);
    assert!(goes(receiver).is_err());
    let (sender, receiver) = sync_channel(4);
    (0..4).for_each(|_| assert!(sender.send(Bomb).is_ok()));
    drop(sender);
    assert!(goes(receiver).is_err());
}
