//! Under loom: of two ends one counts, and whoever is cut off finds that one.

use super::*;
use crate::primitives::models::check;
use crate::primitives::sync::Arc;
use loom::thread::{JoinHandle, spawn};

const OTHER: u32 = 1;
const HERE: u32 = 2;

fn beside<R: 'static>(
    first: &Arc<First<u32>>,
    f: impl FnOnce(&First<u32>) -> R + 'static,
) -> JoinHandle<R> {
    let first = Arc::clone(first);
    spawn(move || f(&first))
}

/// Which end counts, as one sees it who waits until he is cut off.
fn is_cut_off(first: &First<u32>) -> u32 {
    assert!(first.within(|| ()).is_none());
    seen(first.ended.lock().as_ref())
}

fn seen(ended: Option<&Result<u32, Payload>>) -> u32 {
    let ended = ended.expect("cut off by nobody");
    *ended.as_ref().unwrap_or_else(|payload| payload.downcast_ref().unwrap())
}

/// All have ended.
fn last(first: Arc<First<u32>>) -> u32 {
    let Ok(first) = Arc::try_unwrap(first) else { panic!("somebody has not") };
    seen(first.into_inner().as_ref())
}

#[test]
fn two_ends_and_one_who_is_cut_off() {
    check(2, || {
        let first = Arc::new(First::new());
        let ends = beside(&first, |first| first.end(Ok(OTHER)));
        let waits = beside(&first, is_cut_off);
        first.end(Err(Box::new(HERE)));
        let counts = seen(first.ended.lock().as_ref());
        ends.join().unwrap();
        assert_eq!(waits.join().unwrap(), counts);
        assert_eq!(last(first), counts);
    });
}

#[test]
fn one_end_and_two_who_are_cut_off() {
    check(2, || {
        let first = Arc::new(First::new());
        let others = [beside(&first, is_cut_off), beside(&first, is_cut_off)];
        first.end(Ok(HERE));
        others.into_iter().for_each(|other| assert_eq!(other.join().unwrap(), HERE));
        assert_eq!(last(first), HERE);
    });
}
