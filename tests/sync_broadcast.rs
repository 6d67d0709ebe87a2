//! Broadcasts whose values do something when they are cloned or dropped, and those with many receivers.

mod sync_support;

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use sync_support::{LONG, Seed, World, fail, until_waits, within};
use volt::cancel::Token;
use volt::sync::broadcast::{self, Receiver, RecvError, Sender, TryRecvError};
use volt::sync::{Arc, Event, Mutex};

scenarios! {
    a_clone_that_panics
    a_clone_that_panics_after_a_caught_cancel
    a_clone_that_sends
    a_clone_that_waits_is_not_waited_for
    a_drop_that_uses_the_channel
    one_panic_in_a_drop_is_the_only_one
    receivers_come_and_go
}

type Hook = Arc<dyn Fn(u64) + Send + Sync>;

/// A value of which there is a count, with something to do when it is cloned or dropped.
struct Value {
    number: u64,
    on_clone: Hook,
    on_drop: Hook,
}

fn nothing() -> Hook {
    Arc::new(|_| ())
}

impl Clone for Value {
    fn clone(&self) -> Value {
        (self.on_clone)(self.number);
        Value { number: self.number, on_clone: nothing(), on_drop: nothing() }
    }
}

impl Drop for Value {
    fn drop(&mut self) {
        (self.on_drop)(self.number);
    }
}

/// Counts the drops of what was sent.
fn counted() -> (Arc<AtomicUsize>, Hook) {
    let drops = Arc::new(AtomicUsize::new(0));
    let theirs = Arc::clone(&drops);
    (drops, Arc::new(move |_| _ = theirs.fetch_add(1, SeqCst)))
}

fn send(sender: &Sender<Value>, number: u64, on_clone: &Hook, on_drop: &Hook) -> usize {
    let (on_clone, on_drop) = (Arc::clone(on_clone), Arc::clone(on_drop));
    sender
        .send(Value { number, on_clone, on_drop })
        .unwrap_or_else(|_| panic!("a receiver is there"))
}

/// It counts as received, and the other receiver has the value still.
fn a_clone_that_panics(world: &World) {
    let (drops, on_drop) = counted();
    let (sender, mut one) = broadcast::channel(2);
    let mut two = sender.subscribe();
    let panics: Hook = Arc::new(|_| fail());
    send(&sender, 0, &panics, &on_drop);
    send(&sender, 1, &nothing(), &on_drop);
    let one = world.go(move || {
        assert!(catch_unwind(AssertUnwindSafe(|| one.recv())).is_err());
        (one.recv().unwrap().number, one)
    });
    let (number, one) = one.join();
    assert_eq!((number, drops.load(SeqCst), sender.len()), (1, 0, 2));
    assert_eq!(two.recv().unwrap().number, 0, "the value itself");
    assert_eq!((drops.load(SeqCst), sender.len(), one.len()), (1, 1, 0));
}

/// As above, whichever hook the program has: the clone began after the cancel, which is not what unwinds it.
fn a_clone_that_panics_after_a_caught_cancel(_: &World) {
    let (sender, mut one) = broadcast::channel(2);
    let _two = sender.subscribe();
    // As a panic whose hook is not volt's.
    let panics: Hook = Arc::new(|_| resume_unwind(Box::new("of its own")));
    send(&sender, 0, &panics, &nothing());
    send(&sender, 1, &nothing(), &nothing());
    let token = Token::new();
    token.cancel();
    let ended = token.run(|| {
        assert!(catch_unwind(volt::thread::park).is_err());
        assert!(catch_unwind(AssertUnwindSafe(|| one.recv())).is_err());
        assert_eq!(one.recv().unwrap().number, 1);
    });
    assert!(ended.is_err() && one.is_empty());
}

