//! Connections that end after one message: the echo servers again, and a pool of acceptors.

use std::io::{self, Read, Write};
use std::sync::Arc;

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

/// One of them: it accepts, and serves before it accepts again. A connection that fails ends, and nothing else.
fn serve<S: Read + Write>(accept: impl Fn() -> io::Result<S>) -> f64 {
    loop {
        let _ = accept().and_then(echo::answer);
    }
}

fn volt(run: Run) -> f64 {
    peer::on_volt(run, move || {
        let listener = Arc::new(volt::net::TcpListener::bind(run.addr).unwrap());
        let accept = move || {
            let (stream, _) = listener.accept().unwrap();
            stream.set_nodelay(true).map(|()| stream)
        };
        for _ in 1..ACCEPTORS {
            let accept = accept.clone();
            volt::go(move || serve(accept));
        }
        serve(accept)
    })
}

fn tokio(run: Run) -> f64 {
    peer::on_tokio(run, async move {
        let listener = Arc::new(tokio::net::TcpListener::bind(run.addr).await.unwrap());
        peer::deepen(&*listener);
        for _ in 1..ACCEPTORS {
            tokio::spawn(serve_on_tokio(Arc::clone(&listener)));
        }
        serve_on_tokio(listener).await
    })
}

/// As `serve`.
async fn serve_on_tokio(listener: Arc<tokio::net::TcpListener>) -> f64 {
    loop {
        let (stream, _) = listener.accept().await.unwrap();
        if stream.set_nodelay(true).is_ok() {
            let _ = echo::answer_on_tokio(stream).await;
        }
    }
}

fn may(run: Run) -> f64 {
    peer::on_may(run, move || {
        let listener = Arc::new(may::net::TcpListener::bind(run.addr).unwrap());
        peer::deepen(listener.inner());
        let accept = move || {
            let (stream, _) = listener.accept().unwrap();
            stream.set_nodelay(true).map(|()| stream)
        };
        for _ in 1..ACCEPTORS {
            let accept = accept.clone();
            may::go!(move || serve(accept));
        }
        serve(accept)
    })
}

fn threads(run: Run) -> f64 {
    peer::threads(run);
    let listener = Arc::new(std::net::TcpListener::bind(run.addr).unwrap());
    peer::deepen(&*listener);
    let accept = move || {
        let (stream, _) = listener.accept().unwrap();
        stream.set_nodelay(true).map(|()| stream)
    };
    for _ in 1..ACCEPTORS {
        let accept = accept.clone();
        std::thread::spawn(move || serve(accept));
    }
    serve(accept)
}
