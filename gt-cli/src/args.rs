//! The command line: its arguments and help texts. It decides nothing.

use crate::quota::Quotas;
use clap::{Args, Parser, Subcommand, ValueEnum};
use gt_compiler::Numerics;
use gt_ir::ValueId;
use gt_ir::backend::Demand;
use gt_runtime::choice::{Devices, EngineKind, Wish};
use gt_runtime::doors::{PublicKey, Roles};
use gt_runtime::priority::Priority;
use gt_runtime::zmq::Address;
use std::path::PathBuf;

/// Serve, join, compile and run GT programs.
#[derive(Parser)]
#[command(name = "gt-cli", version, max_term_width = 100, after_help = EXAMPLES)]
#[command(subcommand_required = true, arg_required_else_help = true)]
pub(crate) struct Cli {
    /// Print JSON, one object on each line: results on standard output, errors on standard error
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
    gt-cli status --connect HOST:PORT
    gt-cli doctor

`-` stands for standard input or output. Exit status: 0 for success, 1 for an error, 2 for a wrong
command line, 130 after Ctrl-C.";

#[derive(Subcommand)]
pub(crate) enum Command {
    /// Start the dispatcher that clients and workers connect to
    Server(ServerArgs),
    /// Offer this machine's device to a server
    Worker(WorkerArgs),
    /// Check a tape file and print it at any stage of the compiler
    Compile(CompileArgs),
    /// Compare two tapes, and print why they do not share a plan
    Diff(DiffArgs),
    /// Run a tape file, or a compiled program, on tensors from a file
    Run(RunArgs),
    /// Measure the works of docs/benchmarks.md, or tapes of your own
    Bench(BenchArgs),
    /// Print the JSON Schema of configuration files, for editors
    #[command(after_help = SCHEMA_EXAMPLES)]
    Schema,
    /// List, add and revoke the keys of programs and workers that may connect to your servers
    Keys(KeysArgs),
    /// Show the workers and sessions of a server
    Status(StatusArgs),
    /// Report what this build and this machine support, what does not work, and how to fix it
    Doctor(DoctorArgs),
}

#[derive(Args)]
#[command(after_help = KEYS_EXAMPLES)]
pub(crate) struct KeysArgs {
    #[command(subcommand)]
    pub(crate) command: Option<KeysCommand>,
}

#[derive(Subcommand)]
pub(crate) enum KeysCommand {
    /// List your key, the keys that your servers know, and the servers you trust (the default)
    List,
    /// Print your own public key, for users whose servers you connect to
    Show,
    /// Let programs with a key connect to your servers, in these roles
    Add {
        /// client, worker, monitor, or several with commas. A worker sees the values of all clients
        #[arg(value_name = "ROLE[,ROLE]")]
        roles: Roles,
        /// The public key, as its user's `gt-cli keys show` prints it
        #[arg(value_name = "KEY")]
        key: PublicKey,
        /// A name for the key
        #[arg(value_name = "NAME")]
        name: Vec<String>,
    },
    /// Let nobody connect with a key any more. Its connections end within a second or two
    Revoke {
        /// The name, the key, or its fingerprint
        #[arg(value_name = "KEY|NAME")]
        which: String,
    },
    /// Trust the server at an address to have a key
    Trust {
        /// The address, as programs connect to it
        #[arg(value_name = "HOST:PORT")]
        address: Address,
        /// The server's public key
        #[arg(value_name = "KEY")]
        key: PublicKey,
    },
}

const KEYS_EXAMPLES: &str = "\
Programs and workers of one user need none of this: they share the user's key, on every machine with
the same home folder. The folder of keys is $GT_KEYS, or else gt in $XDG_CONFIG_HOME or ~/.config.

Examples:
  gt-cli keys                              the keys in the folder
  ann$ gt-cli keys show                    prints ann's public key
  bob$ gt-cli keys add client KEY ann      lets ann's programs use bob's servers
  bob$ gt-cli keys show                    prints the key of bob's servers
  ann$ gt-cli keys trust head:12345 KEY    lets ann's programs connect there
  bob$ gt-cli keys revoke ann";

const SCHEMA_EXAMPLES: &str = "\
An editor with a language server for YAML completes keys and marks mistakes by it, if the file of
signals begins with the line
  # yaml-language-server: $schema=signals.schema.json

Examples:
  gt-cli schema > signals.schema.json";

#[derive(Args)]
#[command(after_help = DOCTOR_EXAMPLES)]
pub(crate) struct DoctorArgs {
    /// The port of a server on this machine
    #[arg(short, long, default_value_t = 12345)]
    pub(crate) port: u16,
}

const DOCTOR_EXAMPLES: &str = "\
It looks at the build, engines, processor, memory, GPUs, network, the folder of compiled programs
and the variables of the environment. It changes nothing.

Exit status: 0 if everything requested by variables (such as GT_ENGINE, GT_DEVICE, GT_CONNECT)
works, else 1.

Examples:
  gt-cli doctor
  GT_ENGINE=torch GT_DEVICE=cuda gt-cli doctor    whether libtorch works on a GPU, else why not
  gt-cli doctor --json                            one object";

const STATUS_EXAMPLES: &str = "\
Your own servers show everything. On a server of another user, the role `monitor` shows all sessions
and the role `client` those of your own.

Examples:
  gt-cli status --connect localhost:12345
  gt-cli status --connect head:12345 --json    one object; times are in nanoseconds";

#[derive(Args)]
#[command(after_help = STATUS_EXAMPLES)]
pub(crate) struct StatusArgs {
    /// The server to ask
    #[arg(long, value_name = "HOST:PORT", env = "GT_CONNECT")]
    pub(crate) connect: String,
}

#[derive(Args)]
#[command(after_help = SERVER_EXAMPLES)]
pub(crate) struct ServerArgs {
    /// Port to listen on; 0 takes a free port and prints it
    #[arg(short, long, default_value_t = 12345)]
    pub(crate) port: u16,
    /// Host name or address to listen on
    #[arg(long, default_value = "localhost")]
    pub(crate) host: String,
    /// Neither encrypt connections over tcp nor ask for keys: everyone who can reach the port may
    /// do everything. For closed networks
    #[arg(long)]
    pub(crate) insecure: bool,
    /// The highest priority that a program gets, whatever GT_PRIORITY asks for: low, normal, high,
    /// or a number from 1 to 100
    #[arg(long, value_name = "PRIORITY", default_value = "100")]
    pub(crate) max_priority: Priority,
    /// Quotas of sessions and users, as listed below
    #[arg(long, value_name = "KEY=VALUE,..")]
    pub(crate) quota: Option<Quotas>,
    /// A file with quotas, in TOML [default: gt.toml in the folder of keys, if it exists]
    #[arg(long, value_name = "gt.toml")]
    pub(crate) config: Option<PathBuf>,
    /// Write every event to this file, one line each (as GT_INSTRUCTION_LOG does)
    #[arg(long, value_name = "FILE")]
    pub(crate) log_file: Option<PathBuf>,
}

const SERVER_EXAMPLES: &str = "\
Quotas, with their defaults:
  memory    bytes of live values of a session [twice the memory of all workers]
  values    live values of a session [262144]
  uploads   bytes of a session's uploads before their inputs are declared [as memory]
  sessions  sessions of a user [800]
  requests  unanswered reads of a session [4096]
  stall     seconds that a read waits for a worker that reports nothing [600]
  pause     seconds after which an upload that stops in the middle is given up [30]
  compile   time for compiling the programs of a user, such as 10s/min [no limit]
A value above a quota is an error of this value, as if memory had run out; the session goes on.
New programs of a user who has used the time for compiling wait; those that are compiled run on.

Examples:
  gt-cli server -p 12345
  gt-cli server --host head --quota memory=8GiB,sessions=20
  gt-cli server --config gt.toml           with the lines: [quota] memory = \"8GiB\" sessions = 20";

#[derive(Args)]
#[command(after_help = WORKER_EXAMPLES)]
pub(crate) struct WorkerArgs {
    /// The server to work for
    #[arg(long, value_name = "HOST:PORT", env = "GT_CONNECT")]
    pub(crate) connect: String,
    /// A name for this worker, for the server's output and for errors
    #[arg(long, value_name = "NAME", value_parser = name)]
    pub(crate) name: Option<String>,
    /// Number of threads [default: one for each core]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub(crate) threads: Option<u16>,
    #[command(flatten)]
    pub(crate) compute: ComputeArgs,
    /// Where other workers of a program bring their values; port 0 takes a free port [default:
    /// localhost:0 if the server is on this machine; else values pass through the server]
    #[arg(long, value_name = "HOST:PORT")]
    pub(crate) listen: Option<String>,
    /// Neither encrypt connections over tcp nor ask for keys, for a server with --insecure [env:
    /// GT_INSECURE=1]
    #[arg(long)]
    pub(crate) insecure: bool,
    /// Write every event to this file, one line each (as GT_INSTRUCTION_LOG does)
    #[arg(long, value_name = "FILE")]
    pub(crate) log_file: Option<PathBuf>,
    /// The number of workers that another process supervises. This worker is one of them: it takes
    /// its share of the machine, and ends when standard input is closed
    #[arg(long, hide = true, value_name = "N")]
    pub(crate) one_of: Option<usize>,
}

const WORKER_EXAMPLES: &str = "\
With several devices, each device gets a process of its own, which carries the device's name. This
process starts, supervises and ends them. A process that dies is started again, first after half a
second, then after longer times. It is not started again after six deaths in a row, or if it cannot
start working. Exit status: 0 if the server ended, 1 if a worker failed for good, 130 after Ctrl-C.

Examples:
  gt-cli worker --connect localhost:12345
  gt-cli worker --connect localhost:12345 --name pi --threads 2
  gt-cli worker --connect localhost:12345 --engine torch --device cuda:1
  gt-cli worker --connect localhost:12345 --device all
  gt-cli worker --connect head:12345 --listen node7:0";

/// Checks that a name fits on a line.
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
    /// Write the compiled program to this file, for `gt-cli run` on machines with the same kind of
    /// processor
    #[arg(short, long, value_name = "FILE.gtp")]
    pub(crate) output: Option<PathBuf>,
    /// How far results may differ from running the instructions one by one: exact, reassociate or
    /// approximate
    #[arg(long, value_name = "POLICY", env = gt_compiler::options::NUMERICS_VARIABLE)]
    pub(crate) numerics: Option<Numerics>,
    /// The configuration of the tape's signals (YAML). It is printed with the stages that show
    /// scopes, with a warning for each wish that cannot be granted
    #[arg(long, value_name = "FILE.yaml")]
    pub(crate) config: Option<PathBuf>,
    /// The number of workers, for the stages `sharded` and `dot` and for warnings [default: as many
    /// as the configuration names, and at least 2]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub(crate) workers: Option<u32>,
    /// With the stage `sharded`: the ways in which workers could compute this instruction, their
    /// estimated times, and the way taken
    #[arg(long, value_name = "%VALUE", value_parser = value)]
    pub(crate) explain: Option<ValueId>,
}

