//! `cargo xtask bench`: the rows of benches/runtime, with `--vs` the works of `gt-cli bench`
//! compared with other frameworks, with `--ops` the ops compared with PyTorch's, or with `--costs`
//! what it costs to be watched.
//!
//! For each work every program is started and warmed up. Then the programs run in turn, block by
//! block, so that a disturbance of the machine affects all of them alike. The peers are the Python
//! programs of xtask/peers. `environment` installs their packages, `paced` runs the blocks, and
//! `table` prints and writes the results.

mod costs;
mod environment;
mod ops;
mod paced;
mod table;

use crate::shell::{cargo, target_folder};
use anyhow::{Context, Result, ensure};
use clap::{ArgGroup, Args, ValueEnum};
use paced::{Measured, Paced};
use table::{Column, Row};

#[derive(Args)]
#[command(group = ArgGroup::new("turns").args(["vs", "costs"]))]
pub(crate) struct BenchArgs {
    /// Measure the works of `gt-cli bench` in turn with these frameworks
    #[arg(long, value_enum, value_delimiter = ',')]
    vs: Vec<Peer>,
    /// Measure every op beside PyTorch, at several sizes and in several dtypes
    #[arg(long, conflicts_with = "vs")]
    ops: bool,
    /// Measure what the instruction log, a profile, metrics and `top` cost works of `gt-cli bench`
    #[arg(long, conflicts_with = "ops")]
    costs: bool,
    /// With --ops, these sizes only: 64, 512, 4096
    #[arg(long, value_delimiter = ',', requires = "ops")]
    sizes: Vec<usize>,
    /// With --ops, these dtypes only: f32, bf16, i64, f64, f16
    #[arg(long, value_delimiter = ',', requires = "ops")]
    dtypes: Vec<String>,
    /// With --ops, forget earlier results
    #[arg(long, requires = "ops")]
    again: bool,
    /// Number of turns of each program
    #[arg(long, default_value_t = 5, requires = "turns")]
    rounds: usize,
    /// Length of a turn in seconds
    #[arg(long, default_value_t = 0.5, requires = "turns")]
    seconds: f64,
    /// The engine of `gt-cli bench`, which is built with the feature for it
    #[arg(long, requires = "vs")]
    engine: Option<String>,
    /// The device of the engine
    #[arg(long, requires = "vs")]
    device: Option<String>,
    /// Print JSON, one object per line
    #[arg(long)]
    json: bool,
    /// Rows, with --vs or --costs works, or with --ops ops, to measure [default: all]
    names: Vec<String>,
}

/// A framework to compare with.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Peer {
    /// PyTorch, one operation at a time
    Torch,
    /// PyTorch with torch.compile
    Compile,
    /// JAX with jit
    Jax,
}

impl Peer {
    /// The title of its column.
    fn title(self) -> &'static str {
        match self {
            Peer::Torch => "PyTorch eager",
            Peer::Compile => "torch.compile",
            Peer::Jax => "JAX jit",
        }
    }

    /// Its program in xtask/peers, and the first argument of the program.
    fn program(self) -> (&'static str, &'static str) {
        match self {
            Peer::Torch => ("works_torch.py", "eager"),
            Peer::Compile => ("works_torch.py", "compile"),
            Peer::Jax => ("works_jax.py", "jit"),
        }
    }

    /// Its Python module, and the package to install.
    fn package(self) -> (&'static str, &'static str) {
        match self {
            Peer::Torch | Peer::Compile => ("torch", "torch==2.11.0"),
            Peer::Jax => ("jax", "jax[cpu]==0.10.2"),
        }
    }
}

impl BenchArgs {
    /// The feature that `gt-cli` is built with, if any.
    fn feature(&self) -> Option<&'static str> {
        let cuda = self.device.as_deref().is_some_and(|device| device != "cpu");
        let torch = self.engine.as_deref() == Some("torch");
        if cuda { Some("cuda") } else { torch.then_some("torch") }
    }

    /// The arguments that choose engine and device.
    fn compute(&self) -> Vec<&str> {
        let engine = self.engine.iter().flat_map(|engine| ["--engine", engine]);
        engine.chain(self.device.iter().flat_map(|device| ["--device", device])).collect()
    }
}

