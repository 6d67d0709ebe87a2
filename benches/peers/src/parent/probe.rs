//! What the kernel says of another process.

use std::fs::{read_dir, read_to_string};

/// Resident memory and page tables, in bytes.
pub fn footprint(pid: u32) -> Result<f64, String> {
    let status = read(&format!("/proc/{pid}/status"))?;
    Ok((field(&status, "VmRSS:") + field(&status, "VmPTE:")) * 1024.0)
}

/// How often its threads have given up or lost their processor: each time one was woken before.
pub fn switches(pid: u32) -> Result<f64, String> {
    let threads = read_dir(format!("/proc/{pid}/task")).map_err(|e| format!("it is gone: {e}"))?;
    let mut switches = 0.0;
    for thread in threads.filter_map(Result::ok) {
        let status = read(&thread.path().join("status").to_string_lossy())?;
        switches += field(&status, "voluntary_ctxt_switches:")
            + field(&status, "nonvoluntary_ctxt_switches:");
    }
    Ok(switches)
}

/// What its threads have used, in microseconds; those that have ended included.
pub fn cpu(pid: u32) -> Result<f64, String> {
    let mut clock = 0;
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: both places are alive for the calls.
    let failed = unsafe {
        libc::clock_getcpuclockid(pid.cast_signed(), &raw mut clock) != 0
            || libc::clock_gettime(clock, &raw mut time) != 0
    };
    if failed {
        return Err("its CPU clock cannot be read: has it ended?".to_owned());
    }
    Ok(time.tv_sec as f64 * 1e6 + time.tv_nsec as f64 / 1e3)
}

fn read(path: &str) -> Result<String, String> {
    read_to_string(path).map_err(|e| format!("{path}: {e}"))
}

/// The number behind `name`, which begins a line.
fn field(status: &str, name: &str) -> f64 {
    let line = status.lines().find_map(|line| line.strip_prefix(name));
    line.and_then(|rest| rest.split_whitespace().next()?.parse().ok()).unwrap_or(0.0)
}
