//! What must be refused, because it could only hang or corrupt; and what a busy fiber owes others.

mod common;
#[cfg(all(target_os = "linux", target_env = "gnu", target_arch = "x86_64"))]
#[path = "hazards/filtered.rs"]
mod filtered;

use common::{LONG, Left, child, within};
use std::io::{Read, Write};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Barrier};
use std::time::{Duration, Instant};
use volt::net::{TcpListener, TcpStream};
use volt::runtime::Builder;

/// From now on the system call `number` fails for every thread of the process, as filters of daemons have it.
#[cfg(target_os = "linux")]
fn forbid(number: libc::c_long) {
    filter(number, libc::SECCOMP_RET_ERRNO | libc::EPERM as u32);
}

/// From now on the system call `number` has that `action`, for every thread of the process.
#[cfg(target_os = "linux")]
fn filter(number: libc::c_long, action: u32) {
    let step = |code: u32, k: u32, otherwise: u8| libc::sock_filter {
        code: code as u16,
        jt: 0,
        jf: otherwise,
        k,
    };
    let mut steps = [
        // The number stands first in what the filter sees.
        step(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0),
        step(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, number as u32, 1),
        step(libc::BPF_RET | libc::BPF_K, action, 0),
        step(libc::BPF_RET | libc::BPF_K, libc::SECCOMP_RET_ALLOW, 0),
    ];
    install(&mut steps);
}