/// No lock is held: it may overwrite the very value that it clones, which stays until it is done.
fn a_clone_that_sends(world: &World) {
    let (drops, on_drop) = counted();
    let (sender, mut one) = broadcast::channel(1);
    let mut two = sender.subscribe();
    let sends: Hook = Arc::new({
        let (sender, drops, on_drop) = (sender.clone(), Arc::clone(&drops), Arc::clone(&on_drop));
        move |_| {
            for number in 1..=3 {
                send(&sender, number, &nothing(), &on_drop);
            }
            assert_eq!(drops.load(SeqCst), 2, "all but the last, and the one that is cloned");
        }
    });
    send(&sender, 0, &sends, &on_drop);
    let one = world.go(move || {
        let first = one.recv().unwrap().number;
        (first, one.recv().map(|value| value.number), one.recv().unwrap().number)
    });
    assert_eq!(one.join(), (0, Err(RecvError::Lagged(2)), 3));
    assert_eq!(drops.load(SeqCst), 3);
    assert!(matches!(two.try_recv(), Err(TryRecvError::Lagged(3))));
    assert_eq!(two.try_recv().unwrap().number, 3, "the value itself");
    assert_eq!(drops.load(SeqCst), 4);
}

/// Senders overwrite what is cloned meanwhile, round after round, and use other memory.
fn a_clone_that_waits_is_not_waited_for(world: &World) {
    const ROUNDS: u64 = 50;
    let (drops, on_drop) = counted();
    let (sender, mut one) = broadcast::channel(2);
    let mut two = sender.subscribe();
    let (cloning, go_on) = (Arc::new(Event::new()), Arc::new(Event::new()));
    let waits: Hook = Arc::new({
        let (cloning, go_on) = (Arc::clone(&cloning), Arc::clone(&go_on));
        move |_| {
            cloning.set();
            go_on.wait();
        }
    });
    send(&sender, 0, &waits, &on_drop);
    let one = world.go(move || (one.recv().unwrap().number, one));
    cloning.wait();
    for number in 1..=ROUNDS {
        assert_eq!(send(&sender, number, &nothing(), &on_drop), 2);
    }
    assert!(matches!(two.recv(), Err(RecvError::Lagged(missed)) if missed == ROUNDS - 1));
    assert_eq!(drops.load(SeqCst) as u64, ROUNDS - 2, "the first, and the last two, are there");
    go_on.set();
    let (number, mut one) = one.join();
    assert_eq!((number, drops.load(SeqCst) as u64), (0, ROUNDS - 1));
    assert!(matches!(one.recv(), Err(RecvError::Lagged(missed)) if missed == ROUNDS - 2));
    assert_eq!(one.recv().unwrap().number, ROUNDS - 1);
}

/// What is overwritten, received last, or left by a receiver, is dropped outside of the lock.
fn a_drop_that_uses_the_channel(world: &World) {
    let (sender, receiver) = broadcast::channel(1);
    let drops = Arc::new(AtomicUsize::new(0));
    let looks: Hook = Arc::new({
        let (sender, drops) = (sender.clone(), Arc::clone(&drops));
        move |_| {
            drops.fetch_add(1, SeqCst);
            drop(sender.subscribe());
            let _ = (sender.len(), sender.receiver_count());
        }
    });
    let theirs = sender.clone();
    world
        .go(move || {
            send(&theirs, 0, &nothing(), &looks);
            send(&theirs, 1, &nothing(), &looks);
            let mut one = theirs.subscribe();
            send(&theirs, 2, &nothing(), &looks);
            drop(one.recv());
            drop(receiver);
        })
        .join();
    assert_eq!((drops.load(SeqCst), sender.len()), (3, 0));
}

/// How many of the values that follow one another it got and missed, from the first it heard of on.
/// A second would end the process. The rest is leaked, so here it has no memory.
fn one_panic_in_a_drop_is_the_only_one(_: &World) {
    #[derive(Clone)]
    struct Bomb;
    impl Drop for Bomb {
        fn drop(&mut self) {
            fail();
        }
    }
    let (sender, receiver) = broadcast::channel(4);
    (0..4).for_each(|_| assert!(sender.send(Bomb).is_ok()));
    assert!(catch_unwind(AssertUnwindSafe(|| drop(receiver))).is_err());
    assert!(sender.is_empty());
}

fn follow(mut receiver: Receiver<(u64, Alive)>, most: u64) -> u64 {
    let (mut next, mut got) = (None, 0);
    while got < most {
        match receiver.recv() {
            Ok((number, _)) => {
                assert!(next.is_none_or(|next| next == number), "one was lost or doubled");
                next = Some(number + 1);
                got += 1;
            }
            Err(RecvError::Lagged(missed)) => {
                assert!(missed > 0);
                next = next.map(|next| next + missed);
            }
            Err(RecvError::Closed) => break,
        }
    }
    got
}

