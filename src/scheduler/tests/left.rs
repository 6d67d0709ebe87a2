//! What a worker does with fibers that nobody will run any more.

use super::super::lifo_rest::{LIFO_RUNS, LifoRest};
use super::super::ring::CAPACITY;
use super::super::shared::Shared;
use super::super::worker::{run, run_here};
use super::{bench, config, fresh};
use crate::fiber::FiberPtr;
use crate::primitives::clock::Moment;
use crate::primitives::sync::atomic::Ordering;
use crate::primitives::sync::{Arc, Mutex};

/// Was the gate free, for each closure that was dropped?
type Dropped = Arc<Mutex<Vec<bool>>>;

/// Part of a closure; as it is dropped it tries the gate of core 0.
struct Part(*const Shared, Dropped);

// SAFETY: the test has one thread.
unsafe impl Send for Part {}

impl Drop for Part {
    fn drop(&mut self) {
        // SAFETY: the scheduler outlives its fibers.
        let gate = unsafe { &(*self.0).cores.get(0).gate };
        self.1.lock().push(gate.visit(|| ()).is_some());
    }
}

/// A fiber that stops the scheduler.
fn fiber(shared: &Shared, dropped: &Dropped) -> FiberPtr {
    let part = Part(shared, Arc::clone(dropped));
    let stop = move || {
        let part = part;
        // SAFETY: the scheduler outlives its fibers.
        unsafe { (*part.0).stop() };
    };
    fresh((&raw const *shared).cast(), stop)
}

/// The scheduler stops while the worker of core 0 is stuck: back again, it will come upon a fiber in its
/// slot, and find no room for it.
fn fill_and_close(shared: &Shared, dropped: &Dropped) {
    let core = shared.cores.get(0);
    for _ in 0..CAPACITY {
        assert!(core.ring.push(fiber(shared, dropped)).is_ok());
    }
    assert!(core.slot.put(fiber(shared, dropped)).is_none());
    // SAFETY: the test's one thread owns the core, and nobody has a reference.
    let run = &mut unsafe { core.own() }.lifo_run;
    (run.count, run.rest) = (LIFO_RUNS, LifoRest::of_long_ones());
    assert!(shared.injector.close().is_empty());
}

#[test]
fn what_the_closed_injector_refuses_is_not_dropped_inside_the_gate() {
    bench(config(1), 0, |bench| {
        let (worker, core, dropped) = (&bench.workers[0], bench.core(0), Dropped::default());
        fill_and_close(bench.shared, &dropped);
        let found = worker.find().expect("the ring is full");
        assert_eq!(*dropped.lock(), [], "in the midst of the search");
        assert!(!worker.may_dispatch(worker.held()), "it leaves as soon as it can");
        worker.abandon_left();
        assert_eq!(*dropped.lock(), [true; CAPACITY / 2 + 1]);
        for fiber in std::iter::once(found).chain(std::iter::from_fn(|| core.ring.pop())) {
            bench.shared.abandon(fiber);
        }
        assert_eq!(dropped.lock().len(), CAPACITY + 1);
    });
}

/// On either way out: of a worker's thread, and of a thread that drives the scheduler for a while.
#[test]
fn a_worker_that_leaves_drops_what_was_refused() {
    let thread: fn(&Shared) = |shared| run(shared, 0);
    let caller: fn(&Shared) = |shared| run_here(shared, Moment::NEVER, &|| false);
    for (held, leave) in [(1, thread), (0, caller)] {
        let (shared, dropped) = (Shared::new(config(1), held).unwrap(), Dropped::default());
        fill_and_close(&shared, &dropped);
        // It runs the first that it finds.
        leave(&shared);
        shared.drop_unstarted();
        assert_eq!(*dropped.lock(), [true; CAPACITY + 1], "with {held} core held");
    }
}

/// Whoever lists the fibers keeps everybody from the slots for a moment.
#[test]
fn what_stands_in_a_slot_is_not_left_because_somebody_lists() {
    let shared = Shared::new(config(1), 0).unwrap();
    let (fiber, alive) = never_run(&shared);
    let core = shared.cores.get(0);
    assert!(core.slot.put(fiber).is_none());
    assert!(core.gate.close());
    std::thread::scope(|scope| {
        let ends = scope.spawn(|| shared.drop_unstarted());
        // It waits; if it did not, it would have come to its end by then.
        (0..1_000).take_while(|_| !ends.is_finished()).for_each(|_| std::thread::yield_now());
        core.gate.open();
    });
    assert_eq!(Arc::strong_count(&alive), 1, "the fiber has been forgotten");
}

/// A fiber of `shared`, never to run, and what tells whether its closure is there still.
fn never_run(shared: &Arc<Shared>) -> (FiberPtr, Arc<()>) {
    let alive = Arc::new(());
    let theirs = Arc::clone(&alive);
    (fresh(Arc::as_ptr(shared).cast(), move || drop(theirs)), alive)
}

/// Who forwards mail may be a waker, in the midst of its wait: it must not find the injector closed.
#[test]
fn the_injector_is_not_closed_while_mail_is_forwarded() {
    let shared = Shared::new(config(1), 0).unwrap();
    let (fiber, alive) = never_run(&shared);
    shared.forwarding.store(1, Ordering::SeqCst);
    std::thread::scope(|scope| {
        let ends = scope.spawn(|| shared.drop_unstarted());
        // It waits; if it did not, it would have come to its end by then.
        (0..1_000).take_while(|_| !ends.is_finished()).for_each(|_| std::thread::yield_now());
        assert!(shared.injector.push(fiber).is_ok());
        shared.forwarding.store(0, Ordering::SeqCst);
    });
    assert_eq!(Arc::strong_count(&alive), 1, "the fiber has been forgotten");
}

#[test]
fn who_forwards_mail_says_so_before_it_takes_it() {
    let shared = Shared::new(config(1), 0).unwrap();
    let ((mail, alive), (other, _alive)) = (never_run(&shared), never_run(&shared));
    let core = shared.cores.get(0);
    core.mailbox.push(mail).unwrap();
    std::thread::scope(|scope| {
        // Nobody gets at the injector meanwhile.
        let pushed = shared.injector.push_and(other, || {
            scope.spawn(|| shared.forward_mail(core));
            while !core.mailbox.is_empty() {
                std::thread::yield_now();
            }
            assert_eq!(shared.forwarding.load(Ordering::SeqCst), 1);
        });
        pushed.unwrap();
    });
    assert_eq!((shared.injector.len(), shared.forwarding.load(Ordering::SeqCst)), (2, 0));
    shared.drop_unstarted();
    assert_eq!(Arc::strong_count(&alive), 1);
}
