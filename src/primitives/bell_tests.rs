//! Of both bells.

use super::clock::Moment;
use std::time::{Duration, Instant};

const SOON: Duration = Duration::from_millis(20);
const LATE: Duration = Duration::from_secs(3600);

macro_rules! tests_of {
    ($bell:ident) => {
        mod $bell {
            use super::super::$bell::Bell;
            use super::*;

            fn rings_after(set: impl FnOnce(&Bell, Moment)) -> Duration {
                let (bell, start) = (Bell::new().unwrap(), Instant::now());
                set(&bell, Moment::now());
                bell.wait();
                start.elapsed()
            }

            #[test]
            fn it_rings_when_it_was_last_set_to() {
                assert!(rings_after(|bell, now| bell.set(now.saturating_add(SOON))) >= SOON);
                let sooner = rings_after(|bell, now| {
                    bell.set(now.saturating_add(LATE));
                    bell.set(now.saturating_add(SOON));
                });
                assert!(sooner >= SOON);
                let later = rings_after(|bell, now| {
                    bell.set(now);
                    bell.set(Moment::NEVER);
                    bell.set(now.saturating_add(SOON));
                });
                assert!(later >= SOON, "a ring that nobody has heard is taken back");
                rings_after(|bell, _| bell.set(Moment::PAST));
            }

            #[test]
            fn a_sleeper_hears_what_it_is_set_to_meanwhile() {
                let bell = Bell::new().unwrap();
                bell.set(Moment::now().saturating_add(LATE));
                std::thread::scope(|scope| {
                    let sleeper = scope.spawn(|| bell.wait());
                    bell.set(Moment::PAST);
                    sleeper.join().unwrap();
                });
            }
        }
    };
}

tests_of!(bell);
tests_of!(bell_any);
