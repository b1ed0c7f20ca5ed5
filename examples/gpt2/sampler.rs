//! Sampling by temperature and top-k: a draw among the likeliest tokens.

/// Chooses tokens by their scores.
pub struct Sampler {
    temperature: f64,
    top: usize,
    state: u64,
}

impl Sampler {
    /// Takes the likeliest token at temperature 0, else draws among the `top` likeliest.
    pub fn new(temperature: f64, top: usize, seed: u64) -> Sampler {
        Sampler { temperature, top: top.max(1), state: seed }
    }

    /// The next token.
    pub fn choose(&mut self, scores: &[f32]) -> i64 {
        let mut best: Vec<usize> = (0..scores.len()).collect();
        let top = if self.temperature > 0.0 { self.top.min(scores.len()) } else { 1 };
        let order = |a: &usize, b: &usize| scores[*b].total_cmp(&scores[*a]).then(a.cmp(b));
        if top < best.len() {
            best.select_nth_unstable_by(top - 1, order);
        }
        best.truncate(top);
        best.sort_unstable_by(order);
        if let [one] = best[..] {
            return one as i64;
        }
        let most = best.first().map_or(0.0, |&i| scores[i]);
        let weight = |&i: &usize| (f64::from(scores[i] - most) / self.temperature).exp();
        let weights: Vec<f64> = best.iter().map(weight).collect();
        let mut left = self.unit() * weights.iter().sum::<f64>();
        let drawn = weights.iter().position(|w| {
            left -= w;
            left < 0.0
        });
        best.get(drawn.unwrap_or(0)).map_or(0, |&i| i as i64)
    }

    /// A number in [0, 1) by SplitMix64 (Steele, Lea and Flood 2014).
    fn unit(&mut self) -> f64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) >> 11) as f64 / (1u64 << 53) as f64
    }
}
