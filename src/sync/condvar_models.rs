//! Under loom: who notifies after the condition became true wakes whoever had found it false, and no
//! notification is spent on one who gave up.

use super::*;
use crate::park::timed_out;
use crate::primitives::models::check_up_to;
use crate::primitives::sync::Arc;
use crate::sync::{Mutex, cancelled, check};
use loom::thread;

#[derive(Default)]
struct Store {
    items: usize,
    closed: bool,
}

struct Shared {
    store: Mutex<Store>,
    changed: Condvar,
}

type Guard<'a> = MutexGuard<'a, Store>;

impl Shared {
    fn new() -> Arc<Shared> {
        Arc::new(Shared { store: Mutex::new(Store::default()), changed: Condvar::new() })
    }

    fn put(&self) {
        self.store.lock().unwrap().items += 1;
        self.changed.notify_one();
    }

    /// Whether there was an item.
    fn take(&self) -> bool {
        let store = self.store.lock().unwrap();
        let empty = |store: &mut Store| store.items == 0 && !store.closed;
        taken(self.changed.wait_while(store, empty).unwrap())
    }

    fn take_in_time(&self) -> bool {
        let mut store = self.store.lock().unwrap();
        while store.items == 0 {
            let (guard, how) = self.changed.wait_timeout(store, Duration::MAX).unwrap();
            store = guard;
            if how.timed_out() {
                break;
            }
        }
        taken(store)
    }

    fn check_empty(&self) {
        assert_eq!(self.store.lock().unwrap().items, 0);
        assert!(self.changed.queue.lock().is_empty());
        assert_eq!(self.changed.waiting.load(Relaxed), 0);
    }
}

fn taken(mut store: Guard<'_>) -> bool {
    let taken = store.items > 0;
    store.items -= usize::from(taken);
    taken
}

fn beside<R: 'static>(
    shared: &Arc<Shared>,
    f: impl FnOnce(&Shared) -> R + 'static,
) -> thread::JoinHandle<R> {
    let shared = Arc::clone(shared);
    thread::spawn(move || f(&shared))
}

#[test]
fn two_take_what_comes() {
    check(2, || {
        let shared = Shared::new();
        let takers = [(); 2].map(|()| beside(&shared, Shared::take));
        shared.put();
        shared.put();
        assert!(takers.into_iter().all(|taker| taker.join().unwrap()));
        shared.check_empty();
    });
}

#[test]
fn all_are_told() {
    check(2, || {
        let shared = Shared::new();
        let takers = [(); 2].map(|()| beside(&shared, Shared::take));
        shared.store.lock().unwrap().closed = true;
        shared.changed.notify_all();
        assert!(takers.into_iter().all(|taker| !taker.join().unwrap()));
        shared.check_empty();
    });
}

/// If the notification of the one item went to one who takes nothing, the other waits for ever.
fn one_gives_up(gives_up: fn(&Shared) -> bool) -> impl Fn() + Send + Sync {
    move || {
        let shared = Shared::new();
        let gives_up = beside(&shared, gives_up);
        let stays = beside(&shared, Shared::take);
        shared.put();
        if gives_up.join().unwrap() {
            shared.put();
        }
        assert!(stays.join().unwrap());
        shared.check_empty();
    }
}

#[test]
fn one_is_cancelled() {
    check_up_to(2, one_gives_up(|shared| cancelled(|| shared.take()).unwrap_or(false)));
}

#[test]
fn one_is_late() {
    check(2, one_gives_up(|shared| timed_out(|| shared.take_in_time())));
}
