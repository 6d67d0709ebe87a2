//! Connections, reads and writes: the standard library's own tests of TCP, in every world.

mod net_support;

use net_support::common::{LONG, within};
use net_support::{eventually, everywhere, listen, listener_without_room, pair};
use std::io::{ErrorKind, IoSlice, IoSliceMut, Read, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use volt::net::{Ipv4Addr, Ipv6Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use volt::runtime::Builder;

#[test]
fn bind_error() {
    everywhere(|_| {
        let error = TcpListener::bind("192.0.2.1:9999").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::AddrNotAvailable);
        let none: &[SocketAddr] = &[];
        let error = TcpListener::bind(none).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput);
        assert_eq!(error.to_string(), std::net::TcpListener::bind(none).unwrap_err().to_string());
    });
}

#[test]
fn connect_refused() {
    everywhere(|_| {
        let (listener, address) = listen();
        drop(listener);
        let error = TcpStream::connect(address).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ConnectionRefused);
        assert_eq!(error.raw_os_error(), Some(libc::ECONNREFUSED));
        let error = TcpStream::connect_timeout(&address, Duration::from_secs(20)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ConnectionRefused);
        assert!(TcpStream::connect(&[] as &[SocketAddr]).is_err());
    });
}

#[test]
fn connect_tries_each_address() {
    everywhere(|_| {
        let (closed, dead) = listen();
        drop(closed);
        let (_listener, live) = listen();
        let stream = TcpStream::connect(&[dead, live][..]).unwrap();
        assert_eq!(stream.peer_addr().unwrap(), live);
    });
}

#[test]
fn connect_timeout() {
    everywhere(|_| {
        let (_listener, address) = listen();
        TcpStream::connect_timeout(&address, Duration::from_secs(20)).unwrap();
        let error = TcpStream::connect_timeout(&address, Duration::ZERO).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput);
        assert_eq!(error.to_string(), "cannot set a 0 duration timeout");
    });
}

#[test]
fn connect_times_out() {
    everywhere(|_| {
        let (_full, address) = listener_without_room();
        let mut kept = Vec::new();
        let start = Instant::now();
        let error = loop {
            match TcpStream::connect_timeout(&address, Duration::from_millis(50)) {
                Ok(stream) => kept.push(stream),
                Err(error) => break error,
            }
            assert!(kept.len() < 100);
        };
        assert_eq!(error.kind(), ErrorKind::TimedOut);
        assert_eq!(error.to_string(), "connection timed out");
        assert!(start.elapsed() >= Duration::from_millis(50));
    });
}

#[test]
fn listens_on_a_name() {
    let listener = TcpListener::bind("localhost:0").unwrap();
    let address = listener.local_addr().unwrap();
    assert!(address.ip().is_loopback());
    TcpStream::connect(("localhost", address.port())).unwrap();
}

#[test]
fn version_6() {
    everywhere(|_| {
        let Ok(listener) = TcpListener::bind((Ipv6Addr::LOCALHOST, 0)) else { return };
        let address = listener.local_addr().unwrap();
        assert!(address.is_ipv6());
        let stream = TcpStream::connect(address).unwrap();
        let (_far, from) = listener.accept().unwrap();
        assert_eq!(from, stream.local_addr().unwrap());
    });
}

#[test]
fn smoke() {
    everywhere(|world| {
        let (listener, address) = listen();
        let peer = world.spawn(move || {
            let mut stream = TcpStream::connect(address).unwrap();
            stream.write_all(&[99]).unwrap();
        });
        let mut stream = listener.accept().unwrap().0;
        let mut buf = [0];
        assert_eq!(stream.read(&mut buf).unwrap(), 1);
        assert_eq!(buf, [99]);
        peer.join();
    });
}

#[test]
fn read_eof() {
    everywhere(|world| {
        let (listener, address) = listen();
        let peer = world.spawn(move || drop(TcpStream::connect(address).unwrap()));
        let mut stream = listener.accept().unwrap().0;
        assert_eq!(stream.read(&mut [0]).unwrap(), 0);
        assert_eq!(stream.read(&mut [0]).unwrap(), 0);
        peer.join();
    });
}

#[test]
fn write_after_close_fails_without_a_signal() {
    // SIGPIPE would end the process, whose runtime the standard library does not shield here.
    // SAFETY: sets a disposition.
    let before = unsafe { libc::signal(libc::SIGPIPE, libc::SIG_DFL) };
    everywhere(|world| {
        for vectored in [false, true] {
            let (near, mut far) = pair();
            world.spawn(move || drop(near)).join();
            let start = Instant::now();
            let error = loop {
                let result = match vectored {
                    true => far.write_vectored(&[IoSlice::new(&[1]), IoSlice::new(&[2])]),
                    false => far.write(&[0]),
                };
                match result {
                    Ok(_) => assert!(start.elapsed() < Duration::from_secs(30)),
                    Err(error) => break error,
                }
            };
            let kinds = [ErrorKind::BrokenPipe, ErrorKind::ConnectionReset];
            assert!(kinds.contains(&error.kind()), "{error}");
        }
    });
    // SAFETY: as above.
    unsafe { libc::signal(libc::SIGPIPE, before) };
}

