//! How long a thief looks on, and what it sees.

use super::hold_off::{LOST, PAID, PATIENCE, SHORT, SLOW, UNKNOWN, at, mark};
use super::*;
use crate::scheduler::hold_off::{Look, Patience, TRUSTED};
use crate::scheduler::worth::{MEASURED, Mark};

#[test]
fn a_worker_that_stands_still_is_robbed() {
    let mut look = Look::new(mark(0, 1, 7), 2 * PATIENCE, PAID);
    assert!(look.goes_on(at(1), 7) && look.goes_on(at(4), 7));
    assert!(look.goes_on(at(4), 8), "it went on");
    assert!(look.goes_on(at(8), 8));
    assert!(!look.goes_on(at(9), 8), "five microseconds");
}

/// The one that stands still may be waiting for the thief's processor.
#[test]
fn a_thief_gives_way_once_while_the_other_stands_still() {
    let mut look = Look::new(mark(0, 1, 7), PATIENCE, PAID);
    let gives_way = |look: &mut Look, micros, dispatched| {
        assert!(look.goes_on(at(micros), dispatched));
        look.gives_way(at(micros))
    };
    assert!(!gives_way(&mut look, 1, 7));
    assert!(gives_way(&mut look, 2, 7), "two microseconds");
    assert!(!gives_way(&mut look, 4, 7), "again");
    assert!(!gives_way(&mut look, 9, 8), "it went on");
    assert!(gives_way(&mut look, 11, 8), "and stands still again");
}

/// Each look takes lines away from the one that is looked at.
#[test]
fn who_goes_on_is_looked_at_less_and_less_often() {
    let rests = |worth| {
        let mut look = Look::new(mark(0, 1, 0), PATIENCE, worth);
        move |works: [u64; 6]| {
            works.map(|work| {
                assert!(look.goes_on(at(1), work));
                look.rest.as_nanos()
            })
        }
    };
    for worth in [PAID, SLOW] {
        let mut rests = rests(worth);
        assert_eq!(rests([0; 6]), [0; 6], "it does not go on");
        assert_eq!(rests([1, 2, 3, 4, 5, 6]), [400, 800, 1_600, 3_000, 3_000, 3_000]);
        assert_eq!(rests([7, 7, 7, 8, 9, 9]), [3_000, 0, 0, 400, 800, 0], "it may stand still");
    }
    let mut rests = rests(LOST);
    assert_eq!(rests([1, 2, 3, 4, 5, 6]), [400, 800, 1_600, 3_200, 6_400, 12_800]);
    assert_eq!(rests([7, 8, 9, 10, 10, 11]), [25_600, 50_000, 50_000, 50_000, 0, 400]);
}

/// But what comes up elsewhere ends that at once.
#[test]
fn a_thief_that_does_not_look_is_called_away() {
    const SECOND: Duration = Duration::from_secs(1);
    bench(config(2), 2, |bench| {
        let thief = &bench.workers[0];
        let rests = |rest| {
            let start = Moment::now();
            let mut look = Look::new(Mark { at: start, from: 1, work: 7 }, PATIENCE, PAID);
            look.rest = rest;
            thief.lets_it_run(&mut look, start, bench.core(1), PAID);
            Moment::now().since(start)
        };
        assert!(rests(PATIENCE) >= PATIENCE, "nothing comes up");
        bench.fill_injector([0]);
        assert!(rests(3 * SECOND) < SECOND, "the injector");
        let injected = bench.shared.injector.pop().unwrap();
        assert!(thief.held().mailbox.push(injected).is_ok());
        assert!(rests(3 * SECOND) < SECOND, "its mailbox");
        thief.held().mailbox.pop().unwrap();
        assert!(rests(PATIENCE) >= PATIENCE, "nothing is left");
    });
}