/// For every thread of the process.
#[cfg(target_os = "linux")]
fn install(steps: &mut [libc::sock_filter]) {
    let program =
        libc::sock_fprog { len: steps.len() as libc::c_ushort, filter: steps.as_mut_ptr() };
    let all_threads = libc::SECCOMP_FILTER_FLAG_TSYNC;
    // SAFETY: the program is valid, and copied by the kernel.
    unsafe {
        assert_eq!(libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
        let set = libc::SECCOMP_SET_MODE_FILTER;
        assert_eq!(libc::syscall(libc::SYS_seccomp, set, all_threads, &raw const program), 0);
    }
}

/// Does the kernel offer to a process that has registered for it what volt asks for?
#[cfg(target_os = "linux")]
fn has_membarrier() -> bool {
    const PRIVATE_EXPEDITED: libc::c_int = 1 << 3;
    // SAFETY: touches no memory.
    unsafe { libc::syscall(libc::SYS_membarrier, PRIVATE_EXPEDITED, 0, 0) == 0 }
}

/// A worker that had a channel for itself and is busy elsewhere; then a thread comes for the channel.
#[cfg(target_os = "linux")]
fn come_for_a_channel(meanwhile: impl FnOnce()) {
    let runtime = Builder::new().workers(2).build().unwrap();
    let (sender, receiver) = volt::channel::bounded(1);
    let here = Arc::new(AtomicUsize::new(0));
    let (theirs, to_itself) = (Arc::clone(&here), sender.clone());
    let fiber = runtime.go(move || {
        for _ in 0..1_000 {
            to_itself.send(1).unwrap();
            receiver.recv().unwrap();
        }
        theirs.store(1, Ordering::SeqCst);
        while theirs.load(Ordering::SeqCst) == 1 {
            std::thread::sleep(Duration::from_millis(1));
        }
        receiver.recv().unwrap()
    });
    while here.load(Ordering::SeqCst) == 0 {
        std::thread::yield_now();
    }
    meanwhile();
    sender.send(7).unwrap();
    here.store(2, Ordering::SeqCst);
    assert_eq!(fiber.join().unwrap(), 7);
    runtime.shutdown(LONG).unwrap();
}

#[test]
#[cfg(target_os = "linux")]
fn a_filter_that_comes_before_volt_costs_nothing_but_time() {
    let left = child("a_filter_that_comes_before_volt_costs_nothing_but_time", &[], || {
        forbid(libc::SYS_membarrier);
        come_for_a_channel(|| ());
    });
    assert!(left.status.success(), "{left:?}");
}

/// Light fences were light until then: nobody can tell what the others have seen.
#[test]
#[cfg(target_os = "linux")]
fn a_filter_that_takes_membarrier_away_ends_the_process() {
    let left = child("a_filter_that_takes_membarrier_away_ends_the_process", &[], || {
        come_for_a_channel(|| _ = forbid_membarrier());
    });
    ended_by_membarrier(&left);
}

/// False if there was none.
#[cfg(target_os = "linux")]
fn forbid_membarrier() -> bool {
    let had = has_membarrier();
    if had {
        eprintln!("from here on it is forbidden");
        forbid(libc::SYS_membarrier);
    }
    had
}

/// If it was there to be forbidden.
#[cfg(target_os = "linux")]
fn ended_by_membarrier(left: &Left) {
    if left.text.contains("forbidden") {
        assert!(left.text.contains("volt: the system call membarrier"), "{left:?}");
        assert_eq!(left.signal(), Some(libc::SIGABRT), "{left:?}");
    } else {
        assert!(left.status.success(), "{left:?}");
    }
}

/// Plain threads alone: one takes a mutex thousands of times, and then has it for as long as `meanwhile` says, while
/// another waits.
#[cfg(target_os = "linux")]
fn come_for_a_mutex(meanwhile: impl FnOnce() -> Duration) {
    let mutex = volt::sync::Mutex::new(0);
    (0..10_000).for_each(|_| *mutex.lock().unwrap() += 1);
    std::thread::scope(|scope| {
        let guard = mutex.lock().unwrap();
        let held = meanwhile();
        scope.spawn(|| *mutex.lock().unwrap() += 1);
        std::thread::sleep(held);
        drop(guard);
    });
    assert_eq!(*mutex.lock().unwrap(), 10_001);
}

#[test]
#[cfg(target_os = "linux")]
fn a_filter_that_comes_before_a_mutex_costs_nothing_but_time() {
    let left = child("a_filter_that_comes_before_a_mutex_costs_nothing_but_time", &[], || {
        forbid(libc::SYS_membarrier);
        come_for_a_mutex(|| Duration::from_millis(20));
    });
    assert!(left.status.success(), "{left:?}");
}

/// The owner frees it by a plain store, and who waits cannot make sure that it is seen.
#[test]
#[cfg(target_os = "linux")]
fn a_filter_that_takes_membarrier_from_a_mutex_ends_the_process() {
    let left = child("a_filter_that_takes_membarrier_from_a_mutex_ends_the_process", &[], || {
        // Nobody survives that time.
        come_for_a_mutex(|| if forbid_membarrier() { LONG } else { Duration::ZERO });
    });
    ended_by_membarrier(&left);
}

/// A server that answers byte by byte, on the connection of a client that calls `meanwhile` in the middle.
#[cfg(target_os = "linux")]
fn serve_a_byte_at_a_time(meanwhile: impl FnOnce()) {
    serve_on(Builder::new().workers(2), || (), meanwhile);
}

/// On a runtime that `builder` makes, which calls `first` before it has served anybody. Each wait for a byte has a time-out
/// that is far off.
#[cfg(target_os = "linux")]
fn serve_on(builder: Builder, first: impl FnOnce(), meanwhile: impl FnOnce()) {
    let runtime = builder.build().unwrap();
    first();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut near = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    runtime.go(move || {
        let (mut far, _) = listener.accept().unwrap();
        far.set_read_timeout(Some(Duration::from_secs(3600))).unwrap();
        let mut byte = [0; 1];
        while far.read(&mut byte).unwrap() == 1 {
            far.write_all(&byte).unwrap();
        }
    });
    let mut ask = || {
        for _ in 0..20 {
            std::thread::sleep(Duration::from_millis(1));
            near.write_all(&[1]).unwrap();
            near.read_exact(&mut [0; 1]).unwrap();
        }
    };
    ask();
    meanwhile();
    ask();
    drop(near);
    runtime.shutdown(LONG).unwrap();
}

#[test]
#[cfg(target_os = "linux")]
fn a_filter_without_timerfd_that_comes_before_volt_costs_nothing_but_time() {
    let left = child(
        "a_filter_without_timerfd_that_comes_before_volt_costs_nothing_but_time",
        &[],
        || {
            forbid(libc::SYS_timerfd_settime);
            serve_a_byte_at_a_time(|| ());
        },
    );
    assert!(left.status.success(), "{left:?}");
}

#[test]
#[cfg(target_os = "linux")]
fn a_filter_that_takes_timerfd_away_ends_the_process() {
    let left = child("a_filter_that_takes_timerfd_away_ends_the_process", &[], || {
        serve_a_byte_at_a_time(|| forbid(libc::SYS_timerfd_settime));
    });
    assert!(left.text.contains("volt: the system call timerfd_settime"), "{left:?}");
    assert_eq!(left.signal(), Some(libc::SIGABRT), "{left:?}");
}

/// Without a supervisor a timer only saves the poller others.
#[test]
#[cfg(target_os = "linux")]
fn without_a_supervisor_a_filter_that_takes_timerfd_away_costs_nothing_but_time() {
    let left = child(
        "without_a_supervisor_a_filter_that_takes_timerfd_away_costs_nothing_but_time",
        &[],
        || {
            let builder = Builder::new().workers(2).stall_period(None);
            serve_on(builder, || forbid(libc::SYS_timerfd_settime), || ());
        },
    );
    assert!(left.status.success(), "{left:?}");
}

/// Whatever a runtime needs of that kind it has before it serves anybody, and whoever filters then may have the kernel end the
/// process for it.
#[test]
#[cfg(target_os = "linux")]
fn a_runtime_that_is_there_makes_no_further_timerfd() {
    let left = child("a_runtime_that_is_there_makes_no_further_timerfd", &[], || {
        let first = || filter(libc::SYS_timerfd_create, libc::SECCOMP_RET_KILL_PROCESS);
        serve_on(Builder::new().workers(2), first, || ());
    });
    assert!(left.status.success(), "{left:?}");
}

/// Nobody would be told of anything any more: neither sockets nor timers, nor of what comes from other threads.
#[test]
#[cfg(target_os = "linux")]
fn a_filter_that_takes_the_poller_away_ends_the_process() {
    #[cfg(target_arch = "x86_64")]
    const WAIT: libc::c_long = libc::SYS_epoll_wait;
    #[cfg(not(target_arch = "x86_64"))]
    const WAIT: libc::c_long = libc::SYS_epoll_pwait;
    let left = child("a_filter_that_takes_the_poller_away_ends_the_process", &[], || {
        serve_a_byte_at_a_time(|| forbid(WAIT));
    });
    assert!(left.text.contains("volt: the system call epoll_wait"), "{left:?}");
    assert!(left.text.contains("seccomp"), "{left:?}");
    assert_eq!(left.signal(), Some(libc::SIGABRT), "{left:?}");
}

/// Closes every descriptor of that kind, as who becomes a daemon closes all that it does not know. Their numbers may
/// be given to others at once.
#[cfg(target_os = "linux")]
fn close_all(kind: &str, are_reused: bool) {
    let mut closed = 0;
    for entry in std::fs::read_dir("/proc/self/fd").unwrap() {
        let path = entry.unwrap().path();
        if std::fs::read_link(&path).is_ok_and(|is| is.as_os_str() == kind) {
            let number = path.file_name().unwrap().to_str().unwrap().parse().unwrap();
            // SAFETY: the process ends for it.
            unsafe { if are_reused { libc::dup2(0, number) } else { libc::close(number) } };
            closed += 1;
        }
    }
    assert!(closed > 0, "there is no {kind}");
}

#[test]
#[cfg(target_os = "linux")]
fn who_closes_the_poller_is_told() {
    for reused in ["no", "yes"] {
        let left = child("who_closes_the_poller_is_told", &[("VOLT_TEST_REUSED", reused)], || {
            let are_reused = std::env::var("VOLT_TEST_REUSED").as_deref() == Ok("yes");
            serve_a_byte_at_a_time(|| close_all("anon_inode:[eventpoll]", are_reused));
        });
        assert!(left.text.contains("volt: the system call epoll_wait"), "{left:?}");
        closed_by_somebody(&left);
    }
}

/// By which one thread ends the sleep of another in the poller.
#[test]
#[cfg(target_os = "linux")]
fn who_closes_the_waker_is_told() {
    let left = child("who_closes_the_waker_is_told", &[], || {
        let runtime = Builder::new().workers(1).build().unwrap();
        runtime.run(|| ());
        close_all("anon_inode:[eventfd]", false);
        loop {
            runtime.run(|| ());
            // Sooner or later it sleeps.
            std::thread::sleep(Duration::from_millis(1));
        }
    });
    assert!(left.text.contains("volt: the system call write"), "{left:?}");
    closed_by_somebody(&left);
}

#[cfg(target_os = "linux")]
fn closed_by_somebody(left: &Left) {
    assert!(left.text.contains("closefrom"), "{left:?}");
    assert!(!left.text.contains("seccomp"), "{left:?}");
    assert_eq!(left.signal(), Some(libc::SIGABRT), "{left:?}");
}

/// What a filter traps is answered by a handler on the thread that has called; it ends the process where that blocks the signal.
#[test]
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
fn a_system_call_that_a_filter_traps_is_answered_on_a_fiber() {
    extern "C" fn answers(_: libc::c_int, _: *mut libc::siginfo_t, context: *mut libc::c_void) {
        // SAFETY: what the kernel hands over, with the registers that it will restore.
        let context = unsafe { &mut *context.cast::<libc::ucontext_t>() };
        context.uc_mcontext.gregs[libc::REG_RAX as usize] = 77;
    }
    let left = child("a_system_call_that_a_filter_traps_is_answered_on_a_fiber", &[], || {
        let handler = answers as extern "C" fn(_, _, _);
        handle(libc::SIGSYS, handler as usize, libc::SA_SIGINFO);
        filter(libc::SYS_getpgid, libc::SECCOMP_RET_TRAP);
        // SAFETY: touches no memory.
        let call = || unsafe { libc::syscall(libc::SYS_getpgid, 0) };
        assert_eq!(call(), 77);
        assert_eq!(volt::run(call), 77);
        assert_eq!(volt::run(|| volt::thread::pinned(call)), 77);
    });
    assert!(left.status.success(), "{left:?}");
}

extern "C" fn waits(_signal: libc::c_int) {
    volt::sleep(Duration::from_millis(1));
}

/// Handles SIGPROF, which workers do not block, on the alternate stack.
fn handle_sigprof() {
    handle(libc::SIGPROF, waits as extern "C" fn(libc::c_int) as usize, 0);
}

fn handle(signal: libc::c_int, handler: usize, flags: libc::c_int) {
    // SAFETY: an all-zero action is valid; the fields that matter are set.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = handler;
        action.sa_flags = libc::SA_ONSTACK | flags;
        assert_eq!(libc::sigaction(signal, &raw const action, std::ptr::null_mut()), 0);
    }
}

