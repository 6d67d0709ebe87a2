//! The report of a stack overflow, and the way back to whoever handled these signals before.
//!
//! Callers: the runtime calls [`install`] once, and an upper room [`set_describe`]; every thread
//! that runs fibers has an `AltStack`.
//!
//! 1. The handler allocates nothing, locks nothing, reads no TLS and never switches stacks. The
//!    slot is found from the fault's address, so it works on whatever thread it happens.
//! 2. A fault that is not an overflow of ours goes to the earlier handler as if we were not here.
//! 3. After a report the earlier disposition is restored and the instruction faults again, so
//!    that the process ends as it would have (std's handler, a core dump, a crash reporter).

use super::report::Report;
use super::slab::{self, Found};
use crate::primitives::sync::OnceLock;
use crate::primitives::sync::atomic::{AtomicBool, Ordering};
use libc::{c_int, c_void, siginfo_t};
use std::fmt::Write;
use std::mem::MaybeUninit;
use std::{io, mem, ptr};

#[cfg(any(target_os = "linux", target_os = "android"))]
#[path = "overflow_linux.rs"]
mod os;
#[cfg(not(any(target_os = "linux", target_os = "android")))]
#[path = "overflow_unix.rs"]
mod os;

/// Linux reports guards as SIGSEGV; elsewhere SIGBUS is usual.
const SIGNALS: [c_int; 2] = [libc::SIGSEGV, libc::SIGBUS];

/// Says who runs on a stack, as in `fiber 'name' spawned at src/main.rs:12:5`.
type Describe = fn(owner: *const (), out: &mut Report);

/// Read by the handler: `OnceLock::get` is an acquire load.
static DESCRIBE: OnceLock<Describe> = OnceLock::new();
static FORMER: OnceLock<[Former; 2]> = OnceLock::new();
static INSTALLED: OnceLock<Result<(), i32>> = OnceLock::new();

/// How a signal was handled before.
struct Former {
    action: libc::sigaction,
    /// It asked to be called once only (SA_RESETHAND), and was.
    spent: AtomicBool,
}

/// Sets who describes owners in reports; the first call counts.
///
/// `describe` runs in a signal handler, with the pointer given to `Stack::set_owner`: invariant 1
/// holds for it too, and it must cope with an owner in any state.
pub(crate) fn set_describe(describe: Describe) {
    let _ = DESCRIBE.set(describe);
}

/// Installs the handler, once; what was there before is called for all that is not ours.
///
/// # Errors
/// When the system refuses.
pub(crate) fn install() -> io::Result<()> {
    let result = INSTALLED.get_or_init(|| {
        try_install().map_err(|error| error.raw_os_error().unwrap_or(libc::EINVAL))
    });
    result.map_err(io::Error::from_raw_os_error)
}

fn try_install() -> io::Result<()> {
    // Stored before the handler can run, so that it finds them (invariant 5 of the room).
    let former = [Former::of(SIGNALS[0])?, Former::of(SIGNALS[1])?];
    let _ = FORMER.set(former);
    // SAFETY: all-zero is a valid `sigaction`, the fields that matter are set below.
    let mut action: libc::sigaction = unsafe { mem::zeroed() };
    action.sa_sigaction = on_fault as extern "C" fn(c_int, *mut siginfo_t, *mut c_void) as usize;
    action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
    // SAFETY: `sa_mask` is ours.
    unsafe { libc::sigemptyset(&mut action.sa_mask) };
    SIGNALS.iter().try_for_each(|&signal| set_action(signal, &action))
}