#[test]
fn who_has_stood_still_is_trusted_for_some_steals() {
    let mut patience = Patience::new();
    assert_eq!(patience.trusts(1, 7, PAID), None);
    patience.has_stood(1, 7);
    let gone_on = [7, 8, 8, 9].map(|work| patience.trusts(1, work, SHORT));
    assert_eq!(gone_on, [Some(false), Some(true), Some(false), Some(true)]);
    for (core, worth) in [(0, PAID), (1, SLOW), (1, UNKNOWN)] {
        patience.has_stood(1, 7);
        assert_eq!(patience.trusts(core, 7, worth), None);
        assert_eq!(patience.trusts(1, 7, PAID), None, "it is looked at first");
    }
    patience.has_stood(1, 7);
    assert_eq!((0..99).map_while(|_| patience.trusts(1, 7, PAID)).count(), TRUSTED as usize);
}

#[test]
fn patience_ends() {
    let mut look = Look::new(mark(0, 1, 0), PATIENCE, PAID);
    for micros in 1..20 {
        assert!(look.goes_on(at(micros), micros), "{micros}");
    }
    assert!(!look.goes_on(at(20), 20));
}

#[test]
fn patience_grows_with_steals_that_do_not_pay() {
    let mut patience = Patience::new();
    let mut now = 0;
    let mut looks_on_after = |busy: Option<u64>, worth, workers| {
        let looked_on = patience.again(at(now), worth, workers);
        now += looked_on.as_micros() as u64;
        patience.ends(at(now));
        match busy {
            Some(busy) => now += busy,
            None => patience.forget(),
        }
        looked_on.as_micros()
    };
    let little = [(); 6].map(|()| looks_on_after(Some(19), SHORT, 2));
    assert_eq!(little, [20, 40, 80, 160, 320, 320]);
    assert_eq!(looks_on_after(None, PAID, 2), 320);
    assert_eq!(looks_on_after(Some(319), PAID, 2), 320, "nothing was there to steal");
    assert_eq!(looks_on_after(Some(320), PAID, 2), 320);
    assert_eq!(looks_on_after(Some(20), PAID, 2), 20, "it paid");
    assert_eq!(looks_on_after(Some(20), PAID, 2), 20);
    assert_eq!(looks_on_after(Some(20), UNKNOWN, 2), 160, "to measure");
    assert_eq!(looks_on_after(Some(2_000), PAID, 2), 20, "20 us of it were enough");
    let slow = [(); 5].map(|()| looks_on_after(Some(2_000), SLOW, 2));
    assert_eq!(slow, [160, 320, 640, 1280, 1280], "however busy it was");
    let lost = [(); 5].map(|()| looks_on_after(Some(2_000), LOST, 2));
    assert_eq!(lost, [2_560, 5_120, 10_240, 20_480, 20_480], "they were slower");
    assert_eq!(looks_on_after(Some(2_000), SLOW, 2), 1_280);
    let others_may_need_it = [SLOW, LOST].map(|worth| looks_on_after(Some(2_000), worth, 3));
    assert_eq!(others_may_need_it, [320; 2]);
    assert_eq!(looks_on_after(None, SLOW, 2), 640);
    assert_eq!(looks_on_after(None, SLOW, 2), 640, "nothing was there to steal");
    assert_eq!(looks_on_after(Some(19), PAID, 2), 20, "as before they were slow");
    assert_eq!(looks_on_after(Some(20), SHORT, 2), 40);
    assert_eq!(looks_on_after(Some(20), SLOW, 2), 160, "anew");
}

#[test]
fn a_long_look_measures_from_its_middle_on() {
    let long = MEASURED.as_micros() as u64;
    let mut look = Look::new(mark(0, 1, 100), MEASURED, PAID);
    for micros in 1..long {
        assert!(look.goes_on(at(micros), 100 + micros), "{micros}");
    }
    let middle = look.measures().unwrap();
    let half = long / 2;
    assert_eq!((middle.at, middle.from, middle.work), (at(half), 1, 100 + half));
    assert!(
        Look::new(mark(0, 1, 0), MEASURED - Duration::from_micros(1), PAID).measures().is_none()
    );
}
