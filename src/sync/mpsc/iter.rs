//! What goes through a receiver's values.

use super::Receiver;

/// See [`Receiver::iter`].
///
/// ```
/// let (sender, receiver) = volt::sync::mpsc::channel();
/// sender.send('a').unwrap();
/// drop(sender);
/// let mut values: volt::sync::mpsc::Iter<'_, char> = receiver.iter();
/// assert_eq!((values.next(), values.next()), (Some('a'), None));
/// ```
#[derive(Debug)]
pub struct Iter<'a, T>(&'a Receiver<T>);

/// See [`Receiver::try_iter`].
///
/// ```
/// let (sender, receiver) = volt::sync::mpsc::channel();
/// let mut values: volt::sync::mpsc::TryIter<'_, char> = receiver.try_iter();
/// assert_eq!(values.next(), None);
/// sender.send('a').unwrap();
/// assert_eq!(values.next(), Some('a'));
/// ```
#[derive(Debug)]
pub struct TryIter<'a, T>(&'a Receiver<T>);

/// A receiver as an iterator that owns it.
///
/// ```
/// let (sender, receiver) = volt::sync::mpsc::channel();
/// sender.send(1).unwrap();
/// drop(sender);
/// for value in receiver {
///     assert_eq!(value, 1);
/// }
/// ```
#[derive(Debug)]
pub struct IntoIter<T>(Receiver<T>);

impl<'a, T> Iter<'a, T> {
    pub(super) fn new(receiver: &'a Receiver<T>) -> Iter<'a, T> {
        Iter(receiver)
    }
}

impl<'a, T> TryIter<'a, T> {
    pub(super) fn new(receiver: &'a Receiver<T>) -> TryIter<'a, T> {
        TryIter(receiver)
    }
}

impl<T> IntoIter<T> {
    pub(super) fn new(receiver: Receiver<T>) -> IntoIter<T> {
        IntoIter(receiver)
    }
}

impl<T> Iterator for Iter<'_, T> {
    type Item = T;

    fn next(&mut self) -> Option<T> {
        self.0.recv().ok()
    }
}

impl<T> Iterator for TryIter<'_, T> {
    type Item = T;

    fn next(&mut self) -> Option<T> {
        self.0.try_recv().ok()
    }
}

impl<T> Iterator for IntoIter<T> {
    type Item = T;

    fn next(&mut self) -> Option<T> {
        self.0.recv().ok()
    }
}
