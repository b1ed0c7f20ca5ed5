//! The development commands of the project. `cargo xtask test` runs every check that a change has
//! to pass.
//!
//! Each command runs ordinary `cargo` and `git` commands and prints them first, so that they can be
//! repeated by hand. Nothing here is needed to build or use the project.
#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a command-line tool talks to its terminal"
)]

mod agents;
mod bench;
mod dist;
mod egraph_page;
mod gpu_bundle;
mod guide;
mod libtorch;
mod onnx;
mod opinfo;
mod ops_page;
mod pictures;
mod readme;
mod reference;
mod shell;
mod tidy;

use anyhow::Result;
use clap::{Parser, Subcommand};
use shell::{Step, cargo, root};

#[derive(Parser)]
#[command(name = "cargo xtask", about = "Development commands of this repository")]
struct Cli {
    #[command(subcommand)]
    chore: Chore,
}

#[derive(Subcommand)]
enum Chore {
    /// Run every check that a change has to pass: format, house rules, lints, tests, documentation
    Test,
    /// Format every source file (with --check: only report the differences)
    Fmt {
        /// Change no file, and fail if a file is not formatted
        #[arg(long)]
        check: bool,
    },
    /// Check the house rules that no compiler checks: headers, sizes, dependencies of crates and
    /// modules, unsafe code, generated pages, links
    Tidy,
    /// Update the generated parts of documents: docs/ops.md, the ops of docs/tape-format.md, the
    /// figures of README.md, the API of AGENTS.md
    Docs,
    /// Write docs/egraph.md anew: which rewrite rules fire, and what they save (optimized build)
    Egraph,
    /// Make the pictures of README.md and the guide anew (optimized build)
    Pictures(pictures::PicturesArgs),
    /// Build the user guide into target/guide and check its links
    Guide(guide::GuideArgs),
    /// Run the tests and update every snapshot and expectation; review `git diff` afterwards
    Bless,
    /// Build an archive for machines without Rust: the stripped program, completions, pages for
    /// `man`, files for deployment
    Dist(dist::DistArgs),
    /// Fetch the pinned libtorch from PyPI into `.libtorch`, for the features `torch` and `cuda`
    Libtorch(libtorch::LibtorchArgs),
    /// Build a folder of programs that test and measure GT on a machine with a GPU
    GpuBundle(gpu_bundle::GpuBundleArgs),
    /// Measure the rows of docs/benchmarks.md (optimized build), or with --vs the works in turn
    /// with other frameworks
    Bench(bench::BenchArgs),
    /// Compare GT with PyTorch on PyTorch's own samples of its operators
    Opinfo(opinfo::OpinfoArgs),
    /// Run ONNX files of every row of the op table and of whole models by ONNX's evaluator, and
    /// compare the results with GT's
    Onnx,
    /// Let workers, clients and the server fail at random while programs train, and check their
    /// results
    Chaos {
        /// Seconds to run
        #[arg(long, default_value_t = 120)]
        seconds: u64,
        /// Repeat the faults of a run that failed
        #[arg(long)]
        seed: Option<u64>,
    },
    /// Run a fuzz target
    Fuzz {
        /// The target: `text` (the parser), `binary` (the decoder), `run` (verified tapes on the
        /// interpreter and the engine), `wire` (packets, and a dispatcher that receives them),
        /// `replay` (programs with loops, with and without plans); readers of files: `npy`,
        /// `idx` (and CIFAR's), `gguf`, `safetensors`, `csv`, `pth`, `signals` (the configuration
        /// in YAML), `program` (compiled programs)
        #[arg(default_value = "text")]
        target: String,
        /// Seconds to run
        #[arg(long, default_value_t = 30)]
        seconds: u64,
    },
}

fn main() {
    if let Err(error) = run(Cli::parse().chore) {
        eprintln!("error: {error:#}");
        std::process::exit(1);
    }
}

fn run(chore: Chore) -> Result<()> {
    match chore {
        Chore::Test => test(),
        Chore::Fmt { check } => format(check),
        Chore::Tidy => tidy::tidy(&root()),
        Chore::Docs => documents(),
        Chore::Egraph => egraph_page::write(&root()),
        Chore::Pictures(args) => pictures::pictures(&args),
        Chore::Guide(args) => guide::guide(&args),
        Chore::Bless => bless(),
        Chore::Dist(args) => dist::dist(&args),
        Chore::Libtorch(args) => libtorch::libtorch(&args),
        Chore::GpuBundle(args) => gpu_bundle::gpu_bundle(&args),
        Chore::Bench(args) => bench::bench(&args),
        Chore::Opinfo(args) => opinfo::opinfo(&args),
        Chore::Onnx => onnx::onnx(),
        Chore::Chaos { seconds, seed } => chaos(seconds, seed),
        Chore::Fuzz { target, seconds } => fuzz(&target, seconds),
    }
}

