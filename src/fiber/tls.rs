//! What belongs to a thread: its seat if it runs fibers, its block if it waits as a plain thread.
//!
//! A fiber may go on upon another thread after any switch, and the compiler may keep the address of a
//! thread-local over the switch, so the seat is read only through [`seat`], which leaves nothing to
//! keep (`seat_word_*.rs`). The other functions here that fibers call are never inlined.

use super::blocks::Blocks;
use super::header::FiberPtr;
use super::locals::Locals;
use super::scopes::Marks;
use super::seat_word;
use super::thread::ThreadBlock;
use crate::primitives::clock::{Moment, in_stamps, stamp};
use crate::primitives::random::seed;
use crate::primitives::sync::atomic::{AtomicPtr, Ordering};
use crate::primitives::sync::{Arc, Caller};
use crate::primitives::tsc::TscClock;
use std::cell::{Cell, RefCell};
use std::ptr;
use std::time::Duration;

/// Operations of one leg. A fiber may do two of them without waiting before it yields (Tokio's cooperative budget
/// of 128), and goes on by one after the other for as long as its turn is young.
const LEG: u32 = 64;
/// How long a turn is young, from the end of its first leg. Where operations are short, 128 of them are less than
/// the switch and the misses that follow it are worth: who sends to a hundred others finds each of them asleep for
/// every message then.
const YOUNG: u32 = in_stamps(Duration::from_micros(10)) as u32;

/// What a thread that runs fibers shows to the rooms below `scheduler`: the head of its worker. It begins a line of the
/// cache, wherever the worker stands on its stack: a switch touches one then, not two.
#[derive(Debug)]
#[repr(C, align(64))]
pub(crate) struct Seat {
    /// The fiber that runs on this thread; null on the worker's own stack. Written by this thread;
    /// read by the supervisor, inside the gate of the worker's core.
    current: AtomicPtr<super::header::Header>,
    /// Operations left of the running fiber's leg.
    operations: Cell<u32>,
    /// When the running fiber's first leg ended; 0 before. Both are set by one store.
    warm: Cell<u32>,
    /// Operations of the running fiber's earlier legs that are not counted yet.
    earlier: Cell<u32>,
    /// Empty control blocks.
    pub(super) blocks: Blocks,
    /// What deadlines are reckoned from.
    clock: TscClock,
    /// The last deadline that was found to be close.
    close: Cell<Moment>,
    /// Bytes that fibers have handed to sockets here, and taken from them, since the seat was made.
    sent: Cell<u64>,
    received: Cell<u64>,
}

impl Seat {
    pub(crate) const fn new() -> Seat {
        Seat {
            current: AtomicPtr::new(ptr::null_mut()),
            operations: Cell::new(LEG),
            warm: Cell::new(0),
            earlier: Cell::new(0),
            blocks: Blocks::new(),
            clock: TscClock::new(),
            close: Cell::new(Moment::PAST),
            sent: Cell::new(0),
            received: Cell::new(0),
        }
    }

    #[inline(always)]
    pub(crate) fn current(&self) -> Option<FiberPtr> {
        ptr::NonNull::new(self.current.load(Ordering::Relaxed)).map(FiberPtr::from_non_null)
    }

    /// Sets the fiber that runs, with a full budget.
    #[inline(always)]
    pub(crate) fn set_current(&self, fiber: Option<FiberPtr>) {
        self.current.store(fiber.map_or(ptr::null_mut(), FiberPtr::as_ptr), Ordering::Relaxed);
        self.operations.set(LEG);
        self.warm.set(0);
        self.earlier.set(0);
    }

    /// Operations left of the leg.
    #[inline(always)]
    pub(crate) fn operations(&self) -> u32 {
        self.operations.get()
    }

    /// One operation, of those that are left.
    #[inline(always)]
    pub(crate) fn charge(&self) {
        self.operations.set(self.operations.get() - 1);
    }

    /// The running fiber's leg is over. True if it has another one; else it must yield.
    #[cold]
    pub(crate) fn goes_on(&self) -> bool {
        let (warm, now) = (self.warm.get(), stamp() as u32 | 1);
        let goes_on = warm == 0 || now.wrapping_sub(warm) < YOUNG;
        if warm == 0 {
            self.warm.set(now);
        }
        if goes_on {
            self.earlier.set(self.charged());
            self.operations.set(LEG);
        }
        goes_on
    }

    /// Bytes that were handed to sockets here so far.
    pub(crate) fn sent(&self) -> u64 {
        self.sent.get()
    }

    /// Bytes that went through sockets here so far.
    pub(crate) fn moved(&self) -> u64 {
        self.sent.get().wrapping_add(self.received.get())
    }

    /// Nobody runs.
    #[inline(always)]
    pub(crate) fn clear_current(&self) {
        self.current.store(ptr::null_mut(), Ordering::Relaxed);
    }

