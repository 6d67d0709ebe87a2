//! To and from the standard library's sockets, also while clones live.

mod net_support;

use net_support::common::task::Task;
use net_support::common::waits::{Announced, until_true, until_waits};
use net_support::{LIMIT, World, everywhere, listen, pair};
use rustix::net::sockopt::Timeout;
use std::io::{ErrorKind, Read, Write};
use std::mem::ManuallyDrop;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, IntoRawFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;
use volt::channel::select;
use volt::net::{TcpListener, TcpStream};

fn is_nonblocking(fd: &impl AsRawFd) -> bool {
    // SAFETY: asks for flags.
    unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_GETFL) & libc::O_NONBLOCK != 0 }
}

#[test]
fn a_lone_stream_takes_its_descriptor_along() {
    everywhere(|_| {
        let (near, mut far) = pair();
        // Registers it with a driver, if this is a fiber.
        near.set_read_timeout(Some(Duration::from_millis(1))).unwrap();
        (&near).read(&mut [0]).unwrap_err();
        near.set_read_timeout(None).unwrap();
        let fd = near.as_raw_fd();
        let mut near = std::net::TcpStream::from(near);
        assert_eq!(near.as_raw_fd(), fd);
        assert!(!is_nonblocking(&near));
        far.write_all(&[1]).unwrap();
        assert_eq!(near.read(&mut [0]).unwrap(), 1);
        let mut near = TcpStream::from(near);
        assert_eq!(near.as_raw_fd(), fd);
        far.write_all(&[2]).unwrap();
        assert_eq!(near.read(&mut [0]).unwrap(), 1);
    });
}

#[test]
fn both_accepted_and_connected_streams_are_in_blocking_mode() {
    everywhere(|_| {
        let (near, far) = pair();
        assert!(!is_nonblocking(&near));
        assert!(!is_nonblocking(&far));
    });
}

#[test]
fn a_stream_leaves_while_a_clone_waits() {
    everywhere(|world| {
        let (near, mut far) = pair();
        let reader = world.spawn({
            let mut clone = near.try_clone().unwrap();
            move || {
                let mut buf = [0];
                clone.read_exact(&mut buf).unwrap();
                (clone, buf[0])
            }
        });
        reader.until_waits("read");
        let fd = near.as_raw_fd();
        let mut theirs = near.into_std().unwrap();
        assert_ne!(theirs.as_raw_fd(), fd);
        far.write_all(&[1]).unwrap();
        let (clone, byte) = reader.join();
        assert_eq!(byte, 1);
        // The standard handle blocks, and neither minds the other.
        assert!(!is_nonblocking(&theirs));
        let ours = Arc::new(Announced::default());
        let reads = Arc::clone(&ours);
        let writer = std::thread::spawn(move || {
            until_true("the standard handle", || reads.sleeps());
            far.write_all(&[2]).unwrap();
            far
        });
        let mut buf = [0];
        ours.announce();
        theirs.read_exact(&mut buf).unwrap();
        assert_eq!(buf, [2]);
        let mut far = writer.join().unwrap();
        drop(theirs);
        far.write_all(&[3]).unwrap();
        (&clone).read_exact(&mut buf).unwrap();
        assert_eq!(buf, [3]);
    });
}

#[test]
fn timeouts_and_mode_go_along() {
    let (near, _far) = pair();
    near.set_read_timeout(Some(Duration::from_secs(7))).unwrap();
    near.set_nonblocking(true).unwrap();
    let near = near.into_std().unwrap();
    assert_eq!(near.read_timeout().unwrap(), Some(Duration::from_secs(7)));
    assert_eq!(near.write_timeout().unwrap(), None);
    assert!(is_nonblocking(&near));
    near.set_write_timeout(Some(Duration::from_secs(9))).unwrap();
    let near = TcpStream::from(near);
    assert_eq!(near.read_timeout().unwrap(), Some(Duration::from_secs(7)));
    assert_eq!(near.write_timeout().unwrap(), Some(Duration::from_secs(9)));
}

