//! `gt-cli bench`: the works of docs/benchmarks.md, or a user's own tapes, measured.
//!
//! Each work runs in a process of its own, started by this one: its first call finds nothing
//! compiled by the work before, and its memory is its own. A process measures itself and prints its
//! row as an object; the one that started it prints the table.

mod cnn;
mod decode;
mod gpt;
mod large;
mod measure;
mod plan;
mod print;
mod rules;
mod step;
mod tape;
mod works;

use crate::args::BenchArgs;
use crate::fault::Silent;
use crate::fault::advised;
use crate::{files, signals, system};
use anyhow::{Context, Result, bail, ensure};
use gt_compiler::{Compile, Engine, Native, NativeConfig, Report};
use gt_ir::backend::Backend;
use gt_lang::{DynTensor, Session};
use gt_runtime::choice::{Choice, Devices};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use measure::{Surroundings, Until};
use print::Row;
use serde_json::json;
use std::io::{BufReader, IsTerminal, stdin, stdout};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use step::Step;
use works::{WORKS, Work};

/// Switches tiers; read by the runtime.
const TIER: &str = "GT_TIER";

/// Names the folder of compiled programs; read by the compiler.
const CACHE: &str = "GT_CACHE";

/// How long a work is measured when the user does not say.
const SECONDS: f64 = 2.0;

pub(crate) fn bench(args: &BenchArgs, json: bool) -> Result<()> {
    if args.list {
        return list(json);
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

/// What is measured.
enum Subject<'a> {
    Work(&'static Work),
    Tape(&'a Path),
}

impl Subject<'_> {
    fn work(&self) -> Result<&'static Work> {
        match self {
            Subject::Work(work) => Ok(work),
            Subject::Tape(path) => {
                let message = format!("{} is no work", path.display());
                bail!(advised(message, "`gt-cli compile --emit egraph` names the rules of a tape"))
            }
        }
    }
}

/// A work by its name, or a file.
fn subject(word: &str) -> Result<Subject<'_>> {
    if let Some(work) = WORKS.iter().find(|work| work.name == word) {
        return Ok(Subject::Work(work));
    }
    let path = Path::new(word);
    if path.extension().is_some() || path.exists() {
        return Ok(Subject::Tape(path));
    }
    let names = WORKS.iter().map(|work| work.name).collect::<Vec<_>>().join(", ");
    let message = format!("there is no work `{word}`, nor a file");
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
    // What is not here is said once, and so is what was found.
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
        .context("cannot tell where this program lies, to start it once more")?;
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
        ensure!(!args.compute.is_given(), system::chosen_there());
    }
    if let Some(Choice { engine, devices, .. }) = choice {
        let devices = Devices::List(devices.clone()).to_string();
        command.args(["--engine", engine.name(), "--device", &devices]);
    }
    if let Some(tier) = args.tier {
        command.env(TIER, tier.to_string());
    }
    if std::env::var_os(CACHE).is_none() {
        // A first call is one that compiles.
        command.env(CACHE, "off");
    }
    let output =
        command.stderr(Stdio::inherit()).output().context("cannot start the measurement")?;
    // It said itself what went wrong.
    ensure!(output.status.success(), Silent(output.status.code().unwrap_or(1)));
    Row::parse(&String::from_utf8_lossy(&output.stdout))
}

/// Measures one work here.
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

    let backend = system::open(args.connect.as_deref(), &args.compute)?;
    let session = Session::with_backend(backend.clone());
    let _current = session.enter();
    session.manual_seed(0);
    let around = Surroundings {
        settle: &|| settle(&session),
        stats: &|| Ok(session.stats()?),
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

/// A compiler such as made the plans: this process's own, or for a server's workers the one nearly
/// every machine has.
fn compiler(args: &BenchArgs) -> Result<Arc<dyn Compile>> {
    let own = || Choice::make(&args.compute.wish());
    let engine: Box<dyn Engine> = match args.connect {
        Some(_) => Box::new(Native::new(NativeConfig::host())?),
        None => own().map(|choice| choice.engine(choice.device(0), NativeConfig::host()))??,
    };
    Ok(engine.compiler())
}

/// Where a step comes from.
enum Source {
    Work(&'static Work),
    Tape(tape::Source),
}

impl Source {
    fn load(subject: &Subject<'_>, inputs: Option<&Path>) -> Result<Source> {
        Ok(match subject {
            Subject::Work(work) => Source::Work(work),
            Subject::Tape(path) => Source::Tape(tape::Source::load(path, inputs)?),
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

/// What is recorded runs in order: when a number made last is here, so is everything before it.
fn settle(session: &Session) -> Result<()> {
    session.flush();
    DynTensor::zeros((), gt_ir::DType::F32).item()?;
    Ok(())
}

/// The tier the environment asks for.
fn tier() -> u8 {
    std::env::var(TIER).ok().and_then(|text| text.trim().parse().ok()).unwrap_or(1)
}

/// A bar on the terminal, if there is one to draw it on.
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