    /// So many operations fewer for the running fiber, which it has not done.
    pub(crate) fn shorten_budget(&self, operations: u32) {
        if operations >= self.operations.get() + LEG {
            self.warm.set((stamp() as u32).wrapping_sub(YOUNG) | 1);
        }
        let operations = operations.min(self.operations.get());
        self.operations.set(self.operations.get() - operations);
        self.earlier.set(self.earlier.get().wrapping_sub(operations));
    }

    /// Operations that the running fiber was charged for since it was dispatched, or they were counted last.
    #[inline(always)]
    pub(crate) fn charged(&self) -> u32 {
        self.earlier.get().wrapping_add(LEG).wrapping_sub(self.operations.get())
    }

    /// One more operation of a fiber that has none left. True once a leg's are not counted yet.
    pub(crate) fn overdraw(&self) -> bool {
        self.earlier.set(self.earlier.get().wrapping_add(1));
        self.charged() >= LEG
    }

    /// The same, which are counted with this.
    pub(crate) fn take_charged(&self) -> u32 {
        let charged = self.charged();
        self.earlier.set(self.earlier.get().wrapping_sub(charged));
        charged
    }
}

thread_local! {
    /// The thread as a waiter; made at its first wait.
    static BLOCK: RefCell<Option<Arc<ThreadBlock>>> = const { RefCell::new(None) };
    /// The same when that is gone, or null. No destructor.
    static LATE_BLOCK: Cell<*const ThreadBlock> = const { Cell::new(std::ptr::null()) };
    /// What [`random`] goes on from; 0 until its first use.
    static RANDOM: Cell<u64> = const { Cell::new(0) };
    /// The empty control blocks of a plain thread.
    static BLOCKS: Blocks = const { Blocks::new() };
    /// What a plain thread reckons deadlines from. No destructor.
    static CLOCK: TscClock = const { TscClock::new() };
    /// `fiber_local!` values of a plain thread.
    static LOCALS: PlainLocals = const { PlainLocals(RefCell::new(Locals::new())) };
}

struct PlainLocals(RefCell<Locals>);

impl Drop for PlainLocals {
    fn drop(&mut self) {
        super::locals::drop_all(|| self.0.borrow_mut().pop());
    }
}

/// The seat of this thread, or null for a plain thread.
///
/// Valid until the calling fiber's next switch (on a worker: until the thread leaves the seat).
#[inline(always)]
pub(crate) fn seat() -> *const Seat {
    seat_word::get()
}

/// The calling thread as biased locks know it: by its seat, so that a plain thread gets no bias.
///
/// Good until the calling fiber's next switch.
#[inline(always)]
pub(crate) fn caller() -> Caller {
    // SAFETY: a seat is one thread's at a time, and goes to another by way of the allocation that it is in.
    unsafe { Caller::of(seat()) }
}

/// Sets this thread's seat and returns the former one. Called on the worker's own stack.
pub(crate) fn set_seat(seat: *const Seat) -> *const Seat {
    let before = seat_word::get();
    seat_word::set(seat);
    before
}

/// The fiber that the caller runs on; `None` on a plain thread and on a worker's own stack.
#[inline]
pub(crate) fn current() -> Option<FiberPtr> {
    let seat = seat();
    // SAFETY: a seat outlives its thread's use of it, and no switch lies between.
    if seat.is_null() { None } else { unsafe { (*seat).current() } }
}

/// The store of empty control blocks of this thread; `None` once its locals are being destroyed.
///
/// The borrow ends before the calling fiber's next switch.
#[inline(always)]
pub(super) fn blocks<'a>() -> Option<&'a Blocks> {
    // SAFETY: a seat outlives its thread's use of it, and so does what the thread owns.
    unsafe {
        match seat().as_ref() {
            Some(seat) => Some(&seat.blocks),
            None => plain_blocks().as_ref(),
        }
    }
}

#[inline(never)]
fn plain_blocks() -> *const Blocks {
    BLOCKS.try_with(ptr::from_ref).unwrap_or(ptr::null())
}

/// Deadlines this near are set by the clock: what has to pass at once does, and a bound is late by 1%
/// at most.
const NEAR: Duration = Duration::from_millis(1);
/// Deadlines this near are close, which is noted: who waits for them will not have others share the wake
/// (`driver/timers.rs`). Far from a millisecond, of which many have their intervals.
const CLOSE: Duration = Duration::from_micros(500);

/// When `duration` will have passed: never early, and late by less than 10 us. [`Moment::NEVER`] past the
/// clock's range, [`Moment::PAST`] if there is nothing to wait for. For deadlines only; see [`TscClock`].
#[inline]
pub(crate) fn deadline_after(duration: Duration) -> Moment {
    if duration.is_zero() {
        return Moment::PAST;
    }
    let now = if duration < NEAR { Moment::now() } else { upper_bound() };
    let deadline = now.saturating_add(duration);
    if duration < CLOSE {
        note_close(deadline);
    }
    deadline
}

