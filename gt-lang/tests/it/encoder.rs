//! Attention and its encoder layer against PyTorch's: states that PyTorch saved, and its outputs
//! and gradients; dropout.

use std::path::Path;

use gt::io::pth;
use gt::nn::{AttentionMask, Dropout, MultiheadAttention, NormOrder, TransformerEncoderLayer};
use gt::prelude::*;

use crate::run;
use crate::saved::close;

dims! { Batch, Seq }

type Width = N<8>;

#[test]
fn an_encoder_layer_is_pytorchs() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/encoder.pth");
    let saved = pth::load(path).unwrap();
    for (name, order) in [("after", NormOrder::After), ("first", NormOrder::First)] {
        run(|| {
            let saved = saved.part(name);
            let mut layer = TransformerEncoderLayer::<Width, N<16>>::with_heads(2, 0.0, order);
            layer.load_state_dict(&saved.part("state")).unwrap();
            let of = |what: &str| saved.get(what).unwrap().clone();
            let x: T![Batch, Seq, 8] = Tensor::from_dyn(DynTensor::from_host(of("x")));
            let y = layer.forward(&x, AttentionMask::default());
            close(y.as_dyn(), &of("y").to_f64(), name);
            let causal = layer.forward(&x, AttentionMask { causal: true, ..Default::default() });
            close(causal.as_dyn(), &of("causal").to_f64(), name);
            // A mask that says the same.
            let (i, j) =
                (DynTensor::arange(0, 5, 1, DType::I64), DynTensor::arange(0, 5, 1, DType::I64));
            let mask = j.le(&i.unsqueeze(-1));
            let masked =
                layer.forward(&x, AttentionMask { mask: Some(&mask), ..Default::default() });
            close(masked.as_dyn(), &of("causal").to_f64(), name);
            let weights = DynTensor::arange(0, 8, 1, DType::F32);
            causal.as_dyn().mul(&weights).sum(..).backward().unwrap();
            for (parameter, tensor) in layer.named_parameters() {
                let want = saved.get(&format!("grads.{parameter}")).unwrap();
                close(&tensor.grad().unwrap(), &want.to_f64(), &format!("{name} {parameter}"));
            }
        });
    }
}

#[test]
fn attention_to_itself_is_attention_across() {
    run(|| {
        let layer = MultiheadAttention::<Width>::with_heads(4);
        let x: T![Batch, Seq, 8] = Tensor::randn_with([2, 3]);
        let (own, across) = (
            layer.forward(&x, AttentionMask::default()),
            layer.cross(&x, &x, AttentionMask::default()),
        );
        close(own.as_dyn(), &across.as_dyn().to_host().unwrap().to_f64(), "cross");
        let layer = MultiheadAttention::<Width>::with_heads(3);
        let error = layer.forward(&x, AttentionMask::default()).as_dyn().to_host().unwrap_err();
        assert!(error.message().starts_with("MultiheadAttention: width 8"), "{error}");
    });
}

#[derive(Module)]
struct Dropping {
    fc: Linear<N<4>, N<4>>,
    drop: Dropout,
}

#[test]
fn dropout_drops_in_training_only() {
    run(|| {
        let mut net = Dropping { fc: Linear::new(), drop: Dropout::new(0.25) };
        let x: T![Batch, 1000] = Tensor::ones_with([4]);
        let values = net.drop.forward(&x).as_dyn().to_vec::<f32>().unwrap();
        let dropped = values.iter().filter(|v| **v == 0.0).count();
        assert!((800..1200).contains(&dropped), "{dropped} of 4000");
        assert!(values.iter().all(|v| *v == 0.0 || (*v - 4.0 / 3.0).abs() < 1e-6));
        net.eval();
        assert!(net.drop.forward(&x).as_dyn().is(x.as_dyn()));
        net.train();
        assert!(!net.drop.forward(&x).as_dyn().is(x.as_dyn()));
        assert_eq!(net.summary().lines().last().unwrap().trim(), "drop: Dropout(0.25)   0");
    });
}
