//! The sweeps over the op table on libtorch, and what an index out of range says.

use gt_compiler::{
    EngineError,
    torch::ops::{self, Arg},
};
use gt_ir::{DType, HostTensor, Op, Type, attr::Axis, interp};
use tch::{Device, Tensor};

use crate::sweeps::{self, plain, shape};

pub(crate) fn try_run(op: &Op, args: &[interp::Arg<'_>]) -> Result<HostTensor, EngineError> {
    let tensors: Vec<Result<Tensor, gt_ir::Scalar>> = args
        .iter()
        .map(|arg| match arg {
            interp::Arg::Tensor(tensor) => Ok(ops::upload(tensor, Device::Cpu).unwrap()),
            interp::Arg::Scalar(scalar) => Err(*scalar),
        })
        .collect();
    let args: Vec<Arg<'_>> =
        tensors.iter().map(|t| t.as_ref().map_or_else(|s| Arg::Scalar(*s), Arg::Tensor)).collect();
    ops::download(&ops::eval(op, &args, Device::Cpu)?)
}

macro_rules! sweeps {
    ($($name:ident => $sweep:ident),* $(,)?) => { $(
        #[test]
        fn $name() {
            sweeps::$sweep(&mut |op, args| {
                try_run(op, args).unwrap_or_else(|error| panic!("{op} {args:?}: {error}"))
            });
        }
    )* };
}
sweeps! {
    pointwise_ops_at_the_edges => pointwise_ops_at_the_edges,
    casts_between_all_dtypes => casts,
    reductions_over_any_axes => reductions,
    long_reductions_in_pieces => long_reductions,
    movement => movement,
    sources => sources,
    products => products,
    gathers_and_scatters => gathers_and_scatters,
    large_gathers_and_scatters => large_gathers_and_scatters,
    compositions_of_real_sizes => compositions,
}

#[test]
fn every_dtype_travels_to_the_bit() {
    for dtype in DType::ALL {
        for sizes in [&[][..], &[17], &[2, 0], &[3, 4, 5]] {
            let host = sweeps::edgy(Type::new(dtype, shape(sizes)), 3);
            let there = ops::upload(&host, Device::Cpu).unwrap();
            assert_eq!(ops::type_of(&there).unwrap(), *host.ty());
            assert_eq!(ops::download(&there).unwrap(), host);
        }
    }
}

#[test]
fn an_index_out_of_range_is_named() {
    let x = plain(Type::new(DType::F32, shape(&[4, 3])), 1);
    for bad in [3, -1, i64::MAX, i64::MIN] {
        let index = HostTensor::from_vec(vec![2, bad, 0, 7], shape(&[4, 1])).unwrap();
        let src = plain(Type::new(DType::F32, shape(&[4, 1])), 2);
        let flat = HostTensor::from_vec(vec![2, bad, 0, 7], shape(&[4])).unwrap();
        let wide = plain(Type::new(DType::F32, shape(&[4, 4])), 3);
        let [x, index, src, flat, wide] = [&x, &index, &src, &flat, &wide].map(interp::Arg::Tensor);
        for (op, args) in [
            (Op::Gather(Axis(1)), vec![x.clone(), index.clone()]),
            (Op::ScatterAdd(Axis(1)), vec![x.clone(), index, src]),
            (Op::IndexSelect(Axis(1)), vec![x.clone(), flat.clone()]),
            (Op::IndexAdd(Axis(1)), vec![x, flat, wide]),
        ] {
            let expected = EngineError::Index { op: op.to_string(), index: bad, axis: 1, size: 3 };
            assert_eq!(try_run(&op, &args), Err(expected));
        }
    }
}
