//! How a thread waits for a moment, before it sleeps. A sleep and a wake cost it some ten microseconds, and fifty where
//! they go by way of an idle processor of a virtual machine.

use super::clock::Moment;
use super::thread;
use std::time::Duration;

/// Rounds of a spinning thread; each is twice as long as the one before.
const ROUNDS: u32 = 7;

/// Then it lets other threads run so many times: the one that it waits for may have no processor.
const YIELDS: u32 = 4;

/// Tries for some microseconds; true as soon as `try_once` is. It spins before it tries, so that two who come again
/// and again take turns of some length, not one by one.
pub(crate) fn spin(mut try_once: impl FnMut() -> bool) -> bool {
    for round in 0..ROUNDS {
        (0..1 << round).for_each(|_| std::hint::spin_loop());
        if try_once() {
            return true;
        }
    }
    (0..YIELDS).any(|_| {
        thread::yield_now();
        try_once()
    })
}

/// For so long it goes on, where that has paid: about what a sleep and a wake take of the processors' time.
const LONGER: Duration = Duration::from_micros(20);
/// `spin_loop`s between two looks, and looks before it lets others run.
const SPINS: u32 = 8;
const LOOKS: u32 = 16;

/// Tries for some microseconds more, where `spin` was in vain; at `deadline` not any longer.
pub(crate) fn spin_on(deadline: Moment, mut try_once: impl FnMut() -> bool) -> bool {
    let end = deadline.min(Moment::now().saturating_add(LONGER));
    loop {
        for _ in 0..LOOKS {
            (0..SPINS).for_each(|_| std::hint::spin_loop());
            if try_once() {
                return true;
            }
        }
        thread::yield_now();
        if Moment::now() >= end {
            return try_once();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_tries_until_it_succeeds_or_has_tried_for_long_enough() {
        for successful in [1, ROUNDS, ROUNDS + 1, ROUNDS + YIELDS] {
            let mut tries = 0;
            assert!(spin(|| {
                tries += 1;
                tries == successful
            }));
            assert_eq!(tries, successful);
        }
        let mut tries = 0;
        assert!(!spin(|| {
            tries += 1;
            false
        }));
        assert_eq!(tries, ROUNDS + YIELDS);
    }

    #[test]
    fn it_spins_on_until_it_succeeds_or_has_tried_for_longer() {
        for successful in [1, LOOKS, LOOKS + 1] {
            let mut tries = 0;
            let succeeds = || {
                tries += 1;
                tries == successful
            };
            assert!(
                spin_on(Moment::PAST, succeeds),
                "the last look comes after others had the processor"
            );
            assert_eq!(tries, successful);
        }
        let start = Moment::now();
        assert!(!spin_on(Moment::NEVER, || false) && Moment::now().since(start) >= LONGER);
        let mut tries = 0;
        assert!(!spin_on(Moment::PAST, || {
            tries += 1;
            false
        }));
        assert_eq!(tries, LOOKS + 1);
    }
}
