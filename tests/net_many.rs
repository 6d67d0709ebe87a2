//! Many: connections, acceptors, bytes.

mod net_support;

use net_support::{Watchdog, current_thread, listen, workers};
use std::collections::HashSet;
use std::io::{Read, Write};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use volt::JoinHandle;
use volt::channel::{self, Receiver};
use volt::net::{TcpListener, TcpStream};
use volt::runtime::{Builder, Handle, Migrate, Runtime};

fn runtimes() -> [Runtime; 4] {
    [current_thread(), workers(1), workers(2), workers(4)]
}

/// Echoes until the end, on every connection of the listener, until one sends the byte 0 alone.
fn serve(listener: TcpListener) {
    for stream in listener.incoming() {
        let mut stream = stream.unwrap();
        volt::go(move || {
            let mut buf = [0; 4096];
            loop {
                match stream.read(&mut buf).unwrap() {
                    0 => return,
                    n => stream.write_all(&buf[..n]).unwrap(),
                }
            }
        });
    }
}

fn raise_limit() {
    let mut limit = rustix::process::getrlimit(rustix::process::Resource::Nofile);
    limit.current = limit.maximum;
    rustix::process::setrlimit(rustix::process::Resource::Nofile, limit).unwrap();
}

#[test]
fn each_connection_is_accepted_once_and_nobody_is_left_behind() {
    const ACCEPTORS: usize = 50;
    const EACH: usize = 10;
    for runtime in runtimes() {
        let _watch = Watchdog::new("acceptors");
        runtime.run(|| {
            let (listener, address) = listen();
            let listener = Arc::new(listener);
            let acceptors: Vec<_> = (0..ACCEPTORS)
                .map(|_| {
                    let listener = Arc::clone(&listener);
                    volt::go(move || {
                        (0..EACH).map(|_| listener.accept().unwrap().1).collect::<Vec<_>>()
                    })
                })
                .collect();
            let mut open = Vec::new();
            for _ in 0..ACCEPTORS * EACH {
                open.push(TcpStream::connect(address).unwrap());
            }
            let made: HashSet<SocketAddr> =
                open.iter().map(|stream| stream.local_addr().unwrap()).collect();
            let mut seen = HashSet::new();
            for acceptor in acceptors {
                for from in acceptor.join().unwrap() {
                    assert!(seen.insert(from), "{from} was accepted twice");
                }
            }
            assert_eq!(seen, made);
        });
    }
}

/// So many fibers that accept, until the listener says no more, and tell of each connection.
fn acceptors(
    count: usize,
    listener: &Arc<TcpListener>,
) -> (Vec<JoinHandle<std::io::Error>>, Receiver<TcpStream>) {
    let (accepted, connections) = channel::unbounded();
    let accept = |_| {
        let (listener, accepted) = (Arc::clone(listener), accepted.clone());
        volt::go(move || {
            loop {
                match listener.accept() {
                    Ok((stream, _)) => accepted.send(stream).unwrap(),
                    Err(error) => return error,
                }
            }
        })
    };
    ((0..count).map(accept).collect(), connections)
}

#[test]
fn a_connection_wakes_few_of_many_acceptors() {
    const CONNECTIONS: u64 = 200;
    for runtime in runtimes() {
        let _watch = Watchdog::new("idle acceptors");
        runtime.run(|| {
            let (listener, address) = listen();
            let (acceptors, connections) = acceptors(64, &Arc::new(listener));
            let connect = || {
                let near = TcpStream::connect(address).unwrap();
                let far = connections.recv().unwrap();
                assert_eq!(far.peer_addr().unwrap(), near.local_addr().unwrap());
            };
            let dispatches = || Handle::current().stats().total.dispatched;
            // So that all are registered and wait.
            connect();
            let before = dispatches();
            (0..CONNECTIONS).for_each(|_| connect());
            let each = (dispatches() - before) / CONNECTIONS;
            // Who accepts, and the client.
            assert!(each <= 2, "{each} dispatches for a connection");
            for acceptor in acceptors {
                acceptor.cancel();
                assert!(volt::cancel::is_cancelled(&acceptor.join().unwrap()));
            }
        });
    }
}

