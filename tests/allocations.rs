//! One allocation makes a fiber: control block, closure and result together.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use volt::cancel::Token;
use volt::runtime::{Builder, Handle, JoinHandle};
use volt::sync::{Arc, Event};

struct Counting;

thread_local! {
    /// Allocations of this thread.
    static MADE_HERE: Cell<usize> = const { Cell::new(0) };
}

static MADE: AtomicUsize = AtomicUsize::new(0);
static GIVEN_BACK: AtomicUsize = AtomicUsize::new(0);
/// Bytes that are in use.
static IN_USE: AtomicUsize = AtomicUsize::new(0);

// SAFETY: as the system's, which does the work.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        MADE_HERE.set(MADE_HERE.get() + 1);
        MADE.fetch_add(1, Ordering::Relaxed);
        IN_USE.fetch_add(layout.size(), Ordering::Relaxed);
        // SAFETY: passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        GIVEN_BACK.fetch_add(1, Ordering::Relaxed);
        IN_USE.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: passed on.
        unsafe { System.dealloc(block, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Allocations while `f` runs, on a runtime whose only thread is the caller's. The harness has another, which
/// prepares itself to wait for this one, sooner or later.
fn made(f: impl FnOnce()) -> usize {
    let before = MADE_HERE.get();
    f();
    MADE_HERE.get() - before
}

/// In one test: the count is the whole process's.
#[test]
fn what_fibers_allocate() {
    a_fiber_is_one_allocation_and_its_end_none();
    a_small_fiber_after_another_is_no_allocation_at_all();
    what_a_burst_has_used_goes_back_to_the_allocator();
    so_does_what_is_put_away_when_all_stacks_are_at_rest();
    so_does_what_is_put_away_in_blocking_mode();
    so_does_what_one_puts_away_that_blocks_its_thread();
    so_does_what_a_run_of_a_current_thread_runtime_leaves();
    a_channel_gives_back_what_a_backlog_needed();
    a_token_forgets_a_child_when_it_goes();
    channels_that_were_behind_once_keep_nothing();
}

fn a_fiber_is_one_allocation_and_its_end_none() {
    const FIBERS: usize = 600;
    let runtime = Builder::new_current_thread().build().unwrap();
    let run = || {
        let mut handles = Vec::with_capacity(FIBERS);
        let spawned = made(|| {
            for n in 0..FIBERS {
                // A closure and a result of some size, beyond what a worker keeps blocks for.
                let room = [n; 100];
                handles.push(volt::go(move || room.map(|n| n + 1)));
            }
        });
        let joined = made(|| {
            for (n, handle) in handles.into_iter().enumerate() {
                assert_eq!(handle.join().unwrap(), [n + 1; 100]);
            }
        });
        (spawned, joined)
    };
    // The first time stacks and the like are made.
    runtime.run(run);
    assert_eq!(runtime.run(run), (FIBERS, 0));
}

/// Small blocks are kept by the worker for the next fiber.
fn a_small_fiber_after_another_is_no_allocation_at_all() {
    let many = || (0..100).for_each(|n| assert_eq!(volt::go(move || n).join().unwrap(), n));
    let again = Builder::new_current_thread().build().unwrap().run(|| {
        many();
        made(many)
    });
    assert_eq!(again, 0);
}

/// All blocks of a burst end on a shelf that the threads share, but for some hundred, and leave that as idle
/// stacks do: by age, from workers that go to sleep.
fn what_a_burst_has_used_goes_back_to_the_allocator() {
    let runtime = Builder::new().workers(2).stack_age(Duration::from_millis(1)).build().unwrap();
    let before = in_use();
    // Once joined by a fiber, whose worker then has all the blocks; once by a thread, which has no worker's
    // duties, and may put away some.
    let burst = || {
        let fibers = burst();
        assert!(in_use() > before + BURST);
        fibers
    };
    runtime.run(|| burst().into_iter().for_each(|fiber| fiber.join().unwrap()));
    until_few_are_left(KEPT, before);
    runtime.run(burst).into_iter().for_each(|fiber| fiber.join().unwrap());
    until_few_are_left(KEPT + OF_PLAIN_THREADS, before);
}

/// A fiber that joins others long after they ended has no stack to give back, but their blocks.
fn so_does_what_is_put_away_when_all_stacks_are_at_rest() {
    const AGE: Duration = Duration::from_millis(1);
    let runtime = Builder::new().workers(2).stack_age(AGE).build().unwrap();
    let before = in_use();
    let (joined, go_on) = (Arc::new(Event::new()), Arc::new(Event::new()));
    let last = runtime.run(|| {
        let fibers = burst();
        while !fibers.iter().all(|fiber| fiber.is_finished()) {
            volt::yield_now();
        }
        let (joined, go_on) = (Arc::clone(&joined), Arc::clone(&go_on));
        volt::go(move || {
            until("stacks are still ready", || {
                volt::time::sleep(AGE);
                volt::metrics::stacks().pooled == 0
            });
            fibers.into_iter().for_each(|fiber| fiber.join().unwrap());
            joined.set();
            go_on.wait();
        })
    });
    joined.wait();
    until_few_are_left(KEPT, before);
    go_on.set();
    last.join().unwrap();
}

/// How often workers have gone to sleep.
fn sleeps(handle: &Handle) -> u64 {
    handle.stats().total.parked
}

/// Whoever has got the caller's core has gone to sleep, as workers had `before`, and has nothing to come back for.
fn until_it_sleeps(handle: &Handle, before: u64) {
    until("no rest", || {
        let now = sleeps(handle);
        std::thread::sleep(Duration::from_millis(20));
        now > before && sleeps(handle) == now
    });
}

/// Such a fiber's thread has no worker's duties, and waits for a core after it.
fn so_does_what_is_put_away_in_blocking_mode() {
    const PERIOD: Duration = Duration::from_millis(20);
    let runtime = Builder::new().workers(1).stack_age(Duration::from_millis(1));
    let runtime = runtime.stall_period(Some(PERIOD)).build().unwrap();
    let before = in_use();
    let fibers = runtime.run(ended_burst);
    // Of one site: one that blocks its thread, and for whose sake the other begins in blocking mode.
    let (release, released) = std::sync::mpsc::channel();
    let site = |joins: Vec<JoinHandle<()>>, released: Option<std::sync::mpsc::Receiver<()>>| {
        let handle = runtime.handle().clone();
        let before = sleeps(&handle);
        runtime.go(move || {
            if let Some(released) = released {
                return released.recv().unwrap();
            }
            until_it_sleeps(&handle, before);
            joins.into_iter().for_each(|fiber| fiber.join().unwrap());
        })
    };
    let stuck = site(Vec::new(), Some(released));
    let is_suspect = || runtime.handle().blocking_sites().iter().any(|site| site.suspect);
    until("not found asleep", is_suspect);
    site(fibers, None).join().unwrap();
    assert!(runtime.handle().stats().total.hand_offs > 0, "not in blocking mode");
    until_few_are_left(KEPT, before);
    release.send(()).unwrap();
    stuck.join().unwrap();
}

/// It has handed its core on before, and waits on its thread.
fn so_does_what_one_puts_away_that_blocks_its_thread() {
    let runtime = Builder::new().workers(1).stack_age(Duration::from_millis(1)).build().unwrap();
    let before = in_use();
    let fibers = runtime.run(ended_burst);
    let go_on = Arc::new(Event::new());
    let theirs = Arc::clone(&go_on);
    let handle = runtime.handle().clone();
    let slept = sleeps(&handle);
    let blocks = runtime.go(move || {
        volt::blocking(|| {
            until_it_sleeps(&handle, slept);
            fibers.into_iter().for_each(|fiber| fiber.join().unwrap());
            theirs.wait();
        });
    });
    until_few_are_left(KEPT, before);
    go_on.set();
    blocks.join().unwrap();
}

/// Its thread has better to do than to sleep over it: the workers of another runtime look after it.
fn so_does_what_a_run_of_a_current_thread_runtime_leaves() {
    let other = Builder::new().workers(1).stack_age(Duration::from_millis(1)).build().unwrap();
    let runtime = Builder::new_current_thread().build().unwrap();
    let before = in_use();
    let handle = runtime.handle().clone();
    runtime.run(|| {
        burst().into_iter().for_each(|fiber| fiber.join().unwrap());
        // A fiber that was run out of turn for its join has left its place in a queue, and holds its block until
        // that comes by: after the run nobody would.
        while handle.stats().queue.size != 0 {
            volt::yield_now();
        }
    });
    until_few_are_left(KEPT, before);
    drop(other);
}

const BURST: usize = 20_000;
const LONG: Duration = Duration::from_secs(60);
/// Blocks that the threads keep for the next fibers.
const KEPT: usize = 2_000;
/// Blocks on the shelf that plain threads have put there.
const OF_PLAIN_THREADS: usize = 4_000;

fn in_use() -> usize {
    MADE.load(Ordering::SeqCst) - GIVEN_BACK.load(Ordering::SeqCst)
}

/// So many fibers at once, which end together.
fn burst() -> Vec<JoinHandle<()>> {
    let all_are_there = Arc::new(Event::new());
    let fiber = |_| {
        let all_are_there = Arc::clone(&all_are_there);
        volt::go(move || all_are_there.wait())
    };
    let fibers = (0..BURST).map(fiber).collect();
    all_are_there.set();
    fibers
}

/// On a fiber.
fn ended_burst() -> Vec<JoinHandle<()>> {
    let fibers = burst();
    until("a fiber has not ended", || {
        volt::yield_now();
        fibers.iter().all(|fiber| fiber.is_finished())
    });
    fibers
}

fn until_few_are_left(few: usize, before: usize) {
    until("the blocks of a burst are still kept", || in_use().saturating_sub(before) <= few);
}

fn until(otherwise: &str, is_so: impl Fn() -> bool) {
    let start = Instant::now();
    while !is_so() {
        assert!(start.elapsed() < LONG, "{otherwise}");
        std::thread::yield_now();
    }
}

/// What it keeps is enough for small ones.
fn a_channel_gives_back_what_a_backlog_needed() {
    let (s, r) = volt::channel::unbounded::<u64>();
    let passes = |n| {
        (0..n).for_each(|i| s.send(i).unwrap());
        (0..n).for_each(|i| assert_eq!(r.recv(), Ok(i)));
    };
    let before = IN_USE.load(Ordering::SeqCst);
    passes(1_000_000);
    let kept = IN_USE.load(Ordering::SeqCst) - before;
    assert!(kept <= 64 << 10, "{kept} bytes are kept");
    assert_eq!(made(|| (0..10).for_each(|_| passes(4_000))), 0);
}

/// However many there were, and in whatever order they go: no later child clears up after many.
fn a_token_forgets_a_child_when_it_goes() {
    const CHILDREN: usize = 100_000;
    const LEFT: usize = 1_000;
    let token = Token::new();
    let before = IN_USE.load(Ordering::SeqCst);
    let kept = || IN_USE.load(Ordering::SeqCst).saturating_sub(before);
    let mut left: Vec<_> = (0..CHILDREN).map(|_| token.child()).collect();
    let mut number = 0..CHILDREN;
    left.retain(|_| number.next().unwrap() % (CHILDREN / LEFT) == 0);
    left.shrink_to_fit();
    assert_eq!(left.len(), LEFT);
    assert!(kept() <= LEFT * 512, "{} bytes are kept for {LEFT} children", kept());
    for _ in 0..CHILDREN {
        let before = GIVEN_BACK.load(Ordering::SeqCst);
        let child = token.child();
        let given_back = GIVEN_BACK.load(Ordering::SeqCst) - before;
        assert!(given_back <= 16, "a child gave back {given_back} blocks of others");
        drop(child);
    }
    drop(left);
    assert!(kept() <= 4 << 10, "{} bytes are kept for nobody", kept());
}

fn channels_that_were_behind_once_keep_nothing() {
    const CHANNELS: usize = 100;
    let before = IN_USE.load(Ordering::SeqCst);
    let channels: Vec<_> = (0..CHANNELS)
        .map(|n| {
            let (s, r) = volt::channel::unbounded::<[u64; 4]>();
            (0..1000).for_each(|i| s.send([i; 4]).unwrap());
            // By one that waits no time, and by one that does not wait.
            if n % 2 == 0 {
                while r.recv_timeout(Duration::ZERO).is_ok() {}
            } else {
                while r.try_recv().is_ok() {}
            }
            (s, r)
        })
        .collect();
    let kept = (IN_USE.load(Ordering::SeqCst) - before) / CHANNELS;
    assert!(kept <= 2 << 10, "{kept} bytes are kept by each");
    drop(channels);
}
