//! The room under loom: what has a protocol with models: the state machine and its nodes, the ticket of
//! cases of others.

mod node;
mod state;
mod ticket;
