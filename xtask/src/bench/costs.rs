//! `cargo xtask bench --costs`: what it costs a training loop to be watched.
//!
//! One step runs in several programs at the same time of day: plain, with the instruction log in
//! each form, with a profile, on a plain server, and on a server with a log, metrics that are read
//! once in a second, and `gt-cli top`. The programs take turns, block by block, so a ratio compares
//! blocks of the same minute.

use super::BenchArgs;
use super::paced::Paced;
use crate::shell::target_folder;
use anyhow::{Context, Result};
use serde_json::Value;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::time::Duration;

/// The works that are measured if none is named.
const WORKS: [&str; 2] = ["mlp_small", "mlp_seed"];
/// The time between two readings of the metrics.
const SCRAPE: Duration = Duration::from_secs(1);

/// Where a program computes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    Embedded,
    /// On a server that nobody watches.
    Server,
    /// On a server with a log, metrics and `top`.
    Watched,
}

/// A way to run the work.
struct Way {
    name: &'static str,
    place: Place,
    /// The form and the detail of the program's log, if it has one.
    log: Option<(&'static str, &'static str)>,
    profile: bool,
    /// The way with which it is compared, and how many times as long it may take.
    bar: Option<(&'static str, f64)>,
}

const PLAIN: Way =
    Way { name: "plain", place: Place::Embedded, log: None, profile: false, bar: None };

/// Of logs and profiles beside the plain program.
const LOG: Option<(&str, f64)> = Some(("plain", 1.03));
const PROFILE: Option<(&str, f64)> = Some(("plain", 1.10));
/// Instructions are written out on request only, so there is no bar.
const WRITTEN: Option<(&str, f64)> = Some(("plain", f64::INFINITY));
const WATCHED: Option<(&str, f64)> = Some(("server", 1.05));

const WAYS: &[Way] = &[
    PLAIN,
    Way { name: "log seed", log: Some(("seed", "events")), bar: LOG, ..PLAIN },
    Way { name: "log tape", log: Some(("tape", "events")), bar: LOG, ..PLAIN },
    Way { name: "log json", log: Some(("json", "events")), bar: LOG, ..PLAIN },
    Way { name: "log instructions", log: Some(("json", "instructions")), bar: WRITTEN, ..PLAIN },
    Way { name: "profile", profile: true, bar: PROFILE, ..PLAIN },
    Way { name: "server", place: Place::Server, ..PLAIN },
    Way {
        name: "server watched",
        place: Place::Watched,
        log: Some(("json", "events")),
        bar: WATCHED,
        ..PLAIN
    },
];

/// Measures the works, and prints a row for each way.
pub(super) fn measure(args: &BenchArgs) -> Result<()> {
    let program = target_folder().join("release/gt-cli");
    let usual = WORKS.map(String::from);
    let works = if args.names.is_empty() { &usual[..] } else { &args.names[..] };
    for work in works {
        measured(work, args, &program)?;
    }
    Ok(())
}

fn measured(work: &str, args: &BenchArgs, program: &Path) -> Result<()> {
    let plain = Server::start(program, Place::Server)?;
    let watched = Server::start(program, Place::Watched)?;
    let mut running = WAYS
        .iter()
        .map(|way| {
            let connect = match way.place {
                Place::Embedded => None,
                Place::Server => Some(&*plain.address),
                Place::Watched => Some(&*watched.address),
            };
            way.start(program, work, connect)
        })
        .collect::<Result<Vec<Paced>>>()?;
    for round in 0..args.rounds {
        let mut turns: Vec<&mut Paced> = running.iter_mut().collect();
        if round % 2 == 1 {
            turns.reverse();
        }
        turns.into_iter().try_for_each(|program| program.block(args.seconds))?;
    }
    let ms: Vec<f64> =
        running.into_iter().map(|one| Ok(one.finish()?.ms)).collect::<Result<_>>()?;
    for (way, ms_of) in WAYS.iter().zip(&ms) {
        println!("{}", way.row(work, *ms_of, &ms, args.json));
    }
    Ok(())
}

impl Way {
    fn start(&self, program: &Path, work: &str, connect: Option<&str>) -> Result<Paced> {
        let name = self.name.replace(' ', "-");
        let file = |end: &str| target_folder().join(format!("costs-{name}.{end}"));
        let (log, profile) = (file("log"), file("json"));
        let (log, profile) = (log.to_string_lossy(), profile.to_string_lossy());
        let mut env = Vec::new();
        if let Some((form, detail)) = self.log {
            env.push(("GT_INSTRUCTION_LOG", &*log));
            env.extend([("GT_LOG_FORMAT", form), ("GT_LOG_DETAIL", detail)]);
            env.push(("GT_LOG_SIZE", "64M"));
        }
        if self.profile {
            env.push(("GT_PROFILE", &*profile));
        }
        let connect: Vec<&str> =
            connect.into_iter().flat_map(|address| ["--connect", address]).collect();
        let words = [&["bench", "--paced", work], &connect[..]].concat();
        Paced::start_with(&format!("costs {}", self.name), program, &words, &env)
    }

