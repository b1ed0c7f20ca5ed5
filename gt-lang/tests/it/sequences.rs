//! Plain recurrent layers, cells, and the layers of transformers against PyTorch: states that it
//! saved, its outputs, gradients and weights of attention.

use gt::nn::{Activation, RnnNonlinearity};
use gt::prelude::*;

use crate::run;
use crate::saved::{self, Case, close, loaded};

dims! { Batch, Len, Positions }

type Steps = Tensor<(Batch, Len, N<8>)>;
type Memory = Tensor<(Batch, Positions, N<8>)>;

fn case(name: &'static str, check: impl FnOnce(&Case)) {
    saved::case("sequences.pth", name, check);
}

const CAUSAL: AttentionMask<'_> = AttentionMask { mask: None, causal: true };

#[test]
fn plain_recurrent_layers_are_pytorchs() {
    let two = Layers { count: 2, dropout: 0.0 };
    case("rnn", |case| {
        let layer = loaded(case, Rnn::<N<4>, N<3>>::with_layers(two));
        let x = case.typed::<(Batch, Len, N<4>)>();
        let (y, last) = layer.forward(&x, None);
        close(last.as_dyn(), &case.host("last").to_f64(), "the last state");
        case.check(y.as_dyn(), Some(&layer));
        let again = layer.forward(&x, Some(&last)).0;
        close(again.as_dyn(), &case.host("again").to_f64(), "from the last state");
        assert_eq!(layer.describe(), "Rnn(4 -> 3, 2 layers)");
    });
    case("rnn relu", |case| {
        let layer = Rnn::<N<4>, N<3>, N<6>>::bidirectional(two);
        let layer = loaded(case, layer.with_nonlinearity(RnnNonlinearity::Relu));
        let x = case.typed::<(Batch, Len, N<4>)>();
        let (y, last) = layer.forward(&x, None);
        close(last.as_dyn(), &case.host("last").to_f64(), "the last state");
        case.check(y.as_dyn(), Some(&layer));
        let again = layer.forward(&x, Some(&last)).0;
        close(again.as_dyn(), &case.host("again").to_f64(), "from the last state");
    });
}

#[test]
fn cells_are_pytorchs() {
    type Row = (Batch, N<4>);
    let state = |case: &Case, name| Tensor::<(Batch, N<3>)>::from_dyn(case.tensor(name));
    for (name, nonlinearity) in
        [("rnn_cell", RnnNonlinearity::Tanh), ("rnn_cell relu", RnnNonlinearity::Relu)]
    {
        case(name, |case| {
            let cell = RnnCell::<N<4>, N<3>>::new().with_nonlinearity(nonlinearity);
            let cell = loaded(case, cell);
            let first = cell.forward(&case.typed::<Row>(), None);
            close(first.as_dyn(), &case.host("first").to_f64(), "from zeros");
            let y = cell.forward(&case.typed::<Row>(), Some(&state(case, "h")));
            case.check(y.as_dyn(), Some(&cell));
        });
    }
    case("gru_cell", |case| {
        let cell = loaded(case, GruCell::<N<4>, N<3>>::new());
        let first = cell.forward(&case.typed::<Row>(), None);
        close(first.as_dyn(), &case.host("first").to_f64(), "from zeros");
        case.check(
            cell.forward(&case.typed::<Row>(), Some(&state(case, "h"))).as_dyn(),
            Some(&cell),
        );
    });
    case("lstm_cell", |case| {
        // Sizes at run time.
        let cell = loaded(case, <LstmCell>::with_sizes(4, 3));
        let (h, c) = cell.forward(&case.x, None);
        let first = DynTensor::cat([&h, &c], -1);
        close(&first, &case.host("first").to_f64(), "from zeros");
        let (h, c) = cell.forward(&case.x, Some((&case.tensor("h"), &case.tensor("c"))));
        case.check(&DynTensor::cat([&h, &c], -1), Some(&cell));
        assert_eq!(cell.describe(), "LstmCell(4 -> 3)");
    });
    run(|| {
        let cell: GruCell<N<4>, N<3>> = GruCell::with_sizes(4, 5);
        let error = cell.parameters()[0].error().unwrap();
        assert_eq!(error.message(), "GruCell: its type says [4,3], but [4, 5] were asked for");
    });
}

