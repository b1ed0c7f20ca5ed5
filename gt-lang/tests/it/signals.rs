//! Signals as a program uses them: which instructions lie in which scope, gradients too, and what
//! the running system is told.

use gt::autograd::{Graph, grad_with};
use gt::prelude::*;
use gt::reference::Reference;
use gt::{ShardConfig, SignalConfig, register_config, signal};
use gt_ir::Entry;

use crate::run;

/// The scopes a program records in, each instruction after the names of the scopes around it.
fn scopes(program: impl FnOnce()) -> Vec<String> {
    let (session, _system) = Reference::session();
    let _current = session.enter();
    session.start_trace();
    program();
    let (mut open, mut seen) = (Vec::new(), Vec::new());
    for entry in session.stop_trace().entries {
        match entry {
            Entry::Enter(name) => open.push(name.to_string()),
            Entry::Exit(name) => assert_eq!(open.pop().as_deref(), Some(&*name)),
            Entry::Instr(instr) => seen.push(format!("{}: {}", open.join("/"), instr.op.name())),
            Entry::Input { .. } | Entry::Free(_) | Entry::Output { .. } => (),
        }
    }
    seen
}

fn leaf() -> DynTensor {
    DynTensor::from_vec(vec![1.0_f32, 2.0], [2]).requires_grad()
}

#[test]
fn gradients_lie_in_the_backward_signals_of_their_instructions() {
    let seen = scopes(|| {
        let x = leaf();
        let stage1 = signal::scope("stage1").backward("stage1'");
        let h = {
            let _inner = signal::scope("inner").backward("inner'");
            x.exp()
        };
        let h = {
            let _plain = signal::scope("plain");
            h.sin()
        };
        drop(stage1);
        let loss = h.sum(..);
        let _around = signal::scope("update");
        loss.backward().unwrap();
    });
    let (forward, backward) = seen.split_at(3);
    assert_eq!(forward, ["stage1/inner: exp", "stage1/plain: sin", ": sum"]);
    let count = |scope: &str| backward.iter().filter(|s| s.starts_with(scope)).count();
    // The gradient of sin is a cosine and a product, that of exp a product; sums and the seed have
    // no signal of their own.
    assert_eq!(count("update/stage1': cos"), 1, "{seen:?}");
    assert_eq!(count("update/stage1': mul"), 1, "{seen:?}");
    assert_eq!(count("update/stage1'/inner': mul"), 1, "{seen:?}");
    assert!(backward.iter().all(|s| s.starts_with("update")), "{seen:?}");
}

#[test]
fn gradients_of_gradients_stay_in_the_backward_signal() {
    let seen = scopes(|| {
        let x = leaf();
        let y = {
            let _scope = signal::scope("f").backward("f'");
            x.exp()
        };
        let first = grad_with(&y.sum(..), None, &[&x], Graph::Create).unwrap();
        first[0].sum(..).backward().unwrap();
    });
    let products: Vec<_> = seen.iter().filter(|s| s.ends_with("mul")).collect();
    assert!(products.len() >= 2 && products.iter().all(|s| s.starts_with("f': ")), "{seen:?}");
}

#[test]
fn a_configured_backward_signal_needs_no_mention_in_the_program() {
    let config = SignalConfig { backward: Some("there".into()), ..SignalConfig::default() };
    register_config("signals-test-configured", config).unwrap();
    let seen = scopes(|| {
        let x = leaf();
        let y = {
            let _scope = signal::scope("signals-test-configured");
            x.exp()
        };
        y.sum(..).backward().unwrap();
    });
    assert!(seen.contains(&"there: mul".to_owned()), "{seen:?}");
}

#[test]
fn one_tensor_alone_can_be_put_under_a_signal() {
    let seen = scopes(|| {
        let x: T![2, 3] = Tensor::ones().requires_grad();
        let cut = signal::tensor_with_backward(&x, "cut", "cut'");
        assert_eq!(cut.to_vec::<f32>().unwrap(), [1.0; 6]);
        cut.sum().backward().unwrap();
        let plain = signal::tensor(x.as_dyn(), "again");
        assert_eq!(plain.shape(), x.as_dyn().shape());
        let failed = DynTensor::from_vec(vec![1.0_f32], [2]);
        assert!(failed.error().is_some());
        assert_eq!(signal::tensor(&failed, "failed").error(), failed.error());
    });
    let cut: Vec<_> = seen.iter().filter(|s| s.ends_with("reshape")).collect();
    // Between the two views stands the one by which the gradient of the sum is made.
    let wanted = ["cut: reshape", ": reshape", "cut': reshape", "again: reshape"];
    assert_eq!(cut, wanted, "{seen:?}");
}

dims! { Batch }

#[derive(Module)]
struct Net {
    #[signal("layer1")]
    fc1: Linear<N<3>, N<2>>,
    #[signal("layer2", backward = "layer2'")]
    fc2: Linear<N<2>, N<1>>,
}

/// The scopes that products lie in.
fn products(program: impl FnOnce(&Net, &T![Batch, 3])) -> Vec<String> {
    let seen = scopes(|| program(&Net::new(), &Tensor::ones_with([2])));
    seen.iter().filter_map(|s| Some(s.strip_suffix(": matmul")?.to_owned())).collect()
}

