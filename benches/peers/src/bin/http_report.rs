//! Measures HTTP servers against each other under `wrk`: first of all the server's own CPU time per request.
//!
//! ```text
//! cargo build --release --example http                      # in the main package
//! cd benches/peers && cargo build --release
//! T=../../target/release P=target/release
//! $P/http_report --rounds 5 --seconds 4 \
//!     "volt=$T/examples/http --addr {addr} --workers 2" \
//!     "tokio=$P/tokio_hyper --addr {addr} --workers 2" \
//!     "floor=$P/epoll_floor --addr {addr} --workers 2"
//! ```
//!
//! Every server is a name and a command; `{addr}` stands for the address that it is given. They run in turn, A B C
//! A B C, each round on fresh processes, so that what the machine does meanwhile meets all of them. The table has the
//! medians over the rounds, and beside the CPU time its ratio to the first server.
//!
//! CPU time is the process's CPU clock (nanoseconds; threads that have ended count), read before and after the load.
//! What this does not show: `wrk` runs on the same machine, so requests per second are as much its figure as the
//! server's, and latencies hold the time that the two wait for each other's core.

use std::fmt::Write as _;
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, ExitCode, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};
use std::{env, io};

const PIPELINE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/pipeline.lua");
/// How long the load runs before it counts.
const WARM_UP: &str = "1s";

/// A way to load a server.
struct Load {
    name: &'static str,
    connections: &'static str,
    pipelined: bool,
}

const LOADS: [Load; 3] = [
    Load { name: "50 connections", connections: "50", pipelined: false },
    Load { name: "1000 connections", connections: "1000", pipelined: false },
    Load { name: "50 connections, 16 pipelined", connections: "50", pipelined: true },
];

struct Plan {
    rounds: usize,
    seconds: u64,
    servers: Vec<Server>,
}

struct Server {
    name: String,
    command: Vec<String>,
}

/// What one run of one load has shown.
#[derive(Debug, Default, Clone, PartialEq)]
struct Figures {
    cpu_us: f64,
    per_second: f64,
    p50_us: f64,
    p99_us: f64,
    /// Socket errors and answers other than 2xx and 3xx.
    errors: u64,
}

fn main() -> ExitCode {
    match Plan::from_args(env::args().skip(1)).and_then(|plan| measure(&plan)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("http_report: {why}");
            ExitCode::FAILURE
        }
    }
}

impl Plan {
    fn from_args(mut args: impl Iterator<Item = String>) -> Result<Self, String> {
        let mut plan = Plan { rounds: 3, seconds: 4, servers: Vec::new() };
        while let Some(arg) = args.next() {
            let mut number = || {
                let value = args.next().and_then(|value| value.parse::<u64>().ok());
                value.filter(|&n| n > 0).ok_or(format!("{arg} takes a number from 1 on"))
            };
            match arg.as_str() {
                "--rounds" => plan.rounds = number()? as usize,
                "--seconds" => plan.seconds = number()?,
                server => plan.servers.push(Server::parse(server)?),
            }
        }
        if plan.servers.is_empty() {
            return Err("name a server at least: \"name=command --addr {addr}\"".to_owned());
        }
        Ok(plan)
    }
}

impl Server {
    fn parse(arg: &str) -> Result<Self, String> {
        let wrong = || format!("expected \"name=command --addr {{addr}}\", found {arg:?}");
        let (name, command) = arg.split_once('=').ok_or_else(wrong)?;
        if name.starts_with('-') || !command.contains("{addr}") {
            return Err(wrong());
        }
        let command = command.split_whitespace().map(str::to_owned).collect();
        Ok(Server { name: name.to_owned(), command })
    }

    /// Starts it on a free port and waits until it accepts.
    fn start(&self) -> Result<Running, String> {
        let addr = free_addr().map_err(|e| format!("no free port: {e}"))?;
        let words: Vec<_> = self.command.iter().map(|word| word.replace("{addr}", &addr)).collect();
        let child = Command::new(&words[0]).args(&words[1..]).stdout(Stdio::null()).spawn();
        let child =
            child.map_err(|e| format!("{} does not start: {}: {e}", self.name, words[0]))?;
        let mut running = Running { child, addr };
        let deadline = Instant::now() + Duration::from_secs(5);
        while TcpStream::connect(&running.addr).is_err() {
            if let Ok(Some(status)) = running.child.try_wait() {
                return Err(format!("{} has ended before it listened: {status}", self.name));
            }
            if Instant::now() > deadline {
                return Err(format!("{} does not listen on {}", self.name, running.addr));
            }
            sleep(Duration::from_millis(10));
        }
        Ok(running)
    }
}

fn free_addr() -> io::Result<String> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?.to_string())
}

/// A server's process; it ends with this value.
struct Running {
    child: Child,
    addr: String,
}

impl Running {
    /// What its threads have used so far, in microseconds; those that have ended included.
    fn cpu_us(&self) -> Result<f64, String> {
        let mut clock = 0;
        let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: both places are alive for the calls.
        let failed = unsafe {
            libc::clock_getcpuclockid(self.child.id().cast_signed(), &raw mut clock) != 0
                || libc::clock_gettime(clock, &raw mut time) != 0
        };
        if failed {
            return Err("the server's CPU clock cannot be read: has it ended?".to_owned());
        }
        Ok(time.tv_sec as f64 * 1e6 + time.tv_nsec as f64 / 1e3)
    }

