//! Barriers, once-cells, wait groups, notifications, events.

use crate::common::LONG;
use crate::weather::{dawdle, micros, storm};
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Mutex as Short;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::time::Instant;
use volt::sync::{Arc, Barrier, Event, LazyLock, Notify, Once, OnceLock, WaitGroup};

/// Those who were cut off have not arrived: at the end exactly as many as it takes pass.
#[test]
fn barriers() {
    storm(|round| {
        let count = 2 + round.rng.below(3) as usize;
        let shared = Arc::new((Barrier::new(count), AtomicUsize::new(0), AtomicUsize::new(0)));
        let theirs = Arc::clone(&shared);
        round.crowd(8, move |me| {
            me.cut("wait", |_| {
                let leads = theirs.0.wait().is_leader();
                theirs.1.fetch_add(1, SeqCst);
                theirs.2.fetch_add(usize::from(leads), SeqCst);
            });
        });
        round.blow();
        for _ in 0..count {
            let theirs = Arc::clone(&shared);
            round.steady(move |me| {
                let leads = me.calm("the last wait", |_| theirs.0.wait().is_leader());
                theirs.1.fetch_add(1, SeqCst);
                theirs.2.fetch_add(usize::from(leads), SeqCst);
            });
        }
        round.settle();
        assert_eq!(shared.1.load(SeqCst), count * shared.2.load(SeqCst), "one leads of so many");
    });
}

/// What an initialiser does: it may wait, and it may fail at first.
fn initialise(me_first: &AtomicUsize, fails: bool) -> usize {
    volt::yield_now();
    volt::sleep(std::time::Duration::from_micros(20));
    if me_first.fetch_add(1, SeqCst) == 0 && fails {
        resume_unwind(Box::new("planned"));
    }
    7
}

fn is_planned<T>(result: std::thread::Result<T>) {
    if let Err(payload) = result {
        if !payload.is::<&str>() {
            resume_unwind(payload);
        }
    }
}

#[test]
fn once_cells() {
    type Lazy = LazyLock<usize, Box<dyn FnOnce() -> usize + Send>>;
    struct Cells {
        once: Once,
        lock: OnceLock<usize>,
        lazy: Lazy,
        runs: [AtomicUsize; 2],
        lazy_runs: Arc<AtomicUsize>,
        /// The first initialiser fails.
        fails: bool,
    }
    storm(|round| {
        let cells: Vec<_> = (0..12)
            .map(|_| {
                let lazy_runs = Arc::<AtomicUsize>::default();
                let runs = Arc::clone(&lazy_runs);
                Cells {
                    once: Once::new(),
                    lock: OnceLock::new(),
                    lazy: LazyLock::new(Box::new(move || initialise(&runs, false))),
                    runs: [AtomicUsize::new(0), AtomicUsize::new(0)],
                    lazy_runs,
                    fails: round.rng.below(3) == 0,
                }
            })
            .collect();
        let cells = Arc::new(cells);
        let theirs = Arc::clone(&cells);
        round.crowd(8, move |me| {
            let cell = &theirs[me.rng.below(theirs.len() as u64) as usize];
            match me.rng.below(6) {
                0 => {
                    me.gust("call_once_force", |_| {
                        is_planned(catch_unwind(AssertUnwindSafe(|| {
                            let run = || _ = initialise(&cell.runs[0], cell.fails);
                            cell.once.call_once_force(|_| run());
                        })))
                    });
                }
                1 => {
                    me.cut("Once::wait_force", |_| cell.once.wait_force());
                }
                2 => {
                    me.gust("get_or_init", |_| {
                        is_planned(catch_unwind(AssertUnwindSafe(|| {
                            let init = || initialise(&cell.runs[1], cell.fails);
                            assert_eq!(*cell.lock.get_or_init(init), 7);
                        })))
                    });
                }
                3 => {
                    me.cut("OnceLock::wait", |_| assert_eq!(*cell.lock.wait(), 7));
                }
                _ => {
                    me.gust("LazyLock", |_| assert_eq!(*cell.lazy, 7));
                }
            }
        });
        round.blow();
        for cell in cells.iter() {
            // Shielded: none was cut off, and each has run as often as it takes.
            cell.once.call_once_force(|_| _ = initialise(&cell.runs[0], false));
            assert_eq!(
                (*cell.lock.get_or_init(|| initialise(&cell.runs[1], false)), *cell.lazy),
                (7, 7)
            );
            let runs = [&cell.runs[0], &cell.runs[1]].map(|runs| runs.load(SeqCst));
            assert!(runs.iter().all(|runs| (1..=2).contains(runs)), "{runs:?}");
            assert!(cell.fails || runs == [1, 1], "{runs:?}");
            assert_eq!(cell.lazy_runs.load(SeqCst), 1);
        }
    });
}

