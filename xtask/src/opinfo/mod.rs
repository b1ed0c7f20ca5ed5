//! `cargo xtask opinfo`: PyTorch's own samples of its operators (OpInfo), computed by GT and by
//! PyTorch.
//!
//! Python programs of xtask/opinfo make the samples, have PyTorch and the program `gt-opinfo`
//! compute them and compare: results, gradients and second gradients, of every dtype GT has, by
//! instructions, as plans and with narrow vectors. Here PyTorch is fetched (`python`), the programs
//! are run and listened to (`running`), what they find is held against the intended differences
//! (`differences`), and the rest is told (`report`).

pub(crate) mod differences;
mod python;
mod report;
mod running;

use crate::shell::{cargo, root, target_folder};
use anyhow::{Context, Result, bail, ensure};
use clap::{Args, ValueEnum};
use differences::Differences;
use python::Python;
use report::Report;
use running::Options;
use std::path::{Path, PathBuf};

/// How long the programs are asked for everything, or for what every change is tested with: cases
/// of each operator, dtype and kind.
const FULL: [(&str, usize); 3] = [("sample", 60), ("reference", 40), ("special", 20)];
const BOUNDED: [(&str, usize); 2] = [("sample", 2), ("special", 2)];

#[derive(Args, Default)]
pub(crate) struct OpinfoArgs {
    /// Only the part that every change is tested with
    #[arg(long, conflicts_with_all = ["ops", "case"])]
    bounded: bool,
    /// Only this case of an operator, as a difference names it: `f32:sample:3`
    #[arg(long, requires = "ops")]
    case: Option<String>,
    /// Print differences that are meant to be, too
    #[arg(long)]
    intended: bool,
    /// What computes: `torch` is built with libtorch
    #[arg(long, value_enum, default_value_t = Engine::Native)]
    engine: Engine,
    /// Also write every outcome to this file, an object a line
    #[arg(long)]
    json: Option<PathBuf>,
    /// PyTorch's operators, as OpInfo calls them [default: all that GT has]
    ops: Vec<String>,
}

#[derive(Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
enum Engine {
    #[default]
    Native,
    Torch,
}

/// Runs what is asked for; what is neither as PyTorch has it nor intended is an error.
pub(crate) fn opinfo(args: &OpinfoArgs) -> Result<()> {
    let python = Python::get()?;
    let report = compared(args, &python)?;
    if let Some(file) = &args.json {
        report.keep(file)?;
    }
    let n_unexpected = report.tell(args.case.is_some(), args.intended);
    ensure!(n_unexpected == 0, "{n_unexpected} cases are not as PyTorch has them");
    Ok(())
}

/// The bounded part, for the tests; where there is no Python for it, says so.
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

/// Everything from the build to the last line of the programs. The folder is libtorch's, for a
/// build with it.
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

/// The subject. All of the workspace is named, so that nothing is built with other features than
/// tests are.
fn build(engine: Engine, libtorch: Option<&Path>) -> Result<PathBuf> {
    let mut step = cargo(&["build", "--workspace", "--bin", "gt-opinfo"]);
    if engine == Engine::Torch {
        step = step.args(&["--features", "torch"]);
    }
    if let Some(folder) = libtorch {
        step = step.env("LIBTORCH", &folder.to_string_lossy());
    }
    step.run()?;
    let program = target_folder().join("debug/gt-opinfo");
    if !program.exists() {
        bail!("the build left no {}", program.display());
    }
    Ok(program)
}

/// A case's name as its parts: dtype, kind and number.
fn parts(case: &str) -> Result<(&str, &str, usize)> {
    let parts: Vec<&str> = case.split(':').collect();
    let [dtype, kind, number] = parts[..] else {
        bail!("`{case}` is no case\nhint: cases are called like f32:sample:3")
    };
    Ok((dtype, kind, number.parse().with_context(|| format!("`{number}` is no number"))?))
}