#[test]
fn a_wait_in_a_signal_handler_is_refused() {
    let left = child("a_wait_in_a_signal_handler_is_refused", &[], || {
        volt::run(|| {
            handle_sigprof();
            // SAFETY: delivered to this thread before the call returns.
            unsafe { libc::raise(libc::SIGPROF) };
        });
    });
    assert!(left.text.contains("a wait (sleep) inside a signal handler"), "{left:?}");
    assert_eq!(left.signal(), Some(libc::SIGABRT), "a panic cannot leave a handler: {left:?}");
}

/// There the worker's core is at hand, and would be handed on from the wrong stack.
#[test]
fn a_wait_in_a_signal_handler_beside_a_brief_call_is_refused() {
    let left = child("a_wait_in_a_signal_handler_beside_a_brief_call_is_refused", &[], || {
        handle_sigprof();
        let runtime = Builder::new().workers(1).force_migrate(false).build().unwrap();
        runtime.run(|| {
            let kept = || volt::runtime::Handle::current().stats().total.brief_calls;
            loop {
                let before = kept();
                volt::blocking(|| {
                    if kept() != before {
                        // SAFETY: delivered to this thread before the call returns.
                        unsafe { libc::raise(libc::SIGPROF) };
                    }
                });
            }
        });
    });
    assert!(left.text.contains("a wait (sleep) inside a signal handler"), "{left:?}");
    assert_eq!(left.signal(), Some(libc::SIGABRT), "a panic cannot leave a handler: {left:?}");
}