fn set_action(signal: c_int, action: &libc::sigaction) -> io::Result<()> {
    // SAFETY: a complete action, whose handler keeps to what signal handlers may do (invariant 1)
    // or was installed by someone before us.
    match unsafe { libc::sigaction(signal, action, ptr::null_mut()) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

impl Former {
    fn of(signal: c_int) -> io::Result<Former> {
        // SAFETY: all-zero is a valid `sigaction`.
        let mut action: libc::sigaction = unsafe { mem::zeroed() };
        // SAFETY: a null action asks and changes nothing; the result goes to memory of ours.
        match unsafe { libc::sigaction(signal, ptr::null(), &mut action) } {
            0 => Ok(Former { action, spent: AtomicBool::new(false) }),
            _ => Err(io::Error::last_os_error()),
        }
    }

    fn find(signal: c_int) -> Option<&'static Former> {
        let index = SIGNALS.iter().position(|&ours| ours == signal)?;
        Some(&FORMER.get()?[index])
    }

    /// What to do for the signal now, with SA_RESETHAND's "once" taken into account.
    fn handler(&self) -> usize {
        let once = self.action.sa_flags & libc::SA_RESETHAND != 0;
        if once && self.spent.swap(true, Ordering::Relaxed) {
            libc::SIG_DFL
        } else {
            self.action.sa_sigaction
        }
    }

    /// Calls the earlier handler the way it asked to be called.
    ///
    /// # Safety
    /// `handler` is a function that was installed with this action's flags; the other arguments
    /// are those of a signal being handled.
    unsafe fn call(
        &self,
        handler: usize,
        signal: c_int,
        info: *mut siginfo_t,
        context: *mut c_void,
    ) {
        let mut mask = self.action.sa_mask;
        let mut before = MaybeUninit::<libc::sigset_t>::zeroed();
        let nested = self.action.sa_flags & libc::SA_NODEFER != 0;
        // SAFETY: signal sets of ours. `pthread_sigmask` is async-signal-safe and leaves errno alone.
        unsafe {
            libc::pthread_sigmask(libc::SIG_BLOCK, &mask, before.as_mut_ptr());
            if nested {
                libc::sigemptyset(&mut mask);
                libc::sigaddset(&mut mask, signal);
                libc::pthread_sigmask(libc::SIG_UNBLOCK, &mask, ptr::null_mut());
            }
        }
        if self.action.sa_flags & libc::SA_SIGINFO != 0 {
            // SAFETY: SA_SIGINFO says that it is such a function.
            let handler: extern "C" fn(c_int, *mut siginfo_t, *mut c_void) =
                unsafe { mem::transmute(handler) };
            handler(signal, info, context);
        } else {
            // SAFETY: without SA_SIGINFO, and being neither SIG_DFL nor SIG_IGN, it is such a function.
            let handler: extern "C" fn(c_int) = unsafe { mem::transmute(handler) };
            handler(signal);
        }
        // SAFETY: written by the first call; a set of ours.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, before.as_ptr(), ptr::null_mut()) };
    }
}

extern "C" fn on_fault(signal: c_int, info: *mut siginfo_t, context: *mut c_void) {
    // SAFETY: the kernel passes a valid siginfo.
    let fault = unsafe { os::fault_address(&*info) };
    match fault.and_then(slab::find) {
        Some(found) if found.in_guard => {
            tell(&found);
            restore(signal);
        }
        // SAFETY: the arguments this handler was called with.
        _ => unsafe { pass_on(signal, info, context, fault.is_some()) },
    }
}

/// Writes the report.
fn tell(found: &Found) {
    // SAFETY: an address in the topmost page of a slot of a slab is never unmapped (invariant 1 of
    // the room); a header that was never written is zero, which is "no owner".
    let owner = unsafe { found.header().as_ref() }.owner();
    let mut who = Report::new();
    if let (Some(describe), false) = (DESCRIBE.get(), owner.is_null()) {
        describe(owner, &mut who);
    }
    let mut report = Report::new();
    // Writing to a report does not fail.
    let _ = report.write_str("\nvolt: ");
    let _ = report.write_str(if who.is_empty() { "a fiber" } else { who.text(400) });
    let _ = write!(
        report,
        " has overflowed its stack ({}, {} of them usable)\n\
         volt: give it more with volt::thread::Builder::stack_size, runtime::Builder::stack_size or \
         VOLT_STACK_SIZE={}, or use less of it (deep recursion, large arrays)\n",
        found.size,
        super::size::Bytes(found.size.usable_bytes()),
        found.size.next_larger().bytes(),
    );
    report.send();
}

/// Puts the earlier disposition back. The faulting instruction runs again when we return.
fn restore(signal: c_int) {
    if let Some(former) = Former::find(signal) {
        let _ = set_action(signal, &former.action);
    }
}

/// # Safety
/// The arguments are those of a signal being handled.
unsafe fn pass_on(signal: c_int, info: *mut siginfo_t, context: *mut c_void, is_fault: bool) {
    let former = Former::find(signal);
    match former.map_or(libc::SIG_DFL, Former::handler) {
        // A fault cannot be ignored; a signal that was sent can.
        libc::SIG_IGN if !is_fault => {}
        libc::SIG_DFL | libc::SIG_IGN => {
            // SAFETY: all-zero is SIG_DFL with no flags; `raise` is async-signal-safe.
            unsafe {
                let _ = set_action(signal, &mem::zeroed());
                if !is_fault {
                    // Nothing will fault again: it is delivered when this handler returns.
                    libc::raise(signal);
                }
            }
        }
        handler => {
            if let Some(former) = former {
                // SAFETY: neither SIG_DFL nor SIG_IGN, so a function installed with these flags.
                unsafe { former.call(handler, signal, info, context) };
            }
        }
    }
}
