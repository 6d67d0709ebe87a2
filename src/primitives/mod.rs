//! The only door to atomics, cells, locks, threads, the clock and randomness.
//!
//! Every other room takes these from here, so that the whole crate runs on `std` or, under
//! `cfg(loom)`, on loom's checked versions. Chosen once, by file.

/// A constructor that is `const` with `std`'s primitives; loom's cannot be made in constants.
macro_rules! const_unless_loom {
    ($(#[$attribute:meta])* $scope:vis fn $name:ident($($argument:tt)*) -> $result:ty $body:block) => {
        #[cfg(not(loom))]
        $(#[$attribute])*
        $scope const fn $name($($argument)*) -> $result $body

        #[cfg(loom)]
        $(#[$attribute])*
        $scope fn $name($($argument)*) -> $result $body
    };
}
pub(crate) use const_unless_loom;

#[cfg(not(loom))]
#[path = "asymmetric.rs"]
pub(crate) mod asymmetric;
#[cfg(loom)]
#[path = "asymmetric_loom.rs"]
pub(crate) mod asymmetric;
mod away;
#[cfg(all(not(loom), any(target_os = "linux", target_os = "android")))]
pub(crate) mod bell;
#[cfg(any(loom, not(any(target_os = "linux", target_os = "android"))))]
pub(crate) use bell_any as bell;
pub(crate) mod bell_any;
#[cfg(all(test, not(loom)))]
mod bell_tests;
mod biased;
mod biases;
pub(crate) mod clock;
#[cfg(loom)]
mod clock_loom;
#[cfg(not(loom))]
mod fork;
#[cfg(not(loom))]
pub(crate) use fork::{check_process, is_forked, watch_forks};
mod lock;
#[cfg(loom)]
pub(crate) mod models;
#[cfg(not(loom))]
#[cfg_attr(not(any(target_os = "linux", target_os = "android")), path = "os_thread_any.rs")]
pub(crate) mod os_thread;
pub(crate) mod random;
#[cfg(not(loom))]
mod spin;
#[cfg(not(loom))]
pub(crate) use spin::{spin, spin_on};

#[cfg(not(loom))]
#[path = "sync_std.rs"]
pub(crate) mod sync;
#[cfg(loom)]
#[path = "sync_loom.rs"]
pub(crate) mod sync;

#[cfg(not(loom))]
#[cfg_attr(not(all(target_arch = "x86_64", target_os = "linux", not(miri))), path = "tsc_none.rs")]
pub(crate) mod tsc;

#[cfg(not(loom))]
#[path = "thread_std.rs"]
pub(crate) mod thread;
#[cfg(loom)]
#[path = "thread_loom.rs"]
pub(crate) mod thread;

/// Why there is no `what`, with the limit that was met.
#[cfg(not(loom))]
#[cold]
pub(crate) fn not_opened(what: &str, error: &std::io::Error) -> std::io::Error {
    let limit = match error.raw_os_error() {
        Some(libc::EMFILE) => "; see the limit on descriptors (ulimit -n)",
        Some(libc::ENFILE) => "; see the limit on the descriptors of all programs (fs.file-max)",
        _ => "",
    };
    std::io::Error::new(error.kind(), format!("{what} cannot be opened: {error}{limit}"))
}

/// A system call has failed that volt counts on. Ends the process.
#[cfg(not(loom))]
#[cold]
#[inline(never)]
pub(crate) fn forbidden(call: &str, error: &std::io::Error) -> ! {
    let (cause, cure) = match error.raw_os_error() {
        // The latter where the number has become that of something else.
        Some(libc::EBADF | libc::EINVAL) => (
            "somebody has closed a descriptor of volt's",
            "look for closefrom or close_range after the first use of volt, and for a descriptor that is closed twice",
        ),
        _ => (
            "a seccomp filter, most likely",
            "allow it in the filter; membarrier and timerfd_settime may be forbidden before the first use of volt \
             instead, which does without them then",
        ),
    };
    let report = format!(
        "\nvolt: the system call {call} has failed ({error}), and volt counts on it: {cause}\nvolt: {cure}\n"
    );
    abort_with(&report)
}

/// Ends the process, and says why.
#[cfg(not(loom))]
#[cold]
#[inline(never)]
pub(crate) fn abort_with(report: &str) -> ! {
    tell(report);
    std::process::abort();
}

/// Writes past the lock of `stderr`, whose holder may wait for the caller.
#[cfg(not(loom))]
#[cold]
pub(crate) fn tell(report: &str) {
    // SAFETY: a valid buffer; nobody is there to tell that it was not written.
    let _ = unsafe { libc::write(2, report.as_ptr().cast(), report.len()) };
}

/// Of a cache line; a guess where no more is known.
const LINE: usize = 64;

/// The first `N` lines from `place` on will be needed soon. Any address will do.
#[inline(always)]
pub(crate) fn prefetch_lines<const N: usize>(place: *const u8) {
    for line in 0..N {
        prefetch(place.wrapping_add(line * LINE));
    }
}

/// As [`prefetch_lines`], of what another processor has written and this one is about to overwrite.
#[inline(always)]
pub(crate) fn prefetch_lines_to_write<const N: usize>(place: *const u8) {
    for line in 0..N {
        prefetch_for_write(place.wrapping_add(line * LINE));
    }
}

/// The line at `place` will be needed soon. Any address will do.
#[inline(always)]
pub(crate) fn prefetch<T>(place: *const T) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: a hint, which touches nothing.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(place.cast());
    }
    #[cfg(any(not(target_arch = "x86_64"), miri))]
    let _ = place;
}

/// The line at `place` is about to be changed: who looks there first then has it for itself, where a
/// load alone would take a copy, and the exchange that follows take the line from its owner once more.
/// Any address will do. By asm, since the intrinsic becomes an ordinary prefetch where the compiler has
/// not been told that the processor knows better.
#[inline(always)]
pub(crate) fn prefetch_for_write<T>(place: *const T) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: a hint, which touches nothing; processors that do not know it take it for no operation.
    unsafe {
        std::arch::asm!("prefetchw [{}]", in(reg) place, options(nostack, preserves_flags, readonly));
    }
    #[cfg(all(target_arch = "aarch64", not(miri)))]
    // SAFETY: a hint, which touches nothing.
    unsafe {
        std::arch::asm!(
            "prfm pstl1keep, [{}]", in(reg) place, options(nostack, preserves_flags, readonly)
        );
    }
    #[cfg(any(not(any(target_arch = "x86_64", target_arch = "aarch64")), miri))]
    let _ = place;
}

/// Where the address of a local does not say on which stack it is: AddressSanitizer keeps some of them on its heap.
#[inline(always)]
pub(crate) fn stack_pointer() -> Option<usize> {
    #[cfg(all(volt_asan, target_arch = "x86_64"))]
    {
        let pointer;
        // SAFETY: reads a register.
        unsafe {
            std::arch::asm!("mov {}, rsp", out(reg) pointer, options(nomem, nostack, preserves_flags));
        }
        Some(pointer)
    }
    #[cfg(not(all(volt_asan, target_arch = "x86_64")))]
    None
}