/// A value by its number, as in `%12`.
fn value(text: &str) -> Result<ValueId, String> {
    let number = text.strip_prefix('%').unwrap_or(text).parse();
    number.map(ValueId).map_err(|_| "a value is a number, as in %12".into())
}

const RUN_EXAMPLES: &str = "\
A compiled program runs without a compiler, on the build of GT and the kind of processor for which
it was compiled. It contains machine code, so run only files that you trust as programs.

Examples:
  gt-cli run step.gt --inputs in.safetensors                      prints the outputs
  gt-cli run step.gt --inputs in.safetensors --outputs out.safetensors
  gt-cli run step.gt --inputs in.safetensors --connect localhost:12345
  gt-cli compile step.gt -o step.gtp && gt-cli run step.gtp --inputs in.safetensors";

const COMPILE_EXAMPLES: &str = "\
Examples:
  gt-cli compile step.gt                             the tape and its graph
  gt-cli compile step.gt --emit optimized            the program after all passes, and its costs
  gt-cli compile step.gt --emit egraph               rules that fired, patterns found
  gt-cli compile step.gt --emit plan                 launches, their kernels and buffers
  gt-cli compile step.gt --emit dot | dot -Tsvg > step.svg
  gt-cli compile step.gt --config signals.yaml       with the configuration of each scope
  gt-cli compile step.gt --config signals.yaml --workers 4 --emit sharded
                                                     layouts, exchanges, and each worker's part
  gt-cli compile step.gt --config signals.yaml --workers 4 --emit dot | dot -Tsvg > step.svg
                                                     each worker's part in its own color
  gt-cli compile step.gt -o step.gtp                 a compiled program: gt-cli run step.gtp
  gt-cli compile step.gt --json                      inputs, outputs, key, report: one object";

