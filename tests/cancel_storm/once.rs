//! `Once` and `OnceLock`: those who wait for another's call are cut off; what is called is not.

use crate::common::Rng;
use crate::weather::{Me, dawdle, micros, storm};
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use volt::sync::{Arc, Once, OnceLock};

/// The payload of an initialiser that is to fail.
const PLANNED: &str = "planned";

/// How `op` ended, if with a panic that it was to have: the text of that.
fn outcome<T>(op: impl FnOnce() -> T) -> Result<T, &'static str> {
    let text = |payload: Box<dyn Any + Send>| match payload.downcast::<&'static str>() {
        Ok(text) => *text,
        Err(payload) => resume_unwind(payload),
    };
    catch_unwind(AssertUnwindSafe(op)).map_err(text)
}

struct Cell {
    once: Once,
    /// Calls that have begun, and calls that have ended well.
    begun: AtomicUsize,
    done: AtomicUsize,
    /// The first call fails.
    fails: bool,
}

impl Cell {
    fn new(fails: bool) -> Cell {
        let (begun, done) = Default::default();
        Cell { once: Once::new(), begun, done, fails }
    }

    fn call(&self, rng: &mut Rng) {
        let first = self.begun.fetch_add(1, SeqCst) == 0;
        dawdle(rng);
        volt::sleep(micros(rng, 100));
        if first && self.fails {
            resume_unwind(Box::new(PLANNED));
        }
        self.done.fetch_add(1, SeqCst);
    }

    /// Tries again what has failed.
    fn call_surely(&self, rng: &mut Rng) -> Result<(), &'static str> {
        outcome(|| self.once.call_once_force(|_| self.call(rng)))
    }

    fn check_done(&self) {
        assert!(self.once.is_completed());
        assert_eq!(self.done.load(SeqCst), 1, "one call has done it");
    }

    /// After a call or a wait for one.
    fn check(&self, outcome: Result<(), &'static str>) {
        match outcome {
            Ok(()) => self.check_done(),
            Err(PLANNED) => assert!(self.fails),
            Err(text) => {
                assert!(text.starts_with("Once instance has previously been poisoned"), "{text}");
                assert!(self.fails, "nothing has failed");
            }
        }
    }
}

fn call_or_wait(cell: &Cell, me: &mut Me) {
    match me.rng.below(6) {
        0 | 1 => {
            me.gust("call_once", |rng| {
                cell.check(outcome(|| cell.once.call_once(|| cell.call(rng))))
            });
        }
        2 => {
            me.gust("call_once_force", |rng| {
                cell.check(cell.call_surely(rng));
            });
        }
        3 => {
            me.cut("Once::wait_force", |_| {
                cell.once.wait_force();
                cell.check_done();
            });
        }
        _ => {
            me.cut("Once::wait", |_| cell.check(outcome(|| cell.once.wait())));
        }
    }
}

#[test]
fn those_who_wait_for_a_call() {
    storm(|round| {
        let mut fails = || round.rng.below(4) == 0;
        let cells: Arc<Vec<_>> = Arc::new((0..16).map(|_| Cell::new(fails())).collect());
        let theirs = Arc::clone(&cells);
        // They go from one to the next together.
        let mut at = 0;
        round.crowd(8, move |me| {
            at += usize::from(me.rng.below(3) == 0);
            call_or_wait(&theirs[at % theirs.len()], me);
        });
        for _ in 0..2 {
            let theirs = Arc::clone(&cells);
            round.steady(move |me| {
                for cell in theirs.iter() {
                    me.calm("the steady wait", |_| cell.once.wait_force());
                    cell.check_done();
                }
            });
        }
        round.blow();
        for at in 0..cells.len() {
            let theirs = Arc::clone(&cells);
            round.steady(move |me| {
                // Where nobody has been yet it fails at first.
                while me.calm("the last call", |rng| theirs[at].call_surely(rng)).is_err() {}
            });
        }
        round.settle();
        for cell in cells.iter() {
            // Whoever was cut off while it waited has not begun; none that has begun was cut off.
            cell.check_done();
            assert_eq!(cell.begun.load(SeqCst), 1 + usize::from(cell.fails));
        }
    });
}

/// A number that is counted as long as it is there.
#[derive(Debug)]
struct Counted(usize, Arc<AtomicUsize>);

impl Drop for Counted {
    fn drop(&mut self) {
        self.1.fetch_sub(1, SeqCst);
    }
}

/// Places, and who has written there.
struct Places {
    places: Vec<(OnceLock<Counted>, AtomicUsize)>,
    made: AtomicUsize,
    alive: Arc<AtomicUsize>,
    /// Initialisers that have begun and not come to their end.
    unfinished: AtomicUsize,
}

impl Places {
    fn value(&self) -> Counted {
        self.alive.fetch_add(1, SeqCst);
        Counted(self.made.fetch_add(1, SeqCst), Arc::clone(&self.alive))
    }

    fn one(&self, at: usize, me: &mut Me) {
        let (place, wins) = &self.places[at];
        match me.rng.below(5) {
            0 => {
                me.gust("get_or_init", |rng| {
                    let init = || {
                        self.unfinished.fetch_add(1, SeqCst);
                        dawdle(rng);
                        volt::sleep(micros(rng, 100));
                        self.unfinished.fetch_sub(1, SeqCst);
                        if rng.below(4) == 0 {
                            resume_unwind(Box::new(PLANNED));
                        }
                        wins.fetch_add(1, SeqCst);
                        self.value()
                    };
                    if let Err(text) = outcome(|| place.get_or_init(init)) {
                        assert_eq!(text, PLANNED);
                    }
                });
            }
            1 | 2 => {
                me.gust("OnceLock::set", |_| self.set(at));
            }
            _ => {
                me.cut("OnceLock::wait", |_| {
                    assert_eq!(place.wait().0, place.get().unwrap().0);
                });
            }
        }
    }

    fn set(&self, at: usize) {
        let (place, wins) = &self.places[at];
        let value = self.value();
        let number = value.0;
        match place.set(value) {
            Ok(()) => {
                wins.fetch_add(1, SeqCst);
                assert_eq!(place.get().unwrap().0, number);
            }
            Err(back) => {
                assert_eq!(back.0, number, "its own value comes back");
                assert_ne!(place.get().unwrap().0, number);
            }
        }
    }
}

#[test]
fn those_who_wait_for_a_value() {
    storm(|round| {
        let places = (0..16).map(|_| Default::default()).collect();
        let (made, alive, unfinished) = Default::default();
        let places = Arc::new(Places { places, made, alive, unfinished });
        let theirs = Arc::clone(&places);
        let mut at = 0;
        round.crowd(8, move |me| {
            at += usize::from(me.rng.below(3) == 0);
            theirs.one(at % theirs.places.len(), me);
        });
        let theirs = Arc::clone(&places);
        round.steady(move |me| {
            for (place, _) in &theirs.places {
                me.calm("the steady wait", |_| _ = place.wait());
            }
        });
        round.blow();
        let theirs = Arc::clone(&places);
        round.steady(move |me| {
            (0..theirs.places.len()).for_each(|at| me.calm("the last set", |_| theirs.set(at)));
        });
        round.settle();
        let alive = Arc::clone(&places.alive);
        assert_eq!(alive.load(SeqCst), places.places.len(), "one value in each");
        assert_eq!(places.unfinished.load(SeqCst), 0, "an initialiser was cut off");
        assert!(places.places.iter().all(|(_, wins)| wins.load(SeqCst) == 1));
        drop(Arc::into_inner(places).expect("all have left"));
        assert_eq!(alive.load(SeqCst), 0);
    });
}
