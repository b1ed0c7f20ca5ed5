//! Small networks in `f64`, with the scopes that the forms of parallelism configure: `batch` around
//! all, `columns` around first layers, and the stages `first` and `second`.

use gt::functional::{self as f, Attention, Convolution, Pooling};
use gt::prelude::*;
use gt::signal;

/// A network: what it learns, and its loss. Each call of the loss is a step.
pub(super) struct Net {
    pub(super) parameters: Vec<DynTensor>,
    pub(super) loss: Box<dyn Fn() -> DynTensor>,
}

/// Numbers that differ from each other and are the same in every run.
fn data(sizes: &[usize]) -> DynTensor {
    let number = |i: usize| (i * 37 % 101) as f64 / 50.0 - 1.0;
    DynTensor::from_vec((0..sizes.iter().product()).map(number).collect(), sizes)
}

fn classes(n: usize, of: i64) -> DynTensor {
    DynTensor::from_vec((0..n as i64).map(|i| i * 7 % of).collect(), [n])
}

/// Parameters of these sizes, with random contents.
fn parameters<const N: usize>(sizes: [&[usize]; N]) -> [DynTensor; N] {
    sizes.map(|sizes| (DynTensor::randn(sizes, DType::F64) * 0.3).requires_grad())
}

fn net<const N: usize>(parameters: [DynTensor; N], loss: fn(&[DynTensor; N]) -> DynTensor) -> Net {
    let all = parameters.to_vec();
    Net { parameters: all, loss: Box::new(move || loss(&parameters)) }
}

/// So many square weights.
pub(super) fn chain(layers: usize, width: usize) -> Vec<DynTensor> {
    let weight = |_| (DynTensor::randn([width, width], DType::F64) * 0.2).requires_grad();
    (0..layers).map(weight).collect()
}

/// The loss of layers in two stages, of inputs that are uploaded in the scope of the batch.
pub(super) fn staged(rows: usize, weights: &[DynTensor]) -> DynTensor {
    let _batch = signal::scope("batch");
    let x = data(&[rows, 32]);
    let mut y = x.clone();
    for (i, weight) in weights.iter().enumerate() {
        let _stage = signal::scope(if 2 * i < weights.len() { "first" } else { "second" });
        y = y.matmul(weight).tanh();
    }
    let _stage = signal::scope("second");
    f::mse_loss(&y, &x)
}

fn columns(x: &DynTensor, weight: &DynTensor) -> DynTensor {
    let _columns = signal::scope("columns");
    x.matmul(weight)
}

/// Seven examples, so that no number of workers divides them.
pub(super) fn perceptron() -> Net {
    net(parameters([&[5, 12], &[12], &[12, 3], &[3]]), |[up, bias, down, last]| {
        let _batch = signal::scope("batch");
        let x = data(&[7, 5]);
        let hidden = {
            let _first = signal::scope("first");
            columns(&x, up).add(bias).gelu()
        };
        let _second = signal::scope("second");
        f::cross_entropy(&hidden.matmul(down).add(last), &classes(7, 3))
    })
}

/// The second convolution has no bias, so the partial sums of its channels reach the pooling.
pub(super) fn convolutions() -> Net {
    net(parameters([&[4, 2, 3, 3], &[4], &[6, 4, 3, 3], &[6, 3]]), |[one, bias, two, head]| {
        let _batch = signal::scope("batch");
        let images = data(&[3, 2, 8, 8]);
        let how = Convolution { padding: [1, 1], ..Convolution::default() };
        let x = {
            let _first = signal::scope("first");
            let _channels = signal::scope("channels");
            f::conv2d(&images, one, Some(bias), how).relu()
        };
        let _second = signal::scope("second");
        let x = f::max_pool2d(&f::conv2d(&x, two, None, how), Pooling::of([2, 2]));
        let x = f::max_pool2d(&x, Pooling::of([2, 2])).mean([2, 3]);
        f::cross_entropy(&x.tanh().matmul(head), &classes(3, 3))
    })
}

pub(super) fn autoencoder() -> Net {
    net(
        parameters([&[6, 8], &[8, 2], &[8, 2], &[2, 8], &[8, 6]]),
        |[up, mean, spread, back, out]| {
            let _batch = signal::scope("batch");
            let x = data(&[5, 6]).sigmoid();
            let hidden = columns(&x, up).relu();
            let (mean, spread) = (hidden.matmul(mean), hidden.matmul(spread));
            let z = mean.add(&DynTensor::randn([5, 2], DType::F64).mul(&spread.mul(0.5).exp()));
            let _second = signal::scope("second");
            let logits = z.matmul(back).relu().dropout(0.25).matmul(out);
            let seen = f::binary_cross_entropy_with_logits(&logits, &x);
            let prior = mean.square().add(&spread.exp()).sub(&spread).sub(1.0).sum(..).mul(0.5);
            seen.add(&prior.div(5.0))
        },
    )
}

