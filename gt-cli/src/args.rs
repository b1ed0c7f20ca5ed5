//! The command line: its arguments and help texts. It decides nothing.

use crate::quota::Quotas;
use clap::error::ErrorKind;
use clap::{Args, Command as Clap, CommandFactory, FromArgMatches, Parser, Subcommand, ValueEnum};
use gt_compiler::Numerics;
use gt_compiler::shard::Rates;
use gt_ir::ValueId;
use gt_ir::backend::Demand;
use gt_runtime::choice::{Devices, EngineKind, Wish};
use gt_runtime::doors::{PublicKey, Roles};
use gt_runtime::ids::SessionId;
use gt_runtime::log::{Detail, Format, Size};
use gt_runtime::priority::Priority;
use gt_runtime::zmq::Address;
use std::ffi::OsString;
use std::path::PathBuf;

#[cfg(test)]
mod tests;

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

impl Cli {
    /// The definition of the command line, without the values of `gt.toml`.
    pub(crate) fn definition() -> Clap {
        with_status(Cli::command())
    }

    /// The command line of this process. Flags that it leaves out have the values of `gt.toml`,
    /// unless a variable of the environment has another one.
    pub(crate) fn of_process() -> Cli {
        let matches = with_file(Cli::definition()).try_get_matches();
        let cli = matches.and_then(|matches| Cli::from_arg_matches(&matches));
        cli.unwrap_or_else(|error| {
            // What is missing may be in a variable with a wrong name.
            if error.kind() == ErrorKind::MissingRequiredArgument {
                crate::tell_odd_variables();
            }
            let wants_json = std::env::args_os().any(|word| word == "--json");
            match error.use_stderr() && wants_json {
                true => crate::fault::wrong_command_line(&error),
                false => error.exit(),
            }
        })
    }
}

/// A command line whose flags have the values of `gt.toml` where they are left out.
fn with_file(mut cli: Clap) -> Clap {
    let file = gt_settings::user_file();
    let of = |command: &str, flag: &str| match (command, flag) {
        (_, "connect" | "numerics") => file.get(flag),
        ("server", _) => file.get(&format!("server.{flag}")),
        _ => None,
    };
    let commands: Vec<String> =
        cli.get_subcommands().map(|command| command.get_name().to_owned()).collect();
    for name in commands {
        cli = cli.mut_subcommand(&name, |command| {
            command.mut_args(|flag| match of(&name, flag.get_id().as_str()) {
                Some(value) => flag.default_value(value).required(false),
                None => flag,
            })
        });
    }
    cli
}

/// A command line whose help tells the exit status of each command.
fn with_status(cli: Clap) -> Clap {
    cli.mut_subcommands(|command| {
        let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
        let command = match help.contains("Exit status") || command.has_subcommands() {
            true => command,
            false if help.is_empty() => command.after_help(STATUS),
            false => command.after_help(format!("{STATUS}\n\n{help}")),
        };
        with_status(command)
    })
}

/// The exit status of most commands.
const STATUS: &str = "\
Exit status: 0 for success, 1 for an error, 2 for a wrong command line, 130 after Ctrl-C.";

const EXAMPLES: &str = "\
Examples:
  A server, two workers and a program in one terminal:
    gt-cli launch --workers 2 ./program

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

  See where the time goes:
    gt-cli profile target/release/examples/digits
    gt-cli trace --connect HOST:PORT -s 5 -o run.jsonl && gt-cli visualize run.jsonl

  See who does what, and what is wrong:
    gt-cli top --connect HOST:PORT
    gt-cli clients --connect HOST:PORT
    gt-cli kill s3 --connect HOST:PORT
    gt-cli doctor

`-` stands for standard input or output.

Exit status: 0 for success, 1 for an error, 2 for a wrong command line, 130 after Ctrl-C. `launch`
and `profile` end with the status of their program, and `diff` has 1 for different tapes and 2 for
an error; the help of each command has more.";

