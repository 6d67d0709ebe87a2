//! Programs that are started from a fiber.

use std::os::unix::process::CommandExt;
use std::process::Command;

/// Has the program that `command` starts begin with no signal blocked.
///
/// A program inherits the signals that the thread which starts it blocks, and worker threads block nearly all: one that
/// a fiber starts is ended by neither SIGTERM nor ctrl-c unless it unblocks them itself (what it names in
/// [`Signals`](super::Signals) it receives), and does not end when nobody reads its output any more (SIGPIPE).
/// `command` starts it by `fork` and `exec` then, and not by the faster `posix_spawn`.
///
/// ```
/// use std::process::Command;
/// use std::os::unix::process::ExitStatusExt;
///
/// # fn main() -> std::io::Result<()> {
/// let fiber = volt::go(|| {
///     let mut command = Command::new("sh");
///     volt::signal::unblock(command.args(["-c", "kill -TERM $$"])).status()
/// });
/// assert_eq!(fiber.join().unwrap()?.signal(), Some(libc::SIGTERM));
/// # Ok(())
/// # }
/// ```
pub fn unblock(command: &mut Command) -> &mut Command {
    // SAFETY: between `fork` and `exec` nothing is called but what a signal handler may call, and nothing is allocated.
    unsafe {
        command.pre_exec(|| {
            let mut none = std::mem::zeroed::<libc::sigset_t>();
            libc::sigemptyset(&raw mut none);
            match libc::pthread_sigmask(libc::SIG_SETMASK, &raw const none, std::ptr::null_mut()) {
                0 => Ok(()),
                error => Err(std::io::Error::from_raw_os_error(error)),
            }
        })
    }
}