#[test]
fn multiple_connections_one_after_the_other() {
    everywhere(|world| {
        let (listener, address) = listen();
        let peer = world.spawn(move || {
            for _ in 0..10 {
                TcpStream::connect(address).unwrap().write_all(&[99]).unwrap();
            }
        });
        for stream in listener.incoming().take(10) {
            let mut buf = [0];
            stream.unwrap().read_exact(&mut buf).unwrap();
            assert_eq!(buf, [99]);
        }
        peer.join();
    });
}

#[test]
fn multiple_connections_interleaved() {
    everywhere(|world| {
        const N: u8 = 10;
        let (listener, address) = listen();
        let server = world.spawn(move || {
            let streams = listener.incoming().take(N as usize);
            let readers: Vec<_> = streams
                .map(|stream| {
                    let mut stream = stream.unwrap();
                    world.spawn(move || {
                        let mut buf = [0];
                        stream.read_exact(&mut buf).unwrap();
                        buf[0]
                    })
                })
                .collect();
            readers.into_iter().map(|reader| reader.join()).collect::<Vec<_>>()
        });
        let mut open: Vec<_> = (0..N).map(|_| TcpStream::connect(address).unwrap()).collect();
        for (i, stream) in open.iter_mut().enumerate().rev() {
            stream.write_all(&[i as u8]).unwrap();
        }
        assert_eq!(server.join(), (0..N).collect::<Vec<_>>());
    });
}

#[test]
fn socket_and_peer_name() {
    everywhere(|_| {
        let (listener, address) = listen();
        assert_eq!(address.ip(), Ipv4Addr::LOCALHOST);
        let near = TcpStream::connect(address).unwrap();
        let (far, from) = listener.accept().unwrap();
        assert_eq!(near.peer_addr().unwrap(), address);
        assert_eq!(far.local_addr().unwrap(), address);
        assert_eq!(far.peer_addr().unwrap(), from);
        assert_eq!(from, near.local_addr().unwrap());
    });
}

#[test]
fn partial_read() {
    everywhere(|world| {
        let (mut near, mut far) = pair();
        let peer = world.spawn(move || {
            let mut buf = [0; 2];
            far.write_all(&[1, 2, 3, 4]).unwrap();
            far.read_exact(&mut buf).unwrap();
            assert_eq!(buf, [5, 6]);
            far.write_all(&[7]).unwrap();
        });
        let mut buf = [0; 3];
        near.read_exact(&mut buf).unwrap();
        assert_eq!(buf, [1, 2, 3]);
        // Larger than what is left: a short read, and the next one has to wait for an event.
        assert_eq!(near.read(&mut buf).unwrap(), 1);
        assert_eq!(buf[0], 4);
        near.write_all(&[5, 6]).unwrap();
        assert_eq!(near.read(&mut buf).unwrap(), 1);
        assert_eq!(near.read(&mut buf).unwrap(), 0);
        peer.join();
    });
}

#[test]
fn vectored() {
    everywhere(|world| {
        let (mut near, mut far) = pair();
        let peer = world.spawn(move || {
            let mut data = [1; 1024].map(|_: u8| 7);
            let (a, b) = data.split_at_mut(600);
            let bufs = [IoSlice::new(a), IoSlice::new(&[]), IoSlice::new(b)];
            assert_eq!(far.write_vectored(&bufs).unwrap(), 1024);
            assert_eq!(far.write_vectored(&[]).unwrap(), 0);
            far
        });
        let (mut a, mut b, mut c) = ([0; 1], [0; 0], [0; 4096]);
        let mut got = 0;
        while got < 1024 {
            let bufs =
                &mut [IoSliceMut::new(&mut a), IoSliceMut::new(&mut b), IoSliceMut::new(&mut c)];
            got += near.read_vectored(bufs).unwrap();
        }
        assert_eq!((a[0], c[0]), (7, 7));
        assert_eq!(got, 1024);
        // Nothing wanted: returns although nothing is there, as `readv`.
        assert_eq!(near.read_vectored(&mut []).unwrap(), 0);
        // More buffers than the kernel takes.
        let mut far = peer.join();
        let many = vec![IoSlice::new(&[9]); 3000];
        assert_eq!(far.write_vectored(&many).unwrap(), 1024);
    });
}

