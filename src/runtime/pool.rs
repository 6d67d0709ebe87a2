//! The worker threads of a runtime: start, and leave.

use crate::fiber::Waiters;
use crate::park::{self, Wait};
use crate::primitives::clock::Moment;
use crate::primitives::sync::{Arc, Mutex};
use crate::primitives::thread;
use crate::scheduler::{self, Shared};
use std::io;

/// The threads of one runtime.
#[derive(Debug)]
pub(super) struct Pool {
    threads: Mutex<Vec<thread::JoinHandle<()>>>,
    left: Arc<Left>,
}

/// Tells that a worker's thread leaves, also if one of its hooks has panicked.
struct Leaving<'a> {
    scheduler: &'a Shared,
    left: &'a Left,
    index: usize,
}

impl Drop for Leaving<'_> {
    fn drop(&mut self) {
        self.scheduler.leave();
        self.left.indices.lock().push(self.index);
        self.left.changed.settle_all().into_iter().for_each(park::wake);
    }
}

/// The indices of workers whose threads have left their loops and are about to end.
#[derive(Debug, Default)]
struct Left {
    indices: Mutex<Vec<usize>>,
    changed: Waiters,
}

impl Pool {
    pub(super) fn empty() -> Pool {
        Pool { threads: Mutex::new(Vec::new()), left: Arc::default() }
    }

    /// Starts a thread for every worker.
    pub(super) fn start(shared: &Arc<Shared>) -> io::Result<Pool> {
        let pool = Pool::empty();
        for index in 0..shared.config.workers {
            let (scheduler, left) = (Arc::clone(shared), Arc::clone(&pool.left));
            let started = thread::Builder::new()
                .name(format!("{}-{index}", shared.config.thread_name))
                .spawn(move || {
                    let _leaving = Leaving { scheduler: &scheduler, left: &left, index };
                    worker_thread(&scheduler, index);
                });
            match started {
                Ok(thread) => pool.threads.lock().push(thread),
                Err(error) => {
                    shared.stop();
                    let message =
                        format!("worker thread {index} of {}: {error}", shared.config.workers);
                    return Err(io::Error::new(error.kind(), message));
                }
            }
        }
        Ok(pool)
    }

    /// Joins the threads that leave until `deadline`; returns the names of the others, which are
    /// detached.
    pub(super) fn join(&self, deadline: Moment) -> Vec<String> {
        let threads = std::mem::take(&mut *self.threads.lock());
        let left = self.wait_left(threads.len(), deadline);
        let mut stuck = Vec::new();
        for (index, thread) in threads.into_iter().enumerate() {
            if left.contains(&index) {
                let _ = thread.join();
            } else {
                stuck.push(thread.thread().name().unwrap_or("<unnamed>").to_owned());
            }
        }
        stuck
    }

    fn wait_left(&self, all: usize, deadline: Moment) -> Vec<usize> {
        let wait = Wait { deadline: Some(deadline), ..Wait::new("shutdown") };
        park::wait_until(&self.left.changed, wait, || self.left.indices.lock().len() >= all);
        self.left.indices.lock().clone()
    }
}

fn worker_thread(shared: &Shared, index: usize) {
    block_signals();
    if let Some(hook) = &shared.config.on_thread_start {
        hook();
    }
    scheduler::run(shared, index, Moment::NEVER, &|| false);
    if let Some(hook) = &shared.config.on_thread_stop {
        hook();
    }
}

/// Signals that are sent to the process go to the program's own threads; those that tell of a fault
/// of the running code, and the profiler's, stay.
fn block_signals() {
    const KEPT: [libc::c_int; 7] = [
        libc::SIGSEGV,
        libc::SIGBUS,
        libc::SIGFPE,
        libc::SIGILL,
        libc::SIGTRAP,
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
