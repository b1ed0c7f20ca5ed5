//! The sweeps over the op table on the device.

use crate::{config, device, execute, sweeps};

macro_rules! sweeps {
    ($($name:ident => $sweep:ident),* $(,)?) => { $(
        #[test]
        fn $name() {
            let Some(mut engine) = device(&config()) else { return };
            sweeps::$sweep(&mut |op, args| execute::op(engine.as_mut(), op, args));
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
    large_gathers_and_scatters_on_a_gpu => large_gathers_and_scatters,
    compositions_of_real_sizes_on_a_gpu => compositions,
}
