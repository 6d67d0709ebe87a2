//! One connection that brings a record every so often; nobody answers.

use std::hint::spin_loop;
use std::io::Write;
use std::net::TcpStream;
use std::time::{Duration, Instant};

use super::Load;
use crate::run::{say, stage};

static RECORD: [u8; 100] = [b'v'; 100];
/// Too short for a sleep.
const EVERY: Duration = Duration::from_micros(10);

pub(super) fn run(load: Load) {
    let mut stream = load.connect();
    records(&mut stream, load.time / 4);
    stage("begin");
    let count = records(&mut stream, load.time);
    stage("end");
    say("requests", count);
}

/// How many have been written in that time.
fn records(stream: &mut TcpStream, time: Duration) -> u64 {
    let (start, mut count) = (Instant::now(), 0);
    let mut due = start;
    while due < start + time {
        while Instant::now() < due {
            spin_loop();
        }
        stream.write_all(&RECORD).expect("the server is there");
        due += EVERY;
        count += 1;
    }
    count
}
