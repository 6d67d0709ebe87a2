//! Connections that have had one answer and stay open.

use std::io::{Read, Write};
use std::net::TcpStream;

use super::Load;
use crate::run::{say, stage};

const REQUEST: &[u8] = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n";
const BODY: &[u8] = b"Hello, World!";

pub(super) fn run(load: Load) {
    // The first one finds what the server makes only once.
    let _first = open(load);
    stage("begin");
    let open: Vec<_> = (0..load.connections).map(|_| open(load)).collect();
    say("count", open.len());
    stage("end");
}

fn open(load: Load) -> TcpStream {
    let mut stream = load.connect();
    stream.write_all(REQUEST).expect("the server is there");
    let mut answer = Vec::new();
    let mut buffer = [0; 1024];
    while !answer.ends_with(BODY) {
        let n = stream.read(&mut buffer).expect("an answer");
        assert_ne!(n, 0, "the server has closed a connection");
        answer.extend_from_slice(&buffer[..n]);
    }
    stream
}