/// What `f` says in a child that is forked, runs nothing else, and leaves.
fn in_forked_child(f: impl FnOnce() -> bool) -> bool {
    // SAFETY: the child calls `f` and leaves.
    let pid = unsafe { libc::fork() };
    if pid == 0 {
        let result = f();
        // SAFETY: leaves without running what belongs to the parent.
        unsafe { libc::_exit(if result { 7 } else { 8 }) };
    }
    let mut status = 0;
    // SAFETY: our child, waited for once.
    assert_eq!(unsafe { libc::waitpid(pid, &raw mut status, 0) }, pid);
    assert!(libc::WIFEXITED(status), "{status}");
    libc::WEXITSTATUS(status) == 7
}

/// As `in_forked_child`, with the child's copy of `value`, which the parent gets back.
fn forked_with<T>(value: T, f: impl FnOnce(T) -> bool) -> T {
    let value = std::mem::ManuallyDrop::new(value);
    // SAFETY: only the child takes it there, in a memory of its own.
    let in_child = || f(unsafe { std::ptr::read(&raw const *value) });
    assert!(in_forked_child(in_child));
    std::mem::ManuallyDrop::into_inner(value)
}

#[test]
fn a_wait_in_a_forked_child_is_refused() {
    let left = child("a_wait_in_a_forked_child_is_refused", &[], || {
        assert_eq!(volt::run(|| 1), 1);
        let refused = || std::panic::catch_unwind(|| volt::run(|| 2)).is_err();
        assert!(in_forked_child(refused), "the child was not refused");
        assert_eq!(volt::run(|| 3), 3, "the parent goes on");
    });
    assert!(left.status.success(), "{left:?}");
    assert!(left.text.contains("a wait in a forked child"), "{left:?}");
}

/// Nobody would run it.
#[test]
fn a_spawn_in_a_forked_child_is_refused() {
    let left = child("a_spawn_in_a_forked_child_is_refused", &[], || {
        use std::panic::{AssertUnwindSafe, catch_unwind};
        // The default runtime has not been used yet: the child must not start its threads either.
        let runtime = Builder::new().workers(1).build().unwrap();
        assert_eq!(runtime.run(|| 1), 1);
        let (sender, receiver) = std::sync::mpsc::channel::<()>();
        assert!(in_forked_child(|| {
            // What it was to run is gone with it.
            let spawn = || drop(volt::go(move || drop(sender)));
            let refused = catch_unwind(AssertUnwindSafe(spawn)).is_err();
            refused && receiver.try_recv() == Err(std::sync::mpsc::TryRecvError::Disconnected)
        }));
        let on_another = || drop(runtime.go(|| ()));
        let named = || drop(volt::thread::Builder::new().spawn(|| ()));
        for spawn in [&on_another as &dyn Fn(), &named] {
            assert!(in_forked_child(|| catch_unwind(AssertUnwindSafe(spawn)).is_err()));
        }
        // On a fiber of another runtime it comes from outside too.
        let handle = runtime.handle().clone();
        volt::run(move || {
            assert!(in_forked_child(
                || catch_unwind(AssertUnwindSafe(|| handle.go(|| ()))).is_err()
            ));
        });
        assert_eq!(runtime.go(|| 3).join().unwrap(), 3, "the parent goes on");
    });
    assert!(left.status.success(), "{left:?}");
    assert_eq!(left.text.matches("a spawn in a forked child").count(), 4, "{left:?}");
}

/// Coroutines of others, wasm, growing stacks: safe code may be on a stack that is not its fiber's. What it
/// could not wait for must not begin.
#[test]
fn a_scope_on_a_foreign_stack_is_refused_before_it_has_fibers() {
    use corosensei::{Coroutine, Yielder};
    use std::panic::{AssertUnwindSafe, catch_unwind};
    type Foreign = Coroutine<(), (), ()>;
    within(LONG, || {
        // The second time inside `run`, which waits too.
        for run in [false, true] {
            let runtime = Builder::new().workers(1).force_migrate(false).build().unwrap();
            let other = Arc::new(Builder::new().workers(1).build().unwrap());
            let began = Arc::new(AtomicBool::new(false));
            let (theirs, others) = (Arc::clone(&began), Arc::clone(&other));
            runtime.run(move || {
                let mut foreign = Foreign::new(move |_: &Yielder<(), ()>, ()| {
                    let local = Arc::clone(&theirs);
                    let borrows = || local.store(true, Ordering::SeqCst);
                    let scope = || {
                        volt::scope(|scope| drop(scope.spawn(borrows)));
                    };
                    let refused = match run {
                        false => catch_unwind(AssertUnwindSafe(scope)),
                        true => catch_unwind(AssertUnwindSafe(|| others.run(borrows))),
                    };
                    assert!(refused.is_err());
                });
                foreign.resume(());
                volt::yield_now();
            });
            runtime.shutdown(LONG).unwrap();
            assert!(!began.load(Ordering::SeqCst), "it ran after what it borrows was gone");
        }
    });
}

