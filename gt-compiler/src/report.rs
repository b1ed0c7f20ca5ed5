//! The report of a compilation, for people and for tools: plain data that travels and is stored
//! beside the program.

use serde::{Deserialize, Serialize};

/// The cost of one run of a graph, by the cost model of the compiler.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Cost {
    /// Bytes read and written by the kernels.
    pub bytes: u64,
    /// Floating-point operations, a transcendental counted as several.
    pub flops: u64,
    /// Kernels, products and routines started.
    pub launches: u64,
    /// Estimated time on the machine of the compilation.
    pub seconds: f64,
}

/// The search of the e-graph, over all distinct blocks.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Search {
    /// Blocks the graph was cut into.
    pub blocks: usize,
    /// Blocks among them that differ, each searched once.
    pub distinct: usize,
    /// E-nodes at the end.
    pub nodes: usize,
    /// E-classes at the end.
    pub classes: usize,
    /// The most iterations a block took.
    pub iterations: usize,
    /// Why searching ended: `saturated`, or the limit reached in at least one block.
    pub stop: String,
    /// Whether the rewritten program was cheaper and taken; else the unrewritten one was.
    pub improved: bool,
    /// Estimated time of the graph before and after the search.
    pub seconds: [f64; 2],
}

/// A pass and the size of the graph after it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PassReport {
    /// Its name.
    pub name: String,
    /// Nodes after it.
    pub nodes: usize,
    /// Time it took, checks included.
    pub nanoseconds: u64,
}

/// The report of a compilation.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// Instructions of the segment.
    pub instructions: usize,
    /// Nodes of the expanded graph before and after the passes.
    pub nodes: [usize; 2],
    /// The rules that fired, with how often, most frequent first.
    pub rules: Vec<(String, usize)>,
    /// Patterns found (softmax, layer norm, ..), with how often.
    pub recognized: Vec<(String, usize)>,
    /// Cost of the expanded graph.
    pub before: Cost,
    /// Cost of the result.
    pub after: Cost,
    /// Most bytes of values alive at once, before and after.
    pub peak: [u64; 2],
    /// Kernels compiled for the program.
    pub kernels: usize,
    /// Steps a run takes.
    pub launches: usize,
    /// Bytes that a run allocates, for its results and for what it needs on its way.
    pub bytes: u64,
    /// Groups of kernels that run again, so that their results need not be kept meanwhile.
    pub again: usize,
    /// The passes, in order.
    pub passes: Vec<PassReport>,
    /// The search over equal programs.
    pub egraph: Search,
    /// Time the compilation took.
    pub compile_ns: u64,
    /// Whether the program came from a cache.
    pub cached: bool,
}
