//! Which spawns get a stack whose high-water mark is measured.
//!
//! Callers: one per worker, asked at each spawn, so a turn must cost about a nanosecond.
//!
//! 1. A spawn site that finds an entry is true the first time and then once in `every`, exactly. Those that find none
//!    within [`PROBES`] of their home, as some do where there are many, share one counter.
//! 2. An entry, once taken, keeps its site. Evicting would make two sites that meet in one place
//!    true at every turn.

use std::panic::Location;
use std::ptr;

const SITES: usize = 128;
/// Entries that a site looks at: those that it finds taken it passes at each spawn.
const PROBES: usize = 8;
/// One spawn in this many, per site.
const EVERY: u32 = 16_384;

#[derive(Clone, Copy, Debug)]
struct Entry {
    /// Null if free. Compared by address, never read.
    site: *const Location<'static>,
    /// Turns until the next sample, at least one.
    countdown: u32,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Sampler {
    every: u32,
    /// Open addressing, linear probing.
    entries: Box<[Entry; SITES]>,
    /// For the sites that found no entry.
    rest: u32,
}

// SAFETY: the pointers are to statics and only compared.
unsafe impl Send for Sampler {}

impl Default for Sampler {
    fn default() -> Sampler {
        Sampler::new(EVERY)
    }
}

impl Sampler {
    /// One spawn in `every` per site; none at all if that is zero.
    pub(crate) fn new(every: u32) -> Sampler {
        let free = Entry { site: ptr::null(), countdown: 1 };
        Sampler { every, entries: Box::new([free; SITES]), rest: 1 }
    }

    /// Whether this spawn is to be measured.
    #[inline]
    pub(crate) fn take(&mut self, site: &'static Location<'static>) -> bool {
        let entry = &mut self.entries[Self::home(site)];
        if ptr::eq(entry.site, site) && entry.countdown > 1 {
            entry.countdown -= 1;
            return false;
        }
        self.take_slow(site)
    }

    /// Fibonacci hashing: the sites of one file stand a few words apart.
    #[inline]
    fn home(site: *const Location<'static>) -> usize {
        const { assert!(SITES == 1 << 7) }
        ((site as u64 >> 3).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> (64 - 7)) as usize
    }

    #[cold]
    fn take_slow(&mut self, site: &'static Location<'static>) -> bool {
        if self.every == 0 {
            return false;
        }
        let home = Self::home(site);
        let mut places = (home..home + PROBES).map(|place| place % SITES);
        let place = places.find(|&place| {
            let entry = &self.entries[place];
            entry.site.is_null() || ptr::eq(entry.site, site)
        });
        let countdown = match place {
            Some(place) => {
                self.entries[place].site = site;
                &mut self.entries[place].countdown
            }
            None => &mut self.rest,
        };
        *countdown -= 1;
        let sampled = *countdown == 0;
        if sampled {
            *countdown = self.every;
        }
        sampled
    }
}
