//! What was measured, on what, and when.

use std::fs::read_to_string;
use std::process::Command;
use std::time::{SystemTime, UNIX_EPOCH};

use crate::parent::{Helpers, Plan, version};

/// The machine, looked at before anything runs.
#[derive(Debug)]
pub struct Machine {
    processor: String,
    cores: usize,
    memory_gib: f64,
    kernel: String,
    /// What else ran: processes that wanted a processor, over the last minute.
    others: String,
    /// The commit that is measured.
    volt: String,
}

impl Machine {
    pub fn look() -> Machine {
        let cpu = read_to_string("/proc/cpuinfo").unwrap_or_default();
        let field = |name: &str| {
            let line = cpu.lines().find(|line| line.starts_with(name));
            line.and_then(|line| line.split(": ").nth(1)).unwrap_or("?").to_owned()
        };
        let memory = read_to_string("/proc/meminfo").unwrap_or_default();
        let kib: f64 = memory.split_whitespace().nth(1).and_then(|n| n.parse().ok()).unwrap_or(0.0);
        let load = read_to_string("/proc/loadavg").unwrap_or_default();
        Machine {
            processor: format!(
                "{} (family {}, model {})",
                field("model name"),
                field("cpu family"),
                field("model\t")
            ),
            cores: std::thread::available_parallelism().map_or(0, usize::from),
            memory_gib: kib / f64::from(1 << 20),
            kernel: read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default(),
            volt: said("git", &["describe", "--always", "--dirty", "--exclude=*"]),
            others: load.split_whitespace().next().unwrap_or("?").to_owned(),
        }
    }

    pub(super) fn text(&self, plan: &Plan, helpers: &Helpers) -> String {
        format!(
            "- {}, {}, {} workers\n\
            - {}, {} processors, {:.0} GiB, Linux {}, load before the run {}\n\
            - volt {}, tokio {}, hyper {}, may {}, may_minihttp {}, corosensei {}, Go {}, {}\n",
            date(),
            if plan.run.quick { "quick".to_owned() } else { format!("rounds: {}", plan.rounds) },
            plan.run.workers,
            self.processor,
            self.cores,
            self.memory_gib,
            self.kernel.trim(),
            self.others,
            self.volt,
            version("tokio"),
            version("hyper"),
            version("may"),
            version("may_minihttp"),
            version("corosensei"),
            helpers.go_version.as_deref().unwrap_or("missing"),
            said("rustc", &["--version"]),
        )
    }
}

/// The first line of what a command prints.
fn said(command: &str, args: &[&str]) -> String {
    let output = Command::new(command).args(args).current_dir(env!("CARGO_MANIFEST_DIR")).output();
    let text = output.map(|o| String::from_utf8_lossy(&o.stdout).trim().to_owned());
    text.ok().filter(|text| !text.is_empty()).unwrap_or("?".to_owned())
}

/// Today in UTC.
fn date() -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs());
    let (year, month, day) = civil(now / 86_400);
    format!("{year}-{month:02}-{day:02}")
}

/// Year, month and day of a day since 1970.
fn civil(mut days: u64) -> (u64, u64, u64) {
    let leap = |year: u64| {
        (year.is_multiple_of(4) && !year.is_multiple_of(100)) || year.is_multiple_of(400)
    };
    let mut year = 1970;
    while days >= 365 + u64::from(leap(year)) {
        days -= 365 + u64::from(leap(year));
        year += 1;
    }
    let february = 28 + u64::from(leap(year));
    let mut month = 1;
    for length in [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31] {
        if days < length {
            break;
        }
        days -= length;
        month += 1;
    }
    (year, month, days + 1)
}

#[cfg(test)]
mod tests {
    #[test]
    fn days_have_their_dates() {
        assert_eq!(super::civil(0), (1970, 1, 1));
        assert_eq!(super::civil(11_016), (2000, 2, 29));
        assert_eq!(super::civil(20_453), (2025, 12, 31));
    }
}
