//! What a case is made of.

use crate::peer::Peer;
use crate::run::Run;

/// A workload and what is read from it.
#[derive(Debug, Clone, Copy)]
pub struct Case {
    /// As `--case` takes it, and as Go's program calls it.
    pub name: &'static str,
    pub part: Part,
    pub kind: Kind,
    /// Who takes part, Go excepted.
    pub bodies: &'static [(Peer, Body)],
    /// Whether Go takes part.
    pub go: bool,
    /// At most so many rounds: figures that hardly vary, and take long.
    pub rounds: usize,
    pub rows: &'static [Row],
    /// What is done and how, where the peers differ most.
    pub note: &'static str,
}

impl Case {
    /// What a case is unless it says otherwise: of the table, timed by itself, with Go.
    pub const INSIDE: Case = Case {
        name: "",
        part: Part::Main,
        kind: Kind::Inside,
        bodies: &[],
        go: true,
        rounds: usize::MAX,
        rows: &[],
        note: "",
    };

    /// The body of `peer`.
    pub fn body(&self, peer: Peer) -> Option<Body> {
        self.bodies.iter().find(|(of, _)| *of == peer).map(|(_, body)| *body)
    }

    /// Whether `peer` takes part.
    pub fn has(&self, peer: Peer) -> bool {
        if peer == Peer::Go { self.go } else { self.body(peer).is_some() }
    }
}

/// Runs a workload; what it returns is the figure of the first row, where the kind is `Inside`.
pub type Body = fn(Run) -> f64;

/// Where the case stands in the report.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    Main,
    /// Looked at because volt might be slow there.
    Beside,
}

/// Who measures, and how.
#[derive(Debug, Clone, Copy)]
pub enum Kind {
    /// The workload times itself.
    Inside,
    /// Memory: the workload tells when it begins, when all stand there, and how many.
    Footprint,
    /// The workload tells when it has nothing to do; CPU time and wakeups are read from outside.
    Idle,
    /// A server for HTTP, under wrk.
    Http(HttpLoad),
    /// A server for HTTP, with connections that have each had one answer.
    HttpIdle { connections: u32 },
    /// An echo server, under so many connections with a message each under way.
    Echo { connections: u32 },
    /// An echo server, with one message every so often, on so many connections in turn.
    Paced { connections: u32 },
    /// An echo server whose connections end after one message.
    Short { connections: u32 },
    /// A server that drops what it reads, from one connection.
    Upload,
    /// The same, a record every so often.
    Records,
    /// A server that sends a MiB whenever it is asked.
    Download { connections: u32 },
}

impl Kind {
    /// Does it matter how fast processors were? Not for memory, nor for who does nothing.
    pub fn is_timed(&self) -> bool {
        !matches!(self, Kind::Footprint | Kind::Idle | Kind::HttpIdle { .. })
    }
}

/// How wrk is called.
#[derive(Debug, Clone, Copy)]
pub struct HttpLoad {
    pub connections: u32,
    pub pipelined: bool,
}

/// One line of the report.
#[derive(Debug)]
pub struct Row {
    /// The name under which a measurement prints it.
    pub key: &'static str,
    pub title: &'static str,
    pub unit: Unit,
    pub bar: Bar,
}

/// What is counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    Nanos,
    Micros,
    Millis,
    Bytes,
    /// The more the better.
    PerSecond,
    /// CPU milliseconds per second.
    Load,
    /// Wakeups per second.
    Wakeups,
}

impl Unit {
    pub fn more_is_better(self) -> bool {
        self == Unit::PerSecond
    }
}

/// What volt is to reach. Ratios are of what it takes; of a rate, its inverse.
#[derive(Debug, Clone, Copy)]
pub enum Bar {
    /// At most that part of what the best peer takes.
    OfBest(f64),
    /// At most so many times the floor.
    OfFloor(f64),
    /// At most so much.
    AtMost(f64),
    /// Not slower than Tokio and Go.
    NotSlower,
    /// Only shown.
    Shown,
}
