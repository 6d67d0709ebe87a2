//! `fiber_local!`: values that belong to a fiber and move with it.
//!
//! A value is made at its first use and dropped when the fiber ends, newest first, while the fiber
//! can still wait. On a plain thread it belongs to the thread. A value that has been dropped is not
//! made again while others are still to be dropped.

use super::tls;
use std::any::{Any, TypeId};
use std::fmt;
use std::marker::PhantomData;

/// The address of a `LocalKey`, and the type of its value: keys that are no statics may share an address.
type Key = (usize, TypeId);

/// A value, of the type in its key; `None` once it is being, or has been, dropped.
type Entry = (Key, Option<Box<dyn Any>>);

/// The values of one fiber or thread. Boxed twice, since most fibers have none.
#[derive(Debug, Default)]
#[allow(clippy::box_collection, reason = "one word in every control block instead of three")]
pub(super) struct Locals(Option<Box<Vec<Entry>>>);

impl Locals {
    pub(super) const fn new() -> Locals {
        Locals(None)
    }

    #[inline]
    fn get(&self, key: Key) -> Result<Option<*const dyn Any>, AccessError> {
        let entries = self.0.as_deref().map_or(&[][..], Vec::as_slice);
        match entries.iter().find(|(k, _)| *k == key) {
            None => Ok(None),
            Some((_, None)) => Err(AccessError),
            Some((_, Some(value))) => Ok(Some(&raw const **value)),
        }
    }

    fn insert(&mut self, key: Key, value: Box<dyn Any>) -> *const dyn Any {
        let entries = self.0.get_or_insert_default();
        let pointer = &raw const *value;
        entries.push((key, Some(value)));
        pointer
    }

    /// False if there is nothing to drop.
    #[inline(always)]
    pub(super) fn has_had_any(&self) -> bool {
        self.0.is_some()
    }

    /// Takes the newest value, so that it is dropped while the table can be used.
    #[inline]
    pub(super) fn pop(&mut self) -> Option<Box<dyn Any>> {
        let newest = self.0.as_mut()?.iter_mut().rev().find_map(|(_, value)| value.take());
        if newest.is_none() {
            self.0 = None;
        }
        newest
    }
}

/// Drops values until none is left, those that destructors make included.
pub(super) fn drop_all(mut pop: impl FnMut() -> Option<Box<dyn Any>>) {
    while let Some(value) = pop() {
        crate::util::forget_panics(|| drop(value));
    }
}

/// A value of each fiber; made by [`fiber_local!`](crate::fiber_local).
///
/// It mirrors [`std::thread::LocalKey`]. On a plain thread the value belongs to the thread.
///
/// ```
/// use std::cell::Cell;
/// use volt::thread::LocalKey;
///
/// volt::fiber_local! {
///     static COUNT: Cell<u32> = Cell::new(1);
/// }
///
/// fn double(counter: &'static LocalKey<Cell<u32>>) -> u32 {
///     counter.with(|count| count.replace(2 * count.get()))
/// }
///
/// assert_eq!((double(&COUNT), double(&COUNT)), (1, 2));
/// ```
pub struct LocalKey<T: 'static> {
    init: fn() -> T,
    /// A key of one type is none of another, however alike they are.
    invariant: PhantomData<fn(T) -> T>,
}

/// The value of this thread or fiber has been destroyed.
///
/// ```
/// volt::fiber_local! {
///     static NAME: &'static str = "volt";
/// }
///
/// let length: Result<usize, volt::thread::AccessError> = NAME.try_with(|name| name.len());
/// assert_eq!(length, Ok(4));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AccessError;

impl fmt::Display for AccessError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the fiber-local value has already been destroyed")
    }
}

impl std::error::Error for AccessError {}

impl<T> fmt::Debug for LocalKey<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LocalKey").finish_non_exhaustive()
    }
}

