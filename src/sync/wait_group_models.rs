//! Under loom: whoever waited sees what the members did, and nobody is left behind by one who gave up.

use super::*;
use crate::primitives::models::Done;
use crate::sync::{cancelled, check};
use loom::thread;

fn member(group: &WaitGroup, done: &Arc<Done>) -> thread::JoinHandle<()> {
    let (group, done) = (group.clone(), Arc::clone(done));
    thread::spawn(move || {
        done.write();
        drop(group);
    })
}

#[test]
fn one_waits_for_two() {
    check(3, || {
        let group = WaitGroup::new();
        let done = [Arc::default(), Arc::default()];
        let members = done.each_ref().map(|done| member(&group, done));
        group.wait();
        done.iter().for_each(|done| done.check());
        members.into_iter().for_each(|member| member.join().unwrap());
    });
}

#[test]
fn a_member_brings_another() {
    check(3, || {
        let group = WaitGroup::new();
        let done = Arc::<Done>::default();
        let brings = {
            let (group, done) = (group.clone(), Arc::clone(&done));
            thread::spawn(move || {
                let brought = group.clone();
                drop(group);
                done.write();
                drop(brought);
            })
        };
        group.wait();
        done.check();
        brings.join().unwrap();
    });
}

fn two_wait(second: fn(WaitGroup)) {
    check(2, move || {
        let group = WaitGroup::new();
        let done = Arc::<Done>::default();
        let member = member(&group, &done);
        let second = {
            let group = group.clone();
            thread::spawn(move || second(group))
        };
        group.wait();
        done.check();
        member.join().unwrap();
        second.join().unwrap();
    });
}

#[test]
fn two_wait_for_each_other_and_one() {
    two_wait(WaitGroup::wait);
}

#[test]
fn one_who_waits_gives_up() {
    two_wait(|group| {
        cancelled(|| group.wait());
    });
}