/// A cell, step by step, is its layer.
#[test]
fn cells_step_as_layers_do() {
    run(|| {
        let layer = <Lstm>::with_sizes(4, 3, Layers::default());
        let mut cell = <LstmCell>::with_sizes(4, 3);
        let mut state = StateDict::new();
        for (name, tensor) in layer.state_dict().unwrap().iter() {
            state.insert(name.trim_end_matches("_l0"), tensor.clone());
        }
        cell.load_state_dict(&state).unwrap();
        let x = DynTensor::randn([2, 5, 4], DType::F32);
        let mut now: Option<(DynTensor, DynTensor)> = None;
        for t in 0..5 {
            let before = now.as_ref().map(|(h, c)| (h, c));
            now = Some(cell.forward(&x.slice((.., t)), before));
        }
        let last = layer.forward(&x, None).0.slice((.., 4));
        close(&now.unwrap().0, &last.to_host().unwrap().to_f64(), "the last step");
    });
}

/// Without gradients a layer is one loop over all steps, which gives what its steps give.
#[test]
fn layers_without_gradients_give_the_same() {
    run(|| {
        let (x, two) =
            (DynTensor::randn([3, 21, 4], DType::F32), Layers { count: 2, dropout: 0.0 });
        let same = |name: &str, run: &dyn Fn() -> Vec<DynTensor>| {
            let looped = no_grad(run);
            for (with, without) in run().iter().zip(&looped) {
                assert_eq!(with.ty(), without.ty(), "{name}");
                close(without, &with.to_host().unwrap().to_f64(), name);
            }
        };
        let lstm = <Lstm>::bidirectional_with_sizes(4, 3, two);
        same("lstm", &|| {
            let (y, last) = lstm.forward(&x, None);
            let (again, _) = lstm.forward(&x, Some(&last));
            vec![y, last.hidden.into_dyn(), last.cell.into_dyn(), again]
        });
        let gru = <Gru>::bidirectional_with_sizes(4, 3, two);
        same("gru", &|| {
            let (y, last) = gru.forward(&x, None);
            vec![y, last.into_dyn()]
        });
        let rnn = <Rnn>::with_sizes(4, 3, two);
        same("rnn", &|| {
            let (y, last) = rnn.forward(&x, None);
            vec![y, last.into_dyn()]
        });
        // A mistake is the same error.
        let wrong = DynTensor::randn([3, 21, 5], DType::F32);
        let message = || lstm.forward(&wrong, None).0.error().unwrap().message().to_owned();
        assert_eq!(no_grad(message), message());
    });
}

#[test]
fn decoder_layers_are_pytorchs() {
    let after = TransformerDecoderLayer::<N<8>, N<16>>::with_heads;
    case("decoder", |case| {
        let layer = loaded(case, after(2, 0.0, NormOrder::After));
        let seen = case.tensor("seen");
        let mask = AttentionMask { mask: Some(&seen), ..Default::default() };
        let memory = Memory::from_dyn(case.tensor("memory"));
        let y = layer.forward(&case.typed::<(Batch, Len, N<8>)>(), &memory, CAUSAL, mask);
        case.check(y.as_dyn(), Some(&layer));
    });
    case("decoder first", |case| {
        let layer = <TransformerDecoderLayer>::with_sizes(8, 16, 2, 0.0, NormOrder::First);
        let layer = loaded(case, layer.with_activation(Activation::Of(|x| x.gelu())));
        let seen = case.tensor("seen");
        let mask = AttentionMask { mask: Some(&seen), ..Default::default() };
        let y = layer.forward(&case.x, &case.tensor("memory"), CAUSAL, mask);
        case.check(&y, Some(&layer));
    });
}

#[test]
fn stacks_of_layers_are_pytorchs() {
    case("encoders", |case| {
        let layer = || {
            TransformerEncoderLayer::with_heads(2, 0.0, NormOrder::First)
                .with_activation(Activation::Gelu)
        };
        let net: TransformerEncoder<N<8>, N<16>> =
            TransformerEncoder::from_layers(vec![layer(), layer()], Some(LayerNorm::new()));
        let net = loaded(case, net);
        let y = net.forward(&case.typed::<(Batch, Len, N<8>)>(), CAUSAL);
        case.check(y.as_dyn(), Some(&net));
        assert_eq!(net.describe(), "TransformerEncoder(2 layers)");
    });
    case("decoders", |case| {
        let layer = || TransformerDecoderLayer::with_heads(2, 0.0, NormOrder::After);
        let net: TransformerDecoder<N<8>, N<16>> =
            TransformerDecoder::from_layers(vec![layer(), layer()], Some(LayerNorm::new()));
        let net = loaded(case, net);
        let memory = Memory::from_dyn(case.tensor("memory"));
        let x: Steps = case.typed();
        let y = net.forward(&x, &memory, CAUSAL, AttentionMask::default());
        case.check(y.as_dyn(), Some(&net));
    });
}

