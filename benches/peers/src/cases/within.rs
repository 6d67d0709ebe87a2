//! Servers and their clients within one program: few connections, and a store of keys and values.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, BufWriter, Read, Write};
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Instant;

use super::{Bar, Case, Part, Row, Unit};
use crate::peer::{Peer, on_may, on_tokio, on_volt};
use crate::run::Run;

pub const FEW: Case = Case {
    name: "within",
    part: Part::Beside,
    bodies: &[(Peer::Volt, few_volt), (Peer::Tokio, few_tokio), (Peer::May, few_may)],
    rows: &[Row {
        key: "figure",
        title: "4 connections within one program, per message and answer",
        unit: Unit::Nanos,
        bar: Bar::NotSlower,
    }],
    note: "Four tasks send 64 bytes over a connection each, 2,000 times, to four others of the same \
        program that send them back.",
    ..Case::INSIDE
};

pub const STORE: Case = Case {
    name: "store",
    part: Part::Beside,
    bodies: &[(Peer::Volt, store_volt), (Peer::Tokio, store_tokio), (Peer::May, store_may)],
    rows: &[Row {
        key: "figure",
        title: "a store of keys and values, 32 requests at a time, per request",
        unit: Unit::Nanos,
        bar: Bar::NotSlower,
    }],
    note: "Eight clients of the same program send 32 lines at a time, GET or each fifth time SET, \
        and wait for as many. 500 keys, behind a read-write lock of the runtime's own, for Tokio of the standard \
        library, as its handbook has it.",
    ..Case::INSIDE
};

const CONNECTIONS: u32 = 4;
const CLIENTS: u32 = 8;
const AT_ONCE: u32 = 32;
const KEYS: u32 = 500;
const LOCAL: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 0);

fn messages(run: Run) -> u32 {
    run.scale(2_000, 100)
}

fn batches(run: Run) -> u32 {
    run.scale(600, 20)
}

/// Sends and waits for the same, again and again.
fn talk(mut stream: impl Read + Write, messages: u32) {
    let mut buffer = [7; 64];
    for _ in 0..messages {
        stream.write_all(&buffer).unwrap();
        stream.read_exact(&mut buffer).unwrap();
    }
}

/// Until the other end closes.
fn echo(mut stream: impl Read + Write) {
    let mut buffer = [0; 4096];
    while let Ok(count @ 1..) = stream.read(&mut buffer) {
        stream.write_all(&buffer[..count]).unwrap();
    }
}

fn few_volt(run: Run) -> f64 {
    use volt::net::{TcpListener, TcpStream};
    on_volt(run, move || {
        let listener = TcpListener::bind(LOCAL).unwrap();
        let address = listener.local_addr().unwrap();
        volt::go(move || {
            while let Ok((stream, _)) = listener.accept() {
                stream.set_nodelay(true).unwrap();
                volt::go(move || echo(stream));
            }
        });
        let messages = messages(run);
        let mut sampler = run.sampler(CONNECTIONS * messages);
        while sampler.again() {
            let start = Instant::now();
            let client = move || {
                let stream = TcpStream::connect(address).unwrap();
                stream.set_nodelay(true).unwrap();
                talk(stream, messages);
            };
            let clients: Vec<_> = (0..CONNECTIONS).map(|_| volt::go(client)).collect();
            clients.into_iter().for_each(|client| client.join().unwrap());
            sampler.add(start.elapsed());
        }
        sampler.figure()
    })
}

fn few_may(run: Run) -> f64 {
    use may::net::{TcpListener, TcpStream};
    on_may(run, move || {
        let listener = TcpListener::bind(LOCAL).unwrap();
        let address = listener.local_addr().unwrap();
        may::go!(move || {
            while let Ok((stream, _)) = listener.accept() {
                stream.set_nodelay(true).unwrap();
                may::go!(move || echo(stream));
            }
        });
        let messages = messages(run);
        let mut sampler = run.sampler(CONNECTIONS * messages);
        while sampler.again() {
            let start = Instant::now();
            let client = move || {
                let stream = TcpStream::connect(address).unwrap();
                stream.set_nodelay(true).unwrap();
                talk(stream, messages);
            };
            let clients: Vec<_> = (0..CONNECTIONS).map(|_| may::go!(client)).collect();
            clients.into_iter().for_each(|client| client.join().unwrap());
            sampler.add(start.elapsed());
        }
        sampler.figure()
    })
}

