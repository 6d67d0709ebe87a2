//! Options, time-outs, modes, and what the handles look like.

mod net_support;

use net_support::{eventually, everywhere, listen, pair};
use std::io::{ErrorKind, Read, Write};
use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};
use volt::net::{TcpListener, TcpStream};

#[test]
fn debug() {
    let (listener, address) = listen();
    let text = format!("TcpListener {{ addr: {address:?}, fd: {} }}", listener.as_raw_fd());
    assert_eq!(format!("{listener:?}"), text);
    let stream = TcpStream::connect(address).unwrap();
    let local = stream.local_addr().unwrap();
    let fd = stream.as_raw_fd();
    let text = format!("TcpStream {{ addr: {local:?}, peer: {address:?}, fd: {fd} }}");
    assert_eq!(format!("{stream:?}"), text);
    assert_eq!(format!("{:?}", stream.into_std().unwrap()), text);
}

#[test]
fn traits() {
    fn all<T: Send + Sync + Unpin + std::panic::UnwindSafe + std::panic::RefUnwindSafe>() {}
    all::<TcpStream>();
    all::<TcpListener>();
    all::<volt::net::Incoming<'static>>();
    fn both<'a>()
    where
        &'a TcpStream: Read + Write,
    {
    }
    both();
}

#[test]
fn timeouts_are_kept_and_shared() {
    let (stream, _far) = pair();
    let clone = stream.try_clone().unwrap();
    assert_eq!(stream.read_timeout().unwrap(), None);
    assert_eq!(stream.write_timeout().unwrap(), None);
    let duration = Duration::new(15, 410);
    stream.set_read_timeout(Some(duration)).unwrap();
    assert_eq!(clone.read_timeout().unwrap(), Some(duration));
    assert_eq!(clone.write_timeout().unwrap(), None);
    clone.set_write_timeout(Some(duration)).unwrap();
    assert_eq!(stream.write_timeout().unwrap(), Some(duration));
    stream.set_read_timeout(None).unwrap();
    stream.set_write_timeout(None).unwrap();
    assert_eq!(clone.read_timeout().unwrap(), None);
    assert_eq!(clone.write_timeout().unwrap(), None);
}

#[test]
fn a_zero_timeout_is_refused() {
    let (stream, _far) = pair();
    let theirs = stream.try_clone().unwrap().into_std().unwrap();
    let theirs = theirs.set_read_timeout(Some(Duration::ZERO)).unwrap_err();
    let zero = Some(Duration::ZERO);
    for error in [stream.set_read_timeout(zero), stream.set_write_timeout(zero)] {
        let error = error.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput);
        assert_eq!(error.to_string(), theirs.to_string());
    }
}

#[test]
fn reads_time_out() {
    everywhere(|_| {
        let (mut stream, mut far) = pair();
        let timeout = Duration::from_millis(50);
        stream.set_read_timeout(Some(timeout)).unwrap();
        let mut buf = [0; 10];
        for _ in 0..3 {
            let start = Instant::now();
            let error = stream.read_exact(&mut buf).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::WouldBlock);
            assert_eq!(error.raw_os_error(), Some(libc::EAGAIN));
            assert!(start.elapsed() >= timeout);
        }
        assert_eq!(stream.peek(&mut buf).unwrap_err().kind(), ErrorKind::WouldBlock);
        far.write_all(b"hello world").unwrap();
        stream.read_exact(&mut buf[..5]).unwrap();
        assert_eq!(&buf[..5], b"hello");
        stream.read_exact(&mut buf[..6]).unwrap();
        assert_eq!(stream.read(&mut buf).unwrap_err().kind(), ErrorKind::WouldBlock);
    });
}

#[test]
fn writes_time_out() {
    everywhere(|_| {
        let (mut stream, _far) = pair();
        stream.set_write_timeout(Some(Duration::from_millis(50))).unwrap();
        let start = Instant::now();
        let error = loop {
            if let Err(error) = stream.write(&[0; 65536]) {
                break error;
            }
            assert!(start.elapsed() < Duration::from_secs(30));
        };
        assert_eq!(error.kind(), ErrorKind::WouldBlock);
    });
}

