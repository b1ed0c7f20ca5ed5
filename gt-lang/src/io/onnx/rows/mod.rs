//! What the rows of the op table are in ONNX, version 20 of its operators.
//!
//! Guarantees: an operator gets operands of dtypes that ONNX defines it for, and gives the type of
//! the row. The match over primitives is exhaustive, so a new one is a compile error here. A
//! derived op without an arm is left to its expansion.
//!
//! Attributes of ONNX are `f32`. A row whose attribute is a float is therefore expanded for `f64`.

mod indexing;
mod matrix;
mod movement;
mod pointwise;
mod reduce;
mod window;

use gt_ir::op::Primitive;
use gt_ir::{DType, Op, OpError, Operand, OperandType, Scalar, Type, ValueId};

use super::graph::{Emitted, Graph, Node};

/// The version of ONNX's operators that files are written for.
pub(super) const OPSET: i64 = 20;

/// An instruction that is to become a node or a few.
struct Row<'a> {
    op: &'a Op,
    ins: &'a [Operand],
    types: &'a [OperandType],
    /// The type of the result.
    ty: Type,
}

impl Row<'_> {
    /// Operand `i` in its own dtype.
    fn value(&self, g: &mut Graph, i: usize) -> Emitted {
        let operand = self.operand(i)?;
        match operand {
            Operand::Value(value) => Ok(value),
            Operand::Scalar(scalar) => g.literal(scalar, scalar.weak_dtype()),
        }
    }

    /// Operand `i` in another dtype.
    fn cast(&self, g: &mut Graph, i: usize, dtype: DType) -> Emitted {
        let operand = self.operand(i)?;
        g.operand(operand, dtype)
    }

    fn operand(&self, i: usize) -> Result<Operand, OpError> {
        let missing = || OpError::new(format!("{}: operand {i} is missing", self.op.name()));
        self.ins.get(i).copied().ok_or_else(missing)
    }

    /// The type of operand `i`, as a tensor.
    fn operand_type(&self, i: usize) -> Type {
        match self.types.get(i) {
            Some(OperandType::Tensor(ty)) => *ty,
            Some(OperandType::Scalar(scalar)) => Type::scalar(scalar.weak_dtype()),
            None => self.ty,
        }
    }

    /// Operand `i`, if it is a literal.
    fn number(&self, i: usize) -> Option<Scalar> {
        match self.ins.get(i) {
            Some(Operand::Scalar(scalar)) => Some(*scalar),
            Some(Operand::Value(_)) | None => None,
        }
    }

    /// Operand `i` as a float attribute, if the operator can have it as one.
    fn attribute(&self, i: usize) -> Option<f64> {
        self.number(i).filter(|_| self.ty.dtype != DType::F64).map(Scalar::as_f64)
    }

    /// An operator on all operands in the dtype of the result.
    fn apply(&self, g: &mut Graph, name: &'static str) -> Emitted {
        self.apply_with(g, name, |node| node)
    }

    /// As [`Row::apply`], with attributes.
    fn apply_with(
        &self,
        g: &mut Graph,
        name: &'static str,
        with: impl FnOnce(Node) -> Node,
    ) -> Emitted {
        let dtype = taken(name, self.ty.dtype);
        let ins = (0..self.ins.len()).map(|i| self.cast(g, i, dtype));
        let ins = ins.collect::<Result<Vec<ValueId>, OpError>>()?;
        let y = g.add(with(Node::new(name, &ins)), self.ty.with_dtype(dtype));
        Ok(g.cast(y, self.ty.dtype))
    }
}

/// The dtype in which an operator computes what is asked for in this one: ONNX defines some
/// operators for fewer dtypes than GT has.
fn taken(name: &str, dtype: DType) -> DType {
    match (name, dtype) {
        (
            "Sin" | "Cos" | "Atan" | "Round" | "Softplus" | "Elu" | "Conv" | "MaxPool" | "TopK",
            DType::Bf16,
        ) => DType::F32,
        ("Neg" | "Relu" | "Pow" | "MatMul", DType::U8) => DType::I32,
        ("Less" | "LessOrEqual" | "Greater" | "GreaterOrEqual", DType::Bool) => DType::I32,
        ("ArgMax" | "ArgMin" | "TopK" | "ReduceMax" | "ReduceMin", DType::Bool) => DType::U8,
        _ => dtype,
    }
}

/// The nodes of an instruction; `None` if they are those of its expansion, or if there are none.
pub(super) fn lower(
    g: &mut Graph,
    op: &Op,
    ins: &[Operand],
    types: &[OperandType],
    ty: Type,
) -> Result<Option<ValueId>, OpError> {
    let row = Row { op, ins, types, ty };
    match op.primitive() {
        Some(primitive) => primitive_row(g, &row, primitive),
        None => derived(g, &row),
    }
}