/// What would have ended such a wait must not end the next one, which is linked elsewhere.
#[test]
fn a_wait_that_is_refused_on_a_foreign_stack_is_not_ended_later() {
    use corosensei::{Coroutine, Yielder};
    use std::panic::catch_unwind;
    use volt::cancel::{Token, shield};
    type Foreign = Coroutine<(), (), ()>;
    within(LONG, || {
        let runtime = Builder::new().workers(1).force_migrate(false).build().unwrap();
        runtime.run(|| {
            let token = Token::new();
            let (sender, messages) = volt::channel::bounded(1);
            volt::scope(|scope| {
                let inside = token.clone();
                let fiber = scope.spawn(move || {
                    inside.run(|| {
                        let mut foreign = Foreign::new(|_: &Yielder<(), ()>, ()| {
                            let refused = catch_unwind(|| volt::sleep(Duration::from_millis(1)));
                            assert!(refused.is_err());
                        });
                        foreign.resume(());
                        shield(|| messages.recv())
                    })
                });
                volt::yield_now();
                token.cancel();
                volt::yield_now();
                sender.send(7).unwrap();
                let received = fiber.join().unwrap();
                assert_eq!(received, Ok(Ok(7)), "nothing outside ends it");
            });
        });
        runtime.shutdown(LONG).unwrap();
    });
}

/// Once it stands in line somebody may have taken its message.
#[test]
fn a_send_on_a_foreign_stack_is_refused_before_anybody_may_receive() {
    use corosensei::{Coroutine, Yielder};
    use std::panic::{AssertUnwindSafe, catch_unwind};
    type Foreign = Coroutine<(), (), ()>;
    const SENDS: usize = 30_000;
    static DROPPED: AtomicUsize = AtomicUsize::new(0);
    struct Message;
    impl Drop for Message {
        fn drop(&mut self) {
            DROPPED.fetch_add(1, Ordering::Relaxed);
        }
    }
    let name = "a_send_on_a_foreign_stack_is_refused_before_anybody_may_receive";
    let left = child(name, &[], || {
        let runtime = Builder::new().workers(1).force_migrate(false).build().unwrap();
        // In place of volt's, which names the fiber each time.
        std::panic::set_hook(Box::new(|_| ()));
        let (sender, messages) = volt::channel::bounded(0);
        let receives = std::thread::spawn(move || {
            let mut received = 0;
            loop {
                match messages.try_recv() {
                    Ok(Message) => received += 1,
                    Err(error) if error.is_disconnected() => return received,
                    Err(_) => std::hint::spin_loop(),
                }
            }
        });
        runtime.run(move || {
            let mut foreign = Foreign::new(move |_: &Yielder<(), ()>, ()| {
                for _ in 0..SENDS {
                    let sends = || sender.send(Message);
                    assert!(catch_unwind(AssertUnwindSafe(sends)).is_err());
                }
            });
            foreign.resume(());
        });
        let received: usize = receives.join().unwrap();
        assert_eq!((received, DROPPED.load(Ordering::Relaxed)), (0, SENDS));
    });
    assert!(left.status.success(), "{left:?}");
}

/// The sender of a select makes its message when it has been chosen, so that whoever chooses it waits.
#[test]
fn a_receive_on_a_foreign_stack_chooses_no_sender_that_it_would_wait_for() {
    use corosensei::{Coroutine, Yielder};
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use volt::channel::{bounded, select};
    type Foreign = Coroutine<(), (), ()>;
    within(LONG, || {
        let runtime = Builder::new().workers(1).force_migrate(false).build().unwrap();
        runtime.run(|| {
            let (s, r) = bounded(0);
            let sends = volt::go(move || select! { send(s, 7) -> sent => sent.unwrap() });
            volt::yield_now();
            let theirs = r.clone();
            let mut foreign = Foreign::new(move |_: &Yielder<(), ()>, ()| {
                assert!(theirs.try_recv().is_err());
                let receives = || theirs.recv();
                assert!(catch_unwind(AssertUnwindSafe(receives)).is_err());
                let selects = || select! { recv(theirs) -> message => message };
                assert!(catch_unwind(AssertUnwindSafe(selects)).is_err());
            });
            foreign.resume(());
            assert_eq!(r.recv(), Ok(7));
            sends.join().unwrap();
            assert!(r.recv().is_err());
        });
    });
}

/// There is no other thread in the child: a fiber that borrows would go on when the one that forked ends.
#[test]
fn a_child_that_is_forked_within_a_scope_ends_with_it() {
    let left = child("a_child_that_is_forked_within_a_scope_ends_with_it", &[], || {
        let runtime = Builder::new_current_thread().stall_period(None).build().unwrap();
        runtime.run(|| {
            let mut pid = 0;
            volt::scope(|scope| {
                scope.spawn(|| ());
                // SAFETY: the child runs only what may follow here in a forked child.
                pid = unsafe { libc::fork() };
            });
            let mut status = 0;
            // SAFETY: our child, waited for once.
            assert_eq!(unsafe { libc::waitpid(pid, &raw mut status, 0) }, pid);
            assert!(libc::WIFSIGNALED(status) && libc::WTERMSIG(status) == libc::SIGABRT);
        });
    });
    assert!(left.status.success(), "{left:?}");
    assert!(left.text.contains("a wait for fibers that borrow"), "{left:?}");
}

