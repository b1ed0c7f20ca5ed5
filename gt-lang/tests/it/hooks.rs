//! Hooks: functions of what parts of a model make, and the features of a forward pass.

#![expect(clippy::unwrap_used, reason = "in helpers of tests, whose failures they are")]

use std::cell::RefCell;
use std::rc::Rc;

use gt::nn::{
    AttentionMask, entered, features, hooked, register_forward_hook, register_forward_pre_hook,
};
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
        let x = &entered(self, x);
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
fn pre_hooks_see_and_replace_what_parts_get() {
    run(|| {
        let (net, x) = start();
        let seen = Rc::new(RefCell::new(Vec::new()));
        let sink = seen.clone();
        let hook = register_forward_pre_hook(&net.blocks, move |name, x| {
            sink.borrow_mut().push(format!("{name} {}", list(x)[0]));
            None
        });
        let first = net.blocks[0].forward(&x);
        let _ = net.head.forward(&first);
        let before = list(x.as_dyn())[0];
        let between = list(net.blocks[0].fc.forward(&x).as_dyn())[0];
        drop(hook);
        let _ = net.blocks[0].forward(&x);
        // The last is of the line above.
        let names = ["0", "0.fc", "0.norm", "0.fc"];
        let values = [before, before, between, before];
        let want: Vec<String> =
            names.iter().zip(values).map(|(name, value)| format!("{name} {value}")).collect();
        assert_eq!(*seen.borrow(), want);
        // Both kinds, in the order of registration of each.
        let _plus = register_forward_pre_hook(&net.head, |_, x| Some(x + 1.0));
        let _after = register_forward_hook(&net.head, |_, y| Some(y * 3.0));
        let _twice = register_forward_pre_hook(&net.head, |_, x| Some(x * 2.0));
        let plain = (x.as_dyn() + 1.0) * 2.0;
        let bias = net.head.bias.as_ref().unwrap().as_dyn();
        let plain = plain.matmul(&net.head.weight.as_dyn().t()) + bias;
        let (found, want) = (list(net.head.forward(&x).as_dyn()), list(&(plain * 3.0)));
        assert!(found.iter().zip(&want).all(|(f, w)| (f - w).abs() < 1e-4), "{found:?} {want:?}");
    });
}

#[test]
fn pre_hooks_give_what_fits() {
    run(|| {
        let (net, x) = start();
        let _hook = register_forward_pre_hook(&net.head, |_, x| Some(x.t()));
        let error = net.head.forward(&x).as_dyn().to_host().unwrap_err();
        let message = "forward pre-hook: `` gets f32[Batch=3,4], and the hook gives f32[4,Batch=3]";
        assert_eq!((error.message(), error.loc().file()), (message, file!()));
    });
}

/// Every layer that takes a tensor calls them, whatever else it takes.
#[test]
fn all_layers_call_pre_hooks() {
    #[track_caller]
    fn is_called<M: Module>(layer: &M, x: &DynTensor, forward: impl Fn(&M, &DynTensor)) {
        let seen = Rc::new(RefCell::new(0));
        let sink = seen.clone();
        let given = x.clone();
        let hook = register_forward_pre_hook(layer, move |name, x| {
            *sink.borrow_mut() += usize::from(name.is_empty() && x.is(&given));
            None
        });
        forward(layer, x);
        drop(hook);
        assert_eq!(*seen.borrow(), 1, "{}", layer.describe());
    }
    run(|| {
        let of = |sizes: &[usize]| DynTensor::randn(sizes, DType::F32);
        let (rows, line, image) = (of(&[2, 4]), of(&[2, 4, 5]), of(&[2, 4, 6, 6]));
        let sequence = of(&[2, 3, 4]);
        is_called(&<Linear>::with_sizes(4, 2), &rows, |l, x| drop(l.forward(x)));
        is_called(&<LayerNorm>::with_sizes(4), &rows, |l, x| drop(l.forward(x)));
        is_called(&<RmsNorm>::with_sizes(4), &rows, |l, x| drop(l.forward(x)));
        is_called(&<BatchNorm>::with_sizes(4), &rows, |l, x| drop(l.forward(x)));
        is_called(&<GroupNorm>::with_sizes(4, 2), &rows, |l, x| drop(l.forward(x)));
        is_called(&<InstanceNorm>::with_sizes(4), &line, |l, x| drop(l.forward(x)));
        is_called(&Dropout::new(0.5), &rows, |l, x| drop(l.forward(x)));
        is_called(&Dropout1d::new(0.5), &line, |l, x| drop(l.forward(x)));
        is_called(&LeakyRelu(0.1), &rows, |l, x| drop(l.forward(x)));
        let conv: Conv2d = Conv2d::with_sizes(4, 2, [3, 3], Convolution::default());
        is_called(&conv, &image, |l, x| drop(l.forward(x)));
        is_called(&MaxPool2d::of([2, 2]), &image, |l, x| drop(l.forward(x)));
        is_called(&PixelShuffle(2), &image, |l, x| drop(l.forward(x)));
        let index = DynTensor::from([[1i64, 0], [2, 2]]);
        is_called(&<Embedding>::with_sizes(3, 4), &index, |l, x| drop(l.forward(x)));
        is_called(&<EmbeddingBag>::with_sizes(3, 4), &index, |l, x| drop(l.forward(x)));
        is_called(&<Rnn>::with_sizes(4, 3, Layers::default()), &sequence, |l, x| {
            drop(l.forward(x, None));
        });
        is_called(&<Lstm>::with_sizes(4, 3, Layers::default()), &sequence, |l, x| {
            drop(l.forward(x, None));
        });
        is_called(&<Gru>::with_sizes(4, 3, Layers::default()), &sequence, |l, x| {
            drop(l.forward(x, None));
        });
        is_called(&<RnnCell>::with_sizes(4, 3), &rows, |l, x| drop(l.forward(x, None)));
        is_called(&<LstmCell>::with_sizes(4, 3), &rows, |l, x| drop(l.forward(x, None)));
        is_called(&<GruCell>::with_sizes(4, 3), &rows, |l, x| drop(l.forward(x, None)));
        let mask = AttentionMask::default;
        let attention: MultiheadAttention = MultiheadAttention::with_sizes(4, 2);
        is_called(&attention, &sequence, |l, x| drop(l.forward(x, mask())));
        is_called(&attention, &sequence, |l, x| drop(l.cross_with_weights(x, x, mask())));
        let layer = <TransformerEncoderLayer>::with_sizes(4, 8, 2, 0.0, NormOrder::First);
        is_called(&layer, &sequence, |l, x| drop(l.forward(x, mask())));
        let stack = TransformerEncoder::from_layers(vec![layer], None);
        is_called(&stack, &sequence, |l, x| drop(l.forward(x, mask())));
        let layer = <TransformerDecoderLayer>::with_sizes(4, 8, 2, 0.0, NormOrder::First);
        is_called(&layer, &sequence, |l, x| drop(l.forward(x, x, mask(), mask())));
        let stack = TransformerDecoder::from_layers(vec![layer], None);
        is_called(&stack, &sequence, |l, x| drop(l.forward(x, x, mask(), mask())));
        let base: Linear = Linear::with_sizes(4, 2);
        is_called(&Lora::over(base, LoraConfig::default()), &rows, |l, x| drop(l.forward(x)));
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
