//! Under loom: a cancel reaches whoever waits for it, runs under it, or is made beside it, through a child too.

use super::super::caught;
use super::*;
use crate::primitives::models::check;
use loom::thread::{JoinHandle, spawn};

fn beside(token: &Token, f: impl FnOnce(Token) + 'static) -> JoinHandle<()> {
    let token = token.clone();
    spawn(move || f(token))
}

/// `first` and `second` end only when the token is cancelled.
fn cancel_reaches(first: fn(Token), second: fn(Token)) {
    check(2, move || {
        let token = Token::new();
        let others = [beside(&token, first), beside(&token, second)];
        token.cancel();
        assert!(token.is_cancelled());
        others.into_iter().for_each(|other| other.join().unwrap());
        let linked = token.0.linked.lock();
        assert!(linked.runs.is_empty() && linked.children.is_empty());
        assert!(token.0.waiters.lock().is_empty());
    });
}

fn waits(token: Token) {
    token.cancelled();
    assert!(token.is_cancelled());
}

fn gives_up(token: Token) {
    crate::park::cancelled(|| caught(|| token.cancelled()));
}

fn runs(token: Token) {
    assert_eq!(token.run(|| ()), Err(Cancelled));
}

fn has_a_child(token: Token) {
    waits(token.child());
}

fn runs_under_a_grandchild(token: Token) {
    let child = token.child();
    runs(child.child());
}

/// They have gone when the cancel comes, or go as it comes to them.
fn has_had_children(token: Token) {
    drop(token.child());
    drop(token.child().child());
    waits(token);
}

/// Nobody has the token between them.
fn runs_under_an_orphan(token: Token) {
    let grandchild = token.child().child();
    drop(token);
    runs(grandchild);
}

#[test]
fn who_waits_and_who_runs() {
    cancel_reaches(waits, runs);
}

#[test]
fn one_gives_up() {
    cancel_reaches(waits, gives_up);
}

#[test]
fn two_who_run() {
    cancel_reaches(runs, runs);
}

#[test]
fn a_child_made_beside_it() {
    cancel_reaches(has_a_child, runs);
}

#[test]
fn children_that_go() {
    cancel_reaches(has_had_children, waits);
}

#[test]
fn children_of_two_that_go() {
    cancel_reaches(has_had_children, has_had_children);
}

#[test]
fn a_grandchild() {
    cancel_reaches(runs_under_a_grandchild, waits);
}

#[test]
fn a_grandchild_whose_parent_nobody_has() {
    cancel_reaches(runs_under_an_orphan, waits);
}

/// A child's cancel does not reach its parent, and one that is cancelled with it is so once.
#[test]
fn a_child_is_cancelled_beside_its_parent() {
    check(3, || {
        let token = Token::new();
        let child = token.child();
        let other = beside(&child, |child| child.cancel());
        let waits = beside(&child, waits);
        assert!(!token.is_cancelled());
        token.cancel();
        [other, waits].into_iter().for_each(|other| other.join().unwrap());
        assert!(child.is_cancelled());
    });
}
