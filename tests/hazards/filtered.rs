//! What README says that a daemon goes on to need which forbids itself system calls: the kernel ends the process for any other.
//! The table is of x86-64 and glibc.

use super::common::waits::{until_waits_on, wait_of};
use super::common::{LONG, child, limit_address_space, until};
use std::any::Any;
use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Barrier};
use std::time::Duration;
use volt::net::{TcpListener, TcpStream};
use volt::runtime::{Builder, Runtime};

/// By the names that README has.
macro_rules! calls {
    ($($name:ident = $number:ident)*) => { &[$((stringify!($name), libc::$number)),*] };
}

type Calls = &'static [(&'static str, libc::c_long)];

/// For sockets, waits, stacks, threads, runtimes that are built later, and signals.
const NEEDED: Calls = calls! {
    futex = SYS_futex restart_syscall = SYS_restart_syscall clock_gettime = SYS_clock_gettime
    epoll_wait = SYS_epoll_wait epoll_ctl = SYS_epoll_ctl ppoll = SYS_ppoll
    read = SYS_read write = SYS_write timerfd_settime = SYS_timerfd_settime
    membarrier = SYS_membarrier

    mmap = SYS_mmap munmap = SYS_munmap mprotect = SYS_mprotect madvise = SYS_madvise
    mremap = SYS_mremap brk = SYS_brk

    clone3 = SYS_clone3 rseq = SYS_rseq set_robust_list = SYS_set_robust_list
    sigaltstack = SYS_sigaltstack rt_sigprocmask = SYS_rt_sigprocmask gettid = SYS_gettid
    getrandom = SYS_getrandom exit = SYS_exit

    epoll_create1 = SYS_epoll_create1 eventfd2 = SYS_eventfd2 fcntl = SYS_fcntl close = SYS_close

    rt_sigaction = SYS_rt_sigaction rt_sigreturn = SYS_rt_sigreturn getpid = SYS_getpid

    socket = SYS_socket bind = SYS_bind listen = SYS_listen accept4 = SYS_accept4
    connect = SYS_connect ioctl = SYS_ioctl recvfrom = SYS_recvfrom sendto = SYS_sendto
    recvmsg = SYS_recvmsg sendmsg = SYS_sendmsg shutdown = SYS_shutdown
    getsockname = SYS_getsockname getpeername = SYS_getpeername
    getsockopt = SYS_getsockopt setsockopt = SYS_setsockopt
};

/// Where these fail with EPERM, all at once, something is worse; and everything goes on.
const OPTIONAL: Calls = calls! {
    sched_yield = SYS_sched_yield prctl = SYS_prctl mincore = SYS_mincore
    sched_getaffinity = SYS_sched_getaffinity timerfd_create = SYS_timerfd_create
    openat = SYS_openat newfstatat = SYS_newfstatat statx = SYS_statx lseek = SYS_lseek
    getdents64 = SYS_getdents64 prlimit64 = SYS_prlimit64
};

/// What the exercise calls itself, and any program at its end.
const OF_THE_TEST: Calls = calls! {
    clock_nanosleep = SYS_clock_nanosleep exit_group = SYS_exit_group
};

/// For three of the largest stacks, and for what else is there.
const ROOM: u64 = 7 << 29;

/// Of a step of a filter.
fn step(code: u32, k: u32, if_true: u8, otherwise: u8) -> libc::sock_filter {
    libc::sock_filter { code: code as u16, jt: if_true, jf: otherwise, k }
}

/// From now on each thread of the process may do what is in the lists, or, of the second, is refused it. Any other call is
/// trapped, or ends the process where that is blocked.
fn allow(refuses: bool) {
    let (jump, ends) = (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, libc::BPF_RET | libc::BPF_K);
    let mut steps = vec![step(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, 0)];
    let mut add = |calls: Calls, action| {
        for &(_, number) in calls {
            steps.extend([step(jump, number as u32, 0, 1), step(ends, action, 0, 0)]);
        }
    };
    let refused = libc::SECCOMP_RET_ERRNO | libc::EPERM as u32;
    add(NEEDED, libc::SECCOMP_RET_ALLOW);
    add(OPTIONAL, if refuses { refused } else { libc::SECCOMP_RET_ALLOW });
    add(OF_THE_TEST, libc::SECCOMP_RET_ALLOW);
    steps.push(step(ends, libc::SECCOMP_RET_TRAP, 0, 0));
    super::install(&mut steps);
}

