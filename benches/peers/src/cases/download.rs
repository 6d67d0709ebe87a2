//! Servers that send a MiB from memory for each byte that comes.

use std::io::{Read, Write};

use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::{Bar, Body, Case, Kind, Part, Row, Unit};
use crate::peer::{self, Peer};
use crate::run::Run;

pub const ONE: Case = Case {
    name: "download",
    kind: Kind::Download { connections: 1 },
    rows: &[
        row("rate", "download over one connection, MiB per second", Unit::PerSecond),
        row("cpu", "download over one connection, CPU per MiB", Unit::Micros),
    ],
    ..DOWNLOAD
};

pub const FEW: Case = Case {
    name: "download_8",
    kind: Kind::Download { connections: 8 },
    rows: &[
        row("rate", "downloads over 8 connections, MiB per second", Unit::PerSecond),
        row("cpu", "downloads over 8 connections, CPU per MiB", Unit::Micros),
    ],
    ..DOWNLOAD
};

const fn row(key: &'static str, title: &'static str, unit: Unit) -> Row {
    Row { key, title, unit, bar: Bar::NotSlower }
}

const DOWNLOAD: Case = Case {
    part: Part::Beside,
    bodies: SERVERS,
    note: "A byte is answered with a MiB from memory, in one write, and read by a thread for each connection.",
    ..Case::INSIDE
};

const SERVERS: &[(Peer, Body)] =
    &[(Peer::Volt, volt), (Peer::Tokio, tokio), (Peer::May, may), (Peer::Threads, threads)];

static ANSWER: [u8; 1 << 20] = [b'v'; 1 << 20];

fn volt(run: Run) -> f64 {
    peer::on_volt(run, move || {
        let listener = volt::net::TcpListener::bind(run.addr).unwrap();
        loop {
            let (stream, _) = listener.accept().unwrap();
            stream.set_nodelay(true).unwrap();
            volt::go(move || answer(stream));
        }
    })
}

fn tokio(run: Run) -> f64 {
    peer::on_tokio(run, async move {
        let listener = tokio::net::TcpListener::bind(run.addr).await.unwrap();
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            stream.set_nodelay(true).unwrap();
            tokio::spawn(async move {
                while stream.read_exact(&mut [0]).await.is_ok() {
                    if stream.write_all(&ANSWER).await.is_err() {
                        return;
                    }
                }
            });
        }
    })
}

fn may(run: Run) -> f64 {
    peer::on_may(run, move || {
        let listener = may::net::TcpListener::bind(run.addr).unwrap();
        loop {
            let (stream, _) = listener.accept().unwrap();
            stream.set_nodelay(true).unwrap();
            may::go!(move || answer(stream));
        }
    })
}

fn threads(run: Run) -> f64 {
    peer::threads(run);
    let listener = std::net::TcpListener::bind(run.addr).unwrap();
    loop {
        let (stream, _) = listener.accept().unwrap();
        stream.set_nodelay(true).unwrap();
        std::thread::spawn(move || answer(stream));
    }
}

fn answer(mut stream: impl Read + Write) {
    while stream.read_exact(&mut [0]).is_ok() && stream.write_all(&ANSWER).is_ok() {}
}