/// The one that is woken may have its home at a worker that does not come back before it is served.
#[test]
fn a_blocked_worker_keeps_no_connection_from_the_others_acceptors() {
    let _watch = Watchdog::new("acceptors that must not move");
    let runtime = Builder::new().workers(2).migrate(Migrate::BeforeStart).build().unwrap();
    let (listener, address) = listen();
    // They begin side by side, so each has another home.
    let begun = Arc::new(AtomicUsize::new(0));
    let accept = || {
        let (listener, begun) = (listener.try_clone().unwrap(), Arc::clone(&begun));
        runtime.go(move || {
            begun.fetch_add(1, Ordering::SeqCst);
            while begun.load(Ordering::SeqCst) < 2 {
                std::hint::spin_loop();
            }
            while let Ok((mut stream, _)) = listener.accept() {
                stream.write_all(&[1]).unwrap();
            }
        })
    };
    let acceptors = [accept(), accept()];
    for _ in 0..64 {
        let client = runtime.go(move || {
            volt::blocking(|| {
                let mut stream = std::net::TcpStream::connect(address).unwrap();
                stream.read_exact(&mut [0]).unwrap();
            });
        });
        client.join().unwrap();
    }
    acceptors.iter().for_each(JoinHandle::cancel);
    acceptors.into_iter().for_each(|acceptor| acceptor.join().unwrap());
}

/// Two connections come while both workers compute. The first one to have time for them keeps its worker busy until
/// both are accepted, and the other worker has time only after that one has passed on.
#[test]
fn who_computes_with_one_connection_leaves_the_next_to_another_worker() {
    // A fiber that must go to another worker each time would wait for one that computes.
    let settings = Builder::new().workers(2).stall_period(None).force_migrate(false);
    let runtime = settings.build().unwrap();
    for _ in 0..20 {
        let _watch = Watchdog::new("two connections at once");
        let (listener, address) = listen();
        let listener = Arc::new(listener);
        let [accepted, computing, connected] = [(); 3].map(|()| Arc::new(AtomicUsize::new(0)));
        let until = |what: &Arc<AtomicUsize>, count: usize| {
            let what = Arc::clone(what);
            move || {
                while what.load(Ordering::SeqCst) < count {
                    std::hint::spin_loop();
                }
            }
        };
        let accept = || {
            let (listener, accepted) = (Arc::clone(&listener), Arc::clone(&accepted));
            let all = until(&accepted, 2);
            move || {
                drop(listener.accept().unwrap());
                accepted.fetch_add(1, Ordering::SeqCst);
                all();
            }
        };
        let acceptors = [runtime.go(accept()), runtime.go(accept())];
        let waiting =
            || runtime.handle().fibers(8).iter().filter(|f| f.waits_for.is_some()).count();
        while waiting() < 2 {
            std::thread::yield_now();
        }
        let compute = |until: Box<dyn FnOnce() + Send>| {
            let computing = Arc::clone(&computing);
            runtime.go(move || {
                computing.fetch_add(1, Ordering::SeqCst);
                until();
            })
        };
        let one = compute(Box::new(until(&connected, 1)));
        let other = compute(Box::new(until(&accepted, 1)));
        until(&computing, 2)();
        let clients = [(); 2].map(|()| std::net::TcpStream::connect(address).unwrap());
        connected.store(1, Ordering::SeqCst);
        acceptors.into_iter().chain([one, other]).for_each(|fiber| fiber.join().unwrap());
        drop(clients);
    }
}

#[test]
fn the_end_of_a_listener_reaches_all_acceptors() {
    for runtime in runtimes() {
        let _watch = Watchdog::new("the end of a listener");
        runtime.run(|| {
            let (listener, address) = listen();
            let listener = Arc::new(listener);
            let (acceptors, connections) = acceptors(16, &listener);
            let _near = TcpStream::connect(address).unwrap();
            connections.recv().unwrap();
            rustix::net::shutdown(&*listener, rustix::net::Shutdown::Read).unwrap();
            for acceptor in acceptors {
                let error = acceptor.join().unwrap();
                assert_eq!(error.kind(), std::io::ErrorKind::InvalidInput, "{error}");
            }
        });
    }
}

