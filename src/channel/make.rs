//! What makes channels, and the receivers whose messages the clock makes.

use super::core::Core;
use super::receiver::{Flavor, Receiver};
use super::sender::Sender;
use super::timed::{Once, Ticks, Timed};
use crate::primitives::clock::Moment;
use crate::primitives::sync::Arc;
use crate::primitives::sync::atomic::AtomicBool;
use crate::time::{self, Instant};
use std::time::Duration;

/// A channel without a limit: a send never waits, and lets no other fiber run.
///
/// ```
/// use volt::channel::unbounded;
///
/// let (s, r) = unbounded();
/// volt::go(move || s.send(55).unwrap());
/// assert_eq!(r.recv(), Ok(55));
/// ```
pub fn unbounded<T>() -> (Sender<T>, Receiver<T>) {
    pair(None)
}

/// A channel that holds at most `cap` messages: a send to a full one waits.
///
/// With a capacity of zero it holds none: a send waits for a receive, and hands the message over.
///
/// ```
/// use volt::channel::bounded;
///
/// let (s, r) = bounded(1);
/// s.send(1).unwrap();
/// assert!(s.try_send(2).unwrap_err().is_full());
/// assert_eq!(r.recv(), Ok(1));
///
/// let (s, r) = bounded(0);
/// volt::go(move || s.send("by hand").unwrap());
/// assert_eq!(r.recv(), Ok("by hand"));
/// ```
pub fn bounded<T>(cap: usize) -> (Sender<T>, Receiver<T>) {
    pair(Some(cap))
}

fn pair<T>(capacity: Option<usize>) -> (Sender<T>, Receiver<T>) {
    let core = Arc::new(Core::new(capacity));
    (Sender { core: Arc::clone(&core) }, Receiver { flavor: Flavor::Channel(core) })
}

/// A receiver that gets one message, `duration` from now: the time at which it was due.
///
/// The message is the standard library's `Instant`, as `crossbeam-channel`'s is, so that programs need
/// only change the path.
///
/// ```
/// use std::time::Duration;
/// use volt::channel::{after, select, unbounded};
///
/// let (_s, r) = unbounded::<i32>();
/// select! {
///     recv(r) -> _ => unreachable!(),
///     recv(after(Duration::from_millis(5))) -> _ => println!("timed out"),
/// }
/// ```
pub fn after(duration: Duration) -> Receiver<std::time::Instant> {
    match due_in(duration) {
        Some((when, due)) => once(when, due),
        None => never(),
    }
}

/// A receiver that gets one message at `when`, an `Instant` of `volt::time` or of the standard
/// library: the time at which it was due.
///
/// ```
/// use std::time::{Duration, Instant};
///
/// let end = Instant::now() + Duration::from_millis(5);
/// assert_eq!(volt::channel::at(end).recv(), Ok(end));
/// assert!(Instant::now() >= end);
/// ```
pub fn at(
    when: impl Into<Instant> + Into<std::time::Instant> + Copy,
) -> Receiver<std::time::Instant> {
    let due: Instant = when.into();
    once(when.into(), due.0)
}

/// A receiver that never gets a message and is never disconnected.
///
/// ```
/// use std::time::Duration;
/// use volt::channel::{after, never, select};
///
/// // A time-out that is there, or not.
/// let patience: Option<Duration> = None;
/// let timeout = patience.map(after).unwrap_or(never());
/// select! {
///     recv(timeout) -> _ => unreachable!(),
///     default => {}
/// }
/// ```
pub const fn never<T>() -> Receiver<T> {
    Receiver { flavor: Flavor::Never }
}

/// A receiver that gets a message every `duration`, first after one of them: the time at which it was
/// due. What is not received in time is left out: at most one message waits.
///
/// ```
/// use std::time::{Duration, Instant};
///
/// let start = Instant::now();
/// let ticker = volt::channel::tick(Duration::from_millis(2));
/// ticker.recv().unwrap();
/// ticker.recv().unwrap();
/// assert!(start.elapsed() >= Duration::from_millis(4));
/// ```
pub fn tick(duration: Duration) -> Receiver<std::time::Instant> {
    match due_in(duration) {
        Some((when, due)) => timed(Ticks::new(when, due, duration)),
        None => never(),
    }
}

/// The moment `duration` from now, on both clocks. The second is not behind, so that no message is
/// received before the time that it names.
fn due_in(duration: Duration) -> Option<(std::time::Instant, Moment)> {
    let (there, here) = time::both_now();
    Some((there.checked_add(duration)?, here.checked_add(duration)?))
}

fn once(when: std::time::Instant, due: Moment) -> Receiver<std::time::Instant> {
    timed(Once { when, due, taken: AtomicBool::new(false) })
}

fn timed<T>(clock: impl Timed<T> + 'static) -> Receiver<T> {
    Receiver { flavor: Flavor::Timed(std::sync::Arc::new(clock)) }
}
