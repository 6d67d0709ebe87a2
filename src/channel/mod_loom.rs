//! The room under loom: the state machine and its nodes, whose protocol has models.

mod node;
mod state;
