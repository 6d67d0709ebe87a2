//! What becomes of the process where a worker's own flow unwinds.

use super::super::shared::Shared;
use super::super::worker::{run, run_here};
use super::config;
use crate::primitives::clock::Moment;
use crate::primitives::sync::atomic::Ordering;
use std::os::unix::process::ExitStatusExt;
use std::process::Command;

const CHILD: &str = "VOLT_SCHEDULER_TEST_CHILD";
const NAME: &str = "scheduler::tests::unwinds::a_worker_whose_own_flow_unwinds_ends_the_process";

/// A thread of the runtime's, as it tells the poller when idle memory is to be given back.
fn unwinds_on_a_thread() {
    let shared = Shared::new(config(1), 1).unwrap();
    shared.stacks_left.store(true, Ordering::Release);
    shared.driver.fails.store(true, Ordering::Relaxed);
    std::thread::scope(|scope| {
        let runs = scope.spawn(|| run(&shared, 0));
        while !runs.is_finished() {
            std::thread::yield_now();
        }
    });
}

/// A thread that drives.
fn unwinds_here() {
    let shared = Shared::new(config(1), 0).unwrap();
    run_here(&shared, Moment::NEVER, &|| panic!("as a test wants"));
}

/// In a process of its own: the test binary, run again for this test only.
#[test]
fn a_worker_whose_own_flow_unwinds_ends_the_process() {
    match std::env::var(CHILD).as_deref() {
        Ok("thread") => return unwinds_on_a_thread(),
        Ok(_) => return unwinds_here(),
        Err(_) => {}
    }
    for flow in ["thread", "here"] {
        let output = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", NAME, "--nocapture", "--test-threads=1"])
            .env(CHILD, flow)
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(text.contains("has unwound a worker"), "{flow}: {:?}\n{text}", output.status);
        assert_eq!(output.status.signal(), Some(libc::SIGABRT), "{flow}: {text}");
    }
}
