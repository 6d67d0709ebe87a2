//! The worker threads of a runtime: start, and leave.

use crate::fiber::Waiters;
use crate::park::{self, Parking, Wait};
use crate::primitives::clock::Moment;
use crate::primitives::sync::atomic::{AtomicBool, Ordering};
use crate::primitives::sync::{Arc, Mutex, full_fence};
use crate::primitives::thread;
use crate::scheduler::{self, Shared, Starter};
use std::io;
use std::time::Duration;

/// The threads of one runtime: workers, those that replace them, and the supervisor.
#[derive(Debug, Default)]
pub(super) struct Pool {
    threads: Mutex<Threads>,
    left: Left,
    /// Some thread may leave after the runtime has ended.
    detached: AtomicBool,
}

#[derive(Debug, Default)]
struct Threads {
    running: Vec<(usize, thread::JoinHandle<()>)>,
    started: usize,
    /// No more threads are started.
    closed: bool,
}

/// Tells that a thread leaves, also if one of its hooks has panicked.
struct Leaving<'a> {
    shared: &'a Shared,
    pool: &'a Pool,
    number: usize,
}

impl Drop for Leaving<'_> {
    fn drop(&mut self) {
        let last = self.shared.thread_leaves();
        self.pool.reap_others();
        self.pool.left.numbers.lock().push(self.number);
        self.pool.left.changed.settle_all().into_iter().for_each(park::wake);
        // Whoever waits for the others does this after all have left. What this thread has put away is seen by the one
        // who detaches it, or that is seen here.
        full_fence();
        if last && self.pool.detached.load(Ordering::Acquire) {
            scheduler::bequeath();
        }
    }
}

/// The core for which a thread was started; put down if a hook panics before it runs.
struct GivenCore<'a> {
    shared: &'a Shared,
    core: usize,
}

impl GivenCore<'_> {
    fn run(self) {
        let (shared, core) = (self.shared, self.core);
        std::mem::forget(self);
        scheduler::run(shared, core);
    }
}

impl Drop for GivenCore<'_> {
    fn drop(&mut self) {
        // SAFETY: its thread, this one, does not come to run it.
        unsafe { self.shared.put_down(self.core) };
    }
}

/// The numbers of threads that are about to end.
#[derive(Debug, Default)]
struct Left {
    numbers: Mutex<Vec<usize>>,
    changed: Waiters,
}

impl Pool {
    /// Starts the threads of `shared`: one for each of its first `held` cores, and the supervisor.
    pub(super) fn start(shared: &Arc<Shared>, held: usize) -> io::Result<Arc<Pool>> {
        let pool = Arc::<Pool>::default();
        let starter = Arc::clone(&pool);
        shared.set_starter(Starter(Box::new(move |shared, core| {
            starter.start_worker(&shared.to_arc(), core)
        })));
        let workers = (0..held).try_for_each(|core| pool.start_worker(shared, core));
        workers.and_then(|()| pool.start_supervisor(shared)).inspect_err(|_| {
            // Those that have started are joined by nobody.
            pool.detach();
            shared.stop();
        })?;
        if held > 0 {
            shared.inherits();
        }
        Ok(pool)
    }

    fn start_worker(self: &Arc<Pool>, shared: &Arc<Shared>, core: usize) -> io::Result<()> {
        // Its own, since the runtime may have ended before this thread does, or begins.
        let hooks = shared.hooks();
        self.start_thread(
            shared,
            |number| format!("-{number}"),
            move |shared| {
                let given = GivenCore { shared, core };
                hooks.on_thread_start.iter().for_each(|hook| hook());
                given.run();
                hooks.on_thread_stop.iter().for_each(|hook| hook());
            },
        )
    }

    fn start_supervisor(self: &Arc<Pool>, shared: &Arc<Shared>) -> io::Result<()> {
        let Some(period) = shared.config.stall_period else { return Ok(()) };
        let body = move |shared: &Shared| scheduler::supervise(shared, period);
        self.start_thread(shared, |_| "-supervisor".to_owned(), body)
    }

    fn start_thread(
        self: &Arc<Pool>,
        shared: &Arc<Shared>,
        suffix: impl Fn(usize) -> String,
        body: impl FnOnce(&Shared) + Send + 'static,
    ) -> io::Result<()> {
        // Over the start, so that who looks at the threads sees every one that has begun.
        let mut threads = self.threads.lock();
        if threads.closed {
            return Err(io::Error::other("the runtime has been shut down"));
        }
        self.reap(&mut threads);
        let number = threads.started;
        let name = format!("{}{}", shared.config.thread_name, suffix(number));
        let (pool, scheduler) = (Arc::clone(self), Arc::clone(shared));
        scheduler.thread_starts();
        let thread = thread::Builder::new().name(name.clone()).spawn(move || {
            let _leaving = Leaving { shared: &scheduler, pool: &pool, number };
            block_signals();
            body(&scheduler);
        });
        match thread {
            Ok(thread) => {
                threads.started += 1;
                threads.running.push((number, thread));
                Ok(())
            }
            Err(error) => {
                let _ = shared.thread_leaves();
                let message = format!("thread {name}: {error}{}", limits(&error));
                Err(io::Error::new(error.kind(), message))
            }
        }
    }

