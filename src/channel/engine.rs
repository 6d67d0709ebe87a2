//! How a select chooses: tries every case in a random order, and if none is ready waits for all.
//!
//! Exactly one case has its effect. While trying, because the first that is ready ends it. While
//! waiting, because every effect is preceded by settling the waiter, which succeeds once: by a
//! channel for one node, by a time-out or a cancel for none, or by the select itself, when it finds
//! a case ready while it links its nodes.

use super::case::{Attempt, Purpose, Source};
use super::core::{give_up, is_over};
use super::node::End;
use super::parcel::Parcel;
use super::registered::Registered;
use super::select_node::SelectNode;
use super::ticket::READY;
use crate::cancel;
use crate::fiber;
use crate::park::{self, Outcome, Parking, Wait, deadline_after};
use crate::primitives::clock::Moment;
use std::alloc::Layout;
use std::fmt;
use std::mem::ManuallyDrop;

/// One case of a select, and its number.
#[derive(Clone, Copy)]
pub struct Listed<'a> {
    pub(super) source: &'a dyn Source,
    pub(super) index: usize,
}

impl<'a> Listed<'a> {
    /// For the macro.
    #[doc(hidden)]
    pub fn new(source: &'a dyn Source, index: usize) -> Listed<'a> {
        Listed { source, index }
    }
}

impl fmt::Debug for Listed<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Listed").field("index", &self.index).finish_non_exhaustive()
    }
}

/// How long to wait.
#[derive(Clone, Copy, Debug)]
pub(super) enum Patience {
    None,
    Until(Option<Moment>),
}

impl Patience {
    pub(super) fn lasting(timeout: std::time::Duration) -> Patience {
        Patience::Until(Some(deadline_after(timeout)))
    }
}

/// What ended one round of waiting.
enum Round<'a> {
    Chosen(Choice<'a>),
    /// Something changed, or the time is over: try again.
    Look,
}

/// Nodes that stand on the stack; a select with more cases allocates.
const FEW: usize = 4;

/// A case that was chosen, and whether it was promised: false if it is disconnected.
#[derive(Clone, Copy, Debug)]
pub(super) struct Choice<'a> {
    pub(super) case: Listed<'a>,
    pub(super) promised: bool,
}

/// Chooses a case and lets it have its effect; `None` when patience is over. What is received comes into `parcel`,
/// which stays where it is: to move what has just been stored, in other pieces, takes the processor longer than to
/// store it.
///
/// Without a wait the cases are tried twice before it gives up: between the looks at two channels
/// somebody may fill the first and then empty the second, so that neither is found ready though one of
/// them was at every moment.
pub(super) fn select<'a>(
    cases: &mut [Listed<'a>],
    patience: Patience,
    biased: bool,
    parcel: &mut Parcel,
) -> Option<Choice<'a>> {
    let deadline = begin(patience);
    let mut first = if biased { 0 } else { shuffle(cases) };
    let (mut again, mut waited) = (cases.len() > 1, false);
    loop {
        for case in in_turn(cases, first) {
            let promised = match case.source.attempt(parcel) {
                Attempt::Chosen => true,
                Attempt::Disconnected => false,
                Attempt::Promised if case.source.collect(parcel) => true,
                Attempt::Promised | Attempt::NotReady => continue,
            };
            return Some(Choice { case: *case, promised });
        }
        if is_over(deadline) {
            if !std::mem::take(&mut again) {
                if !waited {
                    end_without(patience);
                }
                return None;
            }
        } else {
            // They wait in the same order: of two at one channel it serves the first.
            cases.rotate_left(std::mem::take(&mut first));
            if let Round::Chosen(choice) = wait(cases, deadline, Purpose::Effect, parcel) {
                return Some(choice);
            }
            // All cases were watched at once: what follows is the last look.
            (again, waited) = (false, true);
        }
    }
}

