//! Messages that come one by one, each to a server that has nothing else to do: the echo servers again.

use super::{Bar, Case, Kind, Part, Row, Unit, echo};

pub const CASE: Case = Case {
    name: "paced",
    part: Part::Beside,
    kind: Kind::Paced { connections: 10 },
    bodies: echo::SERVERS,
    rows: &[
        Row {
            key: "cpu",
            title: "echo, 2,000 messages/s, CPU per message",
            unit: Unit::Micros,
            bar: Bar::NotSlower,
        },
        Row {
            key: "p50",
            title: "echo, 2,000 messages/s, p50",
            unit: Unit::Micros,
            bar: Bar::NotSlower,
        },
        Row {
            key: "p99",
            title: "echo, 2,000 messages/s, p99",
            unit: Unit::Micros,
            bar: Bar::Shown,
        },
    ],
    note: "64 bytes there and back every half millisecond, on ten connections in turn: what a server \
        takes that sleeps between any two messages.",
    ..Case::INSIDE
};
