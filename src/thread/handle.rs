//! Who a fiber or thread is, to others.

use crate::fiber::{self, FiberPtr, FiberRef, ThreadBlock, ThreadId};
use crate::park;
use crate::primitives::sync::Arc;
use crate::runtime::JoinHandle;
use std::fmt;
use std::mem::ManuallyDrop;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::ptr;

/// A counted reference to a fiber or plain thread; mirrors [`std::thread::Thread`].
///
/// ```
/// let waits = volt::go(volt::thread::park);
/// let thread: volt::thread::Thread = waits.thread().clone();
/// volt::go(move || thread.unpark());
/// waits.join().unwrap();
/// ```
//
// 1. One word: a fiber's pointer; or a thread's block's, marked by `PLAIN`; or null, of a fiber that was not
//    spawned. So a join handle, which is the first or the last of these, can be lent as one.
// 2. It owns a count of what it points at, but for one that is lent, whose join handle keeps the fiber's block
//    in its place, and is not dropped.
#[repr(transparent)]
pub struct Thread(*const ());

const PLAIN: usize = 1;

/// Whom a [`Thread`] stands for.
enum Who<'a> {
    Fiber(&'a FiberRef),
    Plain(&'a ThreadBlock),
    Nobody,
}

// SAFETY: as the references that it stands for, which may be used and dropped anywhere.
unsafe impl Send for Thread {}
// SAFETY: as above.
unsafe impl Sync for Thread {}

impl UnwindSafe for Thread {}
impl RefUnwindSafe for Thread {}

impl Thread {
    fn of_fiber(fiber: FiberRef) -> Thread {
        Thread(ManuallyDrop::new(fiber).as_ptr())
    }

    fn of_plain(thread: Arc<ThreadBlock>) -> Thread {
        const { assert!(align_of::<ThreadBlock>() > PLAIN) };
        Thread(Arc::into_raw(thread).map_addr(|address| address | PLAIN).cast())
    }

    /// The block of a plain thread.
    fn plain(&self) -> Option<*const ThreadBlock> {
        let is_plain = self.0.addr() & PLAIN != 0;
        is_plain.then(|| self.0.map_addr(|address| address & !PLAIN).cast())
    }

    fn who(&self) -> Who<'_> {
        match self.plain() {
            // SAFETY: invariant 2.
            Some(block) => Who::Plain(unsafe { &*block }),
            None if self.0.is_null() => Who::Nobody,
            // SAFETY: the word is a fiber's pointer, as a reference to one is, and a count of it or a join
            // handle keeps the block for as long as this is borrowed (invariant 2).
            None => Who::Fiber(unsafe { &*ptr::from_ref(self).cast::<FiberRef>() }),
        }
    }

    /// Makes the permit of [`park`](super::park) available; wakes the one who waits for it.
    ///
    /// It may come late: a fiber or thread that has ended takes no notice.
    ///
    /// ```
    /// volt::current().unpark();
    /// volt::thread::park(); // the permit is there
    /// ```
    pub fn unpark(&self) {
        match self.who() {
            Who::Fiber(fiber) => {
                if let Some(wake) = fiber.unpark() {
                    park::wake(wake);
                }
            }
            Who::Plain(thread) => thread.unpark(),
            Who::Nobody => {}
        }
    }

    /// Unique among all fibers and threads that the process ever had; all that were refused, after a shutdown, have one
    /// in common.
    ///
    /// ```
    /// let fiber = volt::go(|| volt::current().id());
    /// assert_eq!(fiber.thread().id(), fiber.join().unwrap());
    /// ```
    pub fn id(&self) -> ThreadId {
        match self.who() {
            Who::Fiber(fiber) => ThreadId::of_fiber(fiber.id()),
            Who::Plain(thread) => ThreadId::of_plain(thread.id()),
            Who::Nobody => ThreadId::of_fiber(0),
        }
    }

    /// The name given to a [`Builder`](super::Builder), or the plain thread's name.
    ///
    /// ```
    /// let fiber = volt::thread::Builder::new().name("indexer".into()).spawn(|| ()).unwrap();
    /// assert_eq!(fiber.thread().name(), Some("indexer"));
    /// ```
    pub fn name(&self) -> Option<&str> {
        match self.who() {
            Who::Fiber(fiber) => fiber.name(),
            Who::Plain(thread) => thread.name(),
            Who::Nobody => None,
        }
    }
}

impl Clone for Thread {
    fn clone(&self) -> Thread {
        match self.who() {
            Who::Fiber(fiber) => Thread::of_fiber(fiber.clone()),
            Who::Plain(thread) => {
                // SAFETY: from an `Arc`, of which this one holds a count.
                unsafe { Arc::increment_strong_count(thread) };
                Thread(self.0)
            }
            Who::Nobody => Thread(self.0),
        }
    }
}

impl Drop for Thread {
    fn drop(&mut self) {
        if let Some(block) = self.plain() {
            // SAFETY: from an `Arc`, and the count is this one's.
            drop(unsafe { Arc::from_raw(block) });
        } else if !self.0.is_null() {
            // SAFETY: as in `who`; a lent one is not dropped.
            unsafe { ptr::from_mut(self).cast::<FiberRef>().drop_in_place() };
        }
    }
}

impl fmt::Debug for Thread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Thread").field("id", &self.id()).field("name", &self.name()).finish()
    }
}

/// The calling fiber; the calling thread where no fiber runs.
///
/// ```
/// let thread = volt::thread::current();
/// volt::go(move || thread.unpark());
/// volt::thread::park();
/// ```
pub fn current() -> Thread {
    match fiber::current() {
        Some(fiber) => Thread::of_fiber(fiber.reference()),
        None => Thread::of_plain(fiber::thread_block()),
    }
}

impl<T> JoinHandle<T> {
    /// The fiber, for its id, its name and its [`unpark`](Thread::unpark).
    ///
    /// ```
    /// let fiber = volt::go(volt::thread::park);
    /// fiber.thread().unpark();
    /// fiber.join().unwrap();
    /// ```
    pub fn thread(&self) -> &Thread {
        const { assert!(align_of::<Thread>() == align_of::<Option<FiberPtr>>()) };
        // SAFETY: a pointer that may be null, of a fiber whose block this handle keeps (invariants 1, 2).
        unsafe { &*ptr::from_ref(self.fiber()).cast::<Thread>() }
    }
}
