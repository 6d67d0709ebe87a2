//! The poller: one thread at a time turns it, waits in it, or interrupts the one who waits.

use super::alarm::Alarm;
use super::exact;
use super::far::Far;
use super::registration::Registration;
use super::slots::Slots;
use super::timers::Timers;
use crate::fiber::Batch;
use crate::primitives::clock::Moment;
use crate::primitives::sync::{Arc, Mutex, MutexGuard};
use crate::primitives::{forbidden, not_opened};
use mio::{Events, Interest, Poll, Registry, Token, Waker, unix::SourceFd};
use std::io;
use std::os::fd::RawFd;
use std::time::Duration;

/// Events fetched by one call, half of a worker's ring: what is beyond stays ready in the kernel, where
/// the next worker that looks finds it.
const EVENTS: usize = 128;
/// From the first wait for a timer after a while without to the second, at least: timers that were set together come in
/// two wakes, not a millisecond apart.
const SOON: Duration = Duration::from_micros(250);
/// Who is to wake within this does not look on before: it gives way to others meanwhile, who may keep the processor for
/// longer.
const CLOSE: Duration = Duration::from_micros(200);
/// What the system calls the poller's wait.
const WAIT: &str =
    if cfg!(any(target_os = "linux", target_os = "android")) { "epoll_wait" } else { "kevent" };
const WAKER: Token = Token(usize::MAX);
/// The bell of `far`.
const BELL: Token = Token(usize::MAX - 1);

/// The driver of one runtime.
#[derive(Debug)]
pub(crate) struct Driver {
    role: Mutex<Inner>,
    registry: Registry,
    waker: Waker,
    pub(super) slots: Slots,
    pub(crate) timers: Timers,
    alarm: Alarm,
    /// Has the next one that tells of an earlier deadline unwind.
    #[cfg(test)]
    pub(crate) fails: crate::primitives::sync::atomic::AtomicBool,
}

#[derive(Debug)]
struct Inner {
    poll: Poll,
    events: Events,
    /// When a wait for a timer may be over next: as far [`apart`](Timers::apart) from when it might have been the last
    /// time, or [`SOON`] after the last one was if that is later and less far.
    next_in_time: Moment,
    far: Far,
}

/// The right to turn the driver (the room's invariant 1).
#[derive(Debug)]
pub(crate) struct Role<'a>(MutexGuard<'a, Inner>);

#[cfg(all(test, any(target_os = "linux", target_os = "android")))]
impl Role<'_> {
    pub(super) fn has_set_its_bell(&self) -> bool {
        self.0.far.is_set()
    }

    /// In the last turn.
    pub(super) fn has_heard_its_bell(&self) -> bool {
        self.0.events.iter().any(|event| event.token() == BELL)
    }

    pub(super) fn set_its_bell(&mut self, at: Moment) {
        self.0.far.slept(Duration::ZERO);
        assert_eq!(self.0.far.timeout(Moment::PAST, at), None, "it has none");
    }

    pub(super) fn next_in_time(&self) -> Moment {
        self.0.next_in_time
    }
}

/// How a wait in the poller has ended.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Awake {
    pub(crate) at: Moment,
    /// Nothing came before the time that it was to end at.
    pub(crate) by_timer: bool,
    /// Fibers that waited for sockets were.
    pub(crate) by_sockets: bool,
    /// It looked on before it slept, or instead.
    pub(crate) looked: bool,
}

/// Asked after each look in vain whether to go on so instead of sleeping; when that was, if so.
pub(crate) type GoesOn<'a> = dyn FnMut() -> Option<Moment> + 'a;

impl Driver {
    /// A driver with `shards` timer wheels.
    ///
    /// # Errors
    ///
    /// What could not be opened, with what the kernel says.
    pub(crate) fn new(shards: usize) -> io::Result<Arc<Driver>> {
        let poll = Poll::new().map_err(|error| not_opened("a poller", &error))?;
        let registry = poll.registry().try_clone();
        let registry = registry.map_err(|error| not_opened("a poller's second handle", &error))?;
        let waker = Waker::new(&registry, WAKER);
        let waker = waker.map_err(|error| not_opened("a poller's waker", &error))?;
        let far = Far::new(&registry, BELL)?;
        let events = Events::with_capacity(EVENTS);
        Ok(Arc::new(Driver {
            role: Mutex::new(Inner { poll, events, next_in_time: Moment::PAST, far }),
            registry,
            waker,
            slots: Slots::new(),
            timers: Timers::new(shards, Moment::now()),
            alarm: Alarm::new(),
            #[cfg(test)]
            fails: false.into(),
        }))
    }