/// Waits until a case may be ready, and returns its number; `None` when patience is over.
pub(super) fn ready(cases: &mut [Listed<'_>], patience: Patience, biased: bool) -> Option<usize> {
    let deadline = begin(patience);
    let mut first = if biased { 0 } else { shuffle(cases) };
    let mut waited = false;
    loop {
        if let Some(case) = in_turn(cases, first).find(|case| case.source.is_ready()) {
            return Some(case.index);
        }
        if is_over(deadline) {
            if !waited {
                end_without(patience);
            }
            return None;
        }
        cases.rotate_left(std::mem::take(&mut first));
        wait(cases, deadline, Purpose::Watch, &mut Parcel::new());
        waited = true;
    }
}

/// The deadline: of a select without patience, one that is over. One that may wait is charged.
fn begin(patience: Patience) -> Option<Moment> {
    match patience {
        Patience::None => Some(Moment::PAST),
        Patience::Until(deadline) => {
            park::charge_current();
            deadline
        }
    }
}

/// Nothing came in time; unwinds if the caller, who was ready to wait, is asked to end.
fn end_without(patience: Patience) {
    if !matches!(patience, Patience::None) {
        give_up("select");
    }
}

/// A random order, all of them about equally likely; returns with which case it begins.
///
/// Two cases, which most selects have, stay where they are: to load what has just been stored, in other
/// pieces, takes the processor longer than all the rest of this.
fn shuffle(cases: &mut [Listed<'_>]) -> usize {
    if let [_, _] = cases {
        return (fiber::random() >> 31) as usize;
    }
    for last in (1..cases.len()).rev() {
        let other = (u64::from(fiber::random()) * (last as u64 + 1)) >> 32;
        cases.swap(last, other as usize);
    }
    0
}

/// All cases, from the one at `first` on.
fn in_turn<'c, 'a>(cases: &'c [Listed<'a>], first: usize) -> impl Iterator<Item = &'c Listed<'a>> {
    let (before, from) = cases.split_at(first);
    from.iter().chain(before)
}

#[inline(never)]
fn wait<'a>(
    cases: &[Listed<'a>],
    deadline: Option<Moment>,
    purpose: Purpose,
    parcel: &mut Parcel,
) -> Round<'a> {
    let kinds = Kinds::of(cases);
    let mut registered = Registered::none(cases, purpose);
    if kinds.open {
        registered.register();
    }
    let parking = Parking::begin("select");
    // One room for whatever comes: only who settles the wait writes.
    let slot = match purpose {
        Purpose::Effect => parcel.room(kinds.layout),
        Purpose::Watch => std::ptr::null_mut(),
    };
    let node = |position: usize| {
        let slot = if kinds.receives(cases, position) { slot } else { std::ptr::null_mut() };
        SelectNode::new(parking.waiter(), position as u32, slot)
    };
    let (few, many): ([SelectNode; FEW], Vec<SelectNode>);
    let nodes = if cases.len() <= FEW {
        few = std::array::from_fn(node);
        &few[..cases.len()]
    } else {
        many = (0..cases.len()).map(node).collect();
        &many[..]
    };
    let wait = Wait { deadline, outside: kinds.outside, ..Wait::cancellable("select") };
    let outcome = park_linked(&parking, cases, nodes, wait, purpose, &registered);
    let chosen = match outcome {
        Outcome::Woken(READY) | Outcome::TimedOut => None,
        Outcome::Woken(_) if purpose == Purpose::Watch => None,
        Outcome::Woken(position) => {
            let (case, node) = (cases[position as usize], &nodes[position as usize]);
            node.reclaim();
            conclude(case, node, parcel)
        }
        Outcome::Cancelled => cancel::unwind(),
    };
    // Here, where what was chosen is in a guard: if a case's code unwinds, it is withdrawn.
    drop(registered);
    chosen.map_or(Round::Look, Chosen::keep)
}

/// Is withdrawn when it goes.
struct Chosen<'p, 'a> {
    choice: Choice<'a>,
    parcel: &'p mut Parcel,
}

