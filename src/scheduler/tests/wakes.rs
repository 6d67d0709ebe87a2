//! What a wake costs, and what it holds on to.

use super::super::shared::Shared;
use super::super::{wake, wake_where_thieves_look};
use super::{config, fresh};
use crate::fiber::{self, Outcome, Wake};
use crate::park::{Parking, Wait};
use crate::primitives::sync::Arc;
use crate::primitives::sync::Mutex;
use crate::primitives::sync::atomic::{AtomicUsize, Ordering};
use crate::runtime::{Builder, go, yield_now};
use crate::thread;
use crate::time::sleep;
use std::time::Duration;

fn is_shared() -> bool {
    fiber::current().expect("on a fiber").state().load().is_shared()
}

/// No reference is counted for a wait that unlinks before it returns.
#[test]
fn a_wait_and_its_wake_count_no_reference() {
    let runtime = Builder::new().workers(1).force_migrate(false).build().unwrap();
    runtime.run(|| {
        sleep(Duration::from_micros(100));
        // It runs before the join, so this is no run out of turn, which does count one.
        let child = go(is_shared);
        sleep(Duration::from_micros(100));
        assert!(!child.join().unwrap());
        let waits = go(|| sleep(Duration::from_millis(2)));
        sleep(Duration::from_micros(100));
        waits.join().unwrap();
        let listener = crate::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let client = go(move || {
            crate::net::TcpStream::connect(address).unwrap();
            is_shared()
        });
        listener.accept().unwrap();
        assert!(!client.join().unwrap());
        assert!(!is_shared(), "a wake under a source's lock needs no count");
        // What outlives a wait does count.
        let me = thread::current();
        assert!(is_shared());
        drop(me);
    });
}

/// The fiber that is woken for others to come to it runs behind those that are queued, not next.
#[test]
fn who_is_woken_where_thieves_look_runs_last() {
    let runtime = Builder::new().workers(1).force_migrate(false).build().unwrap();
    let order = Arc::new(Mutex::new(Vec::new()));
    runtime.run(|| {
        let comes = |name: &'static str| {
            let order = Arc::clone(&order);
            move || order.lock().push(name)
        };
        let (place, woken) = (Arc::new(Mutex::new(None)), comes("woken"));
        let theirs = Arc::clone(&place);
        let waits = go(move || {
            let parking = Parking::begin("test");
            *theirs.lock() = Some(parking.waiter());
            parking.park(Wait::new("test"));
            woken();
        });
        yield_now();
        let (first, next) = (go(comes("in the ring")), go(comes("in the slot")));
        let waiter = place.lock().take().expect("it waits");
        // SAFETY: it waits for nothing else, so it stays where it is.
        let settled = unsafe { waiter.settle(Outcome::Woken(0)) };
        wake_where_thieves_look(settled.expect("it is parked"));
        [waits, first, next].into_iter().for_each(|fiber| fiber.join().unwrap());
    });
    assert_eq!(order.lock().last(), Some(&"woken"));
}

/// Somebody outside wakes the last fiber of a runtime: as soon as it is pushed it may run and end, and
/// the runtime go, while the waker has still to tell a worker. Here it ends inside the push, since the
/// injector is closed, and sees who owns the scheduler then.
#[test]
fn who_wakes_from_outside_owns_the_scheduler_meanwhile() {
    struct Part(*const Shared, Arc<AtomicUsize>);
    // SAFETY: the test has one thread.
    unsafe impl Send for Part {}
    impl Drop for Part {
        fn drop(&mut self) {
            // SAFETY: the test owns the scheduler.
            self.1.store(owners(unsafe { &*self.0 }), Ordering::Relaxed);
        }
    }
    fn owners(shared: &Shared) -> usize {
        Arc::strong_count(&shared.to_arc()) - 1
    }

    let shared = Shared::new(config(1), 1).unwrap();
    let meanwhile = Arc::new(AtomicUsize::new(0));
    let part = Part(&*shared, Arc::clone(&meanwhile));
    let fiber = fresh((&raw const *shared).cast(), move || drop(part));
    assert!(shared.injector.close().is_empty());
    wake(Wake::Fiber(fiber));
    assert_eq!((owners(&shared), meanwhile.load(Ordering::Relaxed)), (1, 2));
}