/// The features that are off by default and need nothing that is not there: readers of other
/// programs' data, ONNX, and spans for OpenTelemetry.
pub(crate) const EXTRAS: &str = "audio,images,onnx,otel,parquet,tokenizers";

/// The whole check, cheapest parts first. Lints and documentation share the artefacts of `cargo
/// check`, and the tests are built once. All crates are therefore compiled twice, without and with
/// code generation; the last steps compile the crates that use libtorch once more. `gt-features`
/// sees to it that crates of others are not compiled for each choice of features. Lints are with
/// all features, and without any. All tests are with [`EXTRAS`]; the smallest GT and the dependent
/// are without.
fn test() -> Result<()> {
    let steps: [(&str, &dyn Fn() -> Result<()>); 14] = [
        ("format", &|| format(true)),
        ("house rules", &|| tidy::tidy(&root())),
        ("lints", &lints),
        ("without features", &|| {
            // The smallest GT, which dependents may choose, with no more features of others than
            // it asks for.
            let least = ["clippy", "--package", "gt-tensor", "--lib", "--no-default-features"];
            cargo(&least).args(&["--quiet", "--", "-D", "warnings"]).run()
        }),
        ("packages", &|| {
            let all = ["package", "--workspace", "--exclude", "xtask", "--exclude", "gt-opinfo"];
            let all = cargo(&all).args(&["--exclude", "gt-features"]);
            all.args(&["--no-verify", "--allow-dirty", "--quiet"]).run()
        }),
        ("tests", &|| {
            let all = cargo(&["test", "--workspace", "--features", EXTRAS]);
            all.env("INSTA_UPDATE", "no").run()
        }),
        ("onnx", &onnx::onnx),
        ("a dependent", &|| dependent()?.run()),
        ("random programs", &|| {
            // Names the whole workspace, because a smaller choice has other features to build.
            cargo(&["test", "--workspace", "--features", EXTRAS])
                .args(&["--test", "it", "as_many_random_programs"])
                .env("GT_REPLAY_SECONDS", "20")
                .run()
        }),
        ("documentation", &guide::documentation),
        // With the pages that the step before has made.
        ("guide", &|| guide::guide(&guide::GuideArgs { api: true })),
        ("libtorch", &with_libtorch),
        ("one with torch", &dependent_with_torch),
        ("pytorch's samples", &opinfo::bounded),
    ];
    let mut times = Vec::new();
    for (name, step) in steps {
        println!("\n== {name}");
        let time = shell::timed(step)?;
        println!("-- {name}: {:.1} s", time.as_secs_f64());
        times.push((name, time));
    }
    if std::env::var_os("CI").is_some() {
        println!("\n== no file changed by the tests");
        Step::new("git", &["diff", "--exit-code"]).run()?;
    }
    println!("\nall checks passed:");
    for (name, time) in times {
        println!("  {name:<17} {:>6.1} s", time.as_secs_f64());
    }
    Ok(())
}

/// Builds and runs a package outside the workspace, with the versions of dependencies that the
/// workspace has, and what is compiled of them.
fn dependent() -> Result<Step> {
    let (folder, target) = (root().join("tests/dependent"), root().join("target"));
    std::fs::copy(root().join("Cargo.lock"), folder.join("Cargo.lock"))?;
    let (manifest, target) = (folder.join("Cargo.toml"), target.to_string_lossy().into_owned());
    let run = ["run", "--quiet", "--manifest-path", &manifest.to_string_lossy(), "--target-dir"];
    Ok(cargo(&run).args(&[&target]))
}

/// That package with libtorch. `LD_LIBRARY_PATH` is empty, so that libtorch is found by the path
/// that the build script of the package writes into the program.
fn dependent_with_torch() -> Result<()> {
    let run = dependent()?.args(&["--features", "torch"]);
    let run = libtorch::for_tests()?.given_to(run);
    run.env("LD_LIBRARY_PATH", "").env("GT_ENGINE", "torch").run()
}

