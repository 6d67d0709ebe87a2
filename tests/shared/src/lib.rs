//! A fiber in a shared library that moves between threads and asks volt who it is. Most of volt
//! stands in one function here, `wander`, which could know the address of volt's thread-local: were
//! that kept over a wait, volt would take the fiber for the one that runs on the thread it has left.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::ThreadId;
use std::time::{Duration, Instant};
use volt::runtime::Builder;
use volt::thread;

const LONG: Duration = Duration::from_secs(20);
const ROUNDS: usize = 50;

/// The thread that runs the caller now; not inlined, so asked anew each time.
#[inline(never)]
fn here() -> ThreadId {
    std::hint::black_box(std::thread::current().id())
}

/// Makes the thread that the calling fiber is about to leave run another one until `over`.
fn keep_thread(kept: &Arc<AtomicBool>, over: &Arc<AtomicBool>) {
    let (kept, over) = (Arc::clone(kept), Arc::clone(over));
    drop(volt::go(move || {
        let start = Instant::now();
        // Once: whoever is woken before it has left goes on right here, behind this fiber.
        kept.store(true, Ordering::Release);
        while !over.load(Ordering::Acquire) {
            assert!(start.elapsed() < LONG, "the fiber did not go on elsewhere");
            std::hint::spin_loop();
        }
    }));
}

/// Waits again and again; returns how often it went on upon another thread, and how often volt took
/// it for another.
#[inline(never)]
fn wander(kept: &Arc<AtomicBool>) -> (usize, usize) {
    let me = thread::current().id();
    let (mut moves, mut mistaken) = (0, 0);
    for _ in 0..ROUNDS {
        let from = here();
        let over = Arc::new(AtomicBool::new(false));
        keep_thread(kept, &over);
        thread::park();
        moves += usize::from(from != here());
        mistaken += usize::from(thread::current().id() != me);
        over.store(true, Ordering::Release);
    }
    (moves, mistaken)
}

/// 0 if all is well. Says on standard error what it saw.
#[unsafe(no_mangle)]
pub extern "C" fn volt_shared_check() -> i32 {
    let runtime = Builder::new().workers(2).build().unwrap();
    let kept = Arc::new(AtomicBool::new(false));
    let theirs = Arc::clone(&kept);
    let fiber = runtime.go(move || wander(&theirs));
    while !fiber.is_finished() {
        if kept.swap(false, Ordering::AcqRel) {
            fiber.thread().unpark();
        }
        std::thread::yield_now();
    }
    let (moves, mistaken) = fiber.join().unwrap();
    eprintln!("{ROUNDS} waits, {moves} moves, taken for another {mistaken} times");
    i32::from(moves == 0 || mistaken > 0)
}
