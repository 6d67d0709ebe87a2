//! Who is measured, and how each is started on the given number of workers.
//!
//! Runtimes are leaked: a measurement has a process of its own, which ends when its figure is
//! printed, and what a runtime takes to end is no part of any case.

use std::future::Future;
use std::os::fd::AsFd;

use socket2::SockRef;

use crate::run::Run;

/// volt, its peers, and the floor that none of them can go below.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Peer {
    Volt,
    Tokio,
    May,
    Go,
    /// Plain threads and `std`.
    Threads,
    /// What remains if there is no runtime: a bare switch, a page, a compare-and-swap, raw epoll.
    Floor,
}

impl Peer {
    pub const ALL: [Peer; 6] =
        [Peer::Volt, Peer::Tokio, Peer::May, Peer::Go, Peer::Threads, Peer::Floor];

    pub fn name(self) -> &'static str {
        match self {
            Peer::Volt => "volt",
            Peer::Tokio => "tokio",
            Peer::May => "may",
            Peer::Go => "go",
            Peer::Threads => "threads",
            Peer::Floor => "floor",
        }
    }

    pub fn parse(name: &str) -> Option<Peer> {
        Peer::ALL.into_iter().find(|peer| peer.name() == name)
    }
}

pub fn volt(run: Run) -> &'static volt::runtime::Runtime {
    let runtime = volt::runtime::Builder::new().workers(run.workers).build();
    Box::leak(Box::new(runtime.expect("volt starts")))
}

pub fn tokio(run: Run) -> &'static tokio::runtime::Runtime {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(run.workers)
        .enable_all()
        .build();
    Box::leak(Box::new(runtime.expect("Tokio starts")))
}

/// With a pool that keeps the stacks of every case but the largest: its own would keep 100, and map
/// the others anew.
pub fn may(run: Run) {
    may::config().set_workers(run.workers).set_pool_capacity(10_000);
}

/// Threads have no workers: the process may use as many processors.
pub fn threads(run: Run) {
    // SAFETY: the set is plain data, large enough for the processors that are named.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::sched_getaffinity(0, size_of::<libc::cpu_set_t>(), &raw mut set);
        let mut left = run.workers;
        for cpu in 0..libc::CPU_SETSIZE as usize {
            if libc::CPU_ISSET(cpu, &set) {
                if left == 0 {
                    libc::CPU_CLR(cpu, &mut set);
                } else {
                    left -= 1;
                }
            }
        }
        libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &raw const set);
    }
}

/// Runs `f` on a fiber of volt.
pub fn on_volt<T: Send + 'static>(run: Run, f: impl FnOnce() -> T + Send + 'static) -> T {
    volt(run).run(f)
}

/// Runs `f` as a task on a worker of Tokio: what runs in `block_on` itself would be no task.
pub fn on_tokio<T: Send + 'static>(run: Run, f: impl Future<Output = T> + Send + 'static) -> T {
    tokio(run).block_on(async { tokio::spawn(f).await.expect("the task does not panic") })
}

/// Runs `f` on a coroutine of may.
pub fn on_may<T: Send + 'static>(run: Run, f: impl FnOnce() -> T + Send + 'static) -> T {
    may(run);
    may::go!(f).join().expect("the coroutine does not panic")
}

/// Runs `f` on a plain thread, with as many processors as others have workers.
pub fn on_threads<T>(run: Run, f: impl FnOnce() -> T) -> T {
    threads(run);
    f()
}

/// Lets as many connections wait at a listener as at volt's and Go's.
pub fn deepen(listener: &impl AsFd) {
    SockRef::from(listener).listen(4096).expect("it listens already");
}
