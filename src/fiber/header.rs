//! The control block's head: what the scheduler and the waits need of a fiber, whatever it runs.
//!
//! One allocation holds the head, the closure and, in the closure's place, the result. The first
//! cache line has what every switch touches; what is read once in a fiber's life comes after it.

use super::blocks::{self, Memory};
use super::end::Join;
use super::locals::Locals;
use super::reference::FiberRef;
use super::scopes::Scopes;
use super::state::{Ends, State};
use super::thread::ThreadBlock;
use super::tls;
use super::waiter::WaiterPtr;
use super::word::Outcome;
use crate::context::Context;
use crate::primitives::clock::Moment;
use crate::primitives::sync::atomic::{AtomicU8, AtomicU32, AtomicUsize, Ordering};
use crate::primitives::sync::{Arc, Mutex, UnsafeCell};
use crate::primitives::{prefetch, prefetch_lines};
use crate::stack::{SlotHeader, StackSize};
use std::panic::Location;
use std::ptr::NonNull;

/// What a fiber waits for. A few stores a wait, so that a debugger and reports can tell.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WaitInfo {
    /// A word for people, such as "accept" or "join".
    pub(crate) reason: &'static str,
    /// The address of what it waits for; 0 for none.
    pub(crate) object: usize,
    /// Since when, to within a tick, or to the last look of its worker at the clock.
    pub(crate) since: Moment,
}

impl WaitInfo {
    const NONE: WaitInfo = WaitInfo { reason: "", object: 0, since: Moment::NEVER };
}

/// What the scheduler asks of a wait: two bits, for which there is place in the first line of a head.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Traits(u8);

impl Traits {
    #[inline(always)]
    pub(crate) fn new(outside: bool, urgent: bool) -> Traits {
        Traits(u8::from(outside) | u8::from(urgent) << 1)
    }

    /// Something else than fibers ends it: a deadline, the kernel.
    pub(crate) fn outside(self) -> bool {
        self.0 & 1 != 0
    }

    /// Others take what the fiber is woken for, or wait behind it, until it comes.
    pub(crate) fn urgent(self) -> bool {
        self.0 & 2 != 0
    }
}

/// What only the typed block knows, reached from the head.
#[derive(Debug)]
pub(super) struct VTable {
    /// Runs the closure, catches its panic, leaves the result in its place. False if nothing happens
    /// where that result is dropped.
    pub(super) run: unsafe fn(NonNull<Header>) -> bool,
    /// Does anything happen where that closure is dropped?
    pub(super) drops: bool,
    /// Drops a closure that will not run and leaves the payload as the result.
    pub(super) fail: unsafe fn(NonNull<Header>, super::block::Payload),
    /// Drops the result in place; panics of its destructor come out.
    pub(super) drop_result: unsafe fn(NonNull<Header>),
    /// The address of the result.
    pub(super) result: unsafe fn(NonNull<Header>) -> *mut (),
    /// What the block takes.
    pub(super) memory: Memory,
}

/// The head of a control block.
#[repr(C)]
pub(crate) struct Header {
    /// State word; written by transitions only.
    pub(crate) state: State,
    /// Home worker plus one, or 0: written when the fiber first runs, read by wakers.
    pub(crate) home: AtomicU32,
    /// With the next three it fills the word.
    pub(crate) size: StackSize,
    /// One of the few whose stack use is measured at the end.
    pub(crate) sampled: bool,
    /// The fiber is in `blocking` or `pinned`; its own. Its waits block its thread meanwhile.
    pub(crate) pinned: UnsafeCell<bool>,
    /// Of its wait; written with `wait`.
    traits: AtomicU8,
    /// The next fiber in the batch or locked queue that holds this one (invariant 2).
    pub(super) next: UnsafeCell<Option<FiberPtr>>,
    /// Where the fiber goes on; owned as invariant 2 says.
    pub(crate) context: UnsafeCell<Context>,
    /// The stack it runs on, from its first run to its end; written by the worker that runs it.
    pub(crate) stack: UnsafeCell<Option<NonNull<SlotHeader>>>,
    pub(super) vtable: &'static VTable,
    /// The scheduler that the fiber belongs to; typed and kept alive by `scheduler`.
    pub(crate) scheduler: *const (),
    // ---- the second line: once per fiber, or once per wait ----
    pub(crate) wait: UnsafeCell<WaitInfo>,
    join: Mutex<Join>,
    /// Counted references (`FiberRef`), plus one base count from the first of them to the end.
    pub(super) references: AtomicUsize,
    pub(super) locals: UnsafeCell<Locals>,
    /// The thread that the fiber blocked in its last wait of that kind.
    blocks: Mutex<Option<Arc<ThreadBlock>>>,
    /// What limits its waits; the fiber's own.
    pub(crate) scopes: Scopes,
    pub(crate) site: &'static Location<'static>,
    /// Boxed twice: one word where there is none.
    pub(crate) name: Option<Box<Box<str>>>,
    /// Unique in the process; 0 until somebody asks. Written once.
    id: AtomicUsize,
}

