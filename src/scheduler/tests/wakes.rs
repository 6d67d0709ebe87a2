//! What a wake costs: no reference is counted for a wait that unlinks before it returns.

use crate::fiber;
use crate::runtime::{Builder, go};
use crate::thread;
use crate::time::sleep;
use std::time::Duration;

fn is_shared() -> bool {
    fiber::current().expect("on a fiber").state().load().is_shared()
}

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
