//! Where things run, and cases of our own.

use crate::common::{LONG, until, within};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use volt::channel::{Case, Waiter};

/// Where somebody runs.
#[derive(Clone, Copy, Debug)]
pub enum Place {
    Fiber,
    Thread,
}

impl Place {
    pub fn go(self, f: impl FnOnce() + Send + 'static) {
        match self {
            Place::Fiber => drop(volt::go(f)),
            Place::Thread => drop(std::thread::spawn(f)),
        }
    }
}

/// Runs `f` on a fiber of one worker, of two, and on a plain thread; it is told where somebody else is to
/// be, who is in both places in turn.
#[track_caller]
pub fn everywhere(f: impl Fn(Place) + Send + Sync + Clone + 'static) {
    for other in [Place::Fiber, Place::Thread] {
        let here = f.clone();
        within(LONG, move || here(other));
        for workers in [1, 2] {
            let f = f.clone();
            within(LONG, move || {
                volt::runtime::Builder::new().workers(workers).build().unwrap().run(|| f(other));
            });
        }
    }
}

/// A case that is never ready, and tells how often it was asked to wait.
#[derive(Default)]
pub struct Probe {
    registered: AtomicUsize,
    unregistered: AtomicUsize,
    pub attempts: AtomicUsize,
}

impl Probe {
    pub fn new() -> Arc<Probe> {
        Arc::default()
    }

    /// Waits, without volt, until a select has looked at all its cases and is about to wait for them.
    #[track_caller]
    pub fn await_wait(&self) {
        until("a select that waits", || self.registered.load(Ordering::SeqCst) > 0);
    }

    /// Is every waiter given back?
    pub fn is_idle(&self) -> bool {
        self.registered.load(Ordering::SeqCst) == self.unregistered.load(Ordering::SeqCst)
    }
}

impl Case for Probe {
    type Output<'a> = ();

    fn attempt(&self) -> bool {
        self.attempts.fetch_add(1, Ordering::SeqCst);
        false
    }

    fn is_ready(&self) -> bool {
        false
    }

    fn register(&self, _: &Waiter) -> bool {
        self.registered.fetch_add(1, Ordering::SeqCst);
        true
    }

    fn unregister(&self, _: &Waiter) {
        self.unregistered.fetch_add(1, Ordering::SeqCst);
    }

    fn complete(&self) {
        panic!("never chosen");
    }
}

/// Numbers, each of which goes to one select; and all the waiters that it was ever given.
#[derive(Default)]
pub struct Numbers(Mutex<Inner>);

#[derive(Default)]
struct Inner {
    free: Vec<u64>,
    given: Vec<u64>,
    waiters: Vec<Waiter>,
    kept: Vec<Waiter>,
    withdrawn: usize,
    keeps: bool,
}

impl Inner {
    fn put(&mut self, number: u64) {
        while let Some(waiter) = self.waiters.pop() {
            if waiter.choose() {
                assert!(!waiter.choose(), "chosen twice");
                return self.given.push(number);
            }
        }
        self.free.push(number);
    }
}

impl Numbers {
    pub fn new() -> Arc<Numbers> {
        Arc::default()
    }

    /// Keeps every waiter for good.
    pub fn that_keep() -> Arc<Numbers> {
        let numbers = Numbers::default();
        numbers.0.lock().unwrap().keeps = true;
        Arc::new(numbers)
    }

    pub fn put(&self, number: u64) {
        self.0.lock().unwrap().put(number);
    }

    /// Wakes all who wait, for nothing.
    pub fn disturb(&self) {
        self.0.lock().unwrap().waiters.iter().for_each(Waiter::wake);
    }

    pub fn left(&self) -> Vec<u64> {
        let inner = self.0.lock().unwrap();
        assert!(inner.given.is_empty(), "given and not taken");
        inner.free.clone()
    }

    pub fn withdrawn(&self) -> usize {
        self.0.lock().unwrap().withdrawn
    }

    pub fn waiting(&self) -> usize {
        self.0.lock().unwrap().waiters.len()
    }

    pub fn kept(&self) -> Vec<Waiter> {
        self.0.lock().unwrap().kept.clone()
    }
}

impl Case for Numbers {
    type Output<'a> = u64;

    fn attempt(&self) -> bool {
        let mut inner = self.0.lock().unwrap();
        let number = inner.free.pop();
        inner.given.extend(number);
        number.is_some()
    }

    fn is_ready(&self) -> bool {
        !self.0.lock().unwrap().free.is_empty()
    }

    fn register(&self, waiter: &Waiter) -> bool {
        let mut inner = self.0.lock().unwrap();
        if inner.keeps {
            inner.kept.push(waiter.clone());
        }
        let empty = inner.free.is_empty();
        if empty {
            inner.waiters.push(waiter.clone());
        }
        empty
    }

    fn unregister(&self, waiter: &Waiter) {
        self.0.lock().unwrap().waiters.retain(|other| other != waiter);
    }

    fn complete(&self) -> u64 {
        self.0.lock().unwrap().given.pop().unwrap()
    }

    fn withdraw(&self) {
        let mut inner = self.0.lock().unwrap();
        inner.withdrawn += 1;
        let number = inner.given.pop().unwrap();
        inner.put(number);
    }
}
