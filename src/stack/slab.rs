//! Slabs: large mappings that slots are cut from, and the list by which a signal handler finds the
//! slot of an address.
//!
//! Callers: `cache` takes slots that were never used; `overflow` looks addresses up; `stats`
//! reads the counters.
//!
//! 1. A slab is never unmapped and its description never freed.
//! 2. The list only grows, at its head: a slab is complete before the release store that puts it
//!    there, so readers need an acquire load and nothing else, not even in a signal handler.
//! 3. A slab counts each slot out once, under its class's lock.
//! 4. A slot's bit in `open` is set before it has an owner and cleared after it has none: whoever is
//!    certain to see the owner sees the bit. Kept by `slot`, in `open` and `close`.

use super::error::{Call, StackError};
use super::guard::{self, Kind};
use super::memory;
use super::size::StackSize;
use super::slot::{self, Slot, SlotHeader};
use crate::primitives::sync::atomic::{AtomicBool, AtomicPtr, AtomicUsize, Ordering};
use crate::primitives::sync::{Mutex, OnceLock};
use crate::util::bitmap::Bitmap;
use rustix::io::Errno;
use std::array;
use std::ptr::{self, NonNull};

/// The first slab of a class is small, because RLIMIT_AS may be.
const FIRST_BYTES: usize = 4 << 20;
/// Each next one doubles up to here: some twenty mappings for a million default stacks.
const MOST_BYTES: usize = if cfg!(target_pointer_width = "64") { 32 << 30 } else { 256 << 20 };
/// All but a class's first slab leave so much to the rest of the process, for its `malloc` and some threads' stacks.
const ROOM: usize = 16 << 20;
/// Where guards split the mapping anyway, a large slab saves nothing, and memory that is locked is
/// populated at once.
const MOST_BYTES_SPLIT: usize = 16 << 20;

#[derive(Debug)]
pub(super) struct Slab {
    base: NonNull<u8>,
    size: StackSize,
    slots: usize,
    /// The slots that are a `Stack`. The others have no header, and to look for one would give them a page.
    open: Bitmap,
    /// The slab that was the head of the list before this one. Constant once published.
    next: *const Slab,
}

impl Slab {
    /// # Safety
    /// `index < self.slots`.
    unsafe fn slot(&self, index: usize) -> NonNull<u8> {
        debug_assert!(index < self.slots);
        // SAFETY: the caller's promise.
        unsafe { self.base.add(index * self.size.slot_bytes()) }
    }

    pub(super) fn size(&self) -> StackSize {
        self.size
    }

    /// The slot at `base`, which is one of this slab, has a header from now on.
    pub(super) fn opens(&self, base: NonNull<u8>) {
        self.open.set(self.index(base));
    }

    /// It has none any more, and no owner.
    pub(super) fn closes(&self, base: NonNull<u8>) {
        self.open.clear(self.index(base));
    }

    /// The owner of a slot, if it belongs to `domain`. The slot was found in `open`.
    fn owner_in(&self, index: usize, domain: *const ()) -> Option<NonNull<()>> {
        // SAFETY: below `slots`, as all that are in `open`.
        let header = unsafe { slot::header_of(self.slot(index), self.size) };
        // SAFETY: the header of a slot of this slab.
        unsafe { SlotHeader::owner_in(header, domain) }
    }

    fn index(&self, base: NonNull<u8>) -> usize {
        (base.as_ptr() as usize - self.base.as_ptr() as usize) / self.size.slot_bytes()
    }
}

// SAFETY: constant once published, but for the bitmap, which any thread may change.
unsafe impl Sync for Slab {}

