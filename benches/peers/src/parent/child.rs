//! A process that is measured: what it says, line by line, and its end.
//!
//! Each line is a key and a value: a figure, or `stage` and a name, upon which the process waits
//! for an answer.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

/// What a process may take to say its next line; then it hangs.
const PATIENCE: Duration = Duration::from_secs(120);

/// Figures by key.
pub type Figures = BTreeMap<String, f64>;

/// A process; it ends with this value.
#[derive(Debug)]
pub struct Process {
    child: Child,
    answers: ChildStdin,
    lines: Receiver<String>,
}

impl Process {
    pub fn start(mut command: Command) -> Result<Process, String> {
        let child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let name = command.get_program().to_string_lossy().into_owned();
        let mut child = child.map_err(|e| format!("{name} does not start: {e}"))?;
        let answers = child.stdin.take().expect("its input is piped");
        let output = BufReader::new(child.stdout.take().expect("its output is piped"));
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            output.lines().map_while(Result::ok).try_for_each(|line| sender.send(line))
        });
        Ok(Process { child, answers, lines })
    }

    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Reads to the end. `at` is called at each stage, while the process waits.
    pub fn finish(
        mut self,
        mut at: impl FnMut(&Process, &str) -> Result<(), String>,
    ) -> Result<Figures, String> {
        let mut figures = Figures::new();
        loop {
            match self.lines.recv_timeout(PATIENCE) {
                Ok(line) => match line.split_once(' ') {
                    Some(("stage", name)) => {
                        at(&self, name)?;
                        let answered = self.answers.write_all(b"\n");
                        answered.map_err(|e| format!("it does not listen: {e}"))?;
                    }
                    Some((key, value)) => {
                        let value = value.parse().map_err(|_| format!("it said {line:?}"))?;
                        figures.insert(key.to_owned(), value);
                    }
                    None => return Err(format!("it said {line:?}")),
                },
                Err(RecvTimeoutError::Timeout) => {
                    return Err(format!("it hangs: nothing for {} s", PATIENCE.as_secs()));
                }
                Err(RecvTimeoutError::Disconnected) => break,
            }
        }
        match self.child.wait() {
            Ok(status) if status.success() => Ok(figures),
            Ok(status) => Err(format!("it ended with {status}")),
            Err(e) => Err(e.to_string()),
        }
    }

    /// Waits until a server accepts on `addr`.
    pub fn accepts(&mut self, addr: std::net::SocketAddr) -> Result<(), String> {
        let deadline = Instant::now() + Duration::from_secs(10);
        while std::net::TcpStream::connect(addr).is_err() {
            if let Ok(Some(status)) = self.child.try_wait() {
                return Err(format!("the server has ended before it listened: {status}"));
            }
            if Instant::now() > deadline {
                return Err(format!("the server does not listen on {addr}"));
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(())
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
