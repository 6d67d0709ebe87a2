//! An HTTP/1.1 daemon with a fiber per connection, written as blocking code.
//!
//! ```text
//! $ cargo run --release --example http -- --addr 127.0.0.1:8080
//! listening on http://127.0.0.1:8080
//!
//! $ curl http://127.0.0.1:8080/                      # in another terminal
//! Hello, World!
//! $ curl --data-binary 'one two' http://127.0.0.1:8080/echo
//! one two
//! $ curl http://127.0.0.1:8080/stats                 # live fibers, what each worker has done
//! $ curl -i http://127.0.0.1:8080/panic              # a handler that panics: 500, everyone else goes on
//! ```
//!
//! Ctrl-c or SIGTERM ends it: it stops accepting, closes idle connections, gives requests in flight five seconds to
//! finish and exits with 0.
//!
//! How to read it: `main` and `accept` here; `serve`, which is the life of a connection, in `connection.rs`;
//! `read_request` in `request.rs`; `respond` in `respond.rs`. A connection's fiber waits wherever the code reads or
//! writes. At shutdown every fiber is cancelled, which ends the wait for a *next* request; whatever happens once the
//! first byte of a request is there is shielded from that.

mod args;
mod connection;
mod request;
mod respond;

use std::collections::HashMap;
use std::io::{self, ErrorKind};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use volt::cancel::{is_cancelled, shield};
use volt::net::{Shutdown, TcpListener, TcpStream};
use volt::runtime::{Builder, Handle};
use volt::signal::{Signal, Signals};
use volt::thread::{JoinHandle, Thread};
use volt::time::{Duration, Instant};

use args::Args;

/// How long requests in flight may take once the daemon is told to stop.
const GRACE: Duration = Duration::from_secs(5);
/// How long to leave the backlog alone when there are no descriptors (or no memory) left.
const BACK_OFF: Duration = Duration::from_millis(50);
/// Failures to accept that are closer together than this are one episode, and reported once.
const EPISODE: Duration = Duration::from_secs(10);

/// What all connections share.
struct Daemon {
    args: Args,
    runtime: Handle,
    /// Set once, at shutdown: from then on every answer closes its connection.
    stopping: AtomicBool,
    /// The open connections by number: entered by `accept`, left by each one's own fiber. A lock that
    /// blocks the thread will do, since nobody waits while holding it.
    connections: Mutex<HashMap<u64, Open>>,
    /// The fiber of `run`: unparked when a connection has left after the signal.
    main: Thread,
}

/// An open connection, as shutdown sees it.
struct Open {
    fiber: JoinHandle<()>,
    stream: Arc<TcpStream>,
}

fn main() -> ExitCode {
    let args = match Args::parse(std::env::args().skip(1)) {
        Ok(Some(args)) => args,
        Ok(None) => {
            print!("{}", args::HELP);
            return ExitCode::SUCCESS;
        }
        Err(why) => {
            eprintln!("{why}\n\n{}", args::HELP);
            return ExitCode::from(2);
        }
    };
    match start(args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("{e}");
            ExitCode::FAILURE
        }
    }
}

fn start(args: Args) -> io::Result<()> {
    let mut builder = Builder::new();
    if let Some(workers) = args.workers {
        builder = builder.workers(workers);
    }
    let runtime = builder.build()?;
    let handle = runtime.handle().clone();
    runtime.run(move || run(args, handle))
}

/// The daemon's life: listen, wait for a signal, stop.
fn run(args: Args, runtime: Handle) -> io::Result<()> {
    let mut signals = Signals::new([Signal::Terminate, Signal::Interrupt])?;
    let listener = TcpListener::bind(&args.addr)
        .map_err(|e| io::Error::new(e.kind(), format!("cannot listen on {}: {e}", args.addr)))?;
    println!("listening on http://{}", listener.local_addr()?);

    let daemon = Arc::new(Daemon {
        args,
        runtime,
        stopping: AtomicBool::new(false),
        connections: Mutex::default(),
        main: volt::thread::current(),
    });
    let acceptor = volt::go({
        let daemon = Arc::clone(&daemon);
        move || accept(&listener, &daemon)
    });

    signals.recv()?;
    daemon.stopping.store(true, Ordering::Relaxed);
    acceptor.cancel();
    let _ = acceptor.join();
    daemon.close_connections();
    Ok(())
}

/// Starts a fiber for each connection until it is cancelled.
fn accept(listener: &TcpListener, daemon: &Arc<Daemon>) {
    let mut number = 0;
    let mut last_failure: Option<Instant> = None;
    loop {
        match listener.accept() {
            Ok((stream, _)) => {
                number += 1;
                daemon.open(number, stream);
            }
            Err(e) if is_cancelled(&e) => break,
            // The peer gave up while it stood in the backlog.
            Err(e) if matches!(e.kind(), ErrorKind::ConnectionAborted | ErrorKind::Interrupted) => {
            }
            // No descriptors left (EMFILE, ENFILE) or no memory: connections that end give some back.
            Err(e) => {
                if last_failure.is_none_or(|t| t.elapsed() > EPISODE) {
                    eprintln!("cannot accept connections for now: {e}");
                }
                last_failure = Some(Instant::now());
                shield(|| volt::thread::sleep(BACK_OFF));
            }
        }
    }
    // Those who are connected already have been promised an answer: take what is in the backlog along.
    shield(|| {
        let _ = listener.set_nonblocking(true);
        while let Ok((stream, _)) = listener.accept() {
            let _ = stream.set_nonblocking(false);
            number += 1;
            daemon.open(number, stream);
        }
    });
}

impl Daemon {
    /// Starts the fiber of a new connection.
    fn open(self: &Arc<Self>, number: u64, stream: TcpStream) {
        let stream = Arc::new(stream);
        // Held until the entry is there, so that even a fiber that ends at once finds it.
        let mut connections = self.lock();
        let fiber = volt::go({
            let guest = Guest { daemon: Arc::clone(self), number };
            let stream = Arc::clone(&stream);
            move || connection::serve(&stream, &guest.daemon)
        });
        connections.insert(number, Open { fiber, stream });
    }

    /// Closes the idle connections, then waits for the others, then cuts off what is left.
    fn close_connections(&self) {
        self.lock().values().for_each(|open| open.fiber.cancel());
        self.wait_until_empty(GRACE);
        let left = self.lock();
        if !left.is_empty() {
            eprintln!("cutting off {} connections that are still busy after {GRACE:?}", left.len());
            left.values().for_each(|open| drop(open.stream.shutdown(Shutdown::Both)));
            drop(left);
            self.wait_until_empty(Duration::from_millis(500));
        }
    }

    fn wait_until_empty(&self, limit: Duration) {
        let deadline = Instant::now() + limit;
        while !self.lock().is_empty() && Instant::now() < deadline {
            volt::thread::park_timeout(deadline.duration_since(Instant::now()));
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<u64, Open>> {
        self.connections.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A connection's place in the daemon's map; it is left even if the connection's fiber panics.
struct Guest {
    daemon: Arc<Daemon>,
    number: u64,
}

impl Drop for Guest {
    fn drop(&mut self) {
        let open = self.daemon.lock().remove(&self.number);
        // Closes the socket, which need not happen under the lock.
        drop(open);
        if self.daemon.stopping.load(Ordering::Relaxed) {
            self.daemon.main.unpark();
        }
    }
}
