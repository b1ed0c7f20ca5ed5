//! The pieces of random graphs, run by their texts, agree with the interpreter.

use std::collections::BTreeMap;

use gt_ir::{
    DType, Entry, HostTensor, Tape, ValueId, interp, lower,
    testing::{self, Config, difference, ill_conditioned, inputs, tape, units},
};

use super::{
    host::{Host, Names},
    machine::Planned,
};
use crate::cuda::{nvrtc::for_test, source::Source};

/// A program, its data, and how it is run.
struct Case {
    seed: u64,
    tape: Tape,
    data: BTreeMap<ValueId, HostTensor>,
    planned: Planned,
}

fn cases(config: &Config, seeds: std::ops::Range<u64>, names: &mut Names) -> Vec<Case> {
    let mut cases = Vec::new();
    for seed in seeds {
        let mut source = testing::Source::from_seed(seed);
        let tape = tape(&mut source, config);
        let data = inputs(&tape, &mut source);
        if ill_conditioned(&tape) {
            continue;
        }
        let planned = Planned::new(&lower(&tape).unwrap(), names);
        cases.push(Case { seed, tape, data, planned });
    }
    cases
}

impl Case {
    fn check(&self, host: &Host) {
        let ids = self.tape.entries.iter().filter_map(|e| {
            let Entry::Input { out, .. } = e else { return None };
            Some(&self.data[out])
        });
        let graph = lower(&self.tape).unwrap();
        let got = self.planned.run(host, &ids.collect::<Vec<_>>(), graph.slots());
        match (interp::run(&self.tape, &self.data), got) {
            (Ok(want), Ok(got)) => self.compare(&want, &got),
            (Err(_), Err(_)) => (),
            (want, got) => {
                panic!("seed {}: {:?} and {:?}\n{}", self.seed, want.err(), got.err(), self.text())
            }
        }
    }

    fn compare(&self, want: &BTreeMap<ValueId, HostTensor>, got: &[HostTensor]) {
        let names = self.tape.entries.iter().filter_map(|e| {
            let Entry::Output { value, .. } = e else { return None };
            Some(*value)
        });
        for (id, got) in names.zip(got) {
            let tolerance = 8.0 * units(&lower(&self.tape).unwrap(), got.ty().dtype);
            if let Some(difference) = difference(&want[&id], got, tolerance) {
                panic!("seed {}: {id}: {difference}\n{}", self.seed, self.text());
            }
        }
    }

    fn text(&self) -> String {
        gt_ir::text::print(&self.tape)
    }
}

/// A fixed sample; `GT_SEEDS=n` makes it larger.
fn check(what: &str, samples: &[(Config, u64)]) {
    let n = std::env::var("GT_SEEDS").ok().and_then(|n| n.parse().ok()).unwrap_or(40);
    let mut names = Names::of("kernel");
    let cases: Vec<Case> =
        samples.iter().flat_map(|(c, start)| cases(c, *start..*start + n, &mut names)).collect();
    let sources: Vec<_> = cases.iter().flat_map(|c| c.planned.sources().cloned()).collect();
    if let Some(compiler) = for_test((9, 0), None) {
        // A sample of the sample: it takes its time.
        let some: Vec<Source> = sources.iter().step_by(8).cloned().collect();
        compiler.compile(&some).unwrap();
    }
    let host = Host::new(what, &sources);
    cases.iter().for_each(|case| case.check(&host));
}

#[test]
fn any_tape() {
    check("any", &[(Config::default(), 0), (Config::integers(), 1_000_000)]);
}

/// Long rows, wide columns, elements enough for packs.
#[test]
fn large_tapes() {
    let large = Config {
        instrs: 8,
        max_size: 400,
        max_numel: 150_000,
        dtypes: vec![DType::F32, DType::Bf16, DType::F64],
        ..Config::default()
    };
    check("large", &[(large, 2_000_000)]);
}
