//! The programs beside this one: volt's example daemon, Go's workloads, wrk.

use std::path::{Path, PathBuf};
use std::process::Command;

const HERE: &str = env!("CARGO_MANIFEST_DIR");

/// What there is of them.
#[derive(Debug, Default)]
pub struct Helpers {
    /// Go's workloads, built.
    pub go: Option<PathBuf>,
    /// The toolchain's version.
    pub go_version: Option<String>,
    pub wrk: bool,
    /// A line for what there is not.
    pub missing: Vec<String>,
}

impl Helpers {
    /// Builds what has to be built and looks for the rest.
    pub fn prepare() -> Result<Helpers, String> {
        let mut helpers = Helpers::default();
        let me = std::env::current_exe().map_err(|e| format!("where am I? {e}"))?;
        let place = me.parent().expect("a file stands in a folder");
        build_daemon(place)?;
        match build_go(place) {
            Ok((program, version)) => {
                helpers.go = Some(program);
                helpers.go_version = Some(version);
            }
            Err(why) => helpers.missing.push(format!("go: missing ({why})")),
        }
        helpers.wrk = Command::new("wrk").arg("-v").output().is_ok();
        if !helpers.wrk {
            helpers.missing.push("wrk: missing, no figures for HTTP under load".to_owned());
        }
        Ok(helpers)
    }
}

/// `cargo run` builds the program that it runs and no other.
fn build_daemon(place: &Path) -> Result<(), String> {
    let cargo = std::env::var_os("CARGO").unwrap_or("cargo".into());
    let mut command = Command::new(cargo);
    command.args(["build", "--quiet", "--bin", "volt_http"]).current_dir(HERE);
    if place.ends_with("release") {
        command.arg("--release");
    }
    succeed(&mut command).map(drop)
}

/// With the `go` of VOLT_GO, or that of PATH.
fn build_go(place: &Path) -> Result<(PathBuf, String), String> {
    let go = std::env::var_os("VOLT_GO").unwrap_or("go".into());
    let version = succeed(Command::new(&go).arg("version"))?;
    let program = place.join("peers_go");
    let mut command = Command::new(&go);
    command.args(["build", "-o"]).arg(&program).arg(".");
    // What is installed will do: nothing is downloaded.
    succeed(command.current_dir(Path::new(HERE).join("go")).env("GOTOOLCHAIN", "local"))?;
    let version = version.split_whitespace().nth(2).unwrap_or("go").trim_start_matches("go");
    Ok((program, version.to_owned()))
}

/// Runs it to its end and returns what it printed.
fn succeed(command: &mut Command) -> Result<String, String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command.output().map_err(|e| format!("{name}: {e}"))?;
    if output.status.success() {
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    } else {
        Err(format!("{name} failed: {}", String::from_utf8_lossy(&output.stderr)))
    }
}

/// The version of a crate that this program was built with, from the lock file.
pub fn version(name: &str) -> &'static str {
    const LOCK: &str = include_str!("../../Cargo.lock");
    let entry = LOCK.split("[[package]]").find(|p| p.contains(&format!("name = \"{name}\"\n")));
    let version = entry.and_then(|p| p.split("version = \"").nth(1)?.split('"').next());
    version.unwrap_or("?")
}
