//! What of the channels has models: all but the handles.

mod apart;
mod blocks;
mod bounded;
#[cfg(test)]
mod models;
mod outcome;
mod parcel;
mod ring;
mod unbounded;
mod waiting;

use outcome::{Gone, NotReceived, NotSent};
