//! Room for one message whose type the select does not know.

use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::fmt;
use std::mem::MaybeUninit;
use std::ptr::NonNull;

/// What fits needs no allocation.
type Inline = [usize; 4];

/// Empty room for a message, or one message.
///
/// Moving it moves the message, so a pointer into it is good only until then.
pub struct Parcel {
    inline: MaybeUninit<Inline>,
    heap: Option<Heap>,
    /// Which of the two `room` gave out last.
    on_heap: bool,
    /// Drops the message, where there is one.
    drop: Option<unsafe fn(*mut ())>,
}

/// Empty room from the allocator, which goes back whatever becomes of a message in it.
struct Heap {
    place: NonNull<u8>,
    layout: Layout,
}

impl Drop for Heap {
    #[cold]
    fn drop(&mut self) {
        // SAFETY: allocated so.
        unsafe { dealloc(self.place.as_ptr(), self.layout) };
    }
}

impl Parcel {
    pub(super) fn new() -> Parcel {
        Parcel { inline: MaybeUninit::uninit(), heap: None, on_heap: false, drop: None }
    }

    /// Makes sure that a message of `layout` has room, and returns where. It is empty.
    #[inline(always)]
    pub(super) fn room(&mut self, layout: Layout) -> *mut () {
        debug_assert!(self.drop.is_none(), "there is a message in it");
        let fits = |room: Layout| layout.size() <= room.size() && layout.align() <= room.align();
        self.on_heap = !fits(Layout::new::<Inline>());
        if self.on_heap && !self.heap.as_ref().is_some_and(|room| fits(room.layout)) {
            self.enlarge(layout);
        }
        self.place()
    }

    #[inline(always)]
    fn place(&mut self) -> *mut () {
        match &self.heap {
            Some(room) if self.on_heap => room.place.as_ptr().cast(),
            _ => self.inline.as_mut_ptr().cast(),
        }
    }

    #[cold]
    fn enlarge(&mut self, layout: Layout) {
        self.heap = None;
        let layout = Layout::from_size_align(layout.size().max(1), layout.align());
        let layout = layout.expect("the layout of a type");
        // SAFETY: the size is not zero.
        let place = NonNull::new(unsafe { alloc(layout) });
        let place = place.unwrap_or_else(|| handle_alloc_error(layout));
        self.heap = Some(Heap { place, layout });
    }

    /// There is a `T` in the room now.
    ///
    /// # Safety
    ///
    /// It was written where `room` said last.
    pub(super) unsafe fn fill<T>(&mut self) {
        unsafe fn drop<T>(message: *mut ()) {
            // SAFETY: `fill` was told that there is a `T`, and nobody took it.
            unsafe { message.cast::<T>().drop_in_place() };
        }
        self.drop = Some(drop::<T>);
    }

    /// Takes the message, if there is one.
    ///
    /// # Safety
    ///
    /// It is a `T`.
    pub(super) unsafe fn take<T>(&mut self) -> Option<T> {
        self.drop.take()?;
        // SAFETY: by the caller; nobody reads it again.
        Some(unsafe { self.place().cast::<T>().read() })
    }

    #[inline(always)]
    pub(super) fn is_empty(&self) -> bool {
        self.drop.is_none()
    }

    /// Leaves a message that there is to nobody, without its destructor.
    pub(super) fn forget(&mut self) {
        self.drop = None;
    }

    #[cfg(test)]
    pub(super) fn has_room(&self) -> bool {
        self.heap.is_some()
    }

    /// Gives room from the allocator back, where there is no message in it.
    #[inline(always)]
    pub(super) fn free_room(&mut self) {
        debug_assert!(self.is_empty(), "there is a message in it");
        if self.heap.is_some() {
            self.heap = None;
        }
    }

    #[cold]
    #[inline(never)]
    fn clear(&mut self) {
        if let Some(drop) = self.drop.take() {
            let place = self.place();
            // SAFETY: there is a message, of the type that `fill` knew; nothing borrows the parcel meanwhile.
            unsafe { drop(place) };
        }
    }
}

impl fmt::Debug for Parcel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Parcel").field("full", &self.drop.is_some()).finish_non_exhaustive()
    }
}

impl Drop for Parcel {
    #[inline(always)]
    fn drop(&mut self) {
        if self.drop.is_some() {
            self.clear();
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::rc::Rc;

    fn put<T>(parcel: &mut Parcel, message: T) {
        let place = parcel.room(Layout::new::<T>());
        // SAFETY: room for it.
        unsafe {
            place.cast::<T>().write(message);
            parcel.fill::<T>();
        }
    }

    #[repr(align(128))]
    #[derive(Debug, PartialEq)]
    struct Aligned(u8);

    #[test]
    fn a_message_survives_the_move_of_its_parcel() {
        let mut parcel = Parcel::new();
        put(&mut parcel, String::from("small"));
        let mut moved = Box::new(parcel);
        // SAFETY: a string.
        assert_eq!(unsafe { moved.take::<String>() }.unwrap(), "small");
        put(&mut moved, [7u64; 20]);
        let mut moved = *moved;
        // SAFETY: an array.
        assert_eq!(unsafe { moved.take::<[u64; 20]>() }, Some([7; 20]));
        // SAFETY: empty.
        assert!(unsafe { moved.take::<[u64; 20]>() }.is_none());
        put(&mut moved, Aligned(3));
        assert!(moved.room_is_aligned());
        // SAFETY: an `Aligned`.
        assert_eq!(unsafe { moved.take::<Aligned>() }, Some(Aligned(3)));
        put(&mut moved, ());
        // SAFETY: a unit.
        assert_eq!(unsafe { moved.take::<()>() }, Some(()));
    }

    impl Parcel {
        fn room_is_aligned(&self) -> bool {
            self.heap.as_ref().is_some_and(|room| room.place.as_ptr() as usize % 128 == 0)
        }
    }

    #[test]
    fn what_nobody_takes_is_dropped_once() {
        let count = Rc::new(());
        let mut small = Parcel::new();
        put(&mut small, Rc::clone(&count));
        let mut large = Parcel::new();
        put(&mut large, ([0u64; 9], Rc::clone(&count)));
        assert_eq!(Rc::strong_count(&count), 3);
        drop((small, large));
        assert_eq!(Rc::strong_count(&count), 1);
    }
}
