//! How a send or a receive ends that has nothing to show.

/// The receiver is gone.
#[derive(Debug)]
pub(super) struct Gone<T>(pub(super) T);

/// Why a value was not sent.
#[derive(Debug)]
pub(super) enum NotSent<T> {
    Full(T),
    Disconnected(T),
    Cancelled(T),
}

/// Why there is no value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NotReceived {
    Empty,
    Disconnected,
    TimedOut,
    Cancelled,
}

impl NotReceived {
    /// Looked for once more when the time was over.
    pub(super) fn late(self) -> NotReceived {
        if self == NotReceived::Empty { NotReceived::TimedOut } else { self }
    }
}
