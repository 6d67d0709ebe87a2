//! `after`, `at`, `tick`, `never`.

use crate::common::{LONG, within};
use crate::harness::{ms, on_each};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use volt::channel::{
    Receiver, RecvTimeoutError, Select, TryRecvError, after, at, never, select, tick,
};

#[test]
fn after_fires_once_and_names_its_time() {
    on_each(|| {
        let start = Instant::now();
        let r = after(ms(10));
        assert_eq!((r.len(), r.capacity(), r.is_full()), (0, Some(1), false));
        assert_eq!(r.try_recv(), Err(TryRecvError::Empty));
        let fired = r.recv().unwrap();
        assert!(fired >= start + ms(10) - Duration::from_micros(1));
        assert!(fired <= Instant::now(), "received before it was due");
        assert_eq!(r.try_recv(), Err(TryRecvError::Empty));
        assert_eq!(r.recv_timeout(ms(2)), Err(RecvTimeoutError::Timeout));
    });
}

#[test]
fn one_of_many_gets_the_message() {
    on_each(|| {
        let r = after(ms(5));
        let got = Arc::new(AtomicUsize::new(0));
        let waiters: Vec<_> = (0..8)
            .map(|_| {
                let (r, got) = (r.clone(), Arc::clone(&got));
                volt::go(move || {
                    select! {
                        recv(r) -> fired => { fired.unwrap(); got.fetch_add(1, Ordering::SeqCst); }
                        default(ms(60)) => {}
                    }
                })
            })
            .collect();
        waiters.into_iter().for_each(|waiter| waiter.join().unwrap());
        assert_eq!(got.load(Ordering::SeqCst), 1);
    });
}

#[test]
fn at_takes_both_kinds_of_instants() {
    on_each(|| {
        let end = Instant::now() + ms(3);
        assert_eq!(at(end).recv(), Ok(end));
        let end = volt::time::Instant::now() + ms(3);
        at(end).recv().unwrap();
        assert!(volt::time::Instant::now() >= end);
        let past = Instant::now();
        assert_eq!(at(past).try_recv(), Ok(past));
    });
}

/// Takes ticks in time, then too late. Were all of them as they should be, to the nanosecond? Not if the
/// system kept the caller from coming in time.
fn ticks_are_exact() -> bool {
    const PERIOD: Duration = Duration::from_millis(4);
    let start = Instant::now();
    let r = tick(PERIOD);
    assert!(r.is_empty() || start.elapsed() >= PERIOD);
    let ticks: [_; 4] = std::array::from_fn(|_| r.recv().unwrap());
    assert!(ticks[0] >= start + PERIOD - Duration::from_micros(1));
    let periods = ticks.windows(2).map(|two| two[1] - two[0]).collect::<Vec<_>>();
    assert!(periods.iter().all(|period| *period >= PERIOD), "{periods:?}");
    // Of those that are missed the first stays.
    volt::sleep(5 * PERIOD);
    assert_eq!(r.len(), 1);
    let came = Instant::now();
    let missed = r.try_recv().unwrap();
    let none_is_left = r.is_empty();
    let next = r.recv().unwrap();
    assert!(next >= came + PERIOD - Duration::from_micros(1), "a period after one came");
    periods == [PERIOD; 3] && missed == ticks[3] + PERIOD && none_is_left
}

#[test]
fn ticks_keep_their_period_and_leave_out_what_was_missed() {
    on_each(|| assert!((0..50).any(|_| ticks_are_exact())));
}

#[test]
fn never_is_never() {
    const NEVER: Receiver<u8> = never();
    on_each(|| {
        let r = NEVER;
        assert_eq!((r.len(), r.capacity(), r.is_empty(), r.is_full()), (0, Some(0), true, true));
        assert_eq!(r.try_recv(), Err(TryRecvError::Empty));
        assert_eq!(r.recv_timeout(ms(2)), Err(RecvTimeoutError::Timeout));
        assert!(r.same_channel(&never()));
        let mut select = Select::new();
        select.recv(&r);
        assert!(select.try_select().is_err());
        assert!(select.select_timeout(ms(2)).is_err());
        assert!(select.ready_timeout(ms(2)).is_err());
    });
}

#[test]
fn endless_durations() {
    on_each(|| {
        assert!(after(Duration::MAX).same_channel(&never()));
        assert!(tick(Duration::MAX).same_channel(&never()));
        assert_eq!(after(Duration::ZERO).recv().map(drop), Ok(()));
        let zero = tick(Duration::ZERO);
        assert_eq!((zero.recv().map(drop), zero.try_recv().map(drop)), (Ok(()), Ok(())));
    });
}

#[test]
fn clocks_in_selects() {
    on_each(|| {
        let (short, long) = (after(ms(5)), after(Duration::from_secs(50)));
        select! {
            recv(short) -> fired => assert!(fired.is_ok()),
            recv(long) -> _ => panic!("the later one"),
        }
        let ticks = tick(ms(2));
        let mut select = Select::new();
        let (one, two) = (select.recv(&ticks), select.recv(&long));
        for _ in 0..3 {
            let operation = select.select();
            assert_eq!(operation.index(), one, "not {two}");
            operation.recv(&ticks).unwrap();
        }
        assert_eq!(select.ready(), one);
    });
}

/// A tick without pause always has a message: whoever takes them in a loop yields all the same.
#[test]
fn a_tick_without_pause_lets_others_run() {
    within(LONG, || {
        let runtime = volt::runtime::Builder::new().workers(1).stall_period(None).build();
        runtime.unwrap().run(|| {
            let stop = Arc::new(AtomicBool::new(false));
            let theirs = Arc::clone(&stop);
            let other = volt::go(move || theirs.store(true, Ordering::SeqCst));
            let ticks = tick(Duration::ZERO);
            while !stop.load(Ordering::SeqCst) {
                ticks.recv().unwrap();
            }
            other.join().unwrap();
        });
    });
}
