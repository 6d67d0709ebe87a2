//! A thief leaves alone what is done sooner where it is, and nothing else.

use super::*;
use crate::driver::Direction;
use crate::primitives::sync::atomic::{AtomicBool, Ordering};
use crate::scheduler::hold_off::{FLOWING, Look, PAYS, Patience};
use std::os::fd::AsRawFd;

const PATIENCE: Duration = Duration::from_micros(20);

fn at(micros: u64) -> Moment {
    Moment::from_nanos(1_000_000_000 + micros * 1_000)
}

fn set_pace(core: &Core, nanos: u64) {
    core.pace.store(nanos, Ordering::Relaxed);
}

/// Does worker 0 hold off?
fn holds_off(bench: &Bench<'_>) -> bool {
    let tick = || &bench.workers[0].own().tick;
    let (before, began) = (tick().left_out(), tick().began());
    bench.workers[0].hold_off();
    assert_eq!(tick().began(), began, "sockets and timers have their turn no later for it");
    tick().left_out() != before
}

#[test]
fn a_worker_that_stands_still_is_robbed() {
    let mut look = Look::new(at(0), PATIENCE, 7);
    assert!(look.goes_on(at(1), 7) && look.goes_on(at(5), 7));
    assert!(look.goes_on(at(5), 8), "it went on");
    assert!(look.goes_on(at(14), 8));
    assert!(!look.goes_on(at(15), 8), "ten microseconds");
}

#[test]
fn patience_ends() {
    let mut look = Look::new(at(0), PATIENCE, 0);
    for micros in 1..20 {
        assert!(look.goes_on(at(micros), micros), "{micros}");
    }
    assert!(!look.goes_on(at(20), 20));
}

#[test]
fn patience_grows_with_steals_that_do_not_pay() {
    let mut patience = Patience::new();
    let mut now = 0;
    let mut looks_on_after = |busy: Option<u64>| {
        let looked_on = patience.again(at(now));
        now += looked_on.as_micros() as u64;
        patience.ends(at(now));
        match busy {
            Some(busy) => now += busy,
            None => patience.forget(),
        }
        looked_on.as_micros()
    };
    let little = [(); 6].map(|()| looks_on_after(Some(19)));
    assert_eq!(little, [20, 40, 80, 160, 320, 320]);
    assert_eq!(looks_on_after(None), 320);
    assert_eq!(looks_on_after(Some(319)), 320, "nothing was there to steal");
    assert_eq!(looks_on_after(Some(320)), 320);
    assert_eq!(looks_on_after(Some(20)), 20, "it paid");
    assert_eq!(looks_on_after(Some(20)), 20);
}

#[test]
fn a_long_queue_or_long_fibers_pay() {
    bench(config(2), 201, |bench| {
        let core = bench.core(1);
        assert!(!core.pays(false), "empty");
        bench.fill_ring(1, 0..200);
        set_pace(core, PAYS / 201);
        assert!(!core.pays(false) && !core.pays(true));
        set_pace(core, PAYS / 200);
        assert!(core.pays(false) && core.pays(true));
        bench.ring(1);
        bench.fill_ring(1, [200]);
        set_pace(core, FLOWING - 1);
        assert!(!core.pays(false));
        set_pace(core, FLOWING);
        assert!(core.pays(false), "whatever it is");
        assert!(!core.pays(true), "but not again and again");
        set_pace(core, PAYS);
        assert!(core.pays(true));
        bench.ring(1);
    });
}

#[test]
fn a_thief_holds_off_from_a_worker_that_flows() {
    bench(config(2), 1, |bench| {
        let core = bench.core(1);
        bench.fill_ring(1, [0]);
        assert!(!holds_off(bench), "nothing is known of its fibers yet");
        set_pace(core, FLOWING - 1);
        let start = Moment::now();
        assert!(holds_off(bench));
        assert!(Moment::now().since(start) >= Duration::from_micros(10));
        assert!(!bench.shared.holding_off.load(Ordering::Relaxed), "others may");
        assert_eq!(bench.find(0), Some(0), "it stood still");
    });
}

#[test]
fn a_steal_was_in_vain_for_ten_microseconds() {
    let mut patience = Patience::new();
    assert_eq!(patience.robbed_in_vain(at(0)), None, "none yet");
    patience.stole(at(1), 3);
    assert_eq!([at(1), at(10)].map(|now| patience.robbed_in_vain(now)), [Some(3); 2]);
    assert_eq!(patience.robbed_in_vain(at(11)), None);
}