    /// Lets the threads end by themselves, joined by nobody. No thread is started any more.
    pub(super) fn detach(&self) {
        let mut threads = self.threads.lock();
        threads.closed = true;
        threads.running.clear();
        self.detached.store(true, Ordering::Release);
    }

    /// For a thread that leaves: the next start may be far off, and until it is joined a thread that
    /// has ended keeps its stack. Not at a shutdown, which counts the threads that have left.
    fn reap_others(&self) {
        let mut threads = self.threads.lock();
        if !threads.closed {
            self.reap(&mut threads);
        }
    }

    /// Joins the threads that have ended, of those that have left; waits for none.
    fn reap(&self, threads: &mut Threads) {
        let running = &mut threads.running;
        self.left.numbers.lock().retain(|number| {
            let place = running.iter().position(|(other, _)| other == number);
            let Some(place) = place else { return false };
            let lasts = try_join(running.swap_remove(place).1);
            lasts.map(|thread| running.push((*number, thread))).is_some()
        });
    }

    /// Joins the threads that end until `deadline`; returns the names of the others, which are
    /// detached, as the caller is if it is one of them (in a hook). No thread is started any more.
    pub(super) fn join(&self, deadline: Moment) -> Vec<String> {
        let all = {
            let mut threads = self.threads.lock();
            threads.closed = true;
            self.reap(&mut threads);
            self.leave_out_the_caller(&mut threads.running);
            threads.running.len()
        };
        let wait = Wait { deadline: Some(deadline), ..Wait::new("shutdown") };
        park::wait_until(&self.left.changed, wait, || self.left.numbers.lock().len() >= all);
        self.reap_until(deadline);
        let mut threads = self.threads.lock();
        if !threads.running.is_empty() {
            self.detached.store(true, Ordering::Release);
            full_fence();
        }
        let name = |thread: &thread::JoinHandle<()>| thread.thread().name().map(str::to_owned);
        threads.running.drain(..).filter_map(|(_, thread)| name(&thread)).collect()
    }

    fn leave_out_the_caller(&self, running: &mut Vec<(usize, thread::JoinHandle<()>)>) {
        let (here, count) = (thread::current().id(), running.len());
        running.retain(|(_, thread)| thread.thread().id() != here);
        if running.len() != count {
            self.detached.store(true, Ordering::Release);
        }
    }

    /// Joins the threads that have left, as they end. Nobody tells of that: a thread that has left has
    /// destructors of thread-locals to run.
    fn reap_until(&self, deadline: Moment) {
        const LONGEST: Duration = Duration::from_millis(5);
        let mut pause = Duration::from_micros(20);
        loop {
            self.reap(&mut self.threads.lock());
            let now = Moment::now();
            if now >= deadline || self.left.numbers.lock().is_empty() {
                return;
            }
            let until = now.saturating_add(pause).min(deadline);
            let wait = Wait { deadline: Some(until), at_once: true, ..Wait::new("shutdown") };
            let _ = Parking::begin(wait.reason).park(wait);
            pause = LONGEST.min(2 * pause);
        }
    }
}

/// Which limits the system may have come upon, where it says no more than that it has none to give.
#[cold]
fn limits(error: &io::Error) -> &'static str {
    match error.raw_os_error() {
        Some(libc::EAGAIN | libc::ENOMEM) => {
            "; see the limits RLIMIT_NPROC (ulimit -u) and RLIMIT_AS (ulimit -v), pids.max of the cgroup, \
             kernel.threads-max, kernel.pid_max and vm.max_map_count"
        }
        _ => "",
    }
}

/// Joins a thread that has ended; gives one back that has not.
#[cfg(all(target_os = "linux", any(target_env = "gnu", target_env = "musl")))]
fn try_join(thread: thread::JoinHandle<()>) -> Option<thread::JoinHandle<()>> {
    use std::os::unix::thread::JoinHandleExt;
    // SAFETY: the handle owns its thread: it is neither joined nor detached.
    if unsafe { libc::pthread_tryjoin_np(thread.as_pthread_t(), std::ptr::null_mut()) } != 0 {
        return Some(thread);
    }
    // Or the handle would detach what is not there any more.
    let _ = thread.into_pthread_t();
    None
}

