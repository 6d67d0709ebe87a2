//! What of this room has models: the end that cuts off others, and the way of a set's results. Their waits are
//! those of plain threads, as the models of the room `cancel` have them.

mod first;
mod results;
mod untaken;

use crate::cancel::park;