/// A thread that panics may not change the hook, which is changed later.
#[test]
fn the_first_use_may_be_in_a_destructor_of_a_panic() {
    struct Spawns;
    impl Drop for Spawns {
        fn drop(&mut self) {
            volt::thread::spawn(|| ()).join().unwrap();
        }
    }
    let left = child("the_first_use_may_be_in_a_destructor_of_a_panic", &[], || {
        let unwinds = || {
            let _spawns = Spawns;
            panic!("unwinds through the first use");
        };
        assert!(std::panic::catch_unwind(unwinds).is_err());
        let panics = volt::thread::Builder::new().name("late".into()).spawn(|| panic!("!"));
        assert!(panics.unwrap().join().is_err());
    });
    assert!(left.status.success() && left.text.contains("fiber 'late'"), "{left:?}");
}

/// A hook that is running keeps others from changing it, and may wait for fibers.
#[test]
fn the_first_uses_may_be_in_a_panic_hook_and_beside_it() {
    static IN_HOOK: Barrier = Barrier::new(2);
    let left = child("the_first_uses_may_be_in_a_panic_hook_and_beside_it", &[], || {
        std::panic::set_hook(Box::new(|_| {
            IN_HOOK.wait();
            // The other one is to come first, but need not.
            std::thread::sleep(Duration::from_millis(100));
            volt::go(|| eprintln!("reported")).join().unwrap();
        }));
        let panics = std::thread::spawn(|| panic!());
        IN_HOOK.wait();
        assert_eq!(volt::go(|| 7).join().unwrap(), 7);
        assert!(panics.join().is_err());
    });
    assert!(left.status.success() && left.text.contains("reported"), "{left:?}");
}

#[test]
fn a_default_runtime_that_cannot_start_may_be_used_by_the_panic_s_hook() {
    let name = "a_default_runtime_that_cannot_start_may_be_used_by_the_panic_s_hook";
    let left = child(name, &[("VOLT_WORKERS", "many")], || {
        std::panic::set_hook(Box::new(|info| {
            eprintln!("{info}");
            // The second panic, which ends the process.
            volt::go(|| ());
        }));
        volt::go(|| ());
    });
    assert!(!left.status.success(), "{left:?}");
    assert!(left.text.contains("VOLT_WORKERS=\"many\" is not a whole number"), "{left:?}");
}

/// What is runnable at a fork is so in the parent too, where it runs.
#[test]
fn a_forked_child_runs_no_fiber_of_its_parent() {
    let left = child("a_forked_child_runs_no_fiber_of_its_parent", &[], || {
        let runtime = Builder::new_current_thread().stall_period(None).build().unwrap();
        runtime.run(|| {
            let ran = Arc::new(AtomicUsize::new(0));
            let theirs = Arc::clone(&ran);
            let other = volt::go(move || theirs.fetch_add(1, Ordering::Relaxed));
            let (sender, receiver) = volt::channel::bounded(1);
            assert!(in_forked_child(|| {
                volt::yield_now();
                // More than may be done without a yield.
                for number in 0..1000 {
                    sender.send(number).unwrap();
                    receiver.recv().unwrap();
                }
                let pinned = || volt::thread::pinned(|| ran.load(Ordering::Relaxed));
                let pins = std::panic::catch_unwind(std::panic::AssertUnwindSafe(pinned));
                pins.is_err() && ran.load(Ordering::Relaxed) == 0
            }));
            volt::yield_now();
            assert_eq!(ran.load(Ordering::Relaxed), 1, "the parent goes on");
            other.join().unwrap();
        });
    });
    assert!(left.status.success(), "{left:?}");
}

/// Nor does one that comes to its end there make room for them, whether it returns or is refused a wait; the poller
/// stays the parent's.
#[test]
fn a_fiber_that_ends_in_a_forked_child_ends_the_process() {
    let left = child("a_fiber_that_ends_in_a_forked_child_ends_the_process", &[], || {
        for (waits, workers) in [(false, 0), (true, 0), (false, 1), (true, 1)] {
            let builder = match workers {
                0 => Builder::new_current_thread(),
                workers => Builder::new().workers(workers),
            };
            let runtime = builder.stall_period(None).build().unwrap();
            let (mut seen, other) = std::os::unix::net::UnixStream::pair().unwrap();
            runtime.run(move || {
                let mut theirs = other.try_clone().unwrap();
                let fiber = volt::go(move || theirs.write_all(b"x").unwrap());
                // SAFETY: the child runs only what may follow here in a forked child.
                let pid = unsafe { libc::fork() };
                if pid == 0 {
                    if waits {
                        volt::sleep(Duration::from_millis(1));
                    }
                    return;
                }
                let mut status = 0;
                // SAFETY: our child, waited for once.
                assert_eq!(unsafe { libc::waitpid(pid, &raw mut status, 0) }, pid);
                assert!(libc::WIFSIGNALED(status) && libc::WTERMSIG(status) == libc::SIGABRT);
                fiber.join().unwrap();
            });
            let mut runs = Vec::new();
            seen.read_to_end(&mut runs).unwrap();
            assert_eq!(runs, b"x", "waits: {waits}, workers: {workers}");
        }
    });
    assert!(left.status.success(), "{left:?}");
    assert_eq!(left.text.matches("a fiber has come to its end in a forked child").count(), 4);
}

