//! What `volt::sync` has beyond the standard library's, on fibers, threads, and both.

mod sync_support;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use sync_support::{World, until_waiting};
use volt::sync::{
    AcquireError, Arc, Event, Notify, Semaphore, TryAcquireError, WaitGroup, broadcast, oneshot,
    watch,
};

scenarios! {
    permits_bound_who_is_inside
    permits_for_many_are_not_overtaken
    owned_permits_travel
    forgotten_permits
    permits_at_both_ends
    a_closed_semaphore
    permits_in_time
    a_group_is_waited_for
    a_group_waited_for_by_all
    a_notification_is_kept_once
    notified_one_by_one
    notified_all
    notified_in_time
    an_event
    an_event_again
    an_event_in_time
    oneshot_delivers
    oneshot_without_sender
    oneshot_in_time
    watch_sees_the_latest
    watch_ends
    watch_closed
    watch_modifies
    a_broadcast_needs_room
    broadcast_to_all
    broadcast_lag
    broadcast_ends
    broadcast_drops
    broadcast_in_time
}

fn permits_bound_who_is_inside(world: &World) {
    let (semaphore, inside) = (Arc::new(Semaphore::new(3)), Arc::new(AtomicUsize::new(0)));
    let tasks: Vec<_> = (0..8)
        .map(|_| {
            let (semaphore, inside) = (Arc::clone(&semaphore), Arc::clone(&inside));
            world.go(move || {
                for _ in 0..200 {
                    let _permit = semaphore.acquire().unwrap();
                    assert!(inside.fetch_add(1, Ordering::SeqCst) < 3);
                    volt::yield_now();
                    inside.fetch_sub(1, Ordering::SeqCst);
                }
            })
        })
        .collect();
    tasks.into_iter().for_each(|task| task.join());
    assert_eq!(semaphore.available_permits(), 3);
}

fn permits_for_many_are_not_overtaken(world: &World) {
    let semaphore = Arc::new(Semaphore::new(3));
    let held = semaphore.acquire().unwrap();
    let theirs = Arc::clone(&semaphore);
    let many = world.go(move || theirs.acquire_many(3).unwrap().num_permits());
    // From when it waits, those who want one wait too, though two are there.
    loop {
        match semaphore.try_acquire() {
            Ok(permit) => drop(permit),
            Err(error) => break assert_eq!(error, TryAcquireError::NoPermits),
        }
        volt::yield_now();
    }
    assert_eq!(semaphore.available_permits(), 2);
    drop(held);
    assert_eq!(many.join(), 3);
    assert_eq!(semaphore.available_permits(), 3);
}

fn owned_permits_travel(world: &World) {
    let semaphore = Arc::new(Semaphore::new(2));
    let permits = Arc::clone(&semaphore).acquire_many_owned(2).unwrap();
    assert!(Arc::clone(&semaphore).try_acquire_owned().is_err());
    world.go(move || drop(permits)).join();
    assert!(Arc::clone(&semaphore).try_acquire_many_owned(2).is_ok());
    assert_eq!(semaphore.available_permits(), 2);
}

fn forgotten_permits(_: &World) {
    let semaphore = Semaphore::new(3);
    semaphore.acquire().unwrap().forget();
    assert_eq!(semaphore.available_permits(), 2);
    semaphore.add_permits(2);
    assert_eq!(semaphore.forget_permits(9), 4);
    assert!(semaphore.try_acquire().is_err());
}

