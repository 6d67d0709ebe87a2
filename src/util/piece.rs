//! A ring that grows: a piece of [`Chunks`](super::chunks::Chunks).
//!
//! `VecDeque` does the same, but its push is a call that may panic, which costs whoever pushes with a lock in hand a
//! frame and a landing pad. [`push_in_place`](Piece::push_in_place) is some instructions.
//!
//! 1. There are no places or a power of two of them.
//! 2. Those from `head` on, `len` of them and around the end, hold values; `len` is at most the number of places.

use std::fmt;
use std::mem::MaybeUninit;

pub(super) struct Piece<T> {
    places: Box<[MaybeUninit<T>]>,
    head: usize,
    len: usize,
}

impl<T> Piece<T> {
    /// The least number of places but none: as many as are no burden.
    const LEAST: usize = match size_of::<T>() {
        0 => 1 << (usize::BITS - 1),
        1..=1024 => 4,
        _ => 1,
    };

    pub(super) fn new() -> Piece<T> {
        Piece { places: Box::new([]), head: 0, len: 0 }
    }

    /// With so many places, a power of two.
    pub(super) fn with_places(count: usize) -> Piece<T> {
        debug_assert!(count.is_power_of_two(), "{count}");
        Piece { places: Box::new_uninit_slice(count), head: 0, len: 0 }
    }

    #[inline(always)]
    pub(super) fn len(&self) -> usize {
        self.len
    }

    #[inline(always)]
    pub(super) fn is_empty(&self) -> bool {
        self.len == 0
    }

    #[inline(always)]
    pub(super) fn bytes(&self) -> usize {
        size_of_val(&*self.places)
    }

    #[cfg(test)]
    pub(super) fn places(&self) -> usize {
        self.places.len()
    }

    /// The place of the `n`th value, or of the next one.
    #[inline(always)]
    fn place(&mut self, n: usize) -> &mut MaybeUninit<T> {
        debug_assert!(!self.places.is_empty(), "no place");
        let at = self.head.wrapping_add(n) & (self.places.len() - 1);
        // SAFETY: below the number of places, by invariant 1 and since there are some: the callers have looked.
        unsafe { self.places.get_unchecked_mut(at) }
    }

    /// Moves what `from` points at behind the others, if there is a place for it: true if so.
    ///
    /// # Safety
    ///
    /// `from` holds a value, which may be moved out.
    #[inline(always)]
    pub(super) unsafe fn push_in_place(&mut self, from: *const T) -> bool {
        let has_room = self.len < self.places.len();
        if has_room {
            let len = self.len;
            // SAFETY: by the caller; a place holds none of what it is to be given.
            unsafe { self.place(len).as_mut_ptr().copy_from_nonoverlapping(from, 1) };
            self.len += 1;
        }
        has_room
    }

    /// Moves the first one to `to`; true if there was one. By no way of its own on the stack, as it may be large.
    ///
    /// # Safety
    ///
    /// `to` is room for a value.
    #[inline(always)]
    pub(super) unsafe fn pop_to(&mut self, to: *mut T) -> bool {
        if self.len == 0 {
            return false;
        }
        // SAFETY: it holds a value (invariant 2), which is `to`'s from now on; by the caller.
        unsafe { to.copy_from_nonoverlapping(self.place(0).as_ptr(), 1) };
        self.head = self.head.wrapping_add(1) & (self.places.len() - 1);
        self.len -= 1;
        true
    }

    /// Moves what `from` points at behind the others.
    ///
    /// # Safety
    ///
    /// `from` holds a value, which is moved out.
    #[inline]
    pub(super) unsafe fn push_from(&mut self, from: *const T) {
        self.grow_if_full();
        // SAFETY: passed on.
        let has_room = unsafe { self.push_in_place(from) };
        debug_assert!(has_room, "it has grown");
    }

    pub(super) fn push_front(&mut self, value: T) {
        self.grow_if_full();
        self.head = self.head.wrapping_sub(1) & (self.places.len() - 1);
        self.place(0).write(value);
        self.len += 1;
    }