/// A step with libtorch and [`EXTRAS`]; and the feature of libtorch.
fn with_all(step: Step) -> Result<(Step, &'static str)> {
    let libtorch = libtorch::for_tests()?;
    let features = format!("{},{EXTRAS}", libtorch.feature);
    Ok((libtorch.given_to(step).args(&["--features", &features]), libtorch.feature))
}

fn lints() -> Result<()> {
    let (lints, _) = with_all(cargo(&["clippy", "--workspace", "--all-targets", "--quiet"]))?;
    lints.args(&["--", "-D", "warnings"]).run()
}

/// Tests with libtorch, of the packages that use it. They take the whole workspace but for the
/// others, because a smaller choice of packages would compile the dependencies again with fewer
/// features. With feature `cuda`, tests that need a GPU report that they are skipped where there is
/// none. Compiling, linking and NVRTC are tested on every machine.
fn with_libtorch() -> Result<()> {
    let without = ["gt-ir", "gt-lang", "gt-settings", "xtask"].map(|name| ["--exclude", name]);
    let users = || cargo(&["test", "--workspace"]).args(&without.concat());
    let tests = || with_all(users().env("INSTA_UPDATE", "no"));
    let (parts, feature) = tests()?;
    let cuda = if feature == "cuda" { &["--test", "cuda"][..] } else { &[] };
    parts.args(&["--lib", "--test", "torch"]).args(cuda).run()?;
    let (wholes, _) = tests()?;
    wholes.args(&["--test", "it", "--"]).args(USERS).run()
}

/// The modules among the tests of whole crates and systems that use libtorch. The others ran in the
/// step before, and run no other code with these features.
const USERS: &[&str] =
    &["device::", "halves::", "reads::", "spread::", "torch::", "workers::", "zoo::"];

/// Formats the sources of the workspace, and of the builder of the guide, which is a workspace of
/// its own.
fn format(check: bool) -> Result<()> {
    let check: &[&str] = if check { &["--check"] } else { &[] };
    cargo(&["fmt", "--all"]).args(check).run()?;
    cargo(&["fmt", "--manifest-path", guide::PACKAGE]).args(check).run()
}

fn documents() -> Result<()> {
    reference::write(&root())?;
    ops_page::write(&root())?;
    readme::write(&root())?;
    agents::write(&root(), &tidy::sources(&root())?)
}

fn bless() -> Result<()> {
    documents()?;
    cargo(&["test", "--workspace", "--no-fail-fast"])
        .env("INSTA_UPDATE", "always")
        .env("GT_BLESS", "1")
        .run()?;
    Step::new("git", &["status", "--short"]).run()
}

/// Runs the test with faults at random for longer than the whole check does.
fn chaos(seconds: u64, seed: Option<u64>) -> Result<()> {
    let test = cargo(&["test", "--workspace", "--test", "it", "whatever_fails"]);
    let test = test.args(&["--", "--nocapture"]).env("GT_CHAOS_SECONDS", &seconds.to_string());
    match seed {
        Some(seed) => test.env("GT_CHAOS_SEED", &seed.to_string()).run(),
        None => test.run(),
    }
}

/// Runs a coverage-guided fuzz target with the stable compiler. The instrumentation is a code
/// generation option, and libFuzzer is part of its crate.
fn fuzz(target: &str, seconds: u64) -> Result<()> {
    const INSTRUMENT: &str = "--cfg fuzzing -Cpasses=sancov-module \
                              -Cllvm-args=-sanitizer-coverage-level=4 \
                              -Cllvm-args=-sanitizer-coverage-inline-8bit-counters \
                              -Cllvm-args=-sanitizer-coverage-pc-table \
                              -Cllvm-args=-sanitizer-coverage-trace-compares -Ccodegen-units=1";
    let triple = shell::host_triple()?;
    let time = format!("-max_total_time={seconds}");
    let corpus = format!("fuzz/corpus/{target}");
    std::fs::create_dir_all(root().join(&corpus))?;
    let arguments = ["run", "--manifest-path", "fuzz/Cargo.toml", "--release", "--target", &triple];
    cargo(&arguments)
        .args(&["--", &corpus, &time, "-timeout=10", "-rss_limit_mb=4096", "-print_final_stats=1"])
        .env("RUSTFLAGS", INSTRUMENT)
        .env("GT_FUZZ_TARGET", target)
        .env("GT_FUZZ_CORPUS", &corpus)
        .run()
}
