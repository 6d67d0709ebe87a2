//! Closures and fibers side by side, which end well, fail or panic as they were told: `join!`, `race!`,
//! `try_join`, `run`, and a `JoinSet` as a whole. What they return fits that, and none outlives the call.

use crate::common::{Rng, until};
use crate::weather::{Inside, Me, dawdle, micros, storm};
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::Duration;
use volt::cancel::Cancelled;
use volt::scope::{JoinSet, try_join};

#[derive(Clone, Copy, PartialEq, Debug)]
enum Ends {
    Well,
    WithError,
    WithPanic,
}

/// What one of them is to do.
#[derive(Clone)]
struct Plan {
    number: usize,
    ends: Ends,
    /// Waits for ever: the end of another is to cut it off.
    stays: bool,
    rng: Rng,
}

impl Plan {
    fn draw(rng: &mut Rng) -> [Plan; 3] {
        // Most rounds of them are without a failure.
        let failures = rng.below(2) == 0;
        std::array::from_fn(|number| {
            let ends = match rng.below(6) {
                0 if failures => Ends::WithError,
                1 if failures => Ends::WithPanic,
                _ => Ends::Well,
            };
            Plan { number, ends, stays: false, rng: rng.fork() }
        })
    }

    /// Lets one of them stay, if another has an end that cuts off all others.
    fn one_stays(plans: &mut [Plan], rng: &mut Rng, cuts_off: fn(Ends) -> bool) {
        let stays = rng.below(2 * plans.len() as u64) as usize;
        let mut others = plans.iter().filter(|plan| plan.number != stays);
        if stays < plans.len() && others.any(|plan| cuts_off(plan.ends)) {
            plans[stays].stays = true;
        }
    }

    /// Does it end well, if nothing cuts it off?
    fn is_well(&self) -> bool {
        !self.stays && self.ends == Ends::Well
    }

    #[track_caller]
    fn check(&self, ends: Ends) {
        assert_eq!((self.ends, self.stays), (ends, false), "the end of {}", self.number);
    }

    /// Does it; `inside` knows of it meanwhile.
    fn run(mut self, inside: &AtomicUsize) -> Result<usize, usize> {
        let _inside = Inside::enter(inside, 1, usize::MAX);
        dawdle(&mut self.rng);
        if self.rng.below(3) == 0 {
            volt::sleep(micros(&mut self.rng, 150));
        }
        if self.stays {
            volt::sleep(Duration::MAX);
        }
        match self.ends {
            Ends::Well => Ok(self.number),
            Ends::WithError => Err(self.number),
            Ends::WithPanic => resume_unwind(Box::new(self.number)),
        }
    }
}

/// Fails if one is left, also where the caller unwinds.
struct Empty<'a>(&'a AtomicUsize);

impl Drop for Empty<'_> {
    fn drop(&mut self) {
        assert_eq!(self.0.load(SeqCst), 0, "one is left");
    }
}

/// The number of the planned panic that a payload is; goes on with any other.
fn planned(payload: Box<dyn Any + Send>) -> usize {
    *payload.downcast().unwrap_or_else(|payload| resume_unwind(payload))
}

/// What came of `op`, if nothing cut it off: one of its planned panics is an error too.
fn attempt<T>(me: &mut Me, what: &'static str, op: impl FnOnce() -> T) -> Option<Result<T, usize>> {
    me.gust(what, |_| catch_unwind(AssertUnwindSafe(op)).map_err(planned))
}

fn joins(me: &mut Me, mut plans: [Plan; 3], inside: &AtomicUsize) {
    Plan::one_stays(&mut plans, &mut me.rng, |ends| ends == Ends::WithPanic);
    let plans = &plans;
    let run = |n: usize| move || plans[n].clone().run(inside);
    match attempt(me, "join!", || volt::join!(run(0), run(1), run(2))) {
        Some(Ok((a, b, c))) => {
            for (plan, result) in plans.iter().zip([a, b, c]) {
                plan.check(if result.is_ok() { Ends::Well } else { Ends::WithError });
                assert_eq!(result.unwrap_or_else(|number| number), plan.number);
            }
        }
        Some(Err(number)) => plans[number].check(Ends::WithPanic),
        None => {}
    }
}

fn races(me: &mut Me, mut plans: [Plan; 3], inside: &AtomicUsize) {
    Plan::one_stays(&mut plans, &mut me.rng, |_| true);
    let plans = &plans;
    let run = |n: usize| move || plans[n].clone().run(inside);
    match attempt(me, "race!", || volt::race!(run(0), run(1), run(2))) {
        Some(Ok(Ok(number))) => plans[number].check(Ends::Well),
        Some(Ok(Err(number))) => plans[number].check(Ends::WithError),
        Some(Err(number)) => plans[number].check(Ends::WithPanic),
        None => {}
    }
}

fn tries(me: &mut Me, mut plans: [Plan; 3], inside: &AtomicUsize) {
    Plan::one_stays(&mut plans[..2], &mut me.rng, |ends| ends != Ends::Well);
    let plans = &plans;
    let run = |n: usize| move || plans[n].clone().run(inside);
    match attempt(me, "try_join", || try_join(run(0), run(1))) {
        Some(Ok(Ok(both))) => {
            assert_eq!(both, (0, 1));
            plans[..2].iter().for_each(|plan| plan.check(Ends::Well));
        }
        Some(Ok(Err(number))) => plans[number].check(Ends::WithError),
        Some(Err(number)) => plans[number].check(Ends::WithPanic),
        None => {}
    }
}

