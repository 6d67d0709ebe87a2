//! The report, and that other handlers are left as they were.

use super::*;
use crate::stack::{AltStack, install, set_describe};
use libc::{c_int, c_void, siginfo_t};
use std::fmt::Write;
use std::mem;
use std::ptr;

/// Runs `entry` on a stack of ours, by way of a thread that was given it.
fn run_on(stack: &Stack, entry: extern "C" fn(*mut c_void) -> *mut c_void) {
    let usable = stack.top() as usize - stack.limit() as usize;
    // SAFETY: the stack is ours for as long as the thread runs, which is joined.
    unsafe {
        let mut attributes = mem::zeroed();
        libc::pthread_attr_init(&mut attributes);
        assert_eq!(libc::pthread_attr_setstack(&mut attributes, stack.limit().cast(), usable), 0);
        let mut thread = mem::zeroed();
        assert_eq!(libc::pthread_create(&mut thread, &attributes, entry, ptr::null_mut()), 0);
        libc::pthread_join(thread, ptr::null_mut());
    }
}

extern "C" fn recurse_forever(_: *mut c_void) -> *mut c_void {
    #[inline(never)]
    fn deeper(depth: usize) -> usize {
        let frame = std::hint::black_box([depth; 64]);
        // Always true, but not so that anyone knows.
        let below = if frame[0] < usize::MAX { deeper(depth + 1) } else { 0 };
        below + std::hint::black_box(frame)[depth % 64]
    }
    let _alternate = AltStack::ensure().unwrap();
    ptr::without_provenance_mut(deeper(0))
}

fn overflow() {
    install().unwrap();
    install().unwrap();
    set_describe(|owner, out| {
        let _ = write!(out, "fiber 'number {}' spawned at src/main.rs:12:5", owner.addr());
    });
    let stack = slab::take(size(256)).unwrap().open();
    stack.set_owner(ptr::without_provenance_mut(7));
    run_on(&stack, recurse_forever);
}

const TEXT: &str = "\nvolt: fiber 'number 7' spawned at src/main.rs:12:5 has overflowed its stack \
    (256 KiB, 192 KiB of them usable)\nvolt: give it more with volt::thread::Builder::stack_size, \
    runtime::Builder::stack_size or VOLT_STACK_SIZE=524288, or use less of it (deep recursion, large arrays)\n";

#[test]
fn an_overflow_is_reported_and_ends_the_process_as_before() {
    for guard in ["madvise", "mprotect"] {
        let test = "overflow::an_overflow_is_reported_and_ends_the_process_as_before";
        let output = child(test, &[("VOLT_STACK_GUARD", guard)], overflow);
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(text.contains(TEXT), "{guard}: {text}");
        assert_eq!(text.matches("volt: fiber").count(), 1, "one report");
        assert_eq!(signal_of(&output), Some(libc::SIGSEGV), "{guard}: {:?}", output.status);
    }
}

#[test]
fn a_stack_without_owner_is_reported_too() {
    let output = child("overflow::a_stack_without_owner_is_reported_too", &[], || {
        install().unwrap();
        run_on(&new_stack(size(128)), recurse_forever);
    });
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(text.contains("volt: a fiber has overflowed its stack (128 KiB, 96 KiB"), "{text}");
    assert_eq!(signal_of(&output), Some(libc::SIGSEGV));
}

fn set_handler(signal: c_int, handler: usize, flags: c_int) {
    // SAFETY: all-zero is a valid action; handlers match their flags.
    unsafe {
        let mut action: libc::sigaction = mem::zeroed();
        action.sa_sigaction = handler;
        action.sa_flags = flags;
        assert_eq!(libc::sigaction(signal, &action, ptr::null_mut()), 0);
    }
}

fn raise(signal: c_int) {
    // SAFETY: a signal to this thread.
    unsafe { libc::raise(signal) };
}

extern "C" fn leave(_: c_int, _: *mut siginfo_t, _: *mut c_void) {
    // SAFETY: ends the process at once.
    unsafe { libc::_exit(42) }
}

