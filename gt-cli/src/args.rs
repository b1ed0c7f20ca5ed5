//! The command line: what may be said, and the help that explains it. It decides nothing.

use clap::{Args, Parser, Subcommand, ValueEnum};
use gt_compiler::Numerics;
use gt_runtime::choice::{Devices, EngineKind, Wish};
use std::path::PathBuf;

/// Serve, join, compile and run GT programs.
#[derive(Parser)]
#[command(name = "gt-cli", version, max_term_width = 100, after_help = EXAMPLES)]
#[command(subcommand_required = true, arg_required_else_help = true)]
pub(crate) struct Cli {
    /// Speak JSON: results on standard output, errors on standard error, one object a line
    #[arg(long, global = true)]
    pub(crate) json: bool,
    #[command(subcommand)]
    pub(crate) command: Command,
}

const EXAMPLES: &str = "\
Examples:
  A cluster in three terminals:
    gt-cli server -p 12345
    gt-cli worker --connect localhost:12345
    GT_CONNECT=localhost:12345 cargo run --release --example digits

  Look at a tape, then run it:
    gt-cli compile step.gt
    gt-cli compile step.gt --emit dot | dot -Tsvg > step.svg
    gt-cli diff step.gt other.gt
    gt-cli run step.gt --inputs in.safetensors --outputs out.safetensors

  See how fast it is:
    gt-cli bench mlp_small gpt
    gt-cli bench step.gt --inputs in.safetensors

  See what is wrong:
    gt-cli doctor

`-` stands for standard input or output. Exit status: 0 when it went well, 1 when it did not,
2 when the command line was wrong, 130 after Ctrl-C.";

#[derive(Subcommand)]
pub(crate) enum Command {
    /// Start the dispatcher that clients and workers connect to
    Server(ServerArgs),
    /// Offer this machine's device to a server
    Worker(WorkerArgs),
    /// Check a tape file and print it at any stage of the compiler
    Compile(CompileArgs),
    /// Say why two tapes do not share a plan
    Diff(DiffArgs),
    /// Run a tape file, or a compiled program, on tensors from a file
    Run(RunArgs),
    /// Measure the works of docs/benchmarks.md, or tapes of your own
    Bench(BenchArgs),
    /// Say what this build and this machine have, what is wrong, and what mends it
    Doctor(DoctorArgs),
}

#[derive(Args)]
#[command(after_help = DOCTOR_EXAMPLES)]
pub(crate) struct DoctorArgs {
    /// The port a server here would listen on
    #[arg(short, long, default_value_t = 12345)]
    pub(crate) port: u16,
}

const DOCTOR_EXAMPLES: &str = "\
It looks at the build, engines, processor, memory, GPUs, network, the folder of compiled programs
and the variables of the environment. It changes nothing.

Exit status: 0 when everything asked for works (by GT_ENGINE, GT_DEVICE, GT_CONNECT and the like),
1 when something does not.

Examples:
  gt-cli doctor
  GT_ENGINE=torch GT_DEVICE=cuda gt-cli doctor    whether that works here, and if not, why
  gt-cli doctor --json                            one object";

#[derive(Args)]
pub(crate) struct ServerArgs {
    /// Port to listen on; 0 takes a free one, which is printed
    #[arg(short, long, default_value_t = 12345)]
    pub(crate) port: u16,
    /// Host name or address to listen on
    #[arg(long, default_value = "localhost")]
    pub(crate) host: String,
    /// Listen where other machines reach it, although nothing authenticates them
    #[arg(long)]
    pub(crate) insecure: bool,
    /// Write every event to this file, one line each (as GT_INSTRUCTION_LOG does)
    #[arg(long, value_name = "FILE")]
    pub(crate) log_file: Option<PathBuf>,
}

#[derive(Args)]
#[command(after_help = WORKER_EXAMPLES)]
pub(crate) struct WorkerArgs {
    /// The server to work for
    #[arg(long, value_name = "HOST:PORT", env = "GT_CONNECT")]
    pub(crate) connect: String,
    /// What to call this worker, in the server's lines and in errors
    #[arg(long, value_name = "NAME", value_parser = name)]
    pub(crate) name: Option<String>,
    /// Threads that compute [default: one a core]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub(crate) threads: Option<u16>,
    #[command(flatten)]
    pub(crate) compute: ComputeArgs,
    /// Write every event to this file, one line each (as GT_INSTRUCTION_LOG does)
    #[arg(long, value_name = "FILE")]
    pub(crate) log_file: Option<PathBuf>,
    /// One of so many workers that another process supervises: takes its share of the machine, and
    /// ends when standard input does
    #[arg(long, hide = true, value_name = "N")]
    pub(crate) one_of: Option<usize>,
}

