//! Under loom: of two ends one counts, and whoever is cut off finds it.

use super::*;
use crate::primitives::models::check;
use crate::primitives::sync::Arc;
use loom::thread::{JoinHandle, spawn};

fn beside(first: &Arc<First<u32>>, f: impl FnOnce(&First<u32>) + 'static) -> JoinHandle<()> {
    let first = Arc::clone(first);
    spawn(move || f(&first))
}

fn is_cut_off(first: &First<u32>) {
    assert!(first.within(|| ()).is_none());
    assert!(first.ended.lock().is_some(), "cut off by nobody");
}

#[test]
fn two_ends_and_one_who_is_cut_off() {
    check(2, || {
        let first = Arc::new(First::new());
        let ends = beside(&first, |first| first.end(Ok(1)));
        let waits = beside(&first, is_cut_off);
        first.end(Err(Box::new(2)));
        assert!(first.ended.lock().is_some());
        [ends, waits].into_iter().for_each(|other| other.join().unwrap());
    });
}

#[test]
fn one_end_and_two_who_are_cut_off() {
    check(2, || {
        let first = Arc::new(First::new());
        let others = [beside(&first, is_cut_off), beside(&first, is_cut_off)];
        first.end(Ok(1));
        others.into_iter().for_each(|other| other.join().unwrap());
        assert_eq!(first.take().unwrap().unwrap(), 1);
    });
}
