//! What every workload is given: how many workers, how much work, and the clock it reports with.

use std::io::{self, Write as _};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

/// How long a workload repeats itself: short, so that the peers take turns often.
const BUDGET: Duration = Duration::from_millis(250);

/// The settings of one measurement.
#[derive(Debug, Clone, Copy)]
pub struct Run {
    /// Threads that run fibers, tasks, goroutines.
    pub workers: usize,
    /// Once and small: a check that the workload works, not a figure.
    pub quick: bool,
    /// Where a server listens.
    pub addr: SocketAddr,
}

/// Tells the program that measures how far this process is, and waits until it has looked. On a
/// plain thread.
pub fn stage(name: &str) {
    say("stage", name);
    let mut line = String::new();
    io::stdin().read_line(&mut line).expect("the program that measures is there");
}

/// Hands a figure, or whatever else there is to say, to the program that measures.
pub fn say(key: &str, value: impl std::fmt::Display) {
    println!("{key} {value}");
    io::stdout().flush().expect("the program that measures is there");
}

/// Keeps the processor busy for so long.
pub fn compute_for(time: Duration) {
    let start = Instant::now();
    while start.elapsed() < time {}
}

impl Run {
    /// `full`, or `quick` in a quick run.
    pub fn scale<T>(&self, full: T, quick: T) -> T {
        if self.quick { quick } else { full }
    }

    /// A clock for samples of so many operations.
    pub fn sampler(&self, operations: u32) -> Sampler {
        Sampler {
            begin: Instant::now(),
            quick: self.quick,
            operations: f64::from(operations),
            samples: Vec::new(),
        }
    }
}

/// Collects how long each repetition took.
#[derive(Debug)]
pub struct Sampler {
    begin: Instant,
    quick: bool,
    operations: f64,
    samples: Vec<f64>,
}

impl Sampler {
    /// Whether to repeat once more: until the budget is used up, three times at least.
    pub fn again(&self) -> bool {
        match self.samples.len() {
            0 => true,
            _ if self.quick => false,
            n => n < 3 || self.begin.elapsed() < BUDGET,
        }
    }

    /// Notes one repetition.
    pub fn add(&mut self, took: Duration) {
        self.samples.push(took.as_nanos() as f64 / self.operations);
    }

    /// Nanoseconds per operation: the median of all but the first third, which warms up.
    pub fn figure(self) -> f64 {
        let mut samples = self.samples;
        let warm = samples.len() / 3;
        median(&mut samples[warm..])
    }
}

/// The middle of `values`, which it sorts; not a number if there are none.
pub fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    match values.len() {
        0 => f64::NAN,
        n => (values[(n - 1) / 2] + values[n / 2]) / 2.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_of_an_even_number_is_between_two() {
        assert_eq!(median(&mut [4.0, 1.0, 3.0, 2.0]), 2.5);
        assert_eq!(median(&mut [9.0, 1.0, 2.0]), 2.0);
    }

    #[test]
    fn the_first_third_warms_up() {
        let run = Run { workers: 1, quick: false, addr: "127.0.0.1:0".parse().unwrap() };
        let mut sampler = run.sampler(2);
        for nanos in [900, 10, 20] {
            sampler.add(Duration::from_nanos(nanos));
        }
        assert_eq!(sampler.figure(), 7.5);
    }
}
