//! How a thread waits for the end of a runtime.

use super::Builder;
use super::runtime::wait_drained;
use crate::primitives::clock::Moment;
use crate::{fiber, thread};
use std::time::Duration;

/// It looks again every 5 ms, for as long as the runtime lives; each time in vain.
#[test]
fn a_thread_does_not_spin_for_the_end_of_a_runtime() {
    let runtime = Builder::new().workers(1).build().unwrap();
    let fiber = runtime.go(thread::park);
    let spins = &fiber::thread_block().spins;
    *spins.lock() = Default::default();
    wait_drained(&runtime.handle().0, Moment::now().saturating_add(Duration::from_millis(50)));
    assert!(!spins.lock().leaves_out(), "it has spun, and in vain");
    fiber.thread().unpark();
    fiber.join().unwrap();
}
