//! The deadlock report: it comes, says what it should, and does not come without reason.
//!
//! Each case runs in a process of its own, this program again, which has no threads but volt's and the
//! caller of `run`: a test harness would have one more.

mod locks;

use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::process::{Command, Stdio, exit};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::sleep;
use std::time::{Duration, Instant};
use volt::runtime::{Builder, Deadlock, JoinHandle, Migrate};
use volt::thread;

/// Far longer than the runtime must be quiet before it looks.
const QUIET: Duration = Duration::from_millis(700);
/// Long enough for a second report.
const MORE_THAN_QUIET: Duration = Duration::from_millis(1_500);
const LONG: Duration = Duration::from_secs(30);

/// How a case ends.
enum Expected {
    /// With these words on stderr, after which it is killed.
    Says(&'static [&'static str]),
    /// With these words, which are not written again though it goes on for another while.
    SaysOnce(&'static [&'static str]),
    /// By itself, well.
    Ends,
}

type Case = (&'static str, Expected, fn());

const CASES: &[Case] = &[
    (
        "current_thread_says_so",
        Expected::Says(&[
            "possible deadlock: all 2 fibers",
            "'stuck'",
            "tests/deadlock/main.rs:",
            "park",
        ]),
        || {
            let runtime = Builder::new_current_thread().build().unwrap();
            runtime.run(|| named("stuck", thread::park).join().unwrap());
        },
    ),
    ("a_circle_of_joins", Expected::Ends, circle),
    ("a_token_and_a_scope", Expected::Ends, || {
        expecting(Builder::new().workers(3), 12, |deadlock| {
            let waits = |what| deadlock.fibers.iter().filter(|f| f.waits_for == Some(what)).count();
            assert_eq!((waits("cancel token"), waits("scope"), waits("join")), (10, 1, 1));
        })
        .run(|| {
            let token = volt::cancel::Token::new();
            let scope = volt::go(move || {
                volt::scope(|scope| (0..10).for_each(|_| drop(scope.go(|| token.cancelled()))));
            });
            scope.join().unwrap();
        });
    }),
    ("many", Expected::Ends, || {
        // AddressSanitizer looks for leaks on all of their stacks, in the end.
        const MANY: usize = if cfg!(volt_asan) { 1_500 } else { 5_000 };
        expecting(Builder::new().workers(2), MANY + 1, |deadlock| {
            assert!(deadlock.fibers.len() < 1_000);
            assert!(deadlock.to_string().contains("more"));
        })
        .run(|| {
            (0..MANY).for_each(|_| drop(volt::go(thread::park)));
            thread::park();
        });
    }),
    ("it_can_be_resolved_and_is_told_of_anew", Expected::Ends, || {
        let kinds = [
            Builder::new_current_thread(),
            Builder::new().workers(2),
            Builder::new().workers(2).stall_period(None),
            Builder::new().workers(2).stall_period(None).migrate(Migrate::BeforeStart),
            Builder::new_current_thread().stall_period(None),
            Builder::new_current_thread().stall_period(None).migrate(Migrate::BeforeStart),
        ];
        for builder in kinds {
            let stuck = Arc::new(Mutex::new(None::<thread::Thread>));
            let (theirs, told) = (Arc::clone(&stuck), Arc::new(AtomicUsize::new(0)));
            let count = Arc::clone(&told);
            let hook = move |_: &Deadlock| {
                count.fetch_add(1, Ordering::SeqCst);
                theirs.lock().unwrap().take().expect("each is told once").unpark();
            };
            builder.on_deadlock(hook).build().unwrap().run(|| {
                for _ in 0..3 {
                    *stuck.lock().unwrap() = Some(volt::current());
                    thread::park();
                }
            });
            assert_eq!(told.load(Ordering::SeqCst), 3);
        }
    }),
    ("who_is_told_may_wait_for_a_fiber", Expected::Ends, || {
        let period = Some(Duration::from_millis(20));
        for builder in [Builder::new_current_thread, || Builder::new().workers(2)] {
            resolved_by_a_join(builder().stall_period(None));
            resolved_by_a_join(builder().stall_period(period));
            resolved_by_a_join(builder().stall_period(period).migrate(Migrate::BeforeStart));
        }
    }),
    ("it_is_told_once", Expected::SaysOnce(&["possible deadlock: the only fiber waits"]), || {
        tells_each(Builder::new().workers(2)).run(thread::park);
    }),
    ("workers_that_wake_for_nothing_do_not_keep_it_back", Expected::Ends, || {
        let [period, timeout] = [40, 10].map(Duration::from_millis);
        let builder = Builder::new().workers(2).stall_period(Some(period)).park_timeout(timeout);
        expecting(builder, 1, |_| ()).run(thread::park);
    }),
    ("it_is_told_once_without_a_supervisor", Expected::SaysOnce(&["possible deadlock"]), || {
        tells_each(Builder::new().workers(3).stall_period(None)).run(thread::park);
    }),
    ("a_thread_that_goes_to_sleep_later", Expected::SaysOnce(&["the only fiber waits"]), || {
        joins_later(tells_each(Builder::new().workers(2)));
    }),
    (
        "a_thread_that_goes_to_sleep_later_without_a_supervisor",
        Expected::SaysOnce(&["only fiber"]),
        || {
            joins_later(tells_each(Builder::new().workers(2).stall_period(None)));
        },
    ),
    ("a_worker_that_gives_back_stacks_is_no_news", Expected::SaysOnce(&["all 2 fibers"]), || {
        tells_each(Builder::new().workers(2).stack_age(Duration::from_millis(500))).run(|| {
            // A worker wakes later to give back what these leave.
            let stacks = (0..500).map(|_| volt::go(|| volt::sleep(Duration::from_millis(20))));
            stacks.collect::<Vec<_>>().into_iter().for_each(|fiber| fiber.join().unwrap());
            volt::go(thread::park).join().unwrap();
        });
    }),
    ("the_default_is_told_once", Expected::SaysOnce(&["possible deadlock"]), || {
        let runtime = Builder::new_current_thread().build().unwrap();
        runtime.run(thread::park);
    }),
    ("the_thread_that_lets_signals_through_wakes_nobody", Expected::Ends, || {
        expecting(Builder::new().workers(2), 1, |_| ()).run(|| {
            drop(volt::signal::Signals::new([volt::signal::Signal::User1]).unwrap());
            thread::park();
        });
    }),
    ("a_plain_thread_may_wake", Expected::Ends, || {
        silent(Builder::new().workers(2)).run(|| {
            let me = volt::current();
            let other = std::thread::spawn(move || {
                sleep(QUIET);
                me.unpark();
            });
            thread::park();
            drop(other);
        });
    }),
    ("the_main_thread_may_wake", Expected::Ends, || {
        let runtime = silent(Builder::new().workers(2));
        // It has slept for a fiber before, and been woken.
        runtime.go(|| volt::sleep(Duration::from_millis(20))).join().unwrap();
        let fiber = runtime.go(thread::park);
        sleep(QUIET);
        fiber.thread().unpark();
        fiber.join().unwrap();
    }),
    ("a_thread_that_waits_for_long_may_wake", Expected::Ends, || {
        let runtime = silent(Builder::new().workers(2));
        let fiber = runtime.go(thread::park);
        thread::park_timeout(QUIET);
        fiber.thread().unpark();
        fiber.join().unwrap();
    }),
    ("another_runtime_may_wake", Expected::Ends, || {
        let other = silent(Builder::new().workers(1));
        silent(Builder::new().workers(2)).run(|| {
            let me = volt::current();
            let fiber = other.go(move || {
                volt::sleep(QUIET);
                me.unpark();
            });
            thread::park();
            fiber.join().unwrap();
        });
    }),
    ("a_timer_may_wake", Expected::Ends, || {
        both(|| {
            let me = volt::current();
            let fiber = volt::go(move || {
                volt::sleep(QUIET);
                me.unpark();
            });
            thread::park();
            fiber.join().unwrap();
            assert!(volt::timeout(QUIET, thread::park).is_err());
        });
    }),
    ("blocking_code_may_wake", Expected::Ends, || {
        both(|| {
            let me = volt::current();
            let fiber = volt::go(move || {
                volt::blocking(|| sleep(QUIET));
                me.unpark();
            });
            thread::park();
            fiber.join().unwrap();
        });
    }),
    ("a_socket_may_wake", Expected::Ends, || {
        both(|| {
            let listener = listens();
            let me = volt::current();
            let fiber = volt::go(move || {
                listener.accept().unwrap();
                me.unpark();
            });
            thread::park();
            fiber.join().unwrap();
        });
    }),
    ("a_socket_in_a_select_may_wake", Expected::Ends, || {
        both(|| {
            let listener = listens();
            let me = volt::current();
            let fiber = volt::go(move || {
                let nothing = volt::channel::never::<()>();
                volt::channel::select! {
                    recv(nothing) -> _ => {}
                    wait(listener.readable()) -> ready => ready.unwrap(),
                }
                me.unpark();
            });
            thread::park();
            fiber.join().unwrap();
        });
    }),
    ("a_thread_with_a_socket_in_a_select_may_wake", Expected::Ends, || {
        // The default runtime's driver watches it: so no other may be there.
        let fiber = volt::go(thread::park);
        let listener = volt::net::TcpListener::bind("127.0.0.1:0").unwrap();
        println!("{}", listener.local_addr().unwrap());
        volt::channel::select! { wait(listener.readable()) -> ready => ready.unwrap() }
        fiber.thread().unpark();
        fiber.join().unwrap();
    }),
    ("cases_that_nobody_brings", Expected::Ends, || {
        expecting(Builder::new().workers(2), 1, |deadlock| {
            assert_eq!(deadlock.fibers[0].waits_for, Some("select"));
        })
        .run(|| {
            let (token, notify) = (volt::cancel::Token::new(), volt::sync::Notify::new());
            volt::channel::select! {
                wait(token) -> () => {}
                wait(notify) -> () => {}
            }
        });
    }),
];

/// Who is told of it cancels one of the two fibers, and waits for it to end, which wakes the other.
fn resolved_by_a_join(builder: Builder) {
    let stuck = Arc::new(Mutex::new(None::<JoinHandle<()>>));
    let (theirs, joined) = (Arc::clone(&stuck), Arc::new(AtomicUsize::new(0)));
    let count = Arc::clone(&joined);
    let hook = move |_: &Deadlock| {
        let Some(fiber) = theirs.lock().unwrap().take() else { return };
        fiber.cancel();
        assert!(fiber.join().is_err());
        count.fetch_add(1, Ordering::SeqCst);
    };
    let runtime = builder.on_deadlock(hook).build().unwrap();
    for _ in 0..2 {
        runtime.run(|| {
            let main = volt::current();
            let fiber = volt::go(move || {
                let woken = Wakes(main);
                thread::park();
                drop(woken);
            });
            *stuck.lock().unwrap() = Some(fiber);
            thread::park();
        });
    }
    // What is joined wakes the other one before that is counted.
    while joined.load(Ordering::SeqCst) != 2 {
        sleep(Duration::from_millis(1));
    }
    runtime.shutdown(LONG).unwrap();
}

/// Wakes a fiber when it goes.
struct Wakes(thread::Thread);

impl Drop for Wakes {
    fn drop(&mut self) {
        self.0.unpark();
    }
}

#[track_caller]
fn named(name: &str, f: impl FnOnce() + Send + 'static) -> JoinHandle<()> {
    thread::Builder::new().name(name.to_owned()).spawn(f).unwrap()
}

/// A runtime whose first report must have `count` fibers and pass `check`, which ends the process.
fn expecting(
    builder: Builder,
    count: usize,
    check: impl Fn(&Deadlock) + Send + Sync + 'static,
) -> volt::runtime::Runtime {
    let hook = move |deadlock: &Deadlock| {
        let right = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            assert_eq!(deadlock.count, count, "{deadlock}");
            check(deadlock);
        }));
        exit(if right.is_ok() { 0 } else { 1 });
    };
    builder.on_deadlock(hook).build().unwrap()
}

