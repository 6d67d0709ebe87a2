//! What the supervisor makes of what it sees, on a clock that the test turns.

use super::super::crew::{Crew, Next};
use super::super::starter::Starter;
use super::super::supervisor::{Stall, Supervisor};
use super::{Bench, bench, config};
use crate::primitives::clock::Moment;
#[cfg(target_os = "linux")]
use crate::primitives::os_thread::OsThread;
use crate::primitives::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::Duration;

pub(super) const PERIOD: Duration = Duration::from_millis(100);

pub(super) fn at(time: Duration) -> Moment {
    Moment::default().saturating_add(Duration::from_secs(1) + time)
}

impl Bench<'_> {
    /// Worker 0 begins to run fiber `number`.
    pub(super) fn runs(&self, number: usize) {
        self.core(0).stats.dispatched.add(1);
        self.workers[0].set_running(Some(self.fibers[number]));
    }

    /// Looks again and again, as the supervisor would, up to `end` or till all is quiet.
    fn looks(&self, from: Duration, end: Duration, late: Duration, each: &mut dyn FnMut(Duration)) {
        let mut supervisor = Supervisor::new(self.shared, PERIOD);
        let mut now = from;
        while now < end {
            each(now);
            supervisor.look(at(now));
            let Some(pause) = supervisor.pause() else { return };
            now += pause + late;
        }
    }
}

/// A bench whose starts of threads are noted, core by core, and whose stalls are.
pub(super) struct Noted {
    started: Arc<Mutex<Vec<usize>>>,
    stalls: Arc<Mutex<Vec<Stall>>>,
}

