//! A thread that lets through what others block.
//!
//! The kernel hands a signal of the process to a thread that does not block it; where all do, it is not handled.
//! Workers block nearly all, and a program that was started with signals blocked, as a worker starts one, does so on
//! each of its threads. So there is one more from the first [`Signals`](super::Signals) on that somebody makes who
//! blocks one of them. It unblocks what such `Signals` have named and nothing else: others may be blocked for a reason,
//! and their default action may be to end the program. Nobody else's mask is changed.

use crate::primitives::sync::Mutex;
use crate::primitives::thread::Builder;
use crate::thread::{self, Thread};
use std::ffi::c_int;
use std::io;
use std::mem;
use std::process;
use std::ptr;

static TAKER: Mutex<Taker> = Mutex::new(Taker { signals: Vec::new(), process: 0, thread: None });

struct Taker {
    /// It unblocks them, and does not block them again: their handlers stay.
    signals: Vec<c_int>,
    /// Where it has been started: a forked child has none.
    process: u32,
    /// Once it runs. It sleeps as whoever waits for fibers does, so that it counts as one who wakes none of itself.
    thread: Option<Thread>,
}

/// Sees to it that some thread handles `signals`, which have handlers.
///
/// # Errors
///
/// The calling thread blocks one, and no thread could be started.
pub(super) fn let_through(signals: &[c_int]) -> io::Result<()> {
    if !signals.is_empty() && is_any_blocked(signals) { TAKER.lock().take(signals) } else { Ok(()) }
}

impl Taker {
    /// They may come before the thread has unblocked them: then they pend until it does.
    fn take(&mut self, signals: &[c_int]) -> io::Result<()> {
        self.signals.extend_from_slice(signals);
        self.signals.sort_unstable();
        self.signals.dedup();
        if self.process != process::id() {
            start()?;
            self.process = process::id();
        } else if let Some(thread) = &self.thread {
            thread.unpark();
        }
        Ok(())
    }
}

fn start() -> io::Result<()> {
    let body = || {
        TAKER.lock().thread = Some(thread::current());
        loop {
            unblock(&TAKER.lock().signals);
            thread::park();
        }
    };
    let started = Builder::new().name("volt-signals".to_owned()).spawn(body);
    started.map(drop).map_err(|error| {
        let message = format!("thread volt-signals: {error}; see the limit on threads (ulimit -u)");
        io::Error::new(error.kind(), message)
    })
}

/// On the calling thread.
fn is_any_blocked(signals: &[c_int]) -> bool {
    // SAFETY: a local set, filled before it is read; only asks for the mask.
    unsafe {
        let mut mask = mem::zeroed::<libc::sigset_t>();
        libc::pthread_sigmask(libc::SIG_BLOCK, ptr::null(), &raw mut mask);
        signals.iter().any(|&signal| libc::sigismember(&raw const mask, signal) == 1)
    }
}

/// On the calling thread.
fn unblock(signals: &[c_int]) {
    // SAFETY: a local set, filled before use; the call changes this thread's mask only.
    unsafe {
        let mut set = mem::zeroed::<libc::sigset_t>();
        libc::sigemptyset(&raw mut set);
        for &signal in signals {
            libc::sigaddset(&raw mut set, signal);
        }
        libc::pthread_sigmask(libc::SIG_UNBLOCK, &raw const set, ptr::null_mut());
    }
}