/// Of a result that nobody takes: the last of a fiber's code.
#[test]
fn a_destructor_that_forks_at_a_fibers_end_leaves_a_child_that_ends() {
    struct Forks(std::os::unix::net::UnixStream);
    impl Drop for Forks {
        fn drop(&mut self) {
            // SAFETY: the child goes on to the end of the fiber.
            let pid = unsafe { libc::fork() };
            if pid == 0 {
                // SAFETY: for where it would not end.
                unsafe { libc::alarm(5) };
                return;
            }
            let mut status = 0;
            // SAFETY: our child, waited for once.
            assert_eq!(unsafe { libc::waitpid(pid, &raw mut status, 0) }, pid);
            self.0.write_all(&[libc::WTERMSIG(status) as u8]).unwrap();
        }
    }
    let left =
        child("a_destructor_that_forks_at_a_fibers_end_leaves_a_child_that_ends", &[], || {
            let runtime = Builder::new_current_thread().stall_period(None).build().unwrap();
            let (mut seen, tells) = std::os::unix::net::UnixStream::pair().unwrap();
            let mut next = tells.try_clone().unwrap();
            runtime.run(move || {
                drop(volt::go(move || Forks(tells)));
                // Behind it, and not in the child.
                volt::yield_now();
                next.write_all(&[0]).unwrap();
            });
            let mut ends = Vec::new();
            seen.read_to_end(&mut ends).unwrap();
            assert_eq!(ends, [libc::SIGABRT as u8, 0]);
        });
    assert!(left.status.success(), "{left:?}");
}

/// A daemon forks with its runtime in a variable.
#[test]
fn a_runtime_is_dropped_in_a_forked_child() {
    let left = child("a_runtime_is_dropped_in_a_forked_child", &[], || {
        let builders = [Builder::new, Builder::new_current_thread];
        for runtime in builders.map(|builder| builder().build().unwrap()) {
            let parked = runtime.go(|| volt::timeout(LONG, volt::thread::park).is_ok());
            assert_eq!(runtime.run(|| 1), 1);
            let runtime = forked_with(runtime, |runtime| {
                let drops = std::panic::AssertUnwindSafe(|| drop(runtime));
                std::panic::catch_unwind(drops).is_ok()
            });
            let runtime = forked_with(runtime, |runtime| {
                let ends = std::panic::AssertUnwindSafe(|| runtime.shutdown_now(LONG));
                std::panic::catch_unwind(ends).is_err()
            });
            parked.thread().unpark();
            runtime.shutdown(LONG).unwrap();
            assert!(parked.join().unwrap(), "the parent goes on");
        }
    });
    assert!(left.status.success(), "{left:?}");
    assert!(left.text.contains("a wait in a forked child"), "{left:?}");
}

/// It shares the kernel's poller with the parent, whose connection it drops.
#[test]
fn a_forked_child_takes_no_socket_from_its_parent() {
    let left = child("a_forked_child_takes_no_socket_from_its_parent", &[], || {
        let listener = volt::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let mut far = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut near, _) = listener.accept().unwrap();
        let near = volt::run(move || {
            near.set_read_timeout(Some(Duration::from_millis(1))).unwrap();
            near.read(&mut [0]).unwrap_err();
            near.set_read_timeout(None).unwrap();
            near
        });
        // It drops what it has of the connection.
        let mut near = forked_with(near, |near| {
            drop(near);
            true
        });
        volt::run(move || {
            let reader = volt::go(move || volt::timeout(LONG / 4, || near.read(&mut [0])));
            common::waits::until_waits("read", &reader);
            far.write_all(&[1]).unwrap();
            assert_eq!(reader.join().unwrap().expect("it was told").unwrap(), 1);
        });
    });
    assert!(left.status.success(), "{left:?}");
}

/// Nor does it have the kernel's poller watch one, on the parent's account, before it is refused the wait.
#[test]
fn a_forked_child_registers_no_socket_for_its_parent() {
    let left = child("a_forked_child_registers_no_socket_for_its_parent", &[], || {
        let listener = volt::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let mut far = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (near, _) = listener.accept().unwrap();
        volt::run(move || {
            let mut near = forked_with(near, |mut near| {
                let reads = std::panic::AssertUnwindSafe(|| near.read(&mut [0]));
                std::panic::catch_unwind(reads).is_err()
            });
            let reader = volt::go(move || near.read(&mut [0]));
            common::waits::until_waits("read", &reader);
            far.write_all(&[1]).unwrap();
            assert_eq!(reader.join().unwrap().unwrap(), 1);
        });
    });
    assert!(left.status.success(), "{left:?}");
    assert!(left.text.contains("a wait in a forked child"), "{left:?}");
}

/// A fiber whose reads never have to wait yields all the same, before its budget of operations is
/// overdrawn: on one worker, another fiber gets its turn.
#[test]
fn a_fiber_that_never_has_to_wait_yields() {
    within(LONG, || {
        let runtime = Builder::new().workers(1).build().unwrap();
        let reads = runtime.run(|| {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let mut near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            let (mut far, _) = listener.accept().unwrap();
            near.write_all(&[1; 4096]).unwrap();
            let turn = Arc::new(AtomicBool::new(false));
            let theirs = Arc::clone(&turn);
            let other = volt::go(move || theirs.store(true, Ordering::SeqCst));
            let mut reads = 0;
            while !turn.load(Ordering::SeqCst) {
                far.read_exact(&mut [0; 1]).unwrap();
                reads += 1;
                assert!(reads < 4096, "the other fiber never got its turn");
            }
            other.join().unwrap();
            reads
        });
        assert!(reads <= 129, "{reads} operations without a yield");
        assert!(runtime.stats().total.budget_yields >= 1);
        runtime.shutdown(LONG).unwrap();
    });
}

