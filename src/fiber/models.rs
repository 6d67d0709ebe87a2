//! Under loom: a fiber's end, its join handle and its counted references, in any order: the result is
//! dropped once, the block freed once and not touched afterwards, and a joiner wakes.

use super::end::{
    Joiner, Left, Unseen, complete, drop_handle, has_ended, link_joiner, unlink_joiner,
};
use super::reference::FiberRef;
use super::*;
use crate::primitives::models::check;
use crate::primitives::sync::{Arc, Mutex};
use loom::thread::{JoinHandle, spawn};

const PREEMPTIONS: usize = 3;
const PREEMPTIONS_OF_THREE: usize = 2;

/// A fiber that runs.
fn running() -> FiberPtr {
    let fiber = FiberPtr::fresh();
    assert!(fiber.state().start());
    fiber
}

fn run(wake: Option<Wake>) {
    match wake {
        Some(Wake::Thread(thread)) => thread.wake(),
        Some(Wake::Fiber(fiber)) => panic!("{fiber:?} does not wait here"),
        None => {}
    }
}

/// A fiber's last acts.
fn end(fiber: FiberPtr) {
    // SAFETY: called once, by the thread that stands for the fiber.
    let woken = unsafe {
        fiber.put_result();
        complete::<Unseen>(fiber, Left::Result)
    };
    woken.each(|wake| run(Some(wake)));
}

fn ends(fiber: FiberPtr) -> JoinHandle<()> {
    spawn(move || end(fiber))
}

/// `JoinHandle::join`, by a plain thread.
fn join(fiber: FiberPtr) {
    if !has_ended(fiber) {
        let thread = ThreadBlock::new();
        thread.state().begin_wait();
        let joiner = Joiner::new(WaiterPtr::of_thread(&thread), 0);
        // SAFETY: woken by the end alone.
        if unsafe { link_joiner(fiber, &joiner) } {
            assert_eq!(thread.wait(thread.state(), Ends::BY_SOURCES, None), Outcome::Woken(0));
            assert!(has_ended(fiber), "woken before the end");
        }
    }
    // SAFETY: the fiber is done, and this stands for its handle.
    unsafe {
        fiber.drop_result();
        release_block(fiber);
    }
}

/// `JoinHandle::cancel`.
fn cancel(fiber: FiberPtr) {
    let settle = fiber.state().cancel();
    // SAFETY: from this state just now, and the handle keeps the block.
    run(unsafe { fiber.as_waiter().wake(settle) });
}

fn drop_elsewhere(reference: FiberRef) -> JoinHandle<()> {
    spawn(move || drop(reference))
}

/// Every thread is done.
fn finish(fiber: FiberPtr) {
    // SAFETY: every thread has ended.
    let (freed, dropped) = unsafe { fiber.destroy() };
    assert!(freed, "the block was not freed");
    assert!(dropped, "the result was not dropped");
}

#[test]
fn an_end_meets_a_join() {
    check(PREEMPTIONS, || {
        let fiber = running();
        let ending = ends(fiber);
        join(fiber);
        ending.join().unwrap();
        finish(fiber);
    });
}

/// A select with the handle for a case: waits for the end, unless it is cancelled; returns which.
fn watch(fiber: FiberPtr, thread: &Arc<ThreadBlock>) -> Outcome {
    thread.state().begin_wait();
    let joiner = Joiner::new(WaiterPtr::of_thread(thread), 7);
    // SAFETY: unlinked below.
    if !unsafe { link_joiner(fiber, &joiner) } {
        return Outcome::Woken(7);
    }
    let ends = Ends::CANCEL;
    let outcome = thread.wait(thread.state(), ends, None);
    unlink_joiner(fiber, &joiner);
    outcome
}

#[test]
fn an_end_meets_two_selects_of_which_one_is_cancelled() {
    check(PREEMPTIONS_OF_THREE, || {
        let fiber = running();
        let given_up = ThreadBlock::new();
        let ending = ends(fiber);
        let selecting = {
            let thread = Arc::clone(&given_up);
            spawn(move || _ = watch(fiber, &thread))
        };
        let settle = given_up.state().cancel();
        // SAFETY: from this state just now; this thread holds the block.
        run(unsafe { WaiterPtr::of_thread(&given_up).wake(settle) });
        assert_eq!(watch(fiber, &ThreadBlock::new()), Outcome::Woken(7));
        selecting.join().unwrap();
        ending.join().unwrap();
        join(fiber);
        finish(fiber);
    });
}

/// Nobody's news depends on another's getting to run: the first does nothing before the second has
/// gone on.
#[test]
fn an_end_tells_all() {
    check(PREEMPTIONS, || {
        let fiber = running();
        let threads = [ThreadBlock::new(), ThreadBlock::new()];
        let joiners = threads.each_ref().map(|thread| {
            thread.state().begin_wait();
            Joiner::new(WaiterPtr::of_thread(thread), 7)
        });
        for joiner in &joiners {
            // SAFETY: unlinked below.
            assert!(unsafe { link_joiner(fiber, joiner) });
        }
        let ending = ends(fiber);
        for (thread, joiner) in threads.iter().zip(&joiners) {
            let outcome = thread.wait(thread.state(), Ends::BY_SOURCES, None);
            assert_eq!(outcome, Outcome::Woken(7));
            unlink_joiner(fiber, joiner);
        }
        ending.join().unwrap();
        join(fiber);
        finish(fiber);
    });
}

