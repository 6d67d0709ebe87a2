//! Whom the end of a fiber wakes besides those who join it.

use super::super::worker::Worker;
use super::{bench, config};
use crate::fiber::Woken;
use crate::primitives::clock::Moment;

/// The thread that drives a current-thread runtime sleeps until its fiber has ended, wherever it does:
/// here on a helper, in blocking mode.
#[test]
fn an_end_on_a_helper_wakes_who_may_wait_for_it() {
    for helps in [false, true] {
        bench(config(2), 0, |bench| {
            bench.lies_down(0);
            let worker = Worker { helps, ..Worker::new(bench.shared, Moment::NEVER) };
            worker.after_end(Woken::Nobody);
            assert_eq!(bench.wakes(), u64::from(helps));
            assert_eq!(bench.shared.idle.is_parked(0), !helps);
        });
    }
}