fn permits_at_both_ends(_: &World) {
    const MAX: usize = Semaphore::MAX_PERMITS;
    let panics = |f: &dyn Fn()| catch_unwind(AssertUnwindSafe(f)).is_err();
    // None of none.
    let semaphore = Semaphore::new(0);
    assert_eq!(semaphore.acquire_many(0).map(|none| none.num_permits()), Ok(0));
    assert_eq!(semaphore.try_acquire_many(0).map(drop), Ok(()));
    semaphore.add_permits(0);
    assert_eq!(semaphore.available_permits(), 0);
    // One more than there can be: nothing is added.
    assert!(panics(&|| drop(Semaphore::new(MAX + 1))) && panics(&|| drop(Semaphore::new(!0))));
    let semaphore = Semaphore::new(MAX - 1);
    assert!(panics(&|| semaphore.add_permits(2)) && panics(&|| semaphore.add_permits(!0)));
    assert_eq!(semaphore.available_permits(), MAX - 1);
    semaphore.add_permits(1);
    assert!(panics(&|| semaphore.add_permits(1)));
    assert_eq!(semaphore.try_acquire_many(3).map(|some| some.num_permits()), Ok(3));
    assert_eq!(semaphore.available_permits(), MAX);
}

fn a_broadcast_needs_room(_: &World) {
    assert!(catch_unwind(|| broadcast::channel::<u8>(0)).is_err());
    let (sender, mut receiver) = broadcast::channel(1);
    assert_eq!(sender.send(1).unwrap(), 1);
    assert_eq!(receiver.recv().ok(), Some(1));
}

fn a_closed_semaphore(world: &World) {
    let semaphore = Arc::new(Semaphore::new(0));
    let tasks: Vec<_> = (0..4)
        .map(|_| {
            let semaphore = Arc::clone(&semaphore);
            world.go(move || semaphore.acquire().map(drop))
        })
        .collect();
    until_waiting("semaphore", &tasks);
    semaphore.close();
    for task in tasks {
        assert_eq!(task.join(), Err(AcquireError));
    }
    semaphore.add_permits(1);
    assert_eq!(semaphore.try_acquire().map(drop), Err(TryAcquireError::Closed));
    assert!(semaphore.is_closed());
}

fn permits_in_time(world: &World) {
    let semaphore = Arc::new(Semaphore::new(0));
    for millis in [0, 5] {
        let result = semaphore.acquire_timeout(Duration::from_millis(millis)).map(drop);
        assert_eq!(result, Err(TryAcquireError::NoPermits));
    }
    let theirs = Arc::clone(&semaphore);
    let task =
        world.go(move || theirs.acquire_timeout(Duration::MAX).map(|permit| permit.forget()));
    semaphore.add_permits(1);
    assert_eq!(task.join(), Ok(()));
    assert_eq!(semaphore.available_permits(), 0);
}

fn a_group_is_waited_for(world: &World) {
    let (group, done) = (WaitGroup::new(), Arc::new(AtomicUsize::new(0)));
    let tasks: Vec<_> = (0..6)
        .map(|_| {
            let (group, done) = (group.clone(), Arc::clone(&done));
            world.go(move || {
                volt::yield_now();
                done.fetch_add(1, Ordering::SeqCst);
                drop(group);
            })
        })
        .collect();
    group.wait();
    assert_eq!(done.load(Ordering::SeqCst), 6);
    tasks.into_iter().for_each(|task| task.join());
}

fn a_group_waited_for_by_all(world: &World) {
    let group = WaitGroup::new();
    let arrived = Arc::new(AtomicUsize::new(0));
    let tasks: Vec<_> = (0..5)
        .map(|_| {
            let (group, arrived) = (group.clone(), Arc::clone(&arrived));
            world.go(move || {
                arrived.fetch_add(1, Ordering::SeqCst);
                group.wait();
                assert_eq!(arrived.load(Ordering::SeqCst), 5);
            })
        })
        .collect();
    drop(group);
    tasks.into_iter().for_each(|task| task.join());
}

fn a_notification_is_kept_once(_: &World) {
    let notify = Notify::new();
    notify.notify_one();
    notify.notify_one();
    notify.notified();
    assert!(!notify.notified_timeout(Duration::ZERO));
    notify.notify_waiters();
    assert!(!notify.notified_timeout(Duration::from_millis(1)));
}