fn few_tokio(run: Run) -> f64 {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::{TcpListener, TcpStream};
    on_tokio(run, async move {
        let listener = TcpListener::bind(LOCAL).await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                stream.set_nodelay(true).unwrap();
                tokio::spawn(async move {
                    let mut buffer = [0; 4096];
                    while let Ok(count @ 1..) = stream.read(&mut buffer).await {
                        stream.write_all(&buffer[..count]).await.unwrap();
                    }
                });
            }
        });
        let messages = messages(run);
        let mut sampler = run.sampler(CONNECTIONS * messages);
        while sampler.again() {
            let start = Instant::now();
            let client = move || async move {
                let mut stream = TcpStream::connect(address).await.unwrap();
                stream.set_nodelay(true).unwrap();
                let mut buffer = [7; 64];
                for _ in 0..messages {
                    stream.write_all(&buffer).await.unwrap();
                    stream.read_exact(&mut buffer).await.unwrap();
                }
            };
            let clients: Vec<_> = (0..CONNECTIONS).map(|_| tokio::spawn(client())).collect();
            for client in clients {
                client.await.unwrap();
            }
            sampler.add(start.elapsed());
        }
        sampler.figure()
    })
}

/// A client's lines of one batch.
fn requests(client: u32, batch: u32, into: &mut Vec<u8>) {
    into.clear();
    for line in 0..AT_ONCE {
        let key = (client * 31 + batch * 7 + line) % KEYS;
        match (batch + line) % 5 {
            0 => writeln!(into, "SET key{key} value-of-{batch}").unwrap(),
            _ => writeln!(into, "GET key{key}").unwrap(),
        }
    }
}

/// A line, taken apart.
enum Request<'a> {
    Get(&'a str),
    Set(&'a str, &'a str),
    Unknown,
}

fn parse(line: &str) -> Request<'_> {
    let mut words = line.trim_end().splitn(3, ' ');
    match (words.next(), words.next(), words.next()) {
        (Some("GET"), Some(key), None) => Request::Get(key),
        (Some("SET"), Some(key), Some(value)) => Request::Set(key, value),
        _ => Request::Unknown,
    }
}

/// What each runtime's lock does for the store.
trait Store: Send + Sync {
    fn read<R>(&self, look: impl FnOnce(&HashMap<String, String>) -> R) -> R;
    fn write(&self, change: impl FnOnce(&mut HashMap<String, String>));
}

/// A lock of the standard library's shape.
macro_rules! store {
    ($($lock:tt)+) => {
        impl Store for $($lock)+<HashMap<String, String>> {
            fn read<R>(&self, look: impl FnOnce(&HashMap<String, String>) -> R) -> R {
                look(&$($lock)+::read(self).unwrap())
            }

            fn write(&self, change: impl FnOnce(&mut HashMap<String, String>)) {
                change(&mut $($lock)+::write(self).unwrap());
            }
        }
    };
}

store!(volt::sync::RwLock);
store!(may::sync::RwLock);
store!(std::sync::RwLock);

/// Answers a line.
fn answer(store: &impl Store, line: &str, to: &mut impl Write) -> std::io::Result<()> {
    match parse(line) {
        Request::Get(key) => store.read(|all| match all.get(key) {
            Some(value) => writeln!(to, "{value}"),
            None => writeln!(to, "-"),
        }),
        Request::Set(key, value) => {
            store.write(|all| _ = all.insert(key.into(), value.into()));
            writeln!(to, "OK")
        }
        Request::Unknown => writeln!(to, "ERROR"),
    }
}

/// Answers each line until the other end closes. What is answered goes out once no more lines have come.
fn serve(stream: impl Read, answers: impl Write, store: &impl Store) {
    let (mut lines, mut answers) = (BufReader::new(stream), BufWriter::new(answers));
    let mut line = String::new();
    while lines.read_line(&mut line).is_ok_and(|length| length > 0) {
        answer(store, &line, &mut answers).unwrap();
        if lines.buffer().is_empty() {
            answers.flush().unwrap();
        }
        line.clear();
    }
}

/// Sends batches, and waits for as many lines.
fn ask(number: u32, batches: u32, answers: impl Read, mut out: impl Write) {
    let mut answers = BufReader::new(answers);
    let (mut lines, mut line) = (Vec::new(), String::new());
    for batch in 0..batches {
        requests(number, batch, &mut lines);
        out.write_all(&lines).unwrap();
        for _ in 0..AT_ONCE {
            line.clear();
            assert!(answers.read_line(&mut line).unwrap() > 0);
        }
    }
}

