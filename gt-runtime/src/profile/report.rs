//! The report of a profile: sums by phase, line, op, signal and kernel, and memory over time.

use gt_ir::Loc;
use serde::{Deserialize, Serialize};

use crate::machine::Machine;

/// What a part of the time was for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Phase {
    /// The program's own code, which records instructions and hands them over.
    Record,
    /// The program waits for values.
    Wait,
    /// Plans are compiled, in the background.
    Plan,
    /// Workers compute.
    Run,
    /// Workers give values to each other.
    Exchange,
    /// Workers hand values to the program.
    Read,
}

impl Phase {
    /// The name in reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Phase::Record => "record",
            Phase::Wait => "wait",
            Phase::Plan => "plan",
            Phase::Run => "run",
            Phase::Exchange => "exchange",
            Phase::Read => "read",
        }
    }
}

/// A line of a table.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// The phase, the line, the op, the signal or the kernel.
    pub name: String,
    /// How often.
    pub calls: u64,
    /// How long.
    pub nanos: f64,
    /// Floating-point operations.
    pub flops: f64,
    /// Bytes read and written.
    pub bytes: f64,
}

/// A kernel of plans, or an instruction that ran by itself.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Kernel {
    /// Its sums.
    #[serde(flatten)]
    pub row: Row,
    /// The lines that it computes, with their ops; those with the most work first.
    pub lines: Vec<String>,
}

/// The memory of the workers.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Memory {
    /// The most bytes in use.
    pub peak: u64,
    /// The line whose work ended with the most bytes in use.
    pub peak_line: String,
    /// The bytes of values by the lines that made them when about the most were in use, the most
    /// first. Memory within plans and memory kept for reuse are not among them; data that the
    /// program gave is, even where it is not counted as memory of the worker.
    #[serde(default)]
    pub lines: Vec<(String, u64)>,
    /// Nanoseconds since the beginning, bytes in use then, and the line that had run.
    pub samples: Vec<(u64, u64, String)>,
}

/// Where the time of a program went. It prints as a table.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Profile {
    /// The program.
    pub program: String,
    /// Nanoseconds from its beginning to its end.
    pub wall: f64,
    /// What the machine can do.
    pub machine: Machine,
    /// By phase. Phases overlap: workers run while the program records or waits.
    pub phases: Vec<Row>,
    /// By source line, the longest first.
    pub lines: Vec<Row>,
    /// By op.
    pub ops: Vec<Row>,
    /// By signal.
    pub signals: Vec<Row>,
    /// By kernel.
    pub kernels: Vec<Kernel>,
    /// Memory over time.
    pub memory: Memory,
    /// The spans that the timeline lacks, because there were too many.
    pub lost: u64,
    /// The timeline, as events of Chrome's format.
    #[serde(skip)]
    pub(super) events: Vec<serde_json::Value>,
}

impl Profile {
    /// The profile in the format of Chrome's and Perfetto's trace viewers, with the sums beside the
    /// timeline under `gt_profile`.
    #[must_use]
    pub fn to_json(&self) -> String {
        serde_json::json!({
            "displayTimeUnit": "ms",
            "gt_profile": self,
            "traceEvents": self.events,
        })
        .to_string()
    }

    /// The sums of a file that [`Profile::to_json`] wrote.
    ///
    /// # Errors
    /// The text is no such file.
    pub fn from_json(text: &str) -> Result<Profile, String> {
        #[derive(Deserialize)]
        struct File {
            gt_profile: Profile,
        }
        let file: Result<File, _> = serde_json::from_str(text);
        file.map(|file| file.gt_profile).map_err(|e| format!("this is no profile of GT: {e}"))
    }

    /// The profile beside what this machine can do, which is measured if it is not known.
    #[must_use]
    pub fn measured(mut self) -> Profile {
        let threads = usize::try_from(self.machine.threads).unwrap_or(1);
        self.machine = Machine::with_threads(threads.max(1));
        self
    }

    /// The time of all kernels and instructions.
    #[must_use]
    pub fn busy(&self) -> f64 {
        self.lines.iter().map(|row| row.nanos).sum()
    }
}

/// `src/mlp.rs:12`, without the column.
pub(super) fn line_of(loc: Loc) -> String {
    if loc == Loc::NONE { "(no line)".into() } else { format!("{}:{}", loc.file(), loc.line()) }
}
