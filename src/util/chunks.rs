//! A queue without bound, in pieces: it never moves what it holds, and memory goes back as it empties.
//!
//! A growing ring copies all that it holds each time, for milliseconds where that is a million, and under
//! its owner's lock; and it stays as large as it ever was.

use super::piece::Piece;
use std::collections::VecDeque;

/// See the module. While it is short it is one ring, and costs what that does.
#[derive(Debug)]
pub(crate) struct Chunks<T> {
    /// What comes out next; empty only if all is.
    first: Piece<T>,
    /// The others in order; none of them is empty.
    rest: VecDeque<Piece<T>>,
    /// How many are in `rest`.
    behind: usize,
}

/// So many pieces are worth a list that grew for them.
const LIST_KEPT: usize = 64;

impl<T> Chunks<T> {
    /// Elements of one piece: 32 KiB of them or less, within reason. A power of two.
    const MOST: usize = match size_of::<T>() {
        0 => 1 << (usize::BITS - 1),
        size => {
            let most = (32 << 10) / size;
            if most < 16 { 16 } else { 1 << most.ilog2() }
        }
    };

    pub(crate) fn new() -> Chunks<T> {
        Chunks { first: Piece::new(), rest: VecDeque::new(), behind: 0 }
    }

    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.first.len() + self.behind
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.first.is_empty()
    }

    /// Puts what `from` points at behind the others.
    ///
    /// # Safety
    ///
    /// `from` holds a value, which is moved out.
    #[inline]
    pub(crate) unsafe fn push_from(&mut self, from: *const T) {
        let is_first = self.behind == 0 && self.first.len() < Self::MOST;
        let last = if is_first { &mut self.first } else { self.last() };
        // SAFETY: passed on.
        unsafe { last.push_from(from) };
    }

    /// Moves the first one to `to`; true if there is one.
    ///
    /// # Safety
    ///
    /// `to` is room for a value.
    #[inline]
    pub(crate) unsafe fn pop_to(&mut self, to: *mut T) -> bool {
        // SAFETY: passed on.
        let is_there = unsafe { self.first.pop_to(to) };
        self.go_on();
        is_there
    }

    /// Puts what `from` points at behind the others if that takes no memory; true if it has been moved.
    ///
    /// # Safety
    ///
    /// `from` holds a value, which may be moved out.
    #[inline(always)]
    pub(crate) unsafe fn push_in_place(&mut self, from: *const T) -> bool {
        // SAFETY: passed on.
        self.behind == 0 && unsafe { self.first.push_in_place(from) }
    }

    /// Moves the first one to `to`, if there is one and none of the others need move; true if so.
    ///
    /// # Safety
    ///
    /// `to` is room for a value.
    #[inline(always)]
    pub(crate) unsafe fn pop_in_place(&mut self, to: *mut T) -> bool {
        if self.behind != 0 && self.first.len() < 2 {
            return false;
        }
        // SAFETY: passed on.
        unsafe { self.first.pop_to(to) }
    }

    /// The last piece but the first, for one more.
    #[inline(never)]
    fn last(&mut self) -> &mut Piece<T> {
        self.behind += 1;
        if self.rest.back().is_none_or(|last| last.len() == Self::MOST) {
            self.rest.push_back(Piece::with_places(Self::MOST));
        }
        self.rest.back_mut().expect("just seen to")
    }

    /// Puts back what came out last.
    pub(crate) fn push_front(&mut self, value: T) {
        self.first.push_front(value);
    }

    #[inline]
    pub(crate) fn pop_front(&mut self) -> Option<T> {
        let value = self.first.pop_front();
        self.go_on();
        value
    }

    /// Something may have been taken out.
    #[inline]
    fn go_on(&mut self) {
        if self.first.is_empty() && self.behind != 0 {
            self.next();
        }
    }

    /// The first piece is used up.
    #[cold]
    fn next(&mut self) {
        self.first = self.rest.pop_front().expect("something is behind");
        self.behind -= self.first.len();
        if self.behind == 0 && self.rest.capacity() > LIST_KEPT {
            self.rest = VecDeque::new();
        }
    }
}

impl<T> Default for Chunks<T> {
    fn default() -> Chunks<T> {
        Chunks::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::util::rng::Rng;

    /// Room for elements, in all pieces.
    fn room<T>(chunks: &Chunks<T>) -> usize {
        chunks.first.places() + chunks.rest.iter().map(Piece::places).sum::<usize>()
    }

    #[test]
    fn behaves_like_a_deque() {
        // Large ones, so that there are many pieces.
        let value = |n: u32| [n; 500];
        let (mut chunks, mut deque) = (Chunks::new(), VecDeque::new());
        let mut rng = Rng::new(1, 0);
        for round in 0..if cfg!(miri) { 2_000 } else { 20_000 } {
            // It grows for a while, and shrinks for a while.
            let grows = round / 500 % 2 == 0;
            match rng.below(10) {
                8 => {
                    let one = value(round);
                    // SAFETY: plain numbers may be moved as often as one likes.
                    if unsafe { chunks.push_in_place(&raw const one) } {
                        deque.push_back(one);
                    }
                }
                9 => {
                    let mut one = value(0);
                    // SAFETY: room for one.
                    let in_place = unsafe { chunks.pop_in_place(&raw mut one) };
                    assert!(!in_place || Some(one) == deque.pop_front());
                    // SAFETY: as above.
                    let popped = unsafe { chunks.pop_to(&raw mut one) };
                    assert_eq!(popped.then_some(one), deque.pop_front());
                }
                0 => {
                    let popped = chunks.pop_front();
                    assert_eq!(popped, deque.pop_front());
                    if let Some(popped) = popped {
                        chunks.push_front(popped);
                        deque.push_front(popped);
                    }
                }
                n if (n < 5) == grows => {
                    let one = value(round);
                    // SAFETY: as above.
                    unsafe { chunks.push_from(&raw const one) };
                    deque.push_back(one);
                }
                _ => assert_eq!(chunks.pop_front(), deque.pop_front()),
            }
            assert_eq!(chunks.len(), deque.len());
            assert_eq!(chunks.is_empty(), deque.is_empty());
        }
    }

    #[test]
    fn it_keeps_one_piece() {
        const MOST: usize = Chunks::<u64>::MOST;
        const MANY: u64 = if cfg!(miri) { 20_000 } else { 1_000_000 };
        let mut chunks = Chunks::new();
        for n in 0..MANY {
            // SAFETY: plain numbers may be moved as often as one likes.
            unsafe { chunks.push_from(&raw const n) };
        }
        assert!(room(&chunks) < MANY as usize + 2 * MOST);
        for n in 0..MANY {
            assert_eq!(chunks.pop_front(), Some(n));
            assert!(room(&chunks) < chunks.len() + 2 * MOST);
        }
        assert!(chunks.pop_front().is_none() && chunks.rest.capacity() <= LIST_KEPT);
    }
}
