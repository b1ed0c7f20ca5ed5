//! Every primitive on every dtype it takes, over shapes that exercise whole vectors, remainders,
//! broadcasts and nothing at all: whatever runs an op, against the interpreter.

mod data;
pub(crate) mod halves;
mod index;
pub(crate) mod layers;
mod movement;
mod pointwise;
mod reduce;
pub(crate) mod tapes;

use gt_ir::{HostTensor, Op, OperandType, infer, interp};

pub(crate) use data::{agree, edgy, plain, shape, units};
pub(crate) use index::{gathers_and_scatters, large_gathers_and_scatters};
pub(crate) use movement::{movement, sources};
pub(crate) use pointwise::{casts, pointwise_ops_at_the_edges};
pub(crate) use reduce::{compositions, long_reductions, products, reductions};

/// What runs one op.
pub(crate) type Run<'a> = dyn FnMut(&Op, &[interp::Arg<'_>]) -> HostTensor + 'a;

/// The result of an op on tensors is the interpreter's, to so many units of its dtype's precision.
/// Types that do not fit are skipped.
fn check(run: &mut Run<'_>, op: Op, args: &[&HostTensor], units: f64) {
    let args: Vec<interp::Arg<'_>> = args.iter().map(|a| interp::Arg::Tensor(a)).collect();
    check_args(run, op, &args, units);
}

/// As `check`, with literals.
fn check_args(run: &mut Run<'_>, op: Op, args: &[interp::Arg<'_>], units: f64) {
    let types = args.iter().map(|arg| match arg {
        interp::Arg::Tensor(tensor) => OperandType::Tensor(*tensor.ty()),
        interp::Arg::Scalar(scalar) => OperandType::Scalar(*scalar),
    });
    let types: Vec<OperandType> = types.collect();
    if infer(&op, &types).is_err() {
        return;
    }
    let what = format!("{op} {:?}", types.iter().map(ToString::to_string).collect::<Vec<_>>());
    let want = interp::eval(&op, args).unwrap();
    agree(&what, &want, &run(&op, args), units);
}