fn notified_one_by_one(world: &World) {
    let (notify, woken) = (Arc::new(Notify::new()), Arc::new(AtomicUsize::new(0)));
    let tasks: Vec<_> = (0..5)
        .map(|_| {
            let (notify, woken) = (Arc::clone(&notify), Arc::clone(&woken));
            world.go(move || {
                notify.notified();
                woken.fetch_add(1, Ordering::SeqCst);
                // Two notifications of nobody are one, so each one waits for the last.
            })
        })
        .collect();
    for n in 1..=5 {
        notify.notify_one();
        while woken.load(Ordering::SeqCst) < n {
            volt::yield_now();
        }
        assert_eq!(woken.load(Ordering::SeqCst), n);
    }
    tasks.into_iter().for_each(|task| task.join());
}

fn notified_all(world: &World) {
    let notify = Arc::new(Notify::new());
    let tasks: Vec<_> = (0..5)
        .map(|_| {
            let notify = Arc::clone(&notify);
            world.go(move || notify.notified())
        })
        .collect();
    while !tasks.iter().all(|task| task.is_finished()) {
        notify.notify_waiters();
        volt::yield_now();
    }
    tasks.into_iter().for_each(|task| task.join());
    assert!(!notify.notified_timeout(Duration::ZERO), "nothing is kept");
}

fn notified_in_time(world: &World) {
    let notify = Arc::new(Notify::new());
    let theirs = Arc::clone(&notify);
    let task = world.go(move || theirs.notified_timeout(Duration::MAX));
    notify.notify_one();
    assert!(task.join());
}

fn an_event(world: &World) {
    let event = Arc::new(Event::new());
    let tasks: Vec<_> = (0..5)
        .map(|_| {
            let event = Arc::clone(&event);
            world.go(move || event.wait())
        })
        .collect();
    until_waiting("event", &tasks);
    assert!(tasks.iter().all(|task| !task.is_finished()));
    event.set();
    tasks.into_iter().for_each(|task| task.join());
    event.wait();
}

fn an_event_again(world: &World) {
    let (there, back) = (Arc::new(Event::new()), Arc::new(Event::new()));
    let (their_there, their_back) = (Arc::clone(&there), Arc::clone(&back));
    let task = world.go(move || {
        for _ in 0..200 {
            their_there.wait();
            assert!(their_there.reset());
            their_back.set();
        }
    });
    for _ in 0..200 {
        there.set();
        back.wait();
        assert!(back.reset());
    }
    task.join();
    assert!(!there.is_set() && !there.reset());
}

fn an_event_in_time(_: &World) {
    let event = Event::new();
    assert!(!event.wait_timeout(Duration::ZERO));
    assert!(!event.wait_timeout(Duration::from_millis(5)));
    event.set();
    assert!(event.wait_timeout(Duration::ZERO) && event.wait_timeout(Duration::MAX));
}

fn oneshot_delivers(world: &World) {
    for _ in 0..200 {
        let (sender, receiver) = oneshot::channel();
        let task = world.go(move || sender.send(1));
        assert_eq!(receiver.recv(), Ok(1));
        assert_eq!(task.join(), Ok(()));
    }
}

fn oneshot_without_sender(world: &World) {
    let (sender, receiver) = oneshot::channel::<u8>();
    let task = world.go(move || receiver.recv());
    until_waiting("oneshot", [&task]);
    drop(sender);
    assert!(task.join().is_err());
    let (sender, receiver) = oneshot::channel();
    assert!(!sender.is_closed());
    drop(receiver);
    assert!(sender.is_closed());
    assert_eq!(sender.send(3).unwrap_err().0, 3);
}

fn oneshot_in_time(world: &World) {
    let (sender, receiver) = oneshot::channel();
    assert_eq!(receiver.try_recv(), Err(oneshot::TryRecvError::Empty));
    for millis in [0, 3] {
        let result = receiver.recv_timeout(Duration::from_millis(millis));
        assert_eq!(result, Err(oneshot::RecvTimeoutError::Timeout));
    }
    let task = world.go(move || sender.send(1));
    assert_eq!(receiver.recv_timeout(Duration::MAX), Ok(1));
    task.join().unwrap();
    assert_eq!(receiver.try_recv(), Err(oneshot::TryRecvError::Disconnected));
}