    /// Takes the role if nobody has it.
    pub(crate) fn try_role(&self) -> Option<Role<'_>> {
        self.role.try_lock().map(Role)
    }

    /// Are there descriptors that somebody has waited for? They count until they are closed.
    pub(crate) fn has_sources(&self) -> bool {
        self.slots.any_in_use()
    }

    /// Looks at sockets and timers without waiting.
    pub(crate) fn look(&self, role: &mut Role<'_>, now: Moment, settled: &mut Batch) {
        if self.has_sources() {
            self.poll(role, Some(Duration::ZERO), settled);
        }
        self.timers.expire(now, settled);
    }

    /// Waits for sockets, for the next timer, for what `until` says or for an interrupt; looks on for as long as
    /// `looks_on` says, and sleeps then. `now` is a moment ago.
    pub(crate) fn wait(
        &self,
        role: &mut Role<'_>,
        now: Moment,
        until: impl Fn() -> Moment,
        looks_on: Option<&mut GoesOn<'_>>,
        settled: &mut Batch,
    ) -> Awake {
        let in_time = role.0.next_in_time;
        let wake_at = self.alarm.set(|| self.wake_at(now, in_time).min(until()));
        let looks_on = looks_on.filter(|_| wake_at.since(now) >= CLOSE);
        let looked = looks_on.is_some();
        match looks_on {
            Some(goes_on) => {
                if !self.look_on(role, wake_at, goes_on, settled) {
                    self.sleep(role, Moment::now(), wake_at, settled);
                }
            }
            None => self.sleep(role, now, wake_at, settled),
        }
        self.alarm.clear();
        let at = Moment::now();
        role.0.far.slept(at.since(now));
        let by_sockets = !settled.is_empty();
        let by_timer = !by_sockets && at >= wake_at;
        self.timers.expire(at, settled);
        Awake { at, by_timer, by_sockets, looked }
    }

    /// Looks again and again; `true` if anything has come, an interrupt too.
    fn look_on(
        &self,
        role: &mut Role<'_>,
        wake_at: Moment,
        goes_on: &mut GoesOn<'_>,
        settled: &mut Batch,
    ) -> bool {
        while !self.poll(role, Some(Duration::ZERO), settled) {
            if goes_on().is_none_or(|now| now >= wake_at) {
                return false;
            }
        }
        true
    }

    fn sleep(&self, role: &mut Role<'_>, now: Moment, wake_at: Moment, settled: &mut Batch) {
        let next = self.timers.next_deadline();
        if exact::is_worth_it(wake_at.since(now)) && wake_at >= next {
            let wake_at = wake_at.max(self.timers.gather(now, next));
            self.wait_exactly(role, wake_at.since(now), self.timers.apart(now), settled);
        } else {
            let timeout = role.0.far.timeout(now, wake_at);
            self.poll(role, timeout, settled);
        }
    }

    /// When to wake for the next timer, for which a wait may be over `in_time`.
    fn wake_at(&self, now: Moment, in_time: Moment) -> Moment {
        let next = self.timers.next_deadline();
        let is_exact = exact::is_worth_it(next.since(now));
        if is_exact { self.timers.put_off(next, now, in_time) } else { next }
    }

    /// After it the next such wait is over `apart` from when this one might have been.
    fn wait_exactly(
        &self,
        role: &mut Role<'_>,
        timeout: Duration,
        apart: Duration,
        settled: &mut Batch,
    ) {
        let Inner { poll, next_in_time, .. } = &mut *role.0;
        match exact::wait(poll, timeout) {
            Some(true) => {
                self.poll(role, Some(Duration::ZERO), settled);
            }
            Some(false) => {
                let now = Moment::now();
                let after = |time| now.saturating_add(time);
                let in_time = next_in_time.saturating_add(apart);
                *next_in_time = in_time.clamp(after(SOON.min(apart)), after(apart));
            }
            None => {
                self.poll(role, Some(timeout), settled);
            }
        }
    }

    #[cfg(all(test, any(target_os = "linux", target_os = "android")))]
    pub(super) fn look_at_sockets(&self, role: &mut Role<'_>) {
        self.poll(role, Some(Duration::ZERO), &mut Batch::new());
    }

    /// Says whether anything came.
    fn poll(&self, role: &mut Role<'_>, timeout: Option<Duration>, settled: &mut Batch) -> bool {
        let Inner { poll, events, far, .. } = &mut *role.0;
        if let Err(error) = poll.poll(events, timeout) {
            // A signal; anything else is nothing that waiting longer would mend, and nobody else comes to turn it.
            if error.kind() != io::ErrorKind::Interrupted {
                forbidden(WAIT, &error);
            }
            return false;
        }
        for event in events.iter() {
            match event.token() {
                WAKER => {}
                BELL => far.rang(),
                _ => self.slots.deliver(event, settled),
            }
        }
        !events.is_empty()
    }

    /// Makes the thread that waits in the poller return, or the next wait return at once. Who could not do that must
    /// not go on: somebody would sleep for ever; nor unwind, in the middle of handing something on.
    pub(crate) fn interrupt(&self) {
        if let Err(error) = self.waker.wake() {
            forbidden("write", &error);
        }
    }

    /// To be called after something was stored that the one in the poller must wake up for.
    pub(crate) fn earlier_deadline(&self, deadline: Moment) {
        #[cfg(test)]
        if self.fails.swap(false, crate::primitives::sync::atomic::Ordering::Relaxed) {
            std::panic::resume_unwind(Box::new("as a test wants"));
        }
        if self.alarm.is_too_late(deadline) {
            self.interrupt();
        }
    }

    /// Registers a socket, for both directions, for as long as the registration lives.
    ///
    /// # Errors
    ///
    /// What the kernel says, such as that the limit of watched descriptors is reached.
    pub(crate) fn register(
        self: &Arc<Self>,
        fd: RawFd,
        blocked: super::Direction,
    ) -> io::Result<Registration> {
        let slot = self.slots.take(blocked);
        let interest = Interest::READABLE | Interest::WRITABLE;
        #[cfg(any(target_os = "linux", target_os = "android"))]
        let interest = interest | Interest::PRIORITY;
        match self.registry.register(&mut SourceFd(&fd), Token(slot.token()), interest) {
            Ok(()) => Ok(Registration::new(self, slot, fd)),
            Err(error) => {
                self.slots.put_back(slot);
                Err(unwatched(&error))
            }
        }
    }

    pub(super) fn deregister(&self, fd: RawFd) {
        // The descriptor may have been closed by other means; then there is nothing to undo.
        let _ = self.registry.deregister(&mut SourceFd(&fd));
    }
}