/// Elsewhere nobody can ask: one that has left is detached.
#[cfg(not(all(target_os = "linux", any(target_env = "gnu", target_env = "musl"))))]
fn try_join(_: thread::JoinHandle<()>) -> Option<thread::JoinHandle<()>> {
    None
}

/// Signals that are sent to the process go to the program's own threads; those that tell of a fault
/// of the running code, and the profiler's, stay.
fn block_signals() {
    const KEPT: [libc::c_int; 8] = [
        libc::SIGSEGV,
        libc::SIGBUS,
        libc::SIGFPE,
        libc::SIGILL,
        libc::SIGTRAP,
        libc::SIGSYS,
        libc::SIGPROF,
        libc::SIGABRT,
    ];
    // SAFETY: a local set, filled before use; the call changes this thread's mask only.
    unsafe {
        let mut set = std::mem::zeroed::<libc::sigset_t>();
        libc::sigfillset(&mut set);
        for signal in KEPT {
            libc::sigdelset(&mut set, signal);
        }
        libc::pthread_sigmask(libc::SIG_BLOCK, &set, std::ptr::null_mut());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime::Builder;
    use std::cell::Cell;
    use std::sync::mpsc::{Receiver, channel};

    /// A worker hands its core on and is told to start a thread for it; by the time that it does, the
    /// runtime has been shut down. Nobody would join that thread.
    #[test]
    fn a_thread_that_is_started_late_is_refused() {
        let ends: [fn(&Pool); 2] =
            [Pool::detach, |pool| assert!(pool.join(Moment::NEVER).is_empty())];
        for end in ends {
            let runtime = Builder::new_current_thread().stall_period(None).build().unwrap();
            let shared = &runtime.handle().0;
            let pool = Arc::<Pool>::default();
            pool.start_worker(shared, 0).unwrap();
            shared.stop();
            end(&pool);
            let error = pool.start_worker(shared, 0).unwrap_err();
            assert!(error.to_string().contains("has been shut down"), "{error}");
            let threads = pool.threads.lock();
            assert_eq!((threads.started, threads.running.len()), (1, 0));
        }
    }

    /// None is started after many have left together: those that leave later join them.
    #[test]
    fn threads_that_have_left_are_joined_though_none_is_started() {
        const MANY: usize = 64;
        let runtime = Builder::new_current_thread().stall_period(None).build().unwrap();
        let shared = Arc::clone(&runtime.handle().0);
        let pool = Arc::<Pool>::default();
        let release: Vec<_> = (0..MANY)
            .map(|_| {
                let (release, released) = channel::<()>();
                let body = move |_: &Shared| _ = released.recv();
                pool.start_thread(&shared, |_| "-leaves".to_owned(), body).unwrap();
                release
            })
            .collect();
        let running = || pool.threads.lock().running.len();
        assert_eq!(running(), MANY);
        for (number, release) in release.into_iter().enumerate() {
            drop(release);
            let has_ended = |threads: &Threads| {
                let mut those = threads.running.iter().filter(|(other, _)| *other == number);
                those.all(|(_, thread)| thread.is_finished())
            };
            while !has_ended(&pool.threads.lock()) {
                thread::yield_now();
            }
        }
        // The last one, and whoever was slow to end.
        assert!(running() < MANY / 2, "{} threads that have left are not joined", running());
        assert!(pool.join(Moment::NEVER).is_empty());
    }

    /// Who hands a core on waits for nobody else's destructors.
    #[test]
    fn a_thread_is_started_beside_one_that_does_not_end() {
        struct Stands(Receiver<()>);
        impl Drop for Stands {
            fn drop(&mut self) {
                let _ = self.0.recv();
            }
        }
        thread_local! {
            static STANDS: Cell<Option<Stands>> = const { Cell::new(None) };
        }
        let runtime = Builder::new_current_thread().stall_period(None).build().unwrap();
        let shared = Arc::clone(&runtime.handle().0);
        let pool = Arc::<Pool>::default();
        let (release, released) = channel();
        let body = move |_: &Shared| STANDS.set(Some(Stands(released)));
        pool.start_thread(&shared, |_| "-stands".to_owned(), body).unwrap();
        while pool.left.numbers.lock().is_empty() {
            thread::yield_now();
        }
        let (started, starts) = channel();
        let (theirs, scheduler) = (Arc::clone(&pool), Arc::clone(&shared));
        let starter = std::thread::spawn(move || {
            let result = theirs.start_thread(&scheduler, |_| String::new(), |_: &Shared| ());
            started.send(result.is_ok()).unwrap();
        });
        let meanwhile = starts.recv_timeout(Duration::from_secs(30));
        drop(release);
        starter.join().unwrap();
        assert_eq!(meanwhile, Ok(true), "it waited for the other thread's end");
        // None of them is lost.
        assert!(pool.join(Moment::NEVER).is_empty());
        assert!(pool.threads.lock().running.is_empty());
    }
}
