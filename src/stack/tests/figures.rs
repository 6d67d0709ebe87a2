//! What things cost. Not a test: run it in release, `-- --ignored --nocapture stack::tests::figures`.

use super::*;
use crate::stack::Sampler;
use std::hint::black_box;
use std::panic::Location;

fn nanos_each(turns: usize, mut f: impl FnMut()) -> f64 {
    let start = Moment::now();
    (0..turns).for_each(|_| f());
    Moment::now().since(start).as_nanos() as f64 / turns as f64
}

#[test]
#[ignore = "prints figures"]
fn figures() {
    let size = StackSize::DEFAULT;
    let mut cache = Cache::new(size);
    let mut slots = Vec::with_capacity(10_000);
    let new = nanos_each(10_000, || slots.push(slab::take(size).unwrap()));
    let mut stacks = Vec::with_capacity(10_000);
    let mut slots = slots.into_iter();
    let touch = nanos_each(10_000, || stacks.push(slots.next().unwrap().open()));
    stacks
        .into_iter()
        .for_each(|stack| cache.push(stack, at(1)));
    let hot = nanos_each(10_000_000, || {
        let stack = black_box(cache.pop(black_box(size)).unwrap());
        cache.push(stack, black_box(at(1)));
    });
    let mut sampler = Sampler::default();
    let site = Location::caller();
    let sample = nanos_each(10_000_000, || {
        black_box(sampler.take(black_box(site)));
    });
    eprintln!(
        "slot and guard {new:.0} ns, first touch {touch:.0} ns, pop and push {hot:.2} ns, sampler {sample:.2} ns"
    );
}
