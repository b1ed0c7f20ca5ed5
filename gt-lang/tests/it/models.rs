//! Models: names and order of parameters, initialization, summaries, and training with the
//! optimizers.

use gt::prelude::*;

use crate::run;

dims! { Batch, Seq }

#[derive(Clone, Module)]
pub(crate) struct Mlp {
    fc1: Linear<N<4>, N<8>>,
    ln: LayerNorm<N<8>>,
    fc2: Linear<N<8>, N<2>>,
}

impl Mlp {
    pub(crate) fn forward(&self, x: &T![Batch, 4]) -> T![Batch, 2] {
        seq!(x => self.fc1, Relu, self.ln, self.fc2)
    }
}

/// Generic in its width; a part of the model below.
#[derive(Module)]
pub(crate) struct Block<H: Dim> {
    ln: LayerNorm<H>,
    q: Linear<H, H>,
    k: Linear<H, H>,
    v: Linear<H, H>,
}

impl<H: Dim> Block<H> {
    fn forward<B: Dim, S: Dim>(&self, x: &T![B, S, H]) -> T![B, S, H] {
        let h = self.ln.forward(x);
        let (q, k, v) = (self.q.forward(&h), self.k.forward(&h), self.v.forward(&h));
        let attention = (q.matmul(&k.t()) * 0.125).softmax_last();
        x + attention.matmul(&v)
    }
}

#[derive(Module)]
pub(crate) struct Gpt {
    embed: Embedding<N<11>, N<6>>,
    #[module(init = repeat(2))]
    blocks: Vec<Block<N<6>>>,
    tail: [Block<N<6>>; 1],
    head: Option<Linear<N<6>, N<11>>>,
    #[module(skip, init = 0.5)]
    scale: f64,
}

impl Gpt {
    pub(crate) fn forward(&self, words: &T![Batch, Seq; Int]) -> T![Batch, Seq, 11] {
        let x = self.embed.forward(words) * self.scale;
        let h = self.blocks.iter().chain(&self.tail).fold(x, |h, block| block.forward(&h));
        let logits = self.head.as_ref().map(|head| head.forward(&h));
        logits.unwrap_or_else(|| Tensor::from_dyn(h.into_dyn()))
    }
}

pub(crate) fn gpt() -> Gpt {
    Gpt {
        embed: Embedding::new(),
        blocks: repeat(2),
        tail: [Block::new()],
        head: Some(Linear::without_bias()),
        scale: 0.5,
    }
}

#[test]
fn parameters_have_dotted_names_in_field_order() {
    run(|| {
        let names: Vec<String> =
            gpt().named_parameters().into_iter().map(|(name, _)| name).collect();
        let block = |at: &str| {
            [
                "ln.weight",
                "ln.bias",
                "q.weight",
                "q.bias",
                "k.weight",
                "k.bias",
                "v.weight",
                "v.bias",
            ]
            .map(|p| format!("{at}.{p}"))
        };
        let mut want = vec!["embed.weight".to_string()];
        ["blocks.0", "blocks.1", "tail.0"].iter().for_each(|at| want.extend(block(at)));
        want.push("head.weight".into());
        assert_eq!(names, want);
    });
}

#[test]
fn summary_counts_parameters() {
    run(|| {
        let want = "\
Mlp                    74 parameters
  fc1: Linear(4 -> 8)  40
  ln: LayerNorm(8)     16
  fc2: Linear(8 -> 2)  18";
        assert_eq!(Mlp::new().to_string(), want);
        assert_eq!(Mlp::new().parameter_count(), 74);
        let lines = gpt().summary();
        assert!(lines.contains("\n  blocks: list of 2"), "{lines}");
        assert!(lines.contains("\n    1: Block"), "{lines}");
        assert!(lines.contains("\n  head: Linear(6 -> 11, no bias)"), "{lines}");
    });
}

#[derive(Module)]
struct Normed {
    fc: Linear<N<4>, N<8>>,
    norm: BatchNorm<N<8>>,
}

/// Values, gradients and running statistics in the other dtype, whole numbers as they were; handles
/// that an optimizer has stay the parameters.
#[test]
fn a_model_in_another_dtype_computes_in_it() {
    run(|| {
        let mut net = Normed::new();
        let x: T![Batch, 4] = Tensor::randn_with([16]);
        let loss =
            |net: &Normed, x: &T![Batch, 4]| net.norm.forward(&net.fc.forward(x)).relu().sum();
        loss(&net, &x).backward()?;
        let (held, before) = (net.parameters(), net.state_dict()?);
        net.to_dtype(DType::F64)?;
        for (name, tensor) in net.named_tensors() {
            let whole = name == "norm.num_batches_tracked";
            assert_eq!(tensor.dtype(), if whole { DType::I64 } else { DType::F64 }, "{name}");
        }
        let grads = held.iter().map(|p| p.grad().map(|g| g.dtype()));
        assert!(
            grads.clone().all(|dtype| dtype == Some(DType::F64)),
            "{:?}",
            grads.collect::<Vec<_>>()
        );
        assert!(net.parameters().iter().zip(&held).all(|(new, old)| new.is(old)));

        let mut optimizer = Sgd::new(held, SgdConfig { lr: 1e-3, ..SgdConfig::default() });
        let wide = x.to_dtype(DType::F64);
        let first = loss(&net, &wide);
        assert_eq!(first.dtype(), DType::F64);
        optimizer.zero_grad();
        first.backward()?;
        optimizer.step()?;
        assert!(loss(&net, &wide).item()? < first.item()?);

        // Back again: what an f32 was, it is.
        let mut other = Normed::new();
        other.load_state_dict(&before)?;
        other.to_dtype(DType::F64)?;
        other.to_dtype(DType::F32)?;
        assert_eq!(other.state_dict()?, before);
        let error = other.to_dtype(DType::I64).unwrap_err();
        assert_eq!(error.message(), "to_dtype: the parameters of a model are floats, not i64");
        assert_eq!(other.state_dict()?, before);
        Ok::<(), gt::Error>(())
    })
    .expect("every read succeeds");
}

