//! Reading a request: its head by httparse, its body by Content-Length or chunked.
//!
//! What two implementations could read in two ways is refused, since that is what request smuggling lives on: both
//! kinds of length at once, a repeated length, line breaks other than `\r\n`, folded headers, sizes that are not plain
//! digits.

use std::mem::MaybeUninit;
use std::ops::Range;

use httparse::{Error, Header, Status};
use volt::time::Duration;

use crate::connection::{Connection, End};
use crate::respond::{
    BAD_REQUEST, CONTENT_TOO_LARGE, CONTINUE, EXPECTATION_FAILED, HEADERS_TOO_LARGE,
    HTTP_VERSION_NOT_SUPPORTED, NOT_IMPLEMENTED,
};

const MAX_HEAD: usize = 16 << 10;
const MAX_HEADERS: usize = 64;
pub const MAX_BODY: usize = 1 << 20;
/// The longest line of a chunked body: a chunk's size with its extensions.
const MAX_CHUNK_LINE: usize = 256;
const MAX_TRAILERS: usize = 4 << 10;
/// How long a body may take once the head is there.
const BODY_TIMEOUT: Duration = Duration::from_secs(30);

/// A complete request; it stands at the front of its connection's unread bytes.
#[derive(Debug)]
pub struct Request {
    pub method: Method,
    pub target: Target,
    pub http_1_0: bool,
    pub keep_alive: bool,
    /// Where the body is among the unread bytes; its end is the end of the request.
    pub body: Range<usize>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Method {
    Get,
    Head,
    Post,
    Other,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Target {
    Hello,
    Echo,
    Stats,
    Panic,
    Unknown,
}

/// A request's head, as far as it matters from here on.
struct Head {
    method: Method,
    target: Target,
    http_1_0: bool,
    /// Whether the client asks for the connection to stay, and whether it asks for its end.
    keep_alive: bool,
    closes: bool,
    expects_continue: bool,
    body: Framing,
    /// How many bytes it has.
    len: usize,
}

enum Framing {
    Length(usize),
    Chunked,
}

/// Reads the next request, body included.
pub fn read_request(conn: &mut Connection<'_>) -> Result<Request, End> {
    let head = loop {
        if let Some(head) = parse_head(conn.input.unread()).map_err(End::Refused)? {
            break head;
        }
        conn.fill()?;
    };
    let body_len = match head.body {
        Framing::Length(0) => 0,
        _ => read_body(conn, &head)?,
    };
    conn.end_deadline()?;
    Ok(Request {
        method: head.method,
        target: head.target,
        http_1_0: head.http_1_0,
        keep_alive: head.keep_alive && !head.closes,
        body: head.len..head.len + body_len,
    })
}

fn read_body(conn: &mut Connection<'_>, head: &Head) -> Result<usize, End> {
    let arrived = conn.input.unread().len() - head.len;
    if !matches!(head.body, Framing::Length(len) if len <= arrived) {
        conn.set_deadline(BODY_TIMEOUT);
    }
    if head.expects_continue && arrived == 0 {
        conn.output.extend_from_slice(CONTINUE);
    }
    match head.body {
        Framing::Length(len) => fill_to(conn, head.len + len).map(|()| len),
        Framing::Chunked => read_chunks(conn, head.len),
    }
}

/// Reads until there are `len` unread bytes.
fn fill_to(conn: &mut Connection<'_>, len: usize) -> Result<(), End> {
    while conn.input.unread().len() < len {
        conn.fill()?;
    }
    Ok(())
}

/// Decodes a chunked body in place, so that it follows the head without gaps, and returns its length.
fn read_chunks(conn: &mut Connection<'_>, head: usize) -> Result<usize, End> {
    // The body so far ends at `end`; the encoded rest begins at `next`.
    let (mut end, mut next) = (head, head);
    loop {
        let line = read_line(conn, end, &mut next, MAX_CHUNK_LINE, BAD_REQUEST)?;
        let size = chunk_size(&conn.input.unread()[line]).map_err(End::Refused)?;
        if size == 0 {
            break;
        }
        if end - head + size > MAX_BODY {
            return Err(End::Refused(CONTENT_TOO_LARGE));
        }
        need(conn, end, &mut next, size + 2)?;
        conn.input.move_down(end, next, size);
        if &conn.input.unread()[next + size..next + size + 2] != b"\r\n" {
            return Err(End::Refused(BAD_REQUEST));
        }
        (end, next) = (end + size, next + size + 2);
    }
    skip_trailers(conn, end, &mut next)?;
    conn.input.cut(end, next);
    Ok(end - head)
}

/// Makes sure that `len` bytes follow `next`; closes the gap between `end` and `next` before it reads.
fn need(conn: &mut Connection<'_>, end: usize, next: &mut usize, len: usize) -> Result<(), End> {
    if conn.input.unread().len() < *next + len {
        conn.input.cut(end, *next);
        *next = end;
        fill_to(conn, end + len)?;
    }
    Ok(())
}

/// Takes the line at `next` and returns where it is, without its line break.
fn read_line(
    conn: &mut Connection<'_>,
    end: usize,
    next: &mut usize,
    limit: usize,
    too_long: &'static str,
) -> Result<Range<usize>, End> {
    loop {
        let rest = &conn.input.unread()[*next..];
        match rest.iter().position(|&b| b == b'\n') {
            Some(at) if at <= limit && rest[..at].ends_with(b"\r") => {
                let line = *next..*next + at - 1;
                *next += at + 1;
                return Ok(line);
            }
            None if rest.len() <= limit => {
                let len = rest.len() + 1;
                need(conn, end, next, len)?;
            }
            Some(at) if at <= limit => return Err(End::Refused(BAD_REQUEST)),
            _ => return Err(End::Refused(too_long)),
        }
    }
}

/// The size in a chunk's first line: hexadecimal digits, then nothing or an extension, which is ignored.
fn chunk_size(line: &[u8]) -> Result<usize, &'static str> {
    let digits = line.iter().take_while(|b| b.is_ascii_hexdigit()).count();
    let extension = line[digits..].trim_ascii_start();
    let well_formed = extension.is_empty() && line.len() == digits || extension.starts_with(b";");
    if digits == 0 || !well_formed || line.iter().any(|&b| b.is_ascii_control() && b != b'\t') {
        return Err(BAD_REQUEST);
    }
    let digits = std::str::from_utf8(&line[..digits]).map_err(|_| BAD_REQUEST)?;
    match usize::from_str_radix(digits, 16) {
        Ok(size) if size <= MAX_BODY => Ok(size),
        _ => Err(CONTENT_TOO_LARGE),
    }
}

/// Reads the header lines after the last chunk, which must be well formed and are not looked at.
fn skip_trailers(conn: &mut Connection<'_>, end: usize, next: &mut usize) -> Result<(), End> {
    let mut left = MAX_TRAILERS;
    loop {
        let line = read_line(conn, end, next, left, HEADERS_TOO_LARGE)?;
        if line.is_empty() {
            return Ok(());
        }
        left = left.saturating_sub(line.len() + 2);
        let mut header = [httparse::EMPTY_HEADER];
        let with_break = &conn.input.unread()[line.start..line.end + 2];
        // A line alone is no whole block of headers, so what is well formed is partial.
        if httparse::parse_headers(with_break, &mut header) != Ok(Status::Partial) {
            return Err(End::Refused(BAD_REQUEST));
        }
    }
}

/// Parses the head at the front of `unread`; `None` if it is not complete.
///
/// A function of its own: the room for headers is half a page of the fiber's stack, which is not there while it waits.
#[inline(never)]
fn parse_head(unread: &[u8]) -> Result<Option<Head>, &'static str> {
    if unread.is_empty() {
        return Ok(None);
    }
    let mut headers = [const { MaybeUninit::uninit() }; MAX_HEADERS];
    let mut request = httparse::Request::new(&mut []);
    let len = match request.parse_with_uninit_headers(unread, &mut headers) {
        Ok(Status::Complete(len)) if len <= MAX_HEAD => len,
        Ok(Status::Partial) if unread.len() < MAX_HEAD => return Ok(None),
        Ok(_) | Err(Error::TooManyHeaders) => return Err(HEADERS_TOO_LARGE),
        Err(Error::Version) => return Err(wrong_version(unread)),
        Err(_) => return Err(BAD_REQUEST),
    };
    if has_bare_line_feed(&unread[..len]) {
        return Err(BAD_REQUEST);
    }
    let (Some(method), Some(path), Some(version)) = (request.method, request.path, request.version)
    else {
        return Err(BAD_REQUEST);
    };
    let http_1_0 = version == 0;
    let mut head = Head {
        method: parse_method(method),
        target: parse_target(method, path)?,
        http_1_0,
        keep_alive: !http_1_0,
        closes: false,
        expects_continue: false,
        body: Framing::Length(0),
        len,
    };
    read_headers(&mut head, request.headers)?;
    Ok(Some(head))
}

