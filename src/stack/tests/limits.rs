//! What happens when the system refuses: the fallback, the messages, and life afterwards.

use super::*;
use crate::stack::{Policy, StackError, set_policy, stats};
use std::fs;
use std::time::Duration;

fn maps() -> usize {
    fs::read("/proc/self/maps").unwrap().iter().filter(|&&byte| byte == b'\n').count()
}

/// Whether the kernel has guards by advice (Linux 6.13). Takes a stack.
fn has_advice() -> bool {
    set_policy(Policy::Advice);
    let has = slab::take(size(8192)).is_ok();
    set_policy(Policy::Auto);
    if !has {
        eprintln!("skipped: this kernel has no MADV_GUARD_INSTALL");
    }
    has
}

/// Whether the mapping that begins at the stack's slot is one without any access.
fn split(stack: &Stack) -> bool {
    let base = format!("{:x}-", found(stack).base.as_ptr() as usize);
    let maps = fs::read_to_string("/proc/self/maps").unwrap();
    maps.lines().any(|line| line.starts_with(&base) && line.contains("---p"))
}

#[test]
fn each_policy_guards_in_its_own_way() {
    alone("limits::each_policy_guards_in_its_own_way", &[], || {
        let stack_under = |policy| {
            set_policy(policy);
            let stack = new_stack(size(256));
            assert_guarded(&stack);
            stack.into_raw()
        };
        // SAFETY: from `into_raw`, once.
        let is_split = |policy| split(&unsafe { Stack::from_raw(stack_under(policy)) });
        assert!(is_split(Policy::Protection));
        // `is_split` dropped its stack: the next must be a new one.
        let _first = Cache::new(size(256)).pop(size(256));
        if has_advice() {
            assert!(!is_split(Policy::Advice));
        }
    });
}

#[test]
fn the_environment_chooses_the_guard() {
    for value in ["mprotect", "madvise", "nonsense"] {
        alone("limits::the_environment_chooses_the_guard", &[("VOLT_STACK_GUARD", value)], || {
            let Ok(slot) = slab::take(size(256)) else {
                return eprintln!("skipped: this kernel has no MADV_GUARD_INSTALL");
            };
            let stack = slot.open();
            assert_guarded(&stack);
            match std::env::var("VOLT_STACK_GUARD").as_deref() {
                Ok("mprotect") => assert!(split(&stack)),
                Ok("madvise") => assert!(!split(&stack)),
                _ => {}
            }
        });
    }
}

#[test]
fn locked_memory_falls_back_to_mprotect() {
    alone("limits::locked_memory_falls_back_to_mprotect", &[], || {
        // SAFETY: changes how this process's memory is backed, nothing else.
        if unsafe { libc::mlockall(libc::MCL_CURRENT | libc::MCL_FUTURE) } != 0 {
            return eprintln!("skipped: mlockall: {}", std::io::Error::last_os_error());
        }
        let stack = new_stack(size(256));
        assert!(split(&stack), "the kernel refuses guards by advice in locked memory");
        assert_guarded(&stack);
        let trimmed = Cache::new(size(256)).allocate_trimmed(size(256)).unwrap();
        assert_eq!(crate::stack::high_water(&trimmed), None, "locked memory is resident always");
    });
}

#[test]
fn a_hundred_thousand_stacks_need_no_more_mappings() {
    alone("limits::a_hundred_thousand_stacks_need_no_more_mappings", &[], || {
        if !has_advice() {
            return;
        }
        let before = maps();
        let size = StackSize::DEFAULT;
        let mut cache = Cache::new(size);
        let stacks: Vec<Stack> = (0..100_000).map(|_| cache.allocate(size).unwrap()).collect();
        let more = maps() - before;
        assert!(more <= 40, "{more} mappings");
        assert!(stats().slabs <= 20, "{:?}", stats());
        stacks.iter().step_by(9_999).for_each(assert_guarded);
    });
}

/// Stacks until there is an error, kept in `stacks`, which must not have to grow.
fn exhaust(stacks: &mut Vec<Stack>, size: StackSize) -> StackError {
    let mut cache = Cache::new(size);
    loop {
        assert!(stacks.len() < stacks.capacity(), "no limit was hit");
        match cache.allocate(size) {
            Ok(stack) => stacks.push(stack),
            Err(error) => return error,
        }
    }
}

