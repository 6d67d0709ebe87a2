//! The command line.

use std::str::FromStr;

use volt::time::Duration;

pub const HELP: &str = "\
usage: http [--addr ADDR] [--workers N] [--header-timeout MS] [--idle-timeout MS]

  --addr ADDR          where to listen; port 0 picks a free one (default 127.0.0.1:8080)
  --workers N          how many threads run fibers (default: one per core)
  --header-timeout MS  how long a request's head may take from its first byte on (default 10000)
  --idle-timeout MS    how long a connection may stay without a request (default: for ever)
";

#[derive(Debug)]
pub struct Args {
    pub addr: String,
    pub workers: Option<usize>,
    pub header_timeout: Duration,
    pub idle_timeout: Option<Duration>,
}

impl Args {
    /// Reads the arguments after the program's name; `None` if help is what they ask for.
    pub fn parse(mut args: impl Iterator<Item = String>) -> Result<Option<Self>, String> {
        let mut parsed = Args {
            addr: "127.0.0.1:8080".to_owned(),
            workers: None,
            header_timeout: Duration::from_secs(10),
            idle_timeout: None,
        };
        while let Some(flag) = args.next() {
            match flag.as_str() {
                "--addr" => parsed.addr = value(&flag, args.next())?,
                "--workers" => parsed.workers = Some(positive(&flag, args.next())?),
                "--header-timeout" => {
                    parsed.header_timeout = Duration::from_millis(positive(&flag, args.next())?)
                }
                "--idle-timeout" => {
                    parsed.idle_timeout = Some(Duration::from_millis(positive(&flag, args.next())?))
                }
                "--help" | "-h" => return Ok(None),
                _ => return Err(format!("unknown argument {flag:?}")),
            }
        }
        Ok(Some(parsed))
    }
}

fn value(flag: &str, value: Option<String>) -> Result<String, String> {
    value.ok_or_else(|| format!("{flag} needs a value"))
}

fn positive<T: FromStr + PartialEq + Default>(
    flag: &str,
    given: Option<String>,
) -> Result<T, String> {
    let given = value(flag, given)?;
    match given.parse() {
        Ok(n) if n != T::default() => Ok(n),
        _ => Err(format!("{flag} takes a whole number from 1 on, not {given:?}")),
    }
}
