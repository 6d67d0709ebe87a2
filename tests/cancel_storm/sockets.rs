//! Reads and writes of sockets: each byte that a write has reported comes out of one read, and no other does.

use crate::common::Rng;
use crate::weather::{Me, Round, dawdle, micros, storm};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair, sockopt};
use std::io::{self, ErrorKind, IoSlice, IoSliceMut, Read, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::time::Duration;
use volt::cancel::is_cancelled;
use volt::net::{Shutdown, TcpListener, TcpStream};
use volt::sync::Mutex;

/// How often each byte was seen.
struct Counts([AtomicU64; 256]);

impl Counts {
    fn new() -> Counts {
        Counts([const { AtomicU64::new(0) }; 256])
    }

    fn add(&self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| _ = self.0[usize::from(*byte)].fetch_add(1, SeqCst));
    }

    fn all(&self) -> Vec<u64> {
        self.0.iter().map(|count| count.load(SeqCst)).collect()
    }
}

/// The byte at a place of the stream.
fn byte(place: u64) -> u8 {
    (place.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 56) as u8
}

/// One direction of a connection.
pub struct Pipe {
    to: TcpStream,
    from: TcpStream,
    /// Held over a write, and over a read, where the bytes are to come in order: how many there were.
    places: Option<[Mutex<u64>; 2]>,
    written: Counts,
    read: Counts,
    /// Its sockets have timeouts of their own.
    timed: bool,
    over: AtomicBool,
}

impl Pipe {
    pub fn new(to: &TcpStream, from: &TcpStream, ordered: bool, timed: bool) -> Arc<Pipe> {
        Arc::new(Pipe {
            to: to.try_clone().unwrap(),
            from: from.try_clone().unwrap(),
            places: ordered.then(|| [Mutex::new(0), Mutex::new(0)]),
            written: Counts::new(),
            read: Counts::new(),
            timed,
            over: AtomicBool::new(false),
        })
    }

    pub fn reader(&self) -> &TcpStream {
        &self.from
    }

    /// One write, of which may come what will.
    pub fn write(&self, rng: &mut Rng) {
        let mut place = self.places.as_ref().map(|places| places[0].lock().unwrap());
        let first = place.as_deref().copied().unwrap_or_else(|| rng.next());
        let most = if rng.below(4) == 0 { 20_000 } else { 200 };
        let len = 1 + rng.below(most);
        let bytes: Vec<_> = (0..len).map(|n| byte(first.wrapping_add(n))).collect();
        match put(&self.to, &bytes, rng) {
            Ok(n) => {
                assert!(n > 0);
                self.written.add(&bytes[..n]);
                place.as_deref_mut().into_iter().for_each(|place| *place += n as u64);
            }
            Err(error) => self.refused(&error),
        }
    }

    /// One read; false at the end.
    pub fn read(&self, rng: &mut Rng) -> bool {
        let mut place = self.places.as_ref().map(|places| places[1].lock().unwrap());
        let mut bytes = vec![0; 1 + rng.below(6_000) as usize];
        let peeks = rng.below(8) == 0;
        let read = match peeks {
            true => self.from.peek(&mut bytes),
            false => take(&self.from, &mut bytes, rng),
        };
        let n = match read {
            Ok(n) => n,
            Err(error) => {
                self.refused(&error);
                return true;
            }
        };
        if let Some(first) = place.as_deref().copied() {
            let right = |(n, got): (usize, &u8)| *got == byte(first + n as u64);
            assert!(bytes[..n].iter().enumerate().all(right), "not what stands at {first}");
        }
        if !peeks {
            self.read.add(&bytes[..n]);
            place.as_deref_mut().into_iter().for_each(|place| *place += n as u64);
        }
        n > 0
    }

    fn refused(&self, error: &io::Error) {
        let late = self.timed && error.kind() == ErrorKind::WouldBlock;
        assert!(late || is_cancelled(error), "{error:?}");
    }

    /// Keeps the others going, and ends the stream when they have left.
    fn write_on(&self, me: &mut Me) {
        while !self.over.load(SeqCst) {
            me.calm("the steady write", |rng| self.write(rng));
            dawdle(&mut me.rng);
        }
        self.to.shutdown(Shutdown::Write).unwrap();
    }

    /// Lets a steady one write, till the end.
    pub fn begin(self: &Arc<Pipe>, round: &mut Round) {
        let pipe = Arc::clone(self);
        round.steady(move |me| pipe.write_on(me));
    }

    /// The others have left.
    pub fn end(&self) {
        self.over.store(true, SeqCst);
    }

    pub fn check(&self) {
        let (written, read) = (self.written.all(), self.read.all());
        assert_eq!(written, read, "written and read");
        if let Some([written, read]) = &self.places {
            assert_eq!(*written.lock().unwrap(), *read.lock().unwrap());
        }
    }
}

fn put(mut to: &TcpStream, bytes: &[u8], rng: &mut Rng) -> io::Result<usize> {
    let (one, two) = bytes.split_at(rng.below(bytes.len() as u64) as usize);
    match rng.below(3) {
        0 => to.write_vectored(&[IoSlice::new(one), IoSlice::new(two)]),
        _ => to.write(bytes),
    }
}