fn primitive_row(
    g: &mut Graph,
    row: &Row<'_>,
    primitive: Primitive,
) -> Result<Option<ValueId>, OpError> {
    Ok(Some(match primitive {
        Primitive::Unary(op) => pointwise::unary(g, row, op)?,
        Primitive::Binary(op) => pointwise::binary(g, row, op)?,
        Primitive::Where => pointwise::choose(g, row)?,
        Primitive::Cast(dtype) => row.cast(g, 0, dtype)?,
        Primitive::Sum(over) => reduce::over(g, row, "ReduceSum", over)?,
        Primitive::Max(over) => reduce::over(g, row, "ReduceMax", over)?,
        Primitive::Min(over) => reduce::over(g, row, "ReduceMin", over)?,
        Primitive::ArgSort(order) => reduce::argsort(g, row, order)?,
        Primitive::CumSum(axis) => reduce::cumsum(g, row, axis)?,
        Primitive::MatMul => row.apply(g, "MatMul")?,
        Primitive::Determinant => matrix::determinant(g, row)?,
        Primitive::Fft(direction) => matrix::fourier(g, row, direction)?,
        Primitive::Reshape(shape) => movement::reshape(g, row, shape)?,
        Primitive::Permute(perm) => movement::permute(g, row, perm)?,
        Primitive::Expand(shape) => movement::expand(g, row, shape)?,
        Primitive::Slice(slice) => movement::slice(g, row, slice)?,
        Primitive::Cat(axis) => movement::cat(g, row, axis)?,
        Primitive::Unfold(windows) => window::unfold(g, row, windows)?,
        Primitive::Pad(pad) => movement::pad(g, row, pad)?,
        Primitive::Gather(axis) => indexing::gather(g, row, axis)?,
        Primitive::ScatterAdd(axis) => indexing::scatter_add(g, row, axis)?,
        Primitive::IndexSelect(axis) => indexing::index_select(g, row, axis)?,
        Primitive::IndexAdd(axis) => indexing::index_add(g, row, axis)?,
        Primitive::Iota(_) => movement::iota(g, row)?,
        Primitive::Rand(_)
        | Primitive::Randn(_)
        | Primitive::Randint(_)
        | Primitive::Cholesky
        | Primitive::TriangularSolve(_)
        | Primitive::Solve
        | Primitive::Qr(_)
        | Primitive::Eigh(_)
        | Primitive::Svd(_)
        | Primitive::MatrixExp => return Ok(None),
    }))
}

/// The rows of derived ops that have an operator.
fn derived(g: &mut Graph, row: &Row<'_>) -> Result<Option<ValueId>, OpError> {
    if let Some(name) = pointwise::operator(row) {
        return row.apply(g, name).map(Some);
    }
    match *row.op {
        Op::Full(_) => movement::full(g, row).map(Some),
        Op::Transpose(swap) => movement::transpose(g, row, swap).map(Some),
        Op::Flip(axes) => movement::flip(g, row, axes.0).map(Some),
        Op::Tril(diagonal) => movement::triangle(g, row, diagonal, "lower").map(Some),
        Op::Triu(diagonal) => movement::triangle(g, row, diagonal, "upper").map(Some),
        Op::Gt => pointwise::compare(g, row, "Greater").map(Some),
        Op::Ge => pointwise::compare(g, row, "GreaterOrEqual").map(Some),
        Op::Le => pointwise::compare(g, row, "LessOrEqual").map(Some),
        Op::Gelu => row.apply(g, "Gelu").map(Some),
        Op::GeluTanh => pointwise::gelu_tanh(g, row).map(Some),
        Op::LeakyRelu => pointwise::with_slope(g, row, "LeakyRelu"),
        Op::Elu => pointwise::with_slope(g, row, "Elu"),
        Op::Clamp => pointwise::clamp(g, row),
        Op::Mean(over) => reduce::over(g, row, "ReduceMean", over).map(Some),
        Op::Prod(over) => reduce::over(g, row, "ReduceProd", over).map(Some),
        Op::Norm(over) if !over.axes.is_empty() => reduce::over(g, row, "ReduceL2", over).map(Some),
        Op::LogSumExp(over) if !over.axes.is_empty() => {
            reduce::over(g, row, "ReduceLogSumExp", over).map(Some)
        }
        Op::Argmax(over) => reduce::place(g, row, "ArgMax", over).map(Some),
        Op::Argmin(over) => reduce::place(g, row, "ArgMin", over).map(Some),
        Op::Softmax(axis) => reduce::along(g, row, "Softmax", axis).map(Some),
        Op::LogSoftmax(axis) => reduce::along(g, row, "LogSoftmax", axis).map(Some),
        Op::LayerNorm(dims) => reduce::layer_norm(g, row, dims),
        Op::BatchNorm => reduce::batch_norm(g, row),
        Op::Conv2d(how) => window::conv(g, row, how).map(Some),
        Op::MaxPool2d(how) => window::max_pool(g, row, how).map(Some),
        _ => Ok(None),
    }
}
