//! An idle runtime makes no system call. Alone in its binary, so that nothing else runs.
//!
//! A runtime is quiet 10 s after its last fiber ran, and is looked at for 5 s: `VOLT_QUIET=full`, as
//! in `.ci/full`, takes that time. Without it both are shorter, as far as what is idle allows.

mod common;

use common::until;
use std::collections::BTreeMap;
use std::fs;
use std::io::{Read, Write};
use std::time::Duration;
use volt::net::{TcpListener, TcpStream};
use volt::runtime::Handle;
use volt::thread;

/// Times that each other thread of the process was put to sleep or taken off its processor, with
/// its name.
fn switches() -> BTreeMap<u32, (String, u64)> {
    // SAFETY: no arguments.
    let me = unsafe { libc::gettid() } as u32;
    let mut all = BTreeMap::new();
    for entry in fs::read_dir("/proc/self/task").unwrap() {
        let tid: u32 = entry.unwrap().file_name().to_str().unwrap().parse().unwrap();
        let Ok(status) = fs::read_to_string(format!("/proc/self/task/{tid}/status")) else {
            continue;
        };
        let field =
            |name: &str| status.lines().find_map(|line| line.strip_prefix(name)).unwrap().trim();
        let count = |name: &str| field(name).parse::<u64>().unwrap();
        let sum = count("voluntary_ctxt_switches:") + count("nonvoluntary_ctxt_switches:");
        if tid != me {
            all.insert(tid, (field("Name:").to_owned(), sum));
        }
    }
    all
}

/// How many threads are called what workers are.
fn workers_threads() -> usize {
    let is_worker = |(name, _): &(String, u64)| {
        name.strip_prefix("volt-worker-").is_some_and(|number| number.parse::<usize>().is_ok())
    };
    switches().into_values().filter(is_worker).count()
}

/// How long the runtime gets to become quiet, and how long it is looked at then.
fn settle_and_look() -> (Duration, Duration) {
    let (settle, look) = match std::env::var("VOLT_QUIET").as_deref() {
        Ok("full") => (10, 5),
        Err(_) => (3, 2),
        Ok(other) => panic!("VOLT_QUIET is {other:?}: `full` or nothing"),
    };
    (Duration::from_secs(settle), Duration::from_secs(look))
}

#[test]
fn an_idle_runtime_does_nothing_at_all() {
    // Work of every kind first: stacks in all caches, timers set and cancelled, sleepers woken.
    let busy: Vec<_> = (0..200_u64)
        .map(|i| {
            volt::go(move || {
                for round in 0..5 {
                    volt::sleep(Duration::from_micros(i * round));
                    volt::yield_now();
                    volt::go(|| ()).join().unwrap();
                }
            })
        })
        .collect();
    busy.into_iter().for_each(|fiber| fiber.join().unwrap());
    // Thousands at once: stacks and blocks in the pools that the workers share.
    let burst: Vec<_> = (0..5_000_u64)
        .map(|i| volt::go(move || volt::sleep(Duration::from_millis(1 + i % 10))))
        .collect();
    burst.into_iter().for_each(|fiber| fiber.join().unwrap());
    // What stays: parked fibers, deadlines that are far away, open connections and a listener.
    let (server, client) = volt::run(|| {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let server = volt::go(move || {
            let (mut stream, _) = listener.accept().unwrap();
            stream.set_read_timeout(Some(Duration::from_secs(7200))).unwrap();
            let acceptor = volt::go(move || listener.accept().map(drop));
            while let n @ 1.. = stream.read(&mut [0; 8]).unwrap() {
                stream.write_all(&[7; 8][..n]).unwrap();
            }
            acceptor
        });
        client.write_all(&[1; 4]).unwrap();
        client.read_exact(&mut [0; 4]).unwrap();
        (server, client)
    });
    let parked: Vec<_> = (0..50).map(|_| volt::go(thread::park)).collect();
    let far: Vec<_> = (0..50_u64)
        .map(|i| volt::go(move || thread::park_timeout(Duration::from_secs(3600 + i * 977))))
        .collect();
    // Idle stacks give their memory back meanwhile, 2 s after their last use.
    let (settle, look) = settle_and_look();
    volt::sleep(settle);
    // Where the machine kept a worker from running another thread has taken its place, and one of them leaves later.
    let workers = Handle::current().stats().queue.workers;
    until("each worker has one thread", || workers_threads() == workers);

    let before = switches();
    std::thread::sleep(look);
    let after = switches();
    assert_eq!(before, after, "somebody woke while nothing happened");

    // And it was asleep, not dead.
    drop(client);
    let acceptor = server.join().unwrap();
    acceptor.cancel();
    assert!(volt::cancel::is_cancelled(&acceptor.join().unwrap().unwrap_err()));
    for fiber in parked.into_iter().chain(far) {
        fiber.thread().unpark();
        fiber.join().unwrap();
    }
    volt::sleep(Duration::from_millis(1));
}