impl Noted {
    pub(super) fn bench(workers: usize, fibers: usize, test: impl FnOnce(&Bench<'_>, &Noted)) {
        let noted = Noted { started: Arc::default(), stalls: Arc::default() };
        let (started, stalls) = (Arc::clone(&noted.started), Arc::clone(&noted.stalls));
        let mut config = config(workers);
        config.stall_period = Some(PERIOD);
        config.hooks.on_stall = Some(Arc::new(move |stall: &Stall| {
            stalls.lock().unwrap().push(stall.clone());
        }));
        bench(config, fibers, |bench| {
            bench.shared.set_starter(Starter(Box::new(move |_, core| {
                started.lock().unwrap().push(core);
                Ok(())
            })));
            test(bench, &noted);
            bench.workers[0].set_running(None);
        });
    }

    fn started(&self) -> Vec<usize> {
        self.started.lock().unwrap().clone()
    }

    pub(super) fn stalls(&self) -> Vec<Stall> {
        self.stalls.lock().unwrap().clone()
    }
}

/// How long a fiber has run when it is noticed that begins `phase` after a look, where each look is
/// late by `late`.
fn noticed_after(phase: Duration, late: Duration) -> Duration {
    let mut noticed = None;
    Noted::bench(1, 1, |bench, noted| {
        let begin = Duration::from_millis(40) + phase;
        let mut runs = false;
        bench.looks(Duration::ZERO, 4 * PERIOD, late, &mut |now| {
            // What the look before has found.
            if now > begin && !runs {
                bench.runs(0);
                runs = true;
            } else if !noted.stalls().is_empty() {
                let before = now - PERIOD / 4 - late;
                noticed.get_or_insert(before - begin);
            }
        });
        let stalls = noted.stalls();
        assert_eq!(stalls.len(), 1, "once: {stalls:?}");
        assert!(stalls[0].for_at_least >= PERIOD * 3 / 4 && stalls[0].replaced, "{stalls:?}");
        assert!(stalls[0].for_at_least <= noticed.unwrap(), "{stalls:?} in {noticed:?}");
    });
    noticed.unwrap()
}

/// Wherever between two looks the fiber begins.
#[test]
fn a_stall_is_noticed_after_three_quarters_of_a_period_to_a_whole_one() {
    let mut most = Duration::ZERO;
    for phase in 0..=100 {
        let after = noticed_after(PERIOD / 4 * phase / 100, Duration::ZERO);
        assert!((PERIOD * 3 / 4..=PERIOD).contains(&after), "phase {phase}: {after:?}");
        most = most.max(after);
    }
    assert!(most > PERIOD * 9 / 10, "{most:?}");
}

/// All other things are the same for one that computes.
#[test]
#[cfg(target_os = "linux")]
fn only_who_sleeps_makes_its_site_suspect() {
    let (says, said) = std::sync::mpsc::channel();
    let (ends, end) = std::sync::mpsc::channel::<()>();
    let sleeper = std::thread::spawn(move || {
        says.send(OsThread::current()).unwrap();
        let _ = end.recv();
    });
    let sleeping = said.recv().unwrap();
    while sleeping.is_asleep() != Some(true) {
        std::thread::yield_now();
    }
    for (thread, sleeps) in [(OsThread::current(), false), (sleeping, true), (OsThread(0), true)] {
        Noted::bench(1, 1, |bench, noted| {
            let core = bench.core(0);
            core.thread.store(thread.0, Ordering::Relaxed);
            bench.looks(Duration::ZERO, PERIOD, Duration::ZERO, &mut |now| {
                if now.is_zero() {
                    bench.runs(0);
                }
            });
            let sites = bench.shared.sites.report();
            assert_eq!((sites[0].stalls, sites[0].suspect), (1, sleeps), "{thread:?}");
            // Who is back is taken off the list by this.
            assert_eq!(!core.stalled_site.load(Ordering::Relaxed).is_null(), sleeps);
            assert_eq!((noted.stalls().len(), noted.started()), (1, vec![1]), "{thread:?}");
        });
    }
    // It computed first, or had no processor.
    Noted::bench(1, 1, |bench, _| {
        let (core, mut supervisor) = (bench.core(0), Supervisor::new(bench.shared, PERIOD));
        core.thread.store(OsThread::current().0, Ordering::Relaxed);
        bench.runs(0);
        let mut looks = (0..99).map(|look| supervisor.look(at(look * PERIOD / 4)));
        let has_stalled =
            || bench.shared.sites.report().first().is_some_and(|site| site.stalls == 1);
        looks.find(|()| has_stalled()).expect("it stalls");
        let is_suspect = || bench.shared.sites.report()[0].suspect;
        looks.next();
        assert!(!is_suspect());
        // A look at which somebody else is there, who lists the fibers, says nothing.
        assert!(core.gate.close());
        looks.next();
        core.gate.open();
        core.thread.store(sleeping.0, Ordering::Relaxed);
        looks.next();
        assert!(is_suspect());
        assert!(!core.stalled_site.load(Ordering::Relaxed).is_null());
        assert_eq!(bench.shared.sites.report()[0].stalls, 1);
    });
    drop(ends);
    sleeper.join().unwrap();
}

/// The whole process stood still, for many periods: the next look is late, and finds nobody stalled.
#[test]
fn a_process_that_was_stopped_has_not_stalled() {
    Noted::bench(1, 1, |bench, noted| {
        let mut supervisor = Supervisor::new(bench.shared, PERIOD);
        bench.runs(0);
        let look = PERIOD / 4;
        for when in [look, 2 * look, 2 * look + 10 * PERIOD] {
            supervisor.look(at(when));
        }
        assert!(noted.stalls().is_empty(), "{:?}", noted.stalls());
        supervisor.look(at(3 * look + 10 * PERIOD));
        assert_eq!(noted.stalls().len(), 1, "it has stalled by now");
    });
}

/// A machine that is busy wakes the supervisor late: then it takes longer, and no less.
#[test]
fn late_looks_do_not_make_a_stall_of_less() {
    for late in 1..40 {
        let late = Duration::from_millis(late);
        for phase in 0..20 {
            let after = noticed_after(PERIOD / 4 * phase / 20, late);
            assert!(after >= PERIOD * 3 / 4, "{after:?}");
            // Never more looks than on time.
            assert!(after <= PERIOD + 4 * late, "{late:?} late: {after:?}");
        }
    }
}

/// It goes to rest once nothing has run for two periods, wherever that was, and not once it has seen eight times
/// that nobody runs just then.
#[test]
fn what_ran_between_two_looks_is_no_rest() {
    let ran: [fn(&Bench<'_>); 2] = [
        |bench| bench.core(0).stats.dispatched.add(1),
        |bench| bench.shared.outside.dispatched.add_shared(1),
    ];
    for ran in ran {
        bench(config(1), 0, |bench| {
            bench.lies_down(0);
            bench.shared.poller.sit(0);
            let mut supervisor = Supervisor::new(bench.shared, PERIOD);
            for look in 0..100 {
                ran(bench);
                supervisor.look(at(PERIOD / 4 * look));
                assert!(supervisor.pause().is_some(), "look {look}");
            }
            let rests = (100..200).take_while(|look| {
                supervisor.look(at(PERIOD / 4 * *look));
                supervisor.pause().is_some()
            });
            assert_eq!(rests.count(), 7, "two periods are eight looks");
            let _ = bench.shared.idle.unpark(0);
        });
    }
}

/// A woken waiter of a mutex that was put here may stand elsewhere by now (`near.rs`).
#[test]
fn whatever_moves_a_workers_queues_counts_as_a_robbery() {
    Noted::bench(1, 300, |bench, _| {
        let core = bench.core(0);
        let robbed = || core.robbed.load(Ordering::Relaxed);
        let mut before = robbed();
        let mut once_more = |by: &str| {
            assert!(robbed() > before, "{by}");
            before = robbed();
        };
        (0..257).for_each(|number| bench.workers[0].push_quietly(bench.fibers[number]));
        once_more("an overflow");
        bench.workers[0].flush();
        once_more("a flush");
        bench.runs(299);
        assert!(core.slot.put(bench.fibers[298]).is_none());
        let mut supervisor = Supervisor::new(bench.shared, PERIOD);
        supervisor.look(at(Duration::ZERO));
        supervisor.look(at(PERIOD / 4));
        assert!(core.slot.is_empty());
        once_more("a slot that was freed");
        supervisor.look(at(PERIOD / 2));
        supervisor.look(at(PERIOD));
        assert!(core.gate.is_stalled());
        once_more("a stall");
        core.gate.clear_stalled();
        while bench.shared.injector.pop().is_some() {}
    });
}

/// Somebody's late call wakes the supervisor once more: looks that come early do not make a stall of less
/// either.
#[test]
fn early_looks_do_not_make_a_stall_of_less() {
    Noted::bench(1, 1, |bench, noted| {
        let mut supervisor = Supervisor::new(bench.shared, PERIOD);
        bench.runs(0);
        for millis in [0, 1, 2, 3, 25, 50, 74] {
            supervisor.look(at(Duration::from_millis(millis)));
            assert!(noted.stalls().is_empty(), "{millis} ms: {:?}", noted.stalls());
        }
        supervisor.look(at(PERIOD * 3 / 4));
        assert_eq!(noted.stalls().len(), 1);
    });
}

/// A fiber has blocked its thread and takes a free core: no dispatch tells that it has not run there all the
/// time, neither after looks at the free core nor after a sleep.
#[test]
fn who_takes_a_free_core_begins_to_run_then() {
    // Or nobody looked meanwhile, since that was put off.
    for (looks, sleeps) in [(4, false), (4, true), (0, false)] {
        Noted::bench(1, 1, |bench, noted| {
            let worker = &bench.workers[0];
            let mut supervisor = Supervisor::new(bench.shared, PERIOD);
            let mut now = Duration::ZERO;
            let mut look = |supervisor: &mut Supervisor<'_>| {
                supervisor.look(at(now));
                now += PERIOD / 4;
            };
            bench.runs(0);
            look(&mut supervisor);
            worker.set_running(None);
            assert_eq!(worker.detach(), Some(0));
            (0..looks).for_each(|_| look(&mut supervisor));
            if sleeps {
                while supervisor.pause().is_some() {
                    look(&mut supervisor);
                }
                bench.shared.watch.wake();
                supervisor.rest();
            }
            worker.attach(0);
            worker.set_running(Some(bench.fibers[0]));
            // It comes just before the next look.
            for _ in 0..3 {
                look(&mut supervisor);
                assert!(noted.stalls().is_empty(), "slept: {sleeps}: {:?}", noted.stalls());
            }
            look(&mut supervisor);
            assert_eq!(noted.stalls().len(), 1);
            assert_eq!(noted.stalls()[0].for_at_least, PERIOD * 3 / 4);
        });
    }
}

#[test]
fn who_goes_from_fiber_to_fiber_is_no_stall() {
    Noted::bench(1, 2, |bench, noted| {
        let mut turn = 0;
        bench.looks(Duration::ZERO, 20 * PERIOD, Duration::ZERO, &mut |_| {
            turn += 1;
            // Each for three looks: half a period at least, and less than three quarters.
            if turn % 3 == 0 {
                bench.runs(turn / 3 % 2);
            }
        });
        assert!(noted.stalls().is_empty(), "{:?}", noted.stalls());
    });
}

/// The fiber was about to give its core to another thread when it was found to keep it: its worker is
/// replaced once.
#[test]
fn a_stall_that_meets_a_hand_off_is_one_replacement() {
    Noted::bench(2, 1, |bench, noted| {
        bench.looks(Duration::ZERO, PERIOD, Duration::ZERO, &mut |now| {
            if now.is_zero() {
                bench.runs(0);
            }
        });
        assert_eq!((noted.stalls().len(), noted.started()), (1, vec![2]));
        let worker = &bench.workers[0];
        // What `Post::HandOff` does, on the worker's own flow.
        worker.set_running(None);
        worker.vacate();
        let core = worker.core().expect("a stalled worker keeps its core");
        assert_eq!((core.index, core.stats.hand_offs.get()), (0, 0));
        assert_eq!((noted.started(), bench.shared.running()), (vec![2], (2, 2)));
        // Its fiber blocks, comes to a scheduling point, and finds the place taken.
        assert!(!worker.keeps_core());
        assert_eq!((bench.core(0).stats.retired.get(), bench.core(0).stats.rejoined.get()), (1, 0));
        assert_eq!((worker.core().is_none(), bench.shared.running()), (true, (2, 2)));
    });
}

/// It had idle stacks in mind, old ones or new: from now on somebody else must.
#[test]
fn who_retires_leaves_its_stacks_to_the_others() {
    let never = Moment::NEVER.as_nanos();
    for (due, new) in [(never, false), (1, false), (never, true)] {
        Noted::bench(2, 1, |bench, noted| {
            bench.looks(Duration::ZERO, PERIOD, Duration::ZERO, &mut |now| {
                if now.is_zero() {
                    bench.runs(0);
                }
            });
            assert_eq!(noted.started(), [2]);
            let (worker, core) = (&bench.workers[0], bench.core(0));
            worker.set_running(None);
            core.trim_due.store(due, Ordering::Relaxed);
            if new {
                let stack = worker.own().stacks.allocate(bench.shared.config.stack_size).unwrap();
                worker.own().stacks.push(stack, Moment::now());
            }
            assert!(!worker.keeps_core());
            let left = bench.shared.stacks_left.load(Ordering::Relaxed);
            assert_eq!(left, due != never || new);
            assert_eq!(core.trim_due.load(Ordering::Relaxed), never);
        });
    }
}

/// There is no thread for it: whoever holds it next, and when, nobody knows.
#[test]
fn who_puts_its_core_down_leaves_its_stacks_to_the_others() {
    let never = Moment::NEVER.as_nanos();
    bench(config(1), 0, |bench| {
        bench.core(0).trim_due.store(1, Ordering::Relaxed);
        bench.workers[0].vacate();
        assert_eq!(bench.shared.running(), (0, 1));
        assert!(bench.shared.stacks_left.load(Ordering::Relaxed));
        assert_eq!(bench.core(0).trim_due.load(Ordering::Relaxed), never);
    });
}

/// It may never come back. What it keeps for itself it looks after anew if it does.
#[test]
fn what_a_stalled_worker_has_in_mind_is_left_to_the_others() {
    let (never, past) = (Moment::NEVER.as_nanos(), Moment::from_nanos(1));
    bench(config(2), 0, |bench| {
        let (worker, core) = (&bench.workers[0], bench.core(0));
        let stack = worker.own().stacks.allocate(bench.shared.config.stack_size).unwrap();
        worker.own().stacks.push(stack, past);
        assert!(worker.own().stacks.has_news() && !worker.own().stacks.has_news());
        core.trim_due.store(past.as_nanos(), Ordering::Relaxed);
        bench.lies_down(1);
        assert_eq!(bench.shared.next_trim(Moment::now()), Moment::NEVER, "it is only awake");
        core.gate.mark_stalled();
        assert_eq!(bench.shared.crew.stall(|| None), None);
        assert_eq!(bench.shared.next_trim(Moment::now()), past);
        bench.shared.wake_for_trim(1);
        assert!(bench.shared.stacks_left.load(Ordering::Relaxed));
        assert_eq!((core.trim_due.load(Ordering::Relaxed), bench.wakes()), (never, 1));
        assert!(worker.keeps_core() && worker.own().stacks.has_news());
    });
}

/// With its stacks in it, and what its worker had in mind.
#[test]
fn a_run_begins_with_the_core_with_which_the_last_one_has_ended() {
    let crew = Crew::new(0, 2, None);
    let run = || crew.claim_core(1, Moment::NEVER, || ());
    assert_eq!(run(), Some(0));
    // A helper while it blocks, which gives its core up when it is back.
    assert_eq!(crew.stall(|| None), Some(Next::Start(1)));
    assert!(crew.rejoin(true));
    crew.close(Some(0));
    assert!(crew.give_up(1));
    assert_eq!(run(), Some(0));
}