/// The kernel's words speak of a device, or of a file, where it does not want to watch a socket.
#[cold]
fn unwatched(error: &io::Error) -> io::Error {
    let limit = match error.raw_os_error() {
        Some(libc::ENOSPC) => "; see the limit fs.epoll.max_user_watches",
        _ => "",
    };
    io::Error::new(error.kind(), format!("the descriptor cannot be watched: {error}{limit}"))
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::cell::Cell;

    const FAR: Duration = Duration::from_secs(20);

    /// How a wait of that length ends in which the one that looks on goes on so often, and how often that was asked.
    fn looks_on(driver: &Driver, time: Duration, so_often: u64) -> (Awake, u64) {
        let mut role = driver.try_role().expect("nobody else turns it");
        let (now, asked) = (Moment::now(), Cell::new(0));
        let mut goes_on = || {
            asked.set(asked.get() + 1);
            (asked.get() <= so_often).then(Moment::now)
        };
        let until = || now.saturating_add(time);
        let awake = driver.wait(&mut role, now, until, Some(&mut goes_on), &mut Batch::new());
        (awake, asked.get())
    }

    /// Its look takes the interrupt out of the kernel: to sleep then would be to miss it.
    #[test]
    fn an_interrupt_ends_a_look_without_a_sleep() {
        let driver = Driver::new(1).unwrap();
        driver.interrupt();
        let (awake, asked) = looks_on(&driver, FAR, 0);
        assert_eq!((awake.by_timer, awake.by_sockets, asked), (false, false, 0));
        let started = std::sync::Barrier::new(2);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                started.wait();
                driver.interrupt();
            });
            started.wait();
            assert!(!looks_on(&driver, FAR, u64::MAX).0.by_timer);
        });
    }

    #[test]
    fn a_look_ends_in_time() {
        let driver = Driver::new(1).unwrap();
        let begun = Moment::now();
        let time = Duration::from_millis(2);
        let (awake, asked) = looks_on(&driver, time, u64::MAX);
        assert!(awake.by_timer && asked > 0 && awake.at.since(begun) >= time);
    }

    /// The sleep is not longer by the look before it.
    #[test]
    fn who_does_not_go_on_sleeps() {
        let driver = Driver::new(1).unwrap();
        let overslept = || {
            let begun = Moment::now();
            let mut role = driver.try_role().expect("nobody else turns it");
            let time = Duration::from_millis(10);
            let mut looks = || {
                std::thread::sleep(time / 2);
                None
            };
            let until = || begun.saturating_add(time);
            let looks: Option<&mut GoesOn<'_>> = Some(&mut looks);
            let awake = driver.wait(&mut role, begun, until, looks, &mut Batch::new());
            assert!(awake.by_timer && awake.at.since(begun) >= time);
            awake.at.since(begun) >= time + time / 3
        };
        assert!((0..100).any(|_| !overslept()));
        let asks_four_times = || {
            let (awake, asked) = looks_on(&driver, Duration::from_millis(1), 3);
            assert!(awake.by_timer && asked <= 4);
            asked == 4
        };
        assert!((0..100).any(|_| asks_four_times()));
        let (awake, asked) = looks_on(&driver, CLOSE / 2, u64::MAX);
        assert!(awake.by_timer && !awake.looked, "the end is near");
        assert_eq!(asked, 0);
    }
}
