//! Loads an HTTP server with wrk and reads what it prints.

use std::net::SocketAddr;
use std::process::Command;
use std::time::Duration;

use crate::cases::HttpLoad;

const PIPELINE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/pipeline.lua");

/// What one run has shown; times in microseconds.
#[derive(Debug, Default, Clone, PartialEq)]
pub struct Wrk {
    pub requests: f64,
    pub rate: f64,
    pub p50: f64,
    pub p99: f64,
    /// Socket errors and answers other than 2xx and 3xx.
    pub errors: u64,
}

/// Runs wrk against `addr`.
pub fn wrk(load: HttpLoad, addr: SocketAddr, time: Duration) -> Result<Wrk, String> {
    let mut wrk = Command::new("wrk");
    let seconds = format!("{}s", time.as_secs().max(1));
    wrk.args(["-t1", "-c", &load.connections.to_string(), "-d", &seconds, "--latency"]);
    if load.pipelined {
        wrk.args(["-s", PIPELINE]);
    }
    let output = wrk.arg(format!("http://{addr}/")).output();
    let output = output.map_err(|e| format!("wrk does not run: {e}"))?;
    let text = String::from_utf8_lossy(&output.stdout);
    if !output.status.success() {
        return Err(format!("wrk failed: {}{text}", String::from_utf8_lossy(&output.stderr)));
    }
    read(&text).ok_or_else(|| format!("wrk said something unexpected:\n{text}"))
}

/// Reads wrk's report; `None` if it is not what we know.
fn read(output: &str) -> Option<Wrk> {
    let mut figures = Wrk::default();
    for line in output.lines() {
        let words: Vec<_> = line.split_whitespace().collect();
        match words.as_slice() {
            ["50%", time] => figures.p50 = micros(time)?,
            ["99%", time] => figures.p99 = micros(time)?,
            [count, "requests", "in", ..] => figures.requests = count.parse().ok()?,
            ["Requests/sec:", rate] => figures.rate = rate.parse().ok()?,
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
    (figures.requests > 0.0 && figures.rate > 0.0).then_some(figures)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_wrk_prints() {
        let output = "  Latency Distribution\n     50%  345.00us\n     75%    1.00ms\n     99%    1.50ms\n  \
            100 requests in 3.00s, 1.00MB read\n  Socket errors: connect 0, read 1, write 0, timeout 2\n  \
            Non-2xx or 3xx responses: 4\nRequests/sec:     33.30\n";
        let expected = Wrk { requests: 100.0, rate: 33.3, p50: 345.0, p99: 1500.0, errors: 7 };
        assert_eq!(read(output), Some(expected));
        assert_eq!(read("unable to connect"), None);
    }
}
