//! The project's own chores: `cargo xtask test` is what a change has to pass, the rest are its
//! parts.
//!
//! Each chore is an ordinary `cargo` or `git` command, printed before it runs, so that it can be
//! repeated by hand. Nothing here is needed to build or use the project.
#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a command-line tool talks to its terminal"
)]

mod bench;
mod gpu_bundle;
mod guide;
mod libtorch;
mod opinfo;
mod ops_page;
mod readme;
mod reference;
mod shell;
mod tidy;

use anyhow::Result;
use clap::{Parser, Subcommand};
use shell::{Step, cargo, root};

#[derive(Parser)]
#[command(name = "cargo xtask", about = "Chores of this repository")]
struct Cli {
    #[command(subcommand)]
    chore: Chore,
}

#[derive(Subcommand)]
enum Chore {
    /// Check everything a change has to pass: format, house rules, lints, tests, documentation
    Test,
    /// Format every source file (with --check: only say what would change)
    Fmt {
        /// Change nothing; fail if something would change
        #[arg(long)]
        check: bool,
    },
    /// Check the house rules that no compiler checks: headers, crate edges, sizes, generated pages,
    /// links
    Tidy,
    /// Write the generated parts of documents anew: the ops of docs/tape-format.md, the figures of
    /// README.md
    Docs,
    /// Build the user guide into target/guide and check its links
    Guide,
    /// Run the tests, writing every snapshot and expectation anew; look at `git diff` afterwards
    Bless,
    /// Fetch the pinned libtorch from PyPI into `.libtorch`, for features `torch` and `cuda`
    Libtorch(libtorch::LibtorchArgs),
    /// Build a folder that tests and measures everything on a machine with a GPU, with one command
    GpuBundle(gpu_bundle::GpuBundleArgs),
    /// Measure what docs/benchmarks.md lists (optimized build); with --vs beside other frameworks,
    /// in turn
    Bench(bench::BenchArgs),
    /// Compute PyTorch's own samples of its operators with GT and with PyTorch, and compare
    Opinfo(opinfo::OpinfoArgs),
    /// Run a fuzz target for some seconds: text, binary, run, wire, or replay
    Fuzz {
        /// The target: `text` (parser), `binary` (decoder), `run` (verified tapes on interpreter
        /// and engine), `wire` (packets, and a dispatcher that takes them), `replay` (programs of
        /// loops, as plans and without)
        #[arg(default_value = "text")]
        target: String,
        /// How long
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
        Chore::Guide => guide::guide(),
        Chore::Bless => bless(),
        Chore::Libtorch(args) => libtorch::libtorch(&args),
        Chore::GpuBundle(args) => gpu_bundle::gpu_bundle(&args),
        Chore::Bench(args) => bench::bench(&args),
        Chore::Opinfo(args) => opinfo::opinfo(&args),
        Chore::Fuzz { target, seconds } => fuzz(&target, seconds),
    }
}

/// The whole check, cheapest parts first. Lints and documentation share the artefacts of `cargo
/// check`, and the tests are built once, so that the world is compiled twice (without and with
/// code) and no third time; only what knows libtorch is, with it.
fn test() -> Result<()> {
    let steps: [(&str, &dyn Fn() -> Result<()>); 9] = [
        ("format", &|| format(true)),
        ("house rules", &|| tidy::tidy(&root())),
        ("lints", &|| {
            cargo(&["clippy", "--workspace", "--all-targets", "--quiet", "--", "-D", "warnings"])
                .run()
        }),
        ("tests", &|| cargo(&["test", "--workspace"]).env("INSTA_UPDATE", "no").run()),
        ("random programs", &|| {
            // The whole workspace again, so that nothing is built with other features.
            cargo(&["test", "--workspace", "--test", "it", "as_many_random_programs"])
                .env("GT_REPLAY_SECONDS", "20")
                .run()
        }),
        ("documentation", &|| {
            cargo(&["doc", "--workspace", "--no-deps", "--quiet"])
                .env("RUSTDOCFLAGS", "-D warnings -A rustdoc::private-intra-doc-links")
                .run()
        }),
        ("guide", &guide::guide),
        ("libtorch", &with_libtorch),
        ("pytorch's samples", &opinfo::bounded),
    ];
    let mut times = Vec::new();
    for (name, step) in steps {
        println!("\n== {name}");
        times.push((name, shell::timed(step)?));
    }
    if std::env::var_os("CI").is_some() {
        println!("\n== nothing changed by the suite");
        Step::new("git", &["diff", "--exit-code"]).run()?;
    }
    println!("\nall of it passed:");
    for (name, time) in times {
        println!("  {name:<17} {:>6.1} s", time.as_secs_f64());
    }
    Ok(())
}

/// Lints and tests with libtorch, of everything, since a smaller choice of packages would build
/// their dependencies anew, with fewer features. With feature `cuda` what needs a GPU says that it
/// was skipped where there is none; that it compiles and links, and that NVRTC takes the kernels,
/// is seen anywhere.
fn with_libtorch() -> Result<()> {
    let libtorch::ForTests { feature, folder } = libtorch::for_tests()?;
    let with = |step: Step| match &folder {
        Some(folder) => step.env("LIBTORCH", &folder.to_string_lossy()),
        None => step,
    };
    let lints = cargo(&["clippy", "--workspace", "--all-targets", "--quiet"]);
    with(lints).args(&["--features", feature, "--", "-D", "warnings"]).run()?;
    let targets = ["--lib", "--test", "it", "--test", "torch", "--test", "cuda"];
    let targets = if feature == "cuda" { &targets[..] } else { &targets[..5] };
    // What compilers say of users' mistakes knows nothing of engines and takes long.
    with(cargo(&["test", "--workspace", "--features", feature]))
        .args(targets)
        .args(&["--", "--skip", "mistakes_have_short_errors"])
        .env("INSTA_UPDATE", "no")
        .run()
}

/// All source files: those of the workspace, and of the guide's builder, which is a workspace of
/// its own.
fn format(check: bool) -> Result<()> {
    let check: &[&str] = if check { &["--check"] } else { &[] };
    cargo(&["fmt", "--all"]).args(check).run()?;
    cargo(&["fmt", "--manifest-path", guide::PACKAGE]).args(check).run()
}

fn documents() -> Result<()> {
    reference::write(&root())?;
    ops_page::write(&root())?;
    readme::write(&root())
}

fn bless() -> Result<()> {
    documents()?;
    cargo(&["test", "--workspace", "--no-fail-fast"])
        .env("INSTA_UPDATE", "always")
        .env("GT_BLESS", "1")
        .run()?;
    Step::new("git", &["status", "--short"]).run()
}

/// Coverage-guided, on the stable compiler: the instrumentation is a code generation option and
/// libFuzzer comes with its crate.
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
    let arguments = [
        "run",
        "--manifest-path",
        "fuzz/Cargo.toml",
        "--release",
        "--target",
        &triple,
        "--bin",
        target,
    ];
    cargo(&arguments)
        .args(&[
            "--",
            &corpus,
            "fuzz/seeds",
            &time,
            "-timeout=10",
            "-rss_limit_mb=4096",
            "-print_final_stats=1",
        ])
        .env("RUSTFLAGS", INSTRUMENT)
        .run()
}