/// Names the call, since whoever reads that the process was killed does not know why.
extern "C" fn trapped(_: libc::c_int, info: *mut libc::siginfo_t, _: *mut libc::c_void) {
    // SAFETY: the number stands behind three words and the address of the call.
    let number = unsafe { *info.cast::<u8>().add(24).cast::<libc::c_int>() };
    let digit = |place| b'0' + (number / place % 10) as u8;
    let mut text = *b"a call that is in no list: ...\n";
    text[27..30].copy_from_slice(&[digit(100), digit(10), digit(1)]);
    // SAFETY: safe in a handler.
    unsafe {
        libc::write(2, text.as_ptr().cast(), text.len());
        libc::_exit(9);
    }
}

/// A process outside of the filter that stops this one, lets it go on, and signals it, each time it is asked to.
struct Outside(UnixStream);

impl Outside {
    fn new() -> Outside {
        let (asks, mut asked) = UnixStream::pair().unwrap();
        let parent = std::process::id() as libc::pid_t;
        // SAFETY: the child calls the system, and leaves.
        if unsafe { libc::fork() } == 0 {
            drop(asks);
            while asked.read(&mut [0]).is_ok_and(|n| n == 1) {
                // SAFETY: as above.
                unsafe {
                    libc::kill(parent, libc::SIGSTOP);
                    libc::usleep(50_000);
                    libc::kill(parent, libc::SIGCONT);
                    libc::kill(parent, libc::SIGUSR1);
                }
                let _ = asked.write(&[0]);
            }
            // SAFETY: as above.
            unsafe { libc::_exit(0) };
        }
        Outside(asks)
    }

    fn stop_and_signal(&mut self) {
        self.0.write_all(&[0]).unwrap();
        self.0.read_exact(&mut [0]).unwrap();
    }
}

/// Runtimes with a short life for idle stacks, and supervisors that soon look.
fn builder() -> Builder {
    let millis = Duration::from_millis;
    Builder::new().workers(2).stall_period(Some(millis(20))).stack_age(millis(100))
}

fn exchange() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let server = volt::go(move || {
        for _ in 0..20 {
            let mut far = listener.accept().unwrap().0;
            volt::go(move || {
                far.set_read_timeout(Some(LONG)).unwrap();
                let mut byte = [0; 1];
                while far.read(&mut byte).unwrap() == 1 {
                    far.write_all(&byte).unwrap();
                }
            });
        }
    });
    for round in 0..20 {
        let mut near = TcpStream::connect(address).unwrap();
        for _ in 0..20 {
            near.write_all(&[1]).unwrap();
            near.read_exact(&mut [0; 1]).unwrap();
            volt::sleep(Duration::from_micros(50 * round));
        }
        let mut near = TcpStream::from(near.into_std().unwrap());
        near.write_all(&[1]).unwrap();
        near.read_exact(&mut [0; 1]).unwrap();
    }
    server.join().unwrap();
}

fn uses_stack(deep: usize) -> usize {
    let mut page = [deep as u8; 1024];
    std::hint::black_box(&mut page);
    if deep == 0 { 0 } else { uses_stack(deep - 1) + usize::from(page[7] != 0) }
}

/// Many fibers at once, whose stacks are new, grow, and go back.
fn many() {
    let fibers = (0..2_000).map(|_| {
        volt::go(|| {
            volt::sleep(Duration::from_millis(20));
            uses_stack(40)
        })
    });
    fibers.collect::<Vec<_>>().into_iter().for_each(|fiber| _ = fiber.join().unwrap());
}

/// Four at once on two workers.
fn blocking() {
    let all = Arc::new(Barrier::new(4));
    let fibers: Vec<_> = (0..4)
        .map(|_| {
            let all = Arc::clone(&all);
            volt::go(move || volt::blocking(|| _ = all.wait()))
        })
        .collect();
    fibers.into_iter().for_each(|fiber| fiber.join().unwrap());
}

fn stalls(runtime: &Runtime) {
    let release = Arc::new(AtomicBool::new(false));
    let held = Arc::clone(&release);
    let before = runtime.stats().total.stalls;
    let fiber = runtime.go(move || {
        while !held.load(Ordering::SeqCst) {
            std::thread::sleep(Duration::from_millis(1));
        }
    });
    until("the stall", || runtime.stats().total.stalls > before);
    release.store(true, Ordering::SeqCst);
    fiber.join().unwrap();
}