#[test]
fn too_many_mappings_are_named_and_no_slot_is_lost() {
    alone(
        "limits::too_many_mappings_are_named_and_no_slot_is_lost",
        &[("VOLT_STACK_GUARD", "mprotect")],
        || {
            let setting = fs::read_to_string("/proc/sys/vm/max_map_count").unwrap();
            let Ok(most @ ..=100_000) = setting.trim().parse::<usize>() else {
                return eprintln!("skipped: vm.max_map_count is {setting}");
            };
            let mut stacks = Vec::with_capacity(most);
            let error = exhaust(&mut stacks, size(64)).to_string();
            assert!(
                error.contains("vm.max_map_count") && error.contains(&most.to_string()),
                "{error}"
            );
            let found = stats();
            assert_eq!(found.handed_out, stacks.len());
            // More often than a slab has slots: a slot that is refused is tried again.
            let mut cache = Cache::new(size(64));
            assert!((0..300).all(|_| cache.allocate(size(64)).is_err()));
            set_policy(Policy::Auto);
            match cache.allocate(size(64)) {
                Ok(stack) => assert_guarded(&stack),
                Err(_) => eprintln!("skipped: this kernel has no MADV_GUARD_INSTALL"),
            }
            assert_eq!(stats().slots, found.slots);
        },
    );
}

fn limit_address_space(bytes: libc::rlim_t) {
    let limit = libc::rlimit { rlim_cur: bytes, rlim_max: libc::RLIM_INFINITY };
    // SAFETY: a limit of this process only.
    assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_AS, &limit) }, 0);
}

/// Leaves so much address space as the process has now, and more.
fn leave_address_space(more: u64) {
    let statm = fs::read_to_string("/proc/self/statm").unwrap();
    let mapped: u64 = statm.split(' ').next().unwrap().parse().unwrap();
    limit_address_space(mapped * memory::page_size() as u64 + more);
}

/// What a slab takes the rest of the process does not have, and most programs end when `malloc` fails.
#[test]
fn near_a_limit_slabs_take_little_and_leave_room() {
    alone("limits::near_a_limit_slabs_take_little_and_leave_room", &[], || {
        let size = size(1024);
        let mut cache = Cache::new(size);
        let mut stacks = Vec::with_capacity(1000);
        stacks.push(cache.allocate(size).unwrap());
        let first = stats().slots;
        leave_address_space(80 << 20);
        // Three slabs more, each twice the one before it; the next does not fit.
        let doubled = first * 15;
        stacks.extend((stacks.len()..doubled).map(|_| cache.allocate(size).unwrap()));
        assert_eq!(stats().slots, doubled);
        stacks.push(cache.allocate(size).unwrap());
        assert_eq!(stats().slots, doubled + first, "more than a little, for one stack");
        exhaust(&mut stacks, size);
        assert!(stacks.len() * size.slot_bytes() > 60 << 20, "much is left, for {}", stacks.len());
        let bytes = 16 << 20;
        let room = memory::map(bytes).expect("the rest of the process has some room");
        // SAFETY: just mapped, nobody uses it.
        unsafe { memory::unmap(room, bytes) };
    });
}

/// A burst of refusals does not read the system's files for each.
#[test]
fn what_was_found_behind_a_refusal_holds_for_a_second() {
    alone("limits::what_was_found_behind_a_refusal_holds_for_a_second", &[], || {
        let size = size(1024);
        leave_address_space(50 << 20);
        let first = exhaust(&mut Vec::with_capacity(100), size);
        // More is in use, as every new look would find.
        memory::map(4 << 20).unwrap();
        loop {
            let next = exhaust(&mut Vec::with_capacity(100), size);
            let is_soon = next.made().since(first.made()) < Duration::from_secs(1);
            assert_eq!(next.to_string() == first.to_string(), is_soon);
            if !is_soon {
                break;
            }
        }
    });
}

#[test]
fn a_limit_on_address_space_is_named_and_can_be_raised() {
    alone("limits::a_limit_on_address_space_is_named_and_can_be_raised", &[], || {
        let size = size(1024);
        let mut stacks = Vec::with_capacity(1000);
        // For stacks, and what they leave to others.
        leave_address_space((100 + 16) << 20);
        let error = exhaust(&mut stacks, size);
        let text = error.to_string();
        for part in ["RLIMIT_AS", "ulimit -v", "1 MiB", "mmap"] {
            assert!(text.contains(part), "{part} is not in: {text}");
        }
        assert_eq!(error.raw_os_error(), libc::ENOMEM);
        assert_eq!(std::io::Error::from(error).kind(), std::io::ErrorKind::OutOfMemory);
        assert!(stacks.len() > 95, "smaller slabs use up what is left, not only {}", stacks.len());

        drop(stacks.pop());
        assert!(Cache::new(size).allocate(size).is_ok(), "what is idle can be had");
        limit_address_space(libc::RLIM_INFINITY);
        let mut cache = Cache::new(size);
        stacks.extend((0..50).map(|_| cache.allocate(size).unwrap()));
        stacks.iter().for_each(assert_guarded);
    });
}