/// The kernel hands a listener's on to its connections.
#[test]
#[cfg(target_os = "linux")]
fn timeouts_go_along_to_connections() {
    everywhere(|_| {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let time = Some(Duration::from_millis(100));
        rustix::net::sockopt::set_socket_timeout(&listener, Timeout::Recv, time).unwrap();
        let address = listener.local_addr().unwrap();
        let _first = std::net::TcpStream::connect(address).unwrap();
        assert_eq!(listener.accept().unwrap().0.read_timeout().unwrap(), time);
        let listener = TcpListener::from(listener);
        let _second = std::net::TcpStream::connect(address).unwrap();
        let (mut stream, _) = listener.accept().unwrap();
        assert_eq!((stream.read_timeout().unwrap(), stream.write_timeout().unwrap()), (time, None));
        assert_eq!(stream.read(&mut [0]).unwrap_err().kind(), ErrorKind::WouldBlock);
    });
}

/// What was taken back in volt is not there after it.
#[test]
fn no_timeouts_and_the_blocking_mode_go_along_too() {
    let (near, _far) = pair();
    let near = near.into_std().unwrap();
    near.set_read_timeout(Some(Duration::from_secs(7))).unwrap();
    near.set_write_timeout(Some(Duration::from_secs(9))).unwrap();
    near.set_nonblocking(true).unwrap();
    let near = TcpStream::from(near);
    near.set_read_timeout(None).unwrap();
    near.set_write_timeout(None).unwrap();
    let near = near.into_std().unwrap();
    assert_eq!((near.read_timeout().unwrap(), near.write_timeout().unwrap()), (None, None));
    assert!(!is_nonblocking(&near));
}

#[test]
fn a_nonblocking_standard_stream_waits_in_volt() {
    everywhere(|world| {
        let (near, mut far) = pair();
        let near = near.into_std().unwrap();
        near.set_nonblocking(true).unwrap();
        let mut near = TcpStream::from(near);
        let peer = world.spawn(move || far.write_all(&[1]).unwrap());
        assert_eq!(near.read(&mut [0]).unwrap(), 1);
        peer.join();
    });
}

#[test]
fn a_lone_listener_blocks_again() {
    everywhere(|_| {
        let (listener, address) = listen();
        let listener = std::net::TcpListener::from(listener);
        assert!(!is_nonblocking(&listener));
        let ours = Arc::new(Announced::default());
        let accepts = Arc::clone(&ours);
        let client = std::thread::spawn(move || {
            until_true("the standard listener", || accepts.sleeps());
            std::net::TcpStream::connect(address).unwrap()
        });
        ours.announce();
        listener.accept().unwrap();
        client.join().unwrap();
        let listener = TcpListener::from(listener);
        assert!(is_nonblocking(&listener));
        let client = TcpStream::connect(address).unwrap();
        assert_eq!(listener.accept().unwrap().1, client.local_addr().unwrap());
    });
}

#[test]
fn a_listener_leaves_while_a_clone_accepts() {
    everywhere(|world| {
        if world == World::CurrentThread {
            // The standard `accept` below blocks its thread.
            return;
        }
        let (listener, address) = listen();
        let ours = listener.try_clone().unwrap();
        let acceptor = world.spawn(move || {
            let first = ours.accept().unwrap().1;
            (ours, first)
        });
        let theirs = listener.into_std().unwrap();
        let first = TcpStream::connect(address).unwrap();
        let (ours, from) = acceptor.join();
        assert_eq!(from, first.local_addr().unwrap());
        // Ours, which has nothing to accept now, must wait in volt and not in the kernel: others run.
        let acceptor = world.spawn(move || ours.accept().unwrap().1);
        acceptor.until_waits("accept");
        let second = TcpStream::connect(address).unwrap();
        assert_eq!(acceptor.join(), second.local_addr().unwrap());
        let third = TcpStream::connect(address).unwrap();
        assert_eq!(theirs.accept().unwrap().1, third.local_addr().unwrap());
    });
}

#[test]
fn a_clone_of_a_lent_listener_does_not_hold_the_worker() {
    let _watch = net_support::Watchdog::new("current thread");
    let (listener, address) = listen();
    let ours = listener.try_clone().unwrap();
    let theirs = listener.into_std().unwrap();
    net_support::current_thread().run(|| {
        let acceptor = volt::go(move || ours.accept().unwrap().1);
        // Would not run if `accept` blocked the only worker.
        until_waits("accept", &acceptor);
        let client = TcpStream::connect(address).unwrap();
        assert_eq!(acceptor.join().unwrap(), client.local_addr().unwrap());
    });
    drop(theirs);
}

#[test]
fn a_lent_listener_that_was_nonblocking() {
    let (listener, _) = listen();
    let ours = listener.try_clone().unwrap();
    listener.set_nonblocking(true).unwrap();
    let theirs = listener.into_std().unwrap();
    assert!(is_nonblocking(&theirs));
    assert!(is_nonblocking(&ours));
    assert_eq!(ours.accept().unwrap_err().kind(), ErrorKind::WouldBlock);
}

