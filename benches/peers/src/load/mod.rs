//! What loads the servers, in processes of their own. wrk, which is somebody else's, stands in
//! `wrk.rs`.

mod echo;
mod idle;
mod short;
mod wrk;

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

/// The bytes of a message.
const MESSAGE: [u8; 64] = [b'v'; 64];

impl Load {
    /// Runs the generator called `kind`, which prints its figures; false if there is none of that
    /// name.
    pub fn run(self, kind: &str) -> bool {
        match kind {
            "echo" => echo::run(self),
            "short" => short::run(self),
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
