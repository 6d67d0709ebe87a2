//! What the kernel says of a thread of this process: does it sleep?
//!
//! Of another thread too, so that who looks on can tell one that blocks from one that computes, or that would and waits
//! for a processor. Read from `/proc`, which costs some ten microseconds. Where that is refused, in a chroot or by a
//! filter, who asks twice can tell by the thread's clock, which needs neither a file nor a descriptor.

use std::time::Duration;

/// The kernel's number of a thread; 0 for one that is not known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OsThread(pub(crate) u32);

impl OsThread {
    pub(crate) fn current() -> OsThread {
        OsThread(rustix::thread::gettid().as_raw_nonzero().get() as u32)
    }

    /// Does it wait for something other than a processor? `None` where nobody can tell: the thread has ended, or there
    /// is no `/proc`. Not as far as is known, where there are no descriptors left to ask with.
    pub(crate) fn is_asleep(self) -> Option<bool> {
        match std::fs::read(format!("/proc/self/task/{}/stat", self.0)) {
            Ok(stat) => Some(matches!(state_in(&stat)?, b'S' | b'D')),
            Err(error) => {
                let none_left = [libc::EMFILE, libc::ENFILE].map(Some);
                none_left.contains(&error.raw_os_error()).then_some(false)
            }
        }
    }
}

impl OsThread {
    /// How much it has had so far. `None` where nobody can tell.
    pub(crate) fn processor_time(self) -> Option<Duration> {
        // As the kernel numbers the clocks of threads; 0 would be the caller's.
        const OF_THREAD: libc::clockid_t = 0b110;
        let number = libc::clockid_t::try_from(self.0).ok().filter(|number| *number != 0)?;
        let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: the kernel writes to `time`, and knows no clock of a thread that has ended.
        let told = unsafe { libc::clock_gettime(!number << 3 | OF_THREAD, &raw mut time) } == 0;
        told.then(|| Duration::new(time.tv_sec as u64, time.tv_nsec as u32))
    }
}

/// The letter after the thread's name, which stands in parentheses and may have any in it.
fn state_in(stat: &[u8]) -> Option<u8> {
    let end = stat.iter().rposition(|&byte| byte == b')')?;
    stat.get(end + 2).copied()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;
    use std::time::Instant;

    #[test]
    fn who_computes_is_told_from_who_sleeps() {
        assert_eq!(OsThread::current().is_asleep(), Some(false), "it asks");
        let (says, said) = channel();
        let (ends, end) = channel::<()>();
        let sleeper = std::thread::spawn(move || {
            says.send(OsThread::current()).unwrap();
            let _ = end.recv();
        });
        let thread = said.recv().unwrap();
        let start = Instant::now();
        while thread.is_asleep() != Some(true) {
            assert!(start.elapsed() < Duration::from_secs(30), "it waits for a message");
        }
        drop(ends);
        sleeper.join().unwrap();
    }

    /// Of each other, with no file and no descriptor.
    #[test]
    fn the_processor_time_tells_who_computes_from_who_sleeps() {
        let (says, said) = channel();
        let (ends, end) = channel::<()>();
        let sleeper = std::thread::spawn(move || {
            says.send(OsThread::current()).unwrap();
            let _ = end.recv();
        });
        let sleeps = said.recv().unwrap();
        while sleeps.is_asleep() != Some(true) {
            std::thread::yield_now();
        }
        let computes = || {
            let me = OsThread::current();
            let (start, end) =
                (Instant::now(), me.processor_time().unwrap() + Duration::from_millis(1));
            while me.processor_time() < Some(end) {
                assert!(start.elapsed() < Duration::from_secs(30), "it computes");
            }
        };
        // Who is said to sleep may not have left its processor yet.
        computes();
        let before = sleeps.processor_time();
        assert!(before.is_some());
        computes();
        assert_eq!(sleeps.processor_time(), before);
        drop(ends);
        sleeper.join().unwrap();
        assert_eq!(OsThread(0).processor_time(), None, "it is nobody, not the caller");
    }

    #[test]
    fn of_a_thread_that_is_not_there_nobody_can_tell() {
        assert_eq!(OsThread(0).is_asleep(), None);
    }

    /// A server that has none left is one that has too much to do.
    #[test]
    fn without_descriptors_nobody_is_taken_to_sleep() {
        // SAFETY: the child calls the system, and leaves without running what belongs to the parent.
        let pid = unsafe { libc::fork() };
        if pid == 0 {
            let none = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
            // SAFETY: as above.
            unsafe {
                libc::setrlimit(libc::RLIMIT_NOFILE, &raw const none);
                libc::_exit(i32::from(OsThread::current().is_asleep() == Some(false)));
            }
        }
        let mut status = 0;
        // SAFETY: our child, waited for once.
        assert_eq!(unsafe { libc::waitpid(pid, &raw mut status, 0) }, pid);
        assert!(libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 1, "{status}");
    }

    #[test]
    fn a_name_may_look_like_a_state() {
        assert_eq!(state_in(b"71 (a) S (b) D 1 71) R 1 71"), Some(b'R'));
        assert_eq!(state_in(b"71 (cut off)"), None);
        assert_eq!(state_in(b""), None);
    }
}
