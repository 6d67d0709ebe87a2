//! Where things are in a slot, and how an address finds it.

use super::*;
use std::collections::HashSet;

#[test]
fn ranges_are_aligned_and_inside_the_slot() {
    for size in [StackSize::min(), size(512), size(8192)] {
        let stack = new_stack(size);
        let (limit, top) = (stack.limit() as usize, stack.top() as usize);
        let base = limit - size.guard_bytes();
        assert_eq!(top % 64, 0);
        let end = base + size.slot_bytes();
        let above = end - top;
        assert!((64..=1024).contains(&above), "{above} bytes of header and colour");
        assert_eq!(stack.size(), size);
        assert!([limit, top - 1, top].iter().all(|place| size.holds(top, *place)));
        assert!([0, base - 1, base, end].iter().all(|place| !size.holds(top, *place)));
        assert_guarded(&stack);
        touch(&stack, top - limit);
    }
}

#[test]
fn sixteen_neighbours_have_sixteen_colours() {
    alone("layout::sixteen_neighbours_have_sixteen_colours", &[], || {
        let stacks: Vec<Stack> = (0..16).map(|_| slab::take(size(64)).unwrap().open()).collect();
        let colours: HashSet<usize> =
            stacks.iter().map(|stack| stack.top() as usize % 4096).collect();
        assert_eq!(colours.len(), 16);
    });
}

/// Or they share a few places in the processor's translation buffers.
#[test]
fn neighbours_are_an_odd_number_of_pages_apart() {
    alone("layout::neighbours_are_an_odd_number_of_pages_apart", &[], || {
        for size in [StackSize::min(), StackSize::DEFAULT, size(512)] {
            let [one, next] = [(); 2].map(|()| slab::take(size).unwrap().open());
            let apart = found(&next).base.as_ptr() as usize - found(&one).base.as_ptr() as usize;
            assert_eq!(apart % memory::page_size(), 0);
            assert_eq!(apart / memory::page_size() % 2, 1, "{size}: {apart} bytes");
        }
    });
}

#[test]
fn raw_and_back_is_the_same_stack() {
    let stack = new_stack(size(256));
    let mut runner = 0_u8;
    stack.set_owner((&raw mut runner).cast());
    let (top, limit) = (stack.top(), stack.limit());
    let raw = stack.into_raw();
    // SAFETY: a stack's header is valid.
    assert_eq!(unsafe { raw.as_ref() }.owner(), (&raw mut runner).cast());
    // SAFETY: from `into_raw`, once.
    let stack = unsafe { Stack::from_raw(raw) };
    assert_eq!((stack.top(), stack.limit(), stack.size()), (top, limit, size(256)));
}

#[test]
fn addresses_find_their_slot() {
    let stack = new_stack(size(128));
    let (limit, top) = (stack.limit() as usize, stack.top() as usize);
    let base = limit - stack.size().guard_bytes();
    let found =
        |address| slab::find(address).map(|found| (found.base.as_ptr() as usize, found.in_guard));
    assert_eq!(found(base), Some((base, true)));
    assert_eq!(found(limit - 1), Some((base, true)));
    assert_eq!(found(limit), Some((base, false)));
    assert_eq!(found(top), Some((base, false)));
    let end = base + stack.size().slot_bytes();
    assert_eq!(found(end - 1), Some((base, false)));
    assert_ne!(found(end).map(|(base, _)| base), Some(base));
    assert_eq!(slab::find(top).unwrap().header().as_ptr().cast::<u8>(), stack.top());
    let on_this_stack = 0_u8;
    for outside in [0, 1, &raw const on_this_stack as usize, usize::MAX] {
        assert_eq!(found(outside), None, "{outside:#x}");
    }
}

#[test]
fn a_slab_ends_where_its_last_slot_ends() {
    alone("layout::a_slab_ends_where_its_last_slot_ends", &[], || {
        let first = slab::take(size(64)).unwrap().open();
        let slots = crate::stack::stats().slots;
        let end = found(&first).base.as_ptr() as usize + slots * size(64).slot_bytes();
        assert!(slab::find(end - 1).is_some_and(|found| !found.in_guard));
        assert!(slab::find(end).is_none());
    });
}

#[test]
fn no_huge_pages_back_a_slab() {
    let stack = new_stack(size(4096));
    let flags = flags_of(stack.limit() as usize);
    let known = std::path::Path::new("/sys/kernel/mm/transparent_hugepage").exists();
    assert!(!known || flags.contains(" nh"), "{flags}");
    assert!(flags.contains(" nr"), "accounted for when touched only: {flags}");
}

/// The VmFlags of the mapping that `address` lies in.
fn flags_of(address: usize) -> String {
    let maps = std::fs::read_to_string("/proc/self/smaps").unwrap();
    let mut inside = false;
    for line in maps.lines() {
        let range = line.split(' ').next().and_then(|range| range.split_once('-'));
        let parse = |text: &str| usize::from_str_radix(text, 16).ok();
        if let Some((Some(low), Some(high))) = range.map(|(low, high)| (parse(low), parse(high))) {
            inside = (low..high).contains(&address);
        }
        if inside && line.starts_with("VmFlags:") {
            return line.to_string();
        }
    }
    panic!("{address:#x} is not mapped")
}