/// One of so many that there are.
struct Alive(Arc<AtomicUsize>);

impl Alive {
    fn new(count: &Arc<AtomicUsize>) -> Alive {
        count.fetch_add(1, SeqCst);
        Alive(Arc::clone(count))
    }
}

impl Clone for Alive {
    fn clone(&self) -> Alive {
        Alive::new(&self.0)
    }
}

impl Drop for Alive {
    fn drop(&mut self) {
        self.0.fetch_sub(1, SeqCst);
    }
}

/// Some take a few values, some all; in the end nothing is left of any.
fn receivers_come_and_go(world: &World) {
    let seed = Seed::new();
    let mut rng = seed.rng();
    for capacity in [1, 2, 3, 7, 40] {
        let alive = Arc::new(AtomicUsize::new(0));
        let (sender, first) = broadcast::channel(capacity);
        let sends = {
            let alive = Arc::clone(&alive);
            world.go(move || {
                for number in 0..2_000 {
                    let _ = sender.send((number, Alive::new(&alive)));
                    if number % 64 == 0 {
                        volt::yield_now();
                    }
                }
            })
        };
        let followers: Vec<_> = (0..12)
            .map(|_| {
                let (receiver, most) = (first.resubscribe(), 1 + rng.below(200));
                world.go(move || {
                    let again = receiver.resubscribe();
                    follow(receiver, most) + follow(again, 2 * most)
                })
            })
            .collect();
        let whole = world.go(move || follow(first, u64::MAX));
        sends.join();
        followers.into_iter().for_each(|task| _ = task.join());
        assert!(whole.join() > 0);
        assert_eq!(alive.load(SeqCst), 0);
    }
}

/// A cancel that unwinds the clone has taken nothing.
#[test]
fn a_clone_that_is_cancelled() {
    within(LONG, || {
        let (drops, on_drop) = counted();
        let (sender, one) = broadcast::channel(2);
        let one = Arc::new(Mutex::new(one));
        let _two = sender.subscribe();
        let cloning = Arc::new(Event::new());
        let waits: Hook = Arc::new({
            let cloning = Arc::clone(&cloning);
            // The first time.
            move |_| {
                if !cloning.is_set() {
                    cloning.set();
                    Event::new().wait();
                }
            }
        });
        send(&sender, 0, &waits, &on_drop);
        let theirs = Arc::clone(&one);
        let fiber = volt::go(move || theirs.lock().unwrap().recv().map(|value| value.number));
        cloning.wait();
        until_waits("event", &fiber);
        fiber.cancel();
        assert!(fiber.join().is_err());
        let mut one = one.lock().unwrap();
        assert_eq!((one.len(), drops.load(SeqCst)), (1, 0));
        assert_eq!(one.recv().unwrap().number, 0);
    });
}

/// The capacity is exact, however the ring grows; and a large one costs nothing before it is used.
#[test]
fn capacities() {
    for capacity in [1, 2, 3, 5, 16, 17, 100, 1_000] {
        let (sender, mut receiver) = broadcast::channel(capacity);
        let mut late = receiver.resubscribe();
        for number in 0..capacity {
            sender.send(number).unwrap();
        }
        assert_eq!((sender.len(), late.try_recv()), (capacity, Ok(0)));
        assert_eq!(receiver.try_recv(), Ok(0));
        sender.send(capacity).unwrap();
        assert_eq!(receiver.try_recv(), Ok(1), "it was in time");
        sender.send(capacity + 1).unwrap();
        sender.send(capacity + 2).unwrap();
        assert_eq!(late.len(), capacity + 2);
        assert_eq!(late.try_recv(), Err(TryRecvError::Lagged(2)));
        assert_eq!(late.try_recv(), Ok(3));
    }
    let (sender, mut receiver) = broadcast::channel(usize::MAX);
    (0..1_000).for_each(|number| assert_eq!(sender.send(number), Ok(1)));
    assert!((0..1_000).all(|number| receiver.try_recv() == Ok(number)));
    assert_eq!(sender.len(), 0);
}
