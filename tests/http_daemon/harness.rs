//! The daemon as a child process, and a client that says exactly what it is told.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime};

/// After this a test has failed, however slow the machine.
pub const PATIENCE: Duration = Duration::from_secs(20);

/// A running daemon; killed when dropped.
pub struct Server {
    pub addr: SocketAddr,
    child: Child,
    stderr: Arc<Mutex<String>>,
    reader: Option<JoinHandle<()>>,
}

impl Server {
    pub fn start() -> Self {
        Self::with(&[], None)
    }

    /// Starts it with further flags, and with at most `descriptors` open files.
    pub fn with(flags: &[&str], descriptors: Option<u64>) -> Self {
        let mut command = Command::new(binary());
        command.args(["--addr", "127.0.0.1:0"]).args(flags);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let limit = descriptors.unwrap_or_else(raise_descriptor_limit);
        // SAFETY: between fork and exec only setrlimit is called, which is async-signal-safe.
        unsafe { command.pre_exec(move || set_descriptor_limit(limit)) };
        let mut child = command.spawn().expect("the example starts");

        let mut line = String::new();
        let stdout = child.stdout.take().expect("stdout is a pipe");
        BufReader::new(stdout).read_line(&mut line).expect("the daemon tells its address");
        let addr = line.trim_end().strip_prefix("listening on http://");
        let addr =
            addr.unwrap_or_else(|| panic!("expected an address, the daemon printed {line:?}"));
        let stderr = Arc::new(Mutex::new(String::new()));
        let reader = collect(child.stderr.take().expect("stderr is a pipe"), Arc::clone(&stderr));
        Server { addr: addr.parse().expect("an address"), child, stderr, reader: Some(reader) }
    }

    pub fn connect(&self) -> Client {
        Client::new(TcpStream::connect(self.addr).expect("the daemon accepts"))
    }

    /// Sends `request` on a connection of its own and returns the first answer.
    pub fn ask(&self, request: impl AsRef<[u8]>) -> Answer {
        let mut client = self.connect();
        client.send(request);
        client.answer()
    }

    /// Sends what must be refused: the answer has `status`, says that it is the last, and the connection ends.
    #[track_caller]
    pub fn refuses(&self, request: impl AsRef<[u8]>, status: u16) {
        let request = request.as_ref();
        let shown = String::from_utf8_lossy(&request[..request.len().min(200)]).into_owned();
        let mut client = self.connect();
        client.send(request);
        let answer = client.answer();
        assert_eq!(answer.status, status, "for {shown:?}");
        assert_eq!(answer.header("connection"), Some("close"), "for {shown:?}");
        client.expect_end();
    }

    pub fn terminate(&self) {
        self.signal(libc::SIGTERM);
    }

    pub fn signal(&self, signal: i32) {
        // SAFETY: the child has not been waited for, so the id is still its own.
        let result = unsafe { libc::kill(self.child.id() as libc::pid_t, signal) };
        assert_eq!(result, 0);
    }

    /// Waits for its end, at most until `limit` has passed. All that it has written is there then.
    pub fn wait(&mut self, limit: Duration) -> ExitStatus {
        let child = &mut self.child;
        let status = poll(limit, "the daemon exits", || child.try_wait().expect("it is our child"));
        if let Some(reader) = self.reader.take() {
            reader.join().expect("reading does not panic");
        }
        status
    }

    /// What it has written to stderr so far.
    pub fn stderr(&self) -> String {
        self.stderr.lock().unwrap().clone()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The example stands beside the directory that holds this test's executable. `cargo test` builds it, `cargo test
/// --test http_daemon` does not: so that nobody tests yesterday's daemon, one older than its sources is refused.
pub fn binary() -> PathBuf {
    let test = std::env::current_exe().expect("a test knows its executable");
    let profile = test.parent().and_then(|deps| deps.parent());
    let binary = profile.expect("target/<profile>/deps/<test>").join("examples").join("http");
    let advice = "run `cargo build --example http` for this profile first";
    let shown = binary.display();
    let built = modified(&binary).unwrap_or_else(|| panic!("no {shown}: {advice}"));
    // Cargo's list of what went into it: `binary: source source ...`.
    let sources =
        std::fs::read_to_string(binary.with_extension("d")).expect("cargo lists the sources");
    for source in sources.split_whitespace().skip(1) {
        let fresh = modified(Path::new(source)).is_some_and(|changed| changed <= built);
        assert!(fresh, "{shown} is older than {source}: {advice}");
    }
    binary
}

fn modified(path: &Path) -> Option<SystemTime> {
    path.metadata().and_then(|metadata| metadata.modified()).ok()
}

fn collect(mut from: impl Read + Send + 'static, into: Arc<Mutex<String>>) -> JoinHandle<()> {
    std::thread::spawn(move || {
        let mut buffer = [0; 1024];
        while let Ok(n @ 1..) = from.read(&mut buffer) {
            into.lock().unwrap().push_str(&String::from_utf8_lossy(&buffer[..n]));
        }
    })
}

/// Sets the soft limit of open files to the hard one, and returns it.
pub fn raise_descriptor_limit() -> u64 {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the struct is alive for the call.
    let result = unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) };
    assert_eq!(result, 0);
    let most = limit.rlim_max.min(1 << 16);
    set_descriptor_limit(most).expect("the soft limit may rise to the hard one");
    most
}

