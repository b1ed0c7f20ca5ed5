//! Products of random matrices, however they lie, beside fused sums.
#![expect(unsafe_code, reason = "multiplies raw matrices")]

use gt_ir::testing::Source;

use super::*;

/// Memory of a matrix, and the strides by which it lies there.
struct Held {
    memory: Vec<bf16>,
    strides: [usize; 2],
}

impl Held {
    fn random([rows, columns]: [usize; 2], source: &mut Source<'_>) -> Held {
        let apart = source.below(3);
        let strides = match source.below(3) {
            0 => [columns + apart, 1],
            1 => [1, rows + apart],
            _ => [2 * columns + apart, 2],
        };
        let n = rows * strides[0] + columns * strides[1];
        let special = [0.0, -0.0, f32::INFINITY, f32::NAN, 1e18, 3e38];
        let number = |_| match source.below(400) {
            n @ 0..6 => special[n],
            _ => source.below(2001) as f32 / 7.0 - 140.0,
        };
        Held { memory: (0..n).map(number).map(bf16::from_f32).collect(), strides }
    }

    fn strided(&self) -> Strided<bf16> {
        let [row, column] = self.strides.map(|n| n as isize);
        Strided { at: self.memory.as_ptr(), row, column }
    }

    fn element(&self, row: usize, column: usize) -> f32 {
        self.memory[row * self.strides[0] + column * self.strides[1]].to_f32()
    }
}

#[test]
fn a_tiny_operand_is_found_wherever_it_lies() {
    let has_tiny = |[m, n, k]: [usize; 3], side: usize, at: usize, bits: u16| {
        let mut operands = [m, n].map(|lines| vec![bf16::ONE; lines * k]);
        operands[side][at] = bf16::from_bits(bits);
        // The terms of a line lie side by side, or the lines.
        [false, true].map(|turned| {
            let strides = |lines: usize| if turned { [1, lines] } else { [k, 1] };
            let [a, b] = [(0, m), (1, n)].map(|(i, lines)| {
                let [row, column] = strides(lines).map(|n| n as isize);
                Strided { at: operands[i].as_ptr(), row, column }
            });
            let b = Strided { row: b.column, column: b.row, ..b };
            let mut out = vec![bf16::ZERO; m * n];
            // SAFETY: the operands have these rows and columns, and so has the result.
            unsafe { !multiply([m, n, k], &a, &b, out.as_mut_ptr(), n as isize) }
        })
    };
    for m in [2, 9].into_iter().filter(|_| is_here()) {
        let size @ [m, n, k] = [m, 70, 37];
        for (side, lines) in [m, n].into_iter().enumerate() {
            for at in 0..lines * k {
                for bits in [1, 0x7F, 0x8001, 0x807F] {
                    assert_eq!(has_tiny(size, side, at, bits), [true; 2], "{side} {at}");
                }
            }
            for bits in [0, 0x80, 0x8000, 0x8080, 0x7F80, 0xFFFF] {
                assert_eq!(has_tiny(size, side, 5, bits), [false; 2], "{bits}");
            }
        }
    }
}

#[test]
fn bits_are_those_of_fused_sums_of_widened_operands() {
    if !is_here() {
        return;
    }
    let mut source = Source::from_seed(13);
    for _ in 0..600 {
        let mut size = || [1, 2, 3, 4, 8, 9, 31, 33, 130, 200, 261][source.below(11)];
        let size @ [m, n, k] = [size(), size(), [1, 2, 5, 32, 67, 256, 300, 515][size() % 8]];
        let (lhs, rhs) = (Held::random([m, k], &mut source), Held::random([k, n], &mut source));
        let row = n + source.below(3);
        let mut out = vec![bf16::from_f32(7.5); m * row];
        let (a, b) = (lhs.strided(), rhs.strided());
        // SAFETY: the operands have these rows and columns, and so has the result.
        assert!(unsafe { multiply(size, &a, &b, out.as_mut_ptr(), row as isize) });
        for (i, j) in (0..m).flat_map(|i| (0..row).map(move |j| (i, j))) {
            let terms = (0..k).filter(|_| j < n).map(|p| (lhs.element(i, p), rhs.element(p, j)));
            let sum = terms.fold(0.0, |sum, (x, y)| x.mul_add(y, sum));
            let want = bf16::from_f32(if j < n { sum } else { 7.5 });
            let got = out[i * row + j];
            assert!(
                want.to_bits() == got.to_bits() || want.is_nan() && got.is_nan(),
                "{size:?}, strides {:?} and {:?}: ({i}, {j}) is {got}, not {want}",
                lhs.strides,
                rhs.strides
            );
        }
    }
}
