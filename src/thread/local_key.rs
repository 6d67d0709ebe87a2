//! What a [`LocalKey`] of a cell can do, as [`std::thread::LocalKey`] does.

use super::LocalKey;
use std::cell::{Cell, RefCell};

impl<T: 'static> LocalKey<Cell<T>> {
    /// Sets this fiber's value. Panics as [`with`](LocalKey::with) does; so do all these.
    ///
    /// ```
    /// use std::cell::Cell;
    ///
    /// volt::fiber_local! {
    ///     static DEPTH: Cell<u32> = Cell::new(0);
    /// }
    ///
    /// DEPTH.set(1);
    /// assert_eq!((DEPTH.replace(2), DEPTH.get(), DEPTH.take(), DEPTH.get()), (1, 2, 2, 0));
    /// ```
    pub fn set(&'static self, value: T) {
        self.with(|cell| cell.set(value));
    }

    /// A copy of this fiber's value; see [`set`](LocalKey::set).
    ///
    /// ```
    /// use std::cell::Cell;
    ///
    /// volt::fiber_local! {
    ///     static DEPTH: Cell<u32> = Cell::new(7);
    /// }
    ///
    /// assert_eq!(DEPTH.get(), 7);
    /// ```
    pub fn get(&'static self) -> T
    where
        T: Copy,
    {
        self.with(Cell::get)
    }

    /// This fiber's value, for which its default is left; see [`set`](LocalKey::set).
    ///
    /// ```
    /// use std::cell::Cell;
    ///
    /// volt::fiber_local! {
    ///     static DEPTH: Cell<u32> = Cell::new(7);
    /// }
    ///
    /// assert_eq!((DEPTH.take(), DEPTH.get()), (7, 0));
    /// ```
    pub fn take(&'static self) -> T
    where
        T: Default,
    {
        self.with(Cell::take)
    }

    /// Sets this fiber's value and returns the former; see [`set`](LocalKey::set).
    ///
    /// ```
    /// use std::cell::Cell;
    ///
    /// volt::fiber_local! {
    ///     static DEPTH: Cell<u32> = Cell::new(7);
    /// }
    ///
    /// assert_eq!((DEPTH.replace(8), DEPTH.get()), (7, 8));
    /// ```
    pub fn replace(&'static self, value: T) -> T {
        self.with(|cell| cell.replace(value))
    }
}

impl<T: 'static> LocalKey<RefCell<T>> {
    /// Calls `f` with a borrow of this fiber's value. A panic if it is borrowed mutably, besides those of
    /// [`with`](LocalKey::with); so do all these. A fiber that waits in `f` keeps the borrow.
    ///
    /// ```
    /// use std::cell::RefCell;
    ///
    /// volt::fiber_local! {
    ///     static NAMES: RefCell<Vec<&'static str>> = RefCell::new(Vec::new());
    /// }
    ///
    /// NAMES.with_borrow_mut(|names| names.push("volt"));
    /// assert_eq!(NAMES.with_borrow(|names| names.len()), 1);
    /// assert_eq!(NAMES.replace(vec!["a", "b"]), ["volt"]);
    /// assert_eq!(NAMES.take().len(), 2);
    /// NAMES.set(vec!["c"]);
    /// ```
    pub fn with_borrow<F, R>(&'static self, f: F) -> R
    where
        F: FnOnce(&T) -> R,
    {
        self.with(|cell| f(&cell.borrow()))
    }

    /// As [`with_borrow`](LocalKey::with_borrow), mutably: a panic if it is borrowed at all.
    ///
    /// ```
    /// use std::cell::RefCell;
    ///
    /// volt::fiber_local! {
    ///     static NAMES: RefCell<Vec<&'static str>> = RefCell::new(Vec::new());
    /// }
    ///
    /// let count = NAMES.with_borrow_mut(|names| {
    ///     names.push("volt");
    ///     names.len()
    /// });
    /// assert_eq!(count, 1);
    /// ```
    pub fn with_borrow_mut<F, R>(&'static self, f: F) -> R
    where
        F: FnOnce(&mut T) -> R,
    {
        self.with(|cell| f(&mut cell.borrow_mut()))
    }

    /// Sets this fiber's value; see [`with_borrow`](LocalKey::with_borrow). A panic if it is borrowed.
    ///
    /// ```
    /// use std::cell::RefCell;
    ///
    /// volt::fiber_local! {
    ///     static NAMES: RefCell<Vec<&'static str>> = RefCell::new(Vec::new());
    /// }
    ///
    /// NAMES.set(vec!["volt"]);
    /// assert_eq!(NAMES.with_borrow(|names| names.len()), 1);
    /// ```
    pub fn set(&'static self, value: T) {
        drop(self.replace(value));
    }

    /// This fiber's value, for which its default is left; see [`with_borrow`](LocalKey::with_borrow). A
    /// panic if it is borrowed.
    ///
    /// ```
    /// use std::cell::RefCell;
    ///
    /// volt::fiber_local! {
    ///     static NAMES: RefCell<Vec<&'static str>> = RefCell::new(vec!["volt"]);
    /// }
    ///
    /// assert_eq!(NAMES.take(), ["volt"]);
    /// assert!(NAMES.with_borrow(|names| names.is_empty()));
    /// ```
    pub fn take(&'static self) -> T
    where
        T: Default,
    {
        self.with(RefCell::take)
    }

    /// Sets this fiber's value and returns the former; see [`with_borrow`](LocalKey::with_borrow). A panic
    /// if it is borrowed.
    ///
    /// ```
    /// use std::cell::RefCell;
    ///
    /// volt::fiber_local! {
    ///     static NAMES: RefCell<Vec<&'static str>> = RefCell::new(vec!["volt"]);
    /// }
    ///
    /// assert_eq!(NAMES.replace(Vec::new()), ["volt"]);
    /// ```
    pub fn replace(&'static self, value: T) -> T {
        self.with(|cell| cell.replace(value))
    }
}
