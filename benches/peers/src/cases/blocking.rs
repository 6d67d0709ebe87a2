//! Tasks that call what blocks a thread for a moment: many that sleep, one that reads a file, and many.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use super::{Bar, Case, Part, Row, Unit};
use crate::peer::{Peer, on_threads, on_tokio, on_volt};
use crate::run::Run;

pub const CASE: Case = Case {
    name: "blocking",
    part: Part::Beside,
    bodies: &[(Peer::Volt, volt), (Peer::Tokio, tokio)],
    rows: &[Row {
        key: "figure",
        title: "50 tasks that block for 50 us each time, per call",
        unit: Unit::Nanos,
        bar: Bar::NotSlower,
    }],
    note: "50 tasks sleep for 50 us in the kernel, 5,000 times in all: volt in `blocking`, Tokio in \
        `spawn_blocking`, Go in a system call. In Tokio's `block_in_place` it is 3 to 5 us: a task goes on \
        with no worker's place until its next await, and here none comes. may has no such thing.",
    ..Case::INSIDE
};

pub const READ: Case = Case {
    name: "blocking_read",
    part: Part::Beside,
    bodies: &[(Peer::Volt, volt_read), (Peer::Tokio, tokio_read), (Peer::Threads, threads_read)],
    rows: &[Row {
        key: "figure",
        title: "one task that reads a small file again and again, per file",
        unit: Unit::Nanos,
        bar: Bar::NotSlower,
    }],
    note: "A file of 1,000 bytes, in the page cache, 5,000 times: volt in `blocking`, Tokio in `spawn_blocking`. Go and \
        plain threads call the system and have nobody to make room for: Go looks after 20 us whether somebody is in need.",
    ..Case::INSIDE
};

pub const READERS: Case = Case {
    name: "blocking_readers",
    bodies: &[(Peer::Volt, volt_readers), (Peer::Tokio, tokio_readers)],
    rows: &[Row {
        key: "figure",
        title: "50 tasks that read a small file again and again, per file",
        unit: Unit::Nanos,
        bar: Bar::NotSlower,
    }],
    note: "The same by 50 tasks, 5,000 times in all. In Tokio's `block_in_place` it is 3 to 5 us.",
    ..READ
};

const TASKS: u32 = 50;
const SLEEP: Duration = Duration::from_micros(50);

/// How often each task calls.
fn each(run: Run) -> u32 {
    run.scale(5_000, 500) / TASKS
}

fn volt(run: Run) -> f64 {
    volt_tasks(run, || std::thread::sleep(SLEEP))
}

fn tokio(run: Run) -> f64 {
    tokio_tasks(run, || std::thread::sleep(SLEEP))
}

fn volt_tasks(run: Run, call: impl Fn() + Clone + Send + 'static) -> f64 {
    on_volt(run, move || {
        let each = each(run);
        let mut sampler = run.sampler(TASKS * each);
        while sampler.again() {
            let start = Instant::now();
            let spawn = |_| {
                let call = call.clone();
                volt::go(move || (0..each).for_each(|_| volt::blocking(&call)))
            };
            let all: Vec<_> = (0..TASKS).map(spawn).collect();
            all.into_iter().for_each(|one| one.join().unwrap());
            sampler.add(start.elapsed());
        }
        sampler.figure()
    })
}

fn tokio_tasks(run: Run, call: impl Fn() + Clone + Send + 'static) -> f64 {
    on_tokio(run, async move {
        let each = each(run);
        let mut sampler = run.sampler(TASKS * each);
        while sampler.again() {
            let start = Instant::now();
            let spawn = |_| {
                let call = call.clone();
                tokio::spawn(async move {
                    for _ in 0..each {
                        tokio::task::spawn_blocking(call.clone()).await.unwrap();
                    }
                })
            };
            let all: Vec<_> = (0..TASKS).map(spawn).collect();
            for one in all {
                one.await.unwrap();
            }
            sampler.add(start.elapsed());
        }
        sampler.figure()
    })
}

const BYTES: usize = 1_000;

/// Whoever wrote it removes it.
fn small_file() -> PathBuf {
    let path = std::env::temp_dir().join(format!("volt-peers-{}", std::process::id()));
    std::fs::write(&path, [b'x'; BYTES]).expect("a temporary file");
    path
}

fn read(path: &PathBuf) {
    assert_eq!(std::fs::read(path).expect("it is there").len(), BYTES);
}

/// How often the file is read.
fn times(run: Run) -> u32 {
    run.scale(5_000, 500)
}

fn volt_read(run: Run) -> f64 {
    on_volt(run, move || read_again_and_again(run, |path| volt::blocking(|| read(path))))
}

fn threads_read(run: Run) -> f64 {
    on_threads(run, move || read_again_and_again(run, read))
}

fn read_again_and_again(run: Run, read: impl Fn(&PathBuf)) -> f64 {
    let path = small_file();
    let mut sampler = run.sampler(times(run));
    while sampler.again() {
        let start = Instant::now();
        (0..times(run)).for_each(|_| read(&path));
        sampler.add(start.elapsed());
    }
    std::fs::remove_file(&path).unwrap();
    sampler.figure()
}

fn tokio_read(run: Run) -> f64 {
    on_tokio(run, async move {
        let path = small_file();
        let mut sampler = run.sampler(times(run));
        while sampler.again() {
            let start = Instant::now();
            for _ in 0..times(run) {
                let path = path.clone();
                tokio::task::spawn_blocking(move || read(&path)).await.unwrap();
            }
            sampler.add(start.elapsed());
        }
        std::fs::remove_file(&path).unwrap();
        sampler.figure()
    })
}

/// What each of many tasks does; and the file, to be removed.
fn reader() -> (PathBuf, impl Fn() + Clone + Send + 'static) {
    let path = small_file();
    let theirs = path.clone();
    (path, move || read(&theirs))
}

fn volt_readers(run: Run) -> f64 {
    let (path, call) = reader();
    let figure = volt_tasks(run, call);
    std::fs::remove_file(path).unwrap();
    figure
}

fn tokio_readers(run: Run) -> f64 {
    let (path, call) = reader();
    let figure = tokio_tasks(run, call);
    std::fs::remove_file(path).unwrap();
    figure
}