#[derive(Subcommand)]
pub(crate) enum Command {
    /// Start the dispatcher that clients and workers connect to
    Server(ServerArgs),
    /// Offer this machine's device to a server
    Worker(WorkerArgs),
    /// Start a server, workers and a program in one terminal
    Launch(LaunchArgs),
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
    /// Watch the workers, sessions and links of a server, as they change
    Top(TopArgs),
    /// List the programs that use a server
    Clients(ClientsArgs),
    /// End the work of a program on a server
    Kill(KillArgs),
    /// Run a program with a profile: where its time goes, by line, op, kernel, signal and phase
    Profile(ProfileArgs),
    /// Write the events of a running server to a file
    Trace(TraceArgs),
    /// Draw the timeline of traces and of instruction logs in JSON
    Visualize(VisualizeArgs),
    /// Print the completions of commands and flags for a shell
    #[command(after_help = COMPLETIONS_EXAMPLES)]
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
    /// Write the pages for `man`, one for each command, into a folder
    #[command(hide = true)]
    Man {
        /// The folder, which is made
        #[arg(value_name = "FOLDER")]
        folder: PathBuf,
    },
    /// Show all settings: their values, where they come from, and what they do
    Config(ConfigArgs),
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
    #[command(after_help = "Examples:\n  gt-cli keys list\n  gt-cli keys list --json")]
    List,
    /// Print your own public key, for users whose servers you connect to
    #[command(after_help = "Examples:\n  gt-cli keys show\n  ssh head gt-cli keys show")]
    Show,
    /// Let programs with a key connect to your servers, in these roles
    #[command(after_help = "Examples:\n  gt-cli keys add client KEY ann\n  \
                            gt-cli keys add monitor,operator KEY bob at home")]
    Add {
        /// client, worker, monitor, operator, or several with commas. A worker sees the values of
        /// all clients, a monitor watches them, and an operator may end their sessions
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
    #[command(after_help = "Examples:\n  gt-cli keys revoke ann\n  gt-cli keys revoke KEY")]
    Revoke {
        /// The name, the key, or its fingerprint
        #[arg(value_name = "KEY|NAME")]
        which: String,
    },
    /// Trust the server at an address to have a key
    #[command(after_help = "Examples:\n  gt-cli keys trust head:12345 KEY")]
    Trust {
        /// The address, as programs connect to it
        #[arg(value_name = "HOST:PORT")]
        address: Address,
        /// The server's public key
        #[arg(value_name = "KEY")]
        key: PublicKey,
    },
}

#[derive(Args)]
#[command(after_help = PROFILE_EXAMPLES)]
pub(crate) struct ProfileArgs {
    /// The program to run, or the .json file of an earlier profile to print
    #[arg(value_name = "PROGRAM|RUN.json")]
    pub(crate) program: PathBuf,
    /// The program's arguments
    #[arg(value_name = "ARG", trailing_var_arg = true, allow_hyphen_values = true)]
    pub(crate) args: Vec<std::ffi::OsString>,
    /// Keep the profile with its timeline in this file, which ui.perfetto.dev opens
    #[arg(short, long, value_name = "RUN.json")]
    pub(crate) output: Option<PathBuf>,
    /// The most rows of each table
    #[arg(long, value_name = "N", default_value = "15")]
    pub(crate) top: usize,
}

const PROFILE_EXAMPLES: &str = "\
The tables are sorted by time. `of max` compares with the most that this machine reaches: in large
products for GFLOP/s, in large sums for GB/s. A kernel of a plan names the lines that it computes;
its time is divided among them by their floating-point operations. Phases overlap, because workers
run while the program records. `GT_PROFILE=run.json` profiles any program without this command.
Ctrl-C ends the program; a program that has no time to write leaves the tables, not the timeline.

Exit status: that of the program (128 and the signal's number if a signal ended it), or 1 if it
wrote no profile.

Examples:
  gt-cli profile target/release/examples/digits
  gt-cli profile -o run.json --top 30 target/release/train --epochs 3
  gt-cli profile run.json";

#[derive(Args)]
#[command(after_help = TRACE_EXAMPLES)]
pub(crate) struct TraceArgs {
    /// The server
    #[arg(long, value_name = "HOST:PORT", env = "GT_CONNECT")]
    pub(crate) connect: String,
    /// How long
    #[arg(short, long, value_name = "S", default_value = "5")]
    pub(crate) seconds: f64,
    /// End after so many events, to which is added what clients and workers did meanwhile
    #[arg(short = 'n', long, value_name = "N")]
    pub(crate) events: Option<u64>,
    /// The folder of the file, which is made
    #[arg(long, value_name = "FOLDER", default_value = ".")]
    pub(crate) dir: PathBuf,
    /// The file [default: trace_SECONDS.jsonl in the folder]
    #[arg(short, long, value_name = "FILE", conflicts_with = "dir")]
    pub(crate) output: Option<PathBuf>,
}

const TRACE_EXAMPLES: &str = "\
A trace has the messages of all clients and workers, and what they say of themselves: when programs
recorded, waited and read, and when workers compiled, ran and gave values to each other, and what
waited for them. All times are by the server's clock.
It needs the role monitor (`gt-cli keys add monitor KEY`); the server's own user has it. Nobody
waits for a tracer: events that it is too slow for are missing, and counted.

Examples:
  gt-cli trace --connect localhost:12345 -s 2 --dir traces
  gt-cli trace --connect head:12345 -n 10000 -o run.jsonl
  gt-cli visualize run.jsonl -o run.svg";

#[derive(Args)]
#[command(after_help = VISUALIZE_EXAMPLES)]
pub(crate) struct VisualizeArgs {
    /// Traces of one run; `-` is standard input
    #[arg(value_name = "TRACE", required = true)]
    pub(crate) traces: Vec<PathBuf>,
    /// The picture: .html (zoom, search, hover), .svg, .png, or .json for ui.perfetto.dev [default:
    /// the first trace with .html]; `-` is standard output
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    /// The form of the picture [default: that of the name; html on standard output]
    #[arg(long, value_name = "FORM", value_parser = ["html", "svg", "png", "json"])]
    pub(crate) form: Option<String>,
    /// The title of the picture
    #[arg(long, value_name = "TEXT")]
    pub(crate) title: Option<String>,
}

const VISUALIZE_EXAMPLES: &str = "\
Traces are files of `gt-cli trace`, and instruction logs with GT_LOG_FORMAT=json. Several files of
one run are drawn together, by the clocks of their machines.

Examples:
  gt-cli visualize run.jsonl
  gt-cli visualize run.jsonl -o run.svg --title \"two programs on one worker\"
  gt-cli visualize run.jsonl --form svg -o - | rsvg-convert -f pdf > run.pdf
  GT_INSTRUCTION_LOG=%p.jsonl GT_LOG_FORMAT=json cargo run --example digits
  gt-cli visualize server.jsonl worker.jsonl -o run.html";

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

const COMPLETIONS_EXAMPLES: &str = "\
Examples:
  gt-cli completions bash > ~/.local/share/bash-completion/completions/gt-cli
  gt-cli completions zsh > ~/.zfunc/_gt-cli    with `fpath+=~/.zfunc` before compinit in ~/.zshrc
  gt-cli completions fish > ~/.config/fish/completions/gt-cli.fish";

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
#[command(after_help = CONFIG_EXAMPLES)]
pub(crate) struct ConfigArgs {
    /// Show what each setting does, too
    #[arg(long)]
    pub(crate) explain: bool,
    /// Settings to show, by their variables or their keys in gt.toml [default: all]
    #[arg(value_name = "SETTING")]
    pub(crate) settings: Vec<String>,
}

const CONFIG_EXAMPLES: &str = "\
A flag is stronger than a variable of the environment, a variable is stronger than gt.toml in the
folder of keys, and the file is stronger than the default. GT_THREADS is called threads in gt.toml,
and so are the others; the tables [server] and [quota] are for `gt-cli server`.

Exit status: 1 if a value that is shown can be used by no program, else 0.

Examples:
  gt-cli config                          what is set, and by whom
  gt-cli config --explain                and what everything does
  gt-cli config GT_THREADS server.port   two settings
  gt-cli config --json                   one object for each setting";

#[derive(Args)]
#[command(after_help = STATUS_EXAMPLES)]
pub(crate) struct StatusArgs {
    /// The server to ask
    #[arg(long, value_name = "HOST:PORT", env = "GT_CONNECT")]
    pub(crate) connect: String,
}

#[derive(Args)]
#[command(after_help = TOP_EXAMPLES)]
pub(crate) struct TopArgs {
    /// The server to watch
    #[arg(long, value_name = "HOST:PORT", env = "GT_CONNECT")]
    pub(crate) connect: String,
    /// Seconds between two looks
    #[arg(short, long, value_name = "S", default_value = "1", value_parser = interval)]
    pub(crate) interval: f64,
    /// Look once, over one interval, and print it
    #[arg(long)]
    pub(crate) once: bool,
    /// With --once: write the screen as a picture (SVG) in place of printing it
    #[arg(long, value_name = "FILE.svg", requires = "once", conflicts_with = "json")]
    pub(crate) picture: Option<PathBuf>,
}

/// Checks the time between two looks.
fn interval(text: &str) -> Result<f64, String> {
    let seconds = text.parse().ok().filter(|s| (0.1..=3600.0).contains(s));
    seconds.ok_or_else(|| "seconds are a number from 0.1 to 3600".into())
}

const TOP_EXAMPLES: &str = "\
BUSY is the share of the time in which the worker ran segments. PLANS is the share of segments that
ran as compiled plans; the others ran instruction by instruction. TIME is the share of the time of
all workers that the session used. RUNS/S are segments in a second. THERE and BACK are the two
directions of a link. `?` shows the keys.

It reads counters of the server, which keeps nothing for those who watch. Colors are left out if
NO_COLOR is set. Your own servers show everything. On a server of another user, the role `monitor`
shows all sessions and the role `client` those of your own.

Examples:
  gt-cli top --connect localhost:12345
  gt-cli top --connect head:12345 --interval 5
  gt-cli top --connect head:12345 --once --json | jq '.workers[].busy'
  ssh head gt-cli top --connect localhost:12345 --once";

#[derive(Args)]
#[command(after_help = CLIENTS_EXAMPLES)]
pub(crate) struct ClientsArgs {
    /// The server to ask
    #[arg(long, value_name = "HOST:PORT", env = "GT_CONNECT")]
    pub(crate) connect: String,
}

const CLIENTS_EXAMPLES: &str = "\
The session is the name for `gt-cli kill`. USER is `own` for the user of the server, and else a
number that is equal for equal users.

Examples:
  gt-cli clients --connect localhost:12345
  gt-cli clients --connect head:12345 --json    one object for each program";

#[derive(Args)]
#[command(after_help = KILL_EXAMPLES)]
pub(crate) struct KillArgs {
    /// Sessions, as `gt-cli clients` names them: s3
    #[arg(value_name = "SESSION", required = true, value_parser = session)]
    pub(crate) sessions: Vec<SessionId>,
    /// The server of the session
    #[arg(long, value_name = "HOST:PORT", env = "GT_CONNECT")]
    pub(crate) connect: String,
}

/// A session by its number, as in `s3`.
fn session(text: &str) -> Result<SessionId, String> {
    let number = text.strip_prefix('s').unwrap_or(text).parse().ok();
    number.map(SessionId).ok_or_else(|| "a session is written as in s3".into())
}

const KILL_EXAMPLES: &str = "\
The session ends at once, and its values are freed. Its program goes on; its next read returns an
error that says who has ended the session. You may end the sessions of your own programs, every
session of your own servers, and those of others with the role `operator`.

Exit status: 0 if the sessions are over, though they ended before; 1 if one was not ended.

Examples:
  gt-cli kill s3 --connect localhost:12345
  head$ gt-cli keys add operator KEY ann      lets ann end the sessions of others";

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
    #[command(flatten)]
    pub(crate) log: LogArgs,
    /// Serve metrics for Prometheus over HTTP at this address, and /healthz and /readyz
    #[arg(long, value_name = "HOST:PORT")]
    pub(crate) metrics: Option<Address>,
    /// The seconds for which running programs may go on after SIGTERM
    #[arg(long, value_name = "S", default_value_t = 30)]
    #[arg(value_parser = clap::value_parser!(u64).range(0..=86_400))]
    pub(crate) drain: u64,
}

/// The instruction log of a server or a worker.
#[derive(Args, Default)]
pub(crate) struct LogArgs {
    /// Write every event to this file, one line each (as GT_INSTRUCTION_LOG does)
    #[arg(long, value_name = "FILE")]
    pub(crate) log_file: Option<PathBuf>,
    /// The form of the lines: seed (columns), tape (few columns), or json, which `gt-cli visualize`
    /// draws [env: GT_LOG_FORMAT] [default: seed]
    #[arg(long, value_name = "FORM")]
    pub(crate) log_format: Option<Format>,
    /// Rename the file to FILE.1 at this size, and begin a new one; three old files are kept [env:
    /// GT_LOG_SIZE] [default: no limit]
    #[arg(long, value_name = "BYTES")]
    pub(crate) log_size: Option<Size>,
    /// `instructions` also writes the instructions that a launch of a plan stands for [env:
    /// GT_LOG_DETAIL] [default: events]
    #[arg(long, value_name = "DETAIL")]
    pub(crate) log_detail: Option<Detail>,
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

Ctrl-C ends the server at once, and its programs and workers are told. SIGTERM lets it take no new
programs and waits for those that run, for the time of --drain; a second signal ends it at once.

Exit status: 0 if its programs had ended in time after SIGTERM, 1 if they had not, if it cannot
listen or if its sockets fail, 130 after Ctrl-C or a second signal.

Metrics are not encrypted, and everyone who can reach the port can read them: names of programs and
hosts, and numbers, but no values. /healthz is 200 while the server answers, /readyz while it has a
worker and takes programs.

Examples:
  gt-cli server -p 12345
  gt-cli server --metrics localhost:9464
  gt-cli server --log-file gt.log --log-format json --log-size 64M
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
    /// How long to look for a server that was lost, before this worker ends. It registers again
    /// when the server is back. 0: it ends at once
    #[arg(long, value_name = "S", default_value_t = WorkerArgs::RECONNECT)]
    pub(crate) reconnect: u32,
    #[command(flatten)]
    pub(crate) log: LogArgs,
    /// The number of workers that another process supervises. This worker is one of them: it takes
    /// its share of the machine, and ends when standard input is closed
    #[arg(long, hide = true, value_name = "N")]
    pub(crate) one_of: Option<usize>,
}

impl WorkerArgs {
    /// The seconds for which a worker looks for its server.
    pub(crate) const RECONNECT: u32 = 60;
}

const WORKER_EXAMPLES: &str = "\
With several devices, each device gets a process of its own, which carries the device's name. This
process starts, supervises and ends them. A process that dies is started again, first after half a
second, then after longer times. It is not started again after six deaths in a row, or if it cannot
start working. Exit status: 0 if the server ended or after SIGTERM, 1 if a worker failed for good,
130 after Ctrl-C.

Examples:
  gt-cli worker --connect localhost:12345
  gt-cli worker --connect localhost:12345 --name pi --threads 2
  gt-cli worker --connect localhost:12345 --engine torch --device cuda:1
  gt-cli worker --connect localhost:12345 --device all
  gt-cli worker --connect head:12345 --listen node7:0";

#[derive(Args)]
#[command(after_help = LAUNCH_EXAMPLES)]
pub(crate) struct LaunchArgs {
    /// Number of workers on this machine, which share its threads or devices
    #[arg(short, long, value_name = "N", default_value_t = 1)]
    #[arg(value_parser = clap::value_parser!(u16).range(1..=256))]
    pub(crate) workers: u16,
    /// Other machines, each of which gets a worker, in place of workers on this machine
    #[arg(long, value_name = "HOST,..", value_delimiter = ',', conflicts_with = "workers")]
    pub(crate) hosts: Vec<String>,
    /// The remote shell for --hosts, with its flags
    #[arg(long, value_name = "COMMAND", default_value = "ssh -o BatchMode=yes")]
    pub(crate) ssh: String,
    /// Number of threads of each worker [default: a share of the cores]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub(crate) threads: Option<u16>,
    #[command(flatten)]
    pub(crate) compute: ComputeArgs,
    /// Port of the server; 0 takes a free port
    #[arg(short, long, default_value_t = 0)]
    pub(crate) port: u16,
    /// Host name or address of the server
    #[arg(long, default_value = "localhost")]
    pub(crate) host: String,
    /// Neither encrypt connections over tcp nor ask for keys, for closed networks
    #[arg(long)]
    pub(crate) insecure: bool,
    /// The program, with its arguments [default: none, until Ctrl-C]
    #[arg(value_name = "PROGRAM", trailing_var_arg = true, allow_hyphen_values = true)]
    pub(crate) program: Vec<OsString>,
}

const LAUNCH_EXAMPLES: &str = "\
Lines of the server and the workers go to standard error, each with its origin in front. Standard
input, output and error of the program are its own. When the program ends, everything ends, and the
exit status is the program's (128 and the signal's number if a signal ended it).

