//! Whether something is tried that takes more where it is in vain than it gains where it pays.

use super::countdown::Countdown;

/// So many times in a row it is left out at most.
const MOST: u32 = 62;
/// So many in a row that paid make up for one in vain.
const GOOD: u32 = 4;

/// In vain, it is left out the next 2, 10, 42 and [`MOST`] times, until [`GOOD`] in a row have paid: then all is well,
/// and one in vain is forgiven. So it is in vain once in three times at most where it mostly pays, and once in 63 where
/// it does not. (Numbers are even, so that what comes in turns has its turn.)
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Odds {
    left: Countdown,
    /// So many times after the last one in vain.
    last: u32,
    /// So many have paid in a row, up to [`GOOD`].
    paid: u32,
}

impl Odds {
    /// It was tried, and has paid or not.
    pub(crate) fn tried(&mut self, paid: bool) {
        let was_good = self.paid == GOOD;
        self.paid = if paid { GOOD.min(self.paid + 1) } else { 0 };
        if was_good || self.paid == GOOD {
            self.last = 0;
        } else if !paid {
            self.last = MOST.min(4 * self.last + 2);
        }
        self.left = Countdown(if paid { 0 } else { self.last });
    }

    /// Is it left out this time?
    pub(crate) fn leaves_out(&mut self) -> bool {
        self.left.runs()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    /// So many times it is left out after each of these.
    fn gaps(odds: &mut Odds, paid: &[bool]) -> Vec<usize> {
        let gap_after = |paid: &bool| {
            odds.tried(*paid);
            std::iter::from_fn(|| odds.leaves_out().then_some(())).count()
        };
        paid.iter().map(gap_after).collect()
    }

    #[test]
    fn what_does_not_pay_becomes_rare_until_it_does() {
        let mut odds = Odds::default();
        assert!(!odds.leaves_out());
        assert_eq!(gaps(&mut odds, &[false; 5]), [2, 10, 42, 62, 62]);
        assert_eq!(
            gaps(&mut odds, &[true, true, true, false]),
            [0, 0, 0, 62],
            "three are not enough"
        );
        assert_eq!(gaps(&mut odds, &[true; 5]), [0; 5]);
    }

    #[test]
    fn one_is_forgiven_after_four_that_paid() {
        let mut odds = Odds::default();
        let four = [true, true, true, true, false];
        assert_eq!(gaps(&mut odds, &four), [0; 5]);
        assert_eq!(gaps(&mut odds, &[false]), [2], "and not the next");
        assert_eq!(gaps(&mut odds, &[true, true, true, false]), [0, 0, 0, 10]);
    }

    /// Of what comes in turns that pay and turns that do not, for ever.
    #[test]
    fn what_is_in_vain_is_made_up_for_or_rare() {
        const TURNS: usize = if cfg!(miri) { 10_000 } else { 100_000 };
        for (pay, fail) in (0..=6).flat_map(|pay| (1..=3).map(move |fail| (pay, fail))) {
            let (mut odds, mut tried, mut vain) = (Odds::default(), 0, 0);
            for paid in (0..TURNS).map(|turn| turn % (pay + fail) < pay) {
                if !odds.leaves_out() {
                    odds.tried(paid);
                    tried += 1;
                    vain += usize::from(!paid);
                }
            }
            assert!(3 * vain <= tried + 2 || 60 * vain <= TURNS, "{pay} {fail}: {vain} of {tried}");
        }
    }
}
