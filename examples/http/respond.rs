//! Answering a request: which handler, and the answer's bytes.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::Ordering;
use std::time::{SystemTime, UNIX_EPOCH};

use volt::time::{Duration, Instant};

use crate::Daemon;
use crate::connection::Connection;
use crate::request::{Method, Request, Target};

const OK: &str = "200 OK";
pub const BAD_REQUEST: &str = "400 Bad Request";
const NOT_FOUND: &str = "404 Not Found";
const METHOD_NOT_ALLOWED: &str = "405 Method Not Allowed";
pub const REQUEST_TIMEOUT: &str = "408 Request Timeout";
pub const CONTENT_TOO_LARGE: &str = "413 Content Too Large";
pub const EXPECTATION_FAILED: &str = "417 Expectation Failed";
pub const HEADERS_TOO_LARGE: &str = "431 Request Header Fields Too Large";
const INTERNAL_SERVER_ERROR: &str = "500 Internal Server Error";
pub const NOT_IMPLEMENTED: &str = "501 Not Implemented";
pub const HTTP_VERSION_NOT_SUPPORTED: &str = "505 HTTP Version Not Supported";

pub const CONTINUE: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\n";

/// What a handler has to say.
struct Answer<'a> {
    status: &'static str,
    content_type: &'static str,
    /// What a 405 allows instead.
    allow: Option<&'static str>,
    body: Cow<'a, [u8]>,
}

impl<'a> Answer<'a> {
    fn ok(content_type: &'static str, body: impl Into<Cow<'a, [u8]>>) -> Self {
        Answer { status: OK, content_type, allow: None, body: body.into() }
    }

    /// An answer whose text is its status.
    fn error(status: &'static str) -> Self {
        Answer { status, content_type: "text/plain", allow: None, body: status.as_bytes().into() }
    }

    fn not_allowed(allow: &'static str) -> Self {
        Answer { allow: Some(allow), ..Answer::error(METHOD_NOT_ALLOWED) }
    }
}

/// Answers the request at the front of the connection's unread bytes, and takes it from there. The answer is written
/// with its batch. False if it is the connection's last.
pub fn respond(conn: &mut Connection<'_>, request: &Request) -> bool {
    let body = &conn.input.unread()[request.body.clone()];
    // A panic has been reported when it gets here; it costs this connection, since its handler may be half done.
    let handled = catch_unwind(AssertUnwindSafe(|| handle(request, body, conn.daemon)));
    let panicked = handled.is_err();
    let answer = handled.unwrap_or_else(|_| Answer::error(INTERNAL_SERVER_ERROR));

    let stays = request.keep_alive && !panicked && !stopping(conn.daemon);
    let persistence = match (stays, request.http_1_0) {
        (false, _) => "Connection: close\r\n",
        (true, true) => "Connection: keep-alive\r\n",
        (true, false) => "",
    };
    write_answer(
        &mut conn.output,
        &conn.date,
        &answer,
        persistence,
        request.method != Method::Head,
    );
    conn.input.consume(request.body.end);
    stays
}

/// Adds the last answer to a client whose request cannot be served.
pub fn refuse(output: &mut Vec<u8>, date: &Date, status: &'static str) {
    write_answer(output, date, &Answer::error(status), "Connection: close\r\n", true);
}

pub fn stopping(daemon: &Daemon) -> bool {
    daemon.stopping.load(Ordering::Relaxed)
}

/// The routes.
fn handle<'a>(request: &Request, body: &'a [u8], daemon: &Daemon) -> Answer<'a> {
    let reads = matches!(request.method, Method::Get | Method::Head);
    match request.target {
        Target::Hello if reads => Answer::ok("text/plain", b"Hello, World!".as_slice()),
        Target::Stats if reads => Answer::ok("application/json", stats(daemon).into_bytes()),
        Target::Panic if reads => panic!("GET /panic was asked for"),
        Target::Echo if request.method == Method::Post => {
            Answer::ok("application/octet-stream", body)
        }
        Target::Hello | Target::Stats | Target::Panic => Answer::not_allowed("GET, HEAD"),
        Target::Echo => Answer::not_allowed("POST"),
        Target::Unknown => Answer::error(NOT_FOUND),
    }
}

