//! Whole models: what they become, and cases that ONNX's evaluator runs.

use super::super::{OnnxConfig, export, to_bytes};
use super::cases::{case, decoded, run};
use super::text::text;
use crate::functional::{Convolution, Pooling, conv_transpose2d};
use crate::nn::{AttentionMask, NormOrder};
use crate::prelude::*;

dims! { Batch }

#[derive(Module)]
struct Mlp {
    fc1: Linear<N<3>, N<4>>,
    norm: LayerNorm<N<4>>,
    drop: Dropout,
    fc2: Linear<N<4>, N<2>>,
}

impl Mlp {
    fn forward(&self, x: &T![Batch, 3]) -> T![Batch, 2] {
        seq!(x => self.fc1, self.norm, Gelu, self.drop, self.fc2).softmax_last()
    }
}

fn named<M: Module>(model: &M) -> OnnxConfig {
    OnnxConfig { tensors: model.named_tensors(), ..OnnxConfig::default() }
}

const MLP: &str = "\
ir 9, opset 20, gt
input x f32[5,3]
fc1.weight f32[4,3]
fc1.bias f32[4]
norm.weight f32[4]
norm.bias f32[4]
fc2.weight f32[2,4]
fc2.bias f32[2]
Transpose_0 = Transpose(fc1.weight) perm=[1, 0]
MatMul_1 = MatMul(x, Transpose_0)
Add_2 = Add(MatMul_1, fc1.bias)
LayerNormalization_3 = LayerNormalization(Add_2, norm.weight, norm.bias) axis=-1 epsilon=0.00001
Gelu_4 = Gelu(LayerNormalization_3)
Transpose_5 = Transpose(fc2.weight) perm=[1, 0]
MatMul_6 = MatMul(Gelu_4, Transpose_5)
Add_7 = Add(MatMul_6, fc2.bias)
y = Softmax(Add_7) axis=1
output y f32[5,2]
";

#[test]
fn a_model_is_its_operators_under_its_names() {
    run(|| {
        let mut net = Mlp::new();
        net.eval();
        let x: T![Batch, 3] = Tensor::randn_with([5]);
        let config = OnnxConfig {
            input_names: vec!["x".into()],
            output_names: vec!["y".into()],
            tensors: net.named_tensors(),
        };
        let bytes = to_bytes((&x,), |(x,)| net.forward(&x), &config).unwrap();
        assert_eq!(text(&decoded(&bytes)), MLP);
        // The values are the present ones.
        let weight = net.fc1.weight.as_dyn().to_host().unwrap();
        let tensors = decoded(&bytes).graph.unwrap().initializer;
        assert_eq!(tensors[0].raw_data.as_ref(), Some(weight.bytes()));

        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("net.onnx");
        export(&path, (&x,), |(x,)| net.forward(&x)).unwrap();
        let plain = to_bytes((&x,), |(x,)| net.forward(&x), &OnnxConfig::default()).unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), plain);
        let forward =
            |x: &[DynTensor]| vec![net.forward(&Tensor::from_dyn(x[0].clone())).into_dyn()];
        case("model-mlp", &[x.as_dyn()], forward, &named(&net)).unwrap();
    });
}

fn padded() -> Convolution {
    Convolution { padding: [1, 1], ..Default::default() }
}

fn strided() -> Convolution {
    Convolution { stride: [2, 2], groups: 2, ..Default::default() }
}

#[derive(Module)]
struct Cnn {
    #[module(init = Conv2d::with_kernel([3, 3], padded()))]
    conv: Conv2d<N<2>, N<4>>,
    norm: BatchNorm<N<4>>,
    #[module(init = Conv2d::with_kernel([3, 3], strided()))]
    down: Conv2d<N<4>, N<6>>,
    #[module(init = GroupNorm::with_groups(3))]
    groups: GroupNorm<N<6>>,
    head: Linear<N<6>, N<3>>,
}

