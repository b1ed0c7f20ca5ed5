//! Random tapes compiled under the policies that let rewriting round differently stay near the
//! interpreter.

use gt_compiler::{Engine, Numerics, Options, Value};
use gt_ir::{
    Entry, HostTensor, interp, lower,
    testing::{Config, Source, difference, inputs, tape},
};

use crate::random::native;

fn check(numerics: Numerics, seeds: std::ops::Range<u64>) {
    let mut engine = native(2);
    for seed in seeds {
        let mut source = Source::from_seed(seed);
        let tape = tape(&mut source, &Config::default());
        let data = inputs(&tape, &mut source);
        let graph = lower(&tape).unwrap();
        let compiled = engine
            .compiler()
            .compile(&graph, &[], &Options { numerics, ..Options::default() })
            .unwrap();
        let ids = tape
            .entries
            .iter()
            .filter_map(|e| if let Entry::Input { out, .. } = e { Some(out) } else { None });
        let mut values: Vec<Value> = ids.map(|id| engine.upload(&data[id]).unwrap()).collect();
        let got = engine.run(&compiled.program, &mut values, graph.slots());
        let host: Vec<HostTensor> = data.values().cloned().collect();
        let want = interp::run_graph(&graph.expanded().unwrap(), &host, graph.slots());
        let (Ok(want), Ok(got)) = (want, got) else { continue };
        for (want, got) in want.iter().zip(&got) {
            let got = engine.download(got).unwrap();
            // Rounding in a half anywhere shows in everything that follows, in an f64 it is cast to
            // too.
            let units = if want.ty().dtype == gt_ir::DType::F64 { 1e13 } else { 1e5 };
            let fault = difference(want, &got, units);
            let finite = want.to_f64().iter().all(|x| x.is_finite());
            assert!(
                fault.is_none() || !finite,
                "seed {seed}, {numerics}: {fault:?}\n{}",
                gt_ir::text::print(&tape)
            );
        }
    }
}

#[test]
fn reassociated_tapes_stay_near() {
    check(Numerics::Reassociate, 0..60);
}

#[test]
fn approximated_tapes_stay_near() {
    check(Numerics::Approximate, 100..160);
}