/// What a class's lock protects.
struct Growth {
    slab: Option<&'static Slab>,
    /// How many slots of `slab` are out; the next is at this index.
    used: usize,
    /// Slots whose guard was refused: out, but never handed on.
    refused: Vec<(&'static Slab, NonNull<u8>)>,
    /// How many slots the next slab should have.
    next_slots: usize,
}

// SAFETY: slots and slabs are plain memory that any thread may use; the lock around this type
// keeps them to one at a time.
unsafe impl Send for Growth {}

struct Slabs {
    /// The newest slab. Written by `publish`, read by `find`.
    head: AtomicPtr<Slab>,
    classes: [Mutex<Growth>; StackSize::CLASSES],
    /// Guards by protection are in use. Relaxed, a hint for the size of the next slab.
    split: AtomicBool,
    slabs: AtomicUsize,
    slots: AtomicUsize,
    taken: AtomicUsize,
    refused: AtomicUsize,
}

static SLABS: OnceLock<Slabs> = OnceLock::new();

fn slabs() -> &'static Slabs {
    SLABS.get_or_init(|| Slabs {
        head: AtomicPtr::new(ptr::null_mut()),
        classes: array::from_fn(|_| {
            Mutex::new(Growth { slab: None, used: 0, refused: Vec::new(), next_slots: 0 })
        }),
        split: AtomicBool::new(false),
        slabs: AtomicUsize::new(0),
        slots: AtomicUsize::new(0),
        taken: AtomicUsize::new(0),
        refused: AtomicUsize::new(0),
    })
}

/// A slot that was never used, guarded. Maps more when the class has none left.
#[cold]
pub(super) fn take(size: StackSize) -> Result<Slot, StackError> {
    let all = slabs();
    all.take(size).inspect_err(|_| _ = all.refused.fetch_add(1, Ordering::Relaxed))
}

impl Slabs {
    fn take(&self, size: StackSize) -> Result<Slot, StackError> {
        let class = &self.classes[size.class()];
        let (slab, base) = self.next_slot(&mut class.lock(), size)?;
        // The lock is free again: the guard is a system call on memory that is ours alone.
        // SAFETY: the slot was just counted out (invariant 3), so nobody uses it.
        match unsafe { guard::install(base, size.guard_bytes()) } {
            Ok(kind) => {
                self.split.store(kind == Kind::Protection, Ordering::Relaxed);
                self.taken.fetch_add(1, Ordering::Relaxed);
                // SAFETY: a slot of a slab, guarded, counted out once.
                Ok(unsafe { Slot::new(base, slab) })
            }
            Err(error) => {
                class.lock().refused.push((slab, base));
                Err(StackError::new(size, Call::Guard, error))
            }
        }
    }

    fn next_slot(
        &self,
        growth: &mut Growth,
        size: StackSize,
    ) -> Result<(&'static Slab, NonNull<u8>), StackError> {
        if let Some(refused) = growth.refused.pop() {
            return Ok(refused);
        }
        let slab = match growth.slab {
            Some(slab) if growth.used < slab.slots => slab,
            _ => self.grow(growth, size)?,
        };
        growth.used += 1;
        // SAFETY: just compared, or a new slab, which has at least one slot.
        Ok((slab, unsafe { slab.slot(growth.used - 1) }))
    }

    /// Maps the class's next slab. If the system has no room for it that is as small as the first: who needs one stack
    /// more does not take half of what is left.
    fn grow(&self, growth: &mut Growth, size: StackSize) -> Result<&'static Slab, StackError> {
        let most = if self.split.load(Ordering::Relaxed) { MOST_BYTES_SPLIT } else { MOST_BYTES };
        let first = (FIRST_BYTES / size.slot_bytes()).max(1);
        let wanted = growth.next_slots.clamp(first, (most / size.slot_bytes()).max(first));
        let room = if growth.slab.is_some() { ROOM } else { 0 };
        // Whoever asks next, if this is refused, is refused by a single call.
        growth.next_slots = first;
        let map = |slots| map(slots, size, room).map(|base| (slots, base));
        let (slots, base) = map(wanted)
            .or_else(|error| if wanted > first { map(first) } else { Err(error) })
            .map_err(|error| {
                let bytes = first * size.slot_bytes() + room;
                StackError::new(size, Call::Mmap { bytes }, error)
            })?;
        let slab =
            self.publish(Slab { base, size, slots, open: Bitmap::new(slots), next: ptr::null() });
        (growth.slab, growth.used) = (Some(slab), 0);
        if slots == wanted {
            growth.next_slots = slots * 2;
        }
        Ok(slab)
    }

    /// Puts a slab at the head of the list.
    fn publish(&self, slab: Slab) -> &'static Slab {
        self.slabs.fetch_add(1, Ordering::Relaxed);
        self.slots.fetch_add(slab.slots, Ordering::Relaxed);
        let slab = Box::into_raw(Box::new(slab));
        let mut head = self.head.load(Ordering::Relaxed);
        loop {
            // SAFETY: not published yet, so ours alone.
            unsafe { (*slab).next = head };
            // Release, against the acquire load in `find`.
            match self.head.compare_exchange_weak(head, slab, Ordering::Release, Ordering::Relaxed)
            {
                // SAFETY: never freed, and constant from now on (invariants 1 and 2).
                Ok(_) => return unsafe { &*slab },
                Err(now) => head = now,
            }
        }
    }
}

