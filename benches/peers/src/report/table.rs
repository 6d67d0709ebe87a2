//! The table.

use std::fmt::Write as _;

use super::verdict::{cost, figure, spread, times, verdict};
use crate::cases::{Case, Row, Unit};
use crate::parent::{Plan, Results};
use crate::peer::Peer;

/// The rows of `cases`, a column for each peer; empty if there is none.
pub(super) fn table(
    cases: impl Iterator<Item = &'static Case>,
    plan: &Plan,
    results: &Results,
) -> String {
    let mut rows = String::new();
    for case in cases {
        for row in case.rows {
            if plan.peers.iter().all(|&peer| results.of(case, row.key, peer).is_empty()) {
                continue;
            }
            let _ = write!(rows, "| {} |", row.title);
            for &peer in &plan.peers {
                let _ = write!(rows, " {} |", cell(results, case, row, peer));
            }
            let verdict = verdict(results, case, row);
            let met = match verdict.met {
                Some(true) => "met",
                Some(false) => "**not met**",
                None => "",
            };
            let _ = writeln!(rows, " {} | {} | {met} |", verdict.stands, verdict.bar);
        }
    }
    if rows.is_empty() {
        return rows;
    }
    let names: Vec<_> = plan.peers.iter().map(|peer| peer.name()).collect();
    let lines = "---|".repeat(names.len());
    format!("| | {} | best | at most | |\n|---|{lines}---|---|---|\n{rows}", names.join(" | "))
}

fn cell(results: &Results, case: &Case, row: &Row, peer: Peer) -> String {
    let Some(middle) = figure(results, case, row, peer) else { return "-".to_owned() };
    let mut cell = amount(row.unit, middle);
    let volt = figure(results, case, row, Peer::Volt).filter(|_| peer != Peer::Volt);
    if let Some(volt) = volt.filter(|&volt| volt > 0.0) {
        let _ = write!(cell, " **{}**", times(cost(row.unit, middle, volt)));
    }
    if results.of(case, row.key, peer).len() > 1 {
        let _ = write!(cell, " ±{:.0}%", spread(results, case, row, peer) * 100.0);
    }
    cell
}

/// `12.3 ns`, `1.5 us`, `1,234,000/s`.
pub(super) fn amount(unit: Unit, x: f64) -> String {
    match unit {
        Unit::Nanos if x >= 100_000.0 => format!("{:.0} us", x / 1e3),
        Unit::Nanos if x >= 1_000.0 => format!("{:.2} us", x / 1e3),
        Unit::Nanos if x >= 100.0 => format!("{x:.0} ns"),
        Unit::Nanos => format!("{x:.1} ns"),
        Unit::Micros if x >= 1_000.0 => format!("{:.1} ms", x / 1e3),
        Unit::Micros if x >= 100.0 => format!("{x:.0} us"),
        Unit::Micros => format!("{x:.2} us"),
        Unit::Millis => format!("{x:.1} ms"),
        Unit::Bytes => format!("{} B", thousands(x)),
        Unit::PerSecond => format!("{}/s", thousands(x)),
        Unit::Load => format!("{x:.3} ms/s"),
        Unit::Wakeups => format!("{x:.1}/s"),
    }
}

fn thousands(x: f64) -> String {
    let digits = format!("{x:.0}");
    let mut text = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i) % 3 == 0 && digit != '-' {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_read_well() {
        assert_eq!(amount(Unit::PerSecond, 1_234_567.0), "1,234,567/s");
        assert_eq!(amount(Unit::Bytes, 999.6), "1,000 B");
        assert_eq!(amount(Unit::Nanos, 12.34), "12.3 ns");
        assert_eq!(amount(Unit::Nanos, 12_340.0), "12.34 us");
    }
}