fn watch_sees_the_latest(world: &World) {
    let (sender, receiver) = watch::channel(0u32);
    let tasks: Vec<_> = (0..5)
        .map(|_| {
            let mut receiver = receiver.clone();
            world.go(move || {
                let mut last = 0;
                while receiver.changed().is_ok() {
                    let now = *receiver.borrow_and_update();
                    assert!(now >= last);
                    last = now;
                }
                last
            })
        })
        .collect();
    for n in 1..=500 {
        sender.send(n).unwrap();
        if n % 50 == 0 {
            volt::yield_now();
        }
    }
    drop(sender);
    assert!(tasks.into_iter().all(|task| task.join() == 500), "the last value is seen by all");
}

fn watch_ends(_: &World) {
    let (sender, mut receiver) = watch::channel(0);
    assert_eq!(receiver.has_changed(), Ok(false));
    sender.send(1).unwrap();
    drop(sender.clone());
    drop(sender);
    assert!(receiver.has_changed().is_err());
    assert!(receiver.changed().is_ok());
    assert!(receiver.changed().is_err());
    assert_eq!(*receiver.borrow(), 1);
    assert!(receiver.wait_for(|value| *value == 2).is_err());
    assert!(receiver.wait_for(|value| *value == 1).is_ok());
}

fn watch_closed(world: &World) {
    let (sender, receiver) = watch::channel(0);
    let other = receiver.clone();
    let task = world.go(move || drop((receiver, other)));
    sender.closed();
    assert!(sender.is_closed());
    assert_eq!(sender.send(1).unwrap_err().0, 1);
    assert_eq!(sender.send_replace(2), 0);
    assert_eq!(*sender.subscribe().borrow(), 2);
    task.join();
}

fn watch_modifies(world: &World) {
    let (sender, mut receiver) = watch::channel(vec![0]);
    assert!(!sender.send_if_modified(|list| {
        list.push(1);
        false
    }));
    assert_eq!(receiver.has_changed(), Ok(false));
    let task = world.go(move || sender.send_modify(|list| list.push(2)));
    assert_eq!(*receiver.wait_for(|list| list.len() == 3).unwrap(), [0, 1, 2]);
    task.join();
}

fn broadcast_to_all(world: &World) {
    let (sender, receiver) = broadcast::channel(2_000);
    let tasks: Vec<_> = (0..4)
        .map(|_| {
            let mut receiver = sender.subscribe();
            world.go(move || receiver.iter().collect::<Vec<u32>>())
        })
        .collect();
    drop(receiver);
    for n in 0..1_000 {
        assert_eq!(sender.send(n).unwrap(), 4);
    }
    drop(sender);
    for task in tasks {
        assert!(task.join().into_iter().eq(0..1_000));
    }
}

/// Slow receivers know how much they missed, to a value.
fn broadcast_lag(world: &World) {
    let (sender, _) = broadcast::channel(8);
    let tasks: Vec<_> = (0..4)
        .map(|_| {
            let mut receiver = sender.subscribe();
            world.go(move || {
                let (mut got, mut missed, mut next) = (0, 0, 0);
                loop {
                    match receiver.recv() {
                        Ok(value) => {
                            assert_eq!(value, next);
                            (got, next) = (got + 1, next + 1);
                        }
                        Err(broadcast::RecvError::Lagged(count)) => {
                            assert!(count > 0);
                            (missed, next) = (missed + count, next + count);
                        }
                        Err(broadcast::RecvError::Closed) => return (got, missed),
                    }
                }
            })
        })
        .collect();
    for n in 0..1_000u64 {
        sender.send(n).unwrap();
        if n % 20 == 0 {
            volt::yield_now();
        }
    }
    drop(sender);
    for task in tasks {
        let (got, missed) = task.join();
        assert_eq!(got + missed, 1_000);
    }
}

