//! High-water marks and which spawns are measured.

use super::*;
use crate::stack::{Sampler, high_water, record, report};
use std::panic::Location;

#[test]
fn marks_are_right_to_the_page() {
    let size = size(512);
    let mut cache = Cache::new(size);
    let page = memory::page_size();
    for pages in [0, 1, 2, 5, 17, 100] {
        let stack = cache.allocate_trimmed(size).unwrap();
        let in_top_page = stack.top() as usize % page;
        touch(&stack, in_top_page + pages * page);
        assert_eq!(
            high_water(&stack),
            Some(in_top_page + pages * page),
            "{pages} pages below the topmost"
        );
        touch(&stack, stack.top() as usize - stack.limit() as usize);
        cache.push(stack, at(1));
    }
}

#[test]
fn a_hole_does_not_hide_the_lowest_page() {
    let stack = Cache::new(size(4096)).allocate_trimmed(size(4096)).unwrap();
    // SAFETY: the lowest usable byte of a stack on which nobody runs.
    unsafe { stack.limit().write_volatile(1) };
    assert_eq!(high_water(&stack), Some(stack.top() as usize - stack.limit() as usize));
}

#[test]
fn only_trimmed_stacks_have_a_mark() {
    let mut cache = Cache::new(size(512));
    let stack = cache.allocate(size(512)).unwrap();
    assert_eq!(high_water(&stack), None);
    let trimmed = cache.allocate_trimmed(size(512)).unwrap();
    assert!(high_water(&trimmed).is_some());
    assert_eq!(high_water(&trimmed), None, "a mark is read once");
}

#[test]
fn usage_is_kept_by_site_and_size() {
    let site = Location::caller();
    for (stack, bytes) in
        [(size(64), 5000), (size(64), 9000), (size(64), 7000), (size(128), 20_000)]
    {
        record(site, stack, bytes);
    }
    let here: Vec<_> = report().into_iter().filter(|usage| usage.site == site).collect();
    let rows: Vec<_> =
        here.iter().map(|usage| (usage.stack_size >> 10, usage.samples, usage.max_bytes)).collect();
    assert_eq!(rows, [(128, 1, 20_000), (64, 3, 9000)]);
}

fn sites(count: usize) -> &'static [Location<'static>] {
    Box::leak(vec![*Location::caller(); count].into_boxed_slice())
}

#[test]
fn each_site_is_sampled_first_and_then_once_in_n() {
    let mut sampler = Sampler::new(100);
    // So many that some meet in the table.
    let sites = sites(100);
    for turn in 0..1000 {
        for site in sites {
            assert_eq!(sampler.take(site), turn % 100 == 0, "turn {turn}");
        }
    }
}

#[test]
fn sites_beyond_the_table_share_a_counter() {
    let mut sampler = Sampler::new(100);
    let sites = sites(1000);
    let first: Vec<bool> = sites.iter().map(|site| sampler.take(site)).collect();
    let rest: Vec<_> =
        sites.iter().zip(first).filter(|(_, own)| !own).map(|(site, _)| site).collect();
    assert!(rest.len() > 800, "no more than the table has room for");
    let taken = (0..100).flat_map(|_| &rest).filter(|site| sampler.take(site)).count();
    assert!(taken.abs_diff(rest.len()) <= 1, "{taken} of {}", rest.len());
}

#[test]
fn sampling_can_be_off_and_is_rare_by_default() {
    let site = Location::caller();
    let mut off = Sampler::new(0);
    assert!(!(0..1000).any(|_| off.take(site)));
    let mut default = Sampler::default();
    let taken: Vec<usize> = (0..50_000).filter(|_| default.take(site)).collect();
    assert_eq!(taken, [0, 16_384, 32_768, 49_152]);
}
