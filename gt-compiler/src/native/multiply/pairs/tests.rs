//! Products of random matrices, however they lie, beside fused sums.
#![expect(unsafe_code, reason = "multiplies raw matrices")]

use gt_ir::testing::Source;

use super::{super::any_strides, *};

/// Memory of a matrix, and the strides by which it lies there.
struct Held {
    memory: Vec<bf16>,
    strides: [usize; 2],
}

impl Held {
    fn random([rows, columns]: [usize; 2], kind: usize, source: &mut Source<'_>) -> Held {
        let strides = any_strides([rows, columns], source);
        let n = rows * strides[0] + columns * strides[1];
        let special = [0.0, -0.0, f32::INFINITY, f32::NAN, 1e18, 3e38];
        let number = |_| match (source.below(400), kind) {
            (n @ 0..6, _) => special[n],
            (6..12, 2) => 1e-39,
            (_, 0) => source.below(2001) as f32 / 7.0 - 140.0,
            _ => (source.below(2001) as f32 - 1000.0) * 1e-22,
        };
        Held { memory: (0..n).map(number).map(bf16::from_f32).collect(), strides }
    }

    fn strided(&self) -> Strided<bf16> {
        let [row, column] = self.strides.map(|n| n as isize);
        Strided { at: self.memory.as_ptr(), row, column }
    }

    fn has_tiny(&self) -> bool {
        self.memory.iter().any(|x| *x != bf16::ZERO && x.to_f32().abs() < f32::MIN_POSITIVE)
    }

    fn element(&self, row: usize, column: usize) -> f32 {
        self.memory[row * self.strides[0] + column * self.strides[1]].to_f32()
    }
}

/// The sum of a row and a column: that of fused multiply-adds in each part of the depth, where
/// sums below 2^-126 are zeros.
fn sum(terms: impl ExactSizeIterator<Item = (f32, f32)>) -> bf16 {
    let terms: Vec<(f32, f32)> = terms.collect();
    let flushed = |sum: f32| if sum.abs() < f32::MIN_POSITIVE { 0.0 } else { sum };
    let part = |terms: &[(f32, f32)]| {
        terms.iter().fold(0.0, |sum: f32, (x, y)| flushed(x.mul_add(*y, sum)))
    };
    bf16::from_f32(flushed(terms.chunks(512).map(part).fold(0.0, |sum, part| sum + part)))
}

/// Small numbers, numbers whose products are near 2^-126, and some that are smaller themselves.
#[test]
fn bits_are_those_of_fused_sums_of_widened_operands() {
    if !is_here() {
        return;
    }
    let mut source = Source::from_seed(13);
    let mut n_tiny = 0;
    for _ in 0..800 {
        let mut size = || [1, 2, 3, 4, 8, 9, 31, 33, 130, 200, 261][source.below(11)];
        let size @ [m, n, k] = [size(), size(), [1, 2, 5, 32, 67, 300, 513, 1300][size() % 8]];
        let kind = source.below(3);
        let mut held = |size| Held::random(size, kind, &mut source);
        let (lhs, rhs) = (held([m, k]), held([k, n]));
        n_tiny += usize::from(lhs.has_tiny() || rhs.has_tiny());
        let row = n + source.below(3);
        let untouched = bf16::from_f32(7.5);
        let mut out = vec![untouched; m * row];
        let (a, b) = (lhs.strided(), rhs.strided());
        // SAFETY: the operands have these rows and columns, and so has the result.
        unsafe { multiply(size, &a, &b, out.as_mut_ptr(), row as isize) };
        for (i, j) in (0..m).flat_map(|i| (0..row).map(move |j| (i, j))) {
            let terms = (0..k).map(|p| (lhs.element(i, p), rhs.element(p, j)));
            let want = if j < n { sum(terms) } else { untouched };
            let got = out[i * row + j];
            assert!(
                want == got || want.is_nan() && got.is_nan(),
                "{size:?}, strides {:?} and {:?}: ({i}, {j}) is {got}, not {want}",
                lhs.strides,
                rhs.strides
            );
        }
    }
    assert!(n_tiny > 100, "{n_tiny} products have tiny operands");
}

/// A tiny operand is found wherever it lies.
#[test]
fn a_tiny_number_counts_at_any_place() {
    for m in [2, 9].into_iter().filter(|_| is_here()) {
        let [n, k] = [70, 37];
        for (side, lines) in [m, n].into_iter().enumerate() {
            for at in 0..lines * k {
                let mut operands = [m, n].map(|lines| vec![bf16::ZERO; lines * k]);
                operands[side][at] = bf16::from_bits([1, 0x7F, 0x8001, 0x807F][at % 4]);
                let small = operands[side][at].to_f32();
                operands[1 - side].fill(bf16::from_f32(1e30));
                for turned in [false, true] {
                    // The terms of a line lie side by side, or the lines.
                    let strided = |i: usize, lines: usize| {
                        let [row, column] =
                            if turned { [1, lines as isize] } else { [k as isize, 1] };
                        Strided { at: operands[i].as_ptr(), row, column }
                    };
                    let (a, b) = (strided(0, m), strided(1, n));
                    let b = Strided { row: b.column, column: b.row, ..b };
                    let mut out = vec![bf16::ZERO; m * n];
                    // SAFETY: the operands have these rows and columns, and so has the result.
                    unsafe { multiply([m, n, k], &a, &b, out.as_mut_ptr(), n as isize) };
                    let line = if turned { at % lines } else { at / k };
                    let want = bf16::from_f32(small * bf16::from_f32(1e30).to_f32());
                    for (i, j) in (0..m).flat_map(|i| (0..n).map(move |j| (i, j))) {
                        let is_there = [i, j][side] == line;
                        assert_eq!(out[i * n + j], if is_there { want } else { bf16::ZERO });
                    }
                }
            }
        }
    }
}
