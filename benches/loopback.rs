//! An echo round trip and the rate of short connections on the loopback, beside plain threads:
//! `cargo bench --bench loopback`.

#[path = "../tests/net_support/mod.rs"]
mod net_support;

use net_support::{World, current_thread, listen, pair, workers};
use rustix::net::sockopt;
use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};
use volt::net::TcpStream;

const ROUNDS: u32 = 100_000;
const CONNECTIONS: u32 = 20_000;

fn echo(world: World) -> f64 {
    let (mut near, mut far) = pair();
    let peer = world.spawn(move || {
        let mut buf = [0; 64];
        while let n @ 1.. = far.read(&mut buf).unwrap() {
            far.write_all(&buf[..n]).unwrap();
        }
    });
    let mut buf = [0; 64];
    let start = Instant::now();
    for _ in 0..ROUNDS {
        near.write_all(&[7; 32]).unwrap();
        assert_eq!(near.read(&mut buf).unwrap(), 32);
    }
    let each = start.elapsed().as_secs_f64() / f64::from(ROUNDS);
    drop(near);
    peer.join();
    each * 1e6
}

fn connect_accept_close(world: World) -> f64 {
    let (listener, address) = listen();
    let peer = world.spawn(move || (0..CONNECTIONS).for_each(|_| drop(listener.accept().unwrap())));
    let start = Instant::now();
    for _ in 0..CONNECTIONS {
        let stream = TcpStream::connect(address).unwrap();
        // A reset leaves no port in TIME_WAIT, which would slow the next connections down.
        sockopt::set_socket_linger(stream.as_fd(), Some(Duration::ZERO)).unwrap();
    }
    peer.join();
    f64::from(CONNECTIONS) / start.elapsed().as_secs_f64()
}

fn measure(name: &str, figure: impl Fn(World) -> f64 + Send + Sync) {
    for _ in 0..3 {
        let one = current_thread().run(|| figure(World::CurrentThread));
        let worker = workers(1).run(|| figure(World::Fibers));
        let two = workers(2).run(|| figure(World::Fibers));
        let threads = figure(World::Threads);
        println!(
            "{name}: current thread {one:.1}, 1 worker {worker:.1}, 2 workers {two:.1}, \
             threads {threads:.1}"
        );
    }
}

fn main() {
    measure("echo round trip, us", echo);
    measure("connect + accept + close, per second", connect_accept_close);
}