#[derive(Args)]
#[command(after_help = DIFF_EXAMPLES)]
pub(crate) struct DiffArgs {
    /// A tape, in text or binary form
    #[arg(value_name = "A.gt")]
    pub(crate) first: PathBuf,
    /// Another tape
    #[arg(value_name = "B.gt")]
    pub(crate) second: PathBuf,
}

const DIFF_EXAMPLES: &str = "\
Two tapes share a plan if they have the same key. The key covers ops, shapes, dtypes, names of
dimensions, connections of operands, frees, reads and signal scopes, in order. It does not cover the
numbers of values, the values of literals, source locations and the names of inputs and outputs.

Exit status: 0 if the keys are equal, 1 if they differ (the first difference is printed), 2 if a
tape cannot be read.

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
    /// File for the tape's outputs, by name or by number [default: print them]
    #[arg(long, value_name = "OUT.safetensors")]
    pub(crate) outputs: Option<PathBuf>,
    /// Run on this server instead of in this process, on a worker with the engine and device of
    /// --engine and --device, if they are given
    #[arg(long, value_name = "HOST:PORT", env = "GT_CONNECT")]
    pub(crate) connect: Option<String>,
    #[command(flatten)]
    pub(crate) compute: ComputeArgs,
}

#[derive(Args)]
#[command(after_help = BENCH_EXAMPLES)]
pub(crate) struct BenchArgs {
    /// Names of works, or tape files, to measure [default: every work]
    #[arg(value_name = "WORK|FILE.gt")]
    pub(crate) works: Vec<String>,
    /// List the works with their descriptions
    #[arg(long)]
    pub(crate) list: bool,
    #[command(flatten)]
    pub(crate) compute: ComputeArgs,
    /// 0 runs instruction by instruction; 1 runs repeated segments as compiled plans [default: 1]
    #[arg(long, value_name = "T", value_parser = clap::value_parser!(u8).range(0..=1))]
    pub(crate) tier: Option<u8>,
    /// Steps to measure, after the warm-up
    #[arg(long, value_name = "N", conflicts_with = "seconds")]
    pub(crate) steps: Option<usize>,
    /// Seconds to measure, after the warm-up [default: 2]
    #[arg(long, value_name = "S")]
    pub(crate) seconds: Option<f64>,
    /// Tensors for the inputs of a tape [default: noise for floats, zeros for other dtypes]
    #[arg(long, value_name = "IN.safetensors")]
    pub(crate) inputs: Option<PathBuf>,
    /// Measure on this server instead of in this process, on a worker with the engine and device of
    /// --engine and --device, if they are given
    #[arg(long, value_name = "HOST:PORT", env = "GT_CONNECT")]
    pub(crate) connect: Option<String>,
    /// Cut the batch of each step over so many workers: of the server, or of this process, which
    /// share its threads
    #[arg(long, value_name = "N")]
    #[arg(value_parser = clap::value_parser!(u16).range(1..=256))]
    pub(crate) workers: Option<u16>,
    /// Print which rewrite rules fire in a step, and the estimate of what they save, as an object
    /// for each work and numerics policy. Measures nothing
    #[arg(long)]
    pub(crate) rules: bool,
    /// Measure in this process and print an object
    #[arg(long, hide = true)]
    pub(crate) inner: bool,
    /// As --inner, in blocks: each line of standard input is a number of seconds, and is answered
    /// with samples
    #[arg(long, hide = true)]
    pub(crate) paced: bool,
    /// Measure the tapes that standard input sends, in this process
    #[arg(long, hide = true)]
    pub(crate) served: bool,
}