#[test]
fn a_run_after_the_shutdown_says_so() {
    let left = child("a_run_after_the_shutdown_says_so", &[], || {
        let runtime = Builder::new().workers(1).build().unwrap();
        let handle = runtime.handle().clone();
        let inside = handle.go(move || {
            // Dropped by its own fiber: from now on it only winds down.
            drop(runtime);
            std::panic::catch_unwind(|| volt::run(|| 1)).is_err()
        });
        assert!(inside.join().unwrap(), "it ran");
    });
    assert!(left.status.success(), "{left:?}");
    assert!(left.text.contains("the runtime has been shut down"), "{left:?}");
}

/// The worker that waits for sockets and timers takes up a fiber that computes: another worker takes
/// its place there, so that timers go on.
#[test]
fn a_computing_fiber_does_not_keep_timers_waiting() {
    within(LONG, || {
        let runtime = Builder::new().workers(2).build().unwrap();
        for round in 0..20 {
            let ticks = Arc::new(AtomicUsize::new(0));
            let stop = Arc::new(AtomicBool::new(false));
            let (theirs, stopped) = (Arc::clone(&ticks), Arc::clone(&stop));
            let ticker = runtime.go(move || {
                while !stopped.load(Ordering::Relaxed) {
                    volt::sleep(Duration::from_micros(500));
                    theirs.fetch_add(1, Ordering::Relaxed);
                }
            });
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let mut near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            let computing = runtime.go(move || {
                let (mut far, _) = listener.accept().unwrap();
                // Woken by a socket, so by the worker in the poller, and alone.
                far.read_exact(&mut [0; 1]).unwrap();
                let (start, from) = (Instant::now(), ticks.load(Ordering::Relaxed));
                while ticks.load(Ordering::Relaxed) < from + 5 {
                    assert!(
                        start.elapsed() < LONG / 4,
                        "round {round}: nobody looked at the timers"
                    );
                    std::hint::spin_loop();
                }
            });
            // Any moment between two ticks.
            std::thread::sleep(Duration::from_micros(3000 + round * 173));
            near.write_all(&[1]).unwrap();
            let result = computing.join();
            stop.store(true, Ordering::Relaxed);
            ticker.join().unwrap();
            result.unwrap();
        }
        runtime.shutdown(LONG).unwrap();
    });
}

/// A profiler's handler unwinds the stack wherever it comes, in the midst of a switch too, where it must not read past
/// the end of either stack: seen at each instruction.
#[test]
#[cfg(all(target_os = "linux", target_arch = "x86_64", not(any(volt_asan, volt_tsan))))]
fn a_handler_may_unwind_anywhere() {
    use std::arch::asm;
    use std::ffi::{c_int, c_void};
    static STEPS: AtomicUsize = AtomicUsize::new(0);
    static FRAMES: AtomicUsize = AtomicUsize::new(0);
    const FIBERS: usize = 4;
    unsafe extern "C-unwind" {
        fn _Unwind_Backtrace(
            frame: extern "C-unwind" fn(*mut c_void, *mut c_void) -> c_int,
            argument: *mut c_void,
        ) -> c_int;
    }
    /// Stops in the caller of the one that was interrupted: what lies behind is as without a signal.
    extern "C-unwind" fn frame(_context: *mut c_void, depth: *mut c_void) -> c_int {
        const STOP: c_int = 4;
        FRAMES.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the counter of `unwind`.
        let depth = unsafe { &mut *depth.cast::<usize>() };
        *depth += 1;
        if *depth == 6 { STOP } else { 0 }
    }
    fn unwind() {
        let mut depth = 0_usize;
        // SAFETY: the callback counts.
        unsafe { _Unwind_Backtrace(frame, (&raw mut depth).cast()) };
    }
    extern "C" fn at_a_step(_signal: c_int) {
        STEPS.fetch_add(1, Ordering::Relaxed);
        unwind();
    }
    /// From here on the thread traps after each instruction, or does no more.
    fn step(on: bool) {
        const TRAP: u64 = 1 << 8;
        let bit = if on { TRAP } else { 0 };
        // SAFETY: changes the trap flag alone, for which there is a handler.
        unsafe {
            asm!("pushfq", "and qword ptr [rsp], {rest}", "or [rsp], {bit}", "popfq", rest = const !(1 << 8), bit = in(reg) bit);
        }
    }
    let left = child("a_handler_may_unwind_anywhere", &[], || {
        // What it looks up once and keeps.
        unwind();
        // SAFETY: all zeros are an action; the handler counts and reads.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = at_a_step as extern "C" fn(c_int) as usize;
            action.sa_flags = libc::SA_ONSTACK;
            assert_eq!(libc::sigaction(libc::SIGTRAP, &raw const action, std::ptr::null_mut()), 0);
        }
        let runtime = Builder::new_current_thread().stall_period(None).build().unwrap();
        runtime.run(|| {
            // On fresh stacks, side by side, from the worker and from one that has ended.
            let fibers: Vec<_> = (0..FIBERS).map(|_| volt::go(volt::yield_now)).collect();
            step(true);
            fibers.into_iter().for_each(|fiber| fiber.join().unwrap());
            step(false);
        });
        let (steps, frames) = (STEPS.load(Ordering::Relaxed), FRAMES.load(Ordering::Relaxed));
        assert!(steps > 100 * FIBERS && frames > 3 * steps, "{steps} steps, {frames} frames");
    });
    assert!(left.status.success(), "{left:?}");
}
