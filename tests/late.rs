//! A wait whose time is over, and whose fiber runs only after what it waited for has come: it is there, as it would be
//! for a thread that looks once more before it gives up.

mod common;

use common::{LONG, within};
use std::io::{Read, Write};
use std::sync::Arc;
use std::time::Duration;
use volt::channel::bounded;
use volt::net::{TcpListener, TcpStream};
use volt::runtime::Builder;
use volt::sync::{Event, Notify, Semaphore, broadcast, mpsc, oneshot};

/// For so long others wait.
const TIME: Duration = Duration::from_millis(20);

/// What `waits` gets, which waits for [`TIME`], where that is over before `comes` is called, and runs after it: one turn
/// of the driver tells both, the one who is to come first.
fn late<R: Send + 'static>(
    waits: impl FnOnce() -> R + Send + 'static,
    comes: impl FnOnce() + Send + 'static,
) -> R {
    let runtime = Builder::new_current_thread().force_migrate(false).build().unwrap();
    runtime.run(|| {
        let comes = volt::go(|| {
            volt::sleep(TIME / 2);
            comes();
        });
        // Its time begins first, so that it is over first, however slow the machine is.
        volt::yield_now();
        let waits = volt::go(waits);
        volt::yield_now();
        // Nobody else runs, and both times pass.
        std::thread::sleep(2 * TIME);
        comes.join().unwrap();
        waits.join().unwrap()
    })
}

#[test]
fn a_message_is_received() {
    within(LONG, || {
        let (sender, receiver) = bounded(1);
        assert_eq!(
            late(move || receiver.recv_timeout(TIME), move || sender.send(1).unwrap()),
            Ok(1)
        );
        let (sender, receiver) = mpsc::channel();
        assert_eq!(
            late(move || receiver.recv_timeout(TIME), move || sender.send(1).unwrap()),
            Ok(1)
        );
        let (sender, receiver) = oneshot::channel();
        assert_eq!(
            late(move || receiver.recv_timeout(TIME), move || sender.send(1).unwrap()),
            Ok(1)
        );
        let (sender, mut receiver) = broadcast::channel(1);
        let sends = move || assert_eq!(sender.send(1), Ok(1));
        assert_eq!(late(move || receiver.recv_timeout(TIME), sends), Ok(1));
    });
}

#[test]
fn a_message_is_sent() {
    within(LONG, || {
        let (sender, receiver) = bounded(1);
        sender.send(1).unwrap();
        let others = receiver.clone();
        let receives = move || assert_eq!(others.recv(), Ok(1));
        assert_eq!(late(move || sender.send_timeout(2, TIME), receives), Ok(()));
        assert_eq!(receiver.try_recv(), Ok(2));
    });
}

#[test]
fn what_has_happened_has_happened() {
    within(LONG, || {
        let event = Arc::new(Event::new());
        let theirs = Arc::clone(&event);
        assert!(late(move || theirs.wait_timeout(TIME), move || event.set()));
        let notify = Arc::new(Notify::new());
        let theirs = Arc::clone(&notify);
        assert!(late(move || theirs.notified_timeout(TIME), move || notify.notify_one()));
    });
}

#[test]
fn a_permit_is_taken() {
    within(LONG, || {
        let permits = Arc::new(Semaphore::new(0));
        let theirs = Arc::clone(&permits);
        let takes = move || theirs.acquire_timeout(TIME).map(|permit| permit.forget()).is_ok();
        let gives = Arc::clone(&permits);
        assert!(late(takes, move || gives.add_permits(1)));
        assert_eq!(permits.available_permits(), 0);
    });
}

#[test]
fn bytes_are_read() {
    within(LONG, || {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut sender = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let mut receiver = listener.accept().unwrap().0;
        receiver.set_read_timeout(Some(TIME)).unwrap();
        let reads = move || receiver.read(&mut [0; 9]).unwrap();
        assert_eq!(late(reads, move || sender.write_all(b"late").unwrap()), 4);
    });
}
