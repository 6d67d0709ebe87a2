//! The program that measures: starts a process for each measurement, reads its figures, and keeps
//! them.

mod child;
mod helpers;
mod measure;
mod probe;
mod stolen;

use std::collections::BTreeMap;

use crate::cases::Case;
use crate::peer::Peer;
use crate::run::Run;

pub use helpers::{Helpers, version};
use stolen::Stolen;

/// What a run is to do.
#[derive(Debug)]
pub struct Plan {
    pub run: Run,
    pub rounds: usize,
    pub cases: Vec<&'static Case>,
    pub peers: Vec<Peer>,
    /// Neither cases nor peers were chosen: the report is written.
    pub whole: bool,
}

/// Every figure of every round: by case and row, by peer.
#[derive(Debug, Default)]
pub struct Results {
    figures: BTreeMap<(&'static str, &'static str), BTreeMap<Peer, Vec<f64>>>,
    /// What did not work, and why.
    pub failures: Vec<String>,
    /// What the host of a virtual machine took.
    pub stolen: Stolen,
}

impl Results {
    /// The figures of one peer in one row; none if it did not take part.
    pub fn of(&self, case: &Case, key: &str, peer: Peer) -> &[f64] {
        let row = self.figures.iter().find(|((name, row), _)| *name == case.name && *row == key);
        row.and_then(|(_, peers)| peers.get(&peer)).map_or(&[], Vec::as_slice)
    }

    fn add(&mut self, case: &'static Case, figures: &child::Figures, peer: Peer) {
        for row in case.rows {
            if let Some(&figure) = figures.get(row.key) {
                let peers = self.figures.entry((case.name, row.key)).or_default();
                peers.entry(peer).or_default().push(figure);
            }
        }
    }

    fn fail(&mut self, why: String) {
        eprintln!("  {why}");
        if !self.failures.contains(&why) {
            self.failures.push(why);
        }
    }
}

/// Runs every case for every peer in turn, A B C A B C.
pub fn measure(plan: &Plan, helpers: &Helpers) -> Results {
    let mut results = Results::default();
    for case in &plan.cases {
        let mut peers: Vec<_> = plan.peers.iter().copied().filter(|&p| case.has(p)).collect();
        peers.retain(|&peer| peer != Peer::Go || helpers.go.is_some());
        if matches!(case.kind, crate::cases::Kind::Http(_)) && !helpers.wrk {
            continue;
        }
        let rounds = plan.rounds.min(case.rounds);
        for round in 1..=rounds {
            eprint!("{}, round {round} of {rounds}:", case.name);
            let mut lost = Vec::new();
            for &peer in &peers {
                eprint!(" {}", peer.name());
                let measure = || measure::once(case, peer, plan.run, helpers);
                let done = match case.kind.is_timed() && !plan.run.quick {
                    true => results.stolen.undisturbed(measure),
                    false => measure(),
                };
                match done {
                    Ok(figures) => results.add(case, &figures, peer),
                    Err(why) => {
                        lost.push(peer);
                        results.fail(format!("{}, {}: {why}", case.name, peer.name()));
                    }
                }
            }
            eprintln!();
            // Who failed would fail again.
            peers.retain(|peer| !lost.contains(peer));
        }
    }
    results
}
