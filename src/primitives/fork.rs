//! Whether this process is the child of a `fork` that came after a runtime was built: it has none of volt's threads,
//! and shares descriptors with the parent, which still uses them.

use super::sync::OnceLock;
use super::sync::atomic::{AtomicBool, Ordering};

static FORKED: AtomicBool = AtomicBool::new(false);

#[inline(always)]
pub(crate) fn is_forked() -> bool {
    FORKED.load(Ordering::Relaxed)
}

/// Refuses `what` in a `fork`ed child, which has none of the threads that it takes.
#[inline(always)]
pub(crate) fn check_process(what: &str) {
    if is_forked() {
        refuse(what);
    }
}

#[cold]
#[inline(never)]
fn refuse(what: &str) -> ! {
    panic!(
        "{what} in a forked child: volt's threads stayed in the parent; start a new program with \
         exec, or fork before the first use of volt"
    );
}

/// From now on a `fork`ed child is told that it is one. Once per process.
pub(crate) fn watch_forks() {
    extern "C" fn in_child() {
        FORKED.store(true, Ordering::Relaxed);
    }
    static WATCHED: OnceLock<()> = OnceLock::new();
    WATCHED.get_or_init(|| {
        // SAFETY: the handler only stores to an atomic. Where the system has no room for it, a child
        // that waits hangs instead of panicking.
        unsafe { libc::pthread_atfork(None, None, Some(in_child)) };
    });
}
