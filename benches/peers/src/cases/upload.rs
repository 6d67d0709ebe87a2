//! Servers that read what a single connection sends, and drop it.

use std::io::Read;

use tokio::io::AsyncReadExt;

use super::{Bar, Case, Kind, Part, Row, Unit};
use crate::peer::{self, Peer};
use crate::run::Run;

pub const CASE: Case = Case {
    name: "upload",
    part: Part::Beside,
    kind: Kind::Upload,
    bodies: &[(Peer::Volt, volt), (Peer::Tokio, tokio), (Peer::May, may), (Peer::Threads, threads)],
    rows: &[
        Row {
            key: "rate",
            title: "upload, pieces of 64 KiB per second",
            unit: Unit::PerSecond,
            bar: Bar::NotSlower,
        },
        Row { key: "cpu", title: "upload, CPU per piece", unit: Unit::Micros, bar: Bar::NotSlower },
    ],
    note: "One connection sends 64 KiB after 64 KiB; the server reads with a buffer of 64 KiB.",
    ..Case::INSIDE
};

pub const RECORDS: Case = Case {
    name: "records",
    kind: Kind::Records,
    rows: &[Row {
        key: "cpu",
        title: "100,000 records/s over one connection, CPU per record",
        unit: Unit::Micros,
        bar: Bar::NotSlower,
    }],
    note: "One connection brings 100 bytes every 10 us, from a thread that does not sleep; the server reads with a buffer of \
        64 KiB what there is.",
    ..CASE
};

const BUFFER: usize = 64 << 10;

fn volt(run: Run) -> f64 {
    peer::on_volt(run, move || {
        let listener = volt::net::TcpListener::bind(run.addr).unwrap();
        loop {
            let (mut stream, _) = listener.accept().unwrap();
            volt::go(move || {
                let mut buffer = vec![0; BUFFER];
                while stream.read(&mut buffer).is_ok_and(|n| n > 0) {}
            });
        }
    })
}

fn tokio(run: Run) -> f64 {
    peer::on_tokio(run, async move {
        let listener = tokio::net::TcpListener::bind(run.addr).await.unwrap();
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            tokio::spawn(async move {
                let mut buffer = vec![0; BUFFER];
                while stream.read(&mut buffer).await.is_ok_and(|n| n > 0) {}
            });
        }
    })
}

fn may(run: Run) -> f64 {
    peer::on_may(run, move || {
        let listener = may::net::TcpListener::bind(run.addr).unwrap();
        loop {
            let (mut stream, _) = listener.accept().unwrap();
            may::go!(move || {
                let mut buffer = vec![0; BUFFER];
                while stream.read(&mut buffer).is_ok_and(|n| n > 0) {}
            });
        }
    })
}

fn threads(run: Run) -> f64 {
    peer::threads(run);
    let listener = std::net::TcpListener::bind(run.addr).unwrap();
    loop {
        let (mut stream, _) = listener.accept().unwrap();
        std::thread::spawn(move || {
            let mut buffer = vec![0; BUFFER];
            while stream.read(&mut buffer).is_ok_and(|n| n > 0) {}
        });
    }
}
