//! A chain of fibers, linked through their control blocks: how several are handed on at once.

use super::header::FiberPtr;

/// First in, first out; owns its fibers in the sense of the room's invariant 2.
#[derive(Debug, Default)]
pub(crate) struct Batch {
    head: Option<FiberPtr>,
    tail: Option<FiberPtr>,
    len: usize,
}

impl Batch {
    pub(crate) const fn new() -> Batch {
        Batch { head: None, tail: None, len: 0 }
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0
    }

    pub(crate) fn push(&mut self, fiber: FiberPtr) {
        // SAFETY: the caller hands over a fiber that it holds; the tail is ours.
        unsafe {
            fiber.set_next(None);
            match self.tail.replace(fiber) {
                Some(tail) => tail.set_next(Some(fiber)),
                None => self.head = Some(fiber),
            }
        }
        self.len += 1;
    }

    pub(crate) fn pop(&mut self) -> Option<FiberPtr> {
        let fiber = self.head?;
        // SAFETY: the head is ours.
        self.head = unsafe { fiber.next() };
        if self.head.is_none() {
            self.tail = None;
        }
        self.len -= 1;
        Some(fiber)
    }

    /// Moves all of `other` behind the last of `self`.
    pub(crate) fn append(&mut self, other: &mut Batch) {
        let other = std::mem::take(other);
        let Some(head) = other.head else { return };
        match self.tail {
            // SAFETY: the tail is ours.
            Some(tail) => unsafe { tail.set_next(Some(head)) },
            None => self.head = Some(head),
        }
        self.tail = other.tail;
        self.len += other.len;
    }
}

impl Extend<FiberPtr> for Batch {
    fn extend<I: IntoIterator<Item = FiberPtr>>(&mut self, fibers: I) {
        fibers.into_iter().for_each(|fiber| self.push(fiber));
    }
}

impl Iterator for Batch {
    type Item = FiberPtr;

    fn next(&mut self) -> Option<FiberPtr> {
        self.pop()
    }
}
