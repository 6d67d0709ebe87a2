//! One of something, hardly ever more: the first needs no allocation.
//!
//! Whoever has one on its stack can keep it in registers: it has no destructor, and nothing but its words
//! is passed on. (In memory it would be written field by field and, as it is moved, read again as a whole,
//! which costs as much as a locked instruction: the processor does not put together what stands in several
//! of its stores.)

use std::fmt;
use std::mem::ManuallyDrop;
use std::ptr::NonNull;

/// See the module. In the order in which they came. What is thrown away with it, is leaked.
#[must_use]
pub(crate) struct Few<T> {
    first: Option<ManuallyDrop<T>>,
    /// A box, which belongs to this.
    more: Option<NonNull<Vec<T>>>,
}

// SAFETY: it has its elements, as a vector has.
unsafe impl<T: Send> Send for Few<T> {}
// SAFETY: as above.
unsafe impl<T: Sync> Sync for Few<T> {}

impl<T> Few<T> {
    #[inline(always)]
    pub(crate) const fn new() -> Few<T> {
        Few { first: None, more: None }
    }

    #[inline(always)]
    pub(crate) fn add(&mut self, one: Option<T>) {
        let Some(one) = one else { return };
        match self.first {
            None => self.first = Some(ManuallyDrop::new(one)),
            // SAFETY: the box is this one's.
            Some(_) => self.more = Some(unsafe { with_one_more(self.more, one) }),
        }
    }

    /// What is added to another goes behind its own.
    pub(crate) fn append(&mut self, other: Few<T>) {
        other.each(|one| self.add(Some(one)));
    }

    #[inline(always)]
    pub(crate) fn each(self, mut f: impl FnMut(T)) {
        if let Some(first) = self.first {
            f(ManuallyDrop::into_inner(first));
        }
        if let Some(more) = self.more {
            // SAFETY: the box was this one's, which is used up.
            unsafe { each_of(more, f) };
        }
    }
}

/// # Safety
///
/// `more` is a box of the caller's, which the result replaces.
#[cold]
#[inline(never)]
unsafe fn with_one_more<T>(more: Option<NonNull<Vec<T>>>, one: T) -> NonNull<Vec<T>> {
    // SAFETY: by the caller.
    let mut more = more.map_or_else(Box::default, |more| unsafe { Box::from_raw(more.as_ptr()) });
    more.push(one);
    NonNull::from(Box::leak(more))
}

/// # Safety
///
/// `more` is a box of the caller's.
#[cold]
#[inline(never)]
unsafe fn each_of<T>(more: NonNull<Vec<T>>, f: impl FnMut(T)) {
    // SAFETY: by the caller.
    unsafe { Box::from_raw(more.as_ptr()) }.into_iter().for_each(f);
}

impl<T> Default for Few<T> {
    fn default() -> Few<T> {
        Few::new()
    }
}

impl<T: fmt::Debug> fmt::Debug for Few<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // SAFETY: the box is this one's.
        let more = self.more.map(|more| unsafe { more.as_ref() });
        f.debug_list().entries(self.first.as_deref()).entries(more.into_iter().flatten()).finish()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::Few;

    #[test]
    fn they_come_out_in_order() {
        let mut few = Few::new();
        [None, Some(1), None, Some(2), Some(3)].into_iter().for_each(|one| few.add(one));
        let mut more = Few::new();
        [Some(4), Some(5)].into_iter().for_each(|one| more.add(one));
        few.append(more);
        assert_eq!(format!("{few:?}"), "[1, 2, 3, 4, 5]");
        let mut seen = Vec::new();
        few.each(|one| seen.push(one));
        assert_eq!(seen, [1, 2, 3, 4, 5]);
    }
}