    /// The figure, and its ratio to the way with which it is compared.
    fn row(&self, work: &str, ms: f64, all: &[f64], json: bool) -> String {
        let base = self.bar.and_then(|(base, bar)| {
            let at = WAYS.iter().position(|way| way.name == base)?;
            Some((ms / all[at], bar))
        });
        if json {
            let ratio = base.map(|(ratio, _)| ratio);
            return serde_json::json!({"work": work, "way": self.name, "ms": ms, "ratio": ratio})
                .to_string();
        }
        let ratio = base.map_or(String::new(), |(ratio, bar)| {
            let missed = if ratio > bar { " (misses)" } else { "" };
            let bar = if bar.is_finite() { format!("bar {bar:.2}{missed}") } else { String::new() };
            format!("{ratio:7.3}  {bar}")
        });
        format!("{work:12} {:18} {ms:9.4} ms {ratio}", self.name)
    }
}

/// A server and a worker, with those who watch them. They end when it is dropped.
struct Server {
    address: String,
    processes: Vec<Child>,
    /// Closed at the end, for the thread that reads the metrics.
    _end: Option<Sender<()>>,
}

impl Server {
    fn start(program: &Path, place: Place) -> Result<Server> {
        let logs = ["server", "worker"].map(|who| target_folder().join(format!("costs-{who}.log")));
        let logs = logs.map(|path| path.to_string_lossy().into_owned());
        let is_watched = place == Place::Watched;
        let log = |path| match is_watched {
            true => vec!["--log-file", path, "--log-format", "json", "--log-size", "64M"],
            false => Vec::new(),
        };
        let metrics: &[&str] = if is_watched { &["--metrics", "127.0.0.1:0"] } else { &[] };
        let words = [&["server", "-p", "0", "--json"], metrics, &log(&logs[0])].concat();
        let (server, said) = spoken(program, &words)?;
        let mut server = Server { address: String::new(), processes: vec![server], _end: None };
        let text = |key: &str| said[key].as_str().map(str::to_owned);
        server.address = text("address").context("a server without an address")?;
        let address = server.address.clone();
        let words = ["worker", "--json", "--connect", &address];
        server.processes.push(spoken(program, &[&words, &log(&logs[1])[..]].concat())?.0);
        if is_watched {
            let top = format!("{} top --connect {address}", program.display());
            let mut script = Command::new("script");
            script.args(["-qfec", &top, "/dev/null"]).env("TERM", "xterm");
            let script = script.stdin(Stdio::null()).stdout(Stdio::null()).spawn();
            server.processes.push(script.context("`script` gives `top` a terminal")?);
            let there = text("metrics").context("a server without metrics")?;
            server._end = Some(scrapes(there.replace("http://", "").replace("/metrics", "")));
        }
        Ok(server)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        for process in &mut self.processes {
            // It may have ended.
            let _ = process.kill();
            let _ = process.wait();
        }
    }
}

/// Starts a program, and waits for its first object.
fn spoken(program: &Path, words: &[&str]) -> Result<(Child, Value)> {
    let mut child = Command::new(program)
        .args(words)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()?;
    let (mut line, output) = (String::new(), child.stdout.take().context("no output")?);
    let mut output = BufReader::new(output);
    output.read_line(&mut line)?;
    // What it says later is read, so that it never waits for a reader.
    std::thread::spawn(move || std::io::copy(&mut output, &mut std::io::sink()));
    let said = serde_json::from_str(&line).with_context(|| format!("it printed `{line}`"))?;
    Ok((child, said))
}

/// Reads the metrics again and again, to the drop of what it returns.
fn scrapes(address: String) -> Sender<()> {
    let (end, ended) = channel();
    std::thread::spawn(move || {
        while ended.recv_timeout(SCRAPE) == Err(RecvTimeoutError::Timeout) {
            let Ok(mut stream) = TcpStream::connect(&address) else { return };
            // A reading that fails is repeated.
            let _ = write!(stream, "GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
            let _ = stream.read_to_end(&mut Vec::new());
        }
    });
    end
}
