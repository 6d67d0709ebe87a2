//! What is written: the table, the chart, and what they were measured on.

mod chart;
mod machine;
mod readme;
mod table;
mod verdict;

use std::fmt::Write as _;
use std::path::Path;

pub use machine::Machine;

use crate::cases::Part;
use crate::parent::{Helpers, Plan, Results};
use crate::peer::Peer;

const BENCHES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/..");
const README: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../README.md");
/// Written by hand: why volt falls short where it does, and the next idea.
const REASONS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/reasons.md");

/// The report.
pub fn markdown(plan: &Plan, results: &Results, helpers: &Helpers, machine: &Machine) -> String {
    let mut text = format!(
        "# volt beside its peers\n\n\
        Written by `cargo run --release` in `benches/peers`; the README there says how.\n\n\
        {}- measurements repeated because the host took processors from this machine: {}; kept all the same: {}\n\n\
        Each cell: the median of the rounds, what it is to volt's (**2x**: it costs twice as much; \
        for a rate, half as many), and half the distance between their quartiles. *best*: \
        volt's cost as a part of the best peer's, or of the floor's.\n\n",
        machine.text(plan, helpers),
        results.stolen.repeated,
        results.stolen.kept,
    );
    for (part, title) in [(Part::Main, "The cases"), (Part::Beside, "Beside them")] {
        let cases = plan.cases.iter().filter(|case| case.part == part);
        let table = table::table(cases.copied(), plan, results);
        if !table.is_empty() {
            let _ = write!(text, "## {title}\n\n{table}\n");
        }
    }
    if plan.whole {
        text.push_str("![what each costs, to volt's](RESULTS.svg)\n\n");
    }
    if plan.peers.contains(&Peer::Volt) {
        let list = verdict::shortfalls(plan, results);
        let _ = write!(text, "## Where volt falls short\n\n{list}\n");
    }
    if let Ok(reasons) = std::fs::read_to_string(REASONS) {
        let _ = writeln!(text, "{reasons}");
    }
    text.push_str("## What each case does\n\n");
    for case in &plan.cases {
        let _ = writeln!(text, "- `{}`: {}", case.name, case.note);
    }
    if !results.failures.is_empty() || !helpers.missing.is_empty() {
        text.push_str("\n## Missing\n\n");
        for line in helpers.missing.iter().chain(&results.failures) {
            let _ = writeln!(text, "- {line}");
        }
    }
    text
}

/// Writes the report and its chart.
pub fn write(plan: &Plan, results: &Results, text: &str) -> Result<(), String> {
    let place = Path::new(BENCHES);
    let written = std::fs::write(place.join("RESULTS.md"), text);
    written.map_err(|e| format!("RESULTS.md cannot be written: {e}"))?;
    chart::draw(&place.join("RESULTS.svg"), plan, results)
        .map_err(|e| format!("RESULTS.svg cannot be written: {e}"))?;
    write_readme(text)
}

/// Writes the README's rows of the report that is there.
pub fn rewrite_readme() -> Result<(), String> {
    let report = std::fs::read_to_string(Path::new(BENCHES).join("RESULTS.md"));
    write_readme(&report.map_err(|e| format!("RESULTS.md cannot be read: {e}"))?)
}

fn write_readme(report: &str) -> Result<(), String> {
    let readme = std::fs::read_to_string(README);
    let readme = readme.map_err(|e| format!("README.md cannot be read: {e}"))?;
    let written = std::fs::write(README, readme::updated(&readme, report)?);
    written.map_err(|e| format!("README.md cannot be written: {e}"))
}