/// httparse takes `\n` for a line break where `\r\n` is due.
fn has_bare_line_feed(head: &[u8]) -> bool {
    head[0] == b'\n'
        || head
            .iter()
            .zip(&head[1..])
            .fold(false, |bad, (a, b)| bad | ((*b == b'\n') & (*a != b'\r')))
}

/// Tells another version of HTTP from something that is none.
fn wrong_version(unread: &[u8]) -> &'static str {
    let line = unread.trim_ascii_start().split(|&b| b == b'\r' || b == b'\n').next();
    let version = line.and_then(|line| line.splitn(3, |&b| b == b' ').nth(2));
    match version.and_then(|version| version.strip_prefix(b"HTTP/")) {
        Some([b'0'..=b'9', ..]) => HTTP_VERSION_NOT_SUPPORTED,
        _ => BAD_REQUEST,
    }
}

fn parse_method(method: &str) -> Method {
    match method {
        "GET" => Method::Get,
        "HEAD" => Method::Head,
        "POST" => Method::Post,
        _ => Method::Other,
    }
}

/// Reads a target of the forms `/path?query`, `http://host/path?query` and, for OPTIONS, `*`.
fn parse_target(method: &str, target: &str) -> Result<Target, &'static str> {
    let path = if target.starts_with('/') {
        target
    } else if target.get(..7).is_some_and(|scheme| scheme.eq_ignore_ascii_case("http://")) {
        let after = &target[7..];
        match after.find(['/', '?']) {
            Some(0) => return Err(BAD_REQUEST),
            Some(at) if after.as_bytes()[at] == b'/' => &after[at..],
            _ => "/",
        }
    } else if method == "OPTIONS" && target == "*" {
        return Ok(Target::Unknown);
    } else {
        return Err(BAD_REQUEST);
    };
    Ok(match path.split('?').next() {
        Some("/") => Target::Hello,
        Some("/echo") => Target::Echo,
        Some("/stats") => Target::Stats,
        Some("/panic") => Target::Panic,
        _ => Target::Unknown,
    })
}

