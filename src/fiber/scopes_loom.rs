//! Under loom waiters have no scopes and no marks: these are their owner's alone.

use super::interrupt::Interrupt;

/// Of the real ones, that which others end.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Limit<'a> {
    Interrupt(&'a Interrupt),
}

#[derive(Debug)]
pub(crate) struct Scopes;

impl Scopes {
    pub(super) const fn new() -> Scopes {
        Scopes
    }
}

#[derive(Debug)]
pub(crate) struct Marks;

impl Marks {
    pub(super) const fn new() -> Marks {
        Marks
    }
}
