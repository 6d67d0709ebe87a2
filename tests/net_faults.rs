//! What goes wrong on real machines: peers that reset, signals, no descriptors left, numbers reused.

mod net_support;

use net_support::common::waits::{until_true, until_waits};
use net_support::{Watchdog, current_thread, everywhere, listen, pair, workers};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::io::{ErrorKind, IoSlice, Read, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use volt::net::TcpStream;
use volt::runtime::{Builder, FiberReport, Handle};

/// Closes so that the peer sees a reset.
fn reset(stream: TcpStream) {
    rustix::net::sockopt::set_socket_linger(stream.as_fd(), Some(Duration::ZERO)).unwrap();
    drop(stream);
}

/// Does something stand in the error queue?
fn has_error(stream: &TcpStream) -> bool {
    let mut fds = [PollFd::new(stream, PollFlags::empty())];
    poll(&mut fds, Some(&Timespec::default())).unwrap();
    fds[0].revents().contains(PollFlags::ERR)
}

/// Runs the body of `test` in a process of its own, where it may spoil what belongs to the process.
fn alone(test: &str, body: fn()) {
    let left = net_support::common::child(test, &[], body);
    assert!(left.status.success(), "{left:?}");
}

/// The destructor's read blocks its thread, for one who can run nowhere else.
#[test]
fn a_read_while_unwinding_lets_the_peer_run() {
    struct Reads(TcpStream);
    impl Drop for Reads {
        fn drop(&mut self) {
            self.0.read_exact(&mut [0]).unwrap();
        }
    }
    let _watchdog = Watchdog::new("a read while unwinding");
    current_thread().run(|| {
        let (near, mut far) = pair();
        let reader = volt::go(move || {
            let _reads = Reads(near);
            std::panic::resume_unwind(Box::new("on purpose"));
        });
        let peer = volt::go(move || {
            far.write_all(&[1]).unwrap();
            far
        });
        reader.join().unwrap_err();
        peer.join().unwrap();
    });
}

#[test]
fn a_reset_wakes_reader_and_writer() {
    everywhere(|world| {
        let (near, far) = pair();
        let reader = world.spawn({
            let mut near = near.try_clone().unwrap();
            move || near.read(&mut [0]).map_err(|error| error.kind())
        });
        let writer = world.spawn({
            let mut near = near.try_clone().unwrap();
            move || loop {
                if let Err(error) = near.write_all(&[0; 65536]) {
                    return error.kind();
                }
            }
        });
        reader.until_waits("read");
        writer.until_waits("write");
        reset(far);
        // The first of the two takes the error; the other sees the end or a broken pipe.
        match (reader.join(), writer.join()) {
            (
                Err(ErrorKind::ConnectionReset),
                ErrorKind::BrokenPipe | ErrorKind::ConnectionReset,
            ) => {}
            (Ok(0), ErrorKind::ConnectionReset) => {}
            seen => panic!("{seen:?}"),
        }
    });
}

#[test]
fn a_reset_peer_is_reported_once_and_stays_gone() {
    everywhere(|_| {
        let (near, far) = pair();
        reset(far);
        let mut near = near;
        assert_eq!(near.read(&mut [0; 8]).unwrap_err().kind(), ErrorKind::ConnectionReset);
        assert_eq!(near.read(&mut [0; 8]).unwrap(), 0);
        assert_eq!(near.write(&[1]).unwrap_err().kind(), ErrorKind::BrokenPipe);
        assert_eq!(near.peer_addr().unwrap_err().kind(), ErrorKind::NotConnected);
        let shutdown = near.shutdown(volt::net::Shutdown::Both);
        assert_eq!(shutdown.unwrap_err().kind(), ErrorKind::NotConnected);
    });
}

#[test]
fn take_error_takes_a_reset() {
    everywhere(|_| {
        let (near, far) = pair();
        reset(far);
        let mut taken = None;
        net_support::eventually("the reset", || {
            taken = near.take_error().unwrap();
            taken.is_some()
        });
        assert_eq!(taken.unwrap().kind(), ErrorKind::ConnectionReset);
        assert!(near.take_error().unwrap().is_none());
    });
}

#[test]
fn data_before_an_urgent_byte_does_not_hide_what_follows() {
    // A read stops at the urgent mark and so comes up short although there is more.
    everywhere(|_| {
        let (near, mut far) = pair();
        // Registered before anything comes.
        far.set_read_timeout(Some(Duration::from_millis(1))).unwrap();
        far.read(&mut [0; 64]).unwrap_err();
        far.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
        (&near).write_all(b"before").unwrap();
        rustix::net::send(near.as_fd(), b"!", rustix::net::SendFlags::OOB).unwrap();
        (&near).write_all(b"after").unwrap();
        let mut got = Vec::new();
        while got != b"beforeafter" {
            let mut buf = [0; 64];
            let n = far.read(&mut buf).unwrap();
            assert_ne!(n, 0);
            got.extend_from_slice(&buf[..n]);
        }
    });
}

#[test]
fn numbers_are_reused_under_traffic() {
    let _watch = Watchdog::new("reuse");
    for runtime in [workers(1), workers(2), workers(4)] {
        runtime.run(|| {
            let (listener, address) = listen();
            let server = volt::go(move || {
                for _ in 0..4 * 1500 {
                    let (mut stream, _) = listener.accept().unwrap();
                    volt::go(move || {
                        // Closes with data unread and events under way, at times by a reset.
                        let mut buf = [0; 8];
                        let n = stream.read(&mut buf).unwrap();
                        stream.write_all(&buf[..n]).unwrap();
                        if buf[0] % 3 == 0 {
                            reset(stream)
                        }
                    });
                }
            });
            let clients: Vec<_> = (0..4u8)
                .map(|id| {
                    volt::go(move || {
                        for round in 0..1500u32 {
                            let mut stream = TcpStream::connect(address).unwrap();
                            let sent = [(round % 256) as u8, id, 0xA5, round.to_le_bytes()[1]];
                            stream.write_all(&sent).unwrap();
                            let mut got = [0; 4];
                            stream.read_exact(&mut got).unwrap();
                            assert_eq!(got, sent, "someone else's bytes");
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
fn a_late_event_wakes_nobody_wrongly() {
    let _watch = Watchdog::new("late events");
    let runtime = workers(2);
    runtime.run(|| {
        for _ in 0..300 {
            let (near, far) = pair();
            let number = near.as_raw_fd();
            let reader = volt::go({
                let mut near = near.try_clone().unwrap();
                move || near.read(&mut [0; 1]).unwrap()
            });
            volt::yield_now();
            // Data and close at once: events for the old socket while its number is taken again.
            (&far).write_all(&[1, 2, 3]).unwrap();
            drop(near);
            assert_eq!(reader.join().unwrap(), 1);
            let (near, other) = pair();
            drop(far);
            near.set_read_timeout(Some(Duration::from_millis(2))).unwrap();
            let kind = (&near).read(&mut [0]).unwrap_err().kind();
            assert_eq!(kind, ErrorKind::WouldBlock, "a read without data, number {number}");
            (&other).write_all(&[9]).unwrap();
            near.set_read_timeout(None).unwrap();
            assert_eq!((&near).read(&mut [0]).unwrap(), 1);
        }
    });
}

#[test]
fn no_descriptors_left_in_accept() {
    alone("no_descriptors_left_in_accept", with_few_descriptors);
}

/// From now on the process may have 256 descriptors.
fn limit_descriptors() {
    let mut limit = rustix::process::getrlimit(rustix::process::Resource::Nofile);
    limit.current = Some(256);
    rustix::process::setrlimit(rustix::process::Resource::Nofile, limit).unwrap();
}

/// All descriptors that the process may still have.
fn hoard(fd: impl AsFd) -> Vec<OwnedFd> {
    std::iter::from_fn(|| rustix::io::dup(fd.as_fd()).ok()).collect()
}

fn with_few_descriptors() {
    limit_descriptors();
    everywhere(|_| {
        let (listener, address) = listen();
        let waiting = TcpStream::connect(address).unwrap();
        let first = listener.accept().unwrap();
        let second = TcpStream::connect(address).unwrap();
        let hoard = hoard(&first.0);
        let error = listener.accept().unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::EMFILE));
        assert_eq!(TcpStream::connect(address).unwrap_err().raw_os_error(), Some(libc::EMFILE));
        // A clone needs none.
        drop(first.0.try_clone().unwrap());
        drop(hoard);
        // The connection was not lost.
        assert_eq!(listener.accept().unwrap().1, second.local_addr().unwrap());
        drop(waiting);
    });
}

/// What could not leave volt is as it was, for its clones and for those of the standard library.
#[test]
fn no_descriptors_left_for_who_leaves() {
    alone("no_descriptors_left_for_who_leaves", who_does_not_leave);
}

fn who_does_not_leave() {
    limit_descriptors();
    everywhere(|_| {
        let (listener, address) = listen();
        let near = std::net::TcpStream::connect(address).unwrap();
        let (leaves, theirs) = (TcpStream::from(near.try_clone().unwrap()), near);
        leaves.set_read_timeout(Some(Duration::from_secs(7))).unwrap();
        leaves.set_nonblocking(true).unwrap();
        let stays = leaves.try_clone().unwrap();
        let hoard = hoard(&listener);
        let error = listener.try_clone().unwrap().into_std().unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::EMFILE));
        let error = leaves.into_std().unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::EMFILE));
        drop(hoard);
        // SAFETY: asks for flags.
        let flags = |fd: BorrowedFd<'_>| unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_GETFL) };
        let is_nonblocking = |fd| flags(fd) & libc::O_NONBLOCK != 0;
        assert!(is_nonblocking(listener.as_fd()), "an accept would block its thread");
        assert!(!is_nonblocking(theirs.as_fd()));
        assert_eq!(theirs.read_timeout().unwrap(), None);
        // They leave when there are descriptors again.
        let left = listener.try_clone().unwrap().into_std().unwrap();
        assert!(!is_nonblocking(left.as_fd()));
        let left = stays.try_clone().unwrap().into_std().unwrap();
        assert!(is_nonblocking(left.as_fd()));
        assert_eq!(theirs.read_timeout().unwrap(), Some(Duration::from_secs(7)));
    });
}

/// Who reads the error of a runtime learns what it had no descriptor for, and which limit that is.
#[test]
fn no_descriptors_left_for_a_runtime() {
    alone("no_descriptors_left_for_a_runtime", || {
        limit_descriptors();
        let mut hoard = hoard(std::io::stderr());
        let mut lacks = Vec::new();
        while let Err(error) = volt::runtime::Builder::new().workers(1).build() {
            assert_eq!(error.kind(), std::io::Error::from_raw_os_error(libc::EMFILE).kind());
            let text = error.to_string();
            assert!(text.contains("os error 24") && text.contains("ulimit -n"), "{text}");
            lacks.push(text.split(':').next().unwrap().to_owned());
            drop(hoard.pop());
        }
        for what in ["poller", "waker", "timer"] {
            assert!(lacks.iter().any(|text| text.contains(what)), "{what}: {lacks:?}");
        }
    });
}

#[test]
fn a_storm_of_timer_signals() {
    alone("a_storm_of_timer_signals", in_a_storm);
}

static ALARMS: AtomicUsize = AtomicUsize::new(0);

/// The thread that the storm is to hit.
static TARGET: AtomicUsize = AtomicUsize::new(0);

/// The kernel gives a process's signals to its main thread; this hands them on.
extern "C" fn on_alarm(number: libc::c_int) {
    let target = TARGET.load(Ordering::Relaxed) as libc::pthread_t;
    // SAFETY: safe in a handler; the target lives as long as the storm.
    unsafe {
        if libc::pthread_self() == target {
            ALARMS.fetch_add(1, Ordering::Relaxed);
        } else {
            libc::pthread_kill(target, number);
        }
    }
}

/// A timer signal every 200 us for this thread, whose handler does not restart system calls.
fn start_storm() {
    // SAFETY: the handler does what a handler may; both structures are initialised.
    unsafe {
        TARGET.store(libc::pthread_self() as usize, Ordering::Relaxed);
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = on_alarm as extern "C" fn(libc::c_int) as usize;
        action.sa_flags = libc::SA_ONSTACK;
        assert_eq!(libc::sigaction(libc::SIGALRM, &action, std::ptr::null_mut()), 0);
        let every = libc::timeval { tv_sec: 0, tv_usec: 200 };
        let timer = libc::itimerval { it_interval: every, it_value: every };
        assert_eq!(libc::syscall(libc::SYS_setitimer, libc::ITIMER_REAL, &timer, 0), 0);
    }
}

fn echo_rounds(rounds: usize) {
    let (mut near, mut far) = pair();
    let echo = volt::go(move || {
        let mut buf = [0; 512];
        loop {
            match far.read(&mut buf).unwrap() {
                0 => return,
                n => far.write_all(&buf[..n]).unwrap(),
            }
        }
    });
    for round in 0..rounds {
        let sent = [round as u8; 300];
        near.write_all(&sent).unwrap();
        let mut got = [0; 300];
        near.read_exact(&mut got).unwrap();
        assert_eq!(got, sent);
        if round % 64 == 0 {
            volt::sleep(Duration::from_micros(700));
        }
    }
    drop(near);
    echo.join().unwrap();
}

fn in_a_storm() {
    let _watch = Watchdog::new("storm");
    start_storm();
    current_thread().run(|| echo_rounds(20_000));
    let on_fibers = ALARMS.load(Ordering::Relaxed);
    assert!(on_fibers > 100, "only {on_fibers} signals: no storm");
    // Connect, accept and time-outs, too.
    current_thread().run(|| {
        let (listener, address) = listen();
        let acceptor = volt::go(move || (0..500).for_each(|_| drop(listener.accept().unwrap())));
        for _ in 0..500 {
            let stream = TcpStream::connect(address).unwrap();
            stream.set_read_timeout(Some(Duration::from_millis(1))).unwrap();
            let _ = (&stream).read(&mut [0]);
        }
        acceptor.join().unwrap();
    });
    // And a plain thread in poll(2).
    let (near, far) = pair();
    near.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
    let start = std::time::Instant::now();
    assert_eq!((&near).read(&mut [0]).unwrap_err().kind(), ErrorKind::WouldBlock);
    assert!(start.elapsed() >= Duration::from_millis(100));
    drop(far);
    // Workers block it; the thread that waits for them takes it all.
    workers(2).run(|| echo_rounds(5_000));
    // The target ends with this function.
    let zero = libc::timeval { tv_sec: 0, tv_usec: 0 };
    let off = libc::itimerval { it_interval: zero, it_value: zero };
    // SAFETY: initialised; the kernel writes no old value.
    unsafe { libc::syscall(libc::SYS_setitimer, libc::ITIMER_REAL, &off, 0) };
    std::thread::sleep(Duration::from_millis(20));
}

#[test]
fn half_close_keeps_the_other_half() {
    everywhere(|world| {
        let (near, mut far) = pair();
        let peer = world.spawn(move || {
            let mut all = Vec::new();
            far.read_to_end(&mut all).unwrap();
            // Long after the peer's end has been seen, and more than the buffers hold.
            far.write_all(&vec![3; 8 << 20]).unwrap();
            all.len()
        });
        let both = [IoSlice::new(&[1; 10]), IoSlice::new(&[2; 10])];
        assert_eq!((&near).write_vectored(&both).unwrap(), 20);
        near.shutdown(volt::net::Shutdown::Write).unwrap();
        let mut rest = Vec::new();
        (&near).read_to_end(&mut rest).unwrap();
        assert_eq!((rest.len(), peer.join()), (8 << 20, 20));
    });
}

#[test]
fn a_panicking_fiber_may_use_its_socket() {
    // While unwinding it does not leave its thread: the wait blocks it.
    struct SayGoodbye(TcpStream, Arc<AtomicUsize>);
    impl Drop for SayGoodbye {
        fn drop(&mut self) {
            assert!(std::thread::panicking());
            self.0.write_all(&[1]).unwrap();
            self.1.store(self.0.read(&mut [0; 4]).unwrap(), Ordering::SeqCst);
        }
    }
    let _watch = Watchdog::new("panic");
    let runtime = workers(2);
    let (near, mut far) = pair();
    let got = Arc::new(AtomicUsize::new(0));
    let guard = SayGoodbye(near, Arc::clone(&got));
    let fiber = runtime.go(move || {
        let _guard = guard;
        std::panic::resume_unwind(Box::new("on purpose"));
    });
    far.read_exact(&mut [0]).unwrap();
    far.write_all(&[1, 2, 3]).unwrap();
    fiber.join().unwrap_err();
    assert_eq!(got.load(Ordering::SeqCst), 3);
}

#[test]
fn an_error_event_of_a_live_connection_does_not_spin() {
    // Send time stamps come through the error queue: the socket reports an error, and lives.
    let _watch = Watchdog::new("error queue");
    current_thread().run(|| {
        let (near, mut far) = pair();
        let flags: libc::c_int = 2 | 16; // SOF_TIMESTAMPING_TX_SOFTWARE | SOF_TIMESTAMPING_SOFTWARE
        // SAFETY: an option of the size that is given.
        let set = unsafe {
            let value = (&raw const flags).cast();
            libc::setsockopt(near.as_raw_fd(), libc::SOL_SOCKET, libc::SO_TIMESTAMPING, value, 4)
        };
        assert_eq!(set, 0);
        // What it sends is stamped as it leaves; of the rest, the end does not until somebody reads.
        (&near).write_all(&[1]).unwrap();
        until_true("an error event", || has_error(&near));
        let writer = volt::go({
            let mut near = near.try_clone().unwrap();
            move || near.write_all(&vec![1; 16 << 20]).unwrap()
        });
        until_waits("write", &writer);
        drop(near);
        let mut all = Vec::new();
        far.read_to_end(&mut all).unwrap();
        assert_eq!(all.len(), 1 + (16 << 20));
        writer.join().unwrap();
    });
}

/// A process that was stopped for a while, or computed: what has come in time is there, however late it is looked at.
#[test]
fn what_came_in_time_is_no_timeout_after_a_stall() {
    const MANY: usize = 200;
    let _watchdog = Watchdog::new("reads after a stall");
    let runtime = Builder::new_current_thread().stall_period(None).force_migrate(false);
    runtime.build().unwrap().run(|| {
        let time = Duration::from_millis(200);
        // It may take too long itself until all wait.
        let came_in_time = || {
            let (near, far): (Vec<_>, Vec<_>) = (0..MANY).map(|_| pair()).unzip();
            let begun = Instant::now();
            let readers: Vec<_> = near
                .into_iter()
                .map(|mut near| {
                    near.set_read_timeout(Some(time)).unwrap();
                    volt::go(move || near.read(&mut [0]))
                })
                .collect();
            let waits = |report: &FiberReport| report.waits_for == Some("read");
            let all_wait = || {
                Handle::current().fibers(usize::MAX).iter().filter(|it| waits(it)).count() == MANY
            };
            while !all_wait() && begun.elapsed() < time {
                volt::yield_now();
            }
            // No turn comes in between, as it would by volt's writes.
            let far: Vec<_> = far.into_iter().map(|far| far.into_std().unwrap()).collect();
            far.iter().for_each(|mut far| far.write_all(&[1]).unwrap());
            let in_time = begun.elapsed() < time;
            std::thread::sleep(time);
            let read = readers.into_iter().map(|reader| reader.join().unwrap());
            let read = read.filter(|read| matches!(read, Ok(1))).count();
            in_time.then_some(read)
        };
        assert_eq!((0..100).find_map(|_| came_in_time()), Some(MANY));
    });
}

/// One socket, such as a listener in a `static`, and runtimes that come and go.
#[test]
#[cfg(target_os = "linux")]
fn a_socket_keeps_nothing_open_of_runtimes_that_have_ended() {
    alone("a_socket_keeps_nothing_open_of_runtimes_that_have_ended", || {
        let (listener, _) = listen();
        let open = || std::fs::read_dir("/proc/self/fd").unwrap().count();
        let round = || {
            let accept = || volt::timeout(Duration::from_millis(1), || listener.accept());
            current_thread().run(accept).unwrap_err();
        };
        round();
        let before = open();
        (0..5).for_each(|_| round());
        assert_eq!(open(), before, "of five more");
    });
}