/// Notes that so many bytes were handed to a socket, if a fiber calls.
#[inline]
pub(crate) fn note_sent(bytes: usize) {
    note_moved(bytes, |seat| &seat.sent);
}

/// Notes that so many bytes were taken from a socket, if a fiber calls.
#[inline]
pub(crate) fn note_received(bytes: usize) {
    note_moved(bytes, |seat| &seat.received);
}

#[inline(always)]
fn note_moved(bytes: usize, way: impl FnOnce(&Seat) -> &Cell<u64>) {
    // SAFETY: valid until the next switch, and not used after it.
    if let Some(seat) = unsafe { seat().as_ref() } {
        let so_far = way(seat);
        so_far.set(so_far.get().wrapping_add(bytes as u64));
    }
}

/// Notes `deadline` if it is close, however it was reckoned.
pub(crate) fn note_if_close(deadline: Moment) {
    let until_close =
        Moment::from_nanos(deadline.as_nanos().saturating_sub(CLOSE.as_nanos() as u64));
    if !is_surely_before(until_close) && Moment::now() > until_close {
        note_close(deadline);
    }
}

fn note_close(deadline: Moment) {
    // SAFETY: a seat outlives its thread's use of it, and no switch lies between.
    if let Some(seat) = unsafe { seat().as_ref() } {
        seat.close.set(deadline);
    }
}

/// Was `deadline` close when it was reckoned? Only of the last one that was, on this thread, that is known.
#[inline]
pub(crate) fn is_close(deadline: Moment) -> bool {
    // SAFETY: as above.
    unsafe { seat().as_ref() }.is_some_and(|seat| seat.close.get() == deadline)
}

/// Is `deadline` over? A bound of the present that lies before it says that it is not, so that mostly there is no look
/// at the clock where some microseconds and more are left.
#[inline]
pub(crate) fn has_passed(deadline: Moment) -> bool {
    deadline == Moment::PAST || !is_surely_before(deadline) && Moment::now() >= deadline
}

#[inline]
fn is_surely_before(deadline: Moment) -> bool {
    // SAFETY: a seat outlives its thread's use of it, and no switch lies between.
    match unsafe { seat().as_ref() } {
        Some(seat) => seat.clock.is_surely_before(deadline),
        None => plain_is_surely_before(deadline),
    }
}

#[inline(never)]
fn plain_is_surely_before(deadline: Moment) -> bool {
    CLOCK.with(|clock| clock.is_surely_before(deadline))
}

#[inline]
fn upper_bound() -> Moment {
    // SAFETY: a seat outlives its thread's use of it, and no switch lies between.
    match unsafe { seat().as_ref() } {
        Some(seat) => seat.clock.upper_bound(),
        None => plain_upper_bound(),
    }
}

#[inline(never)]
fn plain_upper_bound() -> Moment {
    CLOCK.with(TscClock::upper_bound)
}

/// A number that nobody may rely on, from a generator of this thread's: Marsaglia's xorshift on 64
/// bits, of which the upper half is returned.
#[inline(never)]
pub(crate) fn random() -> u32 {
    let state = RANDOM.with(|random| {
        let mut state = random.get();
        while state == 0 {
            state = seed();
        }
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        random.set(state);
        state
    });
    // SAFETY: empty; it keeps the function from being seen as pure.
    unsafe { std::arch::asm!("", options(nostack, preserves_flags)) };
    (state >> 32) as u32
}

/// This thread as a waiter.
#[inline(never)]
pub(crate) fn thread_block() -> Arc<ThreadBlock> {
    let made =
        BLOCK.try_with(|block| block.borrow_mut().get_or_insert_with(ThreadBlock::new).clone());
    made.unwrap_or_else(|_| late_block())
}

/// The same once the thread's own block is gone, while its other locals are being destroyed. One for all that comes
/// then, which is not freed: what is around a wait, or wakes it, must mean the same waiter.
#[cold]
fn late_block() -> Arc<ThreadBlock> {
    LATE_BLOCK.with(|late| {
        if late.get().is_null() {
            late.set(Arc::into_raw(ThreadBlock::new()));
        }
        // SAFETY: from `into_raw`, with a count that is never given back.
        unsafe {
            Arc::increment_strong_count(late.get());
            Arc::from_raw(late.get())
        }
    })
}

