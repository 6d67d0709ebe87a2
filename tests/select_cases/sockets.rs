//! Sockets as cases.

use crate::common::{LONG, until};
use crate::helpers::{Place, Probe, everywhere};
use std::io::{ErrorKind, Read, Write};
use std::sync::Arc;
use std::time::Duration;
use volt::channel::{Select, select, unbounded};
use volt::net::{Shutdown, TcpListener, TcpStream};

fn pair() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    (client, listener.accept().unwrap().0)
}

/// Waits for a case among others while `bring` is done elsewhere.
macro_rules! while_it_waits {
    ($other:expr, $case:expr, $bring:expr) => {{
        let probe = Probe::new();
        let theirs = Arc::clone(&probe);
        let bring = move || {
            theirs.await_wait();
            $bring
        };
        match $other {
            Place::Fiber => drop(volt::go(|| volt::blocking(bring))),
            Place::Thread => $other.go(bring),
        }
        select! {
            wait($case) -> ready => ready.unwrap(),
            wait(*probe) -> () => unreachable!(),
            wait(volt::time::after(LONG)) -> _ => panic!("nothing came"),
        }
        assert!(probe.is_idle());
    }};
}

macro_rules! not_yet {
    ($case:expr) => {
        select! {
            wait($case) -> _ => panic!("not yet"),
            default => {}
        }
        select! {
            wait($case) -> _ => panic!("not yet"),
            default(Duration::from_micros(100)) => {}
        }
    };
}

#[test]
fn data_an_end_and_again_data() {
    everywhere(|other| {
        let (client, mut server) = pair();
        for round in 0..3u8 {
            not_yet!(server.readable());
            let mut theirs = client.try_clone().unwrap();
            while_it_waits!(other, server.readable(), theirs.write_all(&[round]).unwrap());
            // Readable as long as nobody reads.
            select! { wait(server.readable()) -> ready => ready.unwrap() }
            let mut byte = [9];
            server.read_exact(&mut byte).unwrap();
            assert_eq!(byte, [round]);
        }
        let theirs = client.try_clone().unwrap();
        while_it_waits!(other, server.readable(), theirs.shutdown(Shutdown::Write).unwrap());
        for _ in 0..2 {
            select! { wait(server.readable()) -> ready => ready.unwrap() }
            assert_eq!(server.read(&mut [0]).unwrap(), 0);
        }
        drop(client);
    });
}

#[test]
fn room_for_more() {
    everywhere(|other| {
        let (mut client, mut server) = pair();
        select! { wait(client.writable()) -> ready => ready.unwrap() }
        client.set_nonblocking(true).unwrap();
        let mut written = 0;
        let full = loop {
            match client.write(&[0; 65536]) {
                Ok(n) => written += n,
                Err(error) => break error,
            }
        };
        assert_eq!(full.kind(), ErrorKind::WouldBlock);
        not_yet!(client.writable());
        while_it_waits!(other, client.writable(), {
            let mut rest = vec![0; written];
            server.read_exact(&mut rest).unwrap();
        });
        assert!(client.write(&[0; 10]).unwrap() > 0);
    });
}

#[test]
fn a_connection_to_accept() {
    everywhere(|other| {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        for _ in 0..3 {
            not_yet!(listener.readable());
            let (s, connected) = unbounded();
            while_it_waits!(other, listener.readable(), {
                s.send(std::net::TcpStream::connect(address).unwrap()).unwrap()
            });
            listener.accept().unwrap();
            connected.recv().unwrap();
        }
    });
}

#[test]
fn a_reset() {
    everywhere(|other| {
        let (client, server) = pair();
        // With unread data an end is a reset.
        (&server).write_all(b"unread").unwrap();
        while_it_waits!(other, server.readable(), drop(client));
        assert_eq!((&server).read(&mut [0]).unwrap_err().kind(), ErrorKind::ConnectionReset);
    });
}

#[test]
fn a_message_comes_instead_and_the_socket_is_as_before() {
    everywhere(|_| {
        let (mut client, mut server) = pair();
        let (s, r) = unbounded();
        for n in 0..50 {
            let s = s.clone();
            volt::go(move || s.send(n).unwrap());
            select! {
                wait(server.readable()) -> _ => panic!("nothing was written"),
                recv(r) -> message => assert_eq!(message, Ok(n)),
            }
        }
        client.write_all(b"x").unwrap();
        select! {
            wait(server.readable()) -> ready => ready.unwrap(),
            recv(r) -> _ => panic!("nothing was sent"),
        }
        server.read_exact(&mut [0]).unwrap();
    });
}

