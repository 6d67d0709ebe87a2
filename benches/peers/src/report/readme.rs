//! What the project's README has of the report: the rows that most people look for.

use std::fmt::Write as _;

const BEGIN: &str = "<!-- Written with benches/RESULTS.md, by benches/peers. -->\n";
const END: &str = "<!-- The end of what is written with it. -->\n";

const PEERS: &[(&str, &str)] = &[
    ("volt", "volt"),
    ("tokio", "Tokio"),
    ("may", "may"),
    ("go", "Go"),
    ("threads", "plain threads"),
    ("floor", "floor"),
];

const ROWS: &[&str] = &[
    "yield_many, per yield",
    "spawn_many, per fiber",
    "chained_spawn, per fiber",
    "tree of fibers, per fiber",
    "ping_pong, per pair",
    "channel round trip",
    "channel stream, per item",
    "select over two channels, per item",
    "100 tasks ask one, per answer",
    "contended mutex, per lock",
    "mutex held for 20 us, and 20 us between, per lock",
    "a pipeline of two stages of 2 us, per item",
    "spawn from outside and join, one after the other",
    "timeout around a wait, set and cancelled",
    "a sleep of 1 ms, over that",
    "cancel of 100,000 sleepers, each",
    "one task that reads a small file again and again, per file",
    "50 tasks that read a small file again and again, per file",
    "HTTP, 50 connections, CPU per request",
    "HTTP, 1,000 connections, CPU per request",
    "HTTP, 1,000 connections, p99",
    "HTTP, 16 pipelined, requests/s",
    "echo, 1 connection, requests/s",
    "echo, 1,000 connections, p50",
    "echo, 1,000 connections, p99",
    "upload, pieces of 64 KiB per second",
    "a million parked fibers, each",
    "a million unstarted fibers, each",
    "10,000 idle HTTP connections, each",
];

/// `readme` with the rows of `report` in their place.
pub(super) fn updated(readme: &str, report: &str) -> Result<String, String> {
    let (before, rest) = readme.split_once(BEGIN).ok_or("README.md has no place for figures")?;
    let (_, after) = rest.split_once(END).ok_or("README.md has no end of its figures")?;
    Ok(format!("{before}{BEGIN}{}{END}{after}", excerpt(report)?))
}

fn excerpt(report: &str) -> Result<String, String> {
    let names: Vec<_> = PEERS.iter().map(|(_, name)| *name).collect();
    let lines = "---|".repeat(names.len());
    let mut text = format!("\n| | {} |\n|---|{lines}\n", names.join(" | "));
    for title in ROWS {
        let row = row(report, title).ok_or(format!("the report has no row {title:?}"))?;
        let _ = writeln!(text, "| {title} | {} |", row.join(" | "));
    }
    text.push('\n');
    Ok(text)
}

/// A cell for each peer, by the head of the table that the row stands in.
fn row(report: &str, title: &str) -> Option<Vec<String>> {
    let mut head = Vec::new();
    for line in report.lines().filter(|line| line.starts_with('|')) {
        let cells: Vec<_> = line.trim_matches('|').split('|').map(str::trim).collect();
        if cells[0].is_empty() {
            head = cells;
        } else if cells[0] == title {
            let place = |name: &str| head.iter().position(|other| *other == name);
            let of = |name| place(name).and_then(|at| cells.get(at)).copied().unwrap_or("-");
            return Some(PEERS.iter().map(|(name, _)| plain(of(name))).collect());
        }
    }
    None
}

/// `45.1 ns (5.9x)`, of `45.1 ns **5.9x** ±3%`.
fn plain(cell: &str) -> String {
    let mut parts = cell.split(" ±").next().unwrap_or_default().split("**").map(str::trim);
    let amount = parts.next().unwrap_or_default();
    parts.next().map_or(amount.to_owned(), |times| format!("{amount} ({times})"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::{BENCHES, README};
    use std::fs::read_to_string;
    use std::path::Path;

    #[test]
    fn what_the_readme_says_is_what_the_report_says() {
        let readme = read_to_string(README).unwrap();
        let report = read_to_string(Path::new(BENCHES).join("RESULTS.md")).unwrap();
        let updated = updated(&readme, &report).unwrap();
        assert!(updated == readme, "`cargo run --release -- --readme` writes it anew");
    }

    #[test]
    fn cells_are_found_by_their_peers_names() {
        let report =
            "| | go | volt | best |\n|---|---|---|---|\n| x | 2 ns **2x** ±3% | 1 ns ±1% | - |\n";
        let expected = ["1 ns", "-", "-", "2 ns (2x)", "-", "-"].map(str::to_owned);
        assert_eq!(row(report, "x").unwrap(), expected);
        assert_eq!(row(report, "y"), None);
    }
}