/// Hands `f` what the fiber or thread remembers of its cancels, if that has ever waited.
#[inline(never)]
pub(crate) fn with_marks_if_any(f: impl FnOnce(&Marks)) {
    if let Some(fiber) = current() {
        return f(&fiber.state.marks);
    }
    let mut f = Some(f);
    let asked = BLOCK.try_with(|block| {
        if let (Ok(Some(block)), Some(f)) = (block.try_borrow().as_deref(), f.take()) {
            f(&block.state.marks);
        }
    });
    // SAFETY: never freed.
    let late = || LATE_BLOCK.with(|late| unsafe { late.get().as_ref() });
    if let (Err(_), Some(block), Some(f)) = (asked, late(), f) {
        f(&block.state.marks);
    }
}

/// Hands the plain thread's locals to `f`; `None` once they are being destroyed.
#[inline(never)]
pub(super) fn with_thread_locals<R>(f: impl FnOnce(&mut Locals) -> R) -> Option<R> {
    LOCALS.try_with(|locals| f(&mut locals.0.borrow_mut())).ok()
}

/// Calls `f` with the name and spawn site of the fiber that runs here, if one does.
pub(crate) fn current_name<R>(
    f: impl FnOnce(Option<&str>, &'static std::panic::Location<'static>) -> R,
) -> Option<R> {
    current().map(|fiber| f(fiber.name(), fiber.site))
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    /// Operations of one turn, each of which takes `each`, and how long they took from the end of the first leg.
    fn turn(each: Duration) -> (u32, Duration) {
        let seat = Seat::new();
        seat.set_current(None);
        let (mut operations, mut warm) = (0, Moment::NEVER);
        loop {
            if seat.operations() == 0 {
                warm = warm.min(Moment::now());
                if !seat.goes_on() {
                    assert_eq!(seat.charged(), operations);
                    return (operations, Moment::now().since(warm));
                }
            }
            // To look at the clock takes a tenth of a microsecond where everything is checked.
            let begun = (!each.is_zero()).then(Moment::now);
            seat.charge();
            operations += 1;
            while begun.is_some_and(|begun| Moment::now().since(begun) < each) {}
        }
    }

    #[test]
    fn what_is_paid_for_ends_the_turn_if_it_is_as_long_as_one() {
        let goes_on_after = |operations| {
            let seat = Seat::new();
            seat.set_current(None);
            seat.shorten_budget(operations);
            assert_eq!((seat.operations(), seat.charged()), (0, 0));
            seat.goes_on()
        };
        assert!(goes_on_after(2 * LEG - 1));
        assert!(!goes_on_after(2 * LEG));
    }

    #[test]
    fn long_operations_are_128_in_a_turn() {
        assert_eq!(turn(Duration::from_micros(2)).0, 2 * LEG);
    }

    #[test]
    fn short_operations_go_on_while_the_turn_is_young() {
        let (operations, time) = turn(Duration::ZERO);
        assert!(operations >= 2 * LEG && operations % LEG == 0, "{operations}");
        // A stamp is a third of a nanosecond to one.
        assert!(time >= Duration::from_micros(5), "{operations} in {time:?}");
        let most = (0..20).map(|_| turn(Duration::ZERO).0).max();
        assert!(most > Some(2 * LEG), "a hundred operations took ten microseconds each time");
    }

    #[test]
    fn the_last_deadline_that_is_close_is_known_on_its_thread() {
        let short = CLOSE - Duration::from_nanos(1);
        assert!(!is_close(deadline_after(short)), "there is no seat");
        let seat = Seat::new();
        let before = set_seat(&raw const seat);
        let far = deadline_after(CLOSE);
        let found_far = is_close(far);
        // As an interval of a millisecond has it.
        let next = Moment::now().saturating_add(Duration::from_millis(1));
        note_if_close(next);
        let found_next = is_close(next);
        let reckoned = deadline_after(short);
        let found = [found_far, found_next, is_close(reckoned)];
        let given = Moment::now().saturating_add(CLOSE / 2);
        note_if_close(given);
        let given = [reckoned, given].map(is_close);
        set_seat(before);
        assert_eq!((found, given), ([false, false, true], [false, true]));
    }

    /// By the clock before and after: on a plain thread here, whose bound is a fiber's.
    #[test]
    fn a_deadline_has_passed_when_the_clock_says_so() {
        let (mut early, mut late) = (0, 0);
        for nanos in (0..200_000).map(|i| i * 7 % 30_000) {
            let before = Moment::now();
            let deadline = before.saturating_add(Duration::from_nanos(nanos));
            (0..nanos % 97).for_each(|_| std::hint::spin_loop());
            let (before, passed, after) = (Moment::now(), has_passed(deadline), Moment::now());
            assert!(passed || before < deadline, "it had passed");
            assert!(!passed || after >= deadline, "it had not");
            early += u32::from(!passed);
            late += u32::from(passed);
        }
        assert!(early > 1_000 && late > 1_000, "{early} and {late}");
        assert!(has_passed(Moment::PAST) && !has_passed(Moment::NEVER));
    }
}
