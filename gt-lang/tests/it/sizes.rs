//! Models whose sizes are known at run time: layers without types, models with arguments, and what
//! they compute beside the same layers with types.

#![expect(clippy::unwrap_used, reason = "in helpers of tests, whose failures they are")]

use gt::prelude::*;

use crate::run;

dims! { Batch, Seq }

struct Config {
    vocabulary: usize,
    width: usize,
    heads: usize,
    n_blocks: usize,
}

const SMALL: Config = Config { vocabulary: 11, width: 8, heads: 2, n_blocks: 2 };

#[derive(Module)]
#[module(args(c: &Config))]
struct Block {
    #[module(init = RmsNorm::with_sizes(c.width).with_eps(1e-6))]
    norm: RmsNorm,
    #[module(init = MultiheadAttention::with_sizes(c.width, c.heads))]
    attention: MultiheadAttention,
    #[module(init = Linear::with_sizes_without_bias(c.width, c.width))]
    out: Linear,
    drop: Dropout,
}

impl Block {
    fn forward(&self, x: &DynTensor) -> DynTensor {
        let h = self.attention.forward(&self.norm.forward(x), AttentionMask::default());
        x + self.drop.forward(&seq!(h => self.out, Silu))
    }
}

#[derive(Module)]
#[module(args(c: &Config))]
struct Gpt {
    #[module(init = Embedding::with_sizes(c.vocabulary, c.width))]
    tokens: Embedding,
    #[module(init = (0..c.n_blocks).map(|_| Block::new(c)).collect())]
    blocks: Vec<Block>,
    #[module(init = Linear::with_sizes(c.width, c.vocabulary))]
    head: Linear,
}

impl Gpt {
    fn forward(&self, words: &DynTensor) -> DynTensor {
        let x = self.tokens.forward(words);
        self.head.forward(&self.blocks.iter().fold(x, |x, block| block.forward(&x)))
    }
}

#[test]
fn a_model_of_a_configuration_trains() {
    run(|| {
        let net = Gpt::new(&SMALL);
        let names: Vec<String> = net.named_parameters().into_iter().map(|(name, _)| name).collect();
        assert_eq!(names.len(), 1 + 2 * 6 + 2);
        assert_eq!(names[1], "blocks.0.norm.weight");
        let words = DynTensor::randint(0, 11, [3, 4], DType::I64);
        let loss = functional::cross_entropy(&net.forward(&words), &words);
        loss.backward().unwrap();
        for (name, parameter) in net.named_parameters() {
            let grad = parameter.grad().unwrap_or_else(|| panic!("{name} has no gradient"));
            assert_eq!(grad.sizes(), parameter.sizes(), "{name}");
        }
        assert_eq!(net.blocks[0].norm.eps, 1e-6);
        assert_eq!(net.named_modules()[3], ("blocks.0".to_owned(), "Block".to_owned()));
    });
}

fn list(x: &DynTensor) -> Vec<f32> {
    x.to_vec().unwrap()
}

/// The untyped layer computes what the typed one with its tensors does.
#[test]
fn layers_without_types_compute_the_same() {
    run(|| {
        macro_rules! same {
            ($typed:ty, $with_sizes:expr, $x:expr) => {
                let x = $x;
                let typed: $typed = Module::new();
                let mut free = $with_sizes;
                free.load_state_dict(&typed.state_dict().unwrap()).unwrap();
                assert_eq!(free.describe(), typed.describe());
                let (a, b) = (free.forward(x.as_dyn()), typed.forward(&x));
                assert_eq!(a.sizes(), b.sizes());
                assert_eq!(list(&a), list(b.as_dyn()), "{}", typed.describe());
            };
        }
        let x: T![Batch, Seq, 4] = Tensor::randn_with([2, 3]);
        same!(Linear<N<4>, N<2>>, <Linear>::with_sizes(4, 2), x.clone());
        same!(LayerNorm<N<4>>, <LayerNorm>::with_sizes(4), x.clone());
        same!(RmsNorm<N<4>>, <RmsNorm>::with_sizes(4), x);
        let lines: T![Batch, 4, 5] = Tensor::randn_with([2]);
        same!(BatchNorm<N<4>>, <BatchNorm>::with_sizes(4), lines);
        let words: T![Batch; Int] = Tensor::randint_with(0, 7, [3]);
        same!(Embedding<N<7>, N<4>>, <Embedding>::with_sizes(7, 4), words);
    });
}