/// Its mode is everybody's who has it.
#[test]
fn a_lent_listener_that_somebody_has_wait_in_the_kernel() {
    let _watch = net_support::Watchdog::new("lent");
    let (listener, _) = listen();
    let ours = listener.try_clone().unwrap();
    ours.set_nonblocking(true).unwrap();
    let theirs = listener.into_std().unwrap();
    theirs.set_nonblocking(false).unwrap();
    assert_eq!(ours.accept().unwrap_err().kind(), ErrorKind::WouldBlock);
    drop(theirs);
}

#[test]
fn who_is_lent_a_listener_later_has_the_mode_of_then() {
    let _watch = net_support::Watchdog::new("modes");
    let (listener, _) = listen();
    let [ours, second, third] = [(); 3].map(|()| listener.try_clone().unwrap());
    let _theirs = listener.into_std().unwrap();
    ours.set_nonblocking(true).unwrap();
    let theirs = second.into_std().unwrap();
    assert_eq!(theirs.accept().unwrap_err().kind(), ErrorKind::WouldBlock);
    ours.set_nonblocking(false).unwrap();
    assert!(!is_nonblocking(&third.into_std().unwrap()));
}

#[test]
fn descriptors() {
    let (near, mut far) = pair();
    let fd = near.as_fd().as_raw_fd();
    let raw = near.into_raw_fd();
    assert_eq!(raw, fd);
    // SAFETY: owned, as just said.
    let near = unsafe { TcpStream::from_raw_fd(raw) };
    let mut near = TcpStream::from(OwnedFd::from(near));
    far.write_all(&[5]).unwrap();
    assert_eq!(near.read(&mut [0]).unwrap(), 1);

    let (listener, address) = listen();
    let raw = listener.into_raw_fd();
    // SAFETY: owned, as just said.
    let listener = unsafe { TcpListener::from_raw_fd(raw) };
    let listener = TcpListener::from(OwnedFd::from(listener));
    let _client = TcpStream::connect(address).unwrap();
    listener.accept().unwrap();
}

#[test]
fn one_socket_under_two_runtimes_and_a_thread() {
    let _watch = net_support::Watchdog::new("two runtimes");
    let (one, two) = (net_support::workers(1), net_support::workers(2));
    let (near, mut far) = pair();
    let echo = volt::go(move || {
        let mut buf = [0; 64];
        loop {
            match far.read(&mut buf).unwrap() {
                0 => break,
                n => far.write_all(&buf[..n]).unwrap(),
            }
        }
    });
    for round in 0..200u8 {
        let turn = |near: &TcpStream| {
            let (mut near, mut buf) = (near, [0]);
            near.write_all(&[round]).unwrap();
            near.read_exact(&mut buf).unwrap();
            assert_eq!(buf, [round]);
        };
        one.run(|| turn(&near));
        two.run(|| turn(&near));
        turn(&near);
    }
    // Waiting at the same time: every byte arrives at one of the three.
    let readers = [
        Task::Fiber(one.go(take(&near))),
        Task::Fiber(two.go(take(&near))),
        Task::thread(take(&near)),
    ];
    (&near).write_all(&[1; 3000]).unwrap();
    let total: usize = readers.into_iter().map(|reader| reader.join()).sum();
    assert_eq!(total, 3000);
    drop(near);
    echo.join().unwrap();
}

/// Reads a thousand bytes, one at a time.
fn take(near: &TcpStream) -> impl FnOnce() -> usize + Send + 'static {
    let mut near = near.try_clone().unwrap();
    move || (0..1000).map(|_| near.read(&mut [0]).unwrap()).sum()
}

