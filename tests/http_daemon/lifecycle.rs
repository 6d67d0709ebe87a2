//! The daemon and its connections as a whole: peers that go away, panics, many connections, no descriptors, shutdown.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use crate::harness::{Client, PATIENCE, Server, poll, raise_descriptor_limit};

const HELLO: &str = "GET / HTTP/1.1\r\nHost: volt\r\n\r\n";

fn reset(client: &Client) {
    use std::os::fd::AsRawFd;
    let linger = libc::linger { l_onoff: 1, l_linger: 0 };
    let len = size_of::<libc::linger>() as libc::socklen_t;
    let fd = client.stream.as_raw_fd();
    // SAFETY: the option is a struct linger, and so is what is passed.
    let result = unsafe {
        libc::setsockopt(fd, libc::SOL_SOCKET, libc::SO_LINGER, (&raw const linger).cast(), len)
    };
    assert_eq!(result, 0);
}

/// How many connections the daemon has, the asking one not counted.
fn open_connections(server: &Server) -> usize {
    let stats = server.ask("GET /stats HTTP/1.1\r\nHost: volt\r\nConnection: close\r\n\r\n");
    let count =
        stats.text().split(r#""connections":"#).nth(1).and_then(|rest| rest.split(',').next());
    count.expect("a count").parse::<usize>().expect("a number") - 1
}

#[test]
fn a_half_closed_peer_gets_its_answers() {
    let server = Server::start();
    let mut client = server.connect();
    client.send([HELLO, HELLO].concat());
    client.finish_sending();
    assert_eq!([client.answer().status, client.answer().status], [200, 200]);
    client.expect_end();

    let mut client = server.connect();
    client.send("POST /echo HTTP/1.1\r\nHost: volt\r\nContent-Length: 5\r\n\r\nabc");
    client.finish_sending();
    assert_eq!(client.answer().status, 400);
    client.expect_end();

    let mut client = server.connect();
    client.finish_sending();
    client.expect_end();
}

#[test]
fn reset_peers_end_alone() {
    let server = Server::start();
    let mut bystander = server.connect();
    for sent in
        ["", "GET / HT", HELLO, "POST /echo HTTP/1.1\r\nHost: volt\r\nContent-Length: 5\r\n\r\nabc"]
    {
        for _ in 0..20 {
            let mut client = server.connect();
            client.send(sent);
            reset(&client);
        }
    }
    poll(PATIENCE, "the reset connections are gone", || {
        (open_connections(&server) == 1).then_some(())
    });
    bystander.send(HELLO);
    assert_eq!(bystander.answer().status, 200);
}

/// A peer that asks and asks and reads nothing stops only itself.
#[test]
fn a_peer_that_does_not_read_is_not_waited_for() {
    let server = Server::start();
    let greedy = server.connect();
    greedy.stream.set_nonblocking(true).unwrap();
    let batch = HELLO.repeat(1000);
    let mut full_since = None;
    poll(PATIENCE, "the daemon stops reading", || match (&greedy.stream).write(batch.as_bytes()) {
        Err(e) if e.kind() == ErrorKind::WouldBlock => {
            let since: &Instant = full_since.get_or_insert_with(Instant::now);
            (since.elapsed() > Duration::from_millis(300)).then_some(())
        }
        written => {
            full_since = None;
            written.map(|_| None).expect("the connection is open")
        }
    });
    assert_eq!(server.ask(HELLO).status, 200);
}

#[test]
fn a_panic_costs_its_own_connection() {
    let server = Server::start();
    let mut bystander = server.connect();
    for _ in 0..20 {
        let mut client = server.connect();
        client.send([HELLO, "GET /panic HTTP/1.1\r\nHost: volt\r\n\r\n", HELLO].concat());
        assert_eq!(client.answer().status, 200);
        let answer = client.answer();
        assert_eq!((answer.status, answer.header("connection")), (500, Some("close")));
        client.expect_end();
    }
    bystander.send(HELLO);
    assert_eq!(bystander.answer().status, 200);
    poll(PATIENCE, "the panics are reported", || server.stderr().contains("/panic").then_some(()));
}

#[test]
fn thousands_of_connections_at_once() {
    let server = Server::start();
    let count = (raise_descriptor_limit() / 2).clamp(1000, 4000) as usize;
    let mut clients: Vec<_> = (0..count).map(|_| server.connect()).collect();
    for _ in 0..2 {
        clients.iter_mut().for_each(|client| client.send(HELLO));
        clients.iter_mut().for_each(|client| assert_eq!(client.answer().status, 200));
    }
    assert_eq!(open_connections(&server), count);
    drop(clients);
    poll(PATIENCE, "they are all gone", || (open_connections(&server) == 0).then_some(()));
}

#[test]
fn without_descriptors_it_waits_and_recovers() {
    let server = Server::with(&["--workers", "2"], Some(64));
    let mut clients: Vec<_> = (0..100).map(|_| server.connect()).collect();
    poll(PATIENCE, "it says that it cannot accept", || {
        server.stderr().contains("cannot accept").then_some(())
    });
    // Those who are in are served, the others stand in the backlog.
    clients[0].send(HELLO);
    assert_eq!(clients[0].answer().status, 200);
    // It goes on failing for several back-offs.
    std::thread::sleep(Duration::from_millis(400));
    clients.drain(1..80);
    clients.last_mut().unwrap().send(HELLO);
    assert_eq!(clients.last_mut().unwrap().answer().status, 200);
    assert_eq!(server.ask(HELLO).status, 200);
    assert_eq!(server.stderr().matches("cannot accept").count(), 1, "{}", server.stderr());
}

#[test]
fn idle_connections_are_closed_at_once() {
    for signal in [libc::SIGTERM, libc::SIGINT] {
        let mut server = Server::start();
        let mut clients: Vec<_> = (0..100).map(|_| server.connect()).collect();
        clients[..50].iter_mut().for_each(|client| client.send(HELLO));
        clients[..50].iter_mut().for_each(|client| assert_eq!(client.answer().status, 200));
        poll(PATIENCE, "all are accepted", || (open_connections(&server) == 100).then_some(()));
        let told = Instant::now();
        server.signal(signal);
        clients.iter_mut().for_each(Client::expect_end);
        let took = told.elapsed();
        assert!(took < Duration::from_secs(2), "idle connections were waited for: {took:?}");
        assert!(server.wait(Duration::from_secs(3)).success());
        assert!(TcpStream::connect(server.addr).is_err());
    }
}

#[test]
fn requests_in_flight_are_finished() {
    let mut server = Server::start();
    let mut clients: Vec<_> = (0..10).map(|_| server.connect()).collect();
    let request =
        "POST /echo HTTP/1.1\r\nHost: volt\r\nExpect: 100-continue\r\nContent-Length: 7\r\n\r\n";
    for client in &mut clients {
        client.send(request);
        // The request is in flight for certain once its body is asked for.
        assert_eq!(client.answer().status, 100);
    }
    server.terminate();
    poll(PATIENCE, "it stops listening", || TcpStream::connect(server.addr).is_err().then_some(()));
    for client in &mut clients {
        client.send("one two");
        let answer = client.answer();
        assert_eq!((answer.status, answer.text()), (200, "one two"));
        assert_eq!(answer.header("connection"), Some("close"));
        client.expect_end();
    }
    drop(clients);
    assert!(server.wait(Duration::from_secs(3)).success());
}

/// What has reached the daemon's sockets before the signal is answered, read or not, accepted or not. A process that is
/// stopped reads and accepts nothing, so that all of it is there when it goes on.
#[test]
fn requests_that_have_arrived_are_answered() {
    let mut server = Server::start();
    let mut clients: Vec<_> = (0..20).map(|_| server.connect()).collect();
    for client in &mut clients {
        client.send(HELLO);
        assert_eq!(client.answer().status, 200);
    }
    server.signal(libc::SIGSTOP);
    clients.extend((0..20).map(|_| server.connect()));
    clients.iter_mut().for_each(|client| client.send(HELLO));
    server.terminate();
    server.signal(libc::SIGCONT);
    for (i, client) in clients.iter_mut().enumerate() {
        let answer = client.try_answer(true);
        assert_eq!(answer.map(|answer| answer.status).ok(), Some(200), "connection {i}");
        client.expect_end();
    }
    drop(clients);
    assert!(server.wait(Duration::from_secs(3)).success());
}

#[test]
fn what_does_not_finish_is_cut_off() {
    let mut server = Server::start();
    let mut client = server.connect();
    client.send(
        "POST /echo HTTP/1.1\r\nHost: volt\r\nExpect: 100-continue\r\nContent-Length: 7\r\n\r\n",
    );
    assert_eq!(client.answer().status, 100);
    let begun = Instant::now();
    server.terminate();
    assert!(server.wait(Duration::from_secs(8)).success());
    assert!(begun.elapsed() > Duration::from_millis(4500), "{:?}", begun.elapsed());
    assert!(server.stderr().contains("cutting off 1 "), "{}", server.stderr());
}

/// Under load: a client that has begun to read an answer gets all of it, one that has been told `close` sees the end,
/// and a request that goes unanswered was never begun: its connection ended without a byte.
#[test]
fn stopping_under_load_loses_no_answer() {
    let mut server = Server::start();
    let (answered, halved) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let stop = AtomicBool::new(false);
    let addr = server.addr;
    std::thread::scope(|s| {
        for _ in 0..16 {
            s.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    let Ok(stream) = TcpStream::connect(addr) else {
                        return;
                    };
                    let mut client = Client::new(stream);
                    loop {
                        if client.stream.write_all(HELLO.repeat(4).as_bytes()).is_err() {
                            break;
                        }
                        match read_batch(&mut client, 4) {
                            Batch::Whole => answered.fetch_add(4, Ordering::Relaxed),
                            Batch::Halved => halved.fetch_add(1, Ordering::Relaxed),
                            Batch::Closed => break,
                        };
                    }
                }
            });
        }
        poll(PATIENCE, "the load runs", || (answered.load(Ordering::Relaxed) > 2000).then_some(()));
        server.terminate();
        let status = server.wait(Duration::from_secs(7));
        stop.store(true, Ordering::Relaxed);
        assert!(status.success());
    });
    assert_eq!(halved.load(Ordering::Relaxed), 0);
}

enum Batch {
    Whole,
    /// Some of the batch was answered, and the last of these answers did not say that it was the last.
    Halved,
    Closed,
}

fn read_batch(client: &mut Client, len: usize) -> Batch {
    for i in 0..len {
        match client.try_answer(true) {
            Ok(answer) if answer.header("connection") == Some("close") => {
                // Nothing may follow, but the end must be a proper one.
                return match client.stream.read(&mut [0; 1]) {
                    Ok(0) => Batch::Closed,
                    _ => Batch::Halved,
                };
            }
            Ok(_) => {}
            Err(_) if i == 0 => return Batch::Closed,
            Err(_) => return Batch::Halved,
        }
    }
    Batch::Whole
}
