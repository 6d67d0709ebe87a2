//! Cases of others: the open [`Case`], and the [`Waiter`] through which they end a select's wait. How that is
//! kept apart from the wait itself: `ticket.rs`.

use super::case::{Attempt, Identity, Kind, Purpose, Selectable, Source};
use super::parcel::Parcel;
use super::select_node::SelectNode;
use super::selected::SelectedOperation;
use super::ticket::{READY, Stand, Ticket};
use crate::primitives::sync::Arc;
use std::fmt;

/// A case of your own for [`select!`](macro@crate::channel::select) and [`Select`](super::Select): for what
/// the [others](Selectable) cannot say.
///
/// A source of events keeps its state under a lock of its own (one of [`std::sync`] will do, held
/// shortly), and with it the [`Waiter`]s of those selects that wait for it.
///
/// # Protocol
///
/// 1. The select asks each case to [`attempt`](Case::attempt) its effect, in a random order. The first that
///    can is chosen.
/// 2. If none can, each gets a waiter by [`register`](Case::register): under its lock it looks once more,
///    and keeps the waiter, or says that it is ready.
/// 3. Whoever brings an event takes a waiter out, under the lock, and calls [`choose`](Waiter::choose). If that
///    says true the case is chosen, and the event is that select's: it must not be given to anybody
///    else. If it says false that select has ended otherwise, and the event is still there for the next
///    waiter, or to be kept. ([`wake`](Waiter::wake) instead makes the select begin again with 1, for a
///    source that does not give its events to one.)
/// 4. The wait ends, by whatever case, time-out or cancel. Each case forgets its waiter in
///    [`unregister`](Case::unregister), chosen or not.
/// 5. The chosen case alone is [completed](Case::complete), or, if whoever selected has unwound or thrown
///    the operation away, [`withdraw`](Case::withdraw)n.
///
/// Between 1 or 3 and 5 the case must keep what is given with the event, so that `complete` finds it. A
/// case that several select on at the same time may have several such.
///
/// # Cancel and panic
///
/// A fiber that is cancelled unwinds out of the select, after step 4. All methods are called while no wait
/// is open; they may wait themselves, though nobody will thank them for it. A panic comes out of the
/// select; the other cases have been unregistered then, and if one was chosen it is withdrawn, or its message
/// goes back to the channel.
///
/// # Example
///
/// A last-in, first-out stack of jobs.
///
/// ```
/// use std::sync::Mutex;
/// use volt::channel::{Case, Waiter, select};
///
/// #[derive(Default)]
/// struct Jobs(Mutex<Inner>);
///
/// #[derive(Default)]
/// struct Inner {
///     free: Vec<u32>,
///     /// Given to selects that are about to complete.
///     given: Vec<u32>,
///     waiters: Vec<Waiter>,
/// }
///
/// impl Inner {
///     fn put(&mut self, job: u32) {
///         while let Some(waiter) = self.waiters.pop() {
///             if waiter.choose() {
///                 return self.given.push(job);
///             }
///         }
///         self.free.push(job);
///     }
/// }
///
/// impl Jobs {
///     fn push(&self, job: u32) {
///         self.0.lock().unwrap().put(job);
///     }
/// }
///
/// impl Case for Jobs {
///     type Output<'a> = u32;
///
///     fn attempt(&self) -> bool {
///         let mut inner = self.0.lock().unwrap();
///         let job = inner.free.pop();
///         inner.given.extend(job);
///         job.is_some()
///     }
///
///     fn is_ready(&self) -> bool {
///         !self.0.lock().unwrap().free.is_empty()
///     }
///
///     fn register(&self, waiter: &Waiter) -> bool {
///         let mut inner = self.0.lock().unwrap();
///         let empty = inner.free.is_empty();
///         if empty {
///             inner.waiters.push(waiter.clone());
///         }
///         empty
///     }
///
///     fn unregister(&self, waiter: &Waiter) {
///         self.0.lock().unwrap().waiters.retain(|other| other != waiter);
///     }
///
///     fn complete(&self) -> u32 {
///         self.0.lock().unwrap().given.pop().unwrap()
///     }
///
///     fn withdraw(&self) {
///         let mut inner = self.0.lock().unwrap();
///         let job = inner.given.pop().unwrap();
///         inner.put(job);
///     }
/// }
///
/// let jobs = std::sync::Arc::new(Jobs::default());
/// let theirs = std::sync::Arc::clone(&jobs);
/// volt::go(move || theirs.push(7));
/// select! {
///     wait(*jobs) -> job => assert_eq!(job, 7),
///     default(std::time::Duration::from_secs(60)) => unreachable!(),
/// }
/// ```
pub trait Case: Sync {
    /// What the case gives when it was chosen.
    type Output<'a>
    where
        Self: 'a;

    /// Has the effect now, if that is possible; `complete` or `withdraw` follows if it says true.
    fn attempt(&self) -> bool;

    /// Could `attempt` say true now? For [`Select::ready`](super::Select::ready).
    fn is_ready(&self) -> bool;

    /// Keeps the waiter, or a clone of it, until there is an event to choose it for; false, and nothing
    /// kept, if there is one already. The look and the keeping are one step, under the lock.
    fn register(&self, waiter: &Waiter) -> bool;

    /// Forgets the waiter, which `register` has kept. It may be gone already.
    fn unregister(&self, waiter: &Waiter);

    /// The case was chosen: gives what was kept for it.
    fn complete(&self) -> Self::Output<'_>;

    /// The case was chosen, but is not completed: takes back what was kept for it.
    fn withdraw(&self) {}
}

