//! Where instructions say they were written: in the user's file, also those that layers, functions
//! and optimizers record on the way.

use gt::functional as f;
use gt::functional::{
    Convolution, Corners, Interpolation, MultiMargin, PadMode, Pooling, Resize, TripletMargin,
};
use gt::nn::{AttentionMask, Layers, NormOrder};
use gt::prelude::*;
use gt_ir::Entry;

use crate::run;

dims! { Batch, Len, Height, Width }

/// What a program records that does not stand in this file.
fn elsewhere(program: impl FnOnce()) -> Vec<String> {
    run(|| {
        let session = Session::current().expect("one is entered");
        session.start_trace();
        program();
        let tape = session.stop_trace();
        assert!(tape.entries.iter().any(|entry| matches!(entry, Entry::Instr(_))), "it records");
        let strangers = tape.instrs().filter(|i| !i.loc.file().ends_with("it/places.rs"));
        strangers.map(|i| format!("{} at {}", i.op.name(), i.loc)).collect()
    })
}

/// Checks all of these, each by itself.
macro_rules! stand_here {
    ($($what:expr;)+) => {{
        let mut found = Vec::new();
        $(
            let strangers = elsewhere(|| drop($what));
            found.extend(strangers.first().map(|first| format!("{}: {first}", stringify!($what))));
        )+
        assert_eq!(found, Vec::<String>::new());
    }};
}

fn image() -> DynTensor {
    DynTensor::rand([1, 4, 5, 4], DType::F32)
}

type Images = Tensor<(Batch, N<4>, Height, Width)>;
type Lines = Tensor<(Batch, Len, N<4>)>;

fn images() -> Images {
    Tensor::from_dyn(image())
}

fn lines() -> Lines {
    Tensor::from_dyn(DynTensor::rand([2, 3, 4], DType::F32))
}

fn matrix() -> DynTensor {
    DynTensor::rand([3, 3], DType::F32)
}

fn classes() -> DynTensor {
    DynTensor::from([0_i64, 2, 1])
}

#[test]
fn layers_record_where_they_are_called() {
    let (plain, pooling) = (Convolution::default(), Pooling::of([2, 2]));
    let two = || Layers { count: 2, dropout: 0.5 };
    let heads = || MultiheadAttention::<N<4>>::with_heads(2);
    let same = Convolution { same: true, ..Default::default() };
    let same3 = Convolution { same: true, ..Default::default() };
    let ceil = Pooling { stride: [2; 3], ceil_mode: true, ..Pooling::of([3; 3]) };
    let words = || Tensor::<(Batch, Dyn), Int>::zeros_with([3, 4]);
    let wide = || Tensor::<(Batch, N<4>, Dyn)>::randn_with([2, 6]);
    let volumes = || Tensor::<(Batch, N<4>, Dyn, Dyn, Dyn)>::randn_with([2, 4, 4, 4]);
    let causal = AttentionMask { causal: true, ..Default::default() };
    stand_here! {
        Linear::<N<4>, N<2>>::new().forward(&lines());
        Embedding::<N<5>, N<2>>::new().forward(&Tensor::<(Batch,), Int>::zeros_with([3]));
        LayerNorm::<N<4>>::new().forward(&lines());
        RmsNorm::<N<4>>::new().forward(&lines());
        GroupNorm::<N<4>>::with_groups(2).forward(&images());
        BatchNorm::<N<4>>::new().forward(&images());
        Dropout::new(0.5).forward(&lines());
        Conv2d::<N<4>, N<2>>::with_kernel([2, 2], plain).forward(&images());
        ConvTranspose2d::<N<4>, N<2>>::with_kernel([2, 2], plain).forward(&images());
        MaxPool2d(pooling).forward(&images());
        AvgPool2d(pooling).forward(&images());
        Lstm::<N<4>, N<3>>::with_layers(two()).forward(&lines(), None);
        Lstm::<N<4>, N<3>, N<6>>::bidirectional(two()).forward(&lines(), None);
        Gru::<N<4>, N<3>>::with_layers(two()).forward(&lines(), None);
        Rnn::<N<4>, N<3>>::with_layers(two()).forward(&lines(), None);
        RnnCell::<N<4>, N<3>>::new().forward(&lines(), None);
        LstmCell::<N<4>, N<3>>::new().forward(&lines(), None);
        GruCell::<N<4>, N<3>>::new().forward(&lines(), None);
        heads().forward_with_weights(&lines(), causal);
        heads().with_dropout(0.5).forward(&lines(), causal);
        TransformerDecoderLayer::<N<4>, N<8>>::with_heads(2, 0.5, NormOrder::First)
            .forward(&lines(), &lines(), causal, AttentionMask::default());
        TransformerDecoderLayer::<N<4>, N<8>>::with_heads(2, 0.5, NormOrder::After)
            .forward(&lines(), &lines(), causal, AttentionMask::default());
        TransformerEncoder::<N<4>, N<8>>::from_layers(
            vec![TransformerEncoderLayer::with_heads(2, 0.0, NormOrder::After)],
            Some(LayerNorm::new()),
        )
        .forward(&lines(), causal);
        TransformerDecoder::<N<4>, N<8>>::from_layers(
            vec![TransformerDecoderLayer::with_heads(2, 0.0, NormOrder::After)],
            None,
        )
        .forward(&lines(), &lines(), causal, causal);
        Conv1d::<N<4>, N<2>>::with_kernel(2, same).forward(&wide());
        Conv3d::<N<4>, N<2>>::with_kernel([2; 3], same3).forward(&volumes());
        ConvTranspose1d::<N<4>, N<2>>::with_kernel(2, plain).forward(&wide());
        MaxPool3d(ceil).forward(&volumes());
        AvgPool3d(ceil).forward(&volumes());
        AdaptiveAvgPool2d([2, 1]).forward(&images());
        InstanceNorm::<N<4>>::new().forward(&images());
        InstanceNorm::<N<4>>::new().with_affine().forward(&images());
        Dropout2d::new(0.5).forward(&images());
        PixelShuffle(2).forward(&images());
        PixelUnshuffle(1).forward(&images());
        EmbeddingBag::<N<5>, N<2>>::new().forward(&words());
        Lora::over(Linear::<N<4>, N<2>>::new(), LoraConfig::default()).forward(&lines());
        heads().forward(&lines(), causal);
        heads().cross(&lines(), &lines(), AttentionMask::default());
        <[Linear<N<4>, N<2>>; 2]>::new();
        TransformerEncoderLayer::<N<4>, N<8>>::with_heads(2, 0.5, NormOrder::First)
            .forward(&lines(), AttentionMask::default());
        seq!(&lines() => Linear::<N<4>, N<2>>::new(), Relu, Gelu, Tanh, Sigmoid);
    }
}

