//! One of something, hardly ever more: the first needs no allocation.

/// See the module. In the order in which they came.
#[derive(Debug)]
#[must_use]
pub(crate) struct Few<T> {
    first: Option<T>,
    more: Vec<T>,
}

impl<T> Few<T> {
    #[inline(always)]
    pub(crate) const fn new() -> Few<T> {
        Few { first: None, more: Vec::new() }
    }

    #[inline(always)]
    pub(crate) fn add(&mut self, one: Option<T>) {
        let Some(one) = one else { return };
        match self.first {
            None => self.first = Some(one),
            Some(_) => self.more.push(one),
        }
    }

    #[inline(always)]
    pub(crate) fn each(self, mut f: impl FnMut(T)) {
        if let Some(first) = self.first {
            f(first);
        }
        if !self.more.is_empty() {
            self.more.into_iter().for_each(f);
        }
    }
}

impl<T> Default for Few<T> {
    fn default() -> Few<T> {
        Few::new()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::Few;

    #[test]
    fn they_come_out_in_order() {
        let mut few = Few::new();
        [None, Some(1), None, Some(2), Some(3)].into_iter().for_each(|one| few.add(one));
        let mut seen = Vec::new();
        few.each(|one| seen.push(one));
        assert_eq!(seen, [1, 2, 3]);
    }
}
