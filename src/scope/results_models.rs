//! Under loom: an owner gets each result, and the failure of one fiber is there before another's end by it.

use super::*;
use crate::primitives::models::check;
use loom::thread::{JoinHandle, spawn};

const FAILED: usize = 1;

struct Set {
    results: Arc<Results<u32>>,
    token: Token,
}

impl Set {
    fn new() -> Set {
        Set { results: Arc::new(Results::new()), token: Token::new() }
    }

    fn fiber(&self, number: usize, f: fn(Report<u32>)) -> JoinHandle<()> {
        let report = Report::new(&self.results, number, &self.token, true);
        spawn(move || f(report))
    }

    /// Waits for a result.
    fn next(&self) -> (usize, Result<u32>) {
        assert_eq!(self.results.wait(Wait::cancellable("join set")), Outcome::Woken(0));
        self.results.take().expect("only its owner takes from it")
    }

    /// All results were taken, and nobody waits.
    fn is_over(&self) {
        assert!(!self.results.is_ready());
        assert!(self.results.waiters.is_empty());
    }
}

fn returns(report: Report<u32>) {
    report.ends(Ok(7), false);
}

/// Its fiber could not run.
fn fails(report: Report<u32>) {
    drop(report);
}

/// Waits until the set is cancelled.
fn is_cancelled(report: Report<u32>) {
    let cancelled = report.token().run(|| ()).unwrap_err();
    report.ends(Err(Box::new(cancelled)), false);
}

#[test]
fn two_results() {
    check(3, || {
        let set = Set::new();
        let fibers = [set.fiber(0, returns), set.fiber(1, returns)];
        let results = [set.next(), set.next()];
        assert_eq!(results.each_ref().map(|(number, _)| number).into_iter().sum::<usize>(), 1);
        assert!(results.into_iter().all(|(_, result)| result.unwrap() == 7));
        fibers.into_iter().for_each(|fiber| fiber.join().unwrap());
        assert!(!set.token.is_cancelled());
        set.is_over();
    });
}

#[test]
fn a_failure_comes_before_what_it_ends() {
    check(3, || {
        let set = Set::new();
        let fibers = [set.fiber(0, is_cancelled), set.fiber(FAILED, fails)];
        let results = [set.next(), set.next()];
        assert_eq!(results.each_ref().map(|(number, _)| *number), [FAILED, 0]);
        assert!(results.into_iter().all(|(_, result)| result.is_err()));
        fibers.into_iter().for_each(|fiber| fiber.join().unwrap());
        set.is_over();
    });
}
