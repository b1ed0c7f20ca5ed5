//! From nests to machine code, and from code to callable kernels.
//!
//! Guarantees: code is position independent and refers to nothing in this process (the host's
//! functions come in by a table), so that it may be kept on disk and loaded by another process on a
//! processor of the same kind; the kernels loaded together share their memory, which is freed when
//! the last handle drops. It does not run, cache or schedule kernels.
#![expect(unsafe_code, reason = "calls into generated code and frees its memory")]

use std::sync::{Arc, Mutex, PoisonError};

use cranelift_codegen::{
    Context,
    control::ControlPlane,
    ir::{AbiParam, types},
    isa::OwnedTargetIsa,
    settings::{self, Configurable},
};
use cranelift_frontend::{FunctionBuilder, FunctionBuilderContext};
use cranelift_jit::{JITBuilder, JITModule};
use cranelift_module::{Module, default_libcall_names};
use serde::{Deserialize, Serialize};

use super::{
    emit::emit,
    host,
    lanes::Target,
    nest::Nest,
    wide::{self, Vectors},
};
use crate::error::EngineError;

/// A half-open range of loop iterations.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Range {
    pub(crate) start: usize,
    pub(crate) end: usize,
}

/// Arguments, then the ranges of the split parallel and the split reduce loop, then the host's
/// functions.
type Entry = unsafe extern "C" fn(*const u64, i64, i64, i64, i64, *const host::Host);

/// The machine code of one nest.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Code {
    bytes: Vec<u8>,
}

/// A text of a nest's code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Dump {
    /// Cranelift's intermediate representation; where the code is made without it, that of the wide
    /// generator.
    Clif,
    /// Instructions with their registers.
    Asm,
}

/// One loaded nest.
#[derive(Clone)]
pub(crate) struct Kernel {
    entry: Entry,
    _memory: Arc<Memory>,
}

impl Kernel {
    /// Runs the nest over two ranges of its split loops.
    ///
    /// # Safety
    /// `args` holds, in the order of the spec, the address of each buffer and the bits of each
    /// scalar. Every buffer is valid for all accesses the spec makes within the ranges, and those
    /// written are not touched by anybody else meanwhile.
    pub(crate) unsafe fn call(&self, args: &[u64], parallel: Range, reduce: Range) {
        let [p_lo, p_hi, r_lo, r_hi] =
            [parallel.start, parallel.end, reduce.start, reduce.end].map(|v| v as i64);
        // SAFETY: the entry has this signature, its code is alive through `_memory`, and the caller
        // vouches for the arguments.
        unsafe { (self.entry)(args.as_ptr(), p_lo, p_hi, r_lo, r_hi, &raw const host::HOST) }
    }
}

/// Owns the memory generated code lies in.
struct Memory(Mutex<Option<JITModule>>);

impl Drop for Memory {
    fn drop(&mut self) {
        if let Some(module) = self.0.get_mut().unwrap_or_else(PoisonError::into_inner).take() {
            // SAFETY: every kernel of the module holds this memory, so none is running or will be
            // called.
            unsafe { module.free_memory() };
        }
    }
}

/// Generates code for this host, and loads it.
pub(crate) struct Compiler {
    isa: OwnedTargetIsa,
    target: Target,
    wide: Option<Vectors>,
    context: Context,
    builder_context: FunctionBuilderContext,
}

fn codegen(error: impl std::fmt::Display) -> EngineError {
    EngineError::Codegen(error.to_string())
}

impl Compiler {
    /// For this processor's widest vectors, or those of at most 128 or 256 bits if `GT_SIMD` says
    /// so. The bits of results are the same, all NaN being one.
    pub(crate) fn new() -> Result<Compiler, EngineError> {
        let mut here = Vectors::here();
        match gt_settings::var("GT_SIMD").as_deref() {
            Some("128") => here.clear(),
            Some("256") => here.retain(|vectors| *vectors == Vectors::Ymm),
            _ => {}
        }
        Compiler::with_vectors(here.first().copied())
    }

    /// With the wide generator for such vectors, where it has code, or without.
    pub(super) fn with_vectors(wide: Option<Vectors>) -> Result<Compiler, EngineError> {
        let mut flags = settings::builder();
        for (name, value) in [
            ("opt_level", "speed"),
            ("enable_verifier", verifier()),
            ("use_colocated_libcalls", "false"),
            ("is_pic", "false"),
        ] {
            flags.set(name, value).map_err(codegen)?;
        }
        let isa = cranelift_native::builder()
            .map_err(codegen)?
            .finish(settings::Flags::new(flags))
            .map_err(codegen)?;
        let (fma, rounds) = fma_and_rounding();
        let target = Target { fma, rounds, call_conv: isa.default_call_conv(), host: None };
        Ok(Compiler {
            isa,
            target,
            wide,
            context: Context::new(),
            builder_context: FunctionBuilderContext::new(),
        })
    }

