//! Short waits for a timer: the poller counts in nanoseconds by itself.

use mio::Poll;
use std::time::Duration;

pub(super) fn is_worth_it(_timeout: Duration) -> bool {
    false
}

pub(super) fn wait(_poll: &Poll, _timeout: Duration) -> Option<bool> {
    None
}
