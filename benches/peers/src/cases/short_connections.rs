//! Connections that end after one message: the echo servers again.

use super::{Bar, Case, Kind, Part, Row, Unit, echo};

pub const CASE: Case = Case {
    name: "short_connections",
    part: Part::Beside,
    kind: Kind::Short { connections: 50 },
    bodies: echo::SERVERS,
    rows: &[
        Row {
            key: "rate",
            title: "short connections, per second",
            unit: Unit::PerSecond,
            bar: Bar::NotSlower,
        },
        Row {
            key: "cpu",
            title: "short connections, CPU each",
            unit: Unit::Micros,
            bar: Bar::NotSlower,
        },
    ],
    note: "Connect, send 64 bytes, read them back, close; 50 at a time, from one thread of epoll.",
    ..Case::INSIDE
};
