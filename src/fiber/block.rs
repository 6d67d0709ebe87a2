//! The typed control block: head, closure and result in one allocation.

use super::blocks::{self, Memory};
use super::header::{FiberPtr, Header, VTable};
use super::{refused, tls};
use crate::primitives::sync::UnsafeCell;
use crate::stack::StackSize;
use std::alloc::Layout;
use std::any::Any;
use std::mem::ManuallyDrop;
use std::panic::{AssertUnwindSafe, Location, catch_unwind};
use std::ptr::NonNull;

/// What a panic carries.
pub(crate) type Payload = Box<dyn Any + Send + 'static>;

/// What a fiber is given at its birth.
#[derive(Debug)]
pub(crate) struct Spec {
    pub(crate) scheduler: *const (),
    pub(crate) site: &'static Location<'static>,
    pub(crate) name: Option<Box<str>>,
    pub(crate) size: StackSize,
    pub(crate) sampled: bool,
}

/// The closure until it runs, its result afterwards.
union Body<F, T> {
    closure: ManuallyDrop<F>,
    result: ManuallyDrop<Result<T, Payload>>,
}

#[repr(C)]
struct Block<F, T> {
    header: Header,
    body: UnsafeCell<Body<F, T>>,
}

impl<F: FnOnce() -> T, T> Block<F, T> {
    const VTABLE: VTable = VTable {
        run: Self::run,
        drops: std::mem::needs_drop::<F>(),
        fail: Self::fail,
        drop_result: Self::drop_result,
        result: Self::result,
        memory: Memory::of(Layout::new::<Self>()),
    };

    /// # Safety
    ///
    /// `header` is the head of a live block of this type.
    unsafe fn body(header: NonNull<Header>) -> *mut Body<F, T> {
        // SAFETY: the block is `repr(C)` with the head first.
        let body = unsafe { &raw mut (*header.cast::<Self>().as_ptr()).body };
        // SAFETY: as above; the cell is only a wrapper.
        unsafe { (*body).with_mut(|body| body) }
    }

    /// # Safety
    ///
    /// Called once, by the worker that started the fiber, on the fiber's stack.
    unsafe fn run(header: NonNull<Header>) -> bool {
        // SAFETY: the closure is there, since the fiber was fresh; it is taken once.
        let closure = unsafe {
            let body = Self::body(header);
            ManuallyDrop::take(&mut (*body).closure)
        };
        let result = catch_unwind(AssertUnwindSafe(closure));
        let owns = std::mem::needs_drop::<T>() || result.is_err();
        // SAFETY: the place is empty now, and nobody reads it before the fiber is done.
        unsafe { (*Self::body(header)).result = ManuallyDrop::new(result) };
        owns
    }

    /// # Safety
    ///
    /// Called once, instead of `run`, by whoever started the fiber.
    unsafe fn fail(header: NonNull<Header>, payload: Payload) {
        // SAFETY: as in `run`.
        unsafe {
            let body = Self::body(header);
            let closure = ManuallyDrop::take(&mut (*body).closure);
            crate::util::forget_panics(|| drop(closure));
            (*body).result = ManuallyDrop::new(Err(payload));
        }
    }

    /// # Safety
    ///
    /// The result is there and the caller owns it.
    unsafe fn drop_result(header: NonNull<Header>) {
        // SAFETY: passed on.
        let result = unsafe { &mut (*Self::body(header)).result };
        if let Err(payload) = &**result {
            refused::tell(FiberPtr::from_non_null(header), payload);
        }
        // SAFETY: passed on.
        unsafe { ManuallyDrop::drop(result) }
    }

    /// # Safety
    ///
    /// `header` is the head of a live block of this type.
    unsafe fn result(header: NonNull<Header>) -> *mut () {
        // SAFETY: passed on.
        unsafe { Self::body(header).cast() }
    }
}

/// What fibers of one closure and result have in common.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Kind(&'static VTable);

impl Kind {
    #[inline(always)]
    pub(crate) fn of<F: FnOnce() -> T, T>() -> Kind {
        Kind(&Block::<F, T>::VTABLE)
    }
}

/// The control block of a fresh fiber, which has no closure yet; one that is dropped is lost. Made apart from
/// the closure, so that all of it but moving the closure is compiled once.
#[derive(Debug)]
#[must_use]
pub(crate) struct Unfilled(NonNull<Header>);

impl Unfilled {
    #[inline(always)]
    pub(crate) fn new(spec: Spec, kind: Kind) -> Unfilled {
        let block = blocks::take(tls::blocks(), &kind.0.memory).cast::<Header>();
        // SAFETY: memory for a block of this kind, whose head comes first.
        unsafe { Header::write(block.as_ptr(), spec, kind.0) };
        Unfilled(block)
    }

    /// The fresh fiber, which will run `closure`.
    ///
    /// # Safety
    ///
    /// `self` was made with the kind of `F` and `T`. They must live until the fiber is done and its
    /// result taken or dropped: the caller sees to that where they borrow. The scheduler outlives the
    /// fiber.
    #[inline(always)]
    pub(crate) unsafe fn fill<F, T>(self, closure: F) -> FiberPtr
    where
        F: FnOnce() -> T + Send,
        T: Send,
    {
        let block = self.0.cast::<Block<F, T>>();
        let body = Body { closure: ManuallyDrop::new(closure) };
        // SAFETY: memory for this block, whose body is empty.
        unsafe { (&raw mut (*block.as_ptr()).body).write(UnsafeCell::new(body)) };
        FiberPtr::from_non_null(self.0)
    }
}
