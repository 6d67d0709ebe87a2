//! What the peer servers share: their two flags and the body they answer with.

use std::process::exit;

/// The body of every answer.
pub const BODY: &[u8] = b"Hello, World!";

/// The flags of a peer server.
#[derive(Debug)]
pub struct Options {
    /// `--addr`: where to listen.
    pub addr: String,
    /// `--workers`: how many threads serve; as many as there are cores if it is not given.
    pub workers: usize,
}

impl Options {
    /// Reads the command line; ends the process with a message if it cannot.
    #[must_use]
    pub fn from_args() -> Self {
        let mut options = Options {
            addr: "127.0.0.1:8080".to_owned(),
            workers: std::thread::available_parallelism().map_or(1, usize::from),
        };
        let mut args = std::env::args().skip(1);
        while let Some(flag) = args.next() {
            let Some(value) = args.next() else {
                fail(&format!("{flag} needs a value"));
            };
            match (flag.as_str(), value.parse()) {
                ("--addr", _) => options.addr = value,
                ("--workers", Ok(n)) if n > 0 => options.workers = n,
                ("--workers", _) => {
                    fail(&format!("--workers takes a number from 1 on, not {value:?}"))
                }
                _ => fail(&format!("unknown flag {flag:?}; there are --addr and --workers")),
            }
        }
        options
    }
}

fn fail(why: &str) -> ! {
    eprintln!("{why}");
    exit(2);
}
