//! The handwritten digits of `examples/data/digits.txt`, split into a training and a test set.
//!
//! The split is always the same. A seed determines only the order of the training images.

/// Number of pixels of an image.
pub const PIXELS: usize = 64;

/// Images and their labels.
#[derive(Default)]
pub struct Digits {
    /// `PIXELS` numbers for each image, from 0 to 1.
    pub images: Vec<f32>,
    /// One digit for each image.
    pub labels: Vec<i64>,
}

impl Digits {
    /// Number of images.
    pub fn len(&self) -> usize {
        self.labels.len()
    }

    /// Copies of the images at these positions.
    pub fn pick(&self, positions: &[usize]) -> Digits {
        let mut picked = Digits::default();
        for &i in positions {
            picked.images.extend_from_slice(&self.images[i * PIXELS..(i + 1) * PIXELS]);
            picked.labels.push(self.labels[i]);
        }
        picked
    }
}

/// The training set, four fifths of the images, and the test set, the other fifth.
pub fn load() -> (Digits, Digits) {
    let all = parse(include_str!("../data/digits.txt"));
    let mut positions: Vec<usize> = (0..all.len()).collect();
    Shuffler::new(0).shuffle(&mut positions);
    let (test, train) = positions.split_at(all.len() / 5);
    (all.pick(train), all.pick(test))
}

/// Parses one image from each line: the digit, a space, 64 characters of `0123456789abcdefg`.
fn parse(text: &str) -> Digits {
    let mut digits = Digits::default();
    for line in text.lines() {
        let mut values = line.chars().filter_map(|c| c.to_digit(17));
        digits.labels.extend(values.next().map(i64::from));
        digits.images.extend(values.map(|darkness| darkness as f32 / 16.0));
    }
    digits
}

/// Shuffles by a seed, equally on every machine, with the generator SplitMix64.
pub struct Shuffler(u64);

impl Shuffler {
    pub fn new(seed: u64) -> Shuffler {
        Shuffler(seed)
    }

    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((u128::from(z ^ (z >> 31)) * bound as u128) >> 64) as usize
    }

    /// Shuffles by the algorithm of Fisher and Yates.
    pub fn shuffle(&mut self, items: &mut [usize]) {
        for last in (1..items.len()).rev() {
            items.swap(last, self.below(last + 1));
        }
    }
}