/// A runtime that writes every report.
fn tells_each(builder: Builder) -> volt::runtime::Runtime {
    builder.on_deadlock(|deadlock| eprintln!("{deadlock}")).build().unwrap()
}

/// A runtime that must not report.
fn silent(builder: Builder) -> volt::runtime::Runtime {
    let hook = |deadlock: &Deadlock| {
        eprintln!("without reason: {deadlock}");
        exit(1);
    };
    builder.on_deadlock(hook).build().unwrap()
}

/// A socket whose place the parent process reads, and connects to.
fn listens() -> volt::net::TcpListener {
    let listener = volt::net::TcpListener::bind("127.0.0.1:0").unwrap();
    println!("{}", listener.local_addr().unwrap());
    listener
}

/// Runs `body` on runtimes of both kinds that must not report.
fn both(body: fn()) {
    silent(Builder::new().workers(2)).run(body);
    silent(Builder::new_current_thread()).run(body);
}

fn circle() {
    let runtime = expecting(Builder::new().workers(2), 4, |deadlock| {
        let names: Vec<_> =
            deadlock.fibers.iter().flat_map(|fiber| fiber.name.as_deref()).collect();
        assert!(names.contains(&"left") && names.contains(&"right"), "{names:?}");
        for fiber in deadlock.fibers.iter().filter(|fiber| fiber.waits_for != Some("park")) {
            assert_eq!(fiber.waits_for, Some("join"));
            assert!(fiber.object != 0 && fiber.site.file().ends_with("main.rs"));
            assert!(fiber.waiting > Duration::from_millis(1) && fiber.waiting < LONG);
        }
    });
    runtime.run(|| {
        let place = Arc::new(Mutex::new(None::<JoinHandle<()>>));
        let theirs = Arc::clone(&place);
        let left = named("left", move || {
            let right = loop {
                if let Some(right) = theirs.lock().unwrap().take() {
                    break right;
                }
                volt::yield_now();
            };
            right.join().unwrap();
        });
        let right = named("right", move || left.join().unwrap());
        *place.lock().unwrap() = Some(right);
        volt::go(thread::park).join().unwrap();
    });
}

