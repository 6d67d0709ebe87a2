//! The room under loom: all but the macros, the iterators and what makes channels; a select's cases are
//! channels and those of others.

mod at_once;
mod case;
mod core;
mod engine;
mod error;
mod hint;
mod node;
mod open;
#[path = "other_loom.rs"]
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

#[cfg(test)]
mod select_models;

pub use case::Permit;
pub use open::{Case, Waiter};
pub use receiver::Receiver;
pub use select::Select;
pub use selected::SelectedOperation;
pub use sender::Sender;
