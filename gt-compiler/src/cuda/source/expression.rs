//! Operations on elements as C++ expressions.
//!
//! Guarantees: each operation on a 16-bit float is rounded once, and every operation separately
//! (the compiler contracts nothing), so that an element's bits do not depend on what is computed
//! beside it. What an operation does with each dtype is as in `kernel::lanes`; what no verified
//! program asks for becomes a call of a function that does not exist, which is an error when the
//! text is compiled.

use gt_ir::DType;

use crate::kernel::{Binary, Unary};

use super::text::register_type;

/// Brings a fresh result into the range or precision of its dtype.
fn normalized(dtype: DType, value: String) -> String {
    match dtype {
        DType::Bf16 => format!("round_bf16({value})"),
        DType::F16 => format!("round_f16({value})"),
        DType::U8 => format!("({value}) & 0xff"),
        DType::F32 | DType::F64 | DType::I64 | DType::I32 | DType::Bool => value,
    }
}

/// A scalar argument, of which `slot` is the word.
pub(super) fn scalar(dtype: DType, slot: &str) -> String {
    match register_type(dtype) {
        "f32" => format!("__uint_as_float(u32({slot}))"),
        "f64" => format!("__longlong_as_double(i64({slot}))"),
        "bool" => format!("{slot} != 0"),
        integer => format!("{integer}({slot})"),
    }
}

pub(super) fn unary(op: Unary, dtype: DType, a: &str) -> String {
    let (float, double) = (dtype.is_float(), dtype == DType::F64);
    let function =
        |name: &str| if double { format!("{name}({a})") } else { format!("{name}f({a})") };
    let value = match op {
        Unary::LogicalNot if dtype == DType::Bool => format!("!{a}"),
        Unary::Neg if float => return format!("-{a}"),
        Unary::Abs if float => return function("fabs"),
        Unary::Floor if float => return function("floor"),
        Unary::Ceil if float => return function("ceil"),
        Unary::Trunc if float => return function("trunc"),
        Unary::Round if float => return function("rint"),
        Unary::Floor | Unary::Ceil | Unary::Trunc | Unary::Round if dtype != DType::Bool => {
            return a.to_owned();
        }
        Unary::Neg if dtype == DType::I64 => format!("wrap_sub(i64(0), {a})"),
        Unary::Neg if dtype != DType::Bool => format!("wrap_sub(0, {a})"),
        Unary::Abs if dtype != DType::Bool => format!("wrap_abs({a})"),
        Unary::Exp if float => function("exp"),
        Unary::Exp2 if float => function("exp2"),
        Unary::Log if float => function("log"),
        Unary::Sqrt if float => function("sqrt"),
        Unary::Sin if float => function("sin"),
        Unary::Cos if float => function("cos"),
        Unary::Tanh if float => function("tanh"),
        Unary::Erf if float => function("erf"),
        Unary::Neg
        | Unary::Abs
        | Unary::Exp
        | Unary::Exp2
        | Unary::Log
        | Unary::Sqrt
        | Unary::Sin
        | Unary::Cos
        | Unary::Tanh
        | Unary::Erf
        | Unary::Floor
        | Unary::Ceil
        | Unary::Trunc
        | Unary::Round
        | Unary::LogicalNot => return unsupported(&format!("{op:?}"), dtype),
    };
    normalized(dtype, value)
}

pub(super) fn binary(op: Binary, dtype: DType, a: &str, b: &str) -> String {
    let value = match dtype {
        DType::Bool => return binary_bool(op, a, b),
        DType::F32 | DType::F64 | DType::Bf16 | DType::F16 => binary_float(op, dtype, a, b),
        DType::I64 | DType::I32 | DType::U8 => binary_int(op, dtype, a, b),
    };
    match op {
        Binary::Eq | Binary::Lt | Binary::Maximum | Binary::Minimum => value,
        Binary::Add
        | Binary::Sub
        | Binary::Mul
        | Binary::Div
        | Binary::Pow
        | Binary::Fmod
        | Binary::LogicalAnd
        | Binary::LogicalOr
        | Binary::LogicalXor
        | Binary::BitwiseAnd
        | Binary::LeftShift
        | Binary::RightShift => normalized(dtype, value),
    }
}

