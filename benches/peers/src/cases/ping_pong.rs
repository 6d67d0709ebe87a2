//! 1,000 pairs of fibers: each pair sends one message there and one back, over one-shot channels.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Instant;

use super::{Bar, Case, Row, Unit};
use crate::peer::{Peer, on_may, on_threads, on_tokio, on_volt};
use crate::run::Run;

pub const CASE: Case = Case {
    name: "ping_pong",
    bodies: &[(Peer::Volt, volt), (Peer::Tokio, tokio), (Peer::May, may), (Peer::Threads, threads)],
    rows: &[Row {
        key: "figure",
        title: "ping_pong, per pair",
        unit: Unit::Nanos,
        bar: Bar::OfBest(0.35),
    }],
    note: "As in Tokio's rt_multi_threaded bench: a fiber spawns 1,000, each of which makes two \
        one-shot channels, spawns its partner, sends and waits for the answer. may and std: mpsc; \
        Go: channels of capacity 1.",
    ..Case::INSIDE
};

const PAIRS: u32 = 1_000;

fn volt(run: Run) -> f64 {
    use volt::sync::oneshot::{Sender, channel};

    fn pair(left: &AtomicU32, done: &std::sync::Mutex<Option<Sender<()>>>) {
        let (ping, pinged) = channel();
        let (pong, ponged) = channel();
        drop(volt::go(move || {
            pinged.recv().unwrap();
            pong.send(()).unwrap();
        }));
        ping.send(()).unwrap();
        ponged.recv().unwrap();
        if left.fetch_sub(1, Ordering::AcqRel) == 1 {
            done.lock().unwrap().take().unwrap().send(()).unwrap();
        }
    }
    on_volt(run, move || {
        let mut sampler = run.sampler(PAIRS);
        while sampler.again() {
            let start = Instant::now();
            let left = Arc::new(AtomicU32::new(PAIRS));
            let (done, end) = channel();
            let done = Arc::new(std::sync::Mutex::new(Some(done)));
            for _ in 0..PAIRS {
                let (left, done) = (Arc::clone(&left), Arc::clone(&done));
                drop(volt::go(move || pair(&left, &done)));
            }
            end.recv().unwrap();
            sampler.add(start.elapsed());
        }
        sampler.figure()
    })
}

fn tokio(run: Run) -> f64 {
    use tokio::sync::oneshot::{Sender, channel};

    async fn pair(left: Arc<AtomicU32>, done: Arc<std::sync::Mutex<Option<Sender<()>>>>) {
        let (ping, pinged) = channel();
        let (pong, ponged) = channel();
        tokio::spawn(async move {
            pinged.await.unwrap();
            pong.send(()).unwrap();
        });
        ping.send(()).unwrap();
        ponged.await.unwrap();
        if left.fetch_sub(1, Ordering::AcqRel) == 1 {
            done.lock().unwrap().take().unwrap().send(()).unwrap();
        }
    }
    on_tokio(run, async move {
        let mut sampler = run.sampler(PAIRS);
        while sampler.again() {
            let start = Instant::now();
            let left = Arc::new(AtomicU32::new(PAIRS));
            let (done, end) = channel();
            let done = Arc::new(std::sync::Mutex::new(Some(done)));
            for _ in 0..PAIRS {
                tokio::spawn(pair(Arc::clone(&left), Arc::clone(&done)));
            }
            end.await.unwrap();
            sampler.add(start.elapsed());
        }
        sampler.figure()
    })
}

fn may(run: Run) -> f64 {
    use may::sync::mpsc::{Sender, channel};

    fn pair(left: &AtomicU32, done: &Sender<()>) {
        let (ping, pinged) = channel();
        let (pong, ponged) = channel();
        may::go!(move || {
            pinged.recv().unwrap();
            pong.send(()).unwrap();
        });
        ping.send(()).unwrap();
        ponged.recv().unwrap();
        if left.fetch_sub(1, Ordering::AcqRel) == 1 {
            done.send(()).unwrap();
        }
    }
    on_may(run, move || {
        let mut sampler = run.sampler(PAIRS);
        while sampler.again() {
            let start = Instant::now();
            let left = Arc::new(AtomicU32::new(PAIRS));
            let (done, end) = channel();
            for _ in 0..PAIRS {
                let (left, done) = (Arc::clone(&left), done.clone());
                may::go!(move || pair(&left, &done));
            }
            end.recv().unwrap();
            sampler.add(start.elapsed());
        }
        sampler.figure()
    })
}

fn threads(run: Run) -> f64 {
    use std::sync::mpsc::{Sender, channel};
    use std::thread::spawn;

    fn pair(left: &AtomicU32, done: &Sender<()>) {
        let (ping, pinged) = channel();
        let (pong, ponged) = channel();
        spawn(move || {
            pinged.recv().unwrap();
            pong.send(()).unwrap();
        });
        ping.send(()).unwrap();
        ponged.recv().unwrap();
        if left.fetch_sub(1, Ordering::AcqRel) == 1 {
            done.send(()).unwrap();
        }
    }
    on_threads(run, || {
        let mut sampler = run.sampler(PAIRS);
        while sampler.again() {
            let start = Instant::now();
            let left = Arc::new(AtomicU32::new(PAIRS));
            let (done, end) = channel();
            for _ in 0..PAIRS {
                let (left, done) = (Arc::clone(&left), done.clone());
                spawn(move || pair(&left, &done));
            }
            end.recv().unwrap();
            sampler.add(start.elapsed());
        }
        sampler.figure()
    })
}
