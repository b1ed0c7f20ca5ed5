//! Further networks: convolutions with pooling, an unrolled recurrent cell, and a decoder with a
//! cache of keys and values.

use super::{classes, data, trained, watch};
use gt::functional::{Attention, Convolution, Pooling};
use gt::prelude::*;

dims! { Batch }

/// Two convolutions over images of 8x8, each followed by max pooling over 2x2.
#[derive(Module)]
struct Cnn {
    #[module(init = kernel(0.3))]
    conv1: T![4, 1, 3, 3],
    #[module(init = kernel(0.2))]
    conv2: T![6, 4, 3, 3],
    head: Linear<N<24>, N<10>>,
}

fn kernel<S: StaticShape>(deviation: f64) -> Tensor<S> {
    Tensor::from_dyn((Tensor::<S>::randn() * deviation).into_dyn().detach()).requires_grad()
}

impl Cnn {
    fn forward(&self, images: &T![Batch, 1, 8, 8]) -> T![Batch, 10] {
        let same = Convolution { padding: [1, 1], ..Convolution::default() };
        let half = Pooling::of([2, 2]);
        let x = images.conv2d(&self.conv1, None, same).relu().max_pool2d(half);
        let x = x.conv2d(&self.conv2, None, same).relu().max_pool2d(half);
        self.head.forward(&x.reshape::<shape![Batch, 24]>())
    }
}

#[test]
fn a_cnn_step() {
    watch("cnn_step", || {
        let net = Cnn::new();
        let optimizer = Sgd::new(net.parameters(), SgdConfig { lr: 0.1, ..Default::default() });
        let x: T![Batch, 1, 8, 8] = Tensor::from_vec(data(4 * 64));
        let y: T![Batch; Int] = Tensor::from_vec(classes(4));
        trained(optimizer, move || net.forward(&x).cross_entropy(&y))
    });
}

/// A long short-term memory (Hochreiter and Schmidhuber 1997), with the gates in PyTorch's order,
/// and an output layer.
#[derive(Module)]
struct Lstm {
    input: Linear<N<6>, N<32>>,
    hidden: Linear<N<8>, N<32>>,
    head: Linear<N<8>, N<10>>,
}

type State = T![Batch, 8];

impl Lstm {
    fn cell(&self, x: &T![Batch, 6], hidden: &State, cell: &State) -> (State, State) {
        let gates = self.input.forward(x) + self.hidden.forward(hidden);
        let gate = |at: usize| -> State { gates.slice_axis::<1>(8 * at..8 * (at + 1)).assume() };
        let (input, forget, new, output) = (gate(0), gate(1), gate(2), gate(3));
        let cell = forget.sigmoid() * cell + input.sigmoid() * new.tanh();
        (output.sigmoid() * cell.tanh(), cell)
    }

    /// Runs over a sequence, from its first element to its last.
    fn forward(&self, x: &T![Batch, 3, 6]) -> T![Batch, 10] {
        let nothing: State = Tensor::zeros_with([x.sizes()[0]]);
        let start = (nothing.clone(), nothing);
        let read = |(hidden, cell), at| self.cell(&x.select::<1>(at), &hidden, &cell);
        self.head.forward(&(0..3).fold(start, read).0)
    }
}

#[test]
fn an_lstm_step() {
    watch("lstm_step", || {
        let net = Lstm::new();
        let optimizer = Sgd::new(net.parameters(), SgdConfig { lr: 0.1, ..Default::default() });
        let x: T![Batch, 3, 6] = Tensor::from_vec(data(4 * 18));
        let y: T![Batch; Int] = Tensor::from_vec(classes(4));
        trained(optimizer, move || net.forward(&x).cross_entropy(&y))
    });
}

type Word = T![1; Int];

/// Keys or values of the tokens so far: 2 heads, 8 positions, width 4.
type Kept = T![1, 2, 8, 4];

/// Attention of one token to the tokens before it, and the scores of the next token.
#[derive(Module)]
struct Decoder {
    words: Embedding<N<10>, N<8>>,
    query: Linear<N<8>, N<8>>,
    key: Linear<N<8>, N<8>>,
    value: Linear<N<8>, N<8>>,
    out: Linear<N<8>, N<8>>,
}

impl Decoder {
    /// The likeliest word after this one, and the updated cache. The position is data, so every
    /// step is the same program.
    fn forward(
        &self,
        word: &Word,
        position: &Word,
        (keys, values): (&Kept, &Kept),
    ) -> (Word, Kept, Kept) {
        let x = self.words.forward(word);
        let [q, k, v] = [&self.query, &self.key, &self.value]
            .map(|part| part.forward(&x).reshape::<shape![1, 2, 1, 4]>());
        let (keys, values) =
            (keys.index_copy::<2, _>(position, &k), values.index_copy::<2, _>(position, &v));
        let places: T![8; Int] = Tensor::arange();
        let seen = places.le(position);
        let how = Attention { mask: Some(seen.as_dyn()), ..Attention::default() };
        let mixed = q.scaled_dot_product_attention(&keys, &values, how);
        let x = x + self.out.forward(&mixed.reshape::<shape![1, 8]>());
        (x.matmul(&self.words.weight.t()).argmax_last(), keys, values)
    }
}

#[test]
fn a_decoder_step() {
    watch("decoder_step", || {
        let net = Decoder::new();
        let [mut keys, mut values]: [Kept; 2] = [Tensor::zeros(), Tensor::zeros()];
        let mut word: Word = Tensor::ones();
        let mut position: Word = Tensor::zeros();
        Box::new(move || {
            (word, keys, values) = no_grad(|| net.forward(&word, &position, (&keys, &values)));
            position = &position + 1;
            word.to_vec::<i64>().map(drop)
        })
    });
}