#[test]
fn layers_with_settings_without_types() {
    run(|| {
        macro_rules! same {
            ($typed:expr, $free:expr, $x:expr, |$layer:ident, $in:ident| $apply:expr) => {
                let (typed, mut free, x) = ($typed, $free, $x);
                free.load_state_dict(&typed.state_dict().unwrap()).unwrap();
                let a = {
                    let ($layer, $in) = (&free, x.as_dyn());
                    $apply
                };
                let b = {
                    let ($layer, $in) = (&typed, &x);
                    $apply
                };
                assert_eq!(list(&a), list(b.as_dyn()), "{}", typed.describe());
            };
        }
        let how = Convolution { padding: [1, 1], ..Default::default() };
        let image: T![Batch, 4, 5, 5] = Tensor::randn_with([2]);
        same!(
            Conv2d::<N<4>, N<6>>::with_kernel([3, 3], how),
            <Conv2d>::with_sizes(4, 6, [3, 3], how),
            image.clone(),
            |layer, x| layer.forward(x)
        );
        same!(
            ConvTranspose2d::<N<4>, N<6>>::with_kernel([3, 3], how),
            <ConvTranspose2d>::with_sizes(4, 6, [3, 3], how),
            image.clone(),
            |layer, x| layer.forward(x)
        );
        same!(
            GroupNorm::<N<4>>::with_groups(2),
            <GroupNorm>::with_sizes(4, 2),
            image.clone(),
            |layer, x| layer.forward(x)
        );
        let pool = MaxPool2d::of([2, 2]);
        assert_eq!(list(&pool.forward(image.as_dyn())), list(pool.forward(&image).as_dyn()));
        let flat: T![Batch, ?] = Flatten.forward(&image);
        assert_eq!(
            (flat.sizes(), Flatten.forward(image.as_dyn()).sizes()),
            (vec![2, 100], vec![2, 100])
        );

        let steps: T![Batch, Seq, 4] = Tensor::randn_with([2, 3]);
        same!(
            MultiheadAttention::<N<4>>::with_heads(2),
            <MultiheadAttention>::with_sizes(4, 2),
            steps.clone(),
            |layer, x| layer.forward(x, AttentionMask::default())
        );
        let order = NormOrder::First;
        same!(
            TransformerEncoderLayer::<N<4>, N<6>>::with_heads(2, 0.0, order),
            <TransformerEncoderLayer>::with_sizes(4, 6, 2, 0.0, order),
            steps.clone(),
            |layer, x| layer.forward(x, AttentionMask { causal: true, ..Default::default() })
        );
        let layers = Layers { count: 2, ..Default::default() };
        same!(
            Lstm::<N<4>, N<3>>::with_layers(layers),
            <Lstm>::with_sizes(4, 3, layers),
            steps.clone(),
            |layer, x| layer.forward(x, None).0
        );
        same!(
            Gru::<N<4>, N<3>, N<6>>::bidirectional(layers),
            Gru::<Dyn, Dyn, Dyn>::bidirectional_with_sizes(4, 3, layers),
            steps,
            |layer, x| layer.forward(x, None).0
        );
    });
}

#[test]
fn sizes_that_the_types_contradict_are_errors() {
    run(|| {
        let lstm: Lstm<N<4>, N<3>> = Lstm::with_sizes(4, 5, Layers::default());
        let error = lstm.parameters()[0].error().expect("3 is not 5");
        assert_eq!(error.message(), "Lstm: its type says [4,3,3], but [4, 5, 5] were asked for");
        let norm: RmsNorm<N<4>> = RmsNorm::with_sizes(5);
        let error = norm.weight.error().expect("4 is not 5");
        assert_eq!(error.message(), "RmsNorm: the tensor has shape [5], but its type says [4]");
        let wide: Linear = Linear::with_sizes(3, 2);
        let error = wide.forward(&DynTensor::ones([2, 4], DType::F32)).error().expect("4 is not 3");
        assert!(error.message().starts_with("matmul: "), "{error}");
    });
}

/// Layers are not built of tensors that are no parameters.
#[test]
fn tensors_of_a_layer_are_its_parameters() {
    run(|| {
        let norm: RmsNorm = RmsNorm::from_tensor(Tensor::ones_with([4]));
        assert_eq!((norm.parameters().len(), norm.with_eps(1e-3).eps), (1, 1e-3));
        let norm: LayerNorm =
            LayerNorm::from_tensors(Tensor::ones_with([4]), Tensor::zeros_with([4]));
        assert_eq!(norm.parameter_count(), 8);
    });
}

#[test]
fn sizes_stand_on_the_right() {
    run(|| {
        let (x, n) = (DynTensor::from([1.0f32, 2.0]), 3_usize);
        assert_eq!(list(&(&x * n + 1 - 0.5f32)), [3.5, 6.5]);
        let mut y = x.pow(n);
        y /= n - 1;
        assert_eq!(list(&y), [0.5, 4.0]);
    });
}

#[test]
fn owned_tensors_are_joined_too() {
    run(|| {
        let rows: Vec<DynTensor> = (0..3).map(|i| DynTensor::full([2], i, DType::F32)).collect();
        assert_eq!(DynTensor::cat(&rows, 0).sizes(), [6]);
        assert_eq!(DynTensor::stack(rows, 0).sizes(), [3, 2]);
        let rows: Vec<T![2]> = (0..3).map(|_| Tensor::ones()).collect();
        let joined: T![?, 2] = stack::<0, _, _>(rows);
        assert_eq!(joined.sizes(), [3, 2]);
    });
}

#[test]
fn steps_compute_what_they_are_named_after() {
    run(|| {
        let x: T![2, 3] = Tensor::randn();
        let same = |a: &Tensor<(N<2>, N<3>)>, b: DynTensor| assert_eq!(list(a.as_dyn()), list(&b));
        let d = x.as_dyn();
        same(&seq!(x => Silu, Mish), d.silu().mish());
        same(&seq!(x => LeakyRelu(0.2), Elu::default()), d.leaky_relu(0.2).elu(1.0));
        same(&seq!(x => Softmax(-1), LogSoftmax(0)), d.softmax(-1).log_softmax(0));
        same(&seq!(x => Softplus, Hardswish, Identity), d.softplus().hardswish());
    });
}