impl Header {
    /// The name it was given; as long as the block lives, so as long as the borrow of a holder.
    pub(crate) fn name(&self) -> Option<&str> {
        self.name.as_deref().map(|name| &**name)
    }

    /// Unique in the process, never used again.
    pub(crate) fn id(&self) -> usize {
        static NEXT: AtomicUsize = AtomicUsize::new(1);
        let id = self.id.load(Ordering::Relaxed);
        if id != 0 {
            return id;
        }
        let fresh = NEXT.fetch_add(1, Ordering::Relaxed);
        match self.id.compare_exchange(0, fresh, Ordering::Relaxed, Ordering::Relaxed) {
            Ok(_) => fresh,
            Err(earlier) => earlier,
        }
    }

    /// Writes the head of a fresh fiber in its place.
    ///
    /// # Safety
    ///
    /// `place` is memory for a head that holds none.
    #[inline(always)]
    pub(super) unsafe fn write(
        place: *mut Header,
        spec: super::block::Spec,
        vtable: &'static VTable,
    ) {
        let header = Header {
            state: State::fresh(),
            home: AtomicU32::new(0),
            next: UnsafeCell::new(None),
            context: UnsafeCell::new(Context::thread()),
            stack: UnsafeCell::new(None),
            vtable,
            scheduler: spec.scheduler,
            wait: UnsafeCell::new(WaitInfo::NONE),
            join: Mutex::new(Join::default()),
            references: AtomicUsize::new(0),
            locals: UnsafeCell::new(Locals::new()),
            blocks: Mutex::new(None),
            site: spec.site,
            name: spec.name.map(Box::new),
            id: AtomicUsize::new(0),
            size: spec.size,
            sampled: spec.sampled,
            pinned: UnsafeCell::new(false),
            traits: AtomicU8::new(Traits::default().0),
            scopes: Scopes::new(),
        };
        // SAFETY: passed on.
        unsafe { place.write(header) };
    }
}

/// Lines of a block behind its first, with a small closure.
const BLOCK: usize = 3;
/// Lines of the frames of a wait, from the switch up to the fiber's own code.
const FRAMES: usize = 8;

/// A pointer to a live control block.
///
/// Whoever holds one does so by the room's invariant 1 or 2; that is the safety argument of every
/// dereference of it.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(transparent)]
pub(crate) struct FiberPtr(NonNull<Header>);

// SAFETY: control blocks are handed from thread to thread; see invariant 2 for their plain fields.
unsafe impl Send for FiberPtr {}
// SAFETY: as above.
unsafe impl Sync for FiberPtr {}

impl std::fmt::Debug for FiberPtr {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Fiber({:p})", self.0)
    }
}

impl std::ops::Deref for FiberPtr {
    type Target = Header;

    #[inline(always)]
    fn deref(&self) -> &Header {
        // SAFETY: alive, by the type's promise; every field that changes is atomic, locked, or a
        // cell accessed by its owner only.
        unsafe { self.0.as_ref() }
    }
}

impl FiberPtr {
    #[inline(always)]
    pub(crate) fn from_non_null(header: NonNull<Header>) -> FiberPtr {
        FiberPtr(header)
    }

    #[inline(always)]
    pub(crate) fn as_non_null(self) -> NonNull<Header> {
        self.0
    }

    #[inline(always)]
    pub(crate) fn as_ptr(self) -> *mut Header {
        self.0.as_ptr()
    }