impl<'a> Chosen<'_, 'a> {
    fn keep(self) -> Round<'a> {
        Round::Chosen(ManuallyDrop::new(self).choice)
    }
}

impl Drop for Chosen<'_, '_> {
    fn drop(&mut self) {
        let source = self.choice.case.source;
        source.take_back(self.parcel);
        if self.choice.promised {
            source.withdraw();
        }
    }
}

/// What all cases of a select are.
struct Kinds {
    /// Room for any message.
    layout: Layout,
    /// Which of the first [`Kinds::NOTED`] receive.
    receive: u64,
    outside: bool,
    open: bool,
}

impl Kinds {
    const NOTED: usize = u64::BITS as usize;

    fn of(cases: &[Listed<'_>]) -> Kinds {
        let layout = Layout::new::<()>();
        let mut all = Kinds { layout, receive: 0, outside: false, open: false };
        for (position, case) in cases.iter().enumerate() {
            let kind = case.source.kind();
            if let Some(layout) = kind.receives {
                all.layout = larger(all.layout, layout);
                all.receive |= u64::from(position < Kinds::NOTED) << (position % Kinds::NOTED);
            }
            all.outside |= kind.outside;
            all.open |= kind.open;
        }
        all
    }

    /// Does the case at `position`, if there is one?
    fn receives(&self, cases: &[Listed<'_>], position: usize) -> bool {
        match position < Kinds::NOTED {
            true => self.receive & 1 << position != 0,
            false => receives(cases[position]),
        }
    }
}

fn receives(case: Listed<'_>) -> bool {
    case.source.kind().receives.is_some()
}

fn larger(one: Layout, two: Layout) -> Layout {
    let (size, align) = (one.size().max(two.size()), one.align().max(two.align()));
    Layout::from_size_align(size, align).expect("the size of one type, the alignment of another")
}

/// Links the nodes, waits, and unlinks them.
fn park_linked(
    parking: &Parking,
    cases: &[Listed<'_>],
    nodes: &[SelectNode],
    wait: Wait,
    purpose: Purpose,
    registered: &Registered<'_, '_>,
) -> Outcome {
    let _armed = match registered.arm(parking.waiter()) {
        Ok(armed) => armed,
        Err(result) => return parking.end(result),
    };
    let mut linked = Linked { cases, nodes, purpose, count: 0 };
    for (case, node) in cases.iter().zip(nodes) {
        // SAFETY: `linked` unlinks it before it goes.
        if !unsafe { case.source.link(node, purpose) } {
            return parking.end(READY);
        }
        linked.count += 1;
    }
    let due = cases.iter().filter_map(|case| case.source.due()).map(|due| due.0);
    let deadline = due.chain(wait.deadline).min();
    parking.park(Wait { deadline, ..wait })
}

/// Unlinks the first `count` nodes when it goes.
struct Linked<'a, 'b> {
    cases: &'a [Listed<'b>],
    nodes: &'a [SelectNode],
    purpose: Purpose,
    count: usize,
}

impl Drop for Linked<'_, '_> {
    fn drop(&mut self) {
        for (case, node) in self.cases.iter().zip(self.nodes).take(self.count) {
            if node.end() == End::Open {
                // SAFETY: linked there, for this purpose.
                unsafe { case.source.unlink(node, self.purpose) };
            }
        }
    }
}

/// What a source's ending the wait comes to; `None` if it is to be looked at again.
fn conclude<'p, 'a>(
    case: Listed<'a>,
    node: &SelectNode,
    parcel: &'p mut Parcel,
) -> Option<Chosen<'p, 'a>> {
    let promised = match node.end() {
        End::Done => {
            // SAFETY: so says the end.
            unsafe { case.source.accept(parcel) };
            true
        }
        End::Disconnected => false,
        End::Promised if receives(case) && !case.source.collect(parcel) => return None,
        End::Promised => true,
        End::Open => case.source.handed(node)?,
        End::Look => return None,
    };
    Some(Chosen { choice: Choice { case, promised }, parcel })
}
