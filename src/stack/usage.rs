//! How much of their stacks fibers use: high-water marks, by spawn site.
//!
//! Callers: the entry loop, when a sampled fiber has ended; `metrics/` and the public report.
//!
//! 1. A mark is the lowest page that became resident since the stack was trimmed, so it is exact
//!    to the page. It is read by `mincore`, which does not see pages that were swapped out.

use super::memory;
use super::size::StackSize;
use super::slot::Stack;
use crate::primitives::sync::{Mutex, OnceLock};
use std::collections::HashMap;
use std::panic::Location;
use std::ptr::NonNull;

/// What was measured of the fibers spawned at one place.
///
/// ```
/// let usage: Vec<volt::metrics::SiteUsage> = volt::metrics::stack_usage();
/// assert!(usage.iter().all(|site| site.max_bytes <= site.stack_size));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SiteUsage {
    /// Where they were spawned.
    pub site: &'static Location<'static>,
    /// The size of their stacks in bytes, the guard included.
    pub stack_size: usize,
    /// How many fibers were measured.
    pub samples: u64,
    /// The most bytes that one of them used, to the page.
    pub max_bytes: usize,
}

/// Bytes from the stack's top down to the lowest resident page.
///
/// `None` if the stack was not handed out by `pop_trimmed` or `allocate_trimmed`, or if the system
/// does not tell (memory that is locked is resident always). A stack's mark can be read once.
pub(crate) fn high_water(stack: &Stack) -> Option<usize> {
    if !stack.take_trimmed() {
        return None;
    }
    let (low, bytes) = stack.below_top_page();
    let lowest = lowest_resident(low, bytes / memory::page_size())?;
    Some(stack.top() as usize - lowest)
}

/// The address of the lowest resident page of `pages` from `low`, or the address after them.
fn lowest_resident(low: NonNull<u8>, pages: usize) -> Option<usize> {
    let mut resident = [0; 256];
    let mut first = 0;
    while first < pages {
        let chunk = &mut resident[..(pages - first).min(256)];
        // SAFETY: pages of the stack, up to its topmost.
        let start = unsafe { low.add(first * memory::page_size()) };
        memory::resident(start, chunk).ok()?;
        if let Some(found) = chunk.iter().position(|page| page & 1 == 1) {
            first += found;
            break;
        }
        first += chunk.len();
    }
    Some(low.as_ptr() as usize + first * memory::page_size())
}

/// Location is compared by content: one place may have several addresses.
type Sites = HashMap<(&'static Location<'static>, StackSize), SiteUsage>;

static SITES: OnceLock<Mutex<Sites>> = OnceLock::new();

fn sites() -> &'static Mutex<Sites> {
    SITES.get_or_init(|| Mutex::new(Sites::new()))
}

/// Enters one measured fiber.
#[cold]
pub(crate) fn record(site: &'static Location<'static>, stack: StackSize, bytes: usize) {
    let new = || SiteUsage { site, stack_size: stack.bytes(), samples: 0, max_bytes: 0 };
    let mut sites = sites().lock();
    let usage = sites.entry((site, stack)).or_insert_with(new);
    usage.samples += 1;
    usage.max_bytes = usage.max_bytes.max(bytes);
}

/// All that was measured, the greatest use first.
pub(crate) fn report() -> Vec<SiteUsage> {
    let mut all: Vec<SiteUsage> = sites().lock().values().cloned().collect();
    all.sort_by(|a, b| b.max_bytes.cmp(&a.max_bytes).then_with(|| a.site.cmp(b.site)));
    all
}
