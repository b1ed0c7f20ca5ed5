//! Matrix products by libtorch on operands as they lie: strided views of memory that stays the
//! caller's.
//!
//! An engine on the CPU leaves it those that it multiplies faster: which these are is decided by
//! the dtype, the size and what processor this is, never by a clock, so a program computes the same
//! bits wherever and whenever it is compiled on a machine.
#![expect(unsafe_code, reason = "makes tensors of memory that is not libtorch's")]

mod processor;

use gt_ir::DType;
use smallvec::SmallVec;
use tch::{Device, Kind, TchError, Tensor};

use crate::{
    device::Activation,
    error::EngineError,
    native::Products,
    schedule::{MatMul, Matrix},
};

/// Multiply-adds from which on a call of libtorch (some microseconds) is worth it.
const WORTH: usize = 1 << 18;

/// The products of an engine on the CPU.
pub(crate) struct LibtorchProducts {
    dtypes: Vec<DType>,
}

impl LibtorchProducts {
    /// Those of the dtypes that libtorch multiplies faster than the native engine on this
    /// processor.
    pub(crate) fn here() -> LibtorchProducts {
        LibtorchProducts { dtypes: processor::faster() }
    }
}

impl Products for LibtorchProducts {
    fn name(&self) -> &'static str {
        "torch"
    }

    fn dtypes(&self) -> &[DType] {
        &self.dtypes
    }

    fn takes(&self, work: &MatMul) -> bool {
        let each = work.m * work.n * work.k;
        self.dtypes.contains(&work.dtype) && each * work.batch.iter().product::<usize>() >= WORTH
    }

    unsafe fn run(&self, work: &MatMul, memory: [*mut u8; 3]) -> Result<(), EngineError> {
        // SAFETY: as the caller promises.
        let result = unsafe { product(work, memory, Device::Cpu) };
        result.map_err(|e| EngineError::Call(format!("libtorch refuses a matrix product: {e}")))
    }
}

pub(super) fn kind(dtype: DType) -> Option<Kind> {
    match dtype {
        DType::F32 => Some(Kind::Float),
        DType::F64 => Some(Kind::Double),
        DType::Bf16 => Some(Kind::BFloat16),
        DType::F16 => Some(Kind::Half),
        DType::I64 | DType::I32 | DType::U8 | DType::Bool => None,
    }
}

/// `out = lhs * rhs`, the memory being that of both buffers and of the result.
///
/// # Safety
/// The memory is on the device and as large as the accesses of the product say; nobody else touches
/// that of the result.
unsafe fn product(work: &MatMul, memory: [*mut u8; 3], device: Device) -> Result<(), TchError> {
    // SAFETY: as the caller promises.
    let [a, b, out] = unsafe { matrices(work, memory, device) }?;
    a.f_matmul_out(&out, &b).map(|_| ())
}

/// `out = lhs * rhs + bias` on the CPU, then the activation.
///
/// # Safety
/// As of [`Products::run`]; `bias` is a row as long as those of the result, and the product is one
/// matrix.
pub(crate) unsafe fn affine(
    work: &MatMul,
    memory: [*mut u8; 3],
    bias: *mut u8,
    activation: Option<Activation>,
) -> Result<(), EngineError> {
    let computed = || -> Result<(), TchError> {
        // SAFETY: as the caller promises.
        let [a, b, out] = unsafe { matrices(work, memory, Device::Cpu) }?;
        let plain =
            |t: &Tensor, rows: usize, columns: usize| t.f_reshape([rows as i64, columns as i64]);
        let kind = kind(work.dtype).unwrap_or(Kind::Float);
        // SAFETY: as the caller promises; the tensor does not outlive this call.
        let bias = unsafe { Tensor::f_from_blob(bias, &[work.n as i64], &[1], kind, Device::Cpu) }?;
        let (a, b) = (plain(&a, work.m, work.k)?, plain(&b, work.k, work.n)?);
        let out = out.f_view([work.m as i64, work.n as i64])?;
        let mut sum = bias.f_addmm_out(&out, &a, &b)?;
        // Not `_addmm_activation`, whose flag `tch` hands over as its `beta`.
        match activation {
            None => Ok(()),
            Some(Activation::Relu) => sum.f_relu_().map(drop),
            Some(Activation::Gelu) => sum.f_gelu_("tanh").map(drop),
        }
    };
    computed().map_err(|e| EngineError::Call(format!("libtorch refuses a product: {e}")))
}