#[test]
fn after_the_report_the_earlier_handler_runs() {
    let output = child("overflow::after_the_report_the_earlier_handler_runs", &[], || {
        set_handler(
            libc::SIGSEGV,
            leave as *const () as usize,
            libc::SA_SIGINFO | libc::SA_ONSTACK,
        );
        overflow();
    });
    assert!(String::from_utf8_lossy(&output.stderr).contains(TEXT));
    assert_eq!(output.status.code(), Some(42), "{:?}", output.status);
}

/// Makes the page that faulted accessible, as a garbage collector's barrier would.
extern "C" fn repair(_: c_int, info: *mut siginfo_t, _: *mut c_void) {
    // SAFETY: the test's own page.
    unsafe {
        let page = (*info).si_addr() as usize / 4096 * 4096;
        libc::mprotect(
            ptr::with_exposed_provenance_mut(page),
            4096,
            libc::PROT_READ | libc::PROT_WRITE,
        );
    }
}

#[test]
fn other_faults_go_to_the_earlier_handler() {
    alone("overflow::other_faults_go_to_the_earlier_handler", &[], || {
        set_handler(libc::SIGSEGV, repair as *const () as usize, libc::SA_SIGINFO);
        install().unwrap();
        let _stack = new_stack(size(256));
        let memory = memory::map(8192).unwrap();
        for page in [0, 4096] {
            // SAFETY: a mapping of ours; the handler makes it accessible.
            unsafe {
                memory::forbid(memory.add(page), 4096).unwrap();
                memory.add(page).write_volatile(1);
            }
        }
    });
}

extern "C" fn note(_: c_int) {
    // SAFETY: a system call on a constant.
    unsafe { libc::write(2, c"noted\n".as_ptr().cast(), 6) };
}

#[test]
fn a_handler_for_once_is_called_once() {
    let output = child("overflow::a_handler_for_once_is_called_once", &[], || {
        set_handler(libc::SIGBUS, note as *const () as usize, libc::SA_RESETHAND);
        install().unwrap();
        (0..3).for_each(|_| raise(libc::SIGBUS));
    });
    assert_eq!(String::from_utf8_lossy(&output.stderr).matches("noted").count(), 1);
    assert_eq!(signal_of(&output), Some(libc::SIGBUS));
}

#[test]
fn signals_that_were_sent_are_ignored_or_deadly_as_before() {
    for (handler, expected) in [("ignore", None), ("default", Some(libc::SIGSEGV))] {
        let test = "overflow::signals_that_were_sent_are_ignored_or_deadly_as_before";
        let output = child(test, &[("VOLT_STACK_TEST_HANDLER", handler)], || {
            let ignored = std::env::var("VOLT_STACK_TEST_HANDLER").as_deref() == Ok("ignore");
            set_handler(libc::SIGSEGV, if ignored { libc::SIG_IGN } else { libc::SIG_DFL }, 0);
            install().unwrap();
            raise(libc::SIGSEGV);
        });
        assert_eq!(signal_of(&output), expected, "{handler}");
    }
}

fn alternate() -> (usize, usize, c_int) {
    // SAFETY: a null pointer only asks.
    unsafe {
        let mut current: libc::stack_t = mem::zeroed();
        assert_eq!(libc::sigaltstack(ptr::null(), &mut current), 0);
        (current.ss_sp as usize, current.ss_size, current.ss_flags)
    }
}

#[test]
fn the_alternate_stack_is_guarded_nests_and_leaves_the_former() {
    let before = alternate();
    let outer = AltStack::ensure().unwrap();
    let (start, bytes, flags) = alternate();
    assert_ne!(start, before.0);
    assert!(bytes >= 48 << 10, "{bytes}");
    assert_eq!(flags, 0);
    assert!(!readable(ptr::without_provenance(start - 1)), "its own guard");
    let inner = AltStack::ensure().unwrap();
    assert_ne!(alternate().0, start);
    drop(inner);
    assert_eq!(alternate().0, start);
    drop(outer);
    assert_eq!(alternate(), before);
}