/// The only thread that could wake the fiber has other things to do, and then waits for it.
fn joins_later(runtime: volt::runtime::Runtime) {
    let fiber = runtime.go(thread::park);
    sleep(QUIET);
    fiber.join().unwrap();
}

fn cases() -> impl Iterator<Item = &'static Case> {
    CASES.iter().chain(locks::CASES)
}

fn main() {
    if let Ok(name) = std::env::var("VOLT_DEADLOCK_CASE") {
        let (_, _, body) = cases().find(|(case, _, _)| *case == name).unwrap();
        return body();
    }
    // Of a test harness's arguments only the filter means something here, and what is to be skipped.
    let (mut filter, mut skipped) = (String::new(), Vec::new());
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--skip" => skipped.extend(arguments.next()),
            option if option.starts_with('-') => {}
            _ => filter = argument,
        }
    }
    let is_chosen = |name: &str| {
        name.contains(&filter) && !skipped.iter().any(|skipped| name.contains(skipped.as_str()))
    };
    let chosen = cases().filter(|(name, _, _)| is_chosen(name));
    let running: Vec<_> = chosen.map(|case| std::thread::spawn(move || check(case))).collect();
    let results: Vec<_> = running.into_iter().map(|case| case.join().unwrap()).collect();
    let failed = results.iter().filter(|passed| !**passed).count();
    assert_eq!(failed, 0, "{failed} cases failed");
    println!("test result: ok. {} passed", results.len());
}

