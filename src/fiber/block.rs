//! The typed control block: head, closure and result in one allocation.

use super::header::{FiberPtr, Header, VTable};
use super::blocks::{self, Memory};
use super::tls;
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
            super::entry::forget_panics(|| drop(closure));
            (*body).result = ManuallyDrop::new(Err(payload));
        }
    }

    /// # Safety
    ///
    /// The result is there and the caller owns it.
    unsafe fn drop_result(header: NonNull<Header>) {
        // SAFETY: passed on.
        unsafe { ManuallyDrop::drop(&mut (*Self::body(header)).result) }
    }

    /// # Safety
    ///
    /// `header` is the head of a live block of this type.
    unsafe fn result(header: NonNull<Header>) -> *mut () {
        // SAFETY: passed on.
        unsafe { Self::body(header).cast() }
    }
}

/// A fresh fiber that will run `closure`.
///
/// # Safety
///
/// `F` and `T` must live until the fiber is done and its result taken or dropped: the caller sees
/// to that where they borrow. `spec.scheduler` outlives the fiber.
pub(crate) unsafe fn allocate<F, T>(spec: Spec, closure: F) -> FiberPtr
where
    F: FnOnce() -> T + Send,
    T: Send,
{
    let block = blocks::take(tls::blocks(), &Block::<F, T>::VTABLE.memory).cast::<Block<F, T>>();
    // SAFETY: memory of this layout, written field by field.
    unsafe {
        Header::write(&raw mut (*block.as_ptr()).header, spec, &Block::<F, T>::VTABLE);
        let body = Body { closure: ManuallyDrop::new(closure) };
        (&raw mut (*block.as_ptr()).body).write(UnsafeCell::new(body));
    }
    FiberPtr::from_non_null(block.cast())
}
