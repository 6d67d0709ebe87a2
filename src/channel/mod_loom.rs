//! The room under loom: what has a protocol with models: the state machine and its nodes, the waits of plain
//! sends and receives, the ticket of cases of others.

mod core;
mod error;
mod node;
mod state;
mod ticket;
