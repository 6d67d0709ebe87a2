//! Tests of the room. Pools, limits and signal handlers belong to the whole process, so most tests
//! run in one of their own: the test binary, run again for that test only.

use super::memory;
use super::slab::Found;
use super::{Cache, Stack, StackSize, slab};
use crate::primitives::clock::Moment;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Output};
use std::ptr::NonNull;

mod layout;
mod limits;
mod overflow;
mod recycle;
mod size;
mod trim;
mod usage;

const CHILD: &str = "VOLT_STACK_TEST_CHILD";

/// Runs `body` in a process of its own and returns what became of that. `test` is the name of the
/// calling test, below `stack::tests`.
fn child(test: &str, environment: &[(&str, &str)], body: impl FnOnce()) -> Output {
    if std::env::var(CHILD).as_deref() == Ok(test) {
        // A handler that is broken may fault for ever.
        // SAFETY: a timer of this process.
        unsafe { libc::alarm(60) };
        body();
        // Not through the harness: its own output and threads are no part of the test.
        std::process::exit(0);
    }
    let name = format!("stack::tests::{test}");
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", &name, "--nocapture", "--test-threads=1"])
        .env_remove("VOLT_STACK_GUARD")
        .env(CHILD, test)
        .envs(environment.iter().copied())
        .output()
        .unwrap();
    let ran = String::from_utf8_lossy(&output.stdout).contains("running 1 test");
    assert!(ran, "there is no test called {name}");
    output
}

/// As [`child`], for a body that is expected to end well. Prints what it says, such as why it
/// could not test anything.
fn alone(test: &str, environment: &[(&str, &str)], body: impl FnOnce()) {
    let output = child(test, environment, body);
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(output.status.success(), "{:?}\n{}", output.status, text(&output.stderr));
    eprint!("{}", text(&output.stderr));
}

fn signal_of(output: &Output) -> Option<i32> {
    output.status.signal()
}

fn size(kib: usize) -> StackSize {
    StackSize::new(kib << 10).unwrap()
}

fn at(seconds: u64) -> Moment {
    Moment::from_nanos(seconds * 1_000_000_000)
}

/// Whether a byte can be read, asked of the kernel.
fn readable(address: *const u8) -> bool {
    let mut pipe = [0; 2];
    // SAFETY: the kernel checks the address, and says EFAULT if it cannot be read.
    unsafe {
        assert_eq!(libc::pipe(pipe.as_mut_ptr()), 0);
        let written = libc::write(pipe[1], address.cast(), 1);
        libc::close(pipe[0]);
        libc::close(pipe[1]);
        written == 1
    }
}

/// Asserts that the whole guard is inaccessible and that the usable range begins right above it.
fn assert_guarded(stack: &Stack) {
    let limit = stack.limit();
    let guard = stack.size().guard_bytes();
    for below in [1, guard / 2, guard] {
        assert!(!readable(limit.wrapping_sub(below)), "{below} bytes below the limit");
    }
    assert!(readable(limit), "at the limit");
}

/// Which pages from limit to the slot's end are resident.
fn resident(found: &Found) -> Vec<bool> {
    let mut pages = vec![0; found.size.usable_bytes() / memory::page_size()];
    // SAFETY: the limit of a slot.
    memory::resident(unsafe { found.base.add(found.size.guard_bytes()) }, &mut pages).unwrap();
    pages.iter().map(|page| page & 1 == 1).collect()
}

fn found(stack: &Stack) -> Found {
    slab::find(stack.limit() as usize).expect("a stack lies in a slab")
}

/// Writes one byte to each page of the stack from its top down to `bytes` below.
fn touch(stack: &Stack, bytes: usize) {
    let mut below = 1;
    while below <= bytes {
        let byte = NonNull::new(stack.top().wrapping_sub(below)).unwrap();
        assert!(byte.as_ptr() >= stack.limit());
        // SAFETY: a usable byte of a stack that is ours and on which nobody runs.
        unsafe { byte.write_volatile(1) };
        below += memory::page_size();
    }
}

fn new_stack(size: StackSize) -> Stack {
    Cache::new(size).allocate(size).unwrap()
}
