//! What became of each value.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering::SeqCst};

/// Values of one round, at most.
const MOST: usize = 8_192;

#[derive(Debug, Default)]
struct Entry {
    sent: AtomicU8,
    got: AtomicU8,
    dropped: AtomicU8,
}

#[derive(Debug)]
pub struct Ledger {
    entries: Box<[Entry]>,
    made: AtomicUsize,
}

/// One value.
#[derive(Debug)]
pub struct Value {
    pub id: usize,
    ledger: Arc<Ledger>,
}

impl Drop for Value {
    fn drop(&mut self) {
        self.ledger.entries[self.id].dropped.fetch_add(1, SeqCst);
    }
}

impl Value {
    /// It came out of a channel.
    pub fn got(self) {
        self.ledger.entries[self.id].got.fetch_add(1, SeqCst);
    }
}

impl Ledger {
    pub fn new() -> Arc<Ledger> {
        let entries = (0..MOST).map(|_| Entry::default()).collect();
        Arc::new(Ledger { entries, made: AtomicUsize::new(0) })
    }

    pub fn value(self: &Arc<Ledger>) -> Value {
        Value { id: self.made.fetch_add(1, SeqCst), ledger: Arc::clone(self) }
    }

    /// The channel has taken it.
    pub fn sent(&self, id: usize) {
        self.entries[id].sent.fetch_add(1, SeqCst);
    }

    /// Sends a new value by `send`, and books it if that has worked.
    pub fn send<E>(self: &Arc<Ledger>, send: impl FnOnce(Value) -> Result<(), E>) {
        let value = self.value();
        let id = value.id;
        if send(value).is_ok() {
            self.sent(id);
        }
    }

    /// Every value is gone, once; those that were received are those that were sent, or if `lossy`
    /// some of them.
    #[track_caller]
    pub fn check(&self, lossy: bool) {
        for (id, entry) in self.entries[..self.made.load(SeqCst)].iter().enumerate() {
            let [sent, got, dropped] =
                [&entry.sent, &entry.got, &entry.dropped].map(|count| count.load(SeqCst));
            let matches = if lossy { got <= sent } else { got == sent };
            let right = matches && sent <= 1 && dropped == 1;
            assert!(right, "value {id}: sent {sent}, received {got}, dropped {dropped} times");
        }
    }
}
