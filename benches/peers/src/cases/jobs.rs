//! Fifty fibers put jobs into a queue behind a mutex and a condition variable, and wait for each; four take them out.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::{Bar, Case, Part, Row, Unit};
use crate::peer::{Peer, on_may, on_threads, on_tokio, on_volt};
use crate::run::{Run, compute_for};

pub const CASE: Case = Case {
    name: "jobs",
    part: Part::Beside,
    bodies: &[(Peer::Volt, volt), (Peer::Tokio, tokio), (Peer::May, may), (Peer::Threads, threads)],
    rows: &[Row {
        key: "figure",
        title: "a queue of jobs of 1 us, per job",
        unit: Unit::Nanos,
        bar: Bar::NotSlower,
    }],
    note: "50 fibers put jobs of 1 us into a queue behind a mutex and a condition variable, 100,000 in all, and wait for \
        each; 4 take them out. Tokio: std's mutex and a Notify. Answers: oneshots; may and threads an mpsc for each, \
        Go a channel of capacity 1.",
    ..Case::INSIDE
};

const CLIENTS: u32 = 50;
const WORKERS: u32 = 4;

/// How many jobs each client has.
fn each(run: Run) -> u32 {
    run.scale(100_000, 5_000) / CLIENTS
}

fn job() {
    compute_for(Duration::from_micros(1));
}

/// None ends a worker.
type Queue<S> = VecDeque<Option<S>>;

/// What volt, may and threads have in common: the interface of std's locks, and answers through `$channel`.
macro_rules! all_jobs {
    ($run:expr, $sync:ident, $channel:ident, $spawn:path) => {{
        use $sync::sync::{Condvar, Mutex, $channel};
        let each = each($run);
        let mut sampler = $run.sampler(CLIENTS * each);
        while sampler.again() {
            let queue =
                Arc::new((Mutex::new(Queue::<$channel::Sender<()>>::new()), Condvar::new()));
            let put = |queue: &(Mutex<Queue<_>>, Condvar), job| {
                queue.0.lock().unwrap().push_back(job);
                queue.1.notify_one();
            };
            let start = Instant::now();
            for _ in 0..WORKERS {
                let queue = Arc::clone(&queue);
                $spawn(move || {
                    loop {
                        let mut jobs = queue.0.lock().unwrap();
                        while jobs.is_empty() {
                            jobs = queue.1.wait(jobs).unwrap();
                        }
                        let Some(answer) = jobs.pop_front().unwrap() else { return };
                        drop(jobs);
                        job();
                        answer.send(()).unwrap();
                    }
                });
            }
            let clients: Vec<_> = (0..CLIENTS)
                .map(|_| {
                    let queue = Arc::clone(&queue);
                    $spawn(move || {
                        for _ in 0..each {
                            let (answer, done) = $channel::channel();
                            put(&queue, Some(answer));
                            done.recv().unwrap();
                        }
                    })
                })
                .collect();
            clients.into_iter().for_each(|client| client.join().unwrap());
            sampler.add(start.elapsed());
            (0..WORKERS).for_each(|_| put(&queue, None));
        }
        sampler.figure()
    }};
}

fn volt(run: Run) -> f64 {
    on_volt(run, move || all_jobs!(run, volt, oneshot, volt::go))
}

fn may(run: Run) -> f64 {
    fn go<T: Send + 'static>(
        f: impl FnOnce() -> T + Send + 'static,
    ) -> may::coroutine::JoinHandle<T> {
        may::go!(f)
    }
    on_may(run, move || all_jobs!(run, may, mpsc, go))
}

fn threads(run: Run) -> f64 {
    on_threads(run, || all_jobs!(run, std, mpsc, std::thread::spawn))
}

fn tokio(run: Run) -> f64 {
    use tokio::sync::{Notify, oneshot};
    on_tokio(run, async move {
        let each = each(run);
        let mut sampler = run.sampler(CLIENTS * each);
        while sampler.again() {
            let jobs = std::sync::Mutex::new(Queue::<oneshot::Sender<()>>::new());
            let queue = Arc::new((jobs, Notify::new()));
            let put = |queue: &(std::sync::Mutex<Queue<_>>, Notify), job| {
                queue.0.lock().unwrap().push_back(job);
                queue.1.notify_one();
            };
            let start = Instant::now();
            for _ in 0..WORKERS {
                let queue = Arc::clone(&queue);
                tokio::spawn(async move {
                    loop {
                        let next = queue.0.lock().unwrap().pop_front();
                        match next {
                            Some(Some(answer)) => {
                                job();
                                answer.send(()).unwrap();
                            }
                            Some(None) => return,
                            None => queue.1.notified().await,
                        }
                    }
                });
            }
            let clients: Vec<_> = (0..CLIENTS)
                .map(|_| {
                    let queue = Arc::clone(&queue);
                    tokio::spawn(async move {
                        for _ in 0..each {
                            let (answer, done) = oneshot::channel();
                            put(&queue, Some(answer));
                            done.await.unwrap();
                        }
                    })
                })
                .collect();
            for client in clients {
                client.await.unwrap();
            }
            sampler.add(start.elapsed());
            (0..WORKERS).for_each(|_| put(&queue, None));
        }
        sampler.figure()
    })
}
