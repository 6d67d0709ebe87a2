//! Under loom: one entry, a sender who puts values into it, and receivers, those included who come for
//! another value. loom sees who reads or writes number or value while another writes.

use super::*;
use crate::sync::{cancelled, check};
use loom::sync::Arc;
use loom::thread;
use std::sync::Arc as Count;

const PREEMPTIONS: usize = 4;

/// Of which there is a count, to find what was dropped twice or not at all.
type Value = Count<()>;

/// One that has the value 0, and shares for so many.
fn filled(receivers: usize) -> (Arc<Entry<Value>>, Value) {
    let (entry, count) = (Arc::new(Entry::new()), Count::new(()));
    // SAFETY: there is no other sender; it is free.
    unsafe { entry.put(0, Count::clone(&count), receivers) };
    (entry, count)
}

/// A receiver that comes for `number`: has it got that?
fn receive(entry: &Entry<Value>, number: u64) -> bool {
    let mut position = number;
    let value = entry.pin(number).ok().map(|pinned| pinned.into_value(&mut position));
    assert_eq!(position, number + u64::from(value.is_some()));
    value.is_some()
}

fn receiver(entry: &Arc<Entry<Value>>, number: u64) -> thread::JoinHandle<bool> {
    let entry = Arc::clone(entry);
    thread::spawn(move || receive(&entry, number))
}

/// Puts the value `number` for one receiver, if nothing is in the way.
fn put_if_free(entry: &Entry<Value>, number: u64, count: &Value) -> bool {
    let free = entry.is_free();
    if free {
        // SAFETY: there is no other sender; it is free.
        unsafe { entry.put(number, Count::clone(count), 1) };
    }
    free
}

#[test]
fn who_claims_is_done_before_the_next_is_put() {
    check(PREEMPTIONS, || {
        let (entry, count) = filled(2);
        let receivers = [receiver(&entry, 0), receiver(&entry, 0)];
        let put = put_if_free(&entry, 1, &count);
        assert!(receivers.into_iter().all(|receiver| receiver.join().unwrap()));
        assert_eq!(Count::strong_count(&count), 1 + usize::from(put));
        assert_eq!(receive(&entry, 1), put);
        assert!(entry.is_free());
        assert_eq!(Count::strong_count(&count), 1);
    });
}

#[test]
fn a_stray_has_looked_before_the_next_is_put() {
    check(PREEMPTIONS, || {
        let (entry, count) = filled(1);
        let stray = receiver(&entry, 7);
        let one = receiver(&entry, 0);
        let put = put_if_free(&entry, 1, &count);
        assert!(one.join().unwrap());
        assert!(!stray.join().unwrap());
        assert_eq!(Count::strong_count(&count), 1 + usize::from(put));
        assert_eq!(receive(&entry, 1), put);
        assert_eq!(Count::strong_count(&count), 1);
    });
}

/// Who comes too late for the one is early for the next, whose state his pin must outlive.
#[test]
fn strays_stay_over_a_put() {
    check(PREEMPTIONS, || {
        let (entry, count) = filled(1);
        let strays = [receiver(&entry, 7), receiver(&entry, 7)];
        assert!(receive(&entry, 0));
        let put = put_if_free(&entry, 1, &count);
        strays.into_iter().for_each(|stray| assert!(!stray.join().unwrap()));
        assert_eq!(receive(&entry, 1), put);
        assert!(entry.is_free());
        assert_eq!(Count::strong_count(&count), 1);
    });
}

#[test]
fn what_is_evicted_stays_for_those_who_have_it() {
    check(PREEMPTIONS, || {
        let (entry, count) = filled(2);
        let receivers = [receiver(&entry, 0), receiver(&entry, 0)];
        // SAFETY: there is no other sender.
        drop(unsafe { entry.evict() });
        let put = put_if_free(&entry, 1, &count);
        receivers.into_iter().for_each(|receiver| drop(receiver.join()));
        assert!(!receive(&entry, 0), "it is there no more");
        assert_eq!(Count::strong_count(&count), 1 + usize::from(put));
        assert_eq!(receive(&entry, 1), put);
        assert!(put || put_if_free(&entry, 1, &count));
    });
}

/// The last one takes an evicted value: the mark that this leaves is not the next one's.
#[test]
fn the_last_one_takes_what_is_evicted() {
    check(PREEMPTIONS, || {
        let (entry, count) = filled(1);
        let one = receiver(&entry, 0);
        // SAFETY: there is no other sender.
        let evicted = unsafe { entry.evict() }.is_some();
        assert_ne!(one.join().unwrap(), evicted, "one of the two has it");
        assert_eq!(Count::strong_count(&count), 1);
        assert!(put_if_free(&entry, 1, &count));
        assert!(receive(&entry, 1));
    });
}

#[test]
fn who_does_not_want_it_leaves_it_to_the_other() {
    check(PREEMPTIONS, || {
        let (entry, count) = filled(2);
        let one = receiver(&entry, 0);
        drop(entry.pin(0).expect("it is there").skip());
        assert!(one.join().unwrap());
        assert!(entry.is_free());
        assert_eq!(Count::strong_count(&count), 1);
    });
}

/// Its clone unwinds, the first time.
struct Reluctant(Value, Count<std::sync::atomic::AtomicBool>);

impl Clone for Reluctant {
    fn clone(&self) -> Reluctant {
        if !self.1.swap(true, std::sync::atomic::Ordering::Relaxed) {
            cancel::unwind();
        }
        Reluctant(Count::clone(&self.0), Count::clone(&self.1))
    }
}

#[test]
fn a_cancelled_clone_keeps_its_share_but_no_pin() {
    check(PREEMPTIONS, || {
        let (entry, count) = (Arc::new(Entry::new()), Count::new(()));
        let value = Reluctant(Count::clone(&count), Count::default());
        // SAFETY: there is no other sender; it is free.
        unsafe { entry.put(0, value, 2) };
        let theirs = Arc::clone(&entry);
        let one = thread::spawn(move || {
            let mut position = 0;
            let pinned = theirs.pin(0).ok();
            let got = pinned.map(|pinned| cancelled(|| pinned.into_value(&mut position)).is_some());
            assert_eq!(position, u64::from(got == Some(true)));
            got
        });
        // SAFETY: there is no other sender.
        drop(unsafe { entry.evict() });
        one.join().unwrap();
        assert!(entry.is_free());
        assert_eq!(Count::strong_count(&count), 1);
    });
}
