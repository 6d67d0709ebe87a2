//! Deadlines, child processes and seeds for the tests.
#![allow(dead_code, reason = "each test file uses a part of it")]

pub mod task;
pub mod waits;

use std::io::Read;
use std::panic::resume_unwind;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use volt::runtime::Builder;

/// Far beyond what any test here needs, on the slowest machine.
pub const LONG: Duration = Duration::from_secs(30);

/// Runs `f` on a plain thread of its own and fails the test if it has not ended in time.
#[track_caller]
pub fn within<R: Send + 'static>(limit: Duration, f: impl FnOnce() -> R + Send + 'static) -> R {
    let (sender, receiver) = channel();
    let name = std::thread::current().name().unwrap_or("test").to_owned();
    let thread = std::thread::Builder::new()
        .name(name)
        .spawn(move || {
            let _ = sender.send(f());
        })
        .unwrap();
    match receiver.recv_timeout(limit) {
        Ok(value) => {
            thread.join().unwrap();
            value
        }
        Err(RecvTimeoutError::Timeout) => panic!("still not done after {limit:?}: a lost wakeup?"),
        Err(RecvTimeoutError::Disconnected) => match thread.join() {
            Err(payload) => resume_unwind(payload),
            Ok(()) => unreachable!("the value was sent"),
        },
    }
}

/// Runs `body` as a fiber of runtimes of both kinds, and on a plain thread.
#[track_caller]
pub fn everywhere(body: impl Fn() + Send + Sync + Copy + 'static) {
    within(LONG, move || {
        Builder::new().workers(3).build().unwrap().run(body);
        Builder::new_current_thread().build().unwrap().run(body);
        body();
    });
}

/// Waits on a plain thread until `condition` holds.
#[track_caller]
pub fn until(what: &str, mut condition: impl FnMut() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < LONG, "still waiting for: {what}");
        std::thread::sleep(Duration::from_micros(200));
    }
}

/// Binds the calling thread to the processor with this number among those that it may use, round and round; on Linux.
pub fn pin_to(number: usize) {
    #[cfg(target_os = "linux")]
    {
        use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
        let all = sched_getaffinity(None).unwrap();
        let mut usable = (0..CpuSet::MAX_CPU).filter(|&processor| all.is_set(processor)).cycle();
        let mut one = CpuSet::new();
        one.set(usable.nth(number).unwrap());
        sched_setaffinity(None, &one).unwrap();
    }
    _ = number;
}

/// Runs `f` as a fiber whose join handle is gone before it ends, so that its result is its own to
/// drop.
pub fn detached<T: Send + 'static>(
    runtime: &volt::runtime::Runtime,
    f: impl FnOnce() -> T + Send + 'static,
) {
    let gone = Arc::new(AtomicBool::new(false));
    let theirs = Arc::clone(&gone);
    drop(runtime.go(move || {
        while !theirs.load(Ordering::Acquire) {
            volt::yield_now();
        }
        f()
    }));
    gone.store(true, Ordering::Release);
}

/// What a child process left behind.
#[derive(Debug)]
pub struct Left {
    pub status: ExitStatus,
    pub text: String,
}

impl Left {
    pub fn signal(&self) -> Option<i32> {
        use std::os::unix::process::ExitStatusExt;
        self.status.signal()
    }
}

const CHILD: &str = "VOLT_TEST_CHILD";
/// What a child writes, to its standard output, once it runs the test that it was started for.
const REACHED: &str = "the child is in its test";

/// Runs `body` in a child process: the test binary again, with only the test `name`. In the child
/// this does not return. Fails if there is no test of that name, or `body` is not in it.
#[track_caller]
pub fn child(name: &str, env: &[(&str, &str)], body: impl FnOnce()) -> Left {
    if is_child(name) {
        println!("\n{REACHED}");
        body();
        std::process::exit(0);
    }
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args([name, "--exact", "--nocapture", "--test-threads=1"])
        .env(CHILD, name)
        .env("RUST_BACKTRACE", "0")
        .envs(env.iter().copied())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    reap(command.spawn().unwrap(), name)
}

/// Is this the process that [`child`] started for the test `name`?
pub fn is_child(name: &str) -> bool {
    std::env::var(CHILD).as_deref() == Ok(name)
}

/// All that comes out of `pipe`, read while it comes.
fn read_all(mut pipe: impl Read + Send + 'static) -> JoinHandle<String> {
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        let _ = pipe.read_to_end(&mut bytes);
        String::from_utf8_lossy(&bytes).into_owned()
    })
}

#[track_caller]
fn reap(mut child: Child, name: &str) -> Left {
    let output = read_all(child.stdout.take().unwrap());
    let errors = read_all(child.stderr.take().unwrap());
    let start = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
        if start.elapsed() > LONG {
            let _ = child.kill();
            let _ = child.wait();
            panic!("the child of {name} did not end; it wrote: {}", errors.join().unwrap());
        }
        std::thread::sleep(Duration::from_millis(1));
    };
    let (output, text) = (output.join().unwrap(), errors.join().unwrap());
    assert!(output.contains(REACHED), "the child did not run {name}: {output}{text}");
    Left { status, text }
}

/// Leaves the process so much more address space than it has now, or all there is.
pub fn limit_address_space(more: Option<u64>) {
    let pages = std::fs::read_to_string("/proc/self/statm").unwrap();
    let used = pages.split(' ').next().unwrap().parse::<u64>().unwrap() * 4096;
    // SAFETY: plain numbers.
    unsafe {
        let mut limit = std::mem::zeroed::<libc::rlimit>();
        assert_eq!(libc::getrlimit(libc::RLIMIT_AS, &raw mut limit), 0);
        limit.rlim_cur = more.map_or(limit.rlim_max, |more| limit.rlim_max.min(used + more));
        assert_eq!(libc::setrlimit(libc::RLIMIT_AS, &raw const limit), 0);
    }
}

/// A small generator (xorshift64*), the same on every machine for the same seed.
#[derive(Clone, Debug)]
pub struct Rng(u64);

impl Rng {
    pub fn new(seed: u64) -> Rng {
        Rng(seed | 1)
    }

    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }

    pub fn below(&mut self, n: u64) -> u64 {
        (self.next() >> 16) % n
    }

    pub fn fork(&mut self) -> Rng {
        Rng::new(self.next())
    }
}

/// A seed from `VOLT_TEST_SEED`, or a new one; printed if the test fails.
pub struct Seed(pub u64);

impl Seed {
    pub fn new() -> Seed {
        use std::hash::{BuildHasher, Hasher};
        let fresh = || std::hash::RandomState::new().build_hasher().finish();
        let given = std::env::var("VOLT_TEST_SEED").ok().map(|seed| seed.parse().unwrap());
        Seed(given.unwrap_or_else(fresh))
    }

    pub fn rng(&self) -> Rng {
        Rng::new(self.0)
    }
}

impl Drop for Seed {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("run it again with VOLT_TEST_SEED={}", self.0);
        }
    }
}
