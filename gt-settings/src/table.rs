//! The settings, as a table. Documentation, `gt-cli doctor`, `gt-cli config`, and the checks of
//! `gt.toml` and of values are made from it.

use crate::{Quantity, Values};

/// The least size at which a log begins a new file, in bytes: room for the header and some lines.
pub const LEAST_LOG: u64 = 64 << 10;
/// The least memory for values.
const LEAST_MEMORY: u64 = 1 << 20;

/// One setting.
#[derive(Debug, PartialEq, Eq)]
pub struct Setting {
    /// Its key in `gt.toml`: `threads`, or `server.port` for `port` in the table `[server]`. Empty
    /// if only the environment has it.
    pub key: &'static str,
    /// Its environment variable. Empty if it has none.
    pub variable: &'static str,
    /// The flag of `gt-cli` that is stronger. Empty if there is none.
    pub flag: &'static str,
    /// A value, as documentation shows it.
    pub example: &'static str,
    /// What holds if nobody says anything.
    pub default: &'static str,
    /// What it does.
    pub help: &'static str,
    /// What its value may be.
    pub values: Values,
}

const fn row(
    [key, variable, flag]: [&'static str; 3],
    [example, default, help]: [&'static str; 3],
) -> Setting {
    let values = Values { names: &[], numbers: None, quantity: None };
    Setting { key, variable, flag, example, default, help, values }
}

impl Setting {
    /// Whose value is one of some names.
    const fn one_of(mut self, names: &'static [&'static str]) -> Setting {
        self.values.names = names;
        self
    }

    /// Whose value is a number of a range.
    const fn number(mut self, least: u64, most: u64) -> Setting {
        self.values.numbers = Some((least, most));
        self
    }

    /// Whose value has a unit.
    const fn quantity(mut self, quantity: Quantity) -> Setting {
        self.values.quantity = Some(quantity);
        self
    }

    /// Whose value is 0 or 1.
    const fn switch(self) -> Setting {
        self.number(0, 1)
    }
}

/// The passes whose results can be printed.
#[rustfmt::skip]
const PASSES: &[&str] = &[
    "all", "expand", "canonicalize", "cancel_casts", "fold", "turn-products", "movement", "sink-permutes", "cse",
    "slices", "dce", "one-hots", "join-pads", "egraph", "reciprocals",
];

/// All settings, in the order in which they are documented.
#[rustfmt::skip]
pub const SETTINGS: &[Setting] = &[
    row(["connect", "GT_CONNECT", "--connect"], ["HOST:PORT", "workers inside the process", "the program uses this server instead of workers inside its own process"]),
    row(["engine", "GT_ENGINE", "--engine"], ["torch", "torch with CUDA, else native", "the engine that computes (the page on engines has more)"]).one_of(&["native", "torch"]),
    row(["device", "GT_DEVICE", "--device"], ["cuda:0", "the engine's first", "the device of the engine: `cpu`, `cuda`, `cuda:N`, several with commas, or `all`"]),
    row(["", "GT_KEYS", ""], ["FOLDER", "`gt` in the user's configuration folder", "the folder of keys, and of `gt.toml`"]),
    row(["insecure", "GT_INSECURE", "--insecure"], ["1", "0", "connections over tcp without encryption and keys, to a server with `--insecure`"]).switch(),
    row(["road", "GT_ROAD", ""], ["sockets", "auto", "how a worker process sends large values to another one, in a build with libtorch: `sockets`; `gloo`, lanes of libtorch wherever nothing has to be encrypted; or `auto`, lanes where they are faster (the page on engines has more)"]).one_of(&["auto", "sockets", "gloo"]),
    row(["workers", "GT_WORKERS", "--workers"], ["N", "one for each device", "the number of workers inside the process, where no server is used; they share its threads and memory"]).number(1, 256),
    row(["priority", "GT_PRIORITY", ""], ["high", "normal", "how much of a worker's time the program gets beside others on a server: `low` (2), `normal` (10), `high` (50), or a weight from 1 to 100; a server may limit it (`gt-cli server --max-priority`)"]).one_of(&["low", "normal", "high"]).number(1, 100),
    row(["config", "GT_CONFIG", "--config"], ["FILE", "none", "a configuration file (YAML): how to spread the work of each signal, and the workers to ask for (`gt-cli server --config` is another file: a `gt.toml` with quotas)"]),
    row(["auto_shard", "GT_AUTO_SHARD", "--auto"], ["1", "0", "spreads the work of programs over their workers without signals, as its cost says"]).switch(),
    row(["tier", "GT_TIER", "--tier"], ["0", "1", "no plans: every instruction runs on its own (`1` compiles steps that repeat)"]).switch(),
    row(["numerics", "GT_NUMERICS", "--numerics"], ["exact", "exact", "how plans may change floats: `exact` (the same bits as without plans), `reassociate` or `approximate`"]).one_of(&["exact", "reassociate", "approximate"]),
    row(["tf32", "GT_TF32", ""], ["1", "0", "products of `f32` on a GPU round their operands to 10 bits of mantissa"]).switch(),
    row(["deterministic", "GT_DETERMINISTIC", ""], ["0", "1", "faster calls of libtorch whose bits change from run to run"]).switch(),
    row(["verbose", "GT_VERBOSE", ""], ["1", "0", "tells which segments became plans, how long compiling took, and why a segment was new (messages go to standard error, or to the program's own subscriber of `tracing`, which then filters them)"]).switch(),
    row(["debug_client", "GT_DEBUG_CLIENT", ""], ["1", "0", "every event of the program's side as a line: of the library's messages, this shows those of `gt::client`"]).switch(),
    row(["debug_dispatcher", "GT_DEBUG_DISPATCHER", ""], ["1", "0", "the same for `gt::dispatcher`: what it receives and sends, who comes and goes"]).switch(),
    row(["debug_worker", "GT_DEBUG_WORKER", ""], ["1", "0", "the same for `gt::worker`: what runs, and how long it took"]).switch(),
    row(["debug_compile", "GT_DEBUG_COMPILE", ""], ["1", "0", "the same for `gt::compile`: which segments became plans, and why others did not"]).switch(),
    row(["nan_watch", "GT_NAN_WATCH", ""], ["1", "0", "makes reads fail at the first NaN or infinity, with the instruction and its line"]).switch(),
    row(["cache", "GT_CACHE", ""], ["FOLDER", "the user's cache folder", "the folder of compiled programs, which later starts load instead of compiling (`off`: none)"]),
    row(["max_unpacked", "GT_MAX_UNPACKED", ""], ["BYTES", "1 GiB, or 16 times the size of the file if that is more", "the size that one packed file (`.npz`, `.pth`) may unpack to"]).number(1, u64::MAX),
    row(["threads", "GT_THREADS", "--threads"], ["N", "one for each core that the process may use", "the number of threads that a kernel may use (a container's CPU quota counts)"]).number(1, 1024),
    row(["memory", "GT_MEMORY", ""], ["8GiB", "nine tenths of what the process may have", "the memory that the values of a process's workers may take on processors (a container's limit counts). A step that needs more computes values again in place of keeping them"]).quantity(Quantity::Bytes(LEAST_MEMORY)),
    row(["simd", "GT_SIMD", ""], ["256", "the widest of the processor", "code for vectors of at most 256 bits (`128`: of at most 128) even where the processor has wider ones; results are the same"]).one_of(&["128", "256"]),
    row(["dump", "GT_DUMP", "--emit"], ["PASS", "none", "prints the graph after a compiler pass on standard error (`all`: after each pass)"]).one_of(PASSES),
    row(["profile", "GT_PROFILE", ""], ["run.json", "none", "writes a profile of the program when it ends: where its time went, by line, op, kernel and signal (`gt-cli profile run.json` prints it; `%p` in the name: the number of the process)"]),
    row(["instruction_log", "GT_INSTRUCTION_LOG", "--log-file"], ["gt.log", "none", "writes every event of client, dispatcher and worker to this file, one line each (`%p` in the name: the number of the process)"]),
    row(["log_format", "GT_LOG_FORMAT", "--log-format"], ["json", "seed", "the form of the log's lines: `seed` (columns), `tape` (few columns), or `json`, which `gt-cli visualize` draws"]).one_of(&["seed", "tape", "json"]),
    row(["log_size", "GT_LOG_SIZE", "--log-size"], ["64M", "no limit", "renames the log to `gt.log.1` at this size and begins a new one; three old files are kept"]).quantity(Quantity::Bytes(LEAST_LOG)),
    row(["log_detail", "GT_LOG_DETAIL", "--log-detail"], ["instructions", "events", "`instructions` also writes the instructions that each launch of a plan stands for"]).one_of(&["events", "instructions"]),
    row(["otel", "GT_OTEL", ""], ["http://localhost:4318", "none", "sends spans of what programs, server and workers do to this OpenTelemetry collector, by OTLP over HTTP (needs a build with the feature `otel`)"]),
    row(["", "OTEL_EXPORTER_OTLP_ENDPOINT", ""], ["http://localhost:4318", "none", "the same, if `GT_OTEL` is not set; `OTEL_SERVICE_NAME`, `OTEL_RESOURCE_ATTRIBUTES` and `OTEL_EXPORTER_OTLP_HEADERS` hold, too"]),
    row(["", "NO_COLOR", ""], ["1", "colors on terminals", "no colors in a terminal"]),
    row(["", "LIBTORCH", ""], ["FOLDER", "none", "where a build with `torch` finds libtorch"]),
    row(["", "LIBTORCH_USE_PYTORCH", ""], ["1", "0", "a build with `torch` uses the libtorch of an installed PyTorch"]),
    row(["server.port", "", "--port"], ["12345", "12345", "the port of `gt-cli server`"]).number(0, 65535),
    row(["server.host", "", "--host"], ["head", "localhost", "the host name or address that `gt-cli server` listens on"]),
    row(["server.max_priority", "", "--max-priority"], ["50", "100", "the highest priority that a program gets on `gt-cli server`"]).one_of(&["low", "normal", "high"]).number(1, 100),
    row(["server.metrics", "", "--metrics"], ["localhost:9464", "none", "where `gt-cli server` serves metrics"]),
    row(["server.drain", "", "--drain"], ["30", "30", "the seconds for which programs may go on after `gt-cli server` got SIGTERM"]).number(0, 86_400),
    row(["quota.memory", "", "--quota memory="], ["8GiB", "twice the memory of all workers", "bytes of live values of a session"]).quantity(Quantity::Bytes(1)),
    row(["quota.values", "", "--quota values="], ["100000", "262144", "live values of a session"]).number(1, u64::MAX),
    row(["quota.uploads", "", "--quota uploads="], ["1GiB", "as quota.memory", "bytes of a session's uploads before their inputs are declared"]).quantity(Quantity::Bytes(1)),
    row(["quota.sessions", "", "--quota sessions="], ["20", "800", "sessions of a user"]).number(1, u64::MAX),
    row(["quota.requests", "", "--quota requests="], ["100", "4096", "unanswered reads of a session"]).number(1, u64::MAX),
    row(["quota.stall", "", "--quota stall="], ["600s", "600s", "how long a read waits for a worker that reports nothing"]).quantity(Quantity::Time),
    row(["quota.pause", "", "--quota pause="], ["30s", "30s", "after which an upload that stops in the middle is given up"]).quantity(Quantity::Time),
    row(["quota.compile", "", "--quota compile="], ["10s/min", "no limit", "time for compiling the programs of a user"]).quantity(Quantity::Rate),
];

/// Variables of earlier systems, and what has taken their place.
pub const SUCCESSORS: &[(&str, &str)] = &[
    ("GT_AUTO_COMPILE", "steps that repeat are compiled unasked; GT_TIER=0 turns it off"),
    ("GT_COMPILE", "steps that repeat are compiled unasked; GT_TIER=0 turns it off"),
    (
        "GT_WORKER_BATCH_SIZE",
        "instructions travel in batches unasked, and steps that repeat are compiled (GT_TIER)",
    ),
    ("GT_CLIENT_BATCH_SIZE", "instructions travel in batches unasked"),
    ("GT_HOTPATH_WINDOW", "steps that repeat are found without parameters; GT_TIER=0 turns it off"),
    (
        "GT_HOTPATH_THRESHOLD",
        "steps that repeat are found without parameters; GT_TIER=0 turns it off",
    ),
    (
        "GT_HOTPATH_MIN_SEQ",
        "steps that repeat are found without parameters; GT_TIER=0 turns it off",
    ),
    (
        "GT_HOTPATH_MAX_EXPAND",
        "steps that repeat are found without parameters; GT_TIER=0 turns it off",
    ),
    (
        "GT_SAVE_COMPILED_CODE",
        "GT_CACHE=FOLDER keeps compiled programs, and `gt-cli compile --emit asm` prints them",
    ),
    ("GT_BACKEND", "GT_ENGINE=native or torch"),
];

/// The beginnings of variables that the project's tests and tools read.
pub(crate) const OF_CHORES: &[&str] = &[
    "GT_BLESS",
    "GT_BUILD",
    "GT_ONNX_CASES",
    "GT_OPINFO_PYTHON",
    "GT_PEERS_PYTHON",
    "GT_SEEDS",
    "GT_REPLAY_",
    "GT_SIM_",
];