fn store_volt(run: Run) -> f64 {
    use volt::net::{TcpListener, TcpStream};
    use volt::sync::RwLock;

    on_volt(run, move || {
        let listener = TcpListener::bind(LOCAL).unwrap();
        let address = listener.local_addr().unwrap();
        let store = Arc::new(RwLock::default());
        volt::go(move || {
            while let Ok((stream, _)) = listener.accept() {
                let store = Arc::clone(&store);
                stream.set_nodelay(true).unwrap();
                volt::go(move || {
                    let answers = stream.try_clone().unwrap();
                    serve(stream, answers, &*store);
                });
            }
        });
        let batches = batches(run);
        let mut sampler = run.sampler(CLIENTS * AT_ONCE * batches);
        while sampler.again() {
            let start = Instant::now();
            let client = move |number| {
                let stream = TcpStream::connect(address).unwrap();
                stream.set_nodelay(true).unwrap();
                ask(number, batches, stream.try_clone().unwrap(), stream);
            };
            let clients: Vec<_> = (0..CLIENTS).map(|one| volt::go(move || client(one))).collect();
            clients.into_iter().for_each(|client| client.join().unwrap());
            sampler.add(start.elapsed());
        }
        sampler.figure()
    })
}

fn store_may(run: Run) -> f64 {
    use may::net::{TcpListener, TcpStream};
    use may::sync::RwLock;

    on_may(run, move || {
        let listener = TcpListener::bind(LOCAL).unwrap();
        let address = listener.local_addr().unwrap();
        let store = Arc::new(RwLock::new(HashMap::new()));
        may::go!(move || {
            while let Ok((stream, _)) = listener.accept() {
                let store = Arc::clone(&store);
                stream.set_nodelay(true).unwrap();
                may::go!(move || {
                    let answers = stream.try_clone().unwrap();
                    serve(stream, answers, &*store);
                });
            }
        });
        let batches = batches(run);
        let mut sampler = run.sampler(CLIENTS * AT_ONCE * batches);
        while sampler.again() {
            let start = Instant::now();
            let client = move |number| {
                let stream = TcpStream::connect(address).unwrap();
                stream.set_nodelay(true).unwrap();
                ask(number, batches, stream.try_clone().unwrap(), stream);
            };
            let clients: Vec<_> = (0..CLIENTS).map(|one| may::go!(move || client(one))).collect();
            clients.into_iter().for_each(|client| client.join().unwrap());
            sampler.add(start.elapsed());
        }
        sampler.figure()
    })
}

fn store_tokio(run: Run) -> f64 {
    use std::sync::RwLock;
    use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, BufWriter};
    use tokio::net::{TcpListener, TcpStream};

    async fn serve(stream: TcpStream, store: Arc<RwLock<HashMap<String, String>>>) {
        let (reader, writer) = stream.into_split();
        let (mut lines, mut answers) = (BufReader::new(reader), BufWriter::new(writer));
        let (mut line, mut out) = (String::new(), Vec::new());
        while lines.read_line(&mut line).await.is_ok_and(|length| length > 0) {
            out.clear();
            answer(&*store, &line, &mut out).unwrap();
            answers.write_all(&out).await.unwrap();
            if lines.buffer().is_empty() {
                answers.flush().await.unwrap();
            }
            line.clear();
        }
    }

    on_tokio(run, async move {
        let listener = TcpListener::bind(LOCAL).await.unwrap();
        let address = listener.local_addr().unwrap();
        let store = Arc::new(RwLock::default());
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                stream.set_nodelay(true).unwrap();
                tokio::spawn(serve(stream, Arc::clone(&store)));
            }
        });
        let batches = batches(run);
        let mut sampler = run.sampler(CLIENTS * AT_ONCE * batches);
        while sampler.again() {
            let start = Instant::now();
            let client = move |number| async move {
                let stream = TcpStream::connect(address).await.unwrap();
                stream.set_nodelay(true).unwrap();
                let (reader, mut stream) = stream.into_split();
                let mut answers = BufReader::new(reader);
                let (mut out, mut line) = (Vec::new(), String::new());
                for batch in 0..batches {
                    requests(number, batch, &mut out);
                    stream.write_all(&out).await.unwrap();
                    for _ in 0..AT_ONCE {
                        line.clear();
                        assert!(answers.read_line(&mut line).await.unwrap() > 0);
                    }
                }
            };
            let clients: Vec<_> = (0..CLIENTS).map(|one| tokio::spawn(client(one))).collect();
            for client in clients {
                client.await.unwrap();
            }
            sampler.add(start.elapsed());
        }
        sampler.figure()
    })
}
