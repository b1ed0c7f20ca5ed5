//! Random numbers: a thread computes a block of the generator and the elements made of it.

use gt_ir::{DType, Op};

use super::{Index, frame};
use crate::{
    cuda::source::{Source, expression, text::memory_type},
    schedule::Routine,
};

/// Numbers in memory, as parameters.
const NAMES: [&str; 3] = ["number_0", "number_1", "number_2"];
const RANDOM: &str = include_str!("random.cuh");

pub(super) fn write(name: &str, routine: &Routine) -> Source {
    let (dtype, n) = (routine.out_ty.dtype, routine.out_ty.shape.numel());
    let numbers = numbers(routine);
    let value = value(&routine.op, dtype, &numbers);
    let seed = numbers.last().map_or("", String::as_str);
    // A block of the generator has four words of 32 bits, or two of 64.
    let per = if dtype == DType::F64 || matches!(routine.op, Op::Randint(_)) { 2 } else { 4 };
    let kind = Index::up_to(n);
    let mut frame = frame(name, routine, &NAMES[..routine.inputs.len()], n.div_ceil(per));
    frame.library = RANDOM;
    frame.source(|text| {
        kind.declare(text, n.div_ceil(per));
        text.line(format!("const Words words = philox({seed}, i);"));
        text.line(format!("Pack<{}, {per}> q;", memory_type(dtype)));
        text.line("#pragma unroll");
        text.line(format!("for (u32 u = 0; u < {per}; ++u) put(q.at[u], {value});"));
        let at = format!("i * {per}");
        text.line(match n.is_multiple_of(per) {
            true => format!("store<{per}>(out + {at}, q);"),
            false => format!("store_some<{per}>(out + {at}, q, {} - {at});", kind.number(n)),
        });
    })
}

/// The seed, after the bounds where there are some: scalars, or elements of inputs.
fn numbers(routine: &Routine) -> Vec<String> {
    let given = (0..routine.scalars.len()).map(|i| format!("scalars[{i}]"));
    let computed = NAMES[..routine.inputs.len()].iter().map(|name| format!("u64(*{name})"));
    given.chain(computed).collect()
}

/// Element `u` of a block.
fn value(op: &Op, dtype: DType, numbers: &[String]) -> String {
    let value = match (op, dtype) {
        (Op::Randint(_), _) => return integer(dtype, numbers),
        (Op::Randn(_), DType::F64) => "normal64(words, u)",
        (Op::Randn(_), _) => "normal(words, u)",
        (_, DType::F64) => "uniform64(word64(words, u))",
        (_, DType::F16) => "uniform(words.at[u], 11)",
        (_, DType::Bf16) => "uniform(words.at[u], 8)",
        _ => "uniform(words.at[u], 24)",
    };
    value.to_owned()
}

fn integer(dtype: DType, numbers: &[String]) -> String {
    let [low, high, ..] = numbers else { return "no_bounds()".into() };
    let value = &format!("integer(words, u, i64({low}), i64({high}))");
    match dtype {
        DType::Bf16 | DType::F16 => format!("coarse({value})"),
        DType::Bool => format!("({value} & 1) != 0"),
        DType::F32 | DType::F64 | DType::I64 | DType::I32 | DType::U8 => {
            expression::cast(DType::I64, dtype, value)
        }
    }
}
