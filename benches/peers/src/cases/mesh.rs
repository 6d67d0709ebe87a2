//! A thousand actors send to each other at random: whoever is woken has run on the other worker last, half of the time.

use std::sync::Arc;
use std::time::Instant;

use super::{Bar, Case, Part, Row, Unit};
use crate::peer::{Peer, on_may, on_tokio, on_volt};
use crate::run::Run;

pub const CASE: Case = Case {
    name: "mesh",
    part: Part::Beside,
    bodies: &[(Peer::Volt, volt), (Peer::Tokio, tokio), (Peer::May, may)],
    rows: &[Row {
        key: "figure",
        title: "1,000 actors that send to each other, per message",
        unit: Unit::Nanos,
        bar: Bar::NotSlower,
    }],
    note: "1,000 fibers receive from a channel of their own, without a bound, and send what comes on \
        to one of the others, chosen at random; 100 messages are under way. Go has no such channel: \
        its have room for all that are under way.",
    ..Case::INSIDE
};

const ACTORS: usize = 1_000;
const UNDER_WAY: u32 = 100;

/// How often each message is sent.
fn hops(run: Run) -> u32 {
    run.scale(200_000, 10_000) / UNDER_WAY
}

/// The choices of one actor (Marsaglia's xorshift64).
struct Choices(u64);

impl Choices {
    fn of(actor: usize) -> Choices {
        Choices(actor as u64 * 77 + 13)
    }

    fn next(&mut self) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % ACTORS as u64) as usize
    }
}

/// What an actor of volt and of may does: `send` to the one of that number, or tell that a message has had its hops.
fn act(
    actor: usize,
    inbox: impl IntoIterator<Item = u32>,
    send: impl Fn(usize, u32),
    done: impl Fn(),
) {
    let mut choices = Choices::of(actor);
    for left in inbox {
        match left {
            0 => done(),
            left => send(choices.next(), left - 1),
        }
    }
}

/// Their figure, with so many messages under way at a time.
fn measure(run: Run, send: impl Fn(usize, u32), ends: impl Fn()) -> f64 {
    let mut sampler = run.sampler(UNDER_WAY * hops(run));
    while sampler.again() {
        let start = Instant::now();
        (0..UNDER_WAY as usize).for_each(|i| send(i, hops(run)));
        (0..UNDER_WAY).for_each(|_| ends());
        sampler.add(start.elapsed());
    }
    sampler.figure()
}

fn volt(run: Run) -> f64 {
    use volt::channel::unbounded;

    on_volt(run, move || {
        let (all, inboxes): (Vec<_>, Vec<_>) = (0..ACTORS).map(|_| unbounded::<u32>()).unzip();
        let (all, (done, ends)) = (Arc::new(all), unbounded());
        for (actor, inbox) in inboxes.into_iter().enumerate() {
            let (all, done) = (Arc::clone(&all), done.clone());
            volt::go(move || {
                let send = |to: usize, left| all[to].send(left).unwrap();
                act(actor, inbox, send, || done.send(()).unwrap());
            });
        }
        measure(run, |to, left| all[to].send(left).unwrap(), || ends.recv().unwrap())
    })
}

fn tokio(run: Run) -> f64 {
    use tokio::sync::mpsc::unbounded_channel;

    on_tokio(run, async move {
        let (all, inboxes): (Vec<_>, Vec<_>) =
            (0..ACTORS).map(|_| unbounded_channel::<u32>()).unzip();
        let (all, (done, mut ends)) = (Arc::new(all), unbounded_channel());
        for (actor, mut inbox) in inboxes.into_iter().enumerate() {
            let (all, done, mut choices) = (Arc::clone(&all), done.clone(), Choices::of(actor));
            tokio::spawn(async move {
                while let Some(left) = inbox.recv().await {
                    match left {
                        0 => done.send(()).unwrap(),
                        left => all[choices.next()].send(left - 1).unwrap(),
                    }
                }
            });
        }
        let mut sampler = run.sampler(UNDER_WAY * hops(run));
        while sampler.again() {
            let start = Instant::now();
            (0..UNDER_WAY as usize).for_each(|i| all[i].send(hops(run)).unwrap());
            for _ in 0..UNDER_WAY {
                ends.recv().await.unwrap();
            }
            sampler.add(start.elapsed());
        }
        sampler.figure()
    })
}

fn may(run: Run) -> f64 {
    use may::sync::mpsc::channel;

    on_may(run, move || {
        let (all, inboxes): (Vec<_>, Vec<_>) = (0..ACTORS).map(|_| channel::<u32>()).unzip();
        let (all, (done, ends)) = (Arc::new(all), channel());
        for (actor, inbox) in inboxes.into_iter().enumerate() {
            let (all, done) = (Arc::clone(&all), done.clone());
            may::go!(move || {
                let send = |to: usize, left| all[to].send(left).unwrap();
                act(actor, inbox, send, || done.send(()).unwrap());
            });
        }
        measure(run, |to, left| all[to].send(left).unwrap(), || ends.recv().unwrap())
    })
}
