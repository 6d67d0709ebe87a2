//! Connections that each ask for a MiB, read it, and ask again; a thread for each.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

use super::Load;
use crate::run::{say, stage};

const ANSWER: usize = 1 << 20;

pub(super) fn run(load: Load) {
    // The threads, and this one, which tells when all are warm and when all are done.
    let together = Barrier::new(load.connections as usize + 1);
    thread::scope(|scope| {
        let readers: Vec<_> = (0..load.connections)
            .map(|_| {
                scope.spawn(|| {
                    let mut stream = load.connect();
                    answers(&mut stream, load.time / 4);
                    together.wait();
                    together.wait();
                    let count = answers(&mut stream, load.time);
                    together.wait();
                    count
                })
            })
            .collect();
        together.wait();
        stage("begin");
        let start = Instant::now();
        together.wait();
        together.wait();
        let took = start.elapsed();
        stage("end");
        let count: u64 = readers.into_iter().map(|reader| reader.join().expect("it reads")).sum();
        say("requests", count);
        say("rate", count as f64 / took.as_secs_f64());
    });
}

/// How many have been read in that time.
fn answers(stream: &mut TcpStream, time: Duration) -> u64 {
    let (end, mut count) = (Instant::now() + time, 0);
    let mut buffer = vec![0; 1 << 18];
    while Instant::now() < end {
        stream.write_all(&[1]).expect("the server is there");
        let mut left = ANSWER;
        while left > 0 {
            let most = buffer.len().min(left);
            let n = stream.read(&mut buffer[..most]).expect("the server is there");
            assert!(n > 0, "the server ends in the middle of an answer");
            left -= n;
        }
        count += 1;
    }
    count
}