/// The operands and the result as tensors.
///
/// # Safety
/// The memory is as for [`product`], and outlives the tensors.
unsafe fn matrices(
    work: &MatMul,
    [lhs, rhs, out]: [*mut u8; 3],
    device: Device,
) -> Result<[Tensor; 3], TchError> {
    let kind = kind(work.dtype).unwrap_or(Kind::Float);
    let sizes = |rows: usize, columns: usize| -> SmallVec<[i64; 8]> {
        work.batch.iter().chain([&rows, &columns]).map(|&s| s as i64).collect()
    };
    let (a, b) = (first(lhs, &work.lhs, work.dtype), first(rhs, &work.rhs, work.dtype));
    let dense = contiguous(&sizes(work.m, work.n));
    let tensor = |at: *mut u8, sizes: &[i64], strides: &[i64]| {
        // SAFETY: as the caller promises.
        unsafe { Tensor::f_from_blob(at, sizes, strides, kind, device) }
    };
    let a = tensor(a, &sizes(work.m, work.k), &work.lhs.access.strides)?;
    let b = tensor(b, &sizes(work.k, work.n), &work.rhs.access.strides)?;
    Ok([a, b, tensor(out, &sizes(work.m, work.n), &dense)?])
}

/// Where an operand's first element is.
pub(super) fn first(at: *mut u8, matrix: &Matrix, dtype: DType) -> *mut u8 {
    at.wrapping_offset(matrix.access.offset as isize * dtype.size() as isize)
}

fn contiguous(sizes: &[i64]) -> SmallVec<[i64; 8]> {
    let mut strides: SmallVec<[i64; 8]> = SmallVec::from_elem(1, sizes.len());
    for d in (1..sizes.len()).rev() {
        strides[d - 1] = strides[d] * sizes[d].max(1);
    }
    strides
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use gt_ir::{DType, HostTensor, Shape, Type, testing::difference, text};

    use super::LibtorchProducts;
    use crate::{Engine, Native, NativeConfig};

    fn ramp(ty: Type) -> HostTensor {
        let values = (0..ty.shape.numel()).map(|i| ((i * 37 + 11) % 23) as f64 / 8.0 - 1.25);
        let wide = HostTensor::from_vec(values.collect(), Shape::new(ty.shape.sizes()).unwrap());
        let cast = gt_ir::Op::Cast(ty.dtype);
        gt_ir::interp::eval(&cast, &[gt_ir::interp::Arg::Tensor(&wide.unwrap())]).unwrap()
    }

    fn result(engine: &mut Native, tape: &str) -> HostTensor {
        let graph = gt_ir::lower(&text::parse(tape).unwrap().0).unwrap();
        let program = engine.compile(&graph).unwrap();
        let is_float = graph.node(graph.outputs()[0]).ty.dtype.is_float();
        let plan = program.dump(crate::Dump::Plan).unwrap();
        assert_eq!(plan.contains("by the library"), engine.info().name == "torch" && is_float);
        let types = graph.inputs().iter().map(|id| graph.node(*id).ty);
        let mut inputs: Vec<_> = types.map(|ty| engine.upload(&ramp(ty)).unwrap()).collect();
        let out = engine.run(&program, &mut inputs, &[]).unwrap();
        engine.download(&out[0]).unwrap()
    }

    /// All that libtorch multiplies, whatever is faster on this machine.
    #[test]
    fn products_agree_with_the_native_engines() {
        let host = NativeConfig { store: None, ..NativeConfig::host() };
        let mut native = Native::new(host.clone()).unwrap();
        let dtypes = DType::ALL.into_iter().filter(|dtype| dtype.is_float()).collect();
        let products = Arc::new(LibtorchProducts { dtypes });
        let mut torch = Native::with_products(host, Some(products)).unwrap();
        assert_eq!(torch.info().name, "torch");
        let works = [
            ("[65,70]", "[70,90]", "", "%0, %1", "[65,90]"),
            ("[70,65]", "[70,90]", "%2 = transpose[0,1] %0 : T[65,70]", "%2, %1", "[65,90]"),
            ("[3,1,40,66]", "[5,66,31]", "", "%0, %1", "[3,5,40,31]"),
        ];
        for dtype in ["f32", "f64", "bf16", "f16", "i64", "i32"] {
            for (a, b, view, operands, out) in &works {
                let tape = format!(
                    "gt tape 1\n%0 = input : T{a}\n%1 = input : T{b}\n{view}\n%3 = matmul \
                     {operands} : T{out}\noutput %3\n"
                );
                let tape = tape.replace('T', dtype);
                let results = [&mut native, &mut torch].map(|e| result(e, &tape));
                assert_eq!(difference(&results[0], &results[1], 8.0), None, "{tape}");
            }
        }
    }
}
