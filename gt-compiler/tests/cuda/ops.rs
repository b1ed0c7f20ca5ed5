//! The sweeps over the op table on the device.

use gt_compiler::{Arg, Engine};
use gt_ir::{HostTensor, Op, interp};

use crate::{config, device, sweeps};

fn run(engine: &mut dyn Engine, op: &Op, args: &[interp::Arg<'_>]) -> HostTensor {
    let values = args.iter().map(|arg| match arg {
        interp::Arg::Tensor(tensor) => Ok(engine.upload(tensor).unwrap()),
        interp::Arg::Scalar(scalar) => Err(*scalar),
    });
    let values: Vec<_> = values.collect();
    let args: Vec<Arg<'_>> =
        values.iter().map(|v| v.as_ref().map_or_else(|s| Arg::Scalar(*s), Arg::Value)).collect();
    let got = engine.execute(op, &args).unwrap();
    engine.download(&got).unwrap()
}

macro_rules! sweeps {
    ($($name:ident => $sweep:ident),* $(,)?) => { $(
        #[test]
        fn $name() {
            let Some(mut engine) = device(&config()) else { return };
            sweeps::$sweep(&mut |op, args| run(engine.as_mut(), op, args));
        }
    )* };
}
sweeps! {
    pointwise_ops_at_the_edges_on_a_gpu => pointwise_ops_at_the_edges,
    casts_between_all_dtypes_on_a_gpu => casts,
    reductions_over_any_axes_on_a_gpu => reductions,
    long_reductions_on_a_gpu => long_reductions,
    movement_on_a_gpu => movement,
    sources_on_a_gpu => sources,
    products_on_a_gpu => products,
    gathers_and_scatters_on_a_gpu => gathers_and_scatters,
    compositions_of_real_sizes_on_a_gpu => compositions,
}