const BENCH_EXAMPLES: &str = "\
Every work runs in a process of its own. The columns are the median time of a step, and its 10th and
90th percentiles; the seconds of the first step, including compilation, after inputs and parameters
are made; the instructions of a step; the kernels and launches of its plan, and the bytes that they
read and write; and the largest growth of the process's memory. Programs compiled earlier are not
used, unless GT_CACHE names a folder of them.

Examples:
  gt-cli bench --list
  gt-cli bench                             every work, a few seconds each
  gt-cli bench mlp_small gpt --seconds 5
  gt-cli bench gpt --tier 0                instruction by instruction
  GT_THREADS=1 gt-cli bench gpt            one thread, to compare with
  GT_THREADS=2 gt-cli bench gpt --workers 2    two workers of a thread each
  gt-cli bench gpt --workers 2 --connect localhost:12345    two workers of a server
  gt-cli bench step.gt --json              a tape of your own, one object a line
  gt-cli bench --rules gpt                 the rewrites of its step, by numerics policy
  cargo xtask bench --vs torch,jax         beside other frameworks, in one run";

/// The stages that `compile` prints.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Emit {
    /// The verified tape, in text form
    Tape,
    /// The parts of the tape that the key covers, with the key and the literals, which it does not
    /// cover
    Canonical,
    /// The graph, one node on each line, with types and uses
    Graph,
    /// The search for cheaper equal programs: rules, patterns, costs before and after
    Egraph,
    /// The graph of primitives after all passes, and its costs
    Optimized,
    /// The loops of each kernel, what they load, compute and store
    Kernels,
    /// The compiled program: launches, jobs that run together, the formula of each kernel, places
    /// of buffers
    Plan,
    /// The code generator's intermediate representation of each kernel
    Clif,
    /// The machine instructions of each kernel, for this processor
    Asm,
    /// The optimized graph in Graphviz's language, with frames around kernels. With `--config` or
    /// `--workers`: each worker's part in its own color, and dashed edges for what workers exchange
    Dot,
    /// The tape on several workers, by the signals of `--config`: layouts, exchanges, the sums of
    /// bytes, and each worker's part
    Sharded,
}

