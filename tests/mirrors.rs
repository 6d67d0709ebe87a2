//! What stands for a type of the standard library may go where that may: to another thread, across a caught
//! panic, into a pin.

use std::cell::Cell;
use std::marker::PhantomData;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::rc::Rc;

/// Does a type have the trait? The constant of the type itself comes before the one of a trait.
macro_rules! has {
    ($type:ty, $trait:path) => {{
        #[allow(dead_code, reason = "only one of the two constants is used")]
        trait Otherwise {
            const HAS: bool = false;
        }
        impl<T: ?Sized> Otherwise for T {}
        #[allow(dead_code, reason = "only one of the two constants is used")]
        struct Of<T: ?Sized>(PhantomData<T>);
        #[allow(dead_code, reason = "only one of the two constants is used")]
        impl<T: ?Sized + $trait> Of<T> {
            const HAS: bool = true;
        }
        <Of<$type>>::HAS
    }};
}

macro_rules! all {
    ($type:ty) => {
        [
            has!($type, Send),
            has!($type, Sync),
            has!($type, Unpin),
            has!($type, UnwindSafe),
            has!($type, RefUnwindSafe),
        ]
    };
}

const TRAITS: [&str; 5] = ["Send", "Sync", "Unpin", "UnwindSafe", "RefUnwindSafe"];

/// Compares a type of `volt::sync`, or another module, with that of the standard library's.
macro_rules! like {
    ($($path:ident)::+ $([$($arguments:tt)*])?) => {
        like!(in sync: $($path)::+ $([$($arguments)*])?);
    };
    (in $module:ident: $($path:ident)::+ $([$($arguments:tt)*])?) => {
        let ours = all!(volt::$module::$($path)::+ $(<$($arguments)*>)?);
        let theirs = all!(std::$module::$($path)::+ $(<$($arguments)*>)?);
        for (name, (ours, theirs)) in TRAITS.iter().zip(ours.into_iter().zip(theirs)) {
            let what = stringify!($($path)::+ $(<$($arguments)*>)?);
            assert_eq!(ours, theirs, "is {what} {name}? (left: here, right: in std)");
        }
    };
}

/// With a value that may go anywhere, one that may not be shared, one that may not leave, one that may be shared only,
/// one that no caught panic may pass, and one that stays in its place.
macro_rules! like_of_each {
    ($($path:ident)::+ $($lifetime:lifetime)?) => {
        like!($($path)::+ [$($lifetime,)? u8]);
        like!($($path)::+ [$($lifetime,)? Cell<u8>]);
        like!($($path)::+ [$($lifetime,)? Rc<u8>]);
        like!($($path)::+ [$($lifetime,)? std::sync::MutexGuard<'static, u8>]);
        like!($($path)::+ [$($lifetime,)? &'static mut u8]);
        like!($($path)::+ [$($lifetime,)? std::marker::PhantomPinned]);
    };
}

#[test]
fn locks() {
    like_of_each!(Mutex);
    like_of_each!(MutexGuard 'static);
    like_of_each!(RwLock);
    like_of_each!(RwLockReadGuard 'static);
    like_of_each!(RwLockWriteGuard 'static);
}

#[test]
fn what_is_initialised_once() {
    like!(Once);
    like_of_each!(OnceLock);
    like!(LazyLock[u8, fn() -> u8]);
    like!(LazyLock[Cell<u8>, fn() -> Cell<u8>]);
    like!(LazyLock[Rc<u8>, fn() -> Rc<u8>]);
    like!(LazyLock[u8, Rc<u8>]);
    like!(LazyLock[u8, &'static mut u8]);
}

#[test]
fn meetings() {
    like!(Condvar);
    like!(WaitTimeoutResult);
    like!(Barrier);
    like!(BarrierWaitResult);
}

#[test]
fn channels() {
    like_of_each!(mpsc::Sender);
    like_of_each!(mpsc::SyncSender);
    like_of_each!(mpsc::Receiver);
    like_of_each!(mpsc::Iter 'static);
    like_of_each!(mpsc::TryIter 'static);
    like_of_each!(mpsc::IntoIter);
}

#[test]
fn threads() {
    like!(in thread: Builder);
    like!(in thread: Thread);
    like!(in thread: ThreadId);
    like!(in thread: AccessError);
    like!(in thread: Scope['static, 'static]);
    like!(in thread: ScopedJoinHandle['static, u8]);
    like!(in thread: LocalKey[Cell<u8>]);
    like!(in thread: LocalKey[Rc<u8>]);
}

#[test]
fn sockets_and_instants() {
    like!(in net: TcpListener);
    like!(in net: TcpStream);
    like!(in net: Incoming['static]);
    like!(in time: Instant);
}

/// `volt::channel`'s as crossbeam-channel's: anywhere, whatever can be sent at all.
#[test]
fn ends_of_channels() {
    const ALL: [bool; 5] = [true; 5];
    assert_eq!(all!(volt::channel::Sender<Cell<u8>>), ALL);
    assert_eq!(all!(volt::channel::Receiver<Cell<u8>>), ALL);
    assert_eq!(all!(volt::channel::Sender<&'static mut u8>), ALL);
    assert_eq!(all!(volt::channel::Receiver<&'static mut u8>), ALL);
    let not_sent = [false, false, true, true, true];
    assert_eq!(all!(volt::channel::Sender<Rc<u8>>), not_sent);
    assert_eq!(all!(volt::channel::Receiver<Rc<u8>>), not_sent);
}
