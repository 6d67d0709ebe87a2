//! loom's atomics, with loads that its search takes notice of.
//!
//! loom 0.7 remembers of each atomic the last access only, and asks of a store or exchange whether that
//! one raced with it. Where a thread loads and then exchanges, as every loop around a compare-and-swap
//! does, the last access is its own load: the loads of other threads before it are forgotten, and the
//! order in which they come later is never tried. A ring whose tail was stored Relaxed passed, with a
//! thief looking at it, after a single run.
//!
//! So each load first stores to a companion, which nobody reads: two loads of one atomic are then
//! tried in both orders, and every load also as the last one before a store. A relaxed store that is
//! not read synchronizes nothing, so no race is hidden by it.

use loom::sync::atomic;
pub(crate) use loom::sync::atomic::{Ordering, fence};

macro_rules! noticed {
    ($name:ident $(<$param:ident>)?, $value:ty, $($method:ident($($arg:ident: $type:ty),*) -> $out:ty;)*) => {
        #[derive(Debug)]
        pub(crate) struct $name $(<$param>)? {
            atomic: atomic::$name $(<$param>)?,
            loads: atomic::AtomicBool,
        }

        impl $(<$param>)? $name $(<$param>)? {
            pub(crate) fn new(value: $value) -> Self {
                Self { atomic: atomic::$name::new(value), loads: atomic::AtomicBool::new(false) }
            }

            #[track_caller]
            pub(crate) fn load(&self, order: Ordering) -> $value {
                self.loads.store(false, Ordering::Relaxed);
                self.atomic.load(order)
            }

            #[track_caller]
            pub(crate) fn compare_exchange(
                &self,
                current: $value,
                new: $value,
                success: Ordering,
                failure: Ordering,
            ) -> Result<$value, $value> {
                self.atomic.compare_exchange(current, new, success, failure)
            }

            #[track_caller]
            pub(crate) fn compare_exchange_weak(
                &self,
                current: $value,
                new: $value,
                success: Ordering,
                failure: Ordering,
            ) -> Result<$value, $value> {
                self.atomic.compare_exchange_weak(current, new, success, failure)
            }

            $(#[track_caller]
            pub(crate) fn $method(&self, $($arg: $type),*) -> $out {
                self.atomic.$method($($arg),*)
            })*
        }
    };
}

macro_rules! noticed_numbers {
    ($($name:ident, $value:ty;)*) => {
        $(noticed! { $name, $value,
            store(value: $value, order: Ordering) -> ();
            swap(value: $value, order: Ordering) -> $value;
            fetch_add(value: $value, order: Ordering) -> $value;
            fetch_sub(value: $value, order: Ordering) -> $value;
            fetch_or(value: $value, order: Ordering) -> $value;
            fetch_and(value: $value, order: Ordering) -> $value;
        })*
    };
}

noticed_numbers! {
    AtomicU8, u8;
    AtomicU16, u16;
    AtomicU32, u32;
    AtomicU64, u64;
    AtomicUsize, usize;
}

noticed! { AtomicBool, bool,
    store(value: bool, order: Ordering) -> ();
    swap(value: bool, order: Ordering) -> bool;
}

noticed! { AtomicPtr<T>, *mut T,
    store(value: *mut T, order: Ordering) -> ();
    swap(value: *mut T, order: Ordering) -> *mut T;
}