With --hosts, ssh must reach each machine without a password, gt-cli must be in the path there, and
the machines must share the folder of keys (or --insecure). --engine and --device are those of the
workers there.

Examples:
  gt-cli launch --workers 2 target/release/examples/digits
  gt-cli launch --workers 4 -p 12345                the server and workers only
  gt-cli launch --host head --hosts node1,node2 ./train --epochs 3";

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
    /// With the stage `sharded`: print the work of this worker alone, by its number from 0 on
    /// [default: of all]
    #[arg(long, value_name = "NUMBER")]
    pub(crate) worker: Option<u32>,
    /// With the stage `sharded`: spread the work without signals, as its cost says
    #[arg(long)]
    pub(crate) auto: bool,
    /// With the stage `sharded`: what workers share out instead of repeating it (ZeRO): 1 and 2 the
    /// state of optimizers and their updates, 3 the parameters too
    #[arg(long, value_name = "LEVEL", value_parser = clap::value_parser!(u8).range(0..=3))]
    pub(crate) zero: Option<u8>,
    /// With the stage `sharded`: what exchanges and computation cost, in seconds, and in bytes and
    /// operations a second [default: processors' threads, such as
    /// latency=200e-6,exchange=10e9,flops=40e9,memory=8e9]
    #[arg(long, value_name = "RATES", value_parser = |text: &str| Rates::default().stating(text))]
    pub(crate) rates: Option<Rates>,
    /// The bytes that a worker has for values, as in 80e9. If they are too few, the program makes
    /// values again in place of keeping them; with the stage `sharded`, a plan spreads them
    #[arg(long, value_name = "BYTES", value_parser = bytes)]
    pub(crate) memory: Option<u64>,
    /// With the stage `sharded`: the ways in which workers could compute this instruction, their
    /// estimated times, and the way taken
    #[arg(long, value_name = "%VALUE", value_parser = value)]
    pub(crate) explain: Option<ValueId>,
}