pub(super) fn recurrent() -> Net {
    net(parameters([&[3, 16], &[4, 16], &[4, 5]]), |[input, hidden, head]| {
        let _batch = signal::scope("batch");
        let x = data(&[3, 4, 3]);
        let (mut h, mut c) =
            (DynTensor::zeros([3, 4], DType::F64), DynTensor::zeros([3, 4], DType::F64));
        {
            let _first = signal::scope("first");
            for at in 0..4 {
                let x = x.narrow(1, at, 1).squeeze(1);
                let gates = columns(&x, input).add(&h.matmul(hidden));
                let parts = gates.split(4, 1);
                c = parts[0].sigmoid().mul(&c).add(&parts[1].sigmoid().mul(&parts[2].tanh()));
                h = parts[3].sigmoid().mul(&c.tanh());
            }
        }
        let _second = signal::scope("second");
        f::cross_entropy(&h.matmul(head), &classes(3, 5))
    })
}

/// Two blocks of a transformer with tied embeddings: 6 tokens, 8 wide, 2 heads.
pub(super) fn transformer() -> Net {
    let block: [&[usize]; 8] = [&[8], &[8, 8], &[8, 8], &[8, 8], &[8, 8], &[8], &[8, 32], &[32, 8]];
    let [table, places] = parameters([&[11, 8], &[6, 8]]);
    let blocks = [parameters(block), parameters(block)];
    let all = [&table, &places].into_iter().chain(blocks.iter().flatten());
    let all = all.cloned().collect();
    let loss = move || {
        let _batch = signal::scope("batch");
        let tokens = DynTensor::from_vec((0..18).map(|i| i * 5 % 11).collect::<Vec<i64>>(), [3, 6]);
        let mut x = table.embedding(&tokens).add(&places);
        for (name, weights) in ["first", "second"].into_iter().zip(&blocks) {
            let _stage = signal::scope(name);
            x = layers(&x, weights);
        }
        let logits = x.matmul(&table.t()).reshape([18, 11]);
        f::cross_entropy(&logits, &classes(18, 11))
    };
    Net { parameters: all, loss: Box::new(loss) }
}

fn layers(x: &DynTensor, [gain, q, k, v, out, gain2, up, down]: &[DynTensor; 8]) -> DynTensor {
    let normed = x.rms_norm(&gain.add(1.0), 1e-5);
    let heads = |weight| columns(&normed, weight).reshape([3, 6, 2, 4]).transpose(1, 2);
    let how = Attention { causal: true, ..Attention::default() };
    let mixed = f::scaled_dot_product_attention_with(&heads(q), &heads(k), &heads(v), how);
    let x = x.add(&mixed.transpose(1, 2).reshape([3, 6, 8]).matmul(out));
    let normed = x.layer_norm(&gain2.add(1.0), gain2, 1e-5);
    x.add(&columns(&normed, up).gelu_tanh().matmul(down))
}

/// Normalizations over the batch and over groups of channels, and running statistics.
pub(super) fn normalized() -> Net {
    net(parameters([&[4, 6], &[6], &[6], &[6, 6]]), |[up, gain, shift, mix]| {
        let _batch = signal::scope("batch");
        let x = columns(&data(&[5, 4]), up);
        let (zeros, ones) = (DynTensor::zeros([6], DType::F64), DynTensor::ones([6], DType::F64));
        let batch = f::batch_norm(&x, (&zeros, &ones), (gain, shift), 0.1, 1e-3);
        let _second = signal::scope("second");
        let x = batch.output.silu().matmul(mix).group_norm(3, gain, shift, 1e-3);
        let drift = batch.running_mean.square().sum(..).add(&batch.running_var.sum(..));
        x.softmax(0).logsumexp(1).var(..).add(&x.norm(1).mean(..)).add(&drift.mul(0.01))
    })
}

/// Positions that are data: sorted, gathered, scattered, routed to the best of three experts.
pub(super) fn routed() -> Net {
    net(parameters([&[4, 3], &[3, 4, 6], &[6, 2]]), |[gate, experts, head]| {
        let _batch = signal::scope("batch");
        let x = data(&[6, 4]);
        let scores = columns(&x, gate).softmax(-1);
        let best = scores.argmax(-1);
        let share = scores.gather(1, &best.unsqueeze(1));
        let _second = signal::scope("second");
        let chosen = experts.index_select(0, &best);
        let y = x.unsqueeze(1).matmul(&chosen).squeeze(1).mul(&share);
        let (sorted, _) = y.sort(1, true);
        let counted = DynTensor::zeros([3, 6], DType::F64).index_add(0, &best, &y.cumsum(1));
        let seen = best.one_hot(3).sum(0).to_dtype(DType::F64).add(1.0).unsqueeze(1);
        let loss = sorted.narrow(1, 0, 3).square().mean(..);
        loss.add(&y.matmul(head).topk(1, 0).0.sum(..)).add(&counted.div(&seen).square().sum(..))
    })
}

/// Products in `bf16`, sums of them in `f32`, leaves in `f64`.
pub(super) fn mixed() -> Net {
    net(parameters([&[5, 12], &[12, 3]]), |weights| {
        let _batch = signal::scope("batch");
        let [up, down] = [0, 1].map(|i| weights[i].to_dtype(DType::F32));
        let x = data(&[7, 5]).to_dtype(DType::F32);
        let logits = autocast(DType::Bf16, || {
            let hidden = columns(&x, &up).tanh();
            let _second = signal::scope("second");
            hidden.matmul(&down)
        });
        f::cross_entropy(&logits.to_dtype(DType::F32), &classes(7, 3)).to_dtype(DType::F64)
    })
}