#[test]
fn weights_of_attention_are_pytorchs() {
    case("weights", |case| {
        let layer = loaded(case, MultiheadAttention::<N<8>>::with_heads(2));
        let seen = case.tensor("seen");
        let mask = AttentionMask { mask: Some(&seen), ..Default::default() };
        let memory = Memory::from_dyn(case.tensor("memory"));
        let (y, weights) =
            layer.cross_with_weights(&case.typed::<(Batch, Len, N<8>)>(), &memory, mask);
        close(y.as_dyn(), &case.host("out").to_f64(), "the result");
        close(&weights, &case.host("y").to_f64(), "the weights");
        // Without them.
        let plain = layer.cross(&case.typed::<(Batch, Len, N<8>)>(), &memory, mask);
        close(plain.as_dyn(), &case.host("out").to_f64(), "without the weights");
        weights
            .flatten(0, -1)
            .mul(&DynTensor::arange(0, 80, 1, DType::I64).remainder(7))
            .sum(..)
            .backward()
            .unwrap();
        close(&case.x.grad().unwrap(), &case.host("dx").to_f64(), "the gradient");
    });
}

/// The weights times the values are what attention gives, whatever it is told; a query that sees
/// nothing gives zeros and no gradient.
#[test]
fn weights_make_the_result() {
    use functional::{Attention, attention_weights, scaled_dot_product_attention_with};
    run(|| {
        let q = DynTensor::randn([2, 4, 5, 3], DType::F64).requires_grad();
        let k = DynTensor::randn([2, 2, 6, 3], DType::F64);
        let v = DynTensor::randn([2, 2, 6, 3], DType::F64);
        let numbers = DynTensor::randn([5, 6], DType::F64);
        let blind = DynTensor::arange(0, 5, 1, DType::I64).unsqueeze(-1).gt(0).expand([5, 6]);
        for (mask, causal) in
            [(None, true), (Some(&numbers), false), (Some(&numbers), true), (Some(&blind), false)]
        {
            let how = Attention { mask, causal, scale: Some(0.7) };
            let weights = attention_weights(&q, &k, how);
            let product = weights.matmul(&v.repeat_interleave(2, 1));
            let want = scaled_dot_product_attention_with(&q, &k, &v, how);
            close(&product, &want.to_host().unwrap().to_f64(), "the product");
            product.square().sum(..).backward().unwrap();
            let slope = q.grad().unwrap();
            q.zero_grad();
            want.square().sum(..).backward().unwrap();
            close(&slope, &q.grad().unwrap().to_host().unwrap().to_f64(), "the gradient");
            q.zero_grad();
        }
    });
}

#[test]
fn dropped_weights_of_attention_are_dropped_in_training_only() {
    run(|| {
        let mut layer = MultiheadAttention::<N<8>>::with_heads(2).with_dropout(0.5);
        let x: Steps = Tensor::randn_with([4, 16]);
        let (y, weights) = layer.forward_with_weights(&x, AttentionMask::default());
        let share = weights.eq(0.0).to_dtype(DType::F64).mean(..).item().unwrap();
        assert!((0.4..0.6).contains(&share), "{share}");
        let other = layer.forward(&x, AttentionMask::default());
        let apart = (y.as_dyn() - other.as_dyn()).abs().max(..).item().unwrap();
        assert!(apart > 1e-3, "{apart}");
        layer.eval();
        let (y, weights) = layer.forward_with_weights(&x, AttentionMask::default());
        assert_eq!(weights.sizes(), [4, 2, 16, 16]);
        close(&weights.sum(-1), &[1.0; 128], "the sums");
        let plain = layer.forward(&x, AttentionMask::default());
        close(y.as_dyn(), &plain.as_dyn().to_host().unwrap().to_f64(), "in evaluation");
    });
}