/// A number of bytes, as in `2000000` and `80e9`.
fn bytes(text: &str) -> Result<u64, String> {
    let number: f64 = text.parse().map_err(|_| format!("{text:?} is not a number of bytes"))?;
    match (1.0..=1e18).contains(&number) {
        true => Ok(number as u64),
        false => Err("a number of bytes is from 1 to 1e18".into()),
    }
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
    /// Spread each step over the workers without signals, as its cost says
    #[arg(long, env = "GT_AUTO_SHARD")]
    #[arg(value_parser = clap::builder::BoolishValueParser::new())]
    pub(crate) auto: bool,
    /// What workers share out instead of repeating it (ZeRO): 1 and 2 the state of optimizers, 3
    /// the parameters too. Takes the place of the cut batch
    #[arg(long, value_name = "LEVEL", value_parser = clap::value_parser!(u8).range(0..=3))]
    pub(crate) zero: Option<u8>,
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
read and write; and the largest growth of the process's memory, or with --connect the most that a
worker's values took. Programs compiled earlier are not used,
unless GT_CACHE names a folder of them.

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
#[derive(Args, Clone)]
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
        Demand { engine, device: self.device.as_ref().map(ToString::to_string), ..Demand::new() }
    }

    /// Whether any of the flags is given.
    pub(crate) fn is_given(&self) -> bool {
        self.engine.is_some() || self.device.is_some()
    }
}
