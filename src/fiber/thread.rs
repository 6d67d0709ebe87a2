//! How a plain thread waits: the same state word, and a lock to sleep on.

use super::asleep;
use super::scopes::Scopes;
use super::state::{Ends, State};
use super::word::{Outcome, Settle};
use crate::primitives::clock::Moment;
use crate::primitives::sync::{Arc, Condvar, Mutex};
use crate::util::odds::Odds;
use std::thread::ThreadId;

/// A thread as a waiter; lives in an `Arc`, so that whoever wakes it late wakes something.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct ThreadBlock {
    pub(crate) state: State,
    sleep: Mutex<()>,
    woken: Condvar,
    thread: std::thread::Thread,
    /// Whether it spins for longer before it sleeps; the thread's own.
    pub(crate) spins: Mutex<Odds>,
    /// What limits its waits; the thread's own.
    pub(crate) scopes: Scopes,
}

impl ThreadBlock {
    pub(crate) fn new() -> Arc<ThreadBlock> {
        Arc::new(ThreadBlock {
            state: State::thread(),
            sleep: Mutex::new(()),
            woken: Condvar::new(),
            thread: std::thread::current(),
            spins: Mutex::new(Odds::default()),
            scopes: Scopes::new(),
        })
    }

    pub(crate) fn state(&self) -> &State {
        &self.state
    }

    pub(crate) fn name(&self) -> Option<&str> {
        self.thread.name()
    }

    pub(crate) fn id(&self) -> ThreadId {
        self.thread.id()
    }

    /// Sleeps until the wait of `state` is settled or `deadline` has passed. Called by the thread
    /// itself; the state is its own, or that of the fiber that it runs.
    pub(crate) fn wait(&self, state: &State, ends: Ends, deadline: Option<Moment>) -> Outcome {
        let deadline = deadline.filter(|deadline| *deadline != Moment::NEVER);
        let counts =
            deadline.is_none() && !ends.has(Ends::OUTSIDE) && std::ptr::eq(state, self.state());
        let published = if counts { state.publish_counted(ends) } else { state.publish(ends) };
        if let Err(settled) = published {
            return settled.outcome();
        }
        if counts {
            asleep::one_more();
        }
        let mut sleep = self.sleep.lock();
        loop {
            let now = state.load();
            if !now.is_parked() {
                return now.outcome();
            }
            match deadline {
                None => self.woken.wait(&mut sleep),
                Some(deadline) => {
                    let left = deadline.since(Moment::now());
                    if left.is_zero() {
                        return time_out(state);
                    }
                    self.woken.wait_for(&mut sleep, left);
                }
            }
        }
    }

    /// Ends the sleep of a thread whose wait was settled.
    pub(crate) fn wake(&self) {
        // The lock orders this after the sleeper's check: it either saw the state or is asleep.
        drop(self.sleep.lock());
        self.woken.notify_one();
    }

    /// Makes the permit available, or ends the wait for it.
    pub(crate) fn unpark(&self) {
        match self.state().unpark() {
            Settle::WakeCounted => asleep::one_less(),
            Settle::Wake => {}
            Settle::Unblock | Settle::Noted | Settle::Late => return,
        }
        self.wake();
    }
}

fn time_out(state: &State) -> Outcome {
    match state.settle(Outcome::TimedOut) {
        Settle::Wake | Settle::WakeCounted | Settle::Unblock | Settle::Noted => Outcome::TimedOut,
        Settle::Late => state.load().outcome(),
    }
}