    pub(crate) fn as_waiter(self) -> WaiterPtr {
        WaiterPtr::of_fiber(self)
    }

    #[inline(always)]
    pub(crate) fn state(&self) -> &State {
        &self.state
    }

    /// Who waits for the fiber's end.
    #[inline(always)]
    pub(super) fn join(&self) -> &Mutex<Join> {
        &self.join
    }

    /// # Safety
    ///
    /// The caller holds the fiber by invariant 2.
    #[inline(always)]
    pub(crate) unsafe fn next(self) -> Option<FiberPtr> {
        // SAFETY: passed on.
        self.next.with(|next| unsafe { *next })
    }

    /// # Safety
    ///
    /// The caller holds the fiber by invariant 2.
    #[inline(always)]
    pub(crate) unsafe fn set_next(self, to: Option<FiberPtr>) {
        // SAFETY: passed on.
        self.next.with_mut(|next| unsafe { *next = to });
    }

    /// The fiber will run soon: fetches what it touches first, of block and stack.
    ///
    /// # Safety
    ///
    /// The caller holds the fiber by invariant 2.
    #[inline(always)]
    pub(crate) unsafe fn prefetch(self) {
        // The line before these has the context.
        prefetch_lines::<BLOCK>(self.as_ptr().cast::<u8>().wrapping_add(64));
        // SAFETY: passed on.
        let frames = self.context.with(|context| unsafe { (*context).frames() });
        // To look up an address that is not mapped takes as long as any.
        if !frames.is_null() {
            prefetch_lines::<FRAMES>(frames);
        }
    }

    /// As [`prefetch`](Self::prefetch), of the stack's first line alone, and with it the page table
    /// entry of its page.
    ///
    /// # Safety
    ///
    /// The caller holds the fiber by invariant 2.
    #[inline(always)]
    pub(crate) unsafe fn prefetch_frames(self) {
        // SAFETY: passed on.
        let frames = self.context.with(|context| unsafe { (*context).frames() });
        if !frames.is_null() {
            prefetch(frames);
        }
    }

    /// The fiber's stack, if it has started.
    ///
    /// # Safety
    ///
    /// The caller holds the fiber by invariant 2.
    #[inline(always)]
    pub(crate) unsafe fn stack(self) -> Option<NonNull<SlotHeader>> {
        // SAFETY: passed on.
        self.stack.with(|stack| unsafe { *stack })
    }

    /// Notes what the fiber is about to wait for.
    ///
    /// # Safety
    ///
    /// Called by the fiber itself.
    #[inline]
    pub(crate) unsafe fn note_wait(self, reason: &'static str, object: usize, traits: Traits) {
        // SAFETY: only the fiber itself writes; readers hold the parked fiber where it is.
        unsafe {
            self.wait.with_mut(|wait| ((*wait).reason, (*wait).object) = (reason, object));
        }
        self.traits.store(traits.0, Ordering::Relaxed);
    }

    /// Was the last wait that was noted for `reason` at `object`? Then it is noted no more.
    ///
    /// # Safety
    ///
    /// As [`note_wait`](Self::note_wait).
    #[cold]
    pub(crate) unsafe fn forget_wait(self, reason: &'static str, object: usize) -> bool {
        let of = |wait: &WaitInfo| (wait.reason, wait.object) == (reason, object);
        // SAFETY: as there.
        let known = self.wait.with(|wait| unsafe { of(&*wait) });
        if known {
            // SAFETY: as there.
            self.wait.with_mut(|wait| unsafe { (*wait).object = 0 });
        }
        known
    }

    /// Of its wait, or of its last one. A hint where the caller does not hold the fiber: an entry of a queue may be
    /// left over from one that runs elsewhere by now.
    #[inline]
    pub(crate) fn traits(self) -> Traits {
        Traits(self.traits.load(Ordering::Relaxed))
    }

    /// The address of the result.
    ///
    /// # Safety
    ///
    /// The caller may look at the result: it is the join handle of a fiber that is done.
    pub(crate) unsafe fn result(self) -> *mut () {
        // SAFETY: the table belongs to this block.
        unsafe { (self.vtable.result)(self.0) }
    }

