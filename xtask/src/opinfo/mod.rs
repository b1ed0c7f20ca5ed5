//! `cargo xtask opinfo`: compares GT with PyTorch on PyTorch's own samples of its operators
//! (OpInfo).
//!
//! Python programs of xtask/opinfo make the samples, compute them with PyTorch and with the program
//! `gt-opinfo`, and compare results, gradients and second gradients, in every dtype of GT, by
//! instructions, as plans and with narrow vectors. This module fetches PyTorch (`python`), runs the
//! programs (`running`), matches their findings with the intended differences (`differences`), and
//! prints the others (`report`).

pub(crate) mod differences;
mod python;
mod report;
mod running;

use crate::shell::{cargo, root, target_folder};
use anyhow::{Context, Result, bail, ensure};
use clap::{Args, ValueEnum};
use differences::Differences;
pub(crate) use python::Python;
use report::Report;
use running::Options;
use std::path::{Path, PathBuf};

/// The number of cases of each operator, dtype and kind: in a full run, and in the test of every
/// change.
const FULL: [(&str, usize); 3] = [("sample", 60), ("reference", 40), ("special", 20)];
const BOUNDED: [(&str, usize); 2] = [("sample", 2), ("special", 2)];

#[derive(Args, Default)]
pub(crate) struct OpinfoArgs {
    /// Run only the part that tests every change
    #[arg(long, conflicts_with_all = ["ops", "case"])]
    bounded: bool,
    /// Run only this case of an operator, by its name in a finding: `f32:sample:3`
    #[arg(long, requires = "ops")]
    case: Option<String>,
    /// Print intended differences as well
    #[arg(long)]
    intended: bool,
    /// The engine: `torch` is built with libtorch
    #[arg(long, value_enum, default_value_t = Engine::Native)]
    engine: Engine,
    /// Also write every outcome to this file, one JSON object per line
    #[arg(long)]
    json: Option<PathBuf>,
    /// PyTorch's operators, by their OpInfo names [default: all that GT has]
    ops: Vec<String>,
}

#[derive(Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
enum Engine {
    #[default]
    Native,
    Torch,
}

/// Runs the comparison. A difference that is not intended is an error.
pub(crate) fn opinfo(args: &OpinfoArgs) -> Result<()> {
    let python = Python::get()?;
    let report = compared(args, &python)?;
    if let Some(file) = &args.json {
        report.write(file)?;
    }
    let n_unexpected = report.print(args.case.is_some(), args.intended);
    ensure!(n_unexpected == 0, "{n_unexpected} differences from PyTorch are not intended");
    Ok(())
}

/// Runs the bounded part, for the tests. Without a suitable Python it prints that it is skipped.
pub(crate) fn bounded() -> Result<()> {
    if let Some(why) = Python::unfit()? {
        println!("skipped: {why}");
        return Ok(());
    }
    opinfo(&OpinfoArgs { bounded: true, ..OpinfoArgs::default() })
}

fn compared(args: &OpinfoArgs, python: &Python) -> Result<Report> {
    match args.engine {
        Engine::Native => compared_with(args, python, None),
        Engine::Torch => {
            let libtorch = crate::libtorch::for_programs()?;
            compared_with(args, python, Some(&libtorch))
        }
    }
}

/// Builds and runs the programs. The folder is libtorch's, for a build with libtorch.
fn compared_with(args: &OpinfoArgs, python: &Python, libtorch: Option<&Path>) -> Result<Report> {
    let differences = Differences::read(&root())?;
    let program = build(args.engine, libtorch)?;
    let mut options = Options::new(if args.bounded { &BOUNDED } else { &FULL }, &args.ops);
    if let Some(case) = &args.case {
        options.only(case)?;
    }
    if args.engine == Engine::Torch {
        options.engine("torch");
    }
    let mut report = Report::new(differences);
    running::run(python, &program, &options, &mut report)?;
    if !args.bounded && args.ops.is_empty() && args.engine == Engine::Native {
        report.find_stale();
    }
    Ok(report)
}

/// Builds `gt-opinfo`. The command names the whole workspace, so that the features are those of the
/// tests.
fn build(engine: Engine, libtorch: Option<&Path>) -> Result<PathBuf> {
    let mut step = cargo(&["build", "--workspace", "--bin", "gt-opinfo"]);
    step = step.args(&["--features", crate::EXTRAS]);
    if engine == Engine::Torch {
        step = step.args(&["--features", "torch"]);
    }
    if let Some(folder) = libtorch {
        step = step.env("LIBTORCH", &folder.to_string_lossy());
    }
    step.run()?;
    let program = target_folder().join("debug/gt-opinfo");
    if !program.exists() {
        bail!("the build did not make {}", program.display());
    }
    Ok(program)
}

/// The parts of a case's name: dtype, kind and number.
fn parts(case: &str) -> Result<(&str, &str, usize)> {
    let parts: Vec<&str> = case.split(':').collect();
    let [dtype, kind, number] = parts[..] else {
        bail!("`{case}` is not a case\nhint: an example of a name is f32:sample:3")
    };
    Ok((dtype, kind, number.parse().with_context(|| format!("`{number}` is not a number"))?))
}