#[test]
fn an_end_meets_a_detach() {
    check(PREEMPTIONS, || {
        let fiber = running();
        let ending = ends(fiber);
        // SAFETY: this thread stands for the handle.
        unsafe { drop_handle(fiber) };
        ending.join().unwrap();
        finish(fiber);
    });
}

#[test]
fn a_start_meets_a_cancel_and_a_detach() {
    check(PREEMPTIONS, || {
        let fiber = FiberPtr::fresh();
        let worker = spawn(move || {
            assert!(fiber.state().start(), "only one runs it");
            end(fiber);
        });
        cancel(fiber);
        // SAFETY: this thread stands for the handle.
        unsafe { drop_handle(fiber) };
        worker.join().unwrap();
        finish(fiber);
    });
}

#[test]
fn an_end_meets_a_join_and_a_reference() {
    check(PREEMPTIONS_OF_THREE, || {
        let fiber = running();
        let reference = fiber.reference();
        let ending = ends(fiber);
        let other = spawn(move || run(reference.clone().unpark()));
        join(fiber);
        ending.join().unwrap();
        other.join().unwrap();
        finish(fiber);
    });
}

#[test]
fn an_end_meets_a_detach_and_a_reference() {
    check(PREEMPTIONS_OF_THREE, || {
        let fiber = running();
        let other = drop_elsewhere(fiber.reference());
        let ending = ends(fiber);
        // SAFETY: this thread stands for the handle.
        unsafe { drop_handle(fiber) };
        ending.join().unwrap();
        other.join().unwrap();
        finish(fiber);
    });
}

/// The first references are made by the fiber and through its handle at once.
#[test]
fn two_first_references() {
    check(PREEMPTIONS, || {
        let fiber = running();
        let ending = spawn(move || {
            let own = fiber.reference();
            end(fiber);
            drop(own);
        });
        let through_handle = fiber.reference();
        // SAFETY: this thread stands for the handle.
        unsafe { drop_handle(fiber) };
        drop(through_handle);
        ending.join().unwrap();
        finish(fiber);
    });
}

/// A fiber makes its first reference while its handle goes away, and it ends before the reference.
#[test]
fn a_first_reference_meets_a_detach() {
    check(PREEMPTIONS_OF_THREE, || {
        let fiber = running();
        let ending = spawn(move || {
            let other = drop_elsewhere(fiber.reference());
            end(fiber);
            other.join().unwrap();
        });
        // SAFETY: this thread stands for the handle.
        unsafe { drop_handle(fiber) };
        ending.join().unwrap();
        finish(fiber);
    });
}

/// A fiber that blocks its thread in a wait: the thread is what a source wakes.
#[test]
fn a_wait_that_blocks_its_thread() {
    check(PREEMPTIONS, || {
        let fiber = running();
        fiber.state().begin_wait();
        let source = Arc::new(Mutex::new(Some(fiber.as_waiter())));
        let theirs = Arc::clone(&source);
        let waker = spawn(move || {
            let source = theirs.lock();
            // SAFETY: linked, and the lock is held.
            let wake = source.and_then(|waiter| unsafe { waiter.settle(Outcome::Woken(3)) });
            drop(source);
            run(wake);
        });
        let thread = ThreadBlock::new();
        fiber.block_thread(&thread);
        let blocks = Ends::BLOCKS;
        assert_eq!(thread.wait(fiber.state(), blocks, None), Outcome::Woken(3));
        *source.lock() = None;
        waker.join().unwrap();
        // SAFETY: this thread stands for the handle too.
        unsafe { drop_handle(fiber) };
        end(fiber);
        finish(fiber);
    });
}

/// A plain thread waits for its permit while two bring it; a second wait takes the second.
#[test]
fn unparks_of_a_plain_thread() {
    check(PREEMPTIONS_OF_THREE, || {
        let thread = ThreadBlock::new();
        let waits = |thread: &ThreadBlock| {
            thread.state().begin_wait();
            let ends = Ends::PERMIT;
            thread.wait(thread.state(), ends, None)
        };
        let (first, second) = (Arc::clone(&thread), Arc::clone(&thread));
        let first = spawn(move || first.unpark());
        assert_eq!(waits(&thread), Outcome::Woken(0));
        let second = spawn(move || second.unpark());
        assert_eq!(waits(&thread), Outcome::Woken(0));
        first.join().unwrap();
        second.join().unwrap();
        assert!(!thread.state().take_permit(), "a permit out of nothing");
    });
}

/// Who ends a wait that counts as asleep takes that wait out of the count, however late: the thread may
/// be in its next one, which does not count.
#[test]
fn a_late_unpark_takes_out_what_it_has_ended() {
    check(PREEMPTIONS_OF_THREE, || {
        let thread = ThreadBlock::new();
        let waits = |outside| {
            thread.state().begin_wait();
            let ends = Ends::PERMIT.or(Ends::OUTSIDE.only_if(outside));
            assert_eq!(thread.wait(thread.state(), ends, None), Outcome::Woken(0));
        };
        let others = [false, true].map(|outside| {
            let theirs = Arc::clone(&thread);
            let other = spawn(move || theirs.unpark());
            waits(outside);
            other
        });
        others.into_iter().for_each(|other| other.join().unwrap());
        assert_eq!(asleep::asleep(), 0);
    });
}
