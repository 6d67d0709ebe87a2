//! Messages as iterators.

use super::receiver::Receiver;
use std::fmt;
use std::iter::FusedIterator;

impl<T> Receiver<T> {
    /// Waits for each message, and ends when every sender is gone and nothing is left.
    ///
    /// Each step is a [`recv`](Receiver::recv): a cancel of the fiber unwinds it if it would have to wait,
    /// and no message is lost by that; a plain thread blocks.
    ///
    /// ```
    /// let (s, r) = volt::channel::unbounded();
    /// volt::go(move || (1..=3).for_each(|i| s.send(i).unwrap()));
    /// assert_eq!(r.iter().collect::<Vec<_>>(), [1, 2, 3]);
    /// ```
    pub fn iter(&self) -> Iter<'_, T> {
        Iter { receiver: self }
    }

    /// Takes what is there, and ends when nothing is. Each step is a [`try_recv`](Receiver::try_recv).
    ///
    /// ```
    /// let (s, r) = volt::channel::unbounded();
    /// s.send(1).unwrap();
    /// s.send(2).unwrap();
    /// assert_eq!(r.try_iter().collect::<Vec<_>>(), [1, 2]);
    /// ```
    pub fn try_iter(&self) -> TryIter<'_, T> {
        TryIter { receiver: self }
    }
}

impl<'a, T> IntoIterator for &'a Receiver<T> {
    type Item = T;
    type IntoIter = Iter<'a, T>;

    fn into_iter(self) -> Iter<'a, T> {
        self.iter()
    }
}

impl<T> IntoIterator for Receiver<T> {
    type Item = T;
    type IntoIter = IntoIter<T>;

    fn into_iter(self) -> IntoIter<T> {
        IntoIter { receiver: self }
    }
}

/// See [`Receiver::iter`].
///
/// ```
/// let (s, r) = volt::channel::unbounded();
/// s.send('a').unwrap();
/// drop(s);
/// let mut messages: volt::channel::Iter<'_, char> = r.iter();
/// assert_eq!(messages.next(), Some('a'));
/// assert_eq!(messages.next(), None);
/// ```
pub struct Iter<'a, T: 'a> {
    receiver: &'a Receiver<T>,
}

/// See [`Receiver::try_iter`].
///
/// ```
/// let (s, r) = volt::channel::unbounded();
/// let mut messages: volt::channel::TryIter<'_, char> = r.try_iter();
/// assert_eq!(messages.next(), None);
/// s.send('a').unwrap();
/// assert_eq!(messages.next(), Some('a'));
/// ```
pub struct TryIter<'a, T: 'a> {
    receiver: &'a Receiver<T>,
}

/// Waits for each message, as [`Iter`] does, and owns the receiver.
///
/// ```
/// let (s, r) = volt::channel::unbounded();
/// s.send('a').unwrap();
/// drop(s);
/// for message in r {
///     assert_eq!(message, 'a');
/// }
/// ```
pub struct IntoIter<T> {
    receiver: Receiver<T>,
}

impl<T> Iterator for Iter<'_, T> {
    type Item = T;

    fn next(&mut self) -> Option<T> {
        self.receiver.recv().ok()
    }
}

impl<T> Iterator for TryIter<'_, T> {
    type Item = T;

    fn next(&mut self) -> Option<T> {
        self.receiver.try_recv().ok()
    }
}

impl<T> Iterator for IntoIter<T> {
    type Item = T;

    fn next(&mut self) -> Option<T> {
        self.receiver.recv().ok()
    }
}

impl<T> FusedIterator for Iter<'_, T> {}
impl<T> FusedIterator for IntoIter<T> {}

impl<T> fmt::Debug for Iter<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad("Iter { .. }")
    }
}

impl<T> fmt::Debug for TryIter<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad("TryIter { .. }")
    }
}

impl<T> fmt::Debug for IntoIter<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad("IntoIter { .. }")
    }
}
