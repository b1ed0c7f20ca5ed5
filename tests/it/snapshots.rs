//! Dumps for reviewers: a change in them is a change in what GT records or compiles.
#![expect(unreachable_pub, reason = "the example's modules are included as they are")]
#![expect(dead_code, reason = "not all of the example is used here")]

#[path = "../../examples/digits/data.rs"]
mod data;
#[path = "../../examples/digits/model.rs"]
mod model;
#[path = "../../examples/digits/tape.rs"]
mod tape;

use gt::ir::{Entry, Loc, Tape};
use gt::prelude::*;
use std::collections::BTreeMap;

/// Compares with the snapshot of this name, which `cargo xtask bless` updates.
#[track_caller]
pub(crate) fn check(name: &str, text: &str) {
    let mut settings = insta::Settings::clone_current();
    settings.set_snapshot_path("../../snapshots");
    settings.set_prepend_module_to_snapshot(false);
    settings.set_omit_expression(true);
    settings.bind(|| insta::assert_snapshot!(name, text));
}

/// A tape and its graph, without the user's lines, which change with every edit of an example.
fn check_recorded(name: &str, mut tape: Tape) {
    for entry in &mut tape.entries {
        if let Entry::Instr(instr) = entry {
            instr.loc = Loc::NONE;
        }
    }
    check(&format!("{name}_tape"), &gt::ir::text::print(&tape));
    check(&format!("{name}_graph"), &gt::ir::lower(&tape).unwrap().to_string());
}

#[test]
fn a_digits_step() {
    let session = gt::embedded(1).unwrap();
    let _current = session.enter();
    session.manual_seed(0);
    let (training, _) = data::load();
    let config = SgdConfig { lr: 0.1, momentum: 0.9, ..Default::default() };
    check_recorded(
        "digits_step",
        tape::of_a_step(&session, config, &training.pick(&[0, 1, 2, 3])).unwrap(),
    );
}

dims! { Seq }

/// One head of self-attention with a residual connection.
#[derive(Module)]
struct Attention {
    norm: LayerNorm<N<16>>,
    query: Linear<N<16>, N<16>>,
    key: Linear<N<16>, N<16>>,
    value: Linear<N<16>, N<16>>,
}

impl Attention {
    fn forward(&self, x: &T![Seq, 16]) -> T![Seq, 16] {
        let _scope = gt::signal::scope("attention");
        let normed = self.norm.forward(x);
        let (q, k, v) =
            (self.query.forward(&normed), self.key.forward(&normed), self.value.forward(&normed));
        let scores = (q.matmul(&k.t()) * 0.25).softmax_last();
        x + scores.matmul(&v)
    }
}

#[test]
fn an_attention_block() {
    let session = gt::embedded(1).unwrap();
    let _current = session.enter();
    session.manual_seed(0);
    let net = Attention::new();
    let x: T![Seq, 16] = Tensor::randn_with([8]);
    session.start_trace();
    let y = net.forward(&x);
    y.square().mean().backward().unwrap();
    y.to_vec::<f32>().unwrap();
    check_recorded("attention", tape::whole(session.stop_trace(), &BTreeMap::new()));
}