#[test]
fn the_method_of_a_field_enters_its_signal_and_forward_does_not() {
    let by_method = products(|net, x| drop(net.fc2(&net.fc1(x).relu())));
    assert_eq!(by_method, ["layer1", "layer2"]);
    let in_sequence = products(|net, x| drop(seq!(x => net.fc1(_), Relu, net.fc2(_))));
    assert_eq!(in_sequence, by_method);
    let bare = products(|net, x| drop(seq!(x => net.fc1, Relu, net.fc2)));
    assert_eq!(bare, ["", ""], "where they are called");
}

#[test]
fn the_system_is_told_before_the_next_segment_and_only_of_changes() {
    let (session, _system) = Reference::session();
    let _current = session.enter();
    let known = |name: &str| session.stats().unwrap().signals.get(name).cloned();
    assert_eq!(known("signals-test-told"), None);
    let shard = ShardConfig { workers: Some(vec![0, 1]), ..ShardConfig::default() };
    let config = SignalConfig { shard: Some(shard), ..SignalConfig::default() };
    register_config("signals-test-told", config.clone()).unwrap();
    assert_eq!(known("signals-test-told"), Some(config));
    let said = register_config(
        "signals-test-told",
        SignalConfig {
            shard: Some(ShardConfig { axis: 12.into(), ..ShardConfig::default() }),
            ..SignalConfig::default()
        },
    );
    let said = said.unwrap_err().to_string();
    assert!(
        said.starts_with("signal \"signals-test-told\": axis 12: tensors have at most"),
        "{said}"
    );
    assert!(said.contains("tests/it/signals.rs:"), "{said}");
}

#[derive(Module)]
struct Mlp {
    #[signal("layer1", backward = "grad1")]
    fc1: Linear<N<4>, N<3>>,
    #[signal]
    head: Linear<N<3>, N<2>>,
    norm: LayerNorm<N<2>>,
}

/// Every part is under its own name.
#[derive(Module)]
#[signal]
struct Each {
    fc: Linear<N<2>, N<2>>,
    #[module(init = Tensor::ones().requires_grad())]
    scale: T![2],
}

#[test]
fn a_layer_with_a_signal_is_built_and_applied_in_it() {
    let seen = scopes(|| {
        let net = Mlp::new();
        let x: T![2, 4] = Tensor::ones();
        // The argument is computed before the scope of the call begins.
        let y = net.head(&net.fc1(&x).relu());
        net.norm.forward(&y).sum().backward().unwrap();
    });
    let only = |ops: &str| -> Vec<&str> {
        let mut scopes: Vec<_> = seen
            .iter()
            .filter_map(|s| s.split_once(": "))
            .filter(|(_, op)| ops.split(' ').any(|wanted| wanted == *op))
            .map(|(scope, _)| scope)
            .collect();
        scopes.dedup();
        scopes
    };
    assert_eq!(only("rand"), ["layer1", "head"], "{seen:?}");
    let n_forward = seen.iter().position(|s| s.ends_with(": sum")).unwrap();
    let products = |seen: &[String]| -> Vec<String> {
        seen.iter().filter(|s| s.ends_with("matmul")).cloned().collect()
    };
    assert_eq!(products(&seen[..n_forward]), ["layer1: matmul", "head: matmul"], "{seen:?}");
    // Gradients of the input's product, and of both factors of the other.
    let backward = products(&seen[n_forward..]);
    assert_eq!(backward, [": matmul", ": matmul", "grad1: matmul"], "{seen:?}");
    assert_eq!(only("layer_norm relu"), [""], "{seen:?}");
}

#[test]
fn a_signal_for_each_field() {
    let seen = scopes(|| {
        let net = Each::new();
        drop(net.fc(&net.scale));
        assert_eq!(net.named_parameters().len(), 3);
    });
    assert!(seen.contains(&"fc: matmul".to_owned()), "{seen:?}");
    assert!(seen.contains(&"scale: full".to_owned()), "{seen:?}");
}

/// What a mapped function records for the batch lies where its instructions for an example do.
#[test]
fn mapped_instructions_keep_their_signals_and_lines() {
    let seen = scopes(|| {
        let x = DynTensor::ones([2, 3], DType::F32);
        let w = leaf().slice(0);
        let _around = signal::scope("around");
        let f = |x: &[DynTensor]| {
            let y = {
                let _stage = signal::scope("stage").backward("stage'");
                (&x[0] * &w).exp()
            };
            y.lgamma().sum(..)
        };
        let y = autograd::vmap(f, &[&x]).unwrap();
        y.sum(..).backward().unwrap();
    });
    let count = |what: &str| seen.iter().filter(|s| **s == what).count();
    // Once for the first example, and once for all.
    assert_eq!(count("around/stage: exp"), 2, "{seen:?}");
    assert_eq!(count("around/stage: mul"), 2, "{seen:?}");
    assert!(count("around/stage': mul") >= 2, "{seen:?}");
    let first = line!() + 5;
    let lines = run(|| {
        let session = Session::current().unwrap();
        let x = DynTensor::ones([2, 3], DType::F32);
        session.start_trace();
        let f = |x: &[DynTensor]| x[0].exp().sin().sum(..);
        drop(autograd::vmap(f, &[&x]));
        let tape = session.stop_trace();
        tape.instrs()
            .filter(|i| matches!(i.op, gt_ir::Op::Exp | gt_ir::Op::Sin | gt_ir::Op::Sum(_)))
            .map(|i| (i.loc.file().ends_with("it/signals.rs"), i.loc.line()))
            .collect::<Vec<_>>()
    });
    assert!(lines.len() == 6 && lines.iter().all(|at| *at == (true, first)), "{lines:?}");
}
