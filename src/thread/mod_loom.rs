//! What of this room has models: what a scope knows of its fibers. Their waits are those of plain threads,
//! as the models of the room `cancel` have them.

mod children;
mod running;

use crate::cancel::park as waiting;
