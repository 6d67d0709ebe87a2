//! Fibers for plain, blocking-looking code: a million of them on a few threads.
//!
//! [`go`] starts a fiber: a function with a stack of its own. It calls what a blocking program calls
//! ([`net`], [`thread`], [`time`]), and where a thread would block, the fiber steps aside and its
//! worker runs another one. There are no futures and no `async`: a wait switches stacks.
//!
//! ```
//! use std::io::{Read, Write};
//! use volt::net::{TcpListener, TcpStream};
//!
//! # fn main() -> std::io::Result<()> {
//! volt::run(|| {
//!     let listener = TcpListener::bind("127.0.0.1:0")?;
//!     let address = listener.local_addr()?;
//!     let server = volt::go(move || -> std::io::Result<()> {
//!         let (mut client, _) = listener.accept()?;
//!         let mut word = [0; 5];
//!         client.read_exact(&mut word)?;
//!         client.write_all(&word)
//!     });
//!     let mut stream = TcpStream::connect(address)?;
//!     stream.write_all(b"hello")?;
//!     let mut answer = String::new();
//!     stream.read_to_string(&mut answer)?;
//!     assert_eq!(answer, "hello");
//!     server.join().unwrap()
//! })
//! # }
//! ```
//!
//! Everything here works on fibers and on plain threads. On a plain thread [`go`] uses the default
//! runtime, which starts at its first use; `VOLT_WORKERS` and `VOLT_STACK_SIZE` set it. A
//! [`runtime::Builder`] makes others.
//!
//! # What a fiber that migrates must not hold over a wait
//!
//! A fiber may go on upon another thread after any wait. So over a wait it must not keep what belongs
//! to a thread:
//!
//! - a reference into a `thread_local!`, or a value whose meaning depends on the thread, such as the
//!   guard of a [`std::sync::Mutex`], a `StdoutLock`, a `ThreadRng` or an entered `tracing` span;
//! - the value of `errno`, or a pointer that C code keeps per thread.
//!
//! The compiler does not see a wait as something special, and some of these are `Send` only by
//! accident; what is not `Send` can still stand on a fiber's stack. Between two waits all of it is
//! fine. Four ways out: [`fiber_local!`] for values that belong to the fiber;
//! [`Migrate::BeforeStart`](runtime::Migrate) for a runtime whose fibers stay on the thread where
//! they first ran (but for a [current-thread](runtime::Builder::new_current_thread) runtime that several
//! threads drive in turn); [`thread::pinned`] for a fiber that keeps its thread for a while; and not to wait
//! while holding such a thing. With `VOLT_FORCE_MIGRATE=1` in the environment every resume moves the
//! fiber to another worker, so that what cannot stand it breaks in tests.
//!
//! The rounding mode and the like of the floating-point unit are the fiber's own on x86-64, and the thread's elsewhere.
//! Who changes them puts them back before its closure returns, as before any return: the next fiber begins with what is
//! there.
//!
//! A fiber whose thread is unwinding from a panic blocks its thread when it waits, since the panic count belongs to the
//! thread. A wait in a `fork`ed child panics, as does a spawn that none of the parent's fibers makes; a yield there
//! runs none of their copies, and a fiber that comes to its end there ends the process. A wait panics on a stack that
//! is not the fiber's, too: a coroutine's of another library, the alternate stack of a signal handler. In a handler on
//! the fiber's own stack it cannot be told from any other, and is just as wrong. Where fibers borrow from the caller,
//! [`scope`](thread::scope) and [`run`] refuse such a wait before they have begun; one that comes to it later, forked
//! within, ends the process.
//!
//! # Code that blocks its thread
//!
//! [`blocking`] runs code that blocks its thread without holding others up. Where nobody says so, a
//! supervisor notices a worker that has not come back for 75 to 100 ms
//! ([`stall_period`](runtime::Builder::stall_period)), lets another thread take its place and says who
//! it was ([`on_stall`](runtime::Builder::on_stall)). It never interrupts a fiber.
//! Where the system refuses that thread, volt says so on stderr, once until there is one again: until then fibers may
//! have to wait.
//!
//! # Stacks
//!
//! A stack has 256 KiB of address space (1 MiB with debug assertions), of which a quarter, at most
//! 64 KiB, is guard, and one page below it; memory is used only where it was touched, in pages, and given back when the
//! stack has been idle for some seconds. An overflow ends the process with a report that names the
//! fiber, where it was spawned and what to set. A fiber for which there is no stack does not run: its `join` returns a
//! [`StackError`], and if nobody joins it stderr says so, once a second at most.
//!
//! # Glossary
//!
//! - **fiber**: a function with a stack of its own, which a worker runs until it waits.
//! - **worker**: a thread that runs fibers. **Core**: what it owns: queues, counters, stacks.
//! - **runtime**: workers, their scheduler and their driver. **Handle**: a reference to one.
//! - **LIFO slot**: the fiber that a worker runs next. **Ring**: its queue of 256, from which others **steal** half.
//!   **Injector**: the queue of all; what finds no room in a ring, its **overflow**, stands there too. **Mailbox**:
//!   what was meant for one worker.
//! - **urgent**: woken for a lock, which others take or wait for meanwhile. **Rest**: those of a long ring that run
//!   between two runs from the slot, while who is urgent stays there.
//! - **dispatch**: giving a fiber the processor. **Tick**: 128 dispatches, fewer where they take
//!   long. **Operations**: what a fiber may do without waiting before it yields.
//! - **blocking mode**: a fiber keeps its thread, whose core was handed on. **Hand-off**: that. **Brief call**: one of
//!   `blocking` that keeps the core, since those before it at its place returned soon. **Stall**:
//!   a worker that does not come back from a fiber's code. **Supervisor**: the thread that notices.
//!   **Spare**: a thread without a core. **Suspect**: a spawn site one of whose fibers
//!   has stalled, its thread asleep, and is stuck.
//! - **share**: to put who was woken into the ring, where others find it, instead of the slot. **Invite**: to wake a
//!   worker for that. **Spin**: to look for a moment whether a wait ends before its fiber leaves its worker.
//! - **assist**: another worker is woken for the few fibers that the poller brings, as long as all get on faster by
//!   that.
//! - **searcher**: a worker that looks for work to steal. **Vigil**: it finds nothing, and goes on looking. **Parked**:
//!   asleep, on its thread or in the **poller**.
//! - **park**, **unpark**: wait, wake. **Permit**: an unpark that came first. **Waiter**: who waits,
//!   fiber or thread. **Settle**: to end a wait, once. **Offer**: to settle it and give something with
//!   it. **Hand over**: to offer a lock or permit. **Barge**: to take one past those who wait.
//! - **driver**: what waits for the kernel. **Turn**: one look of it. **Registration**: a socket that
//!   it knows. **Readiness**: whether an operation is worth trying. **Wheel**: the timers. **Anchor**: the
//!   processor's counter and the clock, read together, from which deadlines are reckoned.
//! - **channel**: a queue between fibers or threads. **Case**: one of several things that a **select**
//!   waits for. **Hand-over**: a value, a lock or a permit given straight to who waits for it.
//! - **context**: a flow of control that is suspended. **Stack**, **slot**, **slab**: a fiber's memory,
//!   its place, and the mapping that holds many. **Guard**: the pages that fault.
//! - **spawn site**: the line of code that started a fiber.

