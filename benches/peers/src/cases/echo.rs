//! A TCP echo server, a fiber per connection.

use std::io::{Read, Write};

use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::{Bar, Body, Case, Kind, Row, Unit};
use crate::epoll;
use crate::peer::{self, Peer};
use crate::run::Run;

pub const ONE: Case = Case {
    name: "echo_1",
    kind: Kind::Echo { connections: 1 },
    rows: &[
        row("rate", "echo, 1 connection, requests/s", Unit::PerSecond, Bar::NotSlower),
        row("cpu", "echo, 1 connection, CPU per request", Unit::Micros, Bar::NotSlower),
        row("p99", "echo, 1 connection, p99", Unit::Micros, Bar::NotSlower),
    ],
    ..HUNDRED
};

pub const FEW: Case = Case {
    name: "echo_4",
    kind: Kind::Echo { connections: 4 },
    rows: &[
        row("rate", "echo, 4 connections, requests/s", Unit::PerSecond, Bar::NotSlower),
        row("cpu", "echo, 4 connections, CPU per request", Unit::Micros, Bar::NotSlower),
        row("p99", "echo, 4 connections, p99", Unit::Micros, Bar::NotSlower),
    ],
    ..HUNDRED
};

pub const HUNDRED: Case = Case {
    name: "echo_100",
    kind: Kind::Echo { connections: 100 },
    bodies: SERVERS,
    rows: &[
        row("rate", "echo, 100 connections, requests/s", Unit::PerSecond, Bar::NotSlower),
        row("cpu", "echo, 100 connections, CPU per request", Unit::Micros, Bar::NotSlower),
        row("p50", "echo, 100 connections, p50", Unit::Micros, Bar::Shown),
        row("p99", "echo, 100 connections, p99", Unit::Micros, Bar::NotSlower),
        row("p999", "echo, 100 connections, p99.9", Unit::Micros, Bar::Shown),
    ],
    note: NOTE,
    ..Case::INSIDE
};

pub const MANY: Case = Case {
    name: "echo_1000",
    kind: Kind::Echo { connections: 1_000 },
    rows: &[
        row("rate", "echo, 1,000 connections, requests/s", Unit::PerSecond, Bar::NotSlower),
        row("cpu", "echo, 1,000 connections, CPU per request", Unit::Micros, Bar::NotSlower),
        row("p50", "echo, 1,000 connections, p50", Unit::Micros, Bar::Shown),
        row("p99", "echo, 1,000 connections, p99", Unit::Micros, Bar::NotSlower),
        row("p999", "echo, 1,000 connections, p99.9", Unit::Micros, Bar::Shown),
    ],
    ..HUNDRED
};

const NOTE: &str = "64 bytes there and back, one under way on each connection, from one thread of \
    epoll in a process of its own. TCP_NODELAY everywhere, 4 KiB buffers. Floor: two threads of \
    raw epoll.";

const fn row(key: &'static str, title: &'static str, unit: Unit, bar: Bar) -> Row {
    Row { key, title, unit, bar }
}

/// The servers; each runs until its process is ended.
pub(super) const SERVERS: &[(Peer, Body)] = &[
    (Peer::Volt, volt),
    (Peer::Tokio, tokio),
    (Peer::May, may),
    (Peer::Threads, threads),
    (Peer::Floor, floor),
];

const BUFFER: usize = 4096;

/// A connection's life, where code that blocks is what one writes.
pub(super) fn answer(mut stream: impl Read + Write) -> std::io::Result<()> {
    let mut buffer = [0; BUFFER];
    loop {
        match stream.read(&mut buffer)? {
            0 => return Ok(()),
            n => stream.write_all(&buffer[..n])?,
        }
    }
}

fn volt(run: Run) -> f64 {
    peer::on_volt(run, move || on_volt(run))
}

/// On a fiber.
pub(super) fn on_volt(run: Run) -> f64 {
    let listener = volt::net::TcpListener::bind(run.addr).unwrap();
    loop {
        let (stream, _) = listener.accept().unwrap();
        volt::go(move || -> std::io::Result<()> {
            stream.set_nodelay(true)?;
            answer(stream)
        });
    }
}

fn tokio(run: Run) -> f64 {
    peer::on_tokio(run, on_tokio(run))
}

/// On a task.
pub(super) async fn on_tokio(run: Run) -> f64 {
    let listener = tokio::net::TcpListener::bind(run.addr).await.unwrap();
    peer::deepen(&listener);
    loop {
        let (stream, _) = listener.accept().await.unwrap();
        tokio::spawn(async move {
            stream.set_nodelay(true)?;
            answer_on_tokio(stream).await
        });
    }
}

/// As `answer`.
pub(super) async fn answer_on_tokio(mut stream: tokio::net::TcpStream) -> std::io::Result<()> {
    let mut buffer = [0; BUFFER];
    loop {
        match stream.read(&mut buffer).await? {
            0 => return Ok(()),
            n => stream.write_all(&buffer[..n]).await?,
        }
    }
}

fn may(run: Run) -> f64 {
    peer::on_may(run, move || {
        let listener = may::net::TcpListener::bind(run.addr).unwrap();
        peer::deepen(listener.inner());
        loop {
            let (stream, _) = listener.accept().unwrap();
            may::go!(move || -> std::io::Result<()> {
                stream.set_nodelay(true)?;
                answer(stream)
            });
        }
    })
}

pub(super) fn threads(run: Run) -> f64 {
    peer::threads(run);
    let listener = std::net::TcpListener::bind(run.addr).unwrap();
    peer::deepen(&listener);
    loop {
        let (stream, _) = listener.accept().unwrap();
        std::thread::spawn(move || -> std::io::Result<()> {
            stream.set_nodelay(true)?;
            answer(stream)
        });
    }
}

fn floor(run: Run) -> f64 {
    epoll::serve(run, epoll::Answer::Echo)
}
