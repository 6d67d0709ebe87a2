//! One measurement: one case, one peer, in processes of its own.

use std::net::{SocketAddr, TcpListener};
use std::process::Command;
use std::thread::sleep;
use std::time::Duration;

use super::child::{Figures, Process};
use super::{Helpers, probe};
use crate::cases::{Case, HttpLoad, Kind};
use crate::load;
use crate::peer::Peer;
use crate::run::Run;

pub(super) fn once(
    case: &Case,
    peer: Peer,
    run: Run,
    helpers: &Helpers,
) -> Result<Figures, String> {
    let target = Target { case, peer, run, helpers };
    match case.kind {
        Kind::Inside => target.start(run.addr)?.finish(|_, _| Ok(())),
        Kind::Footprint => target.footprint(),
        Kind::Idle => target.idle(),
        Kind::Http(load) => target.http(load),
        Kind::HttpIdle { connections } => target.http_idle(run.scale(connections, 200)),
        Kind::Echo { connections } => target.loaded("echo", connections),
        Kind::Paced { connections } => target.loaded("paced", connections),
        Kind::Short { connections } => target.loaded("short", connections),
        Kind::Upload => target.loaded("upload", 1),
        Kind::Records => target.loaded("records", 1),
        Kind::Download { connections } => target.loaded("download", connections),
    }
}

/// Who is measured, and in what.
struct Target<'a> {
    case: &'a Case,
    peer: Peer,
    run: Run,
    helpers: &'a Helpers,
}

impl Target<'_> {
    fn start(&self, addr: SocketAddr) -> Result<Process, String> {
        let mut command = match (self.peer, &self.helpers.go) {
            (Peer::Go, Some(program)) => Command::new(program),
            _ => {
                let mut command = this_program()?;
                command.args(["--child", self.peer.name()]);
                command
            }
        };
        command.args(["--case", self.case.name, "--addr", &addr.to_string()]);
        command.args(["--workers", &self.run.workers.to_string()]);
        if self.run.quick {
            command.arg("--quick");
        }
        Process::start(command)
    }

    /// Starts it as a server and waits until it accepts.
    fn serve(&self) -> Result<(Process, SocketAddr), String> {
        let free = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
        let addr = free.map_err(|e| format!("no free port: {e}"))?;
        let mut server = self.start(addr)?;
        server.accepts(addr)?;
        Ok((server, addr))
    }

    fn load(&self, kind: &str, connections: u32, addr: SocketAddr) -> Result<Process, String> {
        let mut command = this_program()?;
        command.args(["--load", kind, "--addr", &addr.to_string()]);
        command.args(["--connections", &connections.to_string()]);
        command.args(["--millis", self.run.scale("500", "200")]);
        Process::start(command)
    }

    fn footprint(&self) -> Result<Figures, String> {
        let mut bytes = 0.0;
        let mut figures = self.start(self.run.addr)?.finish(|process, stage| {
            if stage == "end" {
                sleep(self.run.scale(Duration::from_secs(1), Duration::ZERO));
            }
            bytes = probe::footprint(process.id())? - bytes;
            Ok(())
        })?;
        let each = bytes / figures.get("count").ok_or("it did not say how many")?;
        figures.insert("bytes".to_owned(), each);
        Ok(figures)
    }

    fn http_idle(&self, connections: u32) -> Result<Figures, String> {
        let (server, addr) = self.serve()?;
        let mut bytes = 0.0;
        let load = self.load("idle", connections, addr)?;
        let mut figures = load.finish(|_, stage| {
            if stage == "end" {
                sleep(self.run.scale(Duration::from_secs(2), Duration::ZERO));
            }
            bytes = probe::footprint(server.id())? - bytes;
            Ok(())
        })?;
        let each = bytes / figures.get("count").ok_or("the load did not say how many")?;
        figures.insert("bytes".to_owned(), each);
        Ok(figures)
    }

    fn idle(&self) -> Result<Figures, String> {
        let seconds = self.run.scale(4.0, 0.2);
        let (mut load, mut wakeups) = (0.0, 0.0);
        let mut figures = self.start(self.run.addr)?.finish(|process, _| {
            sleep(self.run.scale(Duration::from_secs(3), Duration::ZERO));
            let before = (probe::cpu(process.id())?, probe::switches(process.id())?);
            sleep(Duration::from_secs_f64(seconds));
            load = (probe::cpu(process.id())? - before.0) / 1e3 / seconds;
            wakeups = (probe::switches(process.id())? - before.1) / seconds;
            Ok(())
        })?;
        figures.insert("load".to_owned(), load);
        figures.insert("wakeups".to_owned(), wakeups);
        Ok(figures)
    }

    fn http(&self, load: HttpLoad) -> Result<Figures, String> {
        let (server, addr) = self.serve()?;
        if !self.run.quick {
            load::wrk(load, addr, Duration::from_secs(1))?;
        }
        let before = probe::cpu(server.id())?;
        let wrk = load::wrk(load, addr, Duration::from_secs(1))?;
        let used = probe::cpu(server.id())? - before;
        if wrk.errors > 0 {
            eprint!(" ({} errors)", wrk.errors);
        }
        let mut figures = Figures::new();
        let mut add = |key: &str, figure| figures.insert(key.to_owned(), figure);
        add("cpu", used / wrk.requests);
        add("rate", wrk.rate);
        // Some wrks have no percentiles for pipelined requests and print 0.
        if wrk.p99 > 0.0 {
            add("p50", wrk.p50);
            add("p99", wrk.p99);
        }
        Ok(figures)
    }

    fn loaded(&self, kind: &str, connections: u32) -> Result<Figures, String> {
        let (server, addr) = self.serve()?;
        let mut used = 0.0;
        let load = self.load(kind, connections, addr)?;
        let mut figures = load.finish(|_, _| {
            used = probe::cpu(server.id())? - used;
            Ok(())
        })?;
        let each = used / figures.get("requests").ok_or("the load did not say how many")?;
        figures.insert("cpu".to_owned(), each);
        Ok(figures)
    }
}

fn this_program() -> Result<Command, String> {
    std::env::current_exe().map(Command::new).map_err(|e| format!("where am I? {e}"))
}
