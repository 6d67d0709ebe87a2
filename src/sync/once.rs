//! [`Once`].

use super::raw_once::{Begin, RawOnce};
use crate::cancel;
use std::fmt;
use std::panic::{RefUnwindSafe, UnwindSafe};

/// Something that is done once, by whoever comes first; mirrors [`std::sync::Once`].
///
/// What is done is shielded from cancels, since others depend on it. Those who wait for it unwind when
/// they are cancelled; a plain thread that waits for it blocks.
///
/// ```
/// static STARTED: volt::sync::Once = volt::sync::Once::new();
///
/// let mut times = 0;
/// for _ in 0..3 {
///     STARTED.call_once(|| times += 1);
/// }
/// assert_eq!(times, 1);
/// ```
pub struct Once(RawOnce);

impl UnwindSafe for Once {}
impl RefUnwindSafe for Once {}

/// How things stand when [`Once::call_once_force`] calls; mirrors [`std::sync::OnceState`].
///
/// ```
/// volt::sync::Once::new().call_once_force(|state| assert!(!state.is_poisoned()));
/// ```
pub struct OnceState {
    poisoned: bool,
}

impl OnceState {
    /// Has an earlier call panicked?
    ///
    /// ```
    /// volt::sync::Once::new().call_once_force(|state| assert!(!state.is_poisoned()));
    /// ```
    pub fn is_poisoned(&self) -> bool {
        self.poisoned
    }
}

impl fmt::Debug for OnceState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OnceState").field("poisoned", &self.is_poisoned()).finish()
    }
}

#[cold]
#[track_caller]
fn poisoned() -> ! {
    panic!("Once instance has previously been poisoned: what it calls has panicked");
}

impl Once {
    /// Nothing has been called yet.
    ///
    /// ```
    /// static ONCE: volt::sync::Once = volt::sync::Once::new();
    /// assert!(!ONCE.is_completed());
    /// ```
    #[expect(clippy::new_without_default, reason = "as the standard library's")]
    #[must_use]
    pub const fn new() -> Once {
        Once(RawOnce::new())
    }

    /// Calls `f` unless it has been done; waits while somebody else does it. When this returns it has
    /// been done, and its effects are seen.
    ///
    /// # Panics
    ///
    /// If an earlier call has panicked.
    ///
    /// # Cancellation
    ///
    /// Unwinds if it would have to wait. `f` itself is shielded.
    ///
    /// ```
    /// let once = volt::sync::Once::new();
    /// once.call_once(|| println!("only this time"));
    /// once.call_once(|| unreachable!());
    /// ```
    #[inline]
    #[track_caller]
    pub fn call_once<F: FnOnce()>(&self, f: F) {
        if !self.0.is_done() && !self.call(false, |_| f()) {
            poisoned();
        }
    }

    /// As [`call_once`](Once::call_once), but also after a panic.
    ///
    /// # Cancellation
    ///
    /// As [`call_once`](Once::call_once).
    ///
    /// ```
    /// let once = volt::sync::Once::new();
    /// once.call_once_force(|state| assert!(!state.is_poisoned()));
    /// assert!(once.is_completed());
    /// ```
    #[inline]
    pub fn call_once_force<F: FnOnce(&OnceState)>(&self, f: F) {
        if !self.0.is_done() {
            self.call(true, f);
        }
    }

    /// False if an earlier call has panicked.
    #[cold]
    fn call(&self, force: bool, f: impl FnOnce(&OnceState)) -> bool {
        match self.0.begin(force) {
            Ok(Begin::Done) => true,
            Ok(Begin::Poisoned) => false,
            Ok(Begin::Run(running)) => {
                let state = OnceState { poisoned: running.was_poisoned() };
                cancel::shield(|| f(&state));
                running.done();
                true
            }
            Err(_) => cancel::unwind(),
        }
    }

    /// Has a call returned?
    ///
    /// ```
    /// let once = volt::sync::Once::new();
    /// once.call_once(|| ());
    /// assert!(once.is_completed());
    /// ```
    #[inline]
    pub fn is_completed(&self) -> bool {
        self.0.is_done()
    }

    /// Waits until somebody has done it.
    ///
    /// # Panics
    ///
    /// If a call panics, or has.
    ///
    /// # Cancellation
    ///
    /// Unwinds if it would have to wait.
    ///
    /// ```
    /// use volt::sync::{Arc, Once};
    ///
    /// let once = Arc::new(Once::new());
    /// let theirs = Arc::clone(&once);
    /// volt::go(move || theirs.call_once(|| ()));
    /// once.wait();
    /// assert!(once.is_completed());
    /// ```
    #[track_caller]
    pub fn wait(&self) {
        if !self.wait_done(false) {
            poisoned();
        }
    }

    /// As [`wait`](Once::wait), but goes on waiting after a panic.
    ///
    /// # Cancellation
    ///
    /// Unwinds if it would have to wait.
    ///
    /// ```
    /// let once = volt::sync::Once::new();
    /// once.call_once(|| ());
    /// once.wait_force();
    /// ```
    pub fn wait_force(&self) {
        self.wait_done(true);
    }

    fn wait_done(&self, force: bool) -> bool {
        self.0.is_done() || self.0.wait_done(force).unwrap_or_else(|_| cancel::unwind())
    }

    /// Of one that nobody else can reach: has a call panicked, and none returned since?
    pub(super) fn is_poisoned(&mut self) -> bool {
        self.0.is_poisoned()
    }
}

impl fmt::Debug for Once {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Once").finish_non_exhaustive()
    }
}
