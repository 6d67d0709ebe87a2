//! What loads the servers, in processes of their own. wrk, which is somebody else's, stands in
//! `wrk.rs`.

mod download;
mod echo;
mod idle;
mod paced;
mod records;
mod short;
mod upload;
mod wrk;

use crate::run::say;
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

pub use wrk::wrk;

/// A load generator of ours.
#[derive(Debug, Clone, Copy)]
pub struct Load {
    pub addr: SocketAddr,
    pub connections: u32,
    pub time: Duration,
}

/// How long answers took.
#[derive(Debug, Default)]
struct Latencies(Vec<u32>);

impl Latencies {
    fn add(&mut self, took: Duration) {
        self.0.push(u32::try_from(took.as_nanos()).unwrap_or(u32::MAX));
    }

    fn len(&self) -> usize {
        self.0.len()
    }

    /// Prints the percentiles, in microseconds.
    fn say(mut self) {
        self.0.sort_unstable();
        let at = |part: f64| f64::from(self.0[(self.0.len() as f64 * part) as usize]) / 1e3;
        say("p50", at(0.5));
        say("p99", at(0.99));
        say("p999", at(0.999));
    }
}

/// The bytes of a message.
const MESSAGE: [u8; 64] = [b'v'; 64];

impl Load {
    /// Runs the generator called `kind`, which prints its figures; false if there is none of that
    /// name.
    pub fn run(self, kind: &str) -> bool {
        match kind {
            "download" => download::run(self),
            "echo" => echo::run(self),
            "paced" => paced::run(self),
            "records" => records::run(self),
            "short" => short::run(self),
            "upload" => upload::run(self),
            "idle" => idle::run(self),
            _ => return false,
        }
        true
    }

    fn connect(self) -> TcpStream {
        let stream = TcpStream::connect(self.addr).expect("the server accepts");
        stream.set_nodelay(true).expect("a socket");
        stream
    }
}
