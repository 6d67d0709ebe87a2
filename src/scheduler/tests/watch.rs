//! What the supervisor does for a poller that was left to nobody, and who has it look later.

use super::super::starter::Starter;
use super::super::supervisor::{Stall, Supervisor};
use super::supervisor::{Noted, PERIOD, at};
use super::{Config, bench, config};
use crate::fiber::Batch;
use crate::primitives::clock::Moment;
use crate::primitives::sync::atomic::{AtomicPtr, Ordering};
use crate::scheduler::poller_seat::PollerSeat;
use std::ptr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// As in a runtime with a supervisor, which is the test.
fn supervised(workers: usize) -> Config {
    Config { stall_period: Some(PERIOD), ..config(workers) }
}

/// May who rises for few fibers leave the poller to nobody?
fn leaves(poller: &PollerSeat) -> bool {
    poller.rise();
    poller.is_watched()
}

/// Who has risen for few fibers told nobody of them, and the first of them does not stop; another worker sat down in
/// the poller before they were pushed.
#[test]
fn what_nobody_was_told_of_is_seen_by_the_watch() {
    bench(config(2), 1, |bench| {
        let shared = bench.shared;
        bench.lies_down(1);
        shared.poller.sit(1);
        shared.look_after_poller();
        assert_eq!(bench.wakes(), 0, "nothing is queued");
        bench.fill_ring(0, [0]);
        shared.look_after_poller();
        assert_eq!(bench.wakes(), 1);
        bench.workers[1].leave_bed(false);
        bench.workers[1].stop_searching();
        bench.lies_down(1);
        shared.end_watch();
        assert_eq!(bench.wakes(), 2, "the watch ends");
        bench.workers[1].leave_bed(false);
        assert_eq!(bench.find(0), Some(0));
    });
    let mut config = config(2);
    config.stealing = false;
    bench(config, 1, |bench| {
        bench.lies_down(1);
        bench.shared.poller.sit(1);
        bench.fill_ring(0, [0]);
        bench.shared.look_after_poller();
        assert_eq!(bench.wakes(), 0, "it could not take it");
        bench.workers[1].leave_bed(false);
        assert_eq!(bench.find(0), Some(0));
    });
}

/// Nobody is told of few in passing, short ones, while the supervisor is still to look after a poller that was left.
#[test]
fn few_that_come_in_passing_are_left_to_the_watch() {
    let wakes = |settled: usize, queued: usize, watched: bool, left: Duration| {
        let mut wakes = 0;
        bench(supervised(2), settled + queued, |bench| {
            let (worker, poller) = (&bench.workers[0], &bench.shared.poller);
            bench.fibers_ran_for(0, Duration::from_nanos(500));
            bench.fill_ring(0, settled..settled + queued);
            bench.lies_down(1);
            if watched {
                poller.watch();
            }
            poller.leave(Moment::from_nanos((Moment::now().as_nanos()) - left.as_nanos() as u64));
            let mut batch = Batch::new();
            bench.fibers[..settled].iter().for_each(|fiber| batch.push(*fiber));
            worker.take_in(batch, false);
            wakes = bench.wakes();
            assert_eq!(bench.ring(0).len(), settled + queued);
        });
        wakes
    };
    let (just_now, long_ago) = (Duration::ZERO, Duration::from_millis(2));
    // Where the machine takes a millisecond away in between, it is long ago.
    assert!((0..100).any(|_| wakes(10, 0, true, just_now) == 0));
    assert_eq!(wakes(10, 0, true, long_ago), 1, "it may have looked");
    assert_eq!(wakes(10, 0, false, just_now), 1, "nobody looks");
    assert_eq!(wakes(10, 200, true, just_now), 1, "it has much to do");
    assert_eq!(wakes(0, 10, false, long_ago), 0, "there is nothing new");
}

/// The supervisor's look is put off by the only one that runs, and by the last one to park.
#[test]
fn who_runs_is_no_rest() {
    bench(config(2), 0, |bench| {
        let rest = |except| bench.shared.all_rest(except);
        assert_eq!([None, Some(0), Some(1)].map(rest), [false; 3]);
        bench.lies_down(1);
        assert_eq!([None, Some(0), Some(1)].map(rest), [false, true, false]);
        bench.lies_down(0);
        assert_eq!([None, Some(0), Some(1)].map(rest), [true; 3]);
        let _ = bench.shared.idle.unpark(0);
        bench.core(0).gate.mark_stalled();
        assert_eq!([None, Some(1)].map(rest), [false; 2], "what it has is looked after");
        bench.core(0).gate.clear_stalled();
        assert_eq!(bench.workers[0].detach(), Some(0));
        assert!(rest(None), "nobody has that core");
        bench.workers[0].attach(0);
        let _ = bench.shared.idle.unpark(1);
    });
}