fn take(mut from: &TcpStream, bytes: &mut [u8], rng: &mut Rng) -> io::Result<usize> {
    if rng.below(3) > 0 {
        return from.read(bytes);
    }
    let (one, two) = bytes.split_at_mut(rng.below(bytes.len() as u64) as usize);
    from.read_vectored(&mut [IoSliceMut::new(one), IoSliceMut::new(two)])
}

pub fn over_tcp() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    (near, listener.accept().unwrap().0)
}

/// With so little room that writers wait.
pub fn with_little_room() -> (TcpStream, TcpStream) {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let (near, far) = socketpair(AddressFamily::UNIX, SocketType::STREAM, flags, None).unwrap();
    for end in [&near, &far] {
        sockopt::set_socket_send_buffer_size(end, 4_096).unwrap();
    }
    (near.into(), far.into())
}

/// Some read and some write, in one direction or in both.
fn of(pair: fn() -> (TcpStream, TcpStream), ordered: bool) {
    storm(|round| {
        let (near, far) = pair();
        let timed = round.rng.below(3) == 0;
        if timed {
            [&near, &far].into_iter().for_each(|end| set_timeouts(end, &mut round.rng));
        }
        let mut pipes = vec![Pipe::new(&near, &far, ordered, timed)];
        if round.rng.below(2) == 0 {
            pipes.push(Pipe::new(&far, &near, ordered, timed));
        }
        for pipe in &pipes {
            pipe.begin(round);
            let theirs = Arc::clone(pipe);
            round.steady(move |me| while me.calm("the steady read", |rng| theirs.read(rng)) {});
            let theirs = Arc::clone(pipe);
            round.crowd(3, move |me| _ = me.gust("write", |rng| theirs.write(rng)));
            let theirs = Arc::clone(pipe);
            round.crowd(3, move |me| {
                let more = me.gust("read", |rng| theirs.read(rng));
                assert_ne!(more, Some(false), "an end that nobody has made");
            });
        }
        round.blow();
        pipes.iter().for_each(|pipe| pipe.end());
        round.settle();
        pipes.iter().for_each(|pipe| pipe.check());
    });
}

fn set_timeouts(end: &TcpStream, rng: &mut Rng) {
    let mut some = || Some(Duration::from_micros(1) + micros(rng, 200));
    end.set_read_timeout(some()).unwrap();
    end.set_write_timeout(some()).unwrap();
}

#[test]
fn bytes_come_in_order_over_tcp() {
    of(over_tcp, true);
}

#[test]
fn bytes_come_in_order_through_little_room() {
    of(with_little_room, true);
}

#[test]
fn those_who_read_and_write_side_by_side_share_the_bytes_of_tcp() {
    of(over_tcp, false);
}

#[test]
fn those_who_read_and_write_side_by_side_share_little_room() {
    of(with_little_room, false);
}

/// Who has been connected is accepted, whoever stops accepting meanwhile.
#[test]
fn connections() {
    storm(|round| {
        let listener = Arc::new(TcpListener::bind("127.0.0.1:0").unwrap());
        let address = listener.local_addr().unwrap();
        let (made, met) = (Arc::new(Counts::new()), Arc::new(Counts::new()));
        let (theirs, books) = (Arc::clone(&listener), Arc::clone(&met));
        let meet = move || match theirs.accept() {
            Ok((stream, _)) => volt::cancel::shield(|| greet(&stream, &books)),
            Err(error) => {
                assert!(is_cancelled(&error), "{error:?}");
                true
            }
        };
        let accept = meet.clone();
        for _ in 0..4 {
            let accept = accept.clone();
            round.fiber(move |me| _ = me.cut("accept", |_| accept()));
        }
        round.steady(move |me| while me.calm("the steady accept", |_| meet()) {});
        let books = Arc::clone(&made);
        round.crowd(3, move |me| {
            dawdle(&mut me.rng);
            // Ports are not without number.
            if me.rng.below(3) > 0 {
                return;
            }
            let name = 1 + me.rng.below(255) as u8;
            me.gust("connect", |_| match TcpStream::connect(address) {
                Ok(mut stream) => {
                    volt::cancel::shield(|| stream.write_all(&[name])).unwrap();
                    books.add(&[name]);
                }
                Err(error) => assert!(is_cancelled(&error), "{error:?}"),
            });
        });
        round.blow();
        // The last one ends the steady one.
        TcpStream::connect(address).unwrap().write_all(&[0]).unwrap();
        made.add(&[0]);
        round.settle();
        assert_eq!(made.all(), met.all());
    });
}

/// Asks who it is; false for the last one. Who gave up while it was connected says nothing.
fn greet(mut stream: &TcpStream, met: &Counts) -> bool {
    let mut name = [1];
    match stream.read(&mut name) {
        Ok(1) => met.add(&name),
        Ok(_) => {}
        Err(error) => assert_eq!(error.kind(), ErrorKind::ConnectionReset),
    }
    name != [0]
}
