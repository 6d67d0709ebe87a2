//! Under loom: waits among [`Waiters`], by plain threads; those of `scope` and of `thread`. And the wakes of a token's
//! runs.

use crate::fiber::{Ends, ThreadBlock, WaiterPtr, Waiters, Wake};

pub(crate) use crate::fiber::Outcome;

pub(crate) struct Wait {
    pub(crate) object: usize,
    pub(crate) reason: &'static str,
}

impl Wait {
    pub(crate) fn cancellable(reason: &'static str) -> Wait {
        Wait { object: 0, reason }
    }
}

pub(crate) fn wait_until(waiters: &Waiters, _: Wait, mut over: impl FnMut() -> bool) -> Outcome {
    let thread = ThreadBlock::new();
    loop {
        thread.state().begin_wait();
        let waiter = WaiterPtr::of_thread(&thread);
        if !waiters.link(waiter, &mut over) {
            return Outcome::Woken(0);
        }
        thread.wait(thread.state(), Ends::BY_SOURCES, None);
        waiters.unlink(waiter);
    }
}

pub(crate) fn wake(wake: Wake) {
    match wake {
        Wake::Thread(thread) => thread.wake(),
        Wake::Fiber(fiber) => panic!("{fiber:?} does not wait here"),
    }
}
