//! Caches and the shared pool: order, spilling, refilling, who owns what.

use super::*;
use crate::stack::{stats, trim};
use std::collections::HashSet;
use std::thread;
use std::time::Duration;

fn fill(cache: &mut Cache, size: StackSize, count: usize) -> Vec<usize> {
    let stacks: Vec<Stack> = (0..count).map(|_| slab::take(size).unwrap().open()).collect();
    let tops = stacks.iter().map(|stack| stack.top() as usize).collect();
    stacks.into_iter().for_each(|stack| cache.push(stack, at(1)));
    tops
}

fn drain(cache: &mut Cache, size: StackSize) -> Vec<usize> {
    let pop = || cache.pop(size).map(|stack| stack.into_raw().as_ptr() as usize);
    std::iter::from_fn(pop).collect()
}

#[test]
fn the_newest_comes_out_first_through_spill_and_refill() {
    alone("recycle::the_newest_comes_out_first_through_spill_and_refill", &[], || {
        let size = size(64);
        let mut cache = Cache::new(size);
        let mut tops = fill(&mut cache, size, 200);
        assert_eq!(stats().pooled, 160, "spilled in batches of 32 when 64 are here");
        tops.reverse();
        assert_eq!(drain(&mut cache, size), tops);
        assert_eq!(stats().pooled, 0);
    });
}

#[test]
fn another_cache_gets_what_one_spilled_or_left() {
    alone("recycle::another_cache_gets_what_one_spilled_or_left", &[], || {
        let size = size(64);
        let mut one = Cache::new(size);
        let tops: HashSet<usize> = fill(&mut one, size, 100).into_iter().collect();
        let mut two = Cache::new(size);
        assert!(!two.has_news());
        assert!(
            two.pop(size).is_some_and(|stack| tops.contains(&(stack.into_raw().as_ptr() as usize)))
        );
        // The others of the batch are here to be looked after, though nothing has ended here.
        assert!(two.has_news() && !two.has_news());
        drop(one);
        let rest = drain(&mut two, size);
        assert_eq!(rest.len(), 99);
        assert!(rest.iter().all(|top| tops.contains(top)));
    });
}

#[test]
fn other_sizes_and_dropped_stacks_go_to_the_pool() {
    alone("recycle::other_sizes_and_dropped_stacks_go_to_the_pool", &[], || {
        let mut cache = Cache::new(size(64));
        let stack = cache.allocate(size(128)).unwrap();
        let top = stack.top();
        let mut owner = 0_u8;
        stack.set_owner((&raw mut owner).cast());
        drop(stack);
        assert_eq!((stats().pooled, stats().trimmed), (0, 1), "it goes without its memory");
        assert!(cache.pop(size(64)).is_none(), "no stack of another size");
        let again = cache.pop(size(128)).unwrap();
        assert_eq!(again.top(), top);
        assert!(again.header().owner().is_null(), "an idle stack has no owner");
        cache.push(again, at(1));
        assert_eq!((stats().pooled, stats().handed_out), (1, 1));
    });
}

#[test]
fn allocate_prefers_idle_stacks() {
    alone("recycle::allocate_prefers_idle_stacks", &[], || {
        let mut cache = Cache::new(size(64));
        for _ in 0..1000 {
            let stack = cache.allocate(size(64)).unwrap();
            cache.push(stack, at(1));
        }
        assert_eq!(stats().handed_out, 1);
        assert_eq!(stats().slabs, 1);
    });
}

/// Every thread marks the stacks it holds; two holders of one slot would see each other's mark.
#[test]
fn no_slot_is_held_twice() {
    alone("recycle::no_slot_is_held_twice", &[], || {
        let worker = |id: usize| {
            move || {
                let size = size(64);
                let mut cache = Cache::new(size);
                let mut held: Vec<Stack> = Vec::new();
                for turn in 0..20_000_usize {
                    if (turn * 7 + id) % 200 < 100 {
                        let stack = cache.allocate(size).unwrap();
                        assert!(stack.header().owner().is_null());
                        stack.set_owner(std::ptr::without_provenance_mut(id));
                        held.push(stack);
                    } else if let Some(stack) = held.pop() {
                        assert_eq!(stack.header().owner().addr(), id);
                        cache.push(stack, at(1));
                    }
                    if turn % 1000 == 0 {
                        cache.trim(at(9), Duration::ZERO);
                        trim(at(9), Duration::ZERO);
                    }
                }
            }
        };
        let threads: Vec<_> = (1..=4).map(|id| thread::spawn(worker(id))).collect();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        let stats = stats();
        assert_eq!(stats.pooled + stats.trimmed, stats.handed_out, "all came back");
    });
}
