//! What a thief makes of its steals.

use super::hold_off::{LOST, PAID, SHORT, SLOW, at, far, mark};
use crate::scheduler::worth::{Progress, Steals, Worth};
use std::cell::Cell;

/// One that has measured core 1 alone: a hundred dispatches in as many microseconds.
pub(super) fn measured() -> Steals {
    let mut steals = Steals::new();
    steals.measured(mark(0, 1, 0), at(100), 100);
    steals
}

#[test]
fn two_that_are_no_faster_than_one_alone_are_slow() {
    let judge = |from, micros: u64, theirs: u64, own: u64| {
        let mut steals = measured();
        steals.stole(at(100), from, far(5_000), 70);
        let worth = steals.judge(at(100 + micros), far(5_000 + theirs), 70 + own);
        assert_eq!(steals.robbed(), from);
        worth
    };
    assert_eq!(judge(1, 40, 25, 24), SLOW);
    assert_eq!(judge(1, 40, 25, 25), PAID, "faster by a fourth");
    assert_eq!(judge(2, 40, 14, 14), PAID, "that one was not measured");
    assert_eq!(
        [20, 19].map(|own| judge(1, 40, 20, own)),
        [SLOW, LOST],
        "as fast as one alone, and slower"
    );
    assert_eq!(judge(1, 39, 14, 14), LOST);
    assert_eq!(judge(1, 39, 13, 14), PAID, "3 us each: it had something else to do");
    assert_eq!(judge(1, 39, 14, 13), PAID, "so had the thief");
    assert_eq!(judge(1, 15_999, 8_000, 8_000), SLOW);
    assert_eq!(judge(1, 16_000, 8_000, 8_000), PAID, "what it stole was not all that it did");
    assert_eq!([9, 10].map(|micros| judge(1, micros, 4, 4)), [SHORT, PAID], "too soon to tell");
    assert_eq!([31, 32].map(|micros| judge(1, micros, 14, 14)), [PAID, LOST]);
}

#[test]
fn steals_that_are_soon_used_up_are_judged_together() {
    let mut steals = measured();
    let mut steal = |start: u64, from: usize, each: u64| {
        steals.stole(at(start), from, far(0), 0);
        steals.judge(at(start + 8), far(each), each)
    };
    let short_and = |worth: Worth| Worth { short: true, ..worth };
    let four = |start: u64| [0_u64, 10, 20, 30].map(|later| start + later);
    assert_eq!(four(100).map(|start| steal(start, 1, 4)), [SHORT, SHORT, SHORT, short_and(SLOW)]);
    // Until it is known better.
    assert_eq!(four(200).map(|start| steal(start, 1, 3)), {
        let [slow, lost] = [SLOW, LOST].map(short_and);
        [slow, slow, slow, lost]
    });
    assert_eq!(steal(300, 2, 3), SHORT, "of another core nothing is known");
    let [lost, paid] = [short_and(LOST), SHORT];
    assert_eq!(four(400).map(|start| steal(start, 1, 8)), [lost, lost, lost, paid]);
    assert_eq!(four(500).map(|start| steal(start, 1, 3)), [paid, paid, paid, lost]);
    assert_eq!(steal(64_529, 1, 3), lost);
    assert_eq!([64_540, 64_550].map(|start| steal(start, 1, 3)), [paid; 2], "long ago");
    assert_eq!(steal(64_560, 1, 3), lost, "one of them was before");
    // Long before the next.
    steal(64_570, 1, 100);
    assert_eq!(four(200_000).map(|start| steal(start, 1, 3)), [paid, paid, paid, lost]);
}

/// Those that wait for each other follow the first that is stolen; then the one that they have left robs others.
#[test]
fn all_that_has_moved_is_judged_by_what_the_thief_does() {
    let judge = |stolen: u64, theirs: u64, own: u64| {
        let mut steals = measured();
        steals.stole(at(100), 1, Progress { work: 0, stolen: 3 }, 0);
        steals.judge(at(140), Progress { work: theirs, stolen }, own)
    };
    assert_eq!(judge(4, 1, 36), LOST);
    assert_eq!(judge(4, 1, 37), PAID, "within what measurements differ by");
    assert_eq!(judge(3, 1, 36), PAID, "it has robbed nobody, and may compute");
    assert_eq!([3, 4].map(|theirs| judge(4, theirs, 32)), [LOST, PAID], "that one has not run dry");
    assert_eq!(judge(4, 1, 13), PAID, "nor does the thief flow");
}

/// What thief and victim do from then on, such as sleep, says nothing about the steal.
#[test]
fn a_steal_is_judged_once() {
    let mut steals = measured();
    for (start, together, worth) in [(100, 200, PAID), (2_000, 100, SLOW)] {
        steals.stole(at(start), 1, far(0), 0);
        assert_eq!(steals.judge(at(start + 100), far(together / 2), together / 2), worth);
        steals.forget();
        assert_eq!(steals.judge(at(start + 1_099), far(100), 100), worth);
        assert_eq!(steals.judge(at(start + 1_100), far(100), 100), PAID, "long ago");
    }
    steals.stole(at(9_000), 1, far(0), 0);
    steals.forget();
    assert_eq!(steals.judge(at(9_100), far(50), 50), PAID, "it has slept");
}

/// After 32 steals, 2 ms after the last time, and where steals pay twice as long each time.
#[test]
fn who_steals_often_measures_now_and_then() {
    let mut steals = Steals::new();
    let now = Cell::new(1_000_000);
    let steals_until = |steals: &mut Steals, every: u64, what: fn(Worth) -> bool| {
        (1_u64..10_000).find(|_| {
            steals.stole(at(now.get()), 1, far(0), 0);
            now.set(now.get() + every);
            what(steals.judge(at(now.get()), far(every), every))
        })
    };
    let measured = |steals: &mut Steals, work| {
        steals.begins_to_measure(at(now.get()));
        let from = now.replace(now.get() + 100);
        steals.measured(mark(from, 1, 0), at(now.get()), work);
    };
    let unknown = |worth: Worth| worth.unknown;
    assert_eq!(steals_until(&mut steals, 20, unknown), Some(32), "it has never measured");
    for steals_of_20_us in [200, 400, 800, 1_600, 3_200, 3_200] {
        measured(&mut steals, 1);
        // The first judgement after it says that steals pay.
        assert_eq!(steals_until(&mut steals, 20, unknown), Some(steals_of_20_us));
    }
    measured(&mut steals, 1_000);
    steals.stole(at(now.get()), 2, far(0), 0);
    assert_eq!(
        steals.judge(at(now.get()), far(20), 20),
        SHORT,
        "one from elsewhere says nothing of it"
    );
    assert_eq!(steals_until(&mut steals, 20, |worth| worth.slow), Some(2));
    assert_eq!(steals_until(&mut steals, 20, unknown), Some(98), "soon again where it is slow");
    steals.begins_to_measure(at(now.get()));
    assert_eq!(steals_until(&mut steals, 20, unknown), Some(100), "also if the look was cut off");
    measured(&mut steals, 1);
    assert_eq!(steals_until(&mut steals, 500, unknown), Some(32), "however long it takes");
}
