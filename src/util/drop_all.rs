//! The end of many values of the user's.

/// Drops what `next` gives, until there is no more. If a destructor panics the rest is leaked: where a drop
/// has brought this on, a second panic would end the process.
pub(crate) fn drop_all<T>(next: impl FnMut() -> Option<T>) {
    let mut rest = Rest(next);
    while let Some(value) = (rest.0)() {
        drop(value);
    }
}

struct Rest<T, F: FnMut() -> Option<T>>(F);

impl<T, F: FnMut() -> Option<T>> Drop for Rest<T, F> {
    fn drop(&mut self) {
        while let Some(value) = (self.0)() {
            std::mem::forget(value);
        }
    }
}
