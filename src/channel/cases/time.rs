//! A time that comes.

use super::super::case::{Attempt, Selectable, Source};
use super::super::parcel::Parcel;
use super::super::selected::SelectedOperation;
use crate::park::has_passed;
use crate::time::Instant;

impl Source for Instant {
    fn attempt(&self, _parcel: &mut Parcel) -> Attempt {
        if self.is_ready() { Attempt::Chosen } else { Attempt::NotReady }
    }

    fn is_ready(&self) -> bool {
        has_passed(self.0)
    }

    fn due(&self) -> Option<Instant> {
        Some(*self)
    }
}

/// The output is the instant itself.
///
/// ```
/// use volt::channel::select;
/// use volt::time::{Duration, Instant};
///
/// let soon = Instant::now() + Duration::from_millis(1);
/// select! {
///     wait(soon) -> at => assert!(at == soon && Instant::now() >= soon),
/// }
/// ```
impl Selectable for Instant {
    type Output<'a> = Instant;

    fn complete(&self, chosen: SelectedOperation<'_>) -> Instant {
        chosen.into_promise(self.identity());
        *self
    }
}
