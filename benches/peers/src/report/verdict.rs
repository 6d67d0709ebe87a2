//! Ratios, and whether volt reaches what it is to reach.

use std::fmt::Write as _;

use super::table::amount;
use crate::cases::{Bar, Case, Row, Unit};
use crate::parent::{Plan, Results};
use crate::peer::Peer;
use crate::run::median;

/// What `one` costs as a multiple of `other`: for a rate the inverse, so that more is always worse.
pub(super) fn cost(unit: Unit, one: f64, other: f64) -> f64 {
    let (one, other) = if unit.more_is_better() { (other, one) } else { (one, other) };
    if one <= 0.0 && other <= 0.0 { 1.0 } else { one / other.max(f64::MIN_POSITIVE) }
}

/// The median of a peer's rounds.
pub(super) fn figure(results: &Results, case: &Case, row: &Row, peer: Peer) -> Option<f64> {
    let mut figures = results.of(case, row.key, peer).to_vec();
    (!figures.is_empty()).then(|| median(&mut figures))
}

/// Half the distance between the quartiles of the rounds, as a part of the median.
pub(super) fn spread(results: &Results, case: &Case, row: &Row, peer: Peer) -> f64 {
    let mut rounds = results.of(case, row.key, peer).to_vec();
    rounds.sort_by(f64::total_cmp);
    match figure(results, case, row, peer) {
        Some(middle) if middle > 0.0 => {
            (quantile(&rounds, 0.75) - quantile(&rounds, 0.25)) / 2.0 / middle
        }
        _ => 0.0,
    }
}

/// What `part` of `sorted`, which is not empty, is not above; between two of them, in proportion.
fn quantile(sorted: &[f64], part: f64) -> f64 {
    let place = part * (sorted.len() - 1) as f64;
    let (low, high) = (sorted[place.floor() as usize], sorted[place.ceil() as usize]);
    low + (high - low) * place.fract()
}

/// How volt stands in a row.
#[derive(Debug, PartialEq)]
pub(super) struct Verdict {
    /// `0.45x of tokio`, or nothing to compare with.
    pub stands: String,
    pub bar: String,
    pub met: Option<bool>,
}

/// The peer of `among` that costs least, and volt's cost as a multiple of its.
fn against(results: &Results, case: &Case, row: &Row, among: &[Peer]) -> Option<(Peer, f64)> {
    let volt = figure(results, case, row, Peer::Volt)?;
    let costs = among
        .iter()
        .filter_map(|&peer| Some((peer, cost(row.unit, volt, figure(results, case, row, peer)?))));
    costs.max_by(|a, b| a.1.total_cmp(&b.1))
}

const PEERS: [Peer; 4] = [Peer::Tokio, Peer::May, Peer::Go, Peer::Threads];

pub(super) fn verdict(results: &Results, case: &Case, row: &Row) -> Verdict {
    let (among, most): (&[Peer], _) = match row.bar {
        Bar::OfBest(most) => (&PEERS, Some(most)),
        Bar::OfFloor(most) => (&[Peer::Floor], Some(most)),
        Bar::NotSlower => (&[Peer::Tokio, Peer::Go], Some(1.0)),
        Bar::AtMost(_) | Bar::Shown => (&PEERS, None),
    };
    let stands = against(results, case, row, among);
    let text = stands.map_or(String::new(), |(peer, x)| format!("{} of {}", times(x), peer.name()));
    let volt = figure(results, case, row, Peer::Volt);
    let (bar, met) = match (row.bar, most) {
        (Bar::AtMost(most), _) => (amount(row.unit, most), volt.map(|volt| volt <= most)),
        (_, Some(most)) => (times(most), stands.map(|(_, x)| !is_above(x, most))),
        _ => (String::new(), None),
    };
    Verdict { stands: text, bar, met }
}

/// Is it also as the report writes it?
fn is_above(x: f64, most: f64) -> bool {
    (x * 100.0).round() > (most * 100.0).round()
}

/// `0.45x`, `12x`.
pub(super) fn times(x: f64) -> String {
    match x {
        x if x >= 999.5 => ">999x".to_owned(),
        x if x >= 9.95 => format!("{x:.0}x"),
        x => format!("{x:.2}x"),
    }
}

/// A list of the rows where volt misses its bar, or is slower than Tokio or Go.
pub(super) fn shortfalls(plan: &Plan, results: &Results) -> String {
    let mut list = String::new();
    for case in &plan.cases {
        for row in case.rows {
            let mut line = Vec::new();
            let verdict = verdict(results, case, row);
            if verdict.met == Some(false) {
                line.push(format!("{}, bar {}", verdict.stands, verdict.bar));
            }
            for peer in [Peer::Tokio, Peer::Go] {
                let slower =
                    against(results, case, row, &[peer]).filter(|&(_, x)| is_above(x, 1.0));
                if let Some((_, x)) = slower.filter(|_| row.unit != Unit::Bytes) {
                    let noise =
                        spread(results, case, row, Peer::Volt) + spread(results, case, row, peer);
                    let noise = if x - 1.0 < noise { ", within the spread" } else { "" };
                    line.push(format!("slower than {} ({}{noise})", peer.name(), times(x)));
                }
            }
            if !line.is_empty() {
                let _ = writeln!(list, "- {}: {}", row.title, line.join("; "));
            }
        }
    }
    if list.is_empty() { "Nowhere in this run.\n".to_owned() } else { list }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quartiles_stand_between_figures() {
        assert_eq!(quantile(&[7.0], 0.75), 7.0);
        assert_eq!(quantile(&[1.0, 2.0, 5.0], 0.75), 3.5);
        assert_eq!(quantile(&[1.0, 2.0, 3.0, 4.0, 5.0], 0.25), 2.0);
    }

    #[test]
    fn what_reads_the_same_is_no_more() {
        assert!(!is_above(1.004, 1.0));
        assert!(is_above(1.006, 1.0));
    }

    #[test]
    fn a_rate_costs_its_inverse() {
        assert_eq!(cost(Unit::Nanos, 10.0, 20.0), 0.5);
        assert_eq!(cost(Unit::PerSecond, 10.0, 20.0), 2.0);
        assert_eq!(cost(Unit::Wakeups, 0.0, 0.0), 1.0);
        assert_eq!(cost(Unit::Wakeups, 0.0, 5.0), 0.0);
    }
}
