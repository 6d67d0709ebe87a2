//! Cases other than plain sends and receives.

use crate::common::waits::until_waits;
use crate::common::{LONG, within};
use crate::harness::{ms, on_each};
use std::time::Duration;
use volt::channel::{RecvError, Select, bounded, select, unbounded};
use volt::time::Instant;

#[test]
fn a_time() {
    on_each(|| {
        let (_s, r) = unbounded::<u8>();
        let (soon, later) = (Instant::now() + ms(3), Instant::now() + Duration::from_secs(60));
        select! {
            wait(later) -> _ => panic!(),
            wait(soon) -> when => assert!(when == soon && Instant::now() >= soon),
            recv(r) -> _ => panic!(),
        }
        let mut select = Select::new();
        select.case(&soon);
        assert_eq!(select.try_ready(), Ok(0));
        assert_eq!(select.select().complete(&soon), soon);
    });
}

#[test]
fn handles_as_cases() {
    on_each(|| {
        let (s, r) = bounded::<u8>(1);
        select! {
            wait(s) -> permit => permit.send(1).unwrap(),
            wait(r) -> _ => panic!(),
        }
        select! {
            wait(s) -> _ => panic!("full"),
            wait(r) -> message => assert_eq!(message, Ok(1)),
        }
        // A permit that is not used.
        select! { wait(s) -> permit => { assert!(s.is_full()); drop(permit) } }
        assert_eq!(s.try_send(2), Ok(()));
        drop(s);
        select! { wait(r) -> message => assert_eq!(message, Ok(2)) }
        select! { wait(r) -> message => assert_eq!(message, Err(RecvError)) }
    });
}

#[test]
fn a_permit_keeps_its_receiver() {
    on_each(|| {
        let (s, r) = bounded::<u8>(0);
        let receiver = volt::go(move || r.recv_timeout(Duration::from_secs(60)));
        let permit = select! { wait(s) -> permit => permit };
        until_waits("receive from a chosen sender", &receiver);
        assert!(s.try_send(9).is_err(), "the receiver is taken");
        permit.send(1).unwrap();
        assert_eq!(receiver.join().unwrap(), Ok(1));
    });
}

/// Runs `f` with a permit for the only place of a channel, for which a sender waits with 2, while a
/// receiver waits too.
fn with_the_only_place(f: fn(volt::channel::Permit<'_, u8>), received: [u8; 2]) {
    within(LONG, move || {
        let runtime =
            volt::runtime::Builder::new().workers(1).force_migrate(false).build().unwrap();
        runtime.run(|| {
            let (s, r) = bounded::<u8>(1);
            let permit = select! { wait(s) -> permit => permit };
            let receiver = volt::go(move || [r.recv().unwrap(), r.recv().unwrap()]);
            let theirs = s.clone();
            let sender = volt::go(move || theirs.send(2));
            let other = s.clone();
            // One worker: when this one runs again both wait.
            volt::yield_now();
            assert!(s.is_full() && s.is_empty() && !receiver.is_finished());
            f(permit);
            let sent = volt::timeout(Duration::from_secs(5), || sender.join().unwrap());
            assert_eq!(sent, Ok(Ok(())), "the sender has a place");
            let late = volt::go(move || other.send(3));
            let got = volt::timeout(Duration::from_secs(5), || receiver.join().unwrap());
            assert_eq!(got, Ok(received));
            late.join().unwrap().ok();
        });
    });
}

#[test]
fn a_place_that_was_kept_in_vain_goes_to_who_waits() {
    with_the_only_place(|permit| drop(permit), [2, 3]);
}

/// The message goes straight to the receiver, and the place to the sender.
#[test]
fn a_place_that_was_not_needed_goes_to_who_waits() {
    with_the_only_place(|permit| permit.send(1).unwrap(), [1, 2]);
}
