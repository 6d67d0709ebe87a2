//! What a worker does with fibers that nobody will run any more.

use super::super::LIFO_RUNS;
use super::super::ring::CAPACITY;
use super::{Bench, bench, config};
use crate::fiber::{self, FiberPtr, Spec};
use crate::primitives::sync::{Arc, Mutex};
use crate::stack::StackSize;
use std::panic::Location;

/// Was the gate free, for each closure that was dropped?
type Dropped = Arc<Mutex<Vec<bool>>>;

/// Part of a closure; as it is dropped it tries the gate of core 0.
struct Part(*const super::Shared, Dropped);

// SAFETY: the test has one thread.
unsafe impl Send for Part {}

impl Drop for Part {
    fn drop(&mut self) {
        // SAFETY: the scheduler outlives the bench's fibers.
        let gate = unsafe { &(*self.0).cores.get(0).gate };
        self.1.lock().push(gate.visit(|| ()).is_some());
    }
}

fn fiber(bench: &Bench<'_>, dropped: &Dropped) -> FiberPtr {
    let spec = Spec {
        scheduler: std::ptr::from_ref(bench.shared).cast(),
        site: Location::caller(),
        name: None,
        size: StackSize::DEFAULT,
        sampled: false,
    };
    let part = Part(bench.shared, Arc::clone(dropped));
    // SAFETY: it borrows nothing that does not outlive it.
    let fiber = unsafe { fiber::allocate(spec, move || drop(part)) };
    fiber.state().detach().expect("a fresh fiber is not done");
    fiber
}

/// The scheduler stops while the worker is stuck; back again, it comes upon a fiber in its slot, and
/// finds no room for it.
#[test]
fn what_the_closed_injector_refuses_is_not_dropped_inside_the_gate() {
    bench(config(1), 0, |bench| {
        let (worker, core, dropped) = (&bench.workers[0], bench.core(0), Dropped::default());
        for _ in 0..CAPACITY {
            assert!(core.ring.push(fiber(bench, &dropped)).is_ok());
        }
        assert!(core.slot.put(fiber(bench, &dropped)).is_none());
        worker.own().lifo_run = LIFO_RUNS;
        assert!(bench.shared.injector.close().is_empty());
        let found = worker.find().expect("the ring is full");
        assert_eq!(*dropped.lock(), [], "in the midst of the search");
        assert!(!worker.may_dispatch(), "it leaves as soon as it can");
        worker.abandon_left();
        assert_eq!(*dropped.lock(), [true; CAPACITY / 2 + 1]);
        for fiber in std::iter::once(found).chain(std::iter::from_fn(|| core.ring.pop())) {
            bench.shared.abandon(fiber);
        }
        assert_eq!(dropped.lock().len(), CAPACITY + 1);
    });
}
