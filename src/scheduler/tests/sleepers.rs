//! Where `/proc` is refused: who computes is told from who sleeps by the processor time that it takes.

use super::super::supervisor::Supervisor;
use super::supervisor::{Noted, PERIOD, at};
use crate::primitives::os_thread::OsThread;
use crate::primitives::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::channel;
use std::thread;

/// Runs `f` on a thread that may open no file, by a filter of its own.
fn without_files(f: impl FnOnce() + Send) {
    let step = |code: u32, k: u32, otherwise: u8| libc::sock_filter {
        code: code as u16,
        jt: 0,
        jf: otherwise,
        k,
    };
    let refuse = libc::SECCOMP_RET_ERRNO | libc::EACCES as u32;
    let mut steps = [
        // The number stands first in what the filter sees.
        step(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0),
        step(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, libc::SYS_openat as u32, 1),
        step(libc::BPF_RET | libc::BPF_K, refuse, 0),
        step(libc::BPF_RET | libc::BPF_K, libc::SECCOMP_RET_ALLOW, 0),
    ];
    thread::scope(|scope| {
        scope.spawn(move || {
            let program = libc::sock_fprog { len: steps.len() as _, filter: steps.as_mut_ptr() };
            // SAFETY: the program is valid, and copied by the kernel.
            unsafe {
                assert_eq!(libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
                let mode = libc::SECCOMP_MODE_FILTER;
                assert_eq!(libc::prctl(libc::PR_SET_SECCOMP, mode, &raw const program), 0);
            }
            assert_eq!(OsThread::current().is_asleep(), None, "nothing to see");
            f();
        });
    });
}

/// Looks ten times from when a fiber on `thread` has stalled its worker, and calls `each` before every look. Was its
/// site suspect after the first one, and after which of them at first?
fn suspect_after(thread: OsThread, mut each: impl FnMut()) -> Option<usize> {
    let mut suspect = None;
    Noted::bench(1, 1, |bench, _| {
        let (core, mut supervisor) = (bench.core(0), Supervisor::new(bench.shared, PERIOD));
        core.thread.store(thread.0, Ordering::Relaxed);
        bench.runs(0);
        let mut looks = (0..99).map(|look| {
            each();
            supervisor.look(at(look * PERIOD / 4));
        });
        let report = || bench.shared.sites.report();
        looks.find(|()| !report().is_empty()).expect("it stalls");
        let is_suspect = || report()[0].suspect;
        suspect = if is_suspect() { Some(0) } else { None };
        for look in 1..10 {
            looks.next();
            suspect = suspect.or(is_suspect().then_some(look));
        }
        assert_eq!(report()[0].stalls, 1);
    });
    suspect
}

#[test]
fn who_computes_makes_no_site_suspect() {
    let (says, said) = channel();
    let turns = AtomicU64::new(0);
    const STOP: u64 = 1 << 63;
    thread::scope(|scope| {
        scope.spawn(|| {
            says.send(OsThread::current()).unwrap();
            while turns.fetch_add(1, Ordering::Relaxed) & STOP == 0 {}
        });
        let spins = said.recv().unwrap();
        let suspect = std::sync::Mutex::new(None);
        without_files(|| {
            // Between two looks it has a processor.
            let goes_on = || {
                let before = turns.load(Ordering::Relaxed);
                while turns.load(Ordering::Relaxed) < before + 10_000 {
                    thread::yield_now();
                }
            };
            *suspect.lock().unwrap() = suspect_after(spins, goes_on);
        });
        turns.fetch_or(STOP, Ordering::Relaxed);
        assert_eq!(suspect.into_inner().unwrap(), None);
    });
}

/// At the first look nobody can tell.
#[test]
fn who_sleeps_makes_its_site_suspect_a_look_later() {
    let (says, said) = channel();
    let (ends, end) = channel::<()>();
    let sleeper = thread::spawn(move || {
        says.send(OsThread::current()).unwrap();
        let _ = end.recv();
    });
    let sleeps = said.recv().unwrap();
    while sleeps.is_asleep() != Some(true) {
        thread::yield_now();
    }
    without_files(|| assert_eq!(suspect_after(sleeps, || ()), Some(1)));
    drop(ends);
    sleeper.join().unwrap();
}
