//! What of this room runs under loom: the protocols, without the workers that use them.

mod gate;
mod idle;
mod locked_queue;
mod parker;
mod ring;
