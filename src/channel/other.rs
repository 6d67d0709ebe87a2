//! What a select's node is in the list of another source than a channel.

use crate::driver::IoNode;
use crate::fiber::Joiner;
use crate::park::queue::Node;
use crate::sync::Wants;

/// A node for the list of another source than a channel. Made when it is linked.
pub(crate) enum Other {
    None,
    Event(Node<()>),
    Token(Node<()>),
    Notify(Node<Wants>),
    Joiner(Joiner),
    Io(IoNode),
}