/// The daemon's state as JSON: numbers only, so there is nothing to escape.
fn stats(daemon: &Daemon) -> String {
    let stats = daemon.runtime.stats();
    let connections = daemon.lock().len();
    let mut json = String::new();
    let _ =
        write!(json, r#"{{"live_fibers":{},"connections":{connections},"workers":["#, stats.live);
    for (i, worker) in stats.workers.iter().enumerate() {
        json.push_str(if i > 0 { ",{" } else { "{" });
        for (j, (name, count)) in worker.iter().enumerate() {
            let comma = if j > 0 { "," } else { "" };
            let _ = write!(json, r#"{comma}"{name}":{count}"#);
        }
        json.push('}');
    }
    json.push_str("]}\n");
    json
}

fn write_answer(
    output: &mut Vec<u8>,
    date: &Date,
    answer: &Answer<'_>,
    persistence: &str,
    with_body: bool,
) {
    let mut length = [0; 20];
    output.reserve(256);
    put(output, "HTTP/1.1 ");
    put(output, answer.status);
    put(output, "\r\nDate: ");
    output.extend_from_slice(&date.text);
    put(output, "\r\nContent-Type: ");
    put(output, answer.content_type);
    put(output, "\r\nContent-Length: ");
    output.extend_from_slice(decimal(answer.body.len(), &mut length));
    put(output, "\r\n");
    put(output, persistence);
    if let Some(allow) = answer.allow {
        put(output, "Allow: ");
        put(output, allow);
        put(output, "\r\n");
    }
    put(output, "\r\n");
    if with_body {
        output.extend_from_slice(&answer.body);
    }
}

fn put(output: &mut Vec<u8>, text: &str) {
    output.extend_from_slice(text.as_bytes());
}

/// Writes `n` into the end of `buffer`: the formatting machinery would cost more than the rest of an answer.
fn decimal(mut n: usize, buffer: &mut [u8; 20]) -> &[u8] {
    let mut at = buffer.len();
    loop {
        at -= 1;
        buffer[at] = b'0' + (n % 10) as u8;
        n /= 10;
        if n == 0 {
            return &buffer[at..];
        }
    }
}

/// The Date header's value. The system's clock is asked when the second is over, and not for each answer.
#[derive(Debug)]
pub struct Date {
    /// Seconds since the epoch that `text` stands for.
    second: u64,
    text: [u8; 29],
    /// Until then it is what it is; `None` before the first look.
    next: Option<Instant>,
}

impl Default for Date {
    fn default() -> Self {
        Date { second: 0, text: *b"Thu, 01 Jan 1970 00:00:00 GMT", next: None }
    }
}

impl Date {
    pub fn refresh(&mut self) {
        if self.next.is_none_or(|next| next.has_passed()) {
            self.look();
        }
    }

    #[cold]
    fn look(&mut self) {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let left = Duration::from_secs(1) - Duration::from_nanos(now.subsec_nanos().into());
        (self.second, self.next) = (now.as_secs(), Some(Instant::now() + left));
        self.format();
    }

    fn format(&mut self) {
        let (days, second) = (self.second / 86_400, self.second % 86_400);
        let (year, month, day) = civil(days);
        let name = |names: &'static [u8], i: u64| &names[i as usize * 3..][..3];
        self.text[..3].copy_from_slice(name(b"ThuFriSatSunMonTueWed", days % 7));
        self.text[8..11].copy_from_slice(name(b"JanFebMarAprMayJunJulAugSepOctNovDec", month - 1));
        let pairs = [
            (5, day),
            (12, year / 100),
            (14, year % 100),
            (17, second / 3600),
            (20, second / 60 % 60),
        ];
        for (at, n) in pairs.into_iter().chain([(23, second % 60)]) {
            self.text[at] = b'0' + (n / 10 % 10) as u8;
            self.text[at + 1] = b'0' + (n % 10) as u8;
        }
    }
}

/// Year, month and day of a number of days since 1970-01-01 in the Gregorian calendar: Howard Hinnant's
/// `civil_from_days`, whose years begin in March, so that a leap day is a year's last.
fn civil(days: u64) -> (u64, u64, u64) {
    let days = days + 719_468;
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * from_march + 2) / 5 + 1;
    let month = if from_march < 10 { from_march + 3 } else { from_march - 9 };
    (era * 400 + year_of_era + u64::from(month <= 2), month, day)
}
