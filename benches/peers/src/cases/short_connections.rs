//! Connections that end after one message: the echo servers again, and a pool of acceptors.

use std::sync::Arc;

use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::{Bar, Body, Case, Kind, Part, Row, Unit, echo};
use crate::peer::{self, Peer};
use crate::run::Run;

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

pub const POOL: Case = Case {
    name: "short_acceptors",
    bodies: POOLS,
    rows: &[
        Row {
            key: "rate",
            title: "short connections to 64 acceptors, per second",
            unit: Unit::PerSecond,
            bar: Bar::NotSlower,
        },
        Row {
            key: "cpu",
            title: "short connections to 64 acceptors, CPU each",
            unit: Unit::Micros,
            bar: Bar::NotSlower,
        },
    ],
    note: "The same, where 64 accept from one listener, each serving what it has accepted.",
    ..CASE
};

const ACCEPTORS: usize = 64;

/// The servers; each runs until its process is ended.
const POOLS: &[(Peer, Body)] =
    &[(Peer::Volt, volt), (Peer::Tokio, tokio), (Peer::May, may), (Peer::Threads, threads)];

fn volt(run: Run) -> f64 {
    peer::on_volt(run, move || {
        let listener = volt::net::TcpListener::bind(run.addr).unwrap();
        let serve = move |listener: volt::net::TcpListener| {
            loop {
                let (stream, _) = listener.accept().unwrap();
                let _ = stream.set_nodelay(true);
                let _ = echo::answer(stream);
            }
        };
        for _ in 1..ACCEPTORS {
            let listener = listener.try_clone().unwrap();
            volt::go(move || serve(listener));
        }
        serve(listener)
    })
}

fn tokio(run: Run) -> f64 {
    peer::on_tokio(run, async move {
        let listener = Arc::new(tokio::net::TcpListener::bind(run.addr).await.unwrap());
        peer::deepen(&*listener);
        for _ in 1..ACCEPTORS {
            tokio::spawn(accept_on_tokio(Arc::clone(&listener)));
        }
        accept_on_tokio(listener).await
    })
}

async fn accept_on_tokio(listener: Arc<tokio::net::TcpListener>) -> f64 {
    loop {
        let (stream, _) = listener.accept().await.unwrap();
        let _ = stream.set_nodelay(true);
        let _ = answer_on_tokio(stream).await;
    }
}

async fn answer_on_tokio(mut stream: tokio::net::TcpStream) -> std::io::Result<()> {
    let mut buffer = [0; echo::BUFFER];
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
        let serve = move |listener: may::net::TcpListener| {
            loop {
                let (stream, _) = listener.accept().unwrap();
                let _ = stream.set_nodelay(true);
                let _ = echo::answer(stream);
            }
        };
        for _ in 1..ACCEPTORS {
            let listener = listener.try_clone().unwrap();
            may::go!(move || serve(listener));
        }
        serve(listener)
    })
}

fn threads(run: Run) -> f64 {
    peer::threads(run);
    let listener = std::net::TcpListener::bind(run.addr).unwrap();
    peer::deepen(&listener);
    let serve = move |listener: std::net::TcpListener| {
        loop {
            let (stream, _) = listener.accept().unwrap();
            let _ = stream.set_nodelay(true);
            let _ = echo::answer(stream);
        }
    };
    for _ in 1..ACCEPTORS {
        let listener = listener.try_clone().unwrap();
        std::thread::spawn(move || serve(listener));
    }
    serve(listener)
}
