//! The unit of every bench: one hot resume + suspend pair of corosensei, measured in the same run.
//!
//! Machines differ and are noisy, so each case is measured in turn with the unit, several times, and
//! the medians are compared.

#![allow(dead_code, reason = "each bench uses its part")]

use corosensei::stack::DefaultStack;
use corosensei::{Coroutine, CoroutineResult};
use std::time::Instant;

const ROUNDS: usize = 15;

/// Nanoseconds per pair, now.
pub fn unit() -> f64 {
    const PAIRS: u32 = 1_000_000;
    let mut coroutine = Coroutine::<(), (), (), DefaultStack>::new(|yielder, ()| {
        for _ in 0..PAIRS {
            yielder.suspend(());
        }
    });
    let start = Instant::now();
    while let CoroutineResult::Yield(()) = coroutine.resume(()) {}
    start.elapsed().as_nanos() as f64 / f64::from(PAIRS)
}

pub fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Runs `case`, which returns nanoseconds per operation, in turn with the unit, and prints the
/// medians beside `bar`, the most that it may cost, in units.
pub fn report(name: &str, bar: f64, mut case: impl FnMut() -> f64) {
    case();
    let (mut units, mut times, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let (unit, time) = (unit(), case());
        units.push(unit);
        times.push(time);
        ratios.push(time / unit);
    }
    let (time, unit, ratio) = (median(times), median(units), median(ratios));
    let verdict = if ratio <= bar { "met" } else { "not met" };
    println!(
        "{name:<44} {time:>8.2} ns  {ratio:>6.2} units of {unit:.2} ns  bar {bar:>4}: {verdict}"
    );
}