#[test]
fn functions_record_where_they_are_called() {
    let larger = Resize::Scale([1.5, 2.0]);
    let smooth = CrossEntropy { label_smoothing: 0.1, ..Default::default() };
    let ignoring = CrossEntropy { ignore_index: Some(1), ..Default::default() };
    stand_here! {
        f::cross_entropy(&matrix(), &classes());
        f::cross_entropy_with(&matrix(), &classes(), &smooth);
        f::cross_entropy_with(&matrix(), &classes(), &ignoring);
        f::nll_loss(&matrix(), &classes());
        f::mse_loss(&matrix(), &matrix());
        f::l1_loss(&matrix(), &matrix());
        f::smooth_l1_loss(&matrix(), &matrix());
        f::binary_cross_entropy(&matrix(), &matrix());
        f::binary_cross_entropy_with_logits(&matrix(), &matrix());
        f::multi_margin_loss(&matrix(), &classes(), &MultiMargin::default());
        f::multilabel_margin_loss(&matrix(), &matrix().to_dtype(DType::I64), Reduction::Mean);
        f::multilabel_soft_margin_loss(&matrix(), &matrix(), None, Reduction::Mean);
        f::soft_margin_loss(&matrix(), &matrix(), Reduction::Mean);
        f::hinge_embedding_loss(&matrix(), &matrix(), 1.0, Reduction::Mean);
        f::triplet_margin_loss(&matrix(), &matrix(), &matrix(), &TripletMargin::default());
        f::attention_weights(&matrix(), &matrix(), f::Attention::default());
        f::normalize(&matrix(), 2.0, -1, 1e-12);
        f::cosine_similarity(&matrix(), &matrix(), -1, 1e-8);
        f::pairwise_distance(&matrix(), &matrix(), 2.0, 1e-6);
        f::einsum("ij,jk->ik", [&matrix(), &matrix()]);
        f::interpolate(&image(), larger, Interpolation::Nearest);
        f::interpolate(&image(), larger, Interpolation::Bilinear(Corners::Centers));
        f::interpolate(&image(), larger, Interpolation::Bicubic(Corners::Edges));
        f::pad_with(&image(), [(2, 1), (0, 3)], PadMode::Reflect);
        f::upsample_nearest2d(&image(), [2, 2]);
        f::upsample_bilinear2d(&image(), [7, 3]);
        f::adaptive_avg_pool2d(&image(), [3, 3]);
        f::adaptive_avg_pool2d(&image(), [5, 2]);
        f::pixel_shuffle(&image(), 2);
        f::scaled_dot_product_attention(&image(), &image(), &image());
        matrix().topk(2, 0);
        matrix().median(0);
        matrix().slice((.., &classes()));
        matrix().multinomial_without_replacement(2);
        DynTensor::meshgrid([&matrix().slice(0), &matrix().slice(1)]);
        DynTensor::randperm(4);
    }
}

/// A step of training, and another with what the optimizer remembers.
fn trains(mut optimizer: impl Optimizer, weight: &DynTensor) {
    for _ in 0..2 {
        optimizer.zero_grad();
        weight.square().sum(..).backward().expect("a number");
        drop(gt::optim::clip_grad_norm(optimizer.parameters(), 1.0));
        optimizer.step().expect("leaves");
    }
}

#[test]
fn steps_of_training_record_where_they_are_taken() {
    let weight = || matrix().requires_grad();
    let found = elsewhere(|| {
        let w = weight();
        let how = SgdConfig { lr: 0.1, momentum: 0.9, weight_decay: 0.1, ..Default::default() };
        trains(Sgd::new(vec![w.clone()], how), &w);
        let w = weight();
        trains(Adam::new(vec![w.clone()], AdamConfig::default()), &w);
        let w = weight();
        trains(AdamW::new(vec![w.clone()], AdamWConfig::default()), &w);
        let w = weight();
        trains(
            RmsProp::new(vec![w.clone()], RmsPropConfig { momentum: 0.5, ..Default::default() }),
            &w,
        );
        let w = weight();
        trains(Adagrad::new(vec![w.clone()], AdagradConfig::default()), &w);
        let w = weight();
        trains(Lion::new(vec![w.clone()], LionConfig::default()), &w);
    });
    assert_eq!(found, Vec::<String>::new());
}
