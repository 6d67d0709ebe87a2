//! How often something is still left out.

/// So many times more.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Countdown(pub(super) u32);

impl Countdown {
    /// Is it left out this time?
    pub(super) fn runs(&mut self) -> bool {
        let runs = self.0 > 0;
        self.0 -= u32::from(runs);
        runs
    }
}