#[test]
fn double_bind() {
    everywhere(|_| {
        let (_listener, address) = listen();
        assert_eq!(TcpListener::bind(address).unwrap_err().kind(), ErrorKind::AddrInUse);
    });
}

#[test]
fn bind_again_after_connections() {
    everywhere(|_| {
        let (listener, address) = listen();
        let near = TcpStream::connect(address).unwrap();
        // The listening side closes first and is left in TIME_WAIT: without SO_REUSEADDR this fails.
        drop(listener.accept().unwrap());
        drop((listener, near));
        TcpListener::bind(address).unwrap();
    });
}

#[test]
fn clones_read_and_write() {
    everywhere(|world| {
        let (mut near, mut far) = pair();
        let peer = world.spawn(move || {
            let mut buf = [0; 2];
            assert_eq!(far.read(&mut buf).unwrap(), 1);
            assert_eq!(buf[0], 1);
            far.write_all(&[2]).unwrap();
            assert_eq!(far.read(&mut buf).unwrap(), 0);
        });
        let mut clone = near.try_clone().unwrap();
        let writer = world.spawn(move || clone.write_all(&[1]).unwrap());
        let mut buf = [0; 2];
        assert_eq!(near.read(&mut buf).unwrap(), 1);
        writer.join();
        drop(near);
        peer.join();
    });
}

#[test]
fn two_clones_read() {
    everywhere(|world| {
        let (mut near, far) = pair();
        let readers: Vec<_> = (0..2)
            .map(|_| {
                let mut far = far.try_clone().unwrap();
                world.spawn(move || {
                    let mut buf = [0];
                    far.read_exact(&mut buf).unwrap();
                    buf[0]
                })
            })
            .collect();
        near.write_all(&[1]).unwrap();
        near.write_all(&[2]).unwrap();
        let sum: u8 = readers.into_iter().map(|reader| reader.join()).sum();
        assert_eq!(sum, 3);
    });
}

#[test]
fn two_clones_write() {
    everywhere(|world| {
        let (mut near, far) = pair();
        let writers: Vec<_> = (0..2)
            .map(|i| {
                let mut far = far.try_clone().unwrap();
                world.spawn(move || far.write_all(&[i; 1000]).unwrap())
            })
            .collect();
        drop(far);
        let mut all = Vec::new();
        near.read_to_end(&mut all).unwrap();
        assert_eq!(all.iter().filter(|byte| **byte == 0).count(), 1000);
        assert_eq!(all.len(), 2000);
        writers.into_iter().for_each(|writer| writer.join());
    });
}

#[test]
fn shutdown_smoke() {
    everywhere(|world| {
        let (mut near, mut far) = pair();
        let peer = world.spawn(move || {
            far.write_all(&[1]).unwrap();
            // Half-closed: what the other side still sends comes through.
            let mut rest = Vec::new();
            far.shutdown(Shutdown::Write).unwrap();
            far.read_to_end(&mut rest).unwrap();
            assert!(far.write(&[2]).is_err());
            rest
        });
        let mut buf = [0; 2];
        assert_eq!(near.read(&mut buf).unwrap(), 1);
        assert_eq!(near.read(&mut buf).unwrap(), 0);
        near.write_all(b"still here").unwrap();
        near.shutdown(Shutdown::Both).unwrap();
        assert!(near.write(&[1]).is_err());
        assert_eq!(near.read(&mut buf).unwrap(), 0);
        assert_eq!(peer.join(), b"still here");
    });
}

#[test]
fn shutdown_is_seen_by_clones() {
    everywhere(|_| {
        let (near, far) = pair();
        let mut clone = near.try_clone().unwrap();
        near.shutdown(Shutdown::Write).unwrap();
        assert_eq!(clone.write(&[1]).unwrap_err().kind(), ErrorKind::BrokenPipe);
        near.shutdown(Shutdown::Read).unwrap();
        assert_eq!(clone.read(&mut [0]).unwrap(), 0);
        assert_eq!((&far).read(&mut [0]).unwrap(), 0);
    });
}

#[test]
fn shutdown_wakes_reader() {
    for how in [Shutdown::Read, Shutdown::Both] {
        everywhere(|world| {
            let (near, far) = pair();
            let started = Arc::new(AtomicUsize::new(0));
            let reader = world.spawn({
                let (mut clone, started) = (near.try_clone().unwrap(), Arc::clone(&started));
                move || {
                    started.store(1, Ordering::SeqCst);
                    clone.read(&mut [0]).unwrap()
                }
            });
            let writer = world.spawn({
                let mut clone = near.try_clone().unwrap();
                move || clone.write_all(&[1; 100]).unwrap()
            });
            writer.join();
            eventually("the reader's start", || started.load(Ordering::SeqCst) == 1);
            near.shutdown(how).unwrap();
            assert_eq!(reader.join(), 0);
            drop(far);
        });
    }
}