/// Threads and fibers that wait for each other, by turns and for a time.
fn threads(runtime: &Runtime) {
    let (sender, receiver) = volt::channel::bounded(1);
    let counter = Arc::new(volt::sync::Mutex::new(0));
    let theirs = Arc::clone(&counter);
    let fiber = runtime.go(move || receiver.iter().for_each(|n: i32| *theirs.lock().unwrap() += n));
    for _ in 0..5_000 {
        sender.send(1).unwrap();
        *counter.lock().unwrap() += 1;
    }
    let nothing = volt::channel::never::<()>();
    nothing.recv_timeout(Duration::from_millis(30)).unwrap_err();
    drop(sender);
    fiber.join().unwrap();
    assert_eq!(*counter.lock().unwrap(), 10_000);
}

/// A runtime that finds that all its fibers wait, after which idle memory has gone back.
fn quiet(runtime: &Runtime) {
    let fiber = runtime.go(volt::thread::park);
    until_waits_on(runtime.handle(), "park", &fiber);
    assert_eq!(runtime.handle().fibers(10).len(), 1);
    until("the stacks of `many` have given their memory back", || {
        let stacks = volt::metrics::stacks();
        stacks.pooled == 0 && stacks.trimmed >= 100
    });
    fiber.thread().unpark();
    fiber.join().unwrap();
}

/// More of the largest ones at once than there is room for.
fn no_stack(runtime: &Runtime) {
    let (holds, held) = volt::channel::bounded::<()>(0);
    let spawn = |_| {
        let (held, large) = (held.clone(), volt::thread::Builder::new().stack_size(1 << 30));
        runtime.run(|| large.spawn(move || _ = held.recv())).unwrap()
    };
    let fibers: Vec<_> = (0..4).map(spawn).collect();
    until("each holds one, or was refused", || {
        let holds = |id| wait_of(runtime.handle(), id).is_some();
        fibers.iter().all(|fiber| fiber.is_finished() || holds(fiber.thread().id()))
    });
    drop(holds);
    let ends: Vec<_> = fibers.into_iter().map(volt::thread::JoinHandle::join).collect();
    let refused = |end: &Result<_, Box<dyn Any + Send>>| {
        end.as_ref().is_err_and(|error| error.is::<volt::StackError>())
    };
    assert!(ends.iter().any(refused), "there was room");
}

fn exercise(runtime: &Runtime, outside: &mut Outside) {
    runtime.run(exchange);
    exchange();
    runtime.run(many);
    runtime.run(blocking);
    stalls(runtime);
    threads(runtime);
    quiet(runtime);
    let mut signals =
        runtime.run(|| volt::signal::Signals::new([volt::signal::Signal::User1]).unwrap());
    let sleepers: Vec<_> = (0..4).map(|_| runtime.go(|| volt::sleep(LONG / 300))).collect();
    outside.stop_and_signal();
    signals.recv().unwrap();
    sleepers.into_iter().for_each(|sleeper| sleeper.join().unwrap());
    _ = (volt::metrics::stacks(), volt::metrics::stack_usage());
}

fn filtered(refuses: bool) {
    super::handle(libc::SIGSYS, trapped as extern "C" fn(_, _, _) as usize, libc::SA_SIGINFO);
    let mut outside = Outside::new();
    let runtime = builder().build().unwrap();
    runtime.run(volt::yield_now);
    limit_address_space(Some(ROOM));
    allow(refuses);
    exercise(&runtime, &mut outside);
    let later = builder().build().unwrap();
    exercise(&later, &mut outside);
    // The last thing, since it leaves no room for a while.
    no_stack(&later);
    later.shutdown(LONG).unwrap();
    Builder::new_current_thread().build().unwrap().run(exchange);
    runtime.shutdown(LONG).unwrap();
}

#[test]
fn the_calls_that_readme_lists_are_enough() {
    let name = "filtered::the_calls_that_readme_lists_are_enough";
    let left = child(name, &[], || filtered(false));
    assert!(left.status.success(), "{left:?}");
}

#[test]
fn the_calls_that_readme_says_may_be_refused_may_be() {
    let name = "filtered::the_calls_that_readme_says_may_be_refused_may_be";
    let left = child(name, &[], || filtered(true));
    assert!(left.status.success(), "{left:?}");
}

/// Each name there stands here, and the reverse.
#[test]
fn readme_lists_the_calls_that_are_tested() {
    let text = include_str!("../../README.md");
    let section = text.split("\n## Under a seccomp filter\n").nth(1).unwrap();
    let section = section.split("\n## ").next().unwrap();
    let is_call = |name: &&str| {
        name.starts_with(|c: char| c.is_ascii_lowercase())
            && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
    };
    let listed: BTreeSet<_> = section.split('`').skip(1).step_by(2).filter(is_call).collect();
    let tested: BTreeSet<_> = [NEEDED, OPTIONAL].concat().iter().map(|(name, _)| *name).collect();
    assert_eq!(listed, tested);
}
