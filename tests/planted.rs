//! Bugs planted on purpose, one for each kind of report that `.ci/sanitize` must be able to give. The
//! script runs them one by one and expects the report; nobody else does.

use std::hint::{black_box, spin_loop};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicUsize, Ordering};
use volt::runtime::Builder;
use volt::thread;

/// A pointer that may go anywhere, as the bug that hands it over would do it.
type Loose = Arc<AtomicPtr<u64>>;

fn loose() -> (Loose, Loose) {
    let pointer = Loose::default();
    (Arc::clone(&pointer), pointer)
}

/// Leaves the address of a local of a function that returns. No `black_box` here: where a function has
/// inline assembly, AddressSanitizer leaves its frame on the stack.
#[inline(never)]
fn dangle(pointer: &AtomicPtr<u64>) {
    let mut local = [0; 8];
    pointer.store(local.as_mut_ptr(), Ordering::SeqCst);
}

#[test]
#[ignore = "planted"]
fn heap_use_after_free() {
    volt::run(|| {
        let (mine, theirs) = loose();
        volt::go(move || {
            let boxed = Box::into_raw(Box::new(7));
            mine.store(boxed, Ordering::SeqCst);
            volt::yield_now();
            // SAFETY: ours, and freed once.
            drop(unsafe { Box::from_raw(boxed) });
        })
        .join()
        .unwrap();
        // SAFETY: none, this is the bug.
        volt::go(move || black_box(unsafe { *theirs.load(Ordering::SeqCst) })).join().unwrap();
    });
}

#[test]
#[ignore = "planted"]
fn stack_use_after_return() {
    volt::run(|| {
        let (mine, theirs) = loose();
        let owner = volt::go(move || {
            dangle(&mine);
            thread::park();
        });
        let reader = volt::go(move || {
            while theirs.load(Ordering::SeqCst).is_null() {
                volt::yield_now();
            }
            // SAFETY: none, this is the bug.
            black_box(unsafe { *theirs.load(Ordering::SeqCst) })
        });
        reader.join().unwrap();
        owner.thread().unpark();
        owner.join().unwrap();
    });
}

/// Out of bounds, on a fiber's stack, after the fiber has waited.
#[test]
#[ignore = "planted"]
fn stack_buffer_overflow() {
    volt::run(|| {
        volt::go(|| {
            let mut local = black_box([7_u64; 8]);
            volt::yield_now();
            let start = black_box(local.as_mut_ptr());
            // SAFETY: none, this is the bug.
            black_box(unsafe { *start.add(black_box(8)) })
        })
        .join()
        .unwrap();
    });
}

/// A look at the frame of a fiber that has ended, while its stack is idle.
#[test]
#[ignore = "planted"]
fn use_of_an_ended_fibers_stack() {
    let runtime = Builder::new().workers(1).build().unwrap();
    runtime.run(|| {
        let (mine, theirs) = loose();
        // Has a stack of its own before the other one's is free.
        let reader = volt::go(move || {
            thread::park();
            // SAFETY: none, this is the bug.
            black_box(unsafe { *theirs.load(Ordering::SeqCst) })
        });
        volt::yield_now();
        let ended = volt::go(move || {
            let mut local = black_box([7_u64; 8]);
            mine.store(black_box(local.as_mut_ptr()), Ordering::SeqCst);
            thread::park();
        });
        volt::yield_now();
        ended.thread().unpark();
        ended.join().unwrap();
        reader.thread().unpark();
        reader.join().unwrap();
    });
}

#[test]
#[ignore = "planted"]
fn leak() {
    volt::run(|| {
        volt::go(|| {
            std::mem::forget(black_box(Box::new([7_u64; 32])));
        })
        .join()
        .unwrap();
    });
}

/// Not a bug: what only a parked fiber holds, at the end of the process, is no leak.
#[test]
#[ignore = "for the sanitizers"]
fn no_leak() {
    // The default runtime, and with it the fiber, stays to the end.
    volt::run(|| {
        let begun = Arc::new(AtomicBool::new(false));
        let theirs = Arc::clone(&begun);
        drop(volt::go(move || {
            let held = black_box(Box::new([7_u64; 32]));
            theirs.store(true, Ordering::SeqCst);
            thread::park();
            drop(held);
        }));
        while !begun.load(Ordering::SeqCst) {
            volt::yield_now();
        }
    });
}

/// Without fibers, for Miri.
#[test]
#[ignore = "planted"]
fn undefined_behaviour() {
    let boxed = Box::into_raw(Box::new(7_u64));
    // SAFETY: ours, and freed once.
    drop(unsafe { Box::from_raw(boxed) });
    // SAFETY: none, this is the bug.
    black_box(unsafe { *boxed });
}

struct Racy(std::cell::UnsafeCell<u64>);

// SAFETY: none, this is the bug.
unsafe impl Sync for Racy {}

/// Two fibers on two workers, which have met before without any order between them.
fn on_two_workers(first: impl FnOnce() + Send + 'static, second: impl FnOnce() + Send + 'static) {
    let runtime = Builder::new().workers(2).build().unwrap();
    let met = Arc::new(AtomicUsize::new(0));
    let meet = |met: &AtomicUsize| {
        met.fetch_add(1, Ordering::Relaxed);
        while met.load(Ordering::Relaxed) < 2 {
            spin_loop();
        }
    };
    let theirs = Arc::clone(&met);
    let first = runtime.go(move || (meet(&theirs), first()));
    let second = runtime.go(move || (meet(&met), second()));
    first.join().unwrap();
    second.join().unwrap();
}

#[test]
#[ignore = "planted"]
fn data_race() {
    let racy = Arc::new(Racy(0.into()));
    let theirs = Arc::clone(&racy);
    // SAFETY: none, this is the bug.
    let add = |racy: &Racy| (0..100).for_each(|_| unsafe { *racy.0.get() += 1 });
    on_two_workers(move || add(&racy), move || add(&theirs));
}

/// A flag that is set by `release`, and a reader who waits for it and then looks at what it stands for.
fn publish(release: Ordering) {
    let (racy, set) = (Arc::new(Racy(0.into())), Arc::new(AtomicBool::new(false)));
    let (theirs, seen) = (Arc::clone(&racy), Arc::clone(&set));
    let read = move || {
        while !seen.load(Ordering::Acquire) {
            spin_loop();
        }
        // SAFETY: with a release it was set after the write, once; without, none: this is the bug.
        black_box(unsafe { *theirs.0.get() });
    };
    let write = move || {
        // SAFETY: as above: nobody else looks before the flag is set.
        unsafe { *racy.0.get() = 7 };
        set.store(true, release);
    };
    on_two_workers(read, write);
}

/// The reader sees the flag and not what it stands for.
#[test]
#[ignore = "planted"]
fn publication_without_release() {
    publish(Ordering::Relaxed);
}

/// Not a bug: the same with a release.
#[test]
#[ignore = "for the sanitizers"]
fn publication() {
    publish(Ordering::Release);
}