fn read_headers(head: &mut Head, headers: &[Header<'_>]) -> Result<(), &'static str> {
    let (mut host, mut length, mut coding) = (None, None, None);
    for header in headers {
        let (name, value) = (header.name, header.value);
        if name.eq_ignore_ascii_case("host") {
            once(&mut host, value)?;
        } else if name.eq_ignore_ascii_case("content-length") {
            once(&mut length, value)?;
        } else if name.eq_ignore_ascii_case("transfer-encoding") {
            once(&mut coding, value)?;
        } else if name.eq_ignore_ascii_case("connection") {
            read_connection(head, value);
        } else if name.eq_ignore_ascii_case("expect") && !head.http_1_0 {
            head.expects_continue = value.eq_ignore_ascii_case(b"100-continue");
            if !head.expects_continue {
                return Err(EXPECTATION_FAILED);
            }
        }
    }
    match host {
        Some(host) if !host.iter().all(|&b| is_host_byte(b)) => return Err(BAD_REQUEST),
        None if !head.http_1_0 => return Err(BAD_REQUEST),
        _ => {}
    }
    head.body = framing(head.http_1_0, length, coding)?;
    Ok(())
}

fn once<'a>(place: &mut Option<&'a [u8]>, value: &'a [u8]) -> Result<(), &'static str> {
    match place.replace(value) {
        None => Ok(()),
        Some(_) => Err(BAD_REQUEST),
    }
}

/// `close` wins over `keep-alive`, whichever comes first.
fn read_connection(head: &mut Head, value: &[u8]) {
    let mut tokens = value.split(|&b| b == b',').map(<[u8]>::trim_ascii);
    if tokens.clone().any(|token| token.eq_ignore_ascii_case(b"close")) {
        head.closes = true;
    } else if tokens.any(|token| token.eq_ignore_ascii_case(b"keep-alive")) {
        head.keep_alive = true;
    }
}

fn is_host_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric()
        // The marks of a host and a port (RFC 3986).
        || matches!(byte, b'!' | b'$' | b'%' | b'&'..=b'.' | b':' | b';' | b'=' | b'[' | b']' | b'_' | b'~')
}

fn framing(
    http_1_0: bool,
    length: Option<&[u8]>,
    coding: Option<&[u8]>,
) -> Result<Framing, &'static str> {
    match (length, coding) {
        (None, None) => Ok(Framing::Length(0)),
        (Some(digits), None) => content_length(digits).map(Framing::Length),
        (None, Some(_)) if http_1_0 => Err(BAD_REQUEST),
        (None, Some(coding)) if coding.eq_ignore_ascii_case(b"chunked") => Ok(Framing::Chunked),
        (None, Some(_)) => Err(NOT_IMPLEMENTED),
        (Some(_), Some(_)) => Err(BAD_REQUEST),
    }
}

fn content_length(digits: &[u8]) -> Result<usize, &'static str> {
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return Err(BAD_REQUEST);
    }
    let digits = std::str::from_utf8(digits).map_err(|_| BAD_REQUEST)?;
    match digits.parse() {
        Ok(length) if length <= MAX_BODY => Ok(length),
        _ => Err(CONTENT_TOO_LARGE),
    }
}
