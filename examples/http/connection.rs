//! A connection: its buffers, its deadlines, its life from the first byte to the close.

use std::io::{self, ErrorKind, Read, Write};

use volt::cancel::{is_cancelled, shield};
use volt::net::{Shutdown, TcpStream};
use volt::time::{Duration, Instant};

use crate::Daemon;
use crate::request::read_request;
use crate::respond::{self, Date, respond};

/// A buffer's size on a fresh connection: enough for most requests.
const SMALL: usize = 1 << 10;
/// The most that a buffer keeps while its connection is idle.
const KEPT: usize = 4 << 10;
/// Answers beyond this are written before more are added.
const FULL: usize = 64 << 10;
/// How long a peer may leave its answers unread.
const WRITE_TIMEOUT: Duration = Duration::from_secs(10);
/// How much and for how long a connection is drained that we close while its peer may still be sending.
const LINGER_BYTES: usize = 256 << 10;
const LINGER_TIME: Duration = Duration::from_secs(1);

/// Why a connection ends.
#[derive(Debug)]
pub enum End {
    /// The peer has gone, or has stood idle when the daemon stops: nothing to say.
    Gone,
    /// The last answer said so: the client's wish, or ours.
    Closed,
    /// The request cannot be served: this status is the last answer.
    Refused(&'static str),
}

impl From<io::Error> for End {
    fn from(_: io::Error) -> Self {
        End::Gone
    }
}

/// Serves one connection until it ends: the whole body of its fiber.
pub fn serve(stream: &TcpStream, daemon: &Daemon) {
    let mut conn = Connection::new(stream, daemon);
    let end = converse(&mut conn).unwrap_or_else(|end| end);
    // The peer may have gone in the meantime, and then there is nobody to close for.
    let _ = shield(|| conn.close(&end));
}

fn converse(conn: &mut Connection<'_>) -> Result<End, End> {
    conn.stream.set_nodelay(true)?;
    conn.stream.set_write_timeout(Some(WRITE_TIMEOUT))?;
    conn.stream.set_read_timeout(conn.daemon.args.idle_timeout)?;
    loop {
        let request = read_request(conn)?;
        if !respond(conn, &request) {
            return Ok(End::Closed);
        }
        if conn.output.len() > FULL {
            conn.flush()?;
        }
    }
}

pub struct Connection<'a> {
    pub daemon: &'a Daemon,
    pub input: Input,
    /// Answers that are not written yet: whoever waits for the peer writes them first.
    pub output: Vec<u8>,
    pub date: Date,
    stream: &'a TcpStream,
    /// Until when the request at the front of `input` must be there. Most requests arrive whole and never have one.
    deadline: Option<Instant>,
}

impl<'a> Connection<'a> {
    fn new(stream: &'a TcpStream, daemon: &'a Daemon) -> Self {
        Connection {
            daemon,
            input: Input::new(),
            output: Vec::new(),
            date: Date::default(),
            stream,
            deadline: None,
        }
    }

    /// Reads more, having written all answers: so a batch of requests costs one read and one write.
    pub fn fill(&mut self) -> Result<(), End> {
        self.flush()?;
        // A stray line break after a request is not the beginning of another.
        let n = match self.input.unread() {
            b"" | b"\r\n" => self.read_next()?,
            _ => self.read_rest()?,
        };
        self.input.received(n);
        self.date.refresh();
        Ok(())
    }

    /// Waits for the next request's first bytes: the one wait that ends at shutdown.
    fn read_next(&mut self) -> Result<usize, End> {
        self.input.shrink();
        self.output.shrink_to(KEPT);
        let n = match self.stream.read(self.input.room()) {
            Err(e) if is_cancelled(&e) => shield(|| self.last_look())?,
            result => result?,
        };
        if n == 0 { Err(End::Gone) } else { Ok(n) }
    }

    /// What has arrived before the daemon stopped is still answered.
    fn last_look(&mut self) -> io::Result<usize> {
        self.stream.set_nonblocking(true)?;
        let n = self.stream.read(self.input.room())?;
        self.stream.set_nonblocking(false)?;
        Ok(n)
    }

