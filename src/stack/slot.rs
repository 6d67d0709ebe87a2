//! One slot: where its guard, its usable range and its header are, and who owns it.
//!
//! ```text
//!   base            limit                            top   header        end
//!    | guard          | usable, grows down <--------- |     | 64 bytes | colour |
//! ```
//!
//! Callers: `cache` and `pool` move [`Stack`]s; `fiber/` runs on them; `slab` makes [`Slot`]s.
//!
//! 1. Everything is computed from base and size; the header's content may be lost whenever the
//!    slot is a [`Slot`], and is written anew by [`Slot::open`].
//! 2. The header lies `colour * 64` bytes below the slot's end, with `colour` the number of its
//!    first page modulo 16. Stacks of one size would otherwise put their hottest lines into the same few
//!    sets of the cache: coloured, a round over 1,000 fibers is three times as fast.

use super::size::StackSize;
use super::slab::Slab;
use super::{memory, pool};
use crate::primitives::sync::atomic::{AtomicBool, AtomicPtr, Ordering};
use crate::primitives::{prefetch, prefetch_lines};
use std::mem::ManuallyDrop;
use std::ptr::{self, NonNull};

/// A cache line: the header's size and the step between colours.
const LINE: usize = 64;
const COLOURS: usize = 16;
/// Lines that a fiber with small frames uses up to its first wait, the header's with them.
const FIRST_LINES: usize = 14;

/// What stands above the first frame of every stack in use.
#[derive(Debug)]
#[repr(C, align(64))]
pub(crate) struct SlotHeader {
    /// Who runs on this stack; null if nobody. Written by upper rooms, read by the overflow
    /// report and by dumps.
    owner: AtomicPtr<()>,
    /// To whom the owner belongs; says so before the owner is looked at. Written with the owner.
    domain: AtomicPtr<()>,
    /// Written by [`Slot::open`], constant as long as there is a `Stack`; so is the next one.
    size: StackSize,
    slab: &'static Slab,
    /// No page but the topmost was resident when this stack was handed out, so its high-water
    /// mark can be read. Set by [`Stack::trim`], taken by `usage`.
    trimmed: AtomicBool,
}

#[cfg(not(loom))]
const _: () = assert!(size_of::<SlotHeader>() == LINE);

impl SlotHeader {
    /// The size of this stack.
    #[inline]
    pub(crate) fn size(&self) -> StackSize {
        self.size
    }

    /// The owner last set. Acquire, against [`set_owner`](Self::set_owner).
    #[inline]
    pub(crate) fn owner(&self) -> *mut () {
        self.owner.load(Ordering::Acquire)
    }

    /// Release: who finds the owner here finds it initialised.
    #[inline]
    pub(crate) fn set_owner(&self, owner: *mut ()) {
        self.owner.store(owner, Ordering::Release);
    }

    /// As [`set_owner`](Self::set_owner), for an owner that belongs to `domain`.
    #[inline]
    pub(crate) fn set_owner_of(&self, owner: *mut (), domain: *const ()) {
        self.domain.store(domain.cast_mut(), Ordering::Relaxed);
        self.set_owner(owner);
    }

    /// The owner, if it belongs to `domain`.
    ///
    /// # Safety
    ///
    /// `header` is where the header of a slot of a slab is; that slot may be in any state.
    pub(super) unsafe fn owner_in(
        header: NonNull<SlotHeader>,
        domain: *const (),
    ) -> Option<NonNull<()>> {
        // SAFETY: mapped for good; these two fields are only ever written as atomics, and are zero
        // before that.
        let (owner, of) = unsafe {
            let header = header.as_ptr();
            (&(*header).owner, &(*header).domain)
        };
        // Acquire: with the owner comes its domain, or that of a later one.
        let owner = NonNull::new(owner.load(Ordering::Acquire))?;
        (of.load(Ordering::Relaxed).cast_const() == domain).then_some(owner)
    }
}

/// Where the header of the slot at `base` is (invariant 4 of the room).
#[inline]
pub(super) fn header_of(base: NonNull<u8>, size: StackSize) -> NonNull<SlotHeader> {
    // There is an odd number of pages from slot to slot.
    let colour = (base.as_ptr() as usize >> memory::page_size().trailing_zeros()) % COLOURS;
    // SAFETY: a header and 15 colours are 1 KiB, which is less than the least slot.
    unsafe { base.add(size.slot_bytes() - LINE - colour * LINE).cast() }
}

/// A slot with its guard in force, whose header holds nothing yet.
///
/// Dropping one loses it until the process ends; nobody does.
#[derive(Debug)]
#[must_use = "a dropped slot is lost"]
pub(super) struct Slot {
    base: NonNull<u8>,
    slab: &'static Slab,
}

// SAFETY: a slot is plain memory with one owner (invariant 2 of the room), on no thread in particular.
unsafe impl Send for Slot {}

impl Slot {
    /// # Safety
    /// `base` is a slot of `slab`, guarded, and nobody else holds it.
    pub(super) unsafe fn new(base: NonNull<u8>, slab: &'static Slab) -> Slot {
        Slot { base, slab }
    }

