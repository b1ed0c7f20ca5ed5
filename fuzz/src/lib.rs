//! What is fuzzed: functions of any bytes that panic where a guarantee does not hold. The fuzzer
//! finds the bytes; the tests run each function on a few.
//!
//! Files are read from bytes in memory, never from a disk.

mod binary;
mod csv;
mod doors;
mod gguf;
mod idx;
mod npy;
mod program;
mod pth;
mod replay;
mod run;
mod safetensors;
mod signals;
mod text;
mod wire;

/// Something to fuzz.
pub struct Target {
    /// What the command line calls it.
    pub name: &'static str,
    /// Panics where a guarantee does not hold.
    pub check: fn(&[u8]),
    /// Inputs to begin with.
    pub seeds: fn() -> Vec<Vec<u8>>,
}

/// All there is to fuzz.
#[rustfmt::skip]
pub const TARGETS: &[Target] = &[
    Target { name: "text",        check: text::check,        seeds: text::seeds },
    Target { name: "binary",      check: binary::check,      seeds: binary::seeds },
    Target { name: "run",         check: run::check,         seeds: Vec::new },
    Target { name: "wire",        check: wire::check,        seeds: wire::seeds },
    Target { name: "doors",       check: doors::check,       seeds: doors::seeds },
    Target { name: "replay",      check: replay::check,      seeds: Vec::new },
    Target { name: "npy",         check: npy::check,         seeds: npy::seeds },
    Target { name: "gguf",        check: gguf::check,        seeds: gguf::seeds },
    Target { name: "idx",         check: idx::check,         seeds: idx::seeds },
    Target { name: "safetensors", check: safetensors::check, seeds: safetensors::seeds },
    Target { name: "csv",         check: csv::check,         seeds: csv::seeds },
    Target { name: "pth",         check: pth::check,         seeds: pth::seeds },
    Target { name: "signals",     check: signals::check,     seeds: signals::seeds },
    Target { name: "program",     check: program::check,     seeds: program::seeds },
];

/// The target of this name; the error lists the known ones.
pub fn target(name: &str) -> Result<&'static Target, String> {
    let found = TARGETS.iter().find(|target| target.name == name);
    found.ok_or_else(|| {
        let known: Vec<&str> = TARGETS.iter().map(|target| target.name).collect();
        format!("no fuzz target is called `{name}`; there are {}", known.join(", "))
    })
}