#[test]
fn both_directions_and_a_reader_at_the_same_time() {
    everywhere(|_| {
        let (mut client, server) = pair();
        let mut reads = server.try_clone().unwrap();
        let reader = volt::go(move || {
            let mut byte = [0];
            reads.read_exact(&mut byte).unwrap();
            byte
        });
        select! {
            wait(server.writable()) -> ready => ready.unwrap(),
            wait(reader) -> () => panic!("nothing was written"),
        }
        client.write_all(b"y").unwrap();
        select! {
            wait(reader) -> () => assert_eq!(reader.join().unwrap(), *b"y"),
            wait(volt::time::after(LONG)) -> _ => panic!("the reader was not told"),
        }
    });
}

#[test]
fn a_socket_goes_from_one_runtime_to_another() {
    let build = || volt::runtime::Builder::new().workers(1).build().unwrap();
    let (mut client, server) = pair();
    let server = Arc::new(server);
    for n in 0..3u8 {
        let theirs = Arc::clone(&server);
        let probe = Probe::new();
        let registered = Arc::clone(&probe);
        let runtime = build();
        let waits = runtime.go(move || {
            select! {
                wait(theirs.readable()) -> ready => ready.unwrap(),
                wait(*registered) -> () => {}
            }
            let mut byte = [0];
            (&*theirs).read_exact(&mut byte).unwrap();
            byte
        });
        probe.await_wait();
        client.write_all(&[n]).unwrap();
        assert_eq!(waits.join().unwrap(), [n]);
        drop(runtime);
    }
}

#[test]
fn many_sockets_of_which_one_has_something() {
    everywhere(|_| {
        let pairs: Vec<_> = (0..40).map(|_| pair()).collect();
        for n in [0, 39, 17] {
            let mut client = pairs[n].0.try_clone().unwrap();
            volt::go(move || client.write_all(b"z").unwrap());
            let cases: Vec<_> = pairs.iter().map(|(_, server)| server.readable()).collect();
            let mut select = Select::new();
            cases.iter().for_each(|case| _ = select.case(case));
            let operation = select.select_timeout(LONG).unwrap();
            assert_eq!(operation.index(), n);
            operation.complete(&cases[n]).unwrap();
            (&pairs[n].1).read_exact(&mut [0]).unwrap();
        }
    });
}

#[test]
fn a_cancel_leaves_nobody_behind() {
    everywhere(|_| {
        let (mut client, mut server) = pair();
        let theirs = server.try_clone().unwrap();
        let probe = Probe::new();
        let registered = Arc::clone(&probe);
        let fiber = volt::go(move || {
            select! {
                wait(theirs.readable()) -> _ => {}
                wait(*registered) -> () => {}
            }
        });
        volt::blocking(|| until("it waits", || !probe.is_idle()));
        fiber.cancel();
        assert!(fiber.join().unwrap_err().is::<volt::cancel::Cancelled>());
        client.write_all(b"w").unwrap();
        select! { wait(server.readable()) -> ready => ready.unwrap() }
        server.read_exact(&mut [0]).unwrap();
    });
}

#[test]
fn where_a_fiber_keeps_its_thread() {
    everywhere(|_| {
        let wait = || {
            let (mut client, mut server) = pair();
            let writer = volt::go(move || client.write_all(b"v").unwrap());
            select! {
                wait(server.readable()) -> ready => ready.unwrap(),
                wait(volt::time::after(LONG)) -> _ => panic!("nothing came"),
            }
            server.read_exact(&mut [0]).unwrap();
            select! { wait(writer) -> () => writer.join().unwrap() }
        };
        volt::blocking(wait);
        volt::thread::pinned(wait);
    });
    crate::common::within(LONG, || {
        volt::runtime::Builder::new_current_thread().build().unwrap().run(|| {
            let (mut client, server) = pair();
            let writer = volt::go(move || client.write_all(b"v").unwrap());
            volt::blocking(|| select! { wait(server.readable()) -> ready => ready.unwrap() });
            writer.join().unwrap();
        });
    });
}
