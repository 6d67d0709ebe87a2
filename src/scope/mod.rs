//! Fibers that end together: pairs, races, sets; [`join!`](crate::join!) and [`race!`](crate::race!) for any
//! number of closures.
//!
//! [`scope`](scope()) mirrors [`std::thread::scope`], and is the same as [`volt::thread::scope`]. What else is
//! here is built on it, and on cancel. Whatever may borrow returns only when its fibers have ended.
//!
//! All of it works on plain threads too: the fibers are those of the default runtime then, which starts at
//! its first use, and whoever waits for them blocks its thread.
//!
//! [`volt::thread::scope`]: crate::thread::scope
//!
//! ```
//! let words = ["one".to_owned(), "two".to_owned()];
//! let (length, both) = volt::scope::join(|| words[0].len(), || words.concat());
//! assert_eq!((length, both.as_str()), (3, "onetwo"));
//! ```

mod first;
mod join;
mod join_set;
mod results;
mod several;
mod untaken;

use crate::park;

pub use crate::thread::{Scope, ScopedJoinHandle, scope};
pub use join::{join, race, try_join};
pub use join_set::JoinSet;

/// What the macros call; for them only.
#[doc(hidden)]
pub mod internal {
    pub use super::several::{Group, Lane, Nothing};
}