#[test]
fn shutdown_wakes_writer() {
    everywhere(|world| {
        let (near, _far) = pair();
        let sent = Arc::new(AtomicUsize::new(0));
        let writer = world.spawn({
            let (mut clone, sent) = (near.try_clone().unwrap(), Arc::clone(&sent));
            move || loop {
                match clone.write(&[1; 65536]) {
                    Ok(n) => sent.fetch_add(n, Ordering::SeqCst),
                    Err(error) => return error.kind(),
                };
            }
        });
        // Nobody reads: the buffers fill, and the writer waits.
        let mut before = 0;
        eventually("full buffers", || {
            let now = sent.load(Ordering::SeqCst);
            let full = now != 0 && now == before;
            before = now;
            volt::sleep(Duration::from_millis(20));
            full
        });
        near.shutdown(Shutdown::Write).unwrap();
        assert_eq!(writer.join(), ErrorKind::BrokenPipe);
    });
}

#[test]
fn clone_while_reading() {
    everywhere(|world| {
        let (near, mut far) = pair();
        let reader = world.spawn({
            let mut near = near.try_clone().unwrap();
            move || near.read(&mut [0]).unwrap()
        });
        let clones: Vec<_> = (0..10).map(|_| near.try_clone().unwrap()).collect();
        drop(clones);
        drop(near);
        far.write_all(&[1]).unwrap();
        assert_eq!(reader.join(), 1);
    });
}

#[test]
fn clones_accept() {
    everywhere(|world| {
        let (listener, address) = listen();
        let acceptors: Vec<_> = (0..2)
            .map(|_| {
                let listener = listener.try_clone().unwrap();
                world.spawn(move || listener.accept().unwrap().1)
            })
            .collect();
        let open = [(); 2].map(|()| TcpStream::connect(address).unwrap());
        let mut seen: Vec<_> = acceptors.into_iter().map(|acceptor| acceptor.join()).collect();
        let mut made: Vec<_> = open.iter().map(|stream| stream.local_addr().unwrap()).collect();
        seen.sort();
        made.sort();
        assert_eq!(seen, made);
    });
}

#[test]
fn peek() {
    everywhere(|world| {
        let (mut near, mut far) = pair();
        let peer = world.spawn(move || {
            far.write_all(&[1, 3, 3, 7]).unwrap();
            far
        });
        let mut buf = [0; 10];
        // Twice, and with room for more: a peek that comes up short must not hide the data.
        for _ in 0..2 {
            eventually("all four bytes", || near.peek(&mut buf).unwrap() == 4);
            assert_eq!(buf[..4], [1, 3, 3, 7]);
        }
        assert_eq!(near.read(&mut buf).unwrap(), 4);
        near.set_nonblocking(true).unwrap();
        assert_eq!(near.peek(&mut buf).unwrap_err().kind(), ErrorKind::WouldBlock);
        drop(peer.join());
    });
}

#[test]
fn large_transfer() {
    everywhere(|world| {
        const LEN: usize = 4 << 20;
        let (mut near, mut far) = pair();
        let data: Vec<u8> = (0..LEN).map(|i| (i ^ (i >> 8) ^ (i >> 16)) as u8).collect();
        let sent = data.clone();
        let peer = world.spawn(move || far.write_all(&sent).unwrap());
        let mut got = Vec::with_capacity(LEN);
        near.read_to_end(&mut got).unwrap();
        peer.join();
        assert!(got == data);
    });
}

#[test]
fn zero_length() {
    everywhere(|_| {
        let (mut near, mut far) = pair();
        assert_eq!(near.write(&[]).unwrap(), 0);
        far.write_all(&[1, 2]).unwrap();
        near.peek(&mut [0]).unwrap();
        assert_eq!(near.read(&mut []).unwrap(), 0);
        near.read_exact(&mut [0; 2]).unwrap();
        drop(far);
        assert_eq!(near.read(&mut []).unwrap(), 0);
    });
}

#[test]
fn a_socket_that_many_runtimes_have_used_is_closed_on_a_small_stack() {
    within(LONG, || {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let _peer = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (stream, _) = listener.accept().unwrap();
        stream.set_read_timeout(Some(Duration::from_micros(1))).unwrap();
        for _ in 0..1_000 {
            let runtime = Builder::new_current_thread().build().unwrap();
            let read = runtime.run(|| (&stream).read(&mut [0]));
            assert_eq!(read.unwrap_err().kind(), ErrorKind::WouldBlock);
        }
        let small = std::thread::Builder::new().stack_size(64 << 10);
        small.spawn(move || drop(stream)).unwrap().join().unwrap();
    });
}
