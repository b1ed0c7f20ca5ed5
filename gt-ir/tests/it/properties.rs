//! What holds for every valid tape, tried on random ones.

use std::collections::BTreeSet;

use gt_ir::{
    HostTensor, OpKind, Tape, binary, interp, lower,
    testing::{Config, Source, difference, inputs, tape},
    text,
    verify::{Verifier, verify},
};

const CASES: u64 = 400;

fn configs() -> Vec<Config> {
    let wild = Config { wild_indices: true, jumps: true, ..Config::default() };
    let large = Config { instrs: 60, ..Config::default() };
    vec![Config::default(), Config::integers(), wild, large]
}

/// Runs `check` on random tapes of every configuration.
fn for_tapes(check: impl Fn(&Tape, &Config, &mut Source<'_>)) {
    for config in configs() {
        for seed in 0..CASES {
            let mut source = Source::from_seed(seed);
            let tape = tape(&mut source, &config);
            check(&tape, &config, &mut source);
        }
    }
}

#[test]
fn random_tapes_verify_entry_by_entry_and_whole() {
    for_tapes(|tape, _, _| {
        let verified =
            verify(tape).unwrap_or_else(|faults| panic!("{}\n{faults:#?}", text::print(tape)));
        let mut verifier = Verifier::new();
        for entry in &tape.entries {
            let ty =
                verifier.entry(entry).expect("a whole tape without faults has no faulty entry");
            assert_eq!(ty, entry.defines().and_then(|value| verified.ty(value)));
        }
    });
}

#[test]
fn printing_then_parsing_gives_an_equal_tape() {
    for_tapes(|tape, _, _| {
        let (printed, map) = text::print_mapped(tape);
        let loaded = text::load(&printed).unwrap_or_else(|errors| panic!("{printed}\n{errors:#?}"));
        assert_eq!(&loaded.tape, tape, "{printed}");
        for at in 0..tape.entries.len() {
            let (a, b) = (map.entry(at), loaded.map.entry(at));
            assert_eq!(
                a.map(|s| (&s.out, &s.call, &s.operands)),
                b.map(|s| (&s.out, &s.call, &s.operands))
            );
        }
    });
}

#[test]
fn encoding_then_decoding_gives_an_equal_tape() {
    for_tapes(|tape, _, _| {
        assert_eq!(binary::decode(&binary::encode(tape)).as_ref(), Ok(tape));
    });
}

#[test]
fn verified_tapes_run_and_agree_with_their_graph() {
    for_tapes(|tape, config, source| {
        let data = inputs(tape, source);
        let outputs = match interp::run(tape, &data) {
            Ok(outputs) => outputs,
            Err(fault)
                if config.wild_indices
                    && matches!(fault.error, interp::EvalError::Index { .. }) =>
            {
                return;
            }
            Err(fault) => panic!("{}\n{fault}", text::print(tape)),
        };
        let graph = lower(tape).and_then(|graph| {
            graph.expanded().map_err(|error| gt_ir::graph::LowerError { entry: 0, error })
        });
        let graph = graph.unwrap_or_else(|error| panic!("{}\n{error}", text::print(tape)));
        graph.validate_expanded().unwrap_or_else(|error| panic!("{}\n{error}", text::print(tape)));
        let data: Vec<HostTensor> = data.into_values().collect();
        let again = interp::run_graph(&graph, &data, graph.slots());
        let again = again.unwrap_or_else(|error| panic!("{}\n{error}", text::print(tape)));
        // Outputs are declared in the order of their ids.
        assert_eq!(outputs.len(), again.len());
        for ((id, a), b) in outputs.iter().zip(&again) {
            let same = a.ty().same_layout(b.ty()) && a.bytes() == b.bytes();
            assert!(same, "{id}: {:?}\n{}", difference(a, b, 1.0), text::print(tape));
        }
    });
}

#[test]
fn every_op_occurs_in_random_tapes() {
    for config in configs() {
        let mut seen = BTreeSet::new();
        for seed in 0..3 * CASES {
            let tape = tape(&mut Source::from_seed(seed), &config);
            seen.extend(tape.instrs().map(|instr| instr.op.kind()));
        }
        let floats = config.dtypes.iter().any(|dtype| dtype.is_float());
        let missing: Vec<_> = OpKind::ALL.iter().filter(|kind| !seen.contains(kind)).collect();
        assert!(missing.is_empty() || !floats, "{missing:?}");
    }
}

#[test]
fn tapes_from_bytes_end_and_verify() {
    for seed in 0..CASES {
        let mut bits = Source::from_seed(seed);
        let bytes: Vec<u8> = (0..bits.below(200)).map(|_| bits.bits() as u8).collect();
        let tape =
            tape(&mut Source::from_bytes(&bytes), &Config { instrs: 10_000, ..Config::default() });
        assert!(verify(&tape).is_ok(), "{}", text::print(&tape));
        assert!(tape.entries.len() < 2_000);
    }
}
