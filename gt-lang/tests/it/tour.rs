//! A model of the usual kind, typed: named and static dimensions, layers, a block generic in its
//! dimensions, training.

use gt::prelude::*;

dims! { Batch, Seq } // Named dimensions, one zero-sized type each.
const HID: usize = 16;

/// A plain struct; the derive adds parameters with dotted names, `Mlp::new()` and a summary.
#[derive(Module)]
struct Mlp {
    fc1: Linear<N<64>, N<HID>>,
    ln: LayerNorm<N<HID>>,
    fc2: Linear<N<HID>, N<10>>,
}

impl Mlp {
    /// The signature is the contract; everything inside is inferred.
    fn forward(&self, x: &T![Batch, 64]) -> T![Batch, 10] {
        let h = self.fc1.forward(x).relu();
        let h = &h + self.ln.forward(&h);
        self.fc2.forward(&h)
    }
}

#[derive(Module)]
struct Block<H: Dim> {
    ln: LayerNorm<H>,
    q: Linear<H, H>,
    k: Linear<H, H>,
    v: Linear<H, H>,
    o: Linear<H, H>,
}

impl<H: Dim> Block<H> {
    /// Generic over batch, sequence and width; `Dim` is the only bound to write.
    fn forward<B: Dim, S: Dim>(&self, x: &T![B, S, H]) -> T![B, S, H] {
        let h = self.ln.forward(x);
        let (q, k, v) = (self.q.forward(&h), self.k.forward(&h), self.v.forward(&h));
        let weights = (q.matmul(&k.t()) * 0.125).softmax_last();
        x + self.o.forward(&weights.matmul(&v))
    }
}

#[derive(Module)]
struct Gpt {
    embed: Embedding<N<100>, N<8>>,
    #[module(init = repeat(2))]
    blocks: Vec<Block<N<8>>>, // Layers are values: a list of one type, no nest of tuples.
    head: Linear<N<8>, N<100>>,
}

impl Gpt {
    fn forward(&self, words: &T![Batch, Seq; Int]) -> T![Batch, Seq, 100] {
        let x = self.embed.forward(words);
        let h = self.blocks.iter().fold(x, |h, block| block.forward(&h));
        seq!(h => Gelu, self.head)
    }
}

pub(crate) fn main() -> Result<()> {
    manual_seed(0);
    let net = Mlp::new();
    let mut optimizer =
        AdamW::new(net.parameters(), AdamWConfig { lr: 1e-2, ..AdamWConfig::default() });
    // The sizes of run-time dimensions are given at run time.
    let x: T![Batch, 64] = Tensor::randn_with([32]);
    let classes: T![Batch; Int] = Tensor::randint_with(0, 10, [32]);
    for _ in 0..5 {
        let loss = net.forward(&x).cross_entropy(&classes);
        optimizer.zero_grad();
        loss.backward()?;
        // What was recorded wrongly surfaces at a read, with op, shapes and line.
        optimizer.step()?;
    }
    let accuracy = net.forward(&x).argmax_last().eq(&classes).float().mean();
    assert!(accuracy.item()? > 0.2);

    let words: T![Batch, Seq; Int] = Tensor::randint_with(0, 100, [2, 7]);
    let logits = Gpt::new().forward(&words);
    assert_eq!(logits.sizes(), [2, 7, 100]);

    let raw: T![?, ?] = Tensor::randn_with([3, 784]); // Rank known, sizes at run time.
    let rows: T![Batch, 784] = raw.assume(); // Narrowing: checked when recorded.
    let images: T![Batch, 1, 28, 28] = rows.reshape(); // `Batch` keeps its size.
    let flat: T![Batch, { 28 * 28 }] = images.reshape(); // Arithmetic goes in the annotation.
    let bias: T![784] = Tensor::ones();
    let shifted: T![Batch, 784] = flat + &bias * 2.0; // Broadcasting, from the right.
    assert_eq!(shifted.to_vec::<f32>()?.len(), 3 * 784);
    Ok(())
}
