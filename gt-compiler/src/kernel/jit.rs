//! From nests to callable machine code.
//!
//! Guarantees: the kernels of one program live in one JIT module, whose memory is freed when the last handle drops; code is generated for
//! this host. It does not run, cache or schedule kernels.
#![expect(unsafe_code, reason = "calls into generated code and frees its memory")]

use std::sync::{Arc, Mutex, PoisonError};

use cranelift_codegen::{
    Context,
    ir::{AbiParam, types},
    isa::OwnedTargetIsa,
    settings::{self, Configurable},
};
use cranelift_frontend::{FunctionBuilder, FunctionBuilderContext};
use cranelift_jit::{JITBuilder, JITModule};
use cranelift_module::{Module, default_libcall_names};

use super::{emit::emit, lanes::Target, nest::Nest};
use crate::engine::EngineError;

/// A half-open range of loop iterations.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Range {
    pub(crate) start: usize,
    pub(crate) end: usize,
}

/// Arguments, then the ranges of the split parallel and the split reduce loop.
type Entry = unsafe extern "C" fn(*const u64, i64, i64, i64, i64);

/// One compiled nest.
#[derive(Clone)]
pub(crate) struct Kernel {
    entry: Entry,
    _code: Arc<Code>,
}

impl Kernel {
    /// Runs the nest over two ranges of its split loops.
    ///
    /// # Safety
    /// `args` holds, in the order of the spec, the address of each buffer and the bits of each scalar. Every buffer is valid for all accesses
    /// the spec makes within the ranges, and those written are not touched by anybody else meanwhile.
    pub(crate) unsafe fn call(&self, args: &[u64], parallel: Range, reduce: Range) {
        let [p_lo, p_hi, r_lo, r_hi] =
            [parallel.start, parallel.end, reduce.start, reduce.end].map(|v| v as i64);
        // SAFETY: the entry has this signature, its code is alive through `_code`, and the caller vouches for the arguments.
        unsafe { (self.entry)(args.as_ptr(), p_lo, p_hi, r_lo, r_hi) }
    }
}

/// Owns the memory generated code lies in.
struct Code(Mutex<Option<JITModule>>);

impl Drop for Code {
    fn drop(&mut self) {
        if let Some(module) = self.0.get_mut().unwrap_or_else(PoisonError::into_inner).take() {
            // SAFETY: every kernel of the module holds this `Code`, so none is running or will be called.
            unsafe { module.free_memory() };
        }
    }
}

/// Compiles nests for this host.
pub(crate) struct Compiler {
    isa: OwnedTargetIsa,
    target: Target,
    context: Context,
    builder_context: FunctionBuilderContext,
}

fn codegen(error: impl std::fmt::Display) -> EngineError {
    EngineError::Codegen(error.to_string())
}

impl Compiler {
    pub(crate) fn new() -> Result<Compiler, EngineError> {
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
        let target = Target { fma: has_fma(), call_conv: isa.default_call_conv() };
        Ok(Compiler {
            isa,
            target,
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
        format!("128-bit ({})", features.join(" "))
    }

    /// Compiles the kernels of one program.
    pub(crate) fn compile(&mut self, nests: &[&Nest]) -> Result<Vec<Kernel>, EngineError> {
        if nests.is_empty() {
            return Ok(Vec::new());
        }
        let builder = JITBuilder::with_isa(self.isa.clone(), default_libcall_names());
        let mut module = JITModule::new(builder);
        let ids =
            nests.iter().map(|nest| self.define(&mut module, nest)).collect::<Result<Vec<_>, _>>();
        // From here on the module is owned by `code`, so that its memory is freed whatever happens.
        let result =
            ids.and_then(|ids| module.finalize_definitions().map_err(codegen).map(|()| ids));
        let addresses: Result<Vec<*const u8>, EngineError> =
            result.map(|ids| ids.into_iter().map(|id| module.get_finalized_function(id)).collect());
        let code = Arc::new(Code(Mutex::new(Some(module))));
        Ok(addresses?.into_iter().map(|address| kernel(address, &code)).collect())
    }

    fn define(
        &mut self,
        module: &mut JITModule,
        nest: &Nest,
    ) -> Result<cranelift_module::FuncId, EngineError> {
        module.clear_context(&mut self.context);
        let signature = &mut self.context.func.signature;
        signature.params.extend([AbiParam::new(types::I64); 5]);
        let id = module.declare_anonymous_function(signature).map_err(codegen)?;
        let mut builder = FunctionBuilder::new(&mut self.context.func, &mut self.builder_context);
        let emitted = emit(&mut builder, nest, self.target);
        if let Err(unsupported) = emitted {
            // An abandoned builder leaves its context dirty.
            self.builder_context = FunctionBuilderContext::new();
            return Err(EngineError::Codegen(unsupported.0));
        }
        builder.finalize(module.target_config());
        module
            .define_function(id, &mut self.context)
            .map_err(|e| EngineError::Codegen(format!("{e:?}")))?;
        Ok(id)
    }
}

/// Cranelift's own checks run wherever ours do.
fn verifier() -> &'static str {
    if cfg!(debug_assertions) { "true" } else { "false" }
}

fn kernel(address: *const u8, code: &Arc<Code>) -> Kernel {
    // SAFETY: the module defined this function with the signature of `Entry`.
    let entry = unsafe { std::mem::transmute::<*const u8, Entry>(address) };
    Kernel { entry, _code: code.clone() }
}

#[cfg(target_arch = "x86_64")]
fn has_fma() -> bool {
    std::arch::is_x86_feature_detected!("fma")
}

#[cfg(not(target_arch = "x86_64"))]
fn has_fma() -> bool {
    true
}