/// Runs one case in a process of its own.
fn check((name, expected, _): &Case) -> bool {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .env("VOLT_DEADLOCK_CASE", name)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // Whoever prints an address wants a connection, later.
    let out = BufReader::new(child.stdout.take().unwrap());
    let connector = std::thread::spawn(move || {
        for address in out.lines() {
            sleep(QUIET);
            match TcpStream::connect(address.unwrap()) {
                // It was woken by that, and has ended before this thread saw that it is connected.
                Err(error) if error.kind() == ErrorKind::ConnectionReset => {}
                connected => drop(connected.unwrap()),
            }
        }
    });
    let text = Arc::new(Mutex::new(String::new()));
    let mut err = child.stderr.take().unwrap();
    let theirs = Arc::clone(&text);
    let reader = std::thread::spawn(move || {
        let mut buffer = [0; 4096];
        while let Ok(n @ 1..) = err.read(&mut buffer) {
            theirs.lock().unwrap().push_str(&String::from_utf8_lossy(&buffer[..n]));
        }
    });
    let start = Instant::now();
    let passed = loop {
        let says = |words: &[&str]| words.iter().all(|word| text.lock().unwrap().contains(word));
        match expected {
            Expected::Says(words) if says(words) => break true,
            Expected::SaysOnce(words) if says(words) => {
                sleep(MORE_THAN_QUIET);
                break text.lock().unwrap().matches("possible deadlock").count() == 1;
            }
            _ => {}
        }
        if let Some(status) = child.try_wait().unwrap() {
            break matches!(expected, Expected::Ends) && status.success();
        }
        if start.elapsed() > LONG {
            break false;
        }
        sleep(Duration::from_millis(2));
    };
    let _ = child.kill();
    let _ = child.wait();
    reader.join().unwrap();
    connector.join().unwrap();
    // What ends well says nothing, if it is by the hook that the default runtime has.
    let silent = !text.lock().unwrap().contains("possible deadlock");
    let passed = passed && (!matches!(expected, Expected::Ends) || silent);
    let verdict = if passed { "ok" } else { "FAILED" };
    let _ = writeln!(std::io::stdout(), "test {name} ... {verdict}");
    if !passed {
        eprintln!("{name} wrote:\n{}", text.lock().unwrap());
    }
    passed
}