const WORKER_EXAMPLES: &str = "\
With several devices, or all, each gets a process of its own, named for its device, which this one
starts, supervises and ends: one that dies is started again, first after half a second, then later
and later, and is given up when it died six times in a row, or could not begin. Exit status: 0 when
the server ended, 1 when a worker was given up, 130 after Ctrl-C.

Examples:
  gt-cli worker --connect localhost:12345
  gt-cli worker --connect localhost:12345 --name pi --threads 2
  gt-cli worker --connect localhost:12345 --engine torch --device cuda:1
  gt-cli worker --connect localhost:12345 --device all";

/// A name that fits on a line.
fn name(text: &str) -> Result<String, String> {
    let fits = (1..=64).contains(&text.chars().count()) && !text.chars().any(char::is_control);
    if fits { Ok(text.to_owned()) } else { Err("a name has 1 to 64 characters".into()) }
}

#[derive(Args)]
#[command(after_help = COMPILE_EXAMPLES)]
pub(crate) struct CompileArgs {
    /// The tape, in text or binary form
    #[arg(value_name = "FILE.gt")]
    pub(crate) file: PathBuf,
    /// The stage to print [default: tape and graph]
    #[arg(long, value_enum, value_name = "STAGE")]
    pub(crate) emit: Option<Emit>,
    /// Write the compiled program to this file, for `gt-cli run` on machines with this kind of
    /// processor
    #[arg(short, long, value_name = "FILE.gtp")]
    pub(crate) output: Option<PathBuf>,
    /// How far results may be from those of the instructions one by one: exact, reassociate or
    /// approximate
    #[arg(long, value_name = "POLICY", env = gt_compiler::options::NUMERICS_VARIABLE)]
    pub(crate) numerics: Option<Numerics>,
    /// Say what this configuration of signals (YAML) says of the tape's scopes
    #[arg(long, value_name = "FILE.yaml")]
    pub(crate) config: Option<PathBuf>,
}

const RUN_EXAMPLES: &str = "\
A compiled program runs without compiling anything, on the build of GT and the kind of processor it
was compiled for. It holds machine code: run only what you would run as a program.

Examples:
  gt-cli run step.gt --inputs in.safetensors                      prints the outputs
  gt-cli run step.gt --inputs in.safetensors --outputs out.safetensors
  gt-cli run step.gt --inputs in.safetensors --connect localhost:12345
  gt-cli compile step.gt -o step.gtp && gt-cli run step.gtp --inputs in.safetensors";

const COMPILE_EXAMPLES: &str = "\
Examples:
  gt-cli compile step.gt                             what the tape says, as tape and as graph
  gt-cli compile step.gt --emit optimized            the program after all passes, and its costs
  gt-cli compile step.gt --emit egraph               rules that fired, patterns found
  gt-cli compile step.gt --emit plan                 launches, their kernels and buffers
  gt-cli compile step.gt --emit dot | dot -Tsvg > step.svg
  gt-cli compile step.gt --config signals.yaml       with what is said of each scope
  gt-cli compile step.gt -o step.gtp                 a compiled program: gt-cli run step.gtp
  gt-cli compile step.gt --json                      inputs, outputs, key, report: one object";

#[derive(Args)]
#[command(after_help = DIFF_EXAMPLES)]
pub(crate) struct DiffArgs {
    /// A tape, in text or binary form
    #[arg(value_name = "A.gt")]
    pub(crate) first: PathBuf,
    /// Another
    #[arg(value_name = "B.gt")]
    pub(crate) second: PathBuf,
}

const DIFF_EXAMPLES: &str = "\
Two tapes share a plan if they have the same key. It covers ops, shapes, dtypes, names of
dimensions, how operands are wired, frees, reads and signal scopes, in order; it leaves out the
numbers of values, the values of literals, source places and the names of inputs and outputs.

Exit status: 0 when the keys are equal, 1 when they are not (the first difference is printed),
2 when a tape cannot be read.

Examples:
  gt-cli diff monday.gt tuesday.gt
  gt-cli --json diff a.gt b.gt";

#[derive(Args)]
#[command(after_help = RUN_EXAMPLES)]
pub(crate) struct RunArgs {
    /// The tape, in text or binary form, or a program compiled by `gt-cli compile -o`
    #[arg(value_name = "FILE.gt|FILE.gtp")]
    pub(crate) file: PathBuf,
    /// Tensors for the tape's inputs, by name (`input "x"`) or by number (`%0`)
    #[arg(long, value_name = "IN.safetensors")]
    pub(crate) inputs: Option<PathBuf>,
    /// Where to write the tape's outputs, by name or by number [default: print them]
    #[arg(long, value_name = "OUT.safetensors")]
    pub(crate) outputs: Option<PathBuf>,
    /// Run on this server rather than in this process
    #[arg(long, value_name = "HOST:PORT", env = "GT_CONNECT")]
    pub(crate) connect: Option<String>,
    #[command(flatten)]
    pub(crate) compute: ComputeArgs,
}

