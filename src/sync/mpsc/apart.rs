//! What both queues need of the machine.

use crate::primitives::thread;

/// Keeps what stands before and after it on different lines of the cache.
#[derive(Debug)]
pub(super) struct Apart {
    _line: [u8; 64],
}

impl Apart {
    pub(super) const fn new() -> Apart {
        Apart { _line: [0; 64] }
    }
}

/// Somebody is some instructions away from what the caller waits for, unless he has no processor.
pub(super) fn pause(rounds: &mut u32) {
    const SPINS: u32 = 32;
    if cfg!(loom) || *rounds >= SPINS {
        thread::yield_now();
    } else {
        std::hint::spin_loop();
        *rounds += 1;
    }
}