/// What did not keep it busy is not taken at once again, though the other worker does not flow.
#[test]
fn a_thief_holds_off_after_a_short_steal() {
    bench(config(2), 1, |bench| {
        set_pace(bench.core(1), FLOWING);
        let steals = || {
            bench.fill_ring(1, [0]);
            assert_eq!(bench.find(0), Some(0));
        };
        let was_short = || bench.workers[0].own().patience.robbed_in_vain(Moment::now()).is_some();
        // Where the thread loses its processor in between the steal was a long one.
        let again = (0..1_000).any(|_| {
            steals();
            holds_off(bench)
        });
        assert!(again, "it goes for the next at once");
        while was_short() {
            std::hint::spin_loop();
        }
        assert!(!holds_off(bench), "it was busy");
        let (near, _far) = std::os::unix::net::UnixStream::pair().unwrap();
        let registered = bench.shared.driver.register(near.as_raw_fd(), Direction::Read).unwrap();
        let with_sockets = (0..1_000).any(|_| {
            steals();
            holds_off(bench)
        });
        assert!(!with_sockets, "nobody would be in the poller");
        drop(registered);
    });
}

/// It is that worker that it looks on at, and no other that does not flow.
#[test]
fn a_thief_looks_on_at_the_one_that_it_has_robbed() {
    bench(config(3), 2, |bench| {
        (1..3).for_each(|index| set_pace(bench.core(index), FLOWING));
        let thief = &bench.workers[0];
        let better = |victim, in_vain| thief.has_better_to_do(bench.core(victim), in_vain);
        bench.fill_ring(2, [0]);
        assert!(better(2, false) && better(1, true), "its queue, and it does not flow");
        assert!(!better(2, true), "it was robbed in vain");
        bench.fill_ring(1, [1]);
        assert!(better(2, true), "the other one's queue");
        bench.ring(1);
        let whom = |robbed| thief.whom_to_leave_alone(robbed).map(|core| core.index);
        assert_eq!([None, Some(1), Some(2)].map(whom), [None, Some(1), Some(2)]);
        set_pace(bench.core(1), FLOWING - 1);
        assert_eq!([None, Some(1), Some(2)].map(whom), [Some(1), Some(1), Some(2)]);
        bench.ring(2);
    });
}

#[test]
fn it_does_not_look_on_at_those_who_sleep_or_beside_another() {
    bench(config(2), 1, |bench| {
        set_pace(bench.core(1), 100);
        bench.shared.holding_off.store(true, Ordering::Relaxed);
        assert!(!holds_off(bench));
        assert!(bench.shared.holding_off.load(Ordering::Relaxed), "that is the other's");
        bench.shared.holding_off.store(false, Ordering::Relaxed);
        assert!(holds_off(bench));
        bench.lies_down(1);
        assert!(!holds_off(bench));
        let _ = bench.shared.idle.unpark(1);
    });
}

#[test]
fn other_work_comes_first() {
    bench(config(3), 3, |bench| {
        let better = || bench.workers[0].has_better_to_do(bench.core(1), false);
        assert!(!better());
        bench.fill_injector([0]);
        assert!(better(), "the injector");
        bench.shared.injector.pop();
        bench.core(0).mailbox.push(bench.fibers[1]).unwrap();
        assert!(better(), "mail");
        bench.core(0).mailbox.pop();
        bench.core(1).mailbox.push(bench.fibers[1]).unwrap();
        assert!(better(), "mail that any worker may run");
        bench.core(1).mailbox.pop();
        bench.fill_ring(2, [2]);
        assert!(better(), "somebody else");
        bench.ring(2);
        assert!(!better());
    });
}

/// The thief's patience is told when it ran out, and forgets it where there was nothing to steal.
#[test]
fn patience_that_ran_out_is_judged_by_what_was_stolen() {
    bench(config(2), 1, |bench| {
        let core = bench.core(1);
        set_pace(core, 100);
        let stop = AtomicBool::new(false);
        let ended = || bench.workers[0].own().patience.has_ended();
        let (with_nothing, with_something) = std::thread::scope(|scope| {
            // The other worker goes on and on. Where its thread has no processor it stands still, and
            // then patience does not end; so there are several looks.
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    core.stats.dispatched.add(1);
                }
            });
            let start = Moment::now();
            let in_time = || Moment::now().since(start) < Duration::from_secs(20);
            let with_nothing = (0..1_000).filter(|_| bench.find(0).is_some() || ended()).count();
            let mut with_something = false;
            while !with_something && in_time() {
                bench.fill_ring(1, [0]);
                with_something = bench.find(0) == Some(0) && ended();
            }
            stop.store(true, Ordering::Relaxed);
            (with_nothing, with_something)
        });
        assert_eq!(with_nothing, 0, "nothing was there to steal: that says nothing");
        assert!(with_something, "patience ran out, and nobody told it");
    });
}

/// What a worker publishes is what it has measured.
#[test]
fn the_pace_is_that_of_the_last_tick() {
    bench(config(2), 256, |bench| {
        let before = bench.core(0).pace.load(Ordering::Relaxed);
        bench.fill_ring(0, 0..256);
        let tick = &mut bench.workers[0].own().tick;
        tick.begin(Moment::now());
        // Nor is it a fiber's time.
        tick.leave_out(Duration::from_secs(1));
        (0..256).for_each(|_| assert!(bench.find(0).is_some()));
        let now = bench.core(0).pace.load(Ordering::Relaxed);
        assert_eq!(now, bench.workers[0].own().tick.average());
        assert!(now < before, "{now}");
    });
}