pub(crate) fn bench(args: &BenchArgs) -> Result<()> {
    let feature = args.feature().into_iter().flat_map(|feature| ["--features", feature]);
    let build = cargo(&["build", "--release", "-p", "gt-cli"]);
    build.args(&feature.collect::<Vec<_>>()).run()?;
    match args.ops {
        true => ops::compare(args),
        false if args.costs => costs::measure(args),
        false if args.vs.is_empty() => rows(args),
        false => compare(args),
    }
}

/// The rows of benches/runtime.
fn rows(args: &BenchArgs) -> Result<()> {
    let words = args.names.iter().map(String::as_str).chain(args.json.then_some("--json"));
    cargo(&["bench", "--bench", "runtime", "--"]).args(&words.collect::<Vec<_>>()).run()
}

/// Measures the works in turn with the peers.
fn compare(args: &BenchArgs) -> Result<()> {
    let python = environment::python(&args.vs)?;
    let program = target_folder().join("release/gt-cli");
    let all = works(&program)?;
    for name in &args.names {
        ensure!(
            all.contains(name),
            "there is no work `{name}`\nhint: the works are {}",
            all.join(", ")
        );
    }
    let wanted = if args.names.is_empty() { &all } else { &args.names };
    let columns = columns(&args.vs);
    if !args.json {
        println!("\n{}", table::head(&columns));
    }
    let mut table = Vec::new();
    for work in wanted {
        let row = measured(work, args, &program, &python)?;
        println!("{}", if args.json { row.json(&columns).to_string() } else { row.line() });
        table.push(row);
    }
    // The page shows the results of a full run with the default engine.
    if args.names.is_empty() && args.compute().is_empty() {
        table::keep(&columns, &table, &environment::about(&python, &args.vs)?)?;
    }
    Ok(())
}

fn columns(peers: &[Peer]) -> Vec<Column> {
    let ours = Column { key: "gt", title: "GT" };
    let key = |peer: &Peer| match peer {
        Peer::Torch => "torch",
        Peer::Compile => "compile",
        Peer::Jax => "jax",
    };
    let theirs = peers.iter().map(|peer| Column { key: key(peer), title: peer.title() });
    [ours].into_iter().chain(theirs).collect()
}

/// The names of all works that run without a GPU.
fn works(program: &std::path::Path) -> Result<Vec<String>> {
    let list = crate::shell::Step::new(&program.to_string_lossy(), &["bench", "--list", "--json"]);
    let name = |line: &str| {
        let object: serde_json::Value = serde_json::from_str(line)?;
        let name = object["work"].as_str().map(str::to_string).context("a work without a name")?;
        Ok((object["gpu"] != true).then_some(name))
    };
    list.read()?.lines().filter_map(|line| name(line).transpose()).collect()
}

/// Measures one work: starts and warms up every program, then runs them in turn.
fn measured(
    work: &str,
    args: &BenchArgs,
    program: &std::path::Path,
    python: &std::path::Path,
) -> Result<Row> {
    let words = [&["bench", "--paced", work][..], &args.compute()].concat();
    let mut running = vec![Paced::start("gt", program, &words)?];
    for peer in &args.vs {
        let (file, word) = peer.program();
        let file = crate::shell::root().join("xtask/peers").join(file);
        let words = [&file.to_string_lossy(), word, work];
        running.push(Paced::start(peer.title(), python, &words)?);
    }
    for round in 0..args.rounds {
        // Every second round is reversed, so that no program always follows the same other.
        let mut turns: Vec<&mut Paced> = running.iter_mut().collect();
        if round % 2 == 1 {
            turns.reverse();
        }
        for program in turns {
            program.block(args.seconds)?;
        }
    }
    let cells = running.into_iter().map(Paced::finish).collect::<Result<Vec<Measured>>>()?;
    Ok(Row { work: work.into(), cells })
}