#[test]
fn acceptors_of_three_kinds_share_a_listener() {
    const EACH: usize = 300;
    let _watch = Watchdog::new("mixed acceptors");
    let (one, two) = (workers(1), workers(2));
    let (listener, address) = listen();
    let listener = Arc::new(listener);
    let left = Arc::new(AtomicUsize::new(3 * EACH));
    let accept = |listener: &Arc<TcpListener>| {
        let (listener, left) = (Arc::clone(listener), Arc::clone(&left));
        move || {
            (0..EACH).for_each(|_| drop(listener.accept().unwrap()));
            left.fetch_sub(EACH, Ordering::SeqCst);
        }
    };
    let (a, b) = (one.go(accept(&listener)), two.go(accept(&listener)));
    let c = std::thread::spawn(accept(&listener));
    let clients: Vec<_> = (0..3)
        .map(|_| {
            volt::go(move || (0..EACH).for_each(|_| drop(TcpStream::connect(address).unwrap())))
        })
        .collect();
    clients.into_iter().for_each(|client| client.join().unwrap());
    a.join().unwrap();
    b.join().unwrap();
    c.join().unwrap();
    assert_eq!(left.load(Ordering::SeqCst), 0);
}

#[test]
fn two_thousand_connections_at_once() {
    const CONNECTIONS: usize = 2000;
    const ROUNDS: usize = 5;
    raise_limit();
    for runtime in [current_thread(), workers(2)] {
        let _watch = Watchdog::new("2000 connections");
        runtime.run(|| {
            let (listener, address) = listen();
            let server = volt::go(move || serve(listener));
            let open = Arc::new(AtomicUsize::new(0));
            let clients: Vec<_> = (0..CONNECTIONS)
                .map(|id| {
                    let open = Arc::clone(&open);
                    volt::go(move || {
                        let mut stream = TcpStream::connect(address).unwrap();
                        open.fetch_add(1, Ordering::SeqCst);
                        net_support::eventually("all connections", || {
                            open.load(Ordering::SeqCst) == CONNECTIONS
                        });
                        for round in 0..ROUNDS {
                            exchange(&mut stream, id * ROUNDS + round);
                        }
                    })
                })
                .collect();
            clients.into_iter().for_each(|client| client.join().unwrap());
            server.cancel();
            assert!(server.join().is_err(), "a cancelled server ends with an error");
        });
    }
}

/// Sends bytes that depend on `seed` and wants the same back.
fn exchange(stream: &mut TcpStream, seed: usize) {
    let len = 1 + (seed * 7919) % 3000;
    let sent: Vec<u8> = (0..len).map(|i| (seed * 31 + i * 17 + (i >> 8)) as u8).collect();
    let mut got = vec![0; len];
    stream.write_all(&sent).unwrap();
    stream.read_exact(&mut got).unwrap();
    assert!(got == sent, "the bytes of another");
}

#[test]
fn thousands_of_short_connections() {
    for runtime in runtimes() {
        let _watch = Watchdog::new("short connections");
        runtime.run(|| {
            let (listener, address) = listen();
            let server = volt::go(move || {
                for _ in 0..3000 {
                    let (mut stream, _) = listener.accept().unwrap();
                    volt::go(move || stream.write_all(b"bye").unwrap());
                }
            });
            let clients: Vec<_> = (0..10)
                .map(|_| {
                    volt::go(move || {
                        for _ in 0..300 {
                            let mut text = String::new();
                            let mut stream = TcpStream::connect(address).unwrap();
                            stream.read_to_string(&mut text).unwrap();
                            assert_eq!(text, "bye");
                        }
                    })
                })
                .collect();
            clients.into_iter().for_each(|client| client.join().unwrap());
            server.join().unwrap();
        });
    }
}

#[test]
fn both_directions_at_once() {
    const LEN: usize = 2 << 20;
    for runtime in runtimes() {
        let _watch = Watchdog::new("both directions");
        runtime.run(|| {
            let (near, far) = net_support::pair();
            let fibers: Vec<_> = [near, far]
                .into_iter()
                .flat_map(|end| {
                    let (mut reader, mut writer) = (end.try_clone().unwrap(), end);
                    let write = volt::go(move || {
                        for i in 0..LEN / 1024 {
                            writer.write_all(&[i as u8; 1024]).unwrap();
                        }
                        writer.shutdown(std::net::Shutdown::Write).unwrap();
                    });
                    let read = volt::go(move || {
                        let mut all = Vec::new();
                        reader.read_to_end(&mut all).unwrap();
                        assert_eq!(all.len(), LEN);
                        assert!(all.iter().enumerate().all(|(i, byte)| *byte == (i / 1024) as u8));
                    });
                    [write, read]
                })
                .collect();
            fibers.into_iter().for_each(|fiber| fiber.join().unwrap());
        });
    }
}