impl<T: 'static> LocalKey<T> {
    #[doc(hidden)]
    pub const fn new(init: fn() -> T) -> LocalKey<T> {
        LocalKey { init, invariant: PhantomData }
    }

    /// Calls `f` with this fiber's value, which is made now if this is its first use.
    ///
    /// # Panics
    ///
    /// If the value has been destroyed: in another local's destructor at the end of the fiber, or on
    /// a plain thread that ends.
    ///
    /// ```
    /// volt::fiber_local! {
    ///     static NAME: &'static str = "volt";
    /// }
    ///
    /// assert_eq!(NAME.with(|name| name.len()), 4);
    /// ```
    pub fn with<F, R>(&'static self, f: F) -> R
    where
        F: FnOnce(&T) -> R,
    {
        self.try_with(f).unwrap_or_else(|error| panic!("{error}"))
    }

    /// Like [`with`](LocalKey::with), but an error instead of its panic.
    ///
    /// # Errors
    ///
    /// If the value has been destroyed.
    ///
    /// ```
    /// volt::fiber_local! {
    ///     static NAME: &'static str = "volt";
    /// }
    ///
    /// assert_eq!(NAME.try_with(|name| name.len()), Ok(4));
    /// ```
    pub fn try_with<F, R>(&'static self, f: F) -> Result<R, AccessError>
    where
        F: FnOnce(&T) -> R,
    {
        let value = match self.find()? {
            Some(value) => value,
            // No borrow is held over `init`, which may use other locals, or wait.
            None => {
                let value = Box::new((self.init)());
                match self.find()? {
                    Some(earlier) => earlier,
                    None => self.insert(value)?,
                }
            }
        };
        // SAFETY: boxed, and dropped only when the fiber or thread ends; so it outlives `f`, which
        // runs on it. Only this fiber or thread can reach it.
        Ok(f(unsafe { &*value }))
    }

    fn key(&'static self) -> Key {
        (self as *const Self as usize, TypeId::of::<T>())
    }

    /// The value, if it has been made. Its type is what the key says.
    #[inline]
    fn find(&'static self) -> Result<Option<*const T>, AccessError> {
        let found = with_locals(|locals| locals.get(self.key()))??;
        // SAFETY: in the table of the calling fiber or thread, so alive.
        debug_assert!(found.is_none_or(|value| unsafe { &*value }.is::<T>()), "a key has its type");
        Ok(found.map(|value| value.cast::<T>()))
    }

    fn insert(&'static self, value: Box<T>) -> Result<*const T, AccessError> {
        with_locals(|locals| locals.insert(self.key(), value).cast::<T>())
    }
}

fn with_locals<R>(f: impl FnOnce(&mut Locals) -> R) -> Result<R, AccessError> {
    match tls::current() {
        // SAFETY: the fiber's own; `f` neither waits nor comes back here.
        Some(fiber) => Ok(fiber.locals.with_mut(|locals| f(unsafe { &mut *locals }))),
        None => tls::with_thread_locals(f).ok_or(AccessError),
    }
}

/// Declares values that belong to a fiber, as `thread_local!` does for threads.
///
/// ```
/// use std::cell::Cell;
///
/// volt::fiber_local! {
///     static REQUESTS: Cell<u32> = Cell::new(0);
/// }
///
/// let fiber = volt::go(|| {
///     REQUESTS.with(|n| n.set(n.get() + 1));
///     volt::yield_now(); // may go on upon another thread; the value comes along
///     REQUESTS.with(|n| n.get())
/// });
/// assert_eq!(fiber.join().unwrap(), 1);
/// ```
#[macro_export]
macro_rules! fiber_local {
    () => {};
    ($(#[$attr:meta])* $vis:vis static $name:ident : $t:ty = const $init:block $(; $($rest:tt)*)?) => {
        $(#[$attr])*
        $vis static $name: $crate::thread::LocalKey<$t> = {
            // A constant's type may leave lifetimes out, which a function's result may not.
            const INIT: $t = $init;
            $crate::thread::LocalKey::new(|| INIT)
        };
        $($crate::fiber_local! { $($rest)* })?
    };
    ($(#[$attr:meta])* $vis:vis static $name:ident : $t:ty = $init:expr $(; $($rest:tt)*)?) => {
        $(#[$attr])*
        $vis static $name: $crate::thread::LocalKey<$t> = {
            fn init() -> $t {
                $init
            }
            $crate::thread::LocalKey::new(init)
        };
        $($crate::fiber_local! { $($rest)* })?
    };
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::Locals;
    use std::any::TypeId;

    /// Two keys that are no statics may have one address: each finds what is of its own type.
    #[test]
    fn a_value_is_found_by_address_and_type() {
        let mut locals = Locals::new();
        let (number, text) = ((8, TypeId::of::<u64>()), (8, TypeId::of::<String>()));
        locals.insert(number, Box::new(7u64));
        assert!(locals.get(text).unwrap().is_none());
        locals.insert(text, Box::new(String::from("seven")));
        // SAFETY: each is of its key's type, and in the table.
        let found = |key| unsafe { &*locals.get(key).unwrap().unwrap() };
        assert_eq!(found(number).downcast_ref(), Some(&7u64));
        assert_eq!(found(text).downcast_ref(), Some(&String::from("seven")));
    }
}