fn binary_float(op: Binary, dtype: DType, a: &str, b: &str) -> String {
    match op {
        Binary::Add => format!("{a} + {b}"),
        Binary::Sub => format!("{a} - {b}"),
        Binary::Mul => format!("{a} * {b}"),
        Binary::Div => format!("{a} / {b}"),
        Binary::Eq => format!("{a} == {b}"),
        Binary::Lt => format!("{a} < {b}"),
        Binary::Maximum => format!("maximum({a}, {b})"),
        Binary::Minimum => format!("minimum({a}, {b})"),
        Binary::Pow if dtype == DType::F64 => format!("pow({a}, {b})"),
        Binary::Pow => format!("powf({a}, {b})"),
        Binary::Fmod if dtype == DType::F64 => format!("fmod({a}, {b})"),
        Binary::Fmod => format!("fmodf({a}, {b})"),
        Binary::LogicalAnd
        | Binary::LogicalOr
        | Binary::LogicalXor
        | Binary::BitwiseAnd
        | Binary::LeftShift
        | Binary::RightShift => unsupported(&format!("{op:?}"), dtype),
    }
}

fn binary_int(op: Binary, dtype: DType, a: &str, b: &str) -> String {
    match op {
        Binary::Add => format!("wrap_add({a}, {b})"),
        Binary::Sub => format!("wrap_sub({a}, {b})"),
        Binary::Mul => format!("wrap_mul({a}, {b})"),
        Binary::Eq => format!("{a} == {b}"),
        Binary::Lt => format!("{a} < {b}"),
        Binary::Maximum => format!("maximum({a}, {b})"),
        Binary::Minimum => format!("minimum({a}, {b})"),
        Binary::Pow => format!("{}(wrap_pow({a}, {b}))", register_type(dtype)),
        Binary::Fmod => format!("wrap_fmod({a}, {b})"),
        Binary::BitwiseAnd => format!("{a} & {b}"),
        Binary::LeftShift => format!("left_shift({a}, {b})"),
        Binary::RightShift => format!("right_shift({a}, {b})"),
        Binary::Div | Binary::LogicalAnd | Binary::LogicalOr | Binary::LogicalXor => {
            unsupported(&format!("{op:?}"), dtype)
        }
    }
}

fn binary_bool(op: Binary, a: &str, b: &str) -> String {
    match op {
        Binary::Add | Binary::LogicalOr | Binary::Maximum => format!("{a} || {b}"),
        Binary::Mul | Binary::LogicalAnd | Binary::Minimum | Binary::BitwiseAnd => {
            format!("{a} && {b}")
        }
        Binary::LogicalXor => format!("{a} != {b}"),
        Binary::Eq => format!("{a} == {b}"),
        Binary::Lt => format!("!{a} && {b}"),
        Binary::Sub
        | Binary::Div
        | Binary::Pow
        | Binary::Fmod
        | Binary::LeftShift
        | Binary::RightShift => unsupported(&format!("{op:?}"), DType::Bool),
    }
}

/// A value in another dtype: floats truncate towards zero and saturate, NaN becomes 0, integers
/// wrap, nonzero is true.
pub(super) fn cast(from: DType, to: DType, a: &str) -> String {
    if from == to {
        return a.to_owned();
    }
    let (source, target) = (register_type(from), register_type(to));
    let value = match (source, target) {
        (_, "bool") => return format!("{a} != 0"),
        ("f32" | "f64", "i32") if to == DType::U8 => return format!("to_u8(to_i32({a}))"),
        ("f32" | "f64", "i32" | "i64") => format!("to_{target}({a})"),
        _ if source == target => a.to_owned(),
        _ => format!("{target}({a})"),
    };
    normalized(to, value)
}

/// The value that changes nothing when combined.
pub(super) fn identity(op: Binary, dtype: DType) -> &'static str {
    match (op, dtype) {
        (Binary::Maximum, DType::F32 | DType::F64 | DType::Bf16 | DType::F16) => "-infinity()",
        (Binary::Minimum, DType::F32 | DType::F64 | DType::Bf16 | DType::F16) => "infinity()",
        (Binary::Maximum, DType::I64) => "-0x7fffffffffffffffll - 1",
        (Binary::Minimum, DType::I64) => "0x7fffffffffffffffll",
        (Binary::Maximum, DType::I32) => "-0x7fffffff - 1",
        (Binary::Minimum, DType::I32) => "0x7fffffff",
        (Binary::Minimum, DType::U8) => "255",
        (Binary::Minimum, DType::Bool) => "true",
        (Binary::Mul, _) => "1",
        _ => "0",
    }
}

fn unsupported(op: &str, dtype: DType) -> String {
    format!("no_{}_of_{dtype}()", op.to_lowercase())
}