/// One case of one wait of a select; from the hands of the select into those of a [`Case`].
///
/// It may be cloned, kept and called when its wait is long over, or the fiber gone: it does nothing then.
/// A waiter and its clones are equal, and equal to no other.
///
/// There is an example at [`choose`](Waiter::choose), and a whole one at [`Case`].
#[derive(Clone)]
pub struct Waiter {
    ticket: Arc<Ticket>,
    /// The case's place among those of the wait.
    position: u32,
    /// The select will not carry the case out.
    watches: bool,
}

// Nothing of it is left half changed by a panic.
impl std::panic::UnwindSafe for Waiter {}
impl std::panic::RefUnwindSafe for Waiter {}

impl Waiter {
    pub(super) fn new(ticket: Arc<Ticket>, position: u32, watches: bool) -> Waiter {
        Waiter { ticket, position, watches }
    }

    /// Chooses this case, unless the select has ended otherwise. True if so: the effect is that select's
    /// from now on, and it will complete it. False: it is the caller's still.
    ///
    /// It says false too, and wakes the select, if that only wants to know whether the case is ready
    /// ([`Select::ready`](super::Select::ready)). So it is called under the source's lock: whoever was woken
    /// then sees what becomes of the effect.
    ///
    /// Works from fibers and plain threads alike. Never waits.
    ///
    /// ```
    /// use volt::channel::{Case, Waiter, select};
    ///
    /// /// Rings as soon as somebody waits for it.
    /// struct Bell;
    ///
    /// impl Case for Bell {
    ///     # type Output<'a> = ();
    ///     # fn attempt(&self) -> bool { false }
    ///     # fn is_ready(&self) -> bool { false }
    ///     # fn unregister(&self, _: &Waiter) {}
    ///     # fn complete(&self) {}
    ///     fn register(&self, waiter: &Waiter) -> bool {
    ///         let waiter = waiter.clone();
    ///         volt::go(move || assert!(waiter.choose()));
    ///         true
    ///     }
    ///     // ...
    /// }
    ///
    /// select! {
    ///     wait(Bell) -> () => {}
    /// }
    /// ```
    pub fn choose(&self) -> bool {
        if self.watches {
            self.wake();
            return false;
        }
        self.ticket.end(Stand::Chosen(self.position), self.position)
    }

    /// Makes the select try all its cases again, if it still waits.
    ///
    /// Works from fibers and plain threads alike. Never waits.
    ///
    /// ```
    /// use std::sync::atomic::{AtomicBool, Ordering};
    /// use volt::channel::{Case, Waiter, select};
    ///
    /// /// Is there at the second look.
    /// #[derive(Default)]
    /// struct Second(AtomicBool);
    ///
    /// impl Case for Second {
    ///     # type Output<'a> = ();
    ///     # fn is_ready(&self) -> bool { self.0.load(Ordering::Relaxed) }
    ///     # fn unregister(&self, _: &Waiter) {}
    ///     # fn complete(&self) {}
    ///     fn attempt(&self) -> bool {
    ///         self.0.swap(true, Ordering::Relaxed)
    ///     }
    ///
    ///     fn register(&self, waiter: &Waiter) -> bool {
    ///         waiter.wake();
    ///         true
    ///     }
    ///     // ...
    /// }
    ///
    /// select! {
    ///     wait(Second::default()) -> () => {}
    /// }
    /// ```
    pub fn wake(&self) {
        self.ticket.end(Stand::Changed, READY);
    }
}

impl PartialEq for Waiter {
    fn eq(&self, other: &Waiter) -> bool {
        Arc::ptr_eq(&self.ticket, &other.ticket) && self.position == other.position
    }
}

impl Eq for Waiter {}

impl fmt::Debug for Waiter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Waiter").field("position", &self.position).finish_non_exhaustive()
    }
}

/// A case of others, as the select sees it.
pub trait Open {
    /// See [`Case::register`].
    fn register(&self, waiter: &Waiter) -> bool;

    /// See [`Case::unregister`].
    fn unregister(&self, waiter: &Waiter);
}

impl<C: Case> Open for C {
    fn register(&self, waiter: &Waiter) -> bool {
        Case::register(self, waiter)
    }

    fn unregister(&self, waiter: &Waiter) {
        Case::unregister(self, waiter);
    }
}

impl<C: Case> Source for C {
    fn attempt(&self, _parcel: &mut Parcel) -> Attempt {
        if Case::attempt(self) { Attempt::Chosen } else { Attempt::NotReady }
    }

    fn is_ready(&self) -> bool {
        Case::is_ready(self)
    }

    fn handed(&self, _node: &SelectNode) -> Option<bool> {
        Some(true)
    }

    /// From outside, for all that one knows.
    fn kind(&self) -> Kind {
        Kind { open: true, outside: true, ..Kind::PLAIN }
    }

    fn open(&self) -> Option<&dyn Open> {
        Some(self)
    }

    fn identity(&self) -> Identity {
        Identity { address: std::ptr::from_ref(self).cast(), open: true }
    }

    unsafe fn link(&self, _: &SelectNode, _: Purpose) -> bool {
        // It has its waiter since before.
        true
    }

    fn withdraw(&self) {
        Case::withdraw(self);
    }
}

impl<C: Case> Selectable for C {
    type Output<'a>
        = C::Output<'a>
    where
        C: 'a;

    fn complete<'a>(&'a self, chosen: SelectedOperation<'a>) -> C::Output<'a> {
        chosen.into_promise(self.identity());
        Case::complete(self)
    }
}
