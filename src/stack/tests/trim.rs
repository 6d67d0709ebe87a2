//! Memory that goes back by age.

use super::*;
use crate::stack::{each_owner, stats, trim};
use std::time::Duration;

const AGE: Duration = Duration::from_secs(10);

#[test]
fn trimmed_stacks_have_no_pages_and_keep_their_guard() {
    for guard in ["madvise", "mprotect"] {
        alone(
            "trim::trimmed_stacks_have_no_pages_and_keep_their_guard",
            &[("VOLT_STACK_GUARD", guard)],
            || {
                let size = size(256);
                let mut cache = Cache::new(size);
                let stack = cache.allocate(size).unwrap();
                let found = found(&stack);
                touch(&stack, stack.top() as usize - stack.limit() as usize);
                assert!(resident(&found).iter().all(|&resident| resident));
                let top = stack.top();
                cache.push(stack, at(1));
                assert_eq!(cache.trim(at(12), AGE), None);
                assert_eq!(trim(at(12), AGE), None);
                assert!(!resident(&found).contains(&true));
                assert_eq!((stats().pooled, stats().trimmed), (0, 1));
                let again = cache.pop(size).unwrap();
                assert_eq!((again.top(), again.size()), (top, size), "the header is written anew");
                assert_guarded(&again);
                assert_eq!(stats().trimmed, 0);
            },
        );
    }
}

#[test]
fn stacks_below_the_age_stay() {
    alone("trim::stacks_below_the_age_stay", &[], || {
        let size = size(64);
        let mut cache = Cache::new(size);
        let stacks: Vec<Stack> = (0..3).map(|_| cache.allocate(size).unwrap()).collect();
        for (stack, now) in stacks.into_iter().zip([1, 2, 5]) {
            cache.push(stack, at(now));
        }
        assert_eq!(cache.trim(at(10), AGE), Some(at(11)), "nothing is due");
        assert_eq!(stats().pooled, 0);
        assert_eq!(cache.trim(at(12), AGE), Some(at(15)), "two are");
        assert_eq!(stats().pooled, 2);
        assert_eq!(trim(at(11), AGE), Some(at(12)), "a batch is as old as its newest");
        assert_eq!(trim(at(12), AGE), None);
        assert_eq!(stats().trimmed, 2);
    });
}

#[test]
fn one_call_gives_back_a_bounded_number() {
    alone("trim::one_call_gives_back_a_bounded_number", &[], || {
        let size = size(64);
        // Whole batches, so that a call ends at its bound.
        let mut cache = Cache::new(size);
        let stacks: Vec<Stack> = (0..992).map(|_| cache.allocate(size).unwrap()).collect();
        stacks.into_iter().for_each(|stack| cache.push(stack, at(1)));
        assert_eq!(cache.trim(at(20), AGE), None, "all are old");
        assert_eq!(trim(at(20), AGE), Some(at(20)), "more is due at once");
        assert_eq!(stats().trimmed, 32);
        let calls = (0..100).take_while(|_| trim(at(20), AGE).is_some()).count();
        assert!(calls <= 30, "{calls}");
        assert_eq!((stats().pooled, stats().trimmed), (0, 992));
    });
}

#[test]
fn a_stack_that_joins_a_batch_makes_it_young() {
    alone("trim::a_stack_that_joins_a_batch_makes_it_young", &[], || {
        let mut cache = Cache::new(size(64));
        let stacks = [1, 5].map(|now| (cache.allocate(size(128)).unwrap(), at(now)));
        stacks.into_iter().for_each(|(stack, now)| cache.push(stack, now));
        assert_eq!(trim(at(12), AGE), Some(at(15)));
        assert_eq!(stats().pooled, 2);
    });
}

/// There may have been a million at once, long ago.
#[test]
fn who_looks_for_owners_leaves_stacks_without_memory_alone() {
    alone("trim::who_looks_for_owners_leaves_stacks_without_memory_alone", &[], || {
        let domain = 0_u8;
        let domain: *const () = (&raw const domain).cast();
        let owners = || {
            let mut owners = Vec::new();
            each_owner(domain, |owner| {
                owners.push(owner.addr().get());
                true
            });
            owners.sort_unstable();
            owners
        };
        let set_owner = |stack: &Stack, owner: usize| {
            stack.header().set_owner_of(std::ptr::without_provenance_mut(owner), domain);
        };
        let stacks: Vec<Stack> = (1..=200).map(|_| new_stack(size(64))).collect();
        stacks.iter().zip(1..).for_each(|(stack, owner)| set_owner(stack, owner));
        assert_eq!(owners(), (1..=200).collect::<Vec<_>>());
        let found: Vec<_> = stacks.iter().map(found).collect();
        let left = stacks.into_iter().nth(70).unwrap();
        assert_eq!(owners(), [71]);
        let has_memory = |found: &&Found| resident(found).contains(&true);
        assert_eq!(found.iter().filter(has_memory).count(), 1);
        drop(left);
        let again = new_stack(size(64));
        assert_eq!(owners(), [0; 0], "idle");
        set_owner(&again, 7);
        assert_eq!(owners(), [7]);
    });
}
