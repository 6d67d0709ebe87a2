//! One switch from stack to stack, with nothing around it: `cargo bench --bench switch`.
//!
//! It includes the backend's source, because the switch is no public interface. It shows the price
//! of the switch itself, caches included; not that of choosing whom to switch to.

mod common;

#[cfg(all(target_arch = "x86_64", unix))]
#[path = "../src/context/x86_64.rs"]
#[allow(dead_code, reason = "the bench uses its part")]
mod backend;

/// What the backend takes from its room.
type Entry = extern "C" fn(transfer: usize) -> !;

#[derive(Clone, Copy)]
struct Bounds {
    top: *mut u8,
    #[allow(dead_code, reason = "other backends need it")]
    limit: *mut u8,
}

#[cfg(all(target_arch = "x86_64", unix))]
fn main() {
    ring::measure_pair("switch, between two fibers", 1.2);
    ring::measure("switch, round of 1,000, coloured stacks", 3.0, 1_000, true);
    ring::measure("switch, round of 1,000, plain stacks", f64::INFINITY, 1_000, false);
}

#[cfg(not(all(target_arch = "x86_64", unix)))]
fn main() {
    println!("volt has no switch of its own on this target");
}

#[cfg(all(target_arch = "x86_64", unix))]
mod ring {
    use super::backend::{Context, prepare, switch};
    use super::{Bounds, Entry, common};
    use std::cell::UnsafeCell;
    use std::time::Instant;

    const PAGE: usize = 4 << 10;
    /// An odd number of pages, as slots have (`src/stack/size.rs`).
    const STACK: usize = (64 << 10) + PAGE;
    const STEPS: usize = 1_000_000;

    /// A flow of the ring; on a line of its own, as a control block is.
    #[repr(align(64))]
    struct Node {
        context: UnsafeCell<Context>,
        next: UnsafeCell<*const Node>,
    }

    /// Whoever is continued goes on to its successor, until the steps are used up.
    extern "C" fn entry(word: usize) -> ! {
        let mut me = word as *const Node;
        loop {
            // SAFETY: the nodes outlive the ring; each flow is continued by its predecessor only.
            unsafe {
                let next = *(*me).next.get();
                switch((*me).context.get(), *(*next).context.get(), next as usize);
            }
            me = std::hint::black_box(me);
        }
    }

    /// Two flows and nothing else: one counts, the other only answers.
    pub fn measure_pair(name: &str, bar: f64) {
        extern "C" fn answer(word: usize) -> ! {
            let pair = word as *const [UnsafeCell<Context>; 2];
            loop {
                // SAFETY: the partner is suspended whenever this runs; the pair outlives both.
                unsafe { switch((*pair)[1].get(), *(*pair)[0].get(), 0) };
            }
        }
        let mut memory = vec![0u128; STACK / 16];
        let range = memory.as_mut_ptr_range();
        let bounds = Bounds { top: range.end.cast(), limit: range.start.cast() };
        // SAFETY: the memory outlives the flow.
        let flow = unsafe { prepare(bounds, answer as Entry) };
        let pair = [UnsafeCell::new(Context::thread()), UnsafeCell::new(flow)];
        common::report(name, bar, || {
            let start = Instant::now();
            for _ in 0..STEPS / 2 {
                // SAFETY: the partner is fresh or suspended.
                unsafe { switch(pair[0].get(), *pair[1].get(), &raw const pair as usize) };
            }
            start.elapsed().as_nanos() as f64 / STEPS as f64
        });
    }

    pub fn measure(name: &str, bar: f64, flows: usize, coloured: bool) {
        let mut memory = vec![0u128; flows * STACK / 16 + STACK];
        let base = memory.as_mut_ptr() as usize;
        let base = base.next_multiple_of(PAGE);
        // The last node is the thread's own flow: it counts the rounds.
        let nodes: Vec<Node> = (0..=flows)
            .map(|_| Node {
                context: UnsafeCell::new(Context::thread()),
                next: UnsafeCell::new(std::ptr::null()),
            })
            .collect();
        for (i, node) in nodes[..flows].iter().enumerate() {
            let colour = if coloured { i % 16 * 64 } else { 0 };
            let top = (base + (i + 1) * STACK - 64 - colour) as *mut u8;
            let bounds = Bounds { top, limit: (base + i * STACK) as *mut u8 };
            // SAFETY: a piece of `memory` for each flow.
            unsafe { *node.context.get() = prepare(bounds, entry as Entry) };
        }
        for (i, node) in nodes.iter().enumerate() {
            // SAFETY: nothing runs yet.
            unsafe { *node.next.get() = &raw const nodes[(i + 1) % (flows + 1)] };
        }
        let main = &nodes[flows];
        let rounds = STEPS / (flows + 1);
        common::report(name, bar, || {
            let start = Instant::now();
            for _ in 0..rounds {
                // SAFETY: the first flow is suspended or fresh; the last one comes back here.
                unsafe {
                    switch(
                        main.context.get(),
                        *nodes[0].context.get(),
                        &raw const nodes[0] as usize,
                    );
                }
            }
            start.elapsed().as_nanos() as f64 / (rounds * (flows + 1)) as f64
        });
    }
}
