//! Selects over what is no channel: sockets, events, sets of fibers, fibers of a scope; and over places in
//! channels that are filled later, or given back.

use crate::common::{LONG, Rng, until};
use crate::ledger::{Ledger, Value};
use crate::sockets::{Pipe, over_tcp, with_little_room};
use crate::weather::{Me, Round, dawdle, micros, storm};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::Duration;
use volt::channel::{Permit, Receiver, Sender, bounded, select};
use volt::scope::JoinSet;
use volt::sync::Event;

/// What the selects of a round are over.
#[derive(Clone)]
struct Shared {
    pipe: Arc<Pipe>,
    event: Arc<Event>,
    places: Sender<Value>,
    values: Receiver<Value>,
    ledger: Arc<Ledger>,
    /// Results of sets that are there.
    results: Arc<AtomicUsize>,
}

/// Counted as long as it is there.
struct Counted(Arc<AtomicUsize>);

impl Counted {
    fn new(count: &Arc<AtomicUsize>) -> Counted {
        count.fetch_add(1, SeqCst);
        Counted(Arc::clone(count))
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_sub(1, SeqCst);
    }
}

/// `op`, which need not wait: nothing cuts it off.
#[track_caller]
fn at_once<T>(op: impl FnOnce() -> T) -> T {
    volt::timeout(Duration::ZERO, op).expect("it was chosen, so there is nothing to wait for")
}

impl Shared {
    /// Uses a place, at once or later, or does not.
    fn fill(&self, permit: Permit<'_, Value>, rng: &mut Rng) {
        if rng.below(3) == 0 {
            // May be cut off with it.
            volt::sleep(micros(rng, 60));
        }
        match rng.below(4) {
            0 => drop(permit),
            _ => self.ledger.send(|value| permit.send(value)),
        }
    }

    fn set(&self, rng: &mut Rng) -> JoinSet<Counted> {
        let mut set = JoinSet::new();
        for _ in 0..2 {
            let (results, mut rng) = (Arc::clone(&self.results), rng.fork());
            set.go(move || {
                let counted = Counted::new(&results);
                dawdle(&mut rng);
                counted
            });
        }
        set
    }

    /// Whatever of all comes first.
    fn any(&self, rng: &mut Rng) {
        let mut set = self.set(rng);
        select! {
            wait(self.pipe.reader().readable()) -> ready => {
                ready.unwrap();
                self.pipe.read(rng);
            }
            wait(self.event) -> () => dawdle(rng),
            wait(self.places) -> permit => self.fill(permit, rng),
            wait(set) -> () => assert!(at_once(|| set.join_next()).unwrap().is_ok()),
            recv(self.values) -> value => value.into_iter().for_each(Value::got),
        }
    }

    fn place_or_value(&self, rng: &mut Rng) {
        let wait = micros(rng, 80);
        select! {
            wait(self.places) -> permit => self.fill(permit, rng),
            recv(self.values) -> value => value.into_iter().for_each(Value::got),
            wait(self.pipe.reader().readable()) -> ready => ready.unwrap(),
            default(wait) => {}
        }
    }

    fn data_or_event(&self, rng: &mut Rng) {
        select! {
            wait(self.pipe.reader().readable()) -> ready => {
                ready.unwrap();
                self.pipe.read(rng);
            }
            wait(self.event) -> () => {}
        }
    }

    /// All of a set, and of two fibers that borrow, in the order in which they end.
    fn ends(&self, rng: &mut Rng) {
        let mut set = self.set(rng);
        let (done, mut seeds) = (AtomicUsize::new(0), rng.fork());
        volt::scope(|scope| {
            let mut start = || {
                let (done, mut rng) = (&done, seeds.fork());
                Some(scope.go(move || {
                    dawdle(&mut rng);
                    done.fetch_add(1, SeqCst);
                }))
            };
            let mut children = [start(), start()];
            while let [Some(first), Some(second)] = &children {
                let ended = select! {
                    wait(first) -> () => 0,
                    wait(second) -> () => 1,
                    wait(set) -> () => 2,
                };
                match children.get_mut(ended).and_then(Option::take) {
                    Some(child) => at_once(|| child.join()).unwrap(),
                    None => assert!(at_once(|| set.join_next()).unwrap().is_ok()),
                }
            }
            while !set.is_empty() {
                select! { wait(set) -> () => drop(at_once(|| set.join_next())) }
            }
        });
        assert_eq!(done.into_inner(), 2);
    }

    fn step(&self, me: &mut Me) {
        match me.rng.below(6) {
            0 => {
                me.gust("a select of ends", |rng| self.ends(rng));
            }
            1 => {
                me.gust("a select of places and values", |rng| self.place_or_value(rng));
            }
            2 => {
                me.cut("a select of data and an event", |rng| self.data_or_event(rng));
            }
            3 => match me.rng.below(2) {
                0 => self.event.set(),
                _ => drop(self.event.reset()),
            },
            _ => {
                me.cut("a select of all", |rng| self.any(rng));
            }
        }
    }
}

/// Those whom nobody cuts off: they see every byte, every value, and the event at the end.
fn steady(round: &mut Round, shared: &Shared) {
    shared.pipe.begin(round);
    let pipe = Arc::clone(&shared.pipe);
    round.steady(move |me| {
        let mut more = true;
        while more {
            me.calm("a select of the socket", |rng| {
                select! { wait(pipe.reader().readable()) -> ready => ready.unwrap() }
                more = pipe.read(rng);
            });
        }
    });
    let event = Arc::clone(&shared.event);
    round.steady(move |me| {
        me.calm("a select of the event", |_| select! { wait(event) -> () => {} });
    });
    let values = shared.values.clone();
    round.steady(move |me| {
        let mut open = true;
        while open {
            me.calm("a select of values", |_| {
                select! { recv(values) -> value => match value {
                    Ok(value) => value.got(),
                    Err(_) => open = false,
                } }
            });
        }
    });
}

fn of(room: usize) {
    storm(|round| {
        let (near, far) = if round.rng.below(2) == 0 { over_tcp() } else { with_little_room() };
        let (places, values) = bounded(room);
        let shared = Shared {
            pipe: Pipe::new(&near, &far, false, false),
            event: Arc::default(),
            places,
            values,
            ledger: Ledger::new(),
            results: Arc::default(),
        };
        steady(round, &shared);
        let theirs = shared.clone();
        round.crowd(6, move |me| theirs.step(me));
        round.blow();
        shared.event.set();
        shared.pipe.end();
        let Shared { pipe, places, values, ledger, results, .. } = shared;
        // A place that was not given back is not there.
        for _ in 0..room {
            ledger.send(|value| places.send_timeout(value, LONG).map_err(|_| panic!("no place")));
        }
        drop(places);
        round.settle();
        pipe.check();
        ledger.check(false);
        assert_eq!(values.len(), 0);
        until("the results of all sets to be gone", || results.load(SeqCst) == 0);
    });
}

#[test]
fn selects_over_all_there_is_with_a_rendezvous() {
    of(0);
}

#[test]
fn selects_over_all_there_is_with_two_places() {
    of(2);
}
