//! One connection that is written to without pause.

use std::io::Write;
use std::net::TcpStream;
use std::time::{Duration, Instant};

use super::Load;
use crate::run::{say, stage};

static PIECE: [u8; 64 << 10] = [b'v'; 64 << 10];

pub(super) fn run(load: Load) {
    let mut stream = load.connect();
    pieces(&mut stream, load.time / 4);
    stage("begin");
    let start = Instant::now();
    let count = pieces(&mut stream, load.time);
    let took = start.elapsed();
    stage("end");
    say("requests", count);
    say("rate", count as f64 / took.as_secs_f64());
}

/// How many have been written in that time: what the server has not read yet is some MiB at most.
fn pieces(stream: &mut TcpStream, time: Duration) -> u64 {
    let (end, mut count) = (Instant::now() + time, 0);
    while Instant::now() < end {
        stream.write_all(&PIECE).expect("the server is there");
        count += 1;
    }
    count
}
