//! The waits of fibers themselves: join, sleep, park, scopes, blocking mode.

use crate::weather::{Inside, dawdle, micros, storm, storm_on};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use volt::cancel::Cancelled;
use volt::scope::JoinSet;

/// A result is there for whoever joins, and goes if nobody does.
#[test]
fn joins() {
    struct Counted(Arc<AtomicUsize>);
    impl Drop for Counted {
        fn drop(&mut self) {
            self.0.fetch_sub(1, SeqCst);
        }
    }
    storm(|round| {
        let (alive, handle) = (Arc::new(AtomicUsize::new(0)), round.handle.clone());
        let theirs = Arc::clone(&alive);
        round.crowd(8, move |me| {
            let (alive, mut rng) = (Arc::clone(&theirs), me.rng.fork());
            let child = handle.go(move || {
                alive.fetch_add(1, SeqCst);
                let result = Counted(alive);
                dawdle(&mut rng);
                result
            });
            match me.rng.below(4) {
                0 => child.cancel(),
                1 => me.gust("dawdle", dawdle).unwrap_or_default(),
                _ => {}
            }
            me.gust("join", |_| match child.join() {
                Ok(result) => drop(result),
                Err(payload) => assert!(payload.is::<Cancelled>()),
            });
        });
        round.blow();
        round.settle();
        let live = || round.handle.stats().live;
        crate::common::until("what nobody joined to end", || live() == 0);
        assert_eq!(alive.load(SeqCst), 0);
    });
}

#[test]
fn sleeps_and_parks() {
    storm(|round| {
        let parked = Arc::new(std::sync::Mutex::new(Vec::<volt::thread::Thread>::new()));
        let theirs = Arc::clone(&parked);
        let token = volt::cancel::Token::new();
        let weather = token.clone();
        round.crowd(10, move |me| match me.rng.below(9) {
            0 => {
                me.gust("sleep", |rng| volt::sleep(micros(rng, 100)));
            }
            1 => {
                me.gust("park_timeout", |rng| volt::thread::park_timeout(micros(rng, 100)));
            }
            2 => {
                me.gust("interval", |rng| {
                    let mut interval = volt::time::interval(
                        micros(rng, 50) + micros(rng, 50).max(std::time::Duration::from_micros(1)),
                    );
                    (0..3).for_each(|_| _ = interval.tick());
                });
            }
            3 => {
                theirs.lock().unwrap().push(volt::thread::current());
                me.cut("park", |_| volt::thread::park());
            }
            4 => {
                // Late ones among them: their fiber is gone, or waits for something else.
                let one = theirs.lock().unwrap().pop();
                one.into_iter().for_each(|thread| thread.unpark());
            }
            5 => {
                let until = |rng: &mut _| volt::time::Instant::now() + micros(rng, 100);
                me.gust("sleep_until", |rng| volt::time::sleep_until(until(rng)));
            }
            6 => {
                let until = |rng: &mut _| volt::time::Instant::now() + micros(rng, 100);
                me.cut("timeout_at", |rng| {
                    volt::time::timeout_at(until(rng), volt::thread::park).unwrap_or_default();
                });
            }
            7 => {
                me.cut("token", |rng| match rng.below(8) {
                    0 => weather.cancel(),
                    _ => weather.child().cancelled(),
                });
            }
            _ => {
                me.gust("yield_now", |_| volt::yield_now());
            }
        });
        round.blow();
        parked.lock().unwrap().drain(..).for_each(|thread| thread.unpark());
    });
}

/// No child outlives the scope that it borrows from, however that ends.
#[test]
fn scopes() {
    storm(|round| {
        round.crowd(6, |me| {
            let (inside, mut seeds) = (AtomicUsize::new(0), me.rng.fork());
            let seeds: Vec<_> = (0..3).map(|_| seeds.fork()).collect();
            let run = |mut rng: crate::common::Rng| {
                let _inside = Inside::enter(&inside, 1, 4);
                dawdle(&mut rng);
                if rng.below(4) == 0 {
                    volt::sleep(micros(&mut rng, 200));
                }
            };
            // Unwinds at times as a whole.
            struct Empty<'a>(&'a AtomicUsize);
            impl Drop for Empty<'_> {
                fn drop(&mut self) {
                    assert_eq!(self.0.load(SeqCst), 0, "a child is left");
                }
            }
            let _empty = Empty(&inside);
            match me.rng.below(4) {
                0 => {
                    let [a, b] = [seeds[0].clone(), seeds[1].clone()];
                    me.gust("join!", |_| volt::join(|| run(a), || run(b)));
                }
                1 => {
                    let [a, b] = [seeds[0].clone(), seeds[1].clone()];
                    me.gust("race", |_| volt::race(|| run(a), || run(b)));
                }
                _ => {
                    me.gust("scope", |rng| {
                        volt::scope(|s| {
                            for seed in &seeds {
                                let child = s.go(|| run(seed.clone()));
                                match rng.below(3) {
                                    0 => drop(child.join()),
                                    1 => child.cancel(),
                                    _ => {}
                                }
                            }
                            dawdle(rng);
                        });
                    });
                }
            }
            assert_eq!(inside.load(SeqCst), 0, "a child is left");
        });
        round.blow();
    });
}

/// The fibers of a set that is dropped are cancelled, and end.
#[test]
fn join_sets() {
    storm(|round| {
        let inside = Arc::new(AtomicUsize::new(0));
        let theirs = Arc::clone(&inside);
        round.crowd(6, move |me| {
            let mut set = JoinSet::new();
            for _ in 0..3 {
                let (inside, mut rng) = (Arc::clone(&theirs), me.rng.fork());
                set.go(move || {
                    let _inside = Inside::enter(&inside, 1, usize::MAX);
                    dawdle(&mut rng);
                    volt::sleep(micros(&mut rng, 100));
                });
            }
            me.gust("join_next", |_| while set.join_next().is_some() {});
        });
        round.blow();
        round.settle();
        crate::common::until("all to be gone", || inside.load(SeqCst) == 0);
    });
}

/// Three may be in blocking mode; nothing ends the wait for it, and nobody's place is lost.
#[test]
fn blocking_at_its_bound() {
    storm_on(
        |builder| builder.max_blocking(3),
        |round| {
            let inside = Arc::new(AtomicUsize::new(0));
            let theirs = Arc::clone(&inside);
            for _ in 0..8 {
                let inside = Arc::clone(&theirs);
                round.fiber(move |me| {
                    me.gust("blocking", |rng| {
                        volt::blocking(|| {
                            let _inside = Inside::enter(&inside, 1, 3);
                            match rng.below(3) {
                                0 => std::thread::sleep(micros(rng, 50)),
                                // Cut off inside, on its own thread.
                                1 => volt::sleep(micros(rng, 100)),
                                _ => {}
                            }
                        });
                    });
                });
            }
            round.thread(|me| {
                me.gust("blocking", |rng| volt::blocking(|| dawdle(rng)));
            });
            round.blow();
            round.settle();
            let stats = round.handle.stats().blocking;
            assert_eq!((stats.inside, stats.waiting), (0, 0), "{stats:?}");
            assert!(stats.most <= 3 && inside.load(SeqCst) == 0, "{stats:?}");
        },
    );
}