/// The kernel watches a descriptor once: for a second owner of it the driver is refused, as it is where
/// too many are watched.
#[test]
fn a_socket_that_cannot_be_watched_says_so() {
    everywhere(|world| {
        let (mut near, mut far) = pair();
        let watched = |stream: &TcpStream| {
            select! {
                wait(stream.readable()) -> ready => Some(ready),
                default(Duration::from_millis(1)) => None,
            }
        };
        assert!(watched(&near).is_none());
        // SAFETY: `near` closes it, and this never does.
        let twin = unsafe { OwnedFd::from_raw_fd(near.as_raw_fd()) };
        let mut twin = ManuallyDrop::new(TcpStream::from(twin));
        let refused = |error: std::io::Error| {
            assert_eq!(error.kind(), ErrorKind::AlreadyExists, "{error}");
            assert!(error.to_string().contains("cannot be watched"), "{error}");
        };
        // Told again and again.
        for _ in 0..2 {
            refused(watched(&twin).expect("an answer at once").unwrap_err());
        }
        // On a thread an operation needs no driver.
        if !matches!(world, World::Threads | World::FiberPeers) {
            refused(twin.read(&mut [0]).unwrap_err());
            let error = loop {
                if let Err(error) = twin.write(&[0; 65536]) {
                    break error;
                }
            };
            refused(error);
        }
        // What is there is served all the same, and the first owner has lost nothing.
        far.write_all(&[7]).unwrap();
        select! {
            wait(near.readable()) -> ready => ready.unwrap(),
            default(LIMIT) => panic!("the first owner's watch is gone"),
        }
        watched(&twin).expect("readable").unwrap();
        let mut byte = [0];
        twin.read_exact(&mut byte).unwrap();
        far.write_all(&[8]).unwrap();
        near.read_exact(&mut byte).unwrap();
        assert_eq!(byte, [8]);
    });
}

/// A file that somebody takes for a socket.
#[test]
fn what_is_no_socket_says_so() {
    everywhere(|_| {
        let file = std::fs::File::open("/proc/self/exe").unwrap();
        let mut stream = TcpStream::from(OwnedFd::from(file));
        select! { wait(stream.readable()) -> ready => ready.unwrap() }
        for error in [stream.read(&mut [0]).unwrap_err(), stream.write(&[0]).unwrap_err()] {
            assert_eq!(error.raw_os_error(), Some(libc::ENOTSOCK), "{error}");
        }
    });
}

/// One end in volt, and sent to from the other while nobody reads: `all` in pieces, behind each of which a read of many bytes
/// may stop.
fn reads_all_that_is_there<F: AsFd>(near: OwnedFd, far: F, all: &[u8], send: impl Fn(&F)) {
    let mut near = TcpStream::from(near);
    // Registers it with a driver, if this is a fiber.
    near.set_read_timeout(Some(Duration::from_millis(1))).unwrap();
    near.read(&mut [0]).unwrap_err();
    near.set_read_timeout(None).unwrap();
    for _ in 0..3 {
        send(&far);
        let read = volt::timeout(LIMIT / 4, || {
            let (mut seen, mut buffer) = (Vec::new(), [0; 64]);
            while seen.len() < all.len() {
                let n = near.read(&mut buffer)?;
                seen.extend_from_slice(&buffer[..n]);
            }
            Ok::<_, std::io::Error>(seen)
        });
        let read = read.expect("there was more behind what was read");
        assert_eq!(read.unwrap(), all);
    }
}

/// The kernel glues nothing to the bytes that a descriptor came with.
#[test]
fn a_descriptor_on_the_way_does_not_hide_what_follows() {
    use rustix::net::{AddressFamily, SendAncillaryBuffer, SendAncillaryMessage, SendFlags};
    use rustix::net::{SocketFlags, SocketType, sendmsg, socketpair};
    everywhere(|_| {
        let none = SocketFlags::empty();
        let (near, far) = socketpair(AddressFamily::UNIX, SocketType::STREAM, none, None).unwrap();
        reads_all_that_is_there(near, far, b"firstwithlast", |far| {
            let mut space = [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
            let mut control = SendAncillaryBuffer::new(&mut space);
            let passed = [far.as_fd()];
            assert!(control.push(SendAncillaryMessage::ScmRights(&passed)));
            rustix::io::write(far, b"first").unwrap();
            let with = [std::io::IoSlice::new(b"with")];
            sendmsg(far, &with, &mut control, SendFlags::empty()).unwrap();
            rustix::io::write(far, b"last").unwrap();
        });
    });
}

/// Nor one datagram to the other.
#[test]
fn a_datagram_does_not_hide_what_follows() {
    everywhere(|_| {
        let [near, far] = [(); 2].map(|()| std::net::UdpSocket::bind("127.0.0.1:0").unwrap());
        near.connect(far.local_addr().unwrap()).unwrap();
        far.connect(near.local_addr().unwrap()).unwrap();
        reads_all_that_is_there(near.into(), far, b"firstlast", |far| {
            far.send(b"first").unwrap();
            far.send(b"last").unwrap();
        });
    });
}
