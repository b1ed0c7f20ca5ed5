//! `gt-cli bench`: measures the works of docs/benchmarks.md, or a user's tapes.
//!
//! Each work runs in a process of its own, so its first call finds nothing compiled by another
//! work, and its memory is its own. The process measures itself and prints its row as an object.
//! This process, which starts it, prints the table.

mod cnn;
mod decode;
mod gpt;
mod large;
mod measure;
mod plan;
mod print;
mod rules;
mod served;
mod step;
mod tape;
mod works;

use crate::args::BenchArgs;
use crate::fault::Silent;
use crate::fault::{advised, run_error};
use crate::{files, signals, system};
use anyhow::{Context, Result, bail, ensure};
use gt_compiler::{Compile, Engine, Native, NativeConfig, Report};
use gt_ir::backend::{Backend, Demand};
use gt_lang::{DynTensor, Session, ShardConfig, SignalConfig};
use gt_runtime::choice::{Choice, Devices};
use gt_runtime::embedded::WORKERS;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use measure::{Surroundings, Until};
use print::Row;
use serde_json::json;
use std::io::{BufReader, IsTerminal, stdin, stdout};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use step::Step;
use tape::TapeFile;
use works::{WORKS, Work};

/// The variable for the tier, which the runtime reads.
const TIER: &str = "GT_TIER";

/// The variable for the folder of compiled programs, which the compiler reads.
const CACHE: &str = "GT_CACHE";

/// How many seconds a work is measured by default.
const SECONDS: f64 = 2.0;

pub(crate) fn bench(args: &BenchArgs, json: bool) -> Result<()> {
    if args.list {
        return list(json);
    }
    if args.served {
        let system = served::system(&args.compute.wish()).map_err(run_error)?;
        return served::serve(|| system.session(), BufReader::new(stdin().lock()), stdout().lock());
    }
    let named = args.works.iter().map(|word| subject(word)).collect::<Result<Vec<_>>>()?;
    if args.rules {
        let works = named.iter().map(Subject::work).collect::<Result<Vec<&Work>>>()?;
        let all = || WORKS.iter().filter(|work| !work.gpu).collect();
        return rules::rules(&if works.is_empty() { all() } else { works }, &args.compute);
    }
    match &named[..] {
        [one] if args.inner || args.paced => inner(args, one),
        _ => {
            ensure!(!args.paced, "`--paced` measures one work at a time");
            let all = if named.is_empty() {
                WORKS.iter().filter(|work| !work.gpu).map(|work| work.name.to_string()).collect()
            } else {
                args.works.clone()
            };
            table(args, &all, json)
        }
    }
}

/// A work or a tape to measure.
enum Subject<'a> {
    Work(&'static Work),
    Tape(&'a Path),
}

impl Subject<'_> {
    fn work(&self) -> Result<&'static Work> {
        match self {
            Subject::Work(work) => Ok(work),
            Subject::Tape(path) => {
                let message = format!("{} is not a work", path.display());
                bail!(advised(message, "`gt-cli compile --emit egraph` prints the rules of a tape"))
            }
        }
    }
}

/// Finds a work by its name, or a tape file.
fn subject(word: &str) -> Result<Subject<'_>> {
    if let Some(work) = WORKS.iter().find(|work| work.name == word) {
        return Ok(Subject::Work(work));
    }
    let path = Path::new(word);
    if path.extension().is_some() || path.exists() {
        return Ok(Subject::Tape(path));
    }
    let names = WORKS.iter().map(|work| work.name).collect::<Vec<_>>().join(", ");
    let message = format!("there is no work and no file `{word}`");
    bail!(advised(message, format!("the works are {names}")))
}

fn list(json: bool) -> Result<()> {
    let line = |work: &Work| match json {
        true => format!("{}\n", json!({ "work": work.name, "about": work.about, "gpu": work.gpu })),
        false => format!("{:<14} {}\n", work.name, work.about),
    };
    files::write(Path::new("-"), WORKS.iter().map(line).collect::<String>().as_bytes())
}

/// Measures the works one after another, each in a process of its own.
fn table(args: &BenchArgs, works: &[String], json: bool) -> Result<()> {
    signals::end_at_interrupt("the measurement was interrupted")?;
    let stdout = Path::new("-");
    // A missing engine or device is reported once here, and so is the GPU that was chosen.
    let choice = match args.connect {
        Some(_) => None,
        None => Some(Choice::make(&args.compute.wish())?),
    };
    if let Some(Choice { found: Some(found), devices, .. }) = &choice {
        eprintln!("measured on {} ({found})", Devices::List(devices.clone()));
    }
    if !json {
        files::write(stdout, format!("{}\n", print::head()).as_bytes())?;
    }
    for work in works {
        let row = measured_elsewhere(args, choice.as_ref(), work, json)?;
        let lines = if json {
            row.json().to_string()
        } else {
            [Some(row.line()), row.about_graphs()]
                .into_iter()
                .flatten()
                .collect::<Vec<_>>()
                .join("\n")
        };
        files::write(stdout, format!("{lines}\n").as_bytes())?;
    }
    Ok(())
}