fn set_descriptor_limit(soft: u64) -> io::Result<()> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the struct is alive for both calls.
    let failed = unsafe {
        libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit);
        limit.rlim_cur = soft;
        libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit) != 0
    };
    if failed { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Asks until there is a result.
#[track_caller]
pub fn poll<T>(limit: Duration, what: &str, mut ask: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + limit;
    loop {
        if let Some(result) = ask() {
            return result;
        }
        assert!(Instant::now() < deadline, "waited {limit:?} in vain until {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl Answer {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers
            .iter()
            .find(|(n, _)| n.eq_ignore_ascii_case(name))
            .map(|(_, value)| value.as_str())
    }

    pub fn text(&self) -> &str {
        std::str::from_utf8(&self.body).expect("the body is text")
    }
}

pub struct Client {
    pub stream: TcpStream,
    unread: Vec<u8>,
}

impl Client {
    pub fn new(stream: TcpStream) -> Self {
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.set_nodelay(true).unwrap();
        Client { stream, unread: Vec::new() }
    }

    pub fn send(&mut self, bytes: impl AsRef<[u8]>) {
        self.stream.write_all(bytes.as_ref()).expect("the daemon reads");
    }

    pub fn finish_sending(&self) {
        self.stream.shutdown(Shutdown::Write).expect("the connection is open");
    }

    /// The next answer, to anything but HEAD.
    #[track_caller]
    pub fn answer(&mut self) -> Answer {
        self.try_answer(true).expect("an answer")
    }

    /// The next answer, to HEAD.
    #[track_caller]
    pub fn answer_to_head(&mut self) -> Answer {
        self.try_answer(false).expect("an answer")
    }

    pub fn try_answer(&mut self, has_body: bool) -> io::Result<Answer> {
        let head = loop {
            match self.unread.windows(4).position(|four| four == b"\r\n\r\n") {
                Some(at) => break self.unread.drain(..at + 4).collect::<Vec<_>>(),
                None => self.read()?,
            }
        };
        let head = String::from_utf8(head).expect("the head is text");
        let mut lines = head.split_terminator("\r\n");
        let status =
            lines.next().and_then(|line| line.strip_prefix("HTTP/1.1 ")).expect("a status line");
        let status = status[..3].parse().expect("a status");
        let headers = lines.take_while(|line| !line.is_empty());
        let headers = headers.map(|line| line.split_once(": ").expect("a header"));
        let headers = headers.map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
        let mut answer = Answer { status, headers, body: Vec::new() };
        if has_body && status >= 200 {
            let len = answer.header("content-length").expect("a length").parse().expect("a number");
            while self.unread.len() < len {
                self.read()?;
            }
            answer.body = self.unread.drain(..len).collect();
        }
        Ok(answer)
    }

    /// Waits until the daemon closes, having said nothing more.
    #[track_caller]
    pub fn expect_end(&mut self) {
        let end = self.read().expect_err("nothing more to read");
        assert_eq!(end.kind(), io::ErrorKind::UnexpectedEof, "{end}");
        assert!(self.unread.is_empty());
    }

    fn read(&mut self) -> io::Result<()> {
        let mut buffer = [0; 4096];
        // With a timeout set, a signal (a debugger's stop) interrupts a read whatever SA_RESTART says.
        let read = loop {
            match self.stream.read(&mut buffer) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                result => break result?,
            }
        };
        match read {
            0 => Err(io::ErrorKind::UnexpectedEof.into()),
            n => {
                self.unread.extend_from_slice(&buffer[..n]);
                Ok(())
            }
        }
    }
}
