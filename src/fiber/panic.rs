//! Names the fiber when it panics: the standard message names only the worker's thread.

use super::tls;
use crate::primitives::sync::atomic::{AtomicBool, Ordering};
use crate::primitives::thread;
use std::io::Write;

/// Puts a line with the fiber's name and spawn site before what the current panic hook prints.
///
/// Once per process. A hook that the program sets later replaces it, one set earlier is called. A thread that is
/// panicking must not: then whoever is the next to ask does. No thread of volt's own asks: it would wait for a hook
/// that is running, which may wait for its fibers.
pub(crate) fn install_hook() {
    // A flag: who comes meanwhile does not wait for the one who installs it.
    static INSTALLED: AtomicBool = AtomicBool::new(false);
    if INSTALLED.load(Ordering::Relaxed) || thread::panicking() {
        return;
    }
    if INSTALLED.swap(true, Ordering::Relaxed) {
        return;
    }
    let earlier = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        // From here on it is a panic, if only within the unwinding of a cancel.
        tls::with_marks_if_any(|marks| marks.set_unwinding(false));
        tls::current_name(|name, site| {
            let name = name.unwrap_or("<unnamed>");
            // Where stderr is gone there is nobody to tell.
            let _ = writeln!(std::io::stderr(), "\nfiber '{name}' spawned at {site}:");
        });
        earlier(info);
    }));
}
