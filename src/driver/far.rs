//! The end of a sleep in the poller: told to it each time.

use crate::primitives::clock::Moment;
use mio::{Registry, Token};
use std::io;
use std::time::Duration;

#[derive(Debug)]
pub(super) struct Far;

impl Far {
    pub(super) fn new(_registry: &Registry, _token: Token) -> io::Result<Far> {
        Ok(Far)
    }

    pub(super) fn timeout(&mut self, now: Moment, end: Moment) -> Option<Duration> {
        (end != Moment::NEVER).then(|| end.since(now))
    }

    pub(super) fn rang(&mut self) {}

    pub(super) fn slept(&mut self, _time: Duration) {}
}
