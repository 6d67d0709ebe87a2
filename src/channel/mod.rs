//! Channels for fibers and threads, and waiting for several at once; mirrors `crossbeam-channel`.
//!
//! Names, signatures, errors and the syntax of [`select!`] are that crate's: a program that uses it
//! needs only change the path.
//!
//! ```
//! use volt::channel::{bounded, select, unbounded};
//!
//! volt::run(|| {
//!     let (work, jobs) = bounded(16);
//!     let (done, results) = unbounded();
//!     for _ in 0..4 {
//!         let (jobs, done) = (jobs.clone(), done.clone());
//!         volt::go(move || jobs.iter().for_each(|n: u64| done.send(n * n).unwrap()));
//!     }
//!     drop(done);
//!     let (mut next, mut sum) = (1, 0);
//!     while next <= 100 {
//!         select! {
//!             send(work, next) -> sent => { sent.unwrap(); next += 1; }
//!             recv(results) -> square => sum += square.unwrap(),
//!         }
//!     }
//!     drop(work);
//!     sum += results.iter().sum::<u64>();
//!     assert_eq!(sum, 338_350);
//! });
//! ```
//!
//! # Waiting
//!
//! Where an operation has to wait, a fiber leaves its worker to others and a plain thread blocks; the
//! two sides of a channel may be of either kind. Those who wait are served in order.
//!
//! # Cancellation
//!
//! A wait of a fiber that is cancelled unwinds the fiber. Nothing is lost by it: a message was
//! received, or is still in the channel, or is dropped with the sender whose send did not happen. (Who
//! has chosen by [`Select::select`], and waits for something else before it uses the
//! [`SelectedOperation`], forgets the message if it is cancelled there, as by a panic.) One wait is not
//! ended by a cancel or a time-out: a receiver of a rendezvous channel that was paired with a `select`'s
//! send waits until the sender's message has been made.
//!
//! # On a panic
//!
//! A channel is not poisoned. What a panic drops on its way is dropped as by any other means:
//!
//! | what panics | what becomes of it |
//! |---|---|
//! | who has a [`Sender`] or [`Receiver`] | the last one of its side tells the other side |
//! | the expression of a chosen `send` in [`select!`], who has a [`Permit`] | the place, or the receiver, is given back |
//! | who has a [`SelectedOperation`] | the place is given back; a message in it is forgotten, not dropped |
//! | a method of a [`Case`] | the panic comes out of the select; no other case has had its effect: a message that had come goes back, and is the next one, over a full channel or a rendezvous too |
//! | the destructor of a message | the panic comes out of the drop of the last receiver; the senders know that it is gone, and what was still to be dropped is leaked |
//!
//! # Waiting for other things too
//!
//! A select takes ends of fibers, cancels, times, events, notifications and sockets besides, by
//! `wait(case) -> output => ...`: see [`Selectable`] for all of them, and [`Case`] to make your own.
//!
//! # What differs from `crossbeam-channel`
//!
//! - Deadlines may be `volt::time`'s instants too. So what takes one is generic, and as a function value
//!   it needs a type: `Sender::send_deadline` alone does not say which instant is meant.
//! - Messages of [`after`], [`at`] and [`tick`] are the standard library's instants, also in a program that uses
//!   `volt::time` otherwise: `volt::time::Instant::from` makes one of them.
//! - The ends are types of their own: a `select!` takes none of `crossbeam-channel`'s that another library hands out,
//!   and to receive from one blocks the worker. A fiber that does so in [`volt::blocking`](crate::blocking) and sends
//!   on is the way.
//! - If the expression of a chosen `send` in `select!` panics, the operation is given up; there the
//!   process is aborted.
//! - A `select!` of more than some twenty cases needs `#![recursion_limit = "256"]`, as the compiler then says; there
//!   it is some thirty.
//! - `select!` has one more kind of case, `wait`, which stands for [anything](Selectable) that one can wait
//!   for; [`Case`] adds to that.

mod at_once;
mod case;
mod cases;
mod core;
mod engine;
mod error;
mod hint;
mod iter;
mod macros;
mod make;
mod node;
mod open;
mod other;
mod parcel;
mod plain;
mod receiver;
mod registered;
mod select;
mod select_node;
mod selected;
mod sender;
mod state;
mod ticket;
mod timed;

pub use crate::{select, select_biased};
pub(crate) use case::{Attempt, Kind, Purpose, Source};
pub use case::{Permit, Selectable};
pub use error::{
    ReadyTimeoutError, RecvError, RecvTimeoutError, SelectTimeoutError, SendError,
    SendTimeoutError, TryReadyError, TryRecvError, TrySelectError, TrySendError,
};
pub use iter::{IntoIter, Iter, TryIter};
#[doc(hidden)]
pub use macros::internal;
pub use make::{after, at, bounded, never, tick, unbounded};
pub use open::{Case, Waiter};
pub(crate) use other::Other;
pub(crate) use parcel::Parcel;
pub use receiver::Receiver;
pub use select::Select;
pub(crate) use select_node::SelectNode;
pub use selected::SelectedOperation;
pub use sender::Sender;