#![warn(unreachable_pub)]
#![cfg_attr(loom, allow(dead_code, unused_imports, unreachable_pub, reason = "for the models"))]

// Under loom only the rooms whose protocols have models, and of them only those files and what these need.
#[cfg(not(loom))]
mod context;
#[cfg(not(loom))]
mod driver;
#[cfg(loom)]
#[path = "driver/mod_loom.rs"]
mod driver;
#[cfg(not(loom))]
mod fiber;
#[cfg(loom)]
#[path = "fiber/mod_loom.rs"]
mod fiber;
#[cfg(not(loom))]
mod io;
#[cfg(not(loom))]
mod park;
#[cfg(loom)]
#[path = "park/mod_models.rs"]
#[allow(dead_code, reason = "what the models do not use")]
mod park;
mod primitives;
#[cfg(not(loom))]
mod scheduler;
#[cfg(loom)]
#[path = "scheduler/mod_loom.rs"]
mod scheduler;
#[cfg(not(loom))]
mod stack;
mod util;

#[cfg(not(loom))]
pub mod cancel;
#[cfg(loom)]
#[path = "cancel/mod_loom.rs"]
mod cancel;
#[cfg(loom)]
#[path = "channel/mod_loom.rs"]
mod channel;
#[cfg(not(loom))]
pub mod channel;
#[cfg(not(loom))]
pub mod metrics;
#[cfg(not(loom))]
pub mod net;
#[cfg(not(loom))]
pub mod runtime;
#[cfg(loom)]
#[path = "scope/mod_loom.rs"]
mod scope;
#[cfg(not(loom))]
pub mod scope;
#[cfg(not(loom))]
pub mod signal;
#[cfg(not(loom))]
pub mod sync;
#[cfg(loom)]
#[path = "sync/mod_models.rs"]
#[allow(dead_code, reason = "what the models do not use")]
mod sync;
#[cfg(loom)]
#[path = "thread/mod_loom.rs"]
mod thread;
#[cfg(not(loom))]
pub mod thread;
#[cfg(loom)]
#[path = "time/mod_loom.rs"]
mod time;
#[cfg(not(loom))]
pub mod time;

#[cfg(not(loom))]
pub use cancel::cancelled;
#[cfg(not(loom))]
pub use park::blocking;
#[cfg(not(loom))]
pub use runtime::{JoinHandle, go, run, yield_now};
#[cfg(not(loom))]
pub use scope::{join, race};
#[cfg(not(loom))]
pub use stack::StackError;
#[cfg(not(loom))]
pub use thread::{current, scope};
#[cfg(not(loom))]
pub use time::{sleep, timeout};