fn broadcast_ends(world: &World) {
    let (sender, mut receiver) = broadcast::channel(1);
    let task = world.go(move || (receiver.recv(), receiver.recv(), receiver.try_recv()));
    sender.send(1).unwrap();
    drop(sender.clone());
    drop(sender);
    let closed = (broadcast::RecvError::Closed, broadcast::TryRecvError::Closed);
    assert_eq!(task.join(), (Ok(1), Err(closed.0), Err(closed.1)));
    let (sender, receiver) = broadcast::channel(1);
    drop(receiver);
    assert_eq!(sender.send(1).unwrap_err().0, 1);
}

#[derive(Clone)]
struct CountsDrops(Arc<AtomicUsize>);

impl Drop for CountsDrops {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

/// A value goes as soon as the last receiver has it, or is gone.
fn broadcast_drops(_: &World) {
    let drops = Arc::new(AtomicUsize::new(0));
    let (sender, mut one) = broadcast::channel(4);
    let two = sender.subscribe();
    for _ in 0..2 {
        sender.send(CountsDrops(Arc::clone(&drops))).unwrap();
    }
    drop(one.recv());
    assert_eq!((drops.load(Ordering::SeqCst), sender.len()), (1, 2), "a clone");
    drop(two);
    assert_eq!((drops.load(Ordering::SeqCst), sender.len()), (2, 1));
    drop(one.recv());
    assert_eq!((drops.load(Ordering::SeqCst), sender.len()), (3, 0), "the value itself");
}

fn broadcast_in_time(world: &World) {
    let (sender, mut receiver) = broadcast::channel(1);
    for millis in [0, 3] {
        let result = receiver.recv_timeout(Duration::from_millis(millis));
        assert_eq!(result, Err(broadcast::RecvTimeoutError::Timeout));
    }
    assert_eq!(receiver.try_recv(), Err(broadcast::TryRecvError::Empty));
    let task = world.go(move || receiver.recv_timeout(Duration::MAX));
    sender.send(1).unwrap();
    assert_eq!(task.join(), Ok(1));
}

/// What the standard library's (and crossbeam's, Tokio's) may be used for under `catch_unwind`.
#[test]
fn they_may_be_used_across_a_caught_panic() {
    use std::panic::{RefUnwindSafe, UnwindSafe};
    fn both<T: UnwindSafe + RefUnwindSafe>() {}
    both::<volt::sync::Condvar>();
    both::<volt::sync::Barrier>();
    both::<WaitGroup>();
    both::<Semaphore>();
    both::<Notify>();
    both::<Event>();
    both::<oneshot::Sender<Box<dyn Send>>>();
    both::<oneshot::Receiver<Box<dyn Send>>>();
    both::<watch::Sender<Box<dyn Send>>>();
    both::<watch::Receiver<Box<dyn Send>>>();
    both::<broadcast::Sender<Box<dyn Send>>>();
    both::<broadcast::Receiver<Box<dyn Send>>>();
    both::<volt::cancel::Token>();
    both::<volt::thread::Thread>();
    both::<volt::JoinHandle<Box<dyn Send>>>();
    both::<volt::scope::JoinSet<Box<dyn Send>>>();
    both::<volt::channel::SelectedOperation<'_>>();
    both::<volt::channel::Waiter>();
    both::<volt::runtime::Runtime>();
    both::<volt::runtime::Handle>();
}

#[test]
fn who_is_told_late_that_a_watch_is_closed_looks_again() {
    let (sender, receiver) = watch::channel(0);
    let subscribes = sender.clone();
    let runtime = volt::runtime::Builder::new_current_thread().build().unwrap();
    runtime.run(move || {
        let waits = volt::go(move || sender.closed());
        volt::yield_now();
        drop(receiver);
        let receiver = subscribes.subscribe();
        volt::yield_now();
        assert!(!waits.is_finished(), "there is a receiver");
        drop(receiver);
        waits.join().unwrap();
    });
}
