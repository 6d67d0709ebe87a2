//! volt beside its peers: `cargo run --release`. README.md says what is measured, and how.
//!
//! Begin with `cases/`: each file has one case, with every peer's workload. `parent/` runs them,
//! each measurement in a process of its own, which is this program again; `load/` has what loads
//! the servers, `report/` what is written.

mod args;
mod cases;
mod epoll;
mod load;
mod parent;
mod peer;
mod report;
mod run;

use std::process::{ExitCode, exit};

use args::{Args, Role};
use parent::{Helpers, Plan};

fn main() -> ExitCode {
    raise_descriptors();
    let done = Args::parse().and_then(|args| match args.role {
        Role::Measure => measure(args),
        Role::Help => {
            print!("{}", args::HELP);
            Ok(true)
        }
        Role::Readme => report::rewrite_readme().map(|()| true),
        Role::Child(peer) => {
            let case = args.cases[0];
            let body = case.body(peer).ok_or("this peer has no such case")?;
            run::say("figure", body(args.run));
            // Other threads may still run; nothing of theirs matters.
            exit(0);
        }
        Role::Load(ref kind, load) => {
            load.run(kind).then_some(true).ok_or(format!("there is no load {kind:?}"))
        }
    });
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(why) => {
            eprintln!("{why}");
            ExitCode::from(2)
        }
    }
}

/// Whether every measurement worked.
fn measure(args: Args) -> Result<bool, String> {
    let helpers = Helpers::prepare()?;
    let plan = Plan {
        run: args.run,
        rounds: args.rounds,
        cases: args.cases,
        peers: args.peers,
        whole: args.whole,
    };
    let machine = report::Machine::look();
    let results = parent::measure(&plan, &helpers);
    if plan.whole && plan.run.quick {
        helpers.missing.iter().chain(&results.failures).for_each(|line| println!("{line}"));
    } else {
        let text = report::markdown(&plan, &results, &helpers, &machine);
        if plan.whole {
            report::write(&plan, &results, &text)?;
            println!("written: benches/RESULTS.md, benches/RESULTS.svg, README.md");
        } else {
            print!("{text}");
        }
    }
    Ok(results.failures.is_empty())
}

/// 10,000 connections need as many descriptors; children inherit it.
fn raise_descriptors() {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the place is alive for both calls.
    unsafe {
        if libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) == 0 {
            limit.rlim_cur = limit.rlim_max;
            libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit);
        }
    }
}
