//! What a runtime is built with: bounds, and what the process may use.

mod common;

use common::{child, pin_to};
use std::io::ErrorKind;
use volt::runtime::Builder;

fn workers() -> usize {
    Builder::new().build().unwrap().stats().queue.workers
}

#[cfg(target_os = "linux")]
#[test]
fn a_worker_for_each_processor_that_affinity_leaves() {
    let left = child("a_worker_for_each_processor_that_affinity_leaves", &[], || {
        eprintln!("{} workers", workers());
        pin_to(0);
        assert_eq!(workers(), 1);
    });
    assert!(left.status.success(), "{left:?}");
}

/// A mount, for this process alone.
#[cfg(target_os = "linux")]
fn mount(what: &str, place: &str, flags: libc::c_ulong) -> std::io::Result<()> {
    let [kind, place] = [what, place].map(|text| std::ffi::CString::new(text).unwrap());
    // SAFETY: strings that end in zero; no options.
    let done = unsafe {
        libc::mount(kind.as_ptr(), place.as_ptr(), kind.as_ptr(), flags, std::ptr::null())
    };
    if done == 0 { Ok(()) } else { Err(std::io::Error::last_os_error()) }
}

/// A process in the cgroup /outer/inner, whose quotas are files of ours.
#[cfg(target_os = "linux")]
fn pretend_cgroup() -> std::io::Result<()> {
    // SAFETY: a new set of mounts for this process; nothing else in it looks at them.
    if unsafe { libc::unshare(libc::CLONE_NEWNS) } != 0 {
        return Err(std::io::Error::last_os_error());
    }
    mount("none", "/", libc::MS_REC | libc::MS_PRIVATE)?;
    mount("tmpfs", "/proc", 0)?;
    mount("tmpfs", "/sys/fs/cgroup", 0)?;
    std::fs::create_dir("/proc/self")?;
    std::fs::write("/proc/self/cgroup", "0::/outer/inner\n")?;
    std::fs::create_dir_all("/sys/fs/cgroup/outer/inner")?;
    for folder in ["", "outer/", "outer/inner/"] {
        std::fs::write(format!("/sys/fs/cgroup/{folder}cgroup.controllers"), "cpu\n")?;
    }
    Ok(())
}

/// The quota of a cgroup's ancestor counts as much as its own. Needs the right to mount, as root has;
/// says so where it has none.
#[test]
#[cfg(target_os = "linux")]
fn no_more_workers_than_the_quota_of_any_ancestor() {
    let left = child("no_more_workers_than_the_quota_of_any_ancestor", &[], || {
        let free = workers();
        if let Err(error) = pretend_cgroup() {
            return eprintln!("not checked: {error}");
        }
        assert_eq!(workers(), free, "no quota yet");
        for folder in ["outer", "outer/inner"] {
            let quota = format!("/sys/fs/cgroup/{folder}/cpu.max");
            std::fs::write(&quota, "100000 100000\n").unwrap();
            assert_eq!(workers(), 1, "one processor for {folder}");
            std::fs::write(&quota, "max 100000\n").unwrap();
            assert_eq!(workers(), free, "no quota again");
        }
        eprintln!("checked with {free} processors");
    });
    assert!(left.status.success(), "{left:?}");
    assert!(left.text.contains("checked"), "{left:?}");
    eprint!("{}", left.text);
}

#[test]
fn what_is_out_of_bounds_is_refused_with_the_bounds() {
    let refused = |builder: Builder, bounds: &str| {
        let error = builder.build().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput);
        assert!(error.to_string().contains(bounds), "{error}");
    };
    refused(Builder::new().workers(0), "from 1 to 1024");
    refused(Builder::new().workers(1025), "from 1 to 1024");
    refused(Builder::new_current_thread().workers(2), "exactly 1");
    refused(Builder::new().max_blocking(0), "at least 1");
}

#[test]
fn each_worker_has_a_queue_of_256() {
    let runtime = Builder::new().workers(3).build().unwrap();
    let queue = runtime.stats().queue;
    assert_eq!((queue.workers, queue.capacity), (3, 3 * 256));
}

#[test]
fn a_runtime_without_threads_runs_on_the_caller() {
    let runtime = Builder::new_current_thread().build().unwrap();
    let me = std::thread::current().id();
    let ran = || std::thread::current().id();
    let fiber = runtime.go(ran);
    assert!(!fiber.is_finished());
    assert_eq!(runtime.run(ran), me);
    assert_eq!(runtime.run(move || fiber.join().unwrap()), me);
}

/// The test suite runs with it once more: a name that is not read any more would leave that run without a meaning.
#[test]
fn a_variable_of_the_environment_forces_fibers_to_move() {
    let name = "a_variable_of_the_environment_forces_fibers_to_move";
    for value in ["1", "0"] {
        let left = child(name, &[("VOLT_FORCE_MIGRATE", value)], || {
            let forced = std::env::var("VOLT_FORCE_MIGRATE").unwrap() == "1";
            // No supervisor takes a worker for stalled, which has no place to move to.
            let runtime = Builder::new().workers(2).stall_period(None).build().unwrap();
            let moved = runtime.run(move || {
                let thread = || std::thread::current().id();
                // Threads begin when they do.
                let mut before = thread();
                while forced && thread() == before {
                    volt::yield_now();
                }
                before = thread();
                let mut moves = || {
                    volt::yield_now();
                    std::mem::replace(&mut before, thread()) != thread()
                };
                (0..100).filter(|_| moves()).count()
            });
            let all = moved == 100 && runtime.stats().total.migrated >= 100;
            assert!(all == forced, "{moved} moves");
        });
        assert!(left.status.success(), "{left:?}");
    }
}