/// Once, when that is due; and it does not look at the workers for that.
#[test]
fn a_poller_that_was_left_is_looked_after_a_while_later() {
    Noted::bench(2, 1, |bench, noted| {
        let shared = bench.shared;
        let mut supervisor = Supervisor::new(shared, PERIOD);
        bench.runs(0);
        supervisor.turn(at(Duration::ZERO));
        bench.lies_down(1);
        let wakes = [1, 2, 3, 4, 5, 6].map(|millis| {
            if millis == 1 {
                shared.poller.leave(at(Duration::from_millis(1)));
            }
            supervisor.turn(at(Duration::from_millis(millis)));
            bench.wakes()
        });
        assert_eq!(wakes, [0, 0, 0, 0, 1, 1], "the relief of this bench is 8 ms");
        bench.workers[1].leave_bed(false);
        bench.workers[1].stop_searching();
        bench.lies_down(1);
        supervisor.turn(at(Duration::from_millis(24)));
        assert_eq!(bench.wakes(), 1, "nobody has left it since");
        // The process stands still: many turns before that were no looks.
        supervisor.turn(at(PERIOD));
        assert!(noted.stalls().is_empty(), "{:?}", noted.stalls());
        for look in 5..=6 {
            supervisor.turn(at(PERIOD / 4 * look));
        }
        assert_eq!(noted.stalls().len(), 1);
        bench.workers[1].leave_bed(false);
    });
}

/// The hook runs on the supervisor's thread, for as long as it likes: the poller is not left to it.
#[test]
fn no_hook_runs_in_a_watch() {
    static POLLER: AtomicPtr<PollerSeat> = AtomicPtr::new(ptr::null_mut());
    static WATCHED: Mutex<Option<bool>> = Mutex::new(None);
    let mut config = supervised(2);
    config.hooks.on_stall = Some(Arc::new(|_: &Stall| {
        // SAFETY: the test's, which waits for the hook.
        let poller = unsafe { &*POLLER.load(Ordering::Relaxed) };
        *WATCHED.lock().unwrap() = Some(leaves(poller));
    }));
    bench(config, 1, |bench| {
        bench.shared.set_starter(Starter(Box::new(|shared, _| {
            assert!(!shared.poller.is_watched(), "a thread is started meanwhile");
            Ok(())
        })));
        let poller = &bench.shared.poller;
        POLLER.store(ptr::from_ref(poller).cast_mut(), Ordering::Relaxed);
        let mut supervisor = Supervisor::new(bench.shared, PERIOD);
        poller.watch();
        assert!(leaves(poller));
        bench.lies_down(1);
        bench.runs(0);
        for look in 0..=3 {
            assert_eq!(bench.wakes(), 0);
            poller.leave(at(PERIOD / 4 * look));
            supervisor.look(at(PERIOD / 4 * look));
        }
        assert_eq!(*WATCHED.lock().unwrap(), Some(false));
        assert_eq!(bench.wakes(), 1, "it may have been left to nobody");
        bench.workers[1].leave_bed(false);
        bench.workers[0].set_running(None);
    });
}

/// Nobody comes to look after the poller any more, so nobody may leave it.
#[test]
fn the_watch_ends_with_the_supervisor() {
    bench(supervised(2), 0, |bench| {
        let poller = &bench.shared.poller;
        let mut supervisor = Supervisor::new(bench.shared, PERIOD);
        bench.shared.watch.wake();
        supervisor.rest();
        assert!(leaves(poller), "it watches");
        bench.lies_down(1);
        let unwinding = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let _supervisor = supervisor;
            std::panic::resume_unwind(Box::new(()));
        }));
        assert!(unwinding.is_err());
        assert!(!leaves(poller));
        assert_eq!(bench.wakes(), 1, "it may have been left to nobody");
        bench.workers[1].leave_bed(false);
    });
}
