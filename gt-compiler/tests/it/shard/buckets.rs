//! Sums of many values travel in buckets while members compute.

use std::fmt::Write as _;

use gt_compiler::shard::{Explained, Rates, Request, Step, at, explain};
use gt_ir::Class;
use gt_ir::Entry;
use gt_ir::canonical::canonical;
use gt_ir::layout::Layout;
use gt_ir::signal::{ShardConfig, SignalConfig, Signals};

/// The parameters of the network, each a square matrix of this size.
const LAYERS: usize = 6;
const SIZE: usize = 256;

/// The gradients of a network without activations by its parameters, which come from outside, and
/// the updates. A batch is uploaded to a signal that cuts it.
fn step() -> String {
    let (x, first) = (LAYERS, LAYERS + 1);
    let mut text = format!("gt tape 1\nenter \"batch\"\n%{x} = input : f32[1024,{SIZE}]\n");
    text += "exit \"batch\"\n";
    let mut next = first;
    let mut define = |op: &str| {
        writeln!(text, "%{next} = {op}").unwrap();
        next += 1;
        next - 1
    };
    let mut layers = vec![x];
    for layer in 0..LAYERS {
        layers.push(define(&format!("matmul %{}, %{layer}", layers[layer])));
    }
    let mut slope = layers[LAYERS];
    for layer in (0..LAYERS).rev() {
        let turned = define(&format!("permute[1,0] %{}", layers[layer]));
        let gradient = define(&format!("matmul %{turned}, %{slope}"));
        let square = define(&format!("mul %{gradient}, %{gradient}"));
        define(&format!("sub %{layer}, %{square}"));
        if layer > 0 {
            let turned = define(&format!("permute[1,0] %{layer}"));
            slope = define(&format!("matmul %{slope}, %{turned}"));
        }
    }
    text
}

/// The step on two members, of which an exchange of so many bytes takes as long as a message.
fn explained(message: f64) -> Explained {
    let (tape, _) = gt_ir::text::parse(&step()).unwrap();
    let (template, _) = canonical(&tape);
    let ty = format!("f32[{SIZE},{SIZE}]").parse().unwrap();
    let mesh = std::sync::Arc::new(gt_ir::layout::Mesh::new(vec![0, 1], &[2]).unwrap());
    let inputs = vec![(ty, Layout::whole(mesh)); LAYERS];
    let mut signals = Signals::new();
    let shard = Some(ShardConfig::default());
    signals.set("batch", SignalConfig { shard, ..SignalConfig::default() }).unwrap();
    let exchange = 1e9;
    let rates = Rates { latency: message / exchange, exchange, ..Rates::default() };
    let request = Request {
        template: &template,
        inputs: &inputs,
        signals: &signals,
        uploads: &[at(0)],
        n_members: 2,
        auto: None,
        rates,
    };
    explain(&request, None).unwrap_or_else(|e| panic!("{e}"))
}

/// The products of a member before the first value that it sends, between those that it sends, and
/// after the last.
fn products(explained: &Explained) -> Vec<usize> {
    let mut products = vec![0];
    let mut sends = false;
    for step in &explained.partition.parts[1].steps {
        match step {
            Step::Run(phase) => {
                if sends {
                    products.push(0);
                }
                let entries = &phase.template.tape.entries;
                let is_product = |entry: &&Entry| match entry {
                    Entry::Instr(instr) => instr.op.spec().class == Class::Contract,
                    _ => false,
                };
                *products.last_mut().unwrap() += entries.iter().filter(is_product).count();
                sends = false;
            }
            Step::Send { .. } => sends = true,
        }
    }
    products
}

#[test]
fn gradients_travel_while_members_compute() {
    // A gradient is a quarter of a mebibyte, and eight times a message is a bucket.
    let each = products(&explained(1024.0));
    assert_eq!(each, [LAYERS + 1, 2, 2, 2, 2, 2, 0], "each gradient by itself");
    let pairs = products(&explained(64.0 * 1024.0));
    assert_eq!(pairs, [LAYERS + 3, 4, 4, 0], "two and two");
    let all = products(&explained(1e9));
    assert_eq!(all.len(), 2, "all at once: {all:?}");
}

#[test]
fn the_estimate_knows_it() {
    let [early, late] = [1024.0, 200.0 * 1024.0].map(|message| explained(message).seconds);
    let slowest = 6.0 * 256.0 * 256.0 * 4.0 / 1e9;
    assert!(early < late - 0.5 * slowest, "{early} s with buckets, {late} s without");
}
