//! Hooks: functions of what parts of a model make, and the features of a forward pass.

#![expect(clippy::unwrap_used, reason = "in helpers of tests, whose failures they are")]

use std::cell::RefCell;
use std::rc::Rc;

use gt::nn::{features, hooked, register_forward_hook};
use gt::prelude::*;

use crate::run;

dims! { Batch }

#[derive(Module)]
struct Block {
    fc: Linear<N<4>, N<4>>,
    norm: LayerNorm<N<4>>,
}

impl Block {
    fn forward(&self, x: &T![Batch, 4]) -> T![Batch, 4] {
        let y = x + self.norm.forward(&self.fc.forward(x));
        hooked(self, y)
    }
}

#[derive(Module)]
struct Net {
    #[module(init = repeat(2))]
    blocks: Vec<Block>,
    #[module(init = None)]
    extra: Option<Block>,
    head: Box<Linear<N<4>, N<2>>>,
}

impl Net {
    fn forward(&self, x: &T![Batch, 4]) -> T![Batch, 2] {
        let mut x = x.clone();
        for block in self.blocks.iter().chain(&self.extra) {
            x = block.forward(&x);
        }
        hooked(self, self.head.forward(&x))
    }
}

fn start() -> (Net, T![Batch, 4]) {
    let mut net = Net::new();
    net.extra = Some(Block::new());
    (net, Tensor::randn_with([3]))
}

fn list(x: &DynTensor) -> Vec<f32> {
    x.to_vec().unwrap()
}

#[test]
fn hooks_see_every_part_by_its_name() {
    run(|| {
        let (net, x) = start();
        let seen = Rc::new(RefCell::new(Vec::new()));
        let sink = seen.clone();
        let hook = register_forward_hook(&net, move |name, y| {
            sink.borrow_mut().push(format!("{name} {:?}", y.sizes()));
            None
        });
        // What is no part of the model, and a clone of a part, is not seen.
        let _ = net.blocks[0].fc.clone().forward(&x);
        let y = net.forward(&x);
        drop(hook);
        let _ = net.forward(&x);
        let names = [
            "blocks.0.fc [3, 4]",
            "blocks.0.norm [3, 4]",
            "blocks.0 [3, 4]",
            "blocks.1.fc [3, 4]",
            "blocks.1.norm [3, 4]",
            "blocks.1 [3, 4]",
            "extra.fc [3, 4]",
            "extra.norm [3, 4]",
            "extra [3, 4]",
            "head [3, 2]",
            " [3, 2]",
        ];
        assert_eq!(*seen.borrow(), names);
        assert_eq!(y.sizes(), [3, 2]);
    });
}

#[test]
fn hooks_replace_what_parts_made_in_order() {
    run(|| {
        let (net, x) = start();
        let plain = list(net.forward(&x).as_dyn());
        let first = register_forward_hook(&net.head, |name, y| {
            assert_eq!(name, "");
            Some(y + 1.0)
        });
        let second = register_forward_hook(&net, |name, y| (name == "head").then(|| y * 2.0));
        let changed = list(net.forward(&x).as_dyn());
        assert!(changed.iter().zip(&plain).all(|(c, p)| (c - (p + 1.0) * 2.0).abs() < 1e-5));
        drop(first);
        let changed = list(net.forward(&x).as_dyn());
        assert!(changed.iter().zip(&plain).all(|(c, p)| (c - p * 2.0).abs() < 1e-5));
        drop(second);
        assert_eq!(list(net.forward(&x).as_dyn()), plain);
        // Another shape than the type says.
        let _hook = register_forward_hook(&net.head, |_, y| Some(y.t()));
        let error = net.forward(&x).as_dyn().to_host().unwrap_err();
        assert!(error.message().starts_with("hooked: "), "{error}");
    });
}

#[test]
fn features_are_taken_by_name() {
    run(|| {
        let (net, x) = start();
        let (y, features) =
            features(&net, ["blocks.1", "head", "blocks.0.fc"], || net.forward(&x)).unwrap();
        let names: Vec<&str> = features.keys().map(String::as_str).collect();
        assert_eq!(names, ["blocks.0.fc", "blocks.1", "head"]);
        assert_eq!(list(&features["head"]), list(y.as_dyn()));
        let first = net.blocks[0].forward(&x);
        assert_eq!(list(&features["blocks.1"]), list(net.blocks[1].forward(&first).as_dyn()));
        // They have a history.
        features["blocks.0.fc"].square().sum(..).backward().unwrap();
        assert!(net.blocks[0].fc.weight.grad().is_some() && net.head.weight.grad().is_none());
    });
}

#[test]
fn features_that_are_not_there_are_told() {
    run(|| {
        let (net, x) = start();
        let error = features(&net, ["blocks.7"], || net.forward(&x)).unwrap_err();
        assert_eq!(error.message(), "features: `blocks.7`: the model has no part of this name");
        assert_eq!(error.loc().file(), file!());
        let error = features(&net, ["blocks.1"], || net.blocks[0].forward(&x)).unwrap_err();
        assert_eq!(error.message(), "features: `blocks.1`: nothing was made");
    });
}