    fn load(&self, load: &Load, seconds: &str) -> Result<String, String> {
        let mut wrk = Command::new("wrk");
        wrk.args(["-t1", "-c", load.connections, "-d", seconds, "--latency"]);
        if load.pipelined {
            wrk.args(["-s", PIPELINE]);
        }
        let output = wrk.arg(format!("http://{}/", self.addr)).output();
        let output = output.map_err(|e| format!("wrk does not run: {e}"))?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        if output.status.success() {
            Ok(text)
        } else {
            Err(format!("wrk failed: {}{text}", String::from_utf8_lossy(&output.stderr)))
        }
    }

    /// One run: warmed up, then counted.
    fn run(&self, load: &Load, seconds: u64) -> Result<Figures, String> {
        self.load(load, WARM_UP)?;
        let before = self.cpu_us()?;
        let output = self.load(load, &format!("{seconds}s"))?;
        let used = self.cpu_us()? - before;
        read_wrk(&output, used).ok_or_else(|| format!("wrk said something unexpected:\n{output}"))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Reads wrk's report; `None` if it is not what we know.
fn read_wrk(output: &str, used_us: f64) -> Option<Figures> {
    let mut figures = Figures::default();
    let mut requests = 0.0;
    for line in output.lines() {
        let words: Vec<_> = line.split_whitespace().collect();
        match words.as_slice() {
            ["50%", time] => figures.p50_us = micros(time)?,
            ["99%", time] => figures.p99_us = micros(time)?,
            [count, "requests", "in", ..] => requests = count.parse().ok()?,
            ["Requests/sec:", rate] => figures.per_second = rate.parse().ok()?,
            ["Socket", "errors:", counts @ ..] => {
                figures.errors += counts
                    .iter()
                    .filter_map(|n| n.trim_end_matches(',').parse::<u64>().ok())
                    .sum::<u64>();
            }
            ["Non-2xx", .., count] => figures.errors += count.parse::<u64>().ok()?,
            _ => {}
        }
    }
    figures.cpu_us = used_us / requests;
    (requests > 0.0 && figures.per_second > 0.0).then_some(figures)
}

/// Reads `12.34us`, `12.34ms` or `1.23s`.
fn micros(time: &str) -> Option<f64> {
    for (unit, scale) in [("us", 1.0), ("ms", 1e3), ("s", 1e6), ("m", 60e6)] {
        if let Some(number) = time.strip_suffix(unit) {
            return number.parse::<f64>().ok().map(|n| n * scale);
        }
    }
    None
}

fn measure(plan: &Plan) -> Result<(), String> {
    Command::new("wrk")
        .arg("-v")
        .output()
        .map_err(|e| format!("nothing measured, wrk does not run: {e}"))?;
    for load in &LOADS {
        let mut runs = vec![Vec::new(); plan.servers.len()];
        for round in 1..=plan.rounds {
            for (server, runs) in plan.servers.iter().zip(&mut runs) {
                eprintln!("{}, round {round} of {}: {}", load.name, plan.rounds, server.name);
                runs.push(server.start()?.run(load, plan.seconds)?);
            }
        }
        let medians: Vec<_> = runs.iter().map(|runs| median(runs)).collect();
        print!("{}", table(load, &plan.servers, &medians));
    }
    Ok(())
}

fn median(runs: &[Figures]) -> Figures {
    let middle = |of: fn(&Figures) -> f64| {
        let mut values: Vec<_> = runs.iter().map(of).collect();
        values.sort_by(f64::total_cmp);
        (values[(values.len() - 1) / 2] + values[values.len() / 2]) / 2.0
    };
    Figures {
        cpu_us: middle(|f| f.cpu_us),
        per_second: middle(|f| f.per_second),
        p50_us: middle(|f| f.p50_us),
        p99_us: middle(|f| f.p99_us),
        // No median: none is expected at all.
        errors: runs.iter().map(|f| f.errors).sum(),
    }
}

fn table(load: &Load, servers: &[Server], medians: &[Figures]) -> String {
    let mut table = String::new();
    let first = format!("cpu/{}", servers[0].name);
    let _ = writeln!(
        &mut table,
        "\n{:<30}{:>12}{first:>16}{:>12}{:>10}{:>10}{:>8}",
        load.name, "cpu us/req", "req/s", "p50 us", "p99 us", "errors"
    );
    for (server, f) in servers.iter().zip(medians) {
        let _ = writeln!(
            &mut table,
            "  {:<28}{:>12.3}{:>16.2}{:>12.0}{:>10}{:>10}{:>8}",
            server.name,
            f.cpu_us,
            f.cpu_us / medians[0].cpu_us,
            f.per_second,
            time(f.p50_us),
            time(f.p99_us),
            f.errors
        );
    }
    table
}

/// Some wrks have no percentiles for pipelined requests and print 0.
fn time(us: f64) -> String {
    if us > 0.0 { format!("{us:.0}") } else { "-".to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_wrk_prints() {
        let output = "  Latency Distribution\n     50%  345.00us\n     75%    1.00ms\n     99%    1.50ms\n  \
            100 requests in 3.00s, 1.00MB read\n  Socket errors: connect 0, read 1, write 0, timeout 2\n  \
            Non-2xx or 3xx responses: 4\nRequests/sec:     33.30\n";
        let expected =
            Figures { cpu_us: 7.0, per_second: 33.3, p50_us: 345.0, p99_us: 1500.0, errors: 7 };
        assert_eq!(read_wrk(output, 700.0), Some(expected));
        assert_eq!(read_wrk("unable to connect", 700.0), None);
    }
}