#[derive(Args)]
#[command(after_help = BENCH_EXAMPLES)]
pub(crate) struct BenchArgs {
    /// What to measure: works by name, tape files [default: every work]
    #[arg(value_name = "WORK|FILE.gt")]
    pub(crate) works: Vec<String>,
    /// Name the works and say what they do
    #[arg(long)]
    pub(crate) list: bool,
    #[command(flatten)]
    pub(crate) compute: ComputeArgs,
    /// 0: every instruction by itself; 1: what repeats runs as a compiled plan [default: 1]
    #[arg(long, value_name = "T", value_parser = clap::value_parser!(u8).range(0..=1))]
    pub(crate) tier: Option<u8>,
    /// Steps to measure, after the warm-up
    #[arg(long, value_name = "N", conflicts_with = "seconds")]
    pub(crate) steps: Option<usize>,
    /// How long to measure, after the warm-up [default: 2]
    #[arg(long, value_name = "S")]
    pub(crate) seconds: Option<f64>,
    /// Tensors for the inputs of a tape [default: noise, and zeros for what holds no floats]
    #[arg(long, value_name = "IN.safetensors")]
    pub(crate) inputs: Option<PathBuf>,
    /// Measure on this server rather than in this process
    #[arg(long, value_name = "HOST:PORT", env = "GT_CONNECT")]
    pub(crate) connect: Option<String>,
    /// Measure nothing; print which rewrite rules fire in a step, and what they save by estimate,
    /// as an object for each work and numerics policy
    #[arg(long)]
    pub(crate) rules: bool,
    /// Measure in this very process and print an object
    #[arg(long, hide = true)]
    pub(crate) inner: bool,
    /// As --inner, in blocks: answer each line of standard input, which holds seconds, with samples
    #[arg(long, hide = true)]
    pub(crate) paced: bool,
}

const BENCH_EXAMPLES: &str = "\
Every work runs in a process of its own. Printed are the median of a step and what a tenth of the
steps stay under and go over; the seconds of the first step (inputs and parameters in place,
compiling included); instructions of a step; kernels, launches and bytes read and written of its
plan; and the memory the process took at most, over what it had at the start. Nothing compiled
earlier is used, unless GT_CACHE names a folder for it.

Examples:
  gt-cli bench --list
  gt-cli bench                             every work, some seconds each
  gt-cli bench mlp_small gpt --seconds 5
  gt-cli bench gpt --tier 0                each instruction by itself
  gt-cli bench step.gt --json              a tape of your own, one object a line
  gt-cli bench --rules gpt                 the rewrites of its step, by numerics policy
  cargo xtask bench --vs torch,jax         beside other frameworks, in one run";

/// What `compile` prints.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Emit {
    /// The verified tape, in text form
    Tape,
    /// The tape as its key sees it, with the key and what it leaves out
    Canonical,
    /// The graph, one node a line, with types and uses
    Graph,
    /// What the search for cheaper equal programs found: rules, patterns, costs before and after
    Egraph,
    /// The graph of primitives after all passes, and its costs
    Optimized,
    /// The loops of each kernel, what they load, compute and store
    Kernels,
    /// The compiled program: launches, what runs together, what each kernel computes, where buffers
    /// lie
    Plan,
    /// The code generator's intermediate representation of each kernel
    Clif,
    /// The machine instructions of each kernel, for this processor
    Asm,
    /// The optimized graph in Graphviz's language, its kernels framed
    Dot,
}

impl Emit {
    /// As the command line spells it.
    pub(crate) fn name(self) -> String {
        self.to_possible_value().map_or_else(String::new, |value| value.get_name().to_string())
    }
}

/// What computes in this process, and on what.
#[derive(Args)]
pub(crate) struct ComputeArgs {
    /// What computes: native, or torch (libtorch) [env: GT_ENGINE] [default: torch where this build
    /// has CUDA and the machine a device, else native]
    #[arg(long, value_name = "ENGINE")]
    pub(crate) engine: Option<EngineKind>,
    /// What it computes on: cpu, cuda, cuda:N, simulated, several with commas, or all (every CUDA
    /// device) [env: GT_DEVICE]
    #[arg(long, value_name = "DEVICE")]
    pub(crate) device: Option<Devices>,
}

impl ComputeArgs {
    /// What the flags ask for.
    pub(crate) fn wish(&self) -> Wish {
        Wish { engine: self.engine, devices: self.device.clone() }
    }

    /// Whether a flag asks for anything.
    pub(crate) fn is_given(&self) -> bool {
        self.engine.is_some() || self.device.is_some()
    }
}