/// PyTorch's defaults: `U(-1/sqrt(in), 1/sqrt(in))` for linear layers, standard normal rows for
/// embeddings.
#[test]
fn initialization_has_pytorchs_distribution_and_follows_the_seed() {
    let (weights, bias) = run(|| {
        let layer: Linear<N<100>, N<200>> = Linear::new();
        let read = |t: &DynTensor| t.to_vec::<f32>().expect("a parameter can be read");
        (
            read(layer.weight.as_dyn()),
            layer.bias.as_ref().map(|b| read(b.as_dyn())).expect("a bias by default"),
        )
    });
    assert_eq!((weights.len(), bias.len()), (20_000, 200));
    assert!(weights.iter().chain(&bias).all(|w| w.abs() <= 0.1));
    let n = weights.len() as f32;
    let mean = weights.iter().sum::<f32>() / n;
    let variance = weights.iter().map(|w| (w - mean).powi(2)).sum::<f32>() / n;
    assert!(mean.abs() < 2e-3 && (variance - 0.01 / 3.0).abs() < 1e-4, "{mean} {variance}");
    let again = run(|| Linear::<N<100>, N<200>>::new().weight.to_vec::<f32>());
    assert_eq!(again, Ok(weights));
    let rows = run(|| Embedding::<N<100>, N<50>>::new().weight.to_vec::<f32>())
        .expect("a table can be read");
    let variance = rows.iter().map(|w| w * w).sum::<f32>() / rows.len() as f32;
    assert!((variance - 1.0).abs() < 0.1, "{variance}");
}

#[test]
fn layers_of_run_time_sizes() {
    run(|| {
        let layer: Linear<Dyn, N<2>> = Linear::with_sizes(3, 2);
        assert_eq!(layer.describe(), "Linear(3 -> 2)");
        let x: T![Batch, ?] = Tensor::ones_with([5, 3]);
        assert_eq!(layer.forward(&x).sizes(), [5, 2]);
        let narrow: T![Batch, ?] = Tensor::ones_with([5, 4]);
        assert!(layer.forward(&narrow).error().is_some());
    });
}

#[test]
fn mode_reaches_every_part() {
    struct Noise(Mode);
    impl Module for Noise {
        fn describe(&self) -> String {
            "Noise".into()
        }
        fn visit(&self, _: &mut gt::nn::Visitor<'_>) {}
        fn set_mode(&mut self, mode: Mode) {
            self.0 = mode;
        }
    }
    #[derive(Module)]
    struct Net {
        noises: Vec<Noise>,
        last: Option<Noise>,
    }
    let mut net = Net {
        noises: vec![Noise(Mode::Train), Noise(Mode::Train)],
        last: Some(Noise(Mode::Train)),
    };
    net.eval();
    assert!(net.noises.iter().chain(&net.last).all(|n| n.0 == Mode::Eval));
    net.train();
    assert!(net.noises.iter().chain(&net.last).all(|n| n.0 == Mode::Train));
}

/// Loss before and after some steps on one batch.
fn fit(step: impl FnOnce(Vec<DynTensor>) -> Box<dyn Optimizer>) -> (f64, f64) {
    run(|| {
        let net = Mlp::new();
        let mut optimizer = step(net.parameters());
        let x: T![Batch, 4] = Tensor::randn_with([16]);
        let classes: T![Batch; Int] = x.sum_last().gt(0.0).int();
        let loss = || net.forward(&x).cross_entropy(&classes);
        let before = loss().item().expect("a loss can be read");
        for _ in 0..60 {
            optimizer.zero_grad();
            loss().backward().expect("the loss depends on the parameters");
            optimizer.step().expect("every gradient was recorded");
        }
        (before, loss().item().expect("a loss can be read"))
    })
}

#[test]
fn optimizers_fit_a_model() {
    let (before, after) = fit(|p| {
        Box::new(Sgd::new(p, SgdConfig { lr: 0.2, momentum: 0.9, ..SgdConfig::default() }))
    });
    assert!(after < 0.1 * before, "{before} {after}");
    let (before, after) =
        fit(|p| Box::new(AdamW::new(p, AdamWConfig { lr: 0.02, ..AdamWConfig::default() })));
    assert!(after < 0.1 * before, "{before} {after}");
}

#[test]
fn an_attention_model_learns_a_sequence() {
    run(|| {
        let net = gpt();
        let mut optimizer =
            AdamW::new(net.parameters(), AdamWConfig { lr: 0.02, ..AdamWConfig::default() });
        let words: T![Batch, Seq; Int] = Tensor::from_vec_with(vec![1i64, 2, 3, 4, 5, 6], [2, 3]);
        let next: T![Batch, Seq; Int] = Tensor::from_vec_with(vec![2i64, 3, 1, 5, 6, 4], [2, 3]);
        let loss = || net.forward(&words).cross_entropy(&next);
        let before = loss().item().expect("a loss can be read");
        for _ in 0..30 {
            net.zero_grad();
            loss().backward().expect("the loss depends on the parameters");
            optimizer.step().expect("every gradient was recorded");
        }
        let after = loss().item().expect("a loss can be read");
        assert!(after < 0.5 * before, "{before} {after}");
    });
}
