//! Exactly once: what became of each closure and of each result.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering::SeqCst};

/// Closures that one storm may make.
const ROOM: usize = 30_000;

/// An entry for each closure; the number of one made later is greater.
pub struct Ledger {
    made: AtomicUsize,
    dropped: AtomicUsize,
    entries: Box<[Entry]>,
}

#[derive(Default)]
struct Entry {
    ran: AtomicU8,
    closure_dropped: AtomicU8,
    result_dropped: AtomicU8,
    /// What its fiber did last.
    step: AtomicU8,
}

/// What a closure owns.
pub struct Ticket {
    ledger: Arc<Ledger>,
    pub id: usize,
}

/// What a closure returns, or panics with.
pub struct Parcel {
    ledger: Arc<Ledger>,
    pub id: usize,
}

impl Ledger {
    pub fn new() -> Arc<Ledger> {
        let entries = (0..ROOM).map(|_| Entry::default()).collect();
        Arc::new(Ledger { made: AtomicUsize::new(1), dropped: AtomicUsize::new(1), entries })
    }

    /// The ticket for a closure; `None` when there have been enough.
    pub fn ticket(self: &Arc<Ledger>) -> Option<Ticket> {
        let id = self.made.fetch_update(SeqCst, SeqCst, |n| (n < ROOM).then_some(n + 1)).ok()?;
        Some(Ticket { ledger: Arc::clone(self), id })
    }

    /// Has every result been dropped, of all closures made so far?
    pub fn is_settled(&self) -> bool {
        self.dropped.load(SeqCst) == self.made.load(SeqCst)
    }

    fn made(&self) -> impl Iterator<Item = (usize, [u8; 3])> {
        let made = &self.entries[..self.made.load(SeqCst)];
        made.iter().enumerate().skip(1).map(|(id, entry)| {
            let counts = [&entry.ran, &entry.closure_dropped, &entry.result_dropped];
            (id, counts.map(|count| count.load(SeqCst)))
        })
    }

    pub fn len(&self) -> usize {
        self.made.load(SeqCst) - 1
    }

    /// Everything ran once and was dropped once.
    pub fn check_whole(&self) {
        for (id, counts) in self.made() {
            assert_eq!(counts, [1, 1, 1], "closure {id}: ran, closure dropped, result dropped");
        }
    }

    /// Nothing happened twice, and what did not run was dropped. Returns how many closures neither
    /// ended nor were dropped.
    pub fn check_cut(&self) -> usize {
        for (id, [ran, closure, result]) in self.made() {
            assert!(ran <= 1 && closure <= 1 && result <= closure.min(ran), "closure {id}");
            assert!(ran == 1 || closure == 1, "closure {id} neither ran nor was dropped");
        }
        self.made().filter(|(_, [_, closure, _])| *closure == 0).count()
    }

    pub fn has_run(&self, id: usize) -> bool {
        self.entries[id].ran.load(SeqCst) != 0
    }

    pub fn note(&self, id: usize, step: u64) {
        self.entries[id].step.store(step as u8, SeqCst);
    }

    /// Those that are not through, for the report of a hang: number, counts, last step.
    pub fn left(&self) -> Vec<(usize, [u8; 3], u8)> {
        let left = self.made().filter(|(_, counts)| *counts != [1, 1, 1]);
        left.map(|(id, counts)| (id, counts, self.entries[id].step.load(SeqCst))).collect()
    }
}

impl Ticket {
    /// The closure runs. What it returns is the result.
    pub fn run(&self) -> Parcel {
        assert_eq!(self.ledger.entries[self.id].ran.fetch_add(1, SeqCst), 0, "ran twice");
        Parcel { ledger: Arc::clone(&self.ledger), id: self.id }
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        self.ledger.entries[self.id].closure_dropped.fetch_add(1, SeqCst);
    }
}

impl Drop for Parcel {
    fn drop(&mut self) {
        self.ledger.entries[self.id].result_dropped.fetch_add(1, SeqCst);
        self.ledger.dropped.fetch_add(1, SeqCst);
    }
}