    #[inline(always)]
    pub(super) fn pop_front(&mut self) -> Option<T> {
        if self.len == 0 {
            return None;
        }
        // SAFETY: it holds a value (invariant 2), and after this it is none of those that do.
        let value = unsafe { self.place(0).assume_init_read() };
        self.head = self.head.wrapping_add(1) & (self.places.len() - 1);
        self.len -= 1;
        Some(value)
    }

    #[inline]
    fn grow_if_full(&mut self) {
        if self.len == self.places.len() {
            self.grow();
        }
    }

    #[cold]
    #[inline(never)]
    fn grow(&mut self) {
        let count = self.places.len().checked_mul(2).expect("fewer messages than addresses");
        let mut grown = Piece::with_places(count.max(Self::LEAST));
        let (first, second) = self.places.split_at(self.head);
        for (to, from) in grown.places.iter_mut().zip(second.iter().chain(first)) {
            // SAFETY: the old places are full (they are why it grows), and are let go of as if they were empty.
            to.write(unsafe { from.assume_init_read() });
        }
        grown.len = std::mem::take(&mut self.len);
        *self = grown;
    }
}

impl<T> Drop for Piece<T> {
    fn drop(&mut self) {
        super::drop_all::drop_all(|| self.pop_front());
    }
}

impl<T> fmt::Debug for Piece<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Piece").field("len", &self.len).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;
    use std::mem::ManuallyDrop;

    fn push<T>(piece: &mut Piece<T>, value: T) {
        // SAFETY: it is moved out, and not dropped here.
        unsafe { piece.push_from(&raw const *ManuallyDrop::new(value)) };
    }

    #[test]
    fn it_grows_around_the_end_and_forgets_nobody() {
        let dropped = Cell::new(0);
        struct Counted<'a>(u32, &'a Cell<u32>);
        impl Drop for Counted<'_> {
            fn drop(&mut self) {
                self.1.set(self.1.get() + 1);
            }
        }
        let mut piece = Piece::new();
        let (mut pushed, mut popped) = (0, 0);
        for _ in 0..50 {
            for _ in 0..3 {
                push(&mut piece, Counted(pushed, &dropped));
                pushed += 1;
            }
            let first = piece.pop_front().expect("there are more");
            assert_eq!(first.0, popped);
            popped += 1;
        }
        assert_eq!((piece.len(), piece.places()), (100, 128));
        piece.push_front(Counted(u32::MAX, &dropped));
        assert_eq!(piece.pop_front().expect("just put there").0, u32::MAX);
        assert_eq!(dropped.get(), 51);
        drop(piece);
        assert_eq!(dropped.get(), 151);
    }

    #[test]
    fn in_place_is_only_where_there_is_a_place() {
        let mut piece = Piece::new();
        let push_in_place = |piece: &mut Piece<u64>, value: u64| {
            // SAFETY: a number may be moved as often as one likes.
            unsafe { piece.push_in_place(&raw const value) }
        };
        assert!(!push_in_place(&mut piece, 1) && piece.is_empty());
        push(&mut piece, 1);
        assert!((2..=4).all(|value| push_in_place(&mut piece, value)));
        assert!(!push_in_place(&mut piece, 5));
        assert_eq!(piece.pop_front(), Some(1));
        assert!(push_in_place(&mut piece, 5));
        assert_eq!(std::iter::from_fn(|| piece.pop_front()).collect::<Vec<_>>(), [2, 3, 4, 5]);
    }

    #[test]
    fn what_is_large_has_no_more_places_than_it_needs() {
        let mut piece = Piece::new();
        for places in [1, 2, 4, 4, 8] {
            push(&mut piece, [0_u8; 2000]);
            assert_eq!(piece.places(), places);
        }
    }

    #[test]
    fn values_without_size_are_counted() {
        let mut piece = Piece::new();
        (0..1000).for_each(|_| push(&mut piece, ()));
        assert_eq!(std::iter::from_fn(|| piece.pop_front()).count(), 1000);
    }
}
