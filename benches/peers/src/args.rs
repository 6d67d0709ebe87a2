//! The command line: of people, and of the processes that this program starts.

use std::time::Duration;

use lexopt::{Arg, Parser, ValueExt};

use crate::cases::{self, Case};
use crate::load::Load;
use crate::peer::Peer;
use crate::run::Run;

pub const HELP: &str = "\
Measures volt beside Tokio, may, Go and plain threads; writes benches/RESULTS.md and RESULTS.svg, and rows of it
into README.md.

cargo run --release -- [flags]
  --quick        every case once and small, written nowhere: does it all work?
  --case NAME    this case only; may be repeated. The table is printed and not written, as with --peer
  --peer NAME    this peer only: volt, tokio, may, go, threads, floor; may be repeated
  --rounds N     how often each is measured, in turn (7)
  --workers N    threads for each (2)
  --readme       measure nothing: puts rows of benches/RESULTS.md into README.md again

VOLT_GO names the go command, if it is not on PATH. HTTP needs wrk.
";

/// What the process is to do.
#[derive(Debug)]
pub enum Role {
    Measure,
    Help,
    /// Put the report's figures into the README again.
    Readme,
    /// Run one case of one peer.
    Child(Peer),
    /// Load a server.
    Load(String, Load),
}

#[derive(Debug)]
pub struct Args {
    pub role: Role,
    pub run: Run,
    pub rounds: usize,
    pub cases: Vec<&'static Case>,
    pub peers: Vec<Peer>,
    /// Neither cases nor peers were chosen.
    pub whole: bool,
}

impl Args {
    pub fn parse() -> Result<Args, String> {
        parse(Parser::from_env()).map_err(|e| format!("{e}\n\n{HELP}"))
    }
}

fn parse(mut parser: Parser) -> Result<Args, lexopt::Error> {
    let nowhere = "127.0.0.1:0".parse().expect("an address");
    let mut run = Run { workers: 2, quick: false, addr: nowhere };
    let (mut rounds, mut cases, mut peers) = (7, Vec::new(), Vec::new());
    let (mut child, mut load, mut help, mut readme) = (None, None, false, false);
    let (mut connections, mut millis) = (1, 1_000);
    while let Some(arg) = parser.next()? {
        match arg {
            Arg::Long("quick") => run.quick = true,
            Arg::Long("case") => cases.push(parser.value()?.parse_with(case)?),
            Arg::Long("peer") => peers.push(parser.value()?.parse_with(peer)?),
            Arg::Long("rounds") => rounds = parser.value()?.parse_with(at_least_one)?,
            Arg::Long("workers") => run.workers = parser.value()?.parse_with(at_least_one)?,
            Arg::Long("addr") => run.addr = parser.value()?.parse()?,
            Arg::Long("child") => child = Some(parser.value()?.parse_with(peer)?),
            Arg::Long("load") => load = Some(parser.value()?.string()?),
            Arg::Long("connections") => connections = parser.value()?.parse()?,
            Arg::Long("millis") => millis = parser.value()?.parse()?,
            Arg::Long("readme") => readme = true,
            Arg::Short('h') | Arg::Long("help") => help = true,
            _ => return Err(arg.unexpected()),
        }
    }
    let role = match (child, load) {
        _ if help => Role::Help,
        _ if readme => Role::Readme,
        (Some(peer), _) if !cases.is_empty() => Role::Child(peer),
        (_, Some(kind)) => {
            let time = Duration::from_millis(millis);
            Role::Load(kind, Load { addr: run.addr, connections, time })
        }
        _ => Role::Measure,
    };
    let whole = cases.is_empty() && peers.is_empty();
    if cases.is_empty() {
        cases = cases::ALL.to_vec();
    }
    if peers.is_empty() {
        peers = Peer::ALL.to_vec();
    }
    if run.quick {
        rounds = 1;
    }
    Ok(Args { role, run, rounds, cases, peers, whole })
}

fn case(name: &str) -> Result<&'static Case, String> {
    cases::ALL.iter().copied().find(|case| case.name == name).ok_or_else(|| {
        let names: Vec<_> = cases::ALL.iter().map(|case| case.name).collect();
        format!("there are the cases {}", names.join(", "))
    })
}

fn peer(name: &str) -> Result<Peer, String> {
    Peer::parse(name).ok_or_else(|| {
        let names: Vec<_> = Peer::ALL.iter().map(|peer| peer.name()).collect();
        format!("there are the peers {}", names.join(", "))
    })
}

fn at_least_one(number: &str) -> Result<usize, String> {
    number.parse().ok().filter(|&n| n > 0).ok_or("expected a number from 1 on".to_owned())
}