    /// Reads on in a request that has begun, until its deadline.
    fn read_rest(&mut self) -> Result<usize, End> {
        let header_timeout = self.daemon.args.header_timeout;
        let deadline = *self.deadline.get_or_insert_with(|| Instant::now() + header_timeout);
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(End::Refused(respond::REQUEST_TIMEOUT));
        }
        self.stream.set_read_timeout(Some(left))?;
        match shield(|| self.stream.read(self.input.room())) {
            Ok(0) => Err(End::Refused(respond::BAD_REQUEST)),
            Err(e) if is_timeout(&e) => Err(End::Refused(respond::REQUEST_TIMEOUT)),
            result => Ok(result?),
        }
    }

    /// Gives what follows a time of its own.
    pub fn set_deadline(&mut self, limit: Duration) {
        self.deadline = Some(Instant::now() + limit);
    }

    /// Forgets the deadline of the request that is complete.
    pub fn end_deadline(&mut self) -> io::Result<()> {
        match self.deadline.take() {
            Some(_) => self.stream.set_read_timeout(self.daemon.args.idle_timeout),
            None => Ok(()),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        if !self.output.is_empty() {
            shield(|| self.stream.write_all(&self.output))?;
            self.output.clear();
        }
        Ok(())
    }

    /// Writes what is left to say and closes, so that the peer can read it.
    fn close(&mut self, end: &End) -> io::Result<()> {
        let stopping = respond::stopping(self.daemon);
        let lingers = match end {
            End::Gone => return Ok(()),
            End::Closed => stopping || !self.input.unread().is_empty(),
            End::Refused(status) => {
                self.date.refresh();
                respond::refuse(&mut self.output, &self.date, status);
                true
            }
        };
        self.flush()?;
        if lingers { self.linger() } else { Ok(()) }
    }

    /// Tells the peer that there is no more, and reads what it still sends: closing on unread bytes would reset the
    /// connection, and take the last answer away from a peer that has not read it yet.
    fn linger(&mut self) -> io::Result<()> {
        self.stream.shutdown(Shutdown::Write)?;
        let deadline = Instant::now() + LINGER_TIME;
        let mut drained = 0;
        while drained < LINGER_BYTES {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            self.stream.set_read_timeout(Some(left))?;
            self.input.clear();
            match self.stream.read(self.input.room())? {
                0 => break,
                n => drained += n,
            }
        }
        Ok(())
    }
}

fn is_timeout(e: &io::Error) -> bool {
    matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut)
}

/// What has been received and not consumed yet: `bytes[start..end]`. What follows is room for the next read.
pub struct Input {
    bytes: Vec<u8>,
    start: usize,
    end: usize,
}

impl Input {
    fn new() -> Self {
        Input { bytes: vec![0; SMALL], start: 0, end: 0 }
    }

    pub fn unread(&self) -> &[u8] {
        &self.bytes[self.start..self.end]
    }

    /// The bytes that will be `unread()[to..]` are those that are now `unread()[from..]`.
    pub fn cut(&mut self, to: usize, from: usize) {
        self.bytes.copy_within(self.start + from..self.end, self.start + to);
        self.end -= from - to;
    }

    /// Moves `unread()[from..from + len]` down to `unread()[to..]`.
    pub fn move_down(&mut self, to: usize, from: usize, len: usize) {
        let from = self.start + from;
        self.bytes.copy_within(from..from + len, self.start + to);
    }

    pub fn consume(&mut self, n: usize) {
        self.start += n;
    }

    fn clear(&mut self) {
        (self.start, self.end) = (0, 0);
    }

    /// Where the next read goes: never empty, and larger if the last one was filled.
    fn room(&mut self) -> &mut [u8] {
        let was_filled = self.end == self.bytes.len();
        if self.start > 0 {
            self.bytes.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
        }
        if self.end == self.bytes.len() || (was_filled && self.bytes.len() < KEPT) {
            self.bytes.resize(self.bytes.len() * 2, 0);
        }
        &mut self.bytes[self.end..]
    }

    fn received(&mut self, n: usize) {
        self.end += n;
    }

    /// Gives back what a large request has taken.
    fn shrink(&mut self) {
        if self.bytes.len() > KEPT {
            let unread = self.unread().to_vec();
            *self = Input::new();
            self.bytes[..unread.len()].copy_from_slice(&unread);
            self.end = unread.len();
        }
    }
}
