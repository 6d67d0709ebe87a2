//! The end of results that nobody takes.

use crate::cancel;
use crate::util::forget_panics;

/// Drops a result that nobody takes. What its destructor waits for is waited for, cancelled or not, and a panic of it
/// ends here.
pub(super) fn drop_untaken<T>(result: T) {
    // A cancel that ended a wait of the destructor's would be forgotten with the panics.
    forget_panics(|| cancel::shield(|| drop(result)));
}