#[test]
fn wait_groups() {
    storm(|round| {
        let (group, inside) = (WaitGroup::new(), Arc::new(AtomicUsize::new(0)));
        for _ in 0..8 {
            let (group, inside) = (group.clone(), Arc::clone(&inside));
            inside.fetch_add(1, SeqCst);
            round.once(move |me| {
                /// Leaves before its place in the group goes.
                struct Leaves(Arc<AtomicUsize>);
                impl Drop for Leaves {
                    fn drop(&mut self) {
                        self.0.fetch_sub(1, SeqCst);
                    }
                }
                let (_group, _leaves) = (group.clone(), Leaves(inside));
                for _ in 0..10 {
                    // Who is cut off leaves the group.
                    me.cut("wait", |_| group.clone().wait());
                }
                drop(group);
            });
        }
        let theirs = Arc::clone(&inside);
        round.steady(move |me| {
            me.calm("the last wait", |_| group.wait());
            assert_eq!(theirs.load(SeqCst), 0, "the group is not empty");
        });
        round.blow();
    });
}

/// Whoever is told takes all that is there: a notification that is lost with somebody who was cut off
/// leaves the steady one waiting.
#[test]
fn notifications() {
    struct Queue {
        items: Short<VecDeque<u32>>,
        taken: AtomicUsize,
        over: AtomicBool,
        notify: Notify,
    }
    impl Queue {
        fn take(&self) {
            let taken = std::mem::take(&mut *self.items.lock().unwrap()).len();
            self.taken.fetch_add(taken, SeqCst);
        }
    }
    storm(|round| {
        let queue = Arc::new(Queue {
            items: Short::default(),
            taken: AtomicUsize::new(0),
            over: AtomicBool::new(false),
            notify: Notify::new(),
        });
        for _ in 0..8 {
            let queue = Arc::clone(&queue);
            round.fiber(move |me| {
                me.cut("notified", |rng| {
                    match rng.below(3) {
                        0 => drop(queue.notify.notified_timeout(micros(rng, 100))),
                        _ => queue.notify.notified(),
                    }
                    queue.take();
                });
            });
        }
        let theirs = Arc::clone(&queue);
        round.steady(move |me| {
            while !theirs.over.load(SeqCst) {
                me.calm("notified", |_| theirs.notify.notified());
                theirs.take();
            }
        });
        let (theirs, mut pushed) = (Arc::clone(&queue), 0);
        round.thread(move |me| {
            pushed += 1;
            theirs.items.lock().unwrap().push_back(1);
            me.calm("until somebody was told", |_| {
                theirs.notify.notify_one();
                let start = Instant::now();
                while theirs.taken.load(SeqCst) < pushed {
                    assert!(start.elapsed() < LONG / 2, "a notification was lost");
                    std::thread::yield_now();
                }
            });
            dawdle(&mut me.rng);
        });
        round.blow();
        queue.over.store(true, SeqCst);
        queue.notify.notify_one();
    });
}

#[test]
fn events() {
    storm(|round| {
        let event = Arc::new(Event::new());
        let theirs = Arc::clone(&event);
        round.crowd(8, move |me| match me.rng.below(4) {
            0 => theirs.set(),
            1 => drop(theirs.reset()),
            _ => {
                me.cut("wait", |rng| match rng.below(2) {
                    0 => theirs.wait(),
                    _ => drop(theirs.wait_timeout(micros(rng, 100))),
                });
            }
        });
        for _ in 0..2 {
            let theirs = Arc::clone(&event);
            round.steady(move |me| {
                me.calm("the last wait", |_| theirs.wait());
            });
        }
        round.blow();
        event.set();
    });
}
