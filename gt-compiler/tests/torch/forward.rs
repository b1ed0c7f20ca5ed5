//! Every row of the op table means what libtorch's operator of that name computes, on the
//! instructions of random tapes and at the edges.

use std::collections::{BTreeMap, BTreeSet};

use gt_compiler::torch::ops::{self, Arg};
use gt_ir::{
    DType, Entry, HostTensor, Instr, Op, OpKind, Operand, Scalar, Type, ValueId, interp,
    testing::{Config, Source, difference, inputs, tape},
};
use tch::{Device, Kind, Tensor};

use crate::{own::own, sweeps};

/// Random numbers have bits of GT's own, and are judged by their moments. libtorch has no loops and
/// choices: they are judged by Rust's own (`gt-lang/src/control/tests`).
pub(crate) const UNJUDGED: [OpKind; 5] =
    [OpKind::Rand, OpKind::Randn, OpKind::Randint, OpKind::Scan, OpKind::Cond];

/// Calls `f` with every instruction of so many random tapes and its operands.
pub(crate) fn instructions(
    config: &Config,
    seeds: std::ops::Range<u64>,
    mut f: impl FnMut(&Op, &[Arg<'_>]),
) {
    for seed in seeds {
        let mut source = Source::from_seed(seed);
        let tape = tape(&mut source, config);
        let data = inputs(&tape, &mut source);
        let mut values: BTreeMap<ValueId, Tensor> = BTreeMap::new();
        for entry in &tape.entries {
            match entry {
                Entry::Input { out, .. } => {
                    values.insert(*out, ops::upload(&data[out], Device::Cpu).unwrap());
                }
                Entry::Instr(instr) => {
                    let result = with_operands(instr, &values, |args| {
                        f(&instr.op, args);
                        ops::eval(&instr.op, args, Device::Cpu).unwrap()
                    });
                    values.insert(instr.out, result);
                }
                Entry::Free(_) | Entry::Enter(_) | Entry::Exit(_) | Entry::Output { .. } => (),
            }
        }
    }
}

fn with_operands<R>(
    instr: &Instr,
    values: &BTreeMap<ValueId, Tensor>,
    f: impl FnOnce(&[Arg<'_>]) -> R,
) -> R {
    let args = instr.inputs.iter().map(|operand| match operand {
        Operand::Value(value) => Arg::Tensor(&values[value]),
        Operand::Scalar(scalar) => Arg::Scalar(*scalar),
    });
    f(&args.collect::<Vec<_>>())
}

fn interpreted(op: &Op, args: &[Arg<'_>]) -> HostTensor {
    let tensors: Vec<_> = args
        .iter()
        .map(|arg| match arg {
            Arg::Tensor(tensor) => Ok(ops::download(tensor).unwrap()),
            Arg::Scalar(scalar) => Err(*scalar),
        })
        .collect();
    let args = tensors
        .iter()
        .map(|t| t.as_ref().map_or_else(|s| interp::Arg::Scalar(*s), interp::Arg::Tensor));
    interp::eval(op, &args.collect::<Vec<_>>()).unwrap()
}

/// For messages.
pub(crate) fn shown(op: &Op, args: &[Arg<'_>]) -> String {
    let args = args.iter().map(|arg| match arg {
        Arg::Tensor(tensor) => {
            let host = ops::download(tensor).unwrap();
            format!("{} {:?}", host.ty(), host.to_f64())
        }
        Arg::Scalar(scalar) => scalar.to_string(),
    });
    format!("{op} of {}", args.collect::<Vec<_>>().join(" and "))
}

/// Whether libtorch has an opinion, and then what is wrong, if anything.
fn compare(op: &Op, args: &[Arg<'_>]) -> Option<Result<(), String>> {
    let theirs = match own(op, args) {
        Ok(theirs) => ops::download(&theirs?).unwrap(),
        Err(error) => {
            let error = error.to_string();
            let line = error.lines().next().unwrap_or_default();
            return Some(Err(format!("{}: {line}", shown(op, args))));
        }
    };
    let difference = difference(&interpreted(op, args), &theirs, 8.0);
    Some(difference.map_or(Ok(()), |found| Err(format!("{found}: {}", shown(op, args)))))
}

#[test]
fn every_row_means_what_libtorch_means() {
    let (mut judged, mut faults) = (BTreeSet::new(), Vec::new());
    instructions(&Config::default(), 0..400, |op, args| {
        if let Some(result) = compare(op, args) {
            judged.insert(op.kind());
            faults.extend(result.err());
        }
    });
    assert!(
        faults.is_empty(),
        "{} faults\n{}",
        faults.len(),
        faults[..faults.len().min(20)].join("\n")
    );
    let all = OpKind::ALL.iter().filter(|kind| !judged.contains(kind) && !UNJUDGED.contains(kind));
    assert_eq!(all.map(|kind| kind.name()).collect::<Vec<_>>(), Vec::<&str>::new());
}

#[test]
fn pointwise_rows_at_the_edges() {
    sweeps::pointwise_ops_at_the_edges(&mut |op, args| {
        let tensors: Vec<Tensor> = args
            .iter()
            .filter_map(|arg| match arg {
                interp::Arg::Tensor(tensor) => Some(ops::upload(tensor, Device::Cpu).unwrap()),
                interp::Arg::Scalar(_) => None,
            })
            .collect();
        let args: Vec<Arg<'_>> = tensors.iter().map(Arg::Tensor).collect();
        let Some(theirs) = own(op, &args).unwrap() else { return interpreted(op, &args) };
        // libtorch does not order the two zeros.
        let ours = ops::upload(&interpreted(op, &args), Device::Cpu).unwrap();
        assert_eq!(theirs.size(), ours.size(), "{op}");
        ops::download(&ours.where_self(&theirs.eq_tensor(&ours), &theirs)).unwrap()
    });
}

/// The bits are GT's own; what they are distributed as is libtorch's.
#[test]
fn random_rows_have_libtorchs_moments() {
    let ty = Type::new(DType::F64, sweeps::shape(&[200_000]));
    let options = (Kind::Double, Device::Cpu);
    let [seed, low, high] = [5, -3, 9].map(|n| Arg::Scalar(Scalar::I64(n)));
    let size = [200_000];
    for (op, args, theirs) in [
        (Op::Rand(ty), vec![seed], Tensor::rand(size, options)),
        (Op::Randn(ty), vec![seed], Tensor::randn(size, options)),
        (Op::Randint(ty), vec![low, high, seed], Tensor::randint_low(-3, 9, size, options)),
    ] {
        let ours = ops::eval(&op, &args, Device::Cpu).unwrap();
        for power in 1..5 {
            let [a, b] = [&ours, &theirs].map(|t| {
                let powers = t.pow_tensor_scalar(power);
                (powers.mean(Kind::Double).double_value(&[]), powers.std(true).double_value(&[]))
            });
            // Five deviations of a difference of means.
            let allowed = 5.0 * (a.1 + b.1) / 200_000_f64.sqrt();
            assert!((a.0 - b.0).abs() < allowed, "{op}: moment {power} is {} and {}", a.0, b.0);
        }
    }
}
