//! One message every so often, on one connection after the other; the answer is waited for.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::thread::sleep;
use std::time::{Duration, Instant};

use super::{Latencies, Load, MESSAGE};
use crate::run::{say, stage};

const EVERY: Duration = Duration::from_micros(500);

pub(super) fn run(load: Load) {
    let mut connections: Vec<_> = (0..load.connections).map(|_| load.connect()).collect();
    turns(&mut connections, load.time / 4);
    stage("begin");
    let latencies = turns(&mut connections, load.time);
    stage("end");
    say("requests", latencies.len());
    latencies.say();
}

/// Goes round the connections for so long.
fn turns(connections: &mut [TcpStream], time: Duration) -> Latencies {
    let mut latencies = Latencies::default();
    let start = Instant::now();
    let mut due = start;
    for number in (0..connections.len()).cycle() {
        sleep(due.saturating_duration_since(Instant::now()));
        due += EVERY;
        let sent = Instant::now();
        let stream = &mut connections[number];
        stream.write_all(&MESSAGE).expect("the server is there");
        stream.read_exact(&mut [0; MESSAGE.len()]).expect("an answer");
        latencies.add(sent.elapsed());
        if start.elapsed() >= time {
            break;
        }
    }
    latencies
}