    /// Drops the result; panics of its destructor come out.
    ///
    /// # Safety
    ///
    /// The caller owns the result and it is there.
    pub(crate) unsafe fn drop_result(self) {
        // SAFETY: passed on.
        unsafe { (self.vtable.drop_result)(self.0) }
    }

    /// Frees the block.
    ///
    /// # Safety
    ///
    /// Invariant 1 gave the caller this right; nobody uses the block after it.
    pub(crate) unsafe fn free(self) {
        // SAFETY: passed on.
        if unsafe { self.is_bare() } {
            // SAFETY: closure and result are gone, and the head has nothing to drop. The block was taken with
            // what its table says.
            unsafe { blocks::give(tls::blocks(), self.0.cast(), &self.vtable.memory) }
        } else {
            // SAFETY: passed on.
            unsafe { self.free_clothed() }
        }
    }

    /// Would a drop of the head do nothing? As for most fibers.
    ///
    /// # Safety
    ///
    /// As [`free`](Self::free).
    #[inline(always)]
    unsafe fn is_bare(self) -> bool {
        // SAFETY: passed on.
        let head = unsafe { &mut *self.0.as_ptr() };
        // SAFETY: nobody else has the block.
        let has_locals = head.locals.with(|locals| unsafe { (*locals).has_had_any() });
        !has_locals && head.blocks.get_mut().is_none() && head.name.is_none()
    }

    /// # Safety
    ///
    /// As [`free`](Self::free).
    #[cold]
    #[inline(never)]
    unsafe fn free_clothed(self) {
        let memory = &self.vtable.memory;
        // SAFETY: the head is dropped once; the rest as above.
        unsafe {
            std::ptr::drop_in_place(self.0.as_ptr());
            blocks::give(tls::blocks(), self.0.cast(), memory);
        }
    }

    /// Waits as the calling fiber, which runs here, but by blocking its thread.
    pub(crate) fn wait_blocking(self, ends: Ends, deadline: Option<Moment>) -> Outcome {
        let thread = super::tls::thread_block();
        *self.blocks.lock() = Some(Arc::clone(&thread));
        thread.wait(self.state(), ends.or(Ends::BLOCKS), deadline)
    }

    pub(super) fn blocked_thread(self) -> Option<Arc<ThreadBlock>> {
        self.blocks.lock().clone()
    }

    /// A counted reference, made by the fiber itself or through its join handle.
    pub(crate) fn reference(self) -> FiberRef {
        FiberRef::new(self)
    }
}

#[cfg(all(test, not(loom), target_pointer_width = "64"))]
mod tests {
    use super::*;
    use crate::fiber::{Kind, Spec, Unfilled};
    use std::mem::offset_of;

    #[test]
    fn the_head_is_small_and_hot_first() {
        assert_eq!(offset_of!(Header, wait), 64, "what a switch touches fits one line");
        assert!(size_of::<Header>() <= 176, "{}", size_of::<Header>());
    }

    /// Most are, and are not dropped. One of what there may be is enough not to be.
    #[test]
    fn a_head_is_bare_if_it_holds_nothing_at_all() {
        let is_bare = |name: Option<&str>, blocks: bool| {
            let spec = Spec {
                scheduler: std::ptr::null(),
                site: Location::caller(),
                name: name.map(Into::into),
                size: StackSize::DEFAULT,
                sampled: false,
            };
            // SAFETY: it never runs, and ends below.
            let fiber =
                unsafe { Unfilled::new(spec, Kind::of::<fn(), ()>()).fill::<fn(), ()>(|| ()) };
            *fiber.blocks.lock() = blocks.then(super::super::tls::thread_block);
            // SAFETY: nobody else looks at it.
            let is_bare = unsafe { fiber.is_bare() };
            assert!(fiber.state().start());
            fiber.state().detach().expect("it is not done");
            // SAFETY: just started, and not run.
            assert!(!unsafe { super::super::fail(fiber, Box::new(())) }.is_somebody());
            is_bare
        };
        let holders = Arc::strong_count(&super::super::tls::thread_block());
        assert!(is_bare(None, false));
        assert!(!is_bare(Some("somebody"), false));
        assert!(!is_bare(None, true));
        assert_eq!(Arc::strong_count(&super::super::tls::thread_block()), holders);
    }
}
