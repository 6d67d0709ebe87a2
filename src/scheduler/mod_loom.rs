//! What of this room runs under loom: the protocols, without the workers that use them.

mod crew;
mod gate;
mod idle;
mod locked_queue;
mod parker;
mod poller_seat;
mod ring;
mod slot;
mod watch;
