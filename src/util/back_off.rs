//! How often something is left out that has not paid.

use super::countdown::Countdown;

/// So many times in a row at most.
const MOST: u32 = 63;

/// What has not paid is left out once, then 3 times, 7, and up to [`MOST`]; what has paid is tried again.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct BackOff {
    left: Countdown,
    /// So many times after the last try.
    last: u32,
}

impl BackOff {
    /// It was tried, and has paid or not.
    pub(crate) fn tried(&mut self, paid: bool) {
        self.last = if paid { 0 } else { MOST.min(2 * self.last + 1) };
        self.left = Countdown(self.last);
    }

    /// Is it left out this time?
    pub(crate) fn leaves_out(&mut self) -> bool {
        self.left.runs()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    /// So many times it is left out until the next try.
    fn gap(back_off: &mut BackOff) -> usize {
        std::iter::from_fn(|| back_off.leaves_out().then_some(())).count()
    }

    #[test]
    fn what_does_not_pay_becomes_rare_until_it_does() {
        let mut back_off = BackOff::default();
        let mut gaps = |paid: &[bool]| -> Vec<usize> {
            let gap_after = |paid: &bool| {
                back_off.tried(*paid);
                gap(&mut back_off)
            };
            paid.iter().map(gap_after).collect()
        };
        assert_eq!(gaps(&[false; 8]), [1, 3, 7, 15, 31, 63, 63, 63]);
        assert_eq!(gaps(&[true, true, false, false, true]), [0, 0, 1, 3, 0]);
    }
}