    /// Writes the header; the first touch of a slot without pages.
    pub(super) fn open(self) -> Stack {
        let size = self.slab.size();
        let header = header_of(self.base, size);
        let content = header.as_ptr();
        // SAFETY: the header lies in this slot, aligned (invariant 4 of the room), and the slot is
        // ours alone (2), but for those who look at owners: the memory is zero, or was a header.
        unsafe {
            (*content).owner.store(ptr::null_mut(), Ordering::Relaxed);
            (&raw mut (*content).size).write(size);
            (&raw mut (*content).slab).write(self.slab);
            (&raw mut (*content).trimmed).write(AtomicBool::new(false));
        }
        self.slab.opens(self.base);
        Stack(header)
    }
}

/// A stack nobody runs on, or the right to run on it: one slot, guarded, its header written.
///
/// Dropping it gives it to the shared pool.
#[derive(Debug)]
#[must_use = "a stack that is dropped goes to the shared pool, which is slower than the worker's cache"]
pub(crate) struct Stack(NonNull<SlotHeader>);

// SAFETY: a stack is plain memory with one owner (invariant 2 of the room), on no thread in particular.
unsafe impl Send for Stack {}

impl Stack {
    #[inline]
    pub(crate) fn header(&self) -> &SlotHeader {
        // SAFETY: a stack's header is written and stays valid (invariants 1 and 3 of the room).
        unsafe { self.0.as_ref() }
    }

    #[inline]
    pub(crate) fn size(&self) -> StackSize {
        self.header().size
    }

    /// Where the first frame goes: 64-byte aligned, the stack grows down from here.
    #[inline]
    pub(crate) fn top(&self) -> *mut u8 {
        self.0.as_ptr().cast()
    }

    /// Somebody will run here soon: fetches the header and the lines of the first frames.
    #[inline(always)]
    pub(super) fn prefetch(&self) {
        prefetch_lines::<FIRST_LINES>(self.top().wrapping_sub((FIRST_LINES - 1) * LINE));
    }

    /// Somebody will need the header soon, and first of all the page table entry of its page.
    #[inline(always)]
    pub(super) fn prefetch_header(&self) {
        prefetch(self.0.as_ptr());
    }

    /// The lowest usable address, right above the guard.
    #[inline]
    pub(crate) fn limit(&self) -> *mut u8 {
        // SAFETY: the guard lies in the slot (invariant 4 of the room).
        unsafe { self.base().add(self.size().guard_bytes()) }.as_ptr()
    }

    /// Records who runs here, for overflow reports and dumps.
    #[inline]
    pub(crate) fn set_owner(&self, owner: *mut ()) {
        self.header().set_owner(owner);
    }

    /// Gives up the handle but keeps the slot, for a stack that knows itself by its header.
    #[inline]
    pub(crate) fn into_raw(self) -> NonNull<SlotHeader> {
        ManuallyDrop::new(self).0
    }

    /// # Safety
    /// `header` is from [`into_raw`](Self::into_raw), and each of its results is used once.
    #[inline]
    pub(crate) unsafe fn from_raw(header: NonNull<SlotHeader>) -> Stack {
        Stack(header)
    }

    #[inline]
    fn base(&self) -> NonNull<u8> {
        // The header and its colour lie in the last page.
        let header = self.0.as_ptr() as usize;
        let above = LINE + ((header + LINE).wrapping_neg() & (memory::page_size() - 1));
        // SAFETY: this is where the slot begins.
        unsafe { self.0.cast::<u8>().sub(self.size().slot_bytes() - above) }
    }

    /// From [`limit`](Self::limit) to the start of the topmost page, which has the header.
    pub(super) fn below_top_page(&self) -> (NonNull<u8>, usize) {
        let guard = self.size().guard_bytes();
        // SAFETY: the guard lies in the slot (invariant 4 of the room).
        let limit = unsafe { self.base().add(guard) };
        (limit, self.size().usable_bytes() - memory::page_size())
    }

    /// Gives back every page but the topmost, so that a high-water mark can be read later.
    pub(super) fn trim(&self) {
        let (low, bytes) = self.below_top_page();
        // SAFETY: nobody runs on a stack that is held by this handle (invariant 2 of the room), so
        // what is below its header is dead.
        let done = unsafe { memory::discard(low, bytes) }.is_ok();
        self.header().trimmed.store(done, Ordering::Relaxed);
    }

    /// Whether this stack was trimmed when it was handed out. True once.
    pub(super) fn take_trimmed(&self) -> bool {
        self.header().trimmed.swap(false, Ordering::Relaxed)
    }

    /// Gives back every page, the header's too.
    ///
    /// A refusal (locked memory) is no error: the slot is as good, its pages just stay.
    pub(super) fn close(self) -> Slot {
        let (base, size, slab) = (self.base(), self.size(), self.header().slab);
        let _ = self.into_raw();
        slab.closes(base);
        // SAFETY: the handle is gone, so nobody uses the slot (invariant 2 of the room), and a
        // `Slot`'s header is not relied upon (3).
        let _ = unsafe { memory::discard(base.add(size.guard_bytes()), size.usable_bytes()) };
        Slot { base, slab }
    }
}

impl Drop for Stack {
    #[cold]
    fn drop(&mut self) {
        // The fields are plain, so this is the same stack under a new handle.
        let stack = Stack(self.0);
        stack.set_owner(std::ptr::null_mut());
        pool::give_cold(stack.size(), [stack]);
    }
}
