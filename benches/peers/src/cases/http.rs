//! The hello server: volt's example daemon, Tokio with hyper, may_minihttp, Go's net/http, raw
//! epoll.

use std::convert::Infallible;
use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use may_minihttp::HttpServer;

use super::{Bar, Body, Case, HttpLoad, Kind, Row, Unit};
use crate::epoll;
use crate::peer::{self, Peer};
use crate::run::Run;

pub const FEW: Case = Case {
    name: "http_50",
    kind: Kind::Http(HttpLoad { connections: 50, pipelined: false }),
    bodies: SERVERS,
    rows: &[
        row("cpu", "HTTP, 50 connections, CPU per request", Unit::Micros, Bar::OfFloor(1.05)),
        row("rate", "HTTP, 50 connections, requests/s", Unit::PerSecond, Bar::NotSlower),
        row("p50", "HTTP, 50 connections, p50", Unit::Micros, Bar::Shown),
        row("p99", "HTTP, 50 connections, p99", Unit::Micros, Bar::NotSlower),
    ],
    note: "wrk -t1 -c50, GET /, 13 bytes. may_minihttp leaves TCP_NODELAY off and sends a Server \
        header. Floor: two threads of raw epoll, which parse nothing and answer a constant.",
    ..Case::INSIDE
};

pub const MANY: Case = Case {
    name: "http_1000",
    kind: Kind::Http(HttpLoad { connections: 1_000, pipelined: false }),
    rows: &[
        row("cpu", "HTTP, 1,000 connections, CPU per request", Unit::Micros, Bar::OfFloor(1.05)),
        row("rate", "HTTP, 1,000 connections, requests/s", Unit::PerSecond, Bar::NotSlower),
        row("p50", "HTTP, 1,000 connections, p50", Unit::Micros, Bar::Shown),
        row("p99", "HTTP, 1,000 connections, p99", Unit::Micros, Bar::OfFloor(1.5)),
    ],
    note: "wrk -t1 -c1000.",
    ..FEW
};

pub const PIPELINED: Case = Case {
    name: "http_pipelined",
    kind: Kind::Http(HttpLoad { connections: 50, pipelined: true }),
    rows: &[
        row("rate", "HTTP, 16 pipelined, requests/s", Unit::PerSecond, Bar::OfFloor(1.0 / 0.9)),
        row("cpu", "HTTP, 16 pipelined, CPU per request", Unit::Micros, Bar::NotSlower),
    ],
    note: "wrk -t1 -c50, 16 requests per write. wrk needs a core for itself, so the rate is as \
        much its figure.",
    ..FEW
};

pub const IDLE: Case = Case {
    name: "http_idle",
    kind: Kind::HttpIdle { connections: 10_000 },
    bodies: &[(Peer::Volt, volt), (Peer::Tokio, tokio), (Peer::May, may)],
    rounds: 2,
    rows: &[row("bytes", "10,000 idle HTTP connections, each", Unit::Bytes, Bar::NotSlower)],
    note: "10,000 keep-alive connections after one answer each: resident memory and page tables \
        of the server, two seconds later; what the kernel keeps for sockets is not in it.",
    ..FEW
};

const fn row(key: &'static str, title: &'static str, unit: Unit, bar: Bar) -> Row {
    Row { key, title, unit, bar }
}

/// The servers; each runs until its process is ended.
const SERVERS: &[(Peer, Body)] =
    &[(Peer::Volt, volt), (Peer::Tokio, tokio), (Peer::May, may), (Peer::Floor, floor)];

/// The example, which stands beside this program and takes its process over.
fn volt(run: Run) -> f64 {
    let me = std::env::current_exe().expect("the path of this program");
    let error = Command::new(me.with_file_name("volt_http"))
        .args(["--addr", &run.addr.to_string(), "--workers", &run.workers.to_string()])
        .exec();
    panic!("volt_http does not start: {error}");
}

async fn hello(_: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
    let mut response = Response::new(Full::new(Bytes::from_static(b"Hello, World!")));
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/plain"));
    Ok(response)
}

fn tokio(run: Run) -> f64 {
    peer::on_tokio(run, async move {
        let listener = tokio::net::TcpListener::bind(run.addr).await.unwrap();
        peer::deepen(&listener);
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            tokio::spawn(async move {
                let _ = stream.set_nodelay(true);
                // An error here is the peer's: it has gone away or does not speak HTTP.
                let _ = http1::Builder::new()
                    .pipeline_flush(true)
                    .serve_connection(TokioIo::new(stream), service_fn(hello))
                    .await;
            });
        }
    })
}

#[derive(Clone)]
struct Hello;

impl may_minihttp::HttpService for Hello {
    fn call(
        &mut self,
        _: may_minihttp::Request,
        answer: &mut may_minihttp::Response,
    ) -> io::Result<()> {
        answer.header("Content-Type: text/plain");
        answer.body("Hello, World!");
        Ok(())
    }
}

fn may(run: Run) -> f64 {
    peer::may(run);
    HttpServer(Hello).start(run.addr).unwrap().join().unwrap();
    0.0
}

fn floor(run: Run) -> f64 {
    epoll::serve(run, epoll::Answer::Http)
}