#[test]
fn convolutions_with_statistics_are_written() {
    run(|| {
        let mut net = Cnn::new();
        let x = DynTensor::randn([2, 2, 9, 9], DType::F32);
        let body = |net: &Cnn, x: &DynTensor| {
            let h = net.norm.forward(&net.conv.forward(x)).relu();
            let h = MaxPool2d(Pooling::of([2, 2])).forward(&h);
            let up = conv_transpose2d(
                &h,
                &DynTensor::ones([4, 4, 2, 2], DType::F32),
                None,
                Default::default(),
            );
            let h = net.groups.forward(&net.down.forward(&up));
            let h = AvgPool2d(Pooling::of([2, 2])).forward(&h);
            net.head.forward(&h.mean([2, 3])).log_softmax(-1)
        };
        // Statistics other than those of the beginning.
        body(&net, &x).to_host().unwrap();
        let error = to_bytes((&x,), |(x,)| body(&net, &x), &OnnxConfig::default()).unwrap_err();
        assert!(error.message().starts_with("onnx: the function "), "{error}");
        assert!(error.cure().unwrap().contains("evaluation"), "{error}");
        net.eval();
        let model = case("model-cnn", &[&x], |x| vec![body(&net, &x[0])], &named(&net)).unwrap();
        let text = text(&model);
        for part in ["norm.running_mean f32[4]", "= BatchNormalization(", "= MaxPool("] {
            assert!(text.contains(part), "{text}");
        }
    });
}

#[test]
fn attention_is_written() {
    run(|| {
        let mut layer: TransformerEncoderLayer<N<8>, N<16>> =
            TransformerEncoderLayer::with_heads(2, 0.1, NormOrder::First);
        layer.eval();
        let table: Embedding<N<11>, N<8>> = Embedding::new();
        let words = DynTensor::from([[1i64, 4, 10, 0, 3], [2, 2, 7, 5, 9]]);
        let lengths = DynTensor::from([5i64, 3]);
        let forward = |x: &[DynTensor]| {
            let h = table.weight.as_dyn().embedding(&x[0]);
            let places = DynTensor::arange(0, 5, 1, DType::I64);
            let mask = places.lt(&x[1].reshape([2, 1, 1, 1]));
            let causal = AttentionMask { causal: true, ..Default::default() };
            let masked = AttentionMask { mask: Some(&mask), ..Default::default() };
            let h: T![Dyn, Dyn, 8] = Tensor::from_dyn(h);
            let h = layer.forward(&layer.forward(&h, causal), masked);
            vec![h.into_dyn()]
        };
        let model = case("model-encoder", &[&words, &lengths], forward, &named(&layer)).unwrap();
        let text = text(&model);
        for part in ["self_attn.in_proj_weight f32[24,8]", "= Softmax(", "input input_1 i64[2]"] {
            assert!(text.contains(part), "{text}");
        }
    });
}

#[test]
fn loops_are_written_as_their_rounds() {
    run(|| {
        let two = Layers { count: 2, dropout: 0.0 };
        let lstm = <Lstm>::bidirectional_with_sizes(4, 3, two);
        let gru = <Gru>::with_sizes(6, 5, Layers::default());
        let x = DynTensor::randn([2, 4, 4], DType::F32);
        let forward = |x: &[DynTensor]| {
            let (y, _) = no_grad(|| lstm.forward(&x[0], None));
            let (z, _) = gru.forward(&y, None);
            vec![y, z]
        };
        let model = case("model-lstm", &[&x], forward, &named(&lstm)).unwrap();
        assert!(text(&model).contains("weight_hh_l1_reverse f32[12,3]"));
    });
}

#[test]
fn gradients_are_instructions_too() {
    run(|| {
        let w = DynTensor::randn([3, 3], DType::F32).requires_grad();
        let x = DynTensor::randn([2, 3], DType::F32);
        let forward = |x: &[DynTensor]| {
            let x = x[0].requires_grad();
            let energy = x.matmul(&w).tanh().square().sum(..);
            autograd::grad(&energy, &[&x]).unwrap()
        };
        let model = case("model-gradient", &[&x], forward, &OnnxConfig::default()).unwrap();
        assert!(text(&model).contains("= Tanh("));
    });
}