impl Emit {
    /// The name of the stage on the command line.
    pub(crate) fn name(self) -> String {
        self.to_possible_value().map_or_else(String::new, |value| value.get_name().to_string())
    }
}

/// The engine and devices of this process, or of the worker that a server gives.
#[derive(Args)]
pub(crate) struct ComputeArgs {
    /// Engine: native, or torch (libtorch) [env: GT_ENGINE] [default: torch if this build has CUDA
    /// and the machine has a CUDA device, else native]
    #[arg(long, value_name = "ENGINE")]
    pub(crate) engine: Option<EngineKind>,
    /// Devices: cpu, cuda, cuda:N, simulated, several with commas, or all (every CUDA device) [env:
    /// GT_DEVICE]
    #[arg(long, value_name = "DEVICE")]
    pub(crate) device: Option<Devices>,
}

impl ComputeArgs {
    /// The wish of the flags.
    pub(crate) fn wish(&self) -> Wish {
        Wish { engine: self.engine, devices: self.device.clone() }
    }

    /// What the flags ask a server for.
    pub(crate) fn demand(&self) -> Demand {
        let engine = self.engine.map(|engine| engine.to_string());
        Demand { engine, device: self.device.as_ref().map(ToString::to_string), workers: None }
    }

    /// Whether any of the flags is given.
    pub(crate) fn is_given(&self) -> bool {
        self.engine.is_some() || self.device.is_some()
    }
}