fn measured_elsewhere(
    args: &BenchArgs,
    choice: Option<&Choice>,
    work: &str,
    json: bool,
) -> Result<Row> {
    let program = std::env::current_exe()
        .context("cannot find the path of this program, to start it again")?;
    let mut command = Command::new(program);
    command.args(["bench", "--inner", work]);
    if json {
        command.arg("--json");
    }
    if let Some(steps) = args.steps {
        command.args(["--steps", &steps.to_string()]);
    }
    if let Some(seconds) = args.seconds {
        command.args(["--seconds", &seconds.to_string()]);
    }
    if let Some(file) = &args.inputs {
        command.arg("--inputs").arg(file);
    }
    if let Some(address) = &args.connect {
        command.args(["--connect", address]);
        let Demand { engine, device, .. } = args.compute.demand();
        command.args(engine.iter().flat_map(|engine| ["--engine", engine]));
        command.args(device.iter().flat_map(|device| ["--device", device]));
    }
    if let Some(Choice { engine, devices, .. }) = choice {
        let devices = Devices::List(devices.clone()).to_string();
        command.args(["--engine", engine.name(), "--device", &devices]);
    }
    if let Some(workers) = args.workers {
        command.env(WORKERS, workers.to_string()).args(["--workers", &workers.to_string()]);
    }
    if args.auto {
        command.arg("--auto");
    }
    if let Some(level) = args.zero {
        command.args(["--zero", &level.to_string()]);
    }
    if let Some(tier) = args.tier {
        command.env(TIER, tier.to_string());
    }
    if std::env::var_os(CACHE).is_none() {
        // The first call includes compilation.
        command.env(CACHE, "off");
    }
    let output =
        command.stderr(Stdio::inherit()).output().context("cannot start the measurement")?;
    // The process has reported its error.
    ensure!(output.status.success(), Silent(output.status.code().unwrap_or(1)));
    Row::parse(&String::from_utf8_lossy(&output.stdout))
}

/// Measures one work in this process.
fn inner(args: &BenchArgs, subject: &Subject<'_>) -> Result<()> {
    signals::end_at_interrupt("")?;
    let name = match subject {
        Subject::Work(work) => work.name.to_string(),
        Subject::Tape(path) => files::shown(path),
    };
    let source = Source::load(subject, args.inputs.as_deref())?;
    let until = args.steps.map_or(Until::Seconds(args.seconds.unwrap_or(SECONDS)), Until::Steps);
    let bar = bar(&name, !args.paced);
    let row = Row::new(&name, tier());

    if let Some(workers) = args.workers.filter(|_| !args.auto && args.zero.is_none()) {
        let workers = Some((0..u32::from(workers)).collect());
        let shard = Some(ShardConfig { workers, ..ShardConfig::default() });
        gt_lang::register_config(step::BATCH, SignalConfig { shard, ..SignalConfig::default() })?;
    }
    let backend = system::open(args.connect.as_deref(), &args.compute, (args.auto, args.zero))?;
    let session = Session::with_backend(backend.clone());
    let _current = session.enter();
    session.manual_seed(0);
    let around = Surroundings {
        settle: &|| settle(&session),
        stats: &|| Ok(session.stats()?),
        apart: args.connect.is_some(),
        progress: &|share| bar.set_position((share * 1000.0) as u64),
    };
    let prepare = || Ok(source.prepare(&backend));
    if args.paced {
        let asks = BufReader::new(stdin().lock());
        return measure::measure_paced(prepare, &around, row, asks, stdout().lock());
    }
    let mut row = measure::measure(prepare, until, &around, row)?;
    if row.tier > 0 {
        row.plan(&source.report(&session, &*compiler(args)?)?);
    }
    bar.finish_and_clear();
    files::write(Path::new("-"), format!("{}\n", row.json()).as_bytes())
}

/// A compiler like that of the plans: this process's engine's, or the native engine's for a
/// server's workers.
fn compiler(args: &BenchArgs) -> Result<Arc<dyn Compile>> {
    let own = || Choice::make(&args.compute.wish());
    let engine: Box<dyn Engine> = match args.connect {
        Some(_) => Box::new(Native::new(NativeConfig::host())?),
        None => own().map(|choice| choice.engine(choice.device(0), NativeConfig::host()))??,
    };
    Ok(engine.compiler())
}

/// The source of a step.
enum Source {
    Work(&'static Work),
    Tape(TapeFile),
}

impl Source {
    fn load(subject: &Subject<'_>, inputs: Option<&Path>) -> Result<Source> {
        Ok(match subject {
            Subject::Work(work) => Source::Work(work),
            Subject::Tape(path) => Source::Tape(TapeFile::load(path, inputs)?),
        })
    }

    fn prepare(&self, backend: &Arc<dyn Backend>) -> Step {
        match self {
            Source::Work(work) => (work.prepare)(),
            Source::Tape(source) => source.prepare(backend.clone()),
        }
    }

    fn report(&self, session: &Session, compiler: &dyn Compile) -> Result<Report> {
        match self {
            Source::Work(work) => plan::report(session, compiler, || Ok((work.prepare)())),
            Source::Tape(source) => source.report(compiler),
        }
    }
}

/// Waits until everything recorded has run. Instructions run in order, so it reads a number that is
/// recorded last.
fn settle(session: &Session) -> Result<()> {
    session.flush();
    DynTensor::zeros((), gt_ir::DType::F32).item()?;
    Ok(())
}

/// The tier of the environment.
fn tier() -> u8 {
    std::env::var(TIER).ok().and_then(|text| text.trim().parse().ok()).unwrap_or(1)
}

/// A progress bar, if standard error is a terminal.
fn bar(name: &str, wanted: bool) -> ProgressBar {
    let set = |name| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    let dumb = std::env::var_os("TERM").is_none_or(|term| term == "dumb");
    if !wanted || dumb || !std::io::stderr().is_terminal() {
        return ProgressBar::with_draw_target(None, ProgressDrawTarget::hidden());
    }
    let colors = if set("NO_COLOR") { "{bar:30}" } else { "{bar:30.cyan/blue}" };
    let style = ProgressStyle::with_template(&format!("{{prefix:14}} {colors} {{elapsed}}"));
    ProgressBar::new(1000)
        .with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
        .with_prefix(name.to_string())
}
