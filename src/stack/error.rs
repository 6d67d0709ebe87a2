//! Why there is no stack, and which setting to change.
//!
//! Callers: `slab` builds the error where a call failed; upper rooms pass it on to users, who see
//! it as `volt::StackError`.
//!
//! 1. The probable limit is looked up when the error is made, while the facts still hold; or less than a second before,
//!    for another one of the same call and number: a burst of refusals does not read the system's files for each.

use super::size::{Bytes, StackSize};
use super::{guard, memory};
use crate::primitives::clock::Moment;
use crate::primitives::sync::Mutex;
use rustix::io::Errno;
use std::time::Duration;
use std::{fmt, fs, io};

/// No stack could be had: a limit of the system or of this process was hit.
///
/// The message names the call that failed, the limit that was probably hit, and how to raise it.
///
/// ```
/// let fiber = volt::go(|| "ran");
/// match fiber.join() {
///     Ok(value) => assert_eq!(value, "ran"),
///     Err(payload) => match payload.downcast_ref::<volt::StackError>() {
///         Some(error) => eprintln!("{} bytes: {error}", error.stack_size()),
///         None => eprintln!("it panicked"),
///     },
/// }
/// ```
#[derive(Clone, Debug)]
pub struct StackError {
    size: StackSize,
    call: Call,
    os: Errno,
    limit: Limit,
    made: Moment,
}

/// The step that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Call {
    /// Getting so much address space for more slots.
    Mmap { bytes: usize },
    /// Making a slot's guard inaccessible.
    Guard,
}

#[derive(Clone, Debug)]
enum Limit {
    /// A limit of this process: its name, `ulimit`'s option, its value, what was in use.
    Process {
        name: &'static str,
        flag: char,
        bytes: u64,
        used: u64,
    },
    /// Memory is locked (`mlockall`), and no more of it may be.
    Locked,
    /// The system promises no more memory than it has.
    Overcommit,
    /// Too many mappings; the setting, where it can be read.
    MapCount(Option<u64>),
    Memory,
    /// Not a matter of limits, as far as one can tell.
    Unknown,
}

impl StackError {
    #[cold]
    pub(super) fn new(size: StackSize, call: Call, os: Errno) -> StackError {
        let made = Moment::now();
        StackError { size, call, os, limit: Limit::behind(call, os, made), made }
    }

    /// When it was made.
    pub(crate) fn made(&self) -> Moment {
        self.made
    }

    /// The stack size asked for, in bytes.
    pub fn stack_size(&self) -> usize {
        self.size.bytes()
    }

    /// The system's error number.
    ///
    /// ```
    /// fn is_out_of_memory(error: &volt::StackError) -> bool {
    ///     error.raw_os_error() == 12 // ENOMEM
    /// }
    /// ```
    pub fn raw_os_error(&self) -> i32 {
        self.os.raw_os_error()
    }
}

/// What was found behind a refusal, and when.
struct Finding {
    call: Call,
    os: Errno,
    limit: Limit,
    at: Moment,
}

static LAST: Mutex<Option<Finding>> = Mutex::new(None);

impl Limit {
    /// What made the system refuse `call`, by a finding of the last second if there is one.
    fn behind(call: Call, os: Errno, now: Moment) -> Limit {
        let mut last = LAST.lock();
        let holds = |last: &&Finding| {
            (last.call, last.os) == (call, os) && now.since(last.at) < Duration::from_secs(1)
        };
        if let Some(last) = last.as_ref().filter(holds) {
            return last.limit.clone();
        }
        let limit = match (call, os) {
            (Call::Mmap { bytes }, Errno::NOMEM) => Limit::behind_mmap(bytes as u64),
            (Call::Mmap { .. }, Errno::AGAIN) => Limit::Locked,
            (Call::Guard, Errno::NOMEM) => Limit::MapCount(guard::look_up_limit()),
            _ => Limit::Unknown,
        };
        *last = Some(Finding { call, os, limit: limit.clone(), at: now });
        limit
    }

    /// What made the system refuse to map `request` bytes.
    fn behind_mmap(request: u64) -> Limit {
        for limit in memory::soft_limits() {
            let Some(bytes) = limit.bytes else { continue };
            // Where use cannot be read, a limit that is set is still the best guess.
            let used = statm(limit.statm_column).unwrap_or(bytes);
            if used.saturating_add(request) > bytes {
                return Limit::Process { name: limit.name, flag: limit.flag, bytes, used };
            }
        }
        let maps = memory::most_mappings();
        if memory::setting("/proc/sys/vm/overcommit_memory") == Some(2) {
            Limit::Overcommit
        } else if maps.is_some_and(|most| mappings() >= most) {
            Limit::MapCount(maps)
        } else {
            Limit::Memory
        }
    }
}

/// How many mappings this process has; zero where the system does not tell.
fn mappings() -> u64 {
    let maps = fs::read("/proc/self/maps").unwrap_or_default();
    maps.iter().filter(|&&byte| byte == b'\n').count() as u64
}

/// A column of `/proc/self/statm`, in bytes.
fn statm(column: usize) -> Option<u64> {
    let line = fs::read_to_string("/proc/self/statm").ok()?;
    let pages: u64 = line.split_whitespace().nth(column)?.parse().ok()?;
    Some(pages * memory::page_size() as u64)
}

impl fmt::Display for StackError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let step = match self.call {
            Call::Mmap { .. } => "mmap of more stacks failed",
            Call::Guard => "its guard could not be installed",
        };
        write!(f, "no stack of {}: {step}: {}", self.size, io::Error::from(self.os))?;
        match &self.limit {
            Limit::Process { name, flag, bytes, used } => {
                let (bytes, used) = (Bytes(*bytes as usize), Bytes(*used as usize));
                write!(f, "; probably {name}, which is {bytes} with {used} in use: raise it with `ulimit -{flag}`")
            }
            Limit::Locked => f.write_str(
                "; probably RLIMIT_MEMLOCK, as the process locks its memory: raise it with `ulimit -l`",
            ),
            Limit::Overcommit => f.write_str(
                "; probably the commit limit, as the sysctl vm.overcommit_memory is 2: set it to 0 or 1, \
                 or raise vm.overcommit_ratio",
            ),
            Limit::MapCount(most) => {
                f.write_str("; probably the sysctl vm.max_map_count")?;
                most.map_or(Ok(()), |most| write!(f, ", which is {most}"))?;
                f.write_str(": raise it, or run on Linux 6.13 or later, where guards need no mappings")
            }
            Limit::Memory => f.write_str("; the system is out of memory or address space: use smaller or fewer stacks"),
            Limit::Unknown => Ok(()),
        }
    }
}

impl std::error::Error for StackError {}

impl From<StackError> for io::Error {
    fn from(error: StackError) -> io::Error {
        let kind = match io::Error::from(error.os).kind() {
            // EAGAIN here means a limit, not "try again": nobody may loop on it.
            io::ErrorKind::WouldBlock => io::ErrorKind::OutOfMemory,
            kind => kind,
        };
        io::Error::new(kind, error)
    }
}
