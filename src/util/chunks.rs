//! A queue without bound, in pieces: it never moves what it holds, and memory goes back as it empties.
//!
//! A growing ring copies all that it holds each time, for milliseconds where that is a million, and under
//! its owner's lock; and it stays as large as it ever was.
//!
//! All pieces but the first go as they empty. The first one, if it is large, goes when the queue is [found
//! empty](Chunks::found_empty): at once if the last one that went so is long gone, and else after [`SPARED`] times. So
//! a channel that was behind once keeps nothing, though it is never used again but to wait; a stream that fills and
//! empties all the time allocates once in so many fills; and light use gives a large piece up after so many waits.
//! What went has been filled more than half, or follows on pieces that were full: the messages share its cost. (Or it
//! has the least that a piece has, of messages of hundreds of bytes.)
//!
//! What stays at worst: a small piece; one large one where the queue fell behind twice within that many times and is
//! not asked again, or where nobody asks when it is empty, or where it never is.

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
    /// So many more times a large first piece stays when the queue is found empty.
    spared: usize,
}

/// A piece of more bytes is large.
const SMALL: usize = 1 << 10;
/// How often a large piece stays, after another one went. With each it takes a wait, or at least the lock.
const SPARED: usize = 64;
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
        Chunks { first: Piece::new(), rest: VecDeque::new(), behind: 0, spared: 0 }
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

    /// Empty, and to find it so changes nothing.
    #[inline(always)]
    pub(crate) fn is_quietly_empty(&self) -> bool {
        self.is_empty() && !self.minds_empty()
    }

    #[inline(always)]
    fn minds_empty(&self) -> bool {
        self.spared != 0 || self.first.bytes() > SMALL
    }

    /// Somebody wanted one, and there is none.
    #[inline]
    pub(crate) fn found_empty(&mut self) {
        debug_assert!(self.is_empty(), "something is in it");
        if self.minds_empty() {
            self.shrink();
        }
    }

    #[cold]
    #[inline(never)]
    fn shrink(&mut self) {
        if self.spared == 0 {
            *self = Chunks { spared: SPARED, ..Chunks::new() };
        } else {
            self.spared -= 1;
        }
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

    fn push_all(chunks: &mut Chunks<u64>, count: u64) {
        for n in 0..count {
            // SAFETY: plain numbers may be moved as often as one likes.
            unsafe { chunks.push_from(&raw const n) };
        }
    }

    /// Takes all, until it is found empty.
    fn drain(chunks: &mut Chunks<u64>) {
        while chunks.pop_front().is_some() {}
        chunks.found_empty();
    }

    #[test]
    fn memory_goes_back_as_it_empties() {
        const MOST: usize = Chunks::<u64>::MOST;
        const MANY: u64 = if cfg!(miri) { 20_000 } else { 1_000_000 };
        let mut chunks = Chunks::new();
        push_all(&mut chunks, MANY);
        assert!(room(&chunks) < MANY as usize + 2 * MOST);
        for n in 0..MANY {
            assert_eq!(chunks.pop_front(), Some(n));
            assert!(room(&chunks) < chunks.len() + 2 * MOST);
        }
        assert!(chunks.pop_front().is_none() && chunks.rest.capacity() <= LIST_KEPT);
        chunks.found_empty();
        assert_eq!((room(&chunks), chunks.rest.capacity()), (0, 0));
    }

    #[test]
    fn a_stream_keeps_its_piece_for_many_fills() {
        let mut chunks = Chunks::new();
        let mut gone = 0;
        for _ in 0..10 * (SPARED + 1) {
            push_all(&mut chunks, 200);
            drain(&mut chunks);
            gone += usize::from(room(&chunks) == 0);
        }
        assert_eq!(gone, 10);
    }

    #[test]
    fn light_use_gives_a_large_piece_up() {
        let mut chunks = Chunks::new();
        for _ in 0..2 {
            push_all(&mut chunks, 1000);
            drain(&mut chunks);
        }
        assert_eq!(room(&chunks), 1024);
        // As where each message is handed to one that waits.
        (0..SPARED).for_each(|_| chunks.found_empty());
        assert_eq!(room(&chunks), 0);
        // And the next backlog, after more of that, at once.
        (0..SPARED).for_each(|_| chunks.found_empty());
        push_all(&mut chunks, 1000);
        drain(&mut chunks);
        assert_eq!(room(&chunks), 0);
    }

    #[test]
    fn a_small_piece_stays() {
        let mut chunks = Chunks::new();
        push_all(&mut chunks, 128);
        drain(&mut chunks);
        assert_eq!(room(&chunks), 128);
    }
}
