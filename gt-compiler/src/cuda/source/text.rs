//! Text with indentation, and the frame every kernel has.
//!
//! It knows the form of a kernel's parameters and nothing of what kernels compute.

use std::fmt::Display;

use gt_ir::DType;

use super::{PRELUDE, Source};

/// Lines of code at a depth.
#[derive(Default)]
pub(super) struct Text {
    out: String,
    depth: usize,
}

impl Text {
    /// What `write` writes.
    pub(super) fn of(write: impl FnOnce(&mut Text)) -> String {
        let mut text = Text::default();
        write(&mut text);
        text.out
    }

    pub(super) fn line(&mut self, line: impl Display) {
        let line = line.to_string();
        if !line.is_empty() {
            self.out.extend(std::iter::repeat_n("    ", self.depth));
            self.out.push_str(&line);
        }
        self.out.push('\n');
    }

    /// Begins a block: what follows stands inside of it.
    pub(super) fn open(&mut self, line: impl Display) {
        self.line(format!("{line} {{").trim_start());
        self.depth += 1;
    }

    pub(super) fn close(&mut self) {
        self.depth = self.depth.saturating_sub(1);
        self.line("}");
    }
}

/// A parameter that is a buffer.
pub(super) struct Parameter {
    pub(super) name: String,
    pub(super) dtype: DType,
    pub(super) is_written: bool,
}

/// What a kernel is called and how it is launched.
pub(super) struct Frame<'a> {
    pub(super) name: &'a str,
    /// What it does, for the reader: the lines of a comment.
    pub(super) about: Vec<String>,
    pub(super) parameters: Vec<Parameter>,
    pub(super) grid: u64,
    pub(super) block: u32,
    /// Whether threads of a block wait for each other.
    pub(super) barriers: bool,
    /// Functions it needs beside those every text has.
    pub(super) library: &'a str,
}

impl Frame<'_> {
    /// The translation unit with this kernel, whose body `write` writes.
    pub(super) fn source(self, write: impl FnOnce(&mut Text)) -> Source {
        let mut text = Text { out: format!("{PRELUDE}\n{}", self.library), depth: 0 };
        self.about.iter().for_each(|line| text.line(format!("// {line}")));
        let buffers = self.parameters.iter().map(|p| {
            let constant = if p.is_written { "" } else { "const " };
            format!("{constant}{}* {}", memory_type(p.dtype), p.name)
        });
        let parameters: Vec<String> =
            buffers.chain(["const u64* scalars".into(), "u64* error".into()]).collect();
        text.line(format!("extern \"C\" __global__ void __launch_bounds__({})", self.block));
        text.open(format!("{}({})", self.name, parameters.join(", ")));
        write(&mut text);
        text.close();
        // A launch has at most this many blocks; what would need more does not fit into any memory.
        let grid =
            u32::try_from(self.grid).map_or(i32::MAX as u32, |n| n.clamp(1, i32::MAX as u32));
        text.launcher(self.name, self.block, self.barriers);
        Source { name: self.name.to_owned(), text: text.out, grid, block: self.block }
    }
}

impl Text {
    /// How the host runs a kernel.
    fn launcher(&mut self, name: &str, block: u32, barriers: bool) {
        let run = if barriers { "run_together" } else { "run_apart" };
        self.line("\n#ifdef GT_HOST_EMULATION");
        self.open(format!(
            "extern \"C\" void {name}_launch(unsigned grid, const unsigned long long* args)"
        ));
        self.line(format!("{run}({name}, grid, {block}, args);"));
        self.close();
        self.line("#endif");
    }
}

/// The type of an element in memory.
pub(super) fn memory_type(dtype: DType) -> &'static str {
    match dtype {
        DType::F32 => "f32",
        DType::F64 => "f64",
        DType::Bf16 => "bf16",
        DType::F16 => "f16",
        DType::I64 => "i64",
        DType::I32 => "i32",
        DType::U8 => "u8",
        DType::Bool => "bool8",
    }
}

/// The type of an element in a register.
pub(super) fn register_type(dtype: DType) -> &'static str {
    match dtype {
        DType::F32 | DType::Bf16 | DType::F16 => "f32",
        DType::F64 => "f64",
        DType::I64 => "i64",
        DType::I32 | DType::U8 => "i32",
        DType::Bool => "bool",
    }
}
