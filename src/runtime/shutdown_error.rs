//! What a shutdown could not end.

use crate::scheduler::FiberReport;
use std::fmt;

/// Not everything had ended at the deadline of a shutdown.
///
/// ```
/// # fn main() -> std::io::Result<()> {
/// use volt::time::Duration;
///
/// let runtime = volt::runtime::Builder::new().workers(1).build()?;
/// let (started, starts) = volt::channel::bounded(0);
/// runtime.go(move || {
///     started.send(()).unwrap();
///     volt::thread::park(); // nobody unparks it
/// });
/// starts.recv().unwrap();
/// let error = runtime.shutdown(Duration::from_millis(10)).unwrap_err();
/// assert_eq!((error.fibers, error.unfinished.len()), (1, 1));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ShutdownError {
    /// How many fibers had not ended, those that never started included; they do not run again.
    pub fibers: u64,
    /// Which: a hundred of them at most, those that had started first.
    pub unfinished: Vec<FiberReport>,
    /// Names of worker threads that have not ended: they did not come back from the code of a fiber or from the
    /// destructor of a thread-local, or had no processor for a tenth of a second. They are detached.
    pub threads: Vec<String>,
}

impl fmt::Display for ShutdownError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} fibers had not ended at the deadline of the shutdown", self.fibers)?;
        if !self.threads.is_empty() {
            write!(f, "; threads that have not ended: {}", self.threads.join(", "))?;
        }
        self.unfinished.iter().try_for_each(|fiber| write!(f, "\n  {fiber}"))?;
        match self.fibers.saturating_sub(self.unfinished.len() as u64) {
            0 => Ok(()),
            more => write!(f, "\n  and {more} more"),
        }
    }
}

impl std::error::Error for ShutdownError {}