fn runs(me: &mut Me, plans: [Plan; 3], inside: &AtomicUsize) {
    let plans = &plans;
    let run = |n: usize| move || plans[n].clone().run(inside);
    let result = attempt(me, "run", || {
        // One in another.
        volt::run(|| volt::run(run(0)).is_ok() && volt::run(run(1)).is_ok())
    });
    match result {
        Some(Ok(well)) => {
            assert_eq!(well, plans[..2].iter().all(Plan::is_well));
        }
        Some(Err(number)) => plans[number].check(Ends::WithPanic),
        None => {}
    }
}

fn storm_of(what: fn(&mut Me, [Plan; 3], &AtomicUsize)) {
    storm(|round| {
        round.crowd(6, move |me| {
            let inside = AtomicUsize::new(0);
            let plans = Plan::draw(&mut me.rng);
            let _empty = Empty(&inside);
            what(me, plans, &inside);
            assert_eq!(inside.load(SeqCst), 0, "one is left");
        });
        round.blow();
    });
}

#[test]
fn joined_closures() {
    storm_of(joins);
}

#[test]
fn racing_closures() {
    storm_of(races);
}

#[test]
fn fallible_pairs() {
    storm_of(tries);
}

#[test]
fn runs_inside_fibers() {
    storm_of(runs);
}

/// A number that is counted as long as it is there.
struct Counted(usize, Arc<AtomicUsize>);

impl Counted {
    fn new(number: usize, count: &Arc<AtomicUsize>) -> Counted {
        count.fetch_add(1, SeqCst);
        Counted(number, Arc::clone(count))
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.1.fetch_sub(1, SeqCst);
    }
}

type Fallible = Result<Counted, Counted>;

/// A set of planned fibers, and whether it was cancelled.
fn set_of(plans: &[Plan], alive: &Arc<AtomicUsize>, fallible: bool) -> (JoinSet<Fallible>, bool) {
    let mut set = JoinSet::new();
    for plan in plans {
        let (plan, alive) = (plan.clone(), Arc::clone(alive));
        let body = move || {
            let count = |number| Counted::new(number, &alive);
            plan.run(&alive).map(count).map_err(count)
        };
        if fallible { set.try_go(body) } else { set.go(body) }
    }
    let cancelled = plans[0].rng.clone().below(5) == 0;
    if cancelled {
        set.cancel();
    }
    (set, cancelled)
}

/// Is the payload a cancel, and was there to be one? Else it is a planned panic.
#[track_caller]
fn check_payload(plans: &[Plan], payload: Box<dyn Any + Send>, cancelled: bool) {
    match payload.is::<Cancelled>() {
        true => assert!(cancelled, "nobody has cancelled the set"),
        false => plans[planned(payload)].check(Ends::WithPanic),
    }
}

#[test]
fn sets_that_are_joined_as_a_whole() {
    storm(|round| {
        let alive = Arc::new(AtomicUsize::new(0));
        let theirs = Arc::clone(&alive);
        round.crowd(6, move |me| {
            let mut plans = Plan::draw(&mut me.rng);
            Plan::one_stays(&mut plans, &mut me.rng, |ends| ends == Ends::WithPanic);
            let (set, cancelled) = set_of(&plans, &theirs, false);
            match me.gust("join_all", |_| set.join_all()) {
                Some(Ok(values)) => {
                    let numbers =
                        values.iter().map(|value| value.as_ref().map_or_else(|e| e.0, |v| v.0));
                    assert!(numbers.eq(0..3), "all, in their order");
                    assert!(plans.iter().all(|plan| !plan.stays && plan.ends != Ends::WithPanic));
                }
                Some(Err(payload)) => check_payload(&plans, payload, cancelled),
                None => {}
            }
        });
        round.blow();
        round.settle();
        until("all to be gone", || alive.load(SeqCst) == 0);
    });
}

#[test]
fn fallible_sets_that_are_joined_as_a_whole() {
    storm(|round| {
        let alive = Arc::new(AtomicUsize::new(0));
        let theirs = Arc::clone(&alive);
        round.crowd(6, move |me| {
            let mut plans = Plan::draw(&mut me.rng);
            Plan::one_stays(&mut plans, &mut me.rng, |ends| ends != Ends::Well);
            let (set, cancelled) = set_of(&plans, &theirs, true);
            match me.gust("try_join_all", |_| set.try_join_all()) {
                Some(Ok(Ok(values))) => {
                    assert!(values.iter().map(|value| value.0).eq(0..3), "all, in their order");
                    assert!(plans.iter().all(Plan::is_well));
                }
                Some(Ok(Err(error))) => plans[error.0].check(Ends::WithError),
                Some(Err(payload)) => check_payload(&plans, payload, cancelled),
                None => {}
            }
        });
        round.blow();
        round.settle();
        until("all to be gone", || alive.load(SeqCst) == 0);
    });
}