#[test]
fn a_timeout_of_ages() {
    everywhere(|world| {
        let (mut stream, mut far) = pair();
        stream.set_read_timeout(Some(Duration::MAX)).unwrap();
        let peer = world.spawn(move || far.write_all(&[1]).unwrap());
        assert_eq!(stream.read(&mut [0]).unwrap(), 1);
        peer.join();
    });
}

#[test]
fn nodelay() {
    let (stream, _far) = pair();
    assert!(!stream.nodelay().unwrap());
    stream.set_nodelay(true).unwrap();
    assert!(stream.nodelay().unwrap());
    stream.set_nodelay(false).unwrap();
    assert!(!stream.nodelay().unwrap());
}

#[cfg(any(target_os = "linux", target_os = "android"))]
#[test]
fn quickack() {
    let (stream, _far) = pair();
    for quickack in [false, true, false] {
        stream.set_quickack(quickack).unwrap();
        assert_eq!(stream.quickack().unwrap(), quickack);
    }
}

#[test]
fn ttl() {
    let (listener, address) = listen();
    listener.set_ttl(100).unwrap();
    assert_eq!(listener.ttl().unwrap(), 100);
    let stream = TcpStream::connect(address).unwrap();
    stream.set_ttl(200).unwrap();
    assert_eq!(stream.ttl().unwrap(), 200);
    assert_eq!(stream.set_ttl(1000).unwrap_err().kind(), ErrorKind::InvalidInput);
}

#[test]
fn take_error() {
    let (stream, _far) = pair();
    assert!(stream.take_error().unwrap().is_none());
    let (listener, _) = listen();
    assert!(listener.take_error().unwrap().is_none());
}

#[test]
fn nonblocking() {
    everywhere(|_| {
        let (listener, address) = listen();
        listener.set_nonblocking(true).unwrap();
        assert_eq!(listener.accept().unwrap_err().kind(), ErrorKind::WouldBlock);
        let mut near = TcpStream::connect(address).unwrap();
        let mut accepted = None;
        eventually("a connection", || {
            accepted = listener.try_clone().unwrap().accept().ok();
            accepted.is_some()
        });
        let (mut far, _) = accepted.unwrap();
        near.set_nonblocking(true).unwrap();
        let mut buf = [0; 4];
        let error = near.try_clone().unwrap().read(&mut buf).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::WouldBlock);
        assert_eq!(error.raw_os_error(), Some(libc::EAGAIN));
        far.write_all(&[1, 2]).unwrap();
        eventually("data", || matches!(near.read(&mut buf), Ok(2)));
        near.set_nonblocking(false).unwrap();
        far.write_all(&[3]).unwrap();
        assert_eq!(near.read(&mut buf).unwrap(), 1);
    });
}

#[test]
fn a_nonblocking_spin_lets_others_run() {
    // One worker, a fiber that never waits, and the one it waits for.
    let _watch = net_support::Watchdog::new("spin");
    net_support::current_thread().run(|| {
        let (near, mut far) = pair();
        near.set_nonblocking(true).unwrap();
        let peer = volt::go(move || far.write_all(&[1]).unwrap());
        while (&near).read(&mut [0]).is_err() {}
        peer.join().unwrap();
    });
}

#[test]
fn descriptors_are_closed_on_exec() {
    let (near, far) = pair();
    let (listener, _) = listen();
    for fd in [near.as_raw_fd(), far.as_raw_fd(), listener.as_raw_fd()] {
        // SAFETY: asks for flags.
        let flags = unsafe { libc::fcntl(fd, libc::F_GETFD) };
        assert_eq!(flags & libc::FD_CLOEXEC, libc::FD_CLOEXEC);
    }
}