/// Maps memory for `slots`, if `room` bytes more could be had.
fn map(slots: usize, size: StackSize, room: usize) -> Result<NonNull<u8>, Errno> {
    let bytes = slots.checked_mul(size.slot_bytes()).ok_or(Errno::NOMEM)?;
    let low = memory::map(bytes.checked_add(room).ok_or(Errno::NOMEM)?)?;
    // SAFETY: in the mapping, which nobody knows of; the slab is the upper part, beside those that were there before.
    let base = unsafe {
        memory::unmap(low, room);
        low.add(room)
    };
    match memory::no_huge_pages(base, bytes) {
        Ok(()) => Ok(base),
        Err(error) => {
            // SAFETY: just mapped, and nobody knows of it.
            unsafe { memory::unmap(base, bytes) };
            Err(error)
        }
    }
}

/// Where in a slot an address lies.
#[derive(Clone, Copy, Debug)]
pub(super) struct Found {
    pub(super) base: NonNull<u8>,
    pub(super) size: StackSize,
    pub(super) in_guard: bool,
}

impl Found {
    /// All zero if the slot is not in use.
    pub(super) fn header(&self) -> NonNull<SlotHeader> {
        slot::header_of(self.base, self.size)
    }
}

/// The slot that `address` lies in. Async-signal-safe: no lock, no allocation, no TLS.
pub(super) fn find(address: usize) -> Option<Found> {
    let mut next: *const Slab = SLABS.get()?.head.load(Ordering::Acquire);
    // SAFETY: whatever is on the list is complete, constant and never freed (invariants 1 and 2).
    while let Some(slab) = unsafe { next.as_ref() } {
        let offset = address.wrapping_sub(slab.base.as_ptr() as usize);
        let (index, within) = (offset / slab.size.slot_bytes(), offset % slab.size.slot_bytes());
        if index < slab.slots {
            let in_guard = within < slab.size.guard_bytes();
            // SAFETY: just compared.
            let base = unsafe { slab.slot(index) };
            return Some(Found { base, size: slab.size, in_guard });
        }
        next = slab.next;
    }
    None
}

/// A slot to look at again, whatever has become of it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    slab: &'static Slab,
    index: usize,
}

impl Place {
    /// The owner in `domain` of this slot. It is the caller who sees to it that those do not come and go.
    pub(crate) fn owner_in(self, domain: *const ()) -> Option<NonNull<()>> {
        self.slab.open.is_set(self.index).then(|| self.slab.owner_in(self.index, domain))?
    }
}

/// Calls `f` with every owner in `domain` of a slot, until it returns false; says where that was.
///
/// Looks at stacks with memory only, however many slots were ever used. Owners come and go meanwhile; it
/// is the caller who sees to it that those in `domain` do not.
pub(crate) fn each_owner(
    domain: *const (),
    mut f: impl FnMut(NonNull<()>) -> bool,
) -> Option<Place> {
    let mut next: *const Slab = SLABS.get()?.head.load(Ordering::Acquire);
    // SAFETY: as in `find`.
    while let Some(slab) = unsafe { next.as_ref() } {
        for index in slab.open.iter() {
            match slab.owner_in(index, domain) {
                Some(owner) if !f(owner) => return Some(Place { slab, index }),
                _ => {}
            }
        }
        next = slab.next;
    }
    None
}

/// Slabs mapped, slots in them, slots that were ever used, refusals.
pub(super) fn counts() -> (usize, usize, usize, usize) {
    let Some(all) = SLABS.get() else {
        return (0, 0, 0, 0);
    };
    let read = |count: &AtomicUsize| count.load(Ordering::Relaxed);
    (read(&all.slabs), read(&all.slots), read(&all.taken), read(&all.refused))
}