    /// The vector features code is generated with.
    pub(crate) fn simd(&self) -> String {
        let features =
            self.isa.isa_flags().into_iter().filter(|f| f.as_bool() == Some(true)).map(|f| f.name);
        let known = ["has_avx", "has_avx2", "has_fma", "has_avx512vl", "has_sse42"];
        let features: Vec<&str> =
            features.filter(|f| known.contains(f)).filter_map(|f| f.strip_prefix("has_")).collect();
        let bits = match self.wide {
            Some(Vectors::Zmm) => 512,
            Some(Vectors::Ymm) => 256,
            None => 128,
        };
        format!("{bits}-bit ({})", features.join(" "))
    }

    /// The code of a nest; it depends on the nest and the processor alone.
    pub(crate) fn generate(&mut self, nest: &Nest) -> Result<Code, EngineError> {
        if let Some(vectors) = self.wide
            && let Ok(generated) = wide::generate(nest, vectors)
        {
            return Ok(Code { bytes: generated.bytes() });
        }
        self.build(nest)?;
        let compiled = self
            .context
            .compile(&*self.isa, &mut ControlPlane::default())
            .map_err(|e| EngineError::Codegen(format!("{:?}", e.inner)))?;
        if !compiled.buffer.relocs().is_empty() {
            return Err(EngineError::Codegen("code that refers to its process".into()));
        }
        Ok(Code { bytes: compiled.code_buffer().to_vec() })
    }

    /// Makes code callable.
    pub(crate) fn load(&self, code: &[Code]) -> Result<Vec<Kernel>, EngineError> {
        if code.is_empty() {
            return Ok(Vec::new());
        }
        let mut module =
            JITModule::new(JITBuilder::with_isa(self.isa.clone(), default_libcall_names()));
        let mut signature = module.make_signature();
        signature.params.extend([AbiParam::new(types::I64); 6]);
        let define = |code: &Code| {
            let id = module.declare_anonymous_function(&signature).map_err(codegen)?;
            module.define_function_bytes(id, 64, &code.bytes, &[]).map_err(codegen)?;
            Ok(id)
        };
        let ids = code.iter().map(define).collect::<Result<Vec<_>, EngineError>>();
        // From here on the module is owned by `memory`, which is freed whatever happens.
        let result =
            ids.and_then(|ids| module.finalize_definitions().map_err(codegen).map(|()| ids));
        let addresses: Result<Vec<*const u8>, EngineError> =
            result.map(|ids| ids.into_iter().map(|id| module.get_finalized_function(id)).collect());
        let memory = Arc::new(Memory(Mutex::new(Some(module))));
        Ok(addresses?.into_iter().map(|address| kernel(address, &memory)).collect())
    }

    /// A nest's code as text.
    pub(crate) fn dump(&mut self, nest: &Nest, what: Dump) -> Result<String, EngineError> {
        let mut why = String::new();
        if let Some(vectors) = self.wide {
            match wide::generate(nest, vectors) {
                Ok(generated) => return Ok(generated.listing()),
                Err(wide::Unsupported(what)) => why = format!("; 128-bit: {what}\n"),
            }
        }
        self.build(nest)?;
        if what == Dump::Clif {
            return Ok(why + &self.context.func.display().to_string());
        }
        self.context.set_disasm(true);
        let compiled = self
            .context
            .compile(&*self.isa, &mut ControlPlane::default())
            .map_err(|e| EngineError::Codegen(format!("{:?}", e.inner)))?;
        Ok(why + compiled.vcode.as_deref().unwrap_or_default())
    }

    /// Writes the nest as the context's function.
    fn build(&mut self, nest: &Nest) -> Result<(), EngineError> {
        self.context.clear();
        let signature = &mut self.context.func.signature;
        signature.call_conv = self.target.call_conv;
        signature.params.extend([AbiParam::new(types::I64); 6]);
        let mut builder = FunctionBuilder::new(&mut self.context.func, &mut self.builder_context);
        let emitted = emit(&mut builder, nest, self.target);
        if let Err(unsupported) = emitted {
            // An abandoned builder leaves its context dirty.
            self.builder_context = FunctionBuilderContext::new();
            return Err(EngineError::Codegen(unsupported.0));
        }
        builder.finalize(self.isa.frontend_config());
        Ok(())
    }
}

/// Cranelift's own checks run wherever ours do.
fn verifier() -> &'static str {
    if cfg!(debug_assertions) { "true" } else { "false" }
}

fn kernel(address: *const u8, memory: &Arc<Memory>) -> Kernel {
    // SAFETY: the module holds code at this address that was generated with the signature of
    // `Entry`.
    let entry = unsafe { std::mem::transmute::<*const u8, Entry>(address) };
    Kernel { entry, _memory: memory.clone() }
}

/// Whether the processor rounds `a * b + c` once, and floats to integers in one instruction.
#[cfg(target_arch = "x86_64")]
fn fma_and_rounding() -> (bool, bool) {
    use std::arch::is_x86_feature_detected as has;
    (has!("fma"), has!("sse4.1"))
}

#[cfg(not(target_arch = "x86_64"))]
fn fma_and_rounding() -> (bool, bool) {
    (true, true)
}
