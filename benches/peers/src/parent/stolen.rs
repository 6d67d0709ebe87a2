//! Processor time that the host of a virtual machine took away. A measurement that lost some is repeated, whichever peer's it is.

use std::fs::read_to_string;
use std::time::{Duration, Instant};

use super::child::Figures;

/// What may be lost of the time in which processors were busy.
const ALLOWED: f64 = 0.02;
/// In ticks of the clock that counts it, some 10 ms: less is no measure.
const TICKS: f64 = 2.0;
/// So often one is repeated at most,
const AGAIN: usize = 6;
/// and for so long all of a run together.
const PATIENCE: Duration = Duration::from_secs(20 * 60);

/// What a run has lost so far.
#[derive(Debug, Default)]
pub struct Stolen {
    spent: Duration,
    pub repeated: usize,
    /// Measurements that were not had undisturbed: the least disturbed one counts.
    pub kept: usize,
}

impl Stolen {
    /// `measure`, until it was left alone; or the one that lost least. An error is not repeated.
    pub(super) fn undisturbed(
        &mut self,
        measure: impl Fn() -> Result<Figures, String>,
    ) -> Result<Figures, String> {
        let (mut best, mut least) = lost_in(&measure, Ticks::now)?;
        for _ in 0..AGAIN {
            if least == 0.0 || self.spent > PATIENCE {
                break;
            }
            eprint!("*");
            let start = Instant::now();
            let (figures, lost) = lost_in(&measure, Ticks::now)?;
            self.spent += start.elapsed();
            self.repeated += 1;
            if lost < least {
                (best, least) = (figures, lost);
            }
        }
        self.kept += usize::from(least > 0.0);
        Ok(best)
    }
}

/// What `measure` brings, and which part of the busy time was lost meanwhile; 0 if it does not count.
fn lost_in(
    measure: impl Fn() -> Result<Figures, String>,
    now: impl Fn() -> Option<Ticks>,
) -> Result<(Figures, f64), String> {
    let before = now();
    let figures = measure()?;
    let lost = before.zip(now()).map_or(0.0, |(before, after)| before.lost_until(after));
    Ok((figures, lost))
}

/// Ticks of all processors since the system began; not to be had on every system.
#[derive(Debug, Clone, Copy)]
struct Ticks {
    busy: f64,
    stolen: f64,
}

impl Ticks {
    fn now() -> Option<Ticks> {
        Ticks::parse(&read_to_string("/proc/stat").ok()?)
    }

    /// The first line: user, nice, system, idle, iowait, irq, softirq, steal.
    fn parse(stat: &str) -> Option<Ticks> {
        let line = stat.lines().next()?.strip_prefix("cpu ")?;
        let all: Vec<f64> = line.split_whitespace().map_while(|n| n.parse().ok()).collect();
        let &[user, nice, system, _, _, irq, soft, stolen, ..] = &*all else { return None };
        Some(Ticks { busy: user + nice + system + irq + soft + stolen, stolen })
    }

    fn lost_until(self, after: Ticks) -> f64 {
        let (busy, stolen) = (after.busy - self.busy, after.stolen - self.stolen);
        if stolen <= TICKS.max(ALLOWED * busy) { 0.0 } else { stolen / busy }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    #[test]
    fn what_the_kernel_says_is_understood() {
        let ticks = Ticks::parse("cpu  100 20 30 4000 5 6 7 80 0 0\ncpu0 1 2").unwrap();
        assert_eq!((ticks.busy, ticks.stolen), (243.0, 80.0));
        assert!(Ticks::parse("intr 1 2 3").is_none() && Ticks::parse("cpu 1 2").is_none());
    }

    #[test]
    fn little_is_nothing() {
        let lost = |busy, stolen| {
            Ticks { busy: 50.0, stolen: 7.0 }
                .lost_until(Ticks { busy: 50.0 + busy, stolen: 7.0 + stolen })
        };
        assert_eq!((lost(0.0, 0.0), lost(20.0, 2.0), lost(1_000.0, 20.0)), (0.0, 0.0, 0.0));
        assert_eq!((lost(30.0, 3.0), lost(1_000.0, 50.0)), (0.1, 0.05));
    }

    /// Each measurement takes a hundred ticks, of which so many are lost.
    #[test]
    fn what_was_lost_comes_out_with_what_was_measured() {
        let stolen = Cell::new(0.0);
        let now = || Some(Ticks { busy: 10.0 * stolen.get(), stolen: stolen.get() });
        let measure = || {
            stolen.set(stolen.get() + 10.0);
            Ok(Figures::from([("figure".to_owned(), 1.0)]))
        };
        let (figures, lost) = lost_in(measure, now).unwrap();
        assert_eq!((figures["figure"], lost), (1.0, 0.1));
        assert_eq!(lost_in(|| Ok(Figures::new()), || None).unwrap().1, 0.0);
    }
}
