//! Matrices of small integers: [`Quantized`], the weight of a linear layer in less than a third or
//! a fifth of the memory.
//!
//! Numbers of a row that stand side by side make a group. A group has a scale, and maybe a smallest
//! number: a number is `scale * (q - zero) - minimum`, where `q` is an integer of 4 or 8 bits. With
//! 8 bits `zero` is 128; with 4 bits it is 8, or 0 if groups have smallest numbers. These are the
//! formulas of `ggml` for `Q8_0`, `Q4_0`, `Q4_K` and `Q6_K`.
//!
//! Guarantees: a product with few rows reads the integers as they are, so that it moves as much
//! less memory; a product with more rows makes floats of them first. Both compute in `f32`.
//! Gradients flow to the other operand. Does not: compute with integers, or learn.

use gt_ir::DType;
use smallvec::SmallVec;

use crate::autograd::refused;
use crate::core::DynTensor;
use crate::error::Result;

/// The most rows of which each reads the integers by itself.
const FEW_ROWS: usize = 4;

/// How a matrix is quantized.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QuantizeConfig {
    /// Bits of a number: 8 or 4.
    pub bits: u8,
    /// Numbers of a group.
    pub group: usize,
}

impl Default for QuantizeConfig {
    fn default() -> Self {
        QuantizeConfig { bits: 8, group: 32 }
    }
}

/// A matrix `[rows, columns]` of small integers with scales.
///
/// ```no_run
/// # extern crate gt_lang as gt;
/// # use gt::prelude::*;
/// use gt::quantized::{QuantizeConfig, Quantized};
/// let weight = DynTensor::randn([4096, 4096], DType::F32); // outputs first, as in `Linear`
/// let small = Quantized::of(&weight, QuantizeConfig { bits: 4, ..Default::default() })?;
/// let y = small.linear(&DynTensor::randn([1, 4096], DType::F32)); // x W^T
/// # Ok::<(), gt::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Quantized {
    /// `u8`, `[rows, groups, group]`; of 4 bits `[rows, groups / 2, group]`: the low halves are the
    /// first groups of a row, the high halves the others.
    pub(crate) numbers: DynTensor,
    /// `[rows, groups]`.
    pub(crate) scales: DynTensor,
    /// `[rows, groups]`.
    pub(crate) minima: Option<DynTensor>,
    pub(crate) is_packed: bool,
}

/// The integer that stands for 0 where numbers are not packed.
pub(crate) const ZERO: u8 = 128;

impl Quantized {
    /// The integers nearest to the numbers of a matrix. With 8 bits, the scale of a group is its
    /// largest absolute value divided by 127. With 4 bits, its smallest number is 0 and its largest
    /// one is 15. A gradient does not flow back.
    ///
    /// # Errors
    /// `weight` is no matrix of floats, its columns are not whole groups (with 4 bits, of an even
    /// number), or `bits` is neither 8 nor 4.
    #[track_caller]
    pub fn of(weight: &DynTensor, how: QuantizeConfig) -> Result<Quantized> {
        let sizes = weight.sizes();
        let ([rows, columns], true) = (&sizes[..], weight.dtype().is_float()) else {
            let message = format!("Quantized: takes a matrix of floats, but got {}", weight.ty());
            return Err(refused(message, "weights of a linear layer are `[outputs, inputs]`"));
        };
        let n_groups = checked(*columns, how)?;
        let x = weight.detach().to_dtype(DType::F32).reshape([*rows, n_groups, how.group]);
        let quantized = if how.bits == 8 { eight(&x) } else { four(&x) };
        match quantized.numbers.error() {
            Some(error) => Err(error),
            None => Ok(quantized),
        }
    }

    /// The number of rows and of columns.
    pub fn sizes(&self) -> [usize; 2] {
        let sizes = self.numbers.sizes();
        let (rows, groups, group) = (sizes[0], self.scales.size(1), sizes[2]);
        [rows, groups * group]
    }

    /// The bits of a number.
    pub fn bits(&self) -> u8 {
        if self.is_packed { 4 } else { 8 }
    }

    /// The integer that stands for 0, or for the smallest number of a group.
    fn zero(&self) -> u8 {
        match (self.is_packed, &self.minima) {
            (false, _) => ZERO,
            (true, None) => 8,
            (true, Some(_)) => 0,
        }
    }

    /// The tensors that it consists of: the integers, `[rows, groups, group]` or half as many
    /// groups, the scales, and the smallest numbers of the groups if there are some.
    pub fn tensors(&self) -> impl Iterator<Item = &DynTensor> {
        [&self.numbers, &self.scales].into_iter().chain(&self.minima)
    }

    /// The bytes of the integers, the scales and the smallest numbers.
    pub fn bytes(&self) -> usize {
        self.tensors().map(|x| x.ty().bytes()).sum()
    }

    /// The numbers as floats, `f32[rows, columns]`.
    #[must_use]
    #[track_caller]
    pub fn dequantize(&self) -> DynTensor {
        let parts: SmallVec<[DynTensor; 2]> =
            self.parts().into_iter().map(|(at, numbers)| self.floats(&numbers, at)).collect();
        let whole = match &parts[..] {
            [one] => one.clone(),
            several => DynTensor::cat(several, 1),
        };
        whole.reshape(self.sizes())
    }

    /// `x W^T` for this matrix `W`: `[.., columns]` to `[.., rows]`, in the dtype of `x`.
    #[must_use]
    #[track_caller]
    pub fn linear(&self, x: &DynTensor) -> DynTensor {
        let [rows, columns] = self.sizes();
        let sizes = x.sizes();
        let n: usize = sizes.iter().rev().skip(1).product();
        if sizes.last() != Some(&columns) || n > FEW_ROWS {
            // The product tells of other sizes.
            return x.to_dtype(DType::F32).matmul(&self.dequantize().t()).to_dtype(x.dtype());
        }
        let (groups, group) = (self.scales.size(1), self.numbers.size(2));
        let wide = x.to_dtype(DType::F32).reshape([n, 1, groups, group]);
        let product = |(at, numbers): (usize, DynTensor)| {
            let len = numbers.size(1);
            (self.floats(&numbers, at) * wide.narrow(2, at as i64, len)).sum([-2, -1])
        };
        let products = self.parts().into_iter().map(product);
        let sum = products.reduce(|a, b| a + b);
        let sum = sum.unwrap_or_else(|| DynTensor::zeros([n, rows], DType::F32));
        let to: Vec<usize> = sizes[..sizes.len() - 1].iter().copied().chain([rows]).collect();
        sum.reshape(&to[..]).to_dtype(x.dtype())
    }

    /// The integers one a byte, `[rows, some groups, group]`, and the first group of each part.
    #[track_caller]
    fn parts(&self) -> SmallVec<[(usize, DynTensor); 2]> {
        let q = &self.numbers;
        match self.is_packed {
            true => {
                smallvec::smallvec![(0, q.bitwise_and(15)), (q.size(1), q.bitwise_right_shift(4)),]
            }
            false => smallvec::smallvec![(0, q.clone())],
        }
    }

    /// Integers of groups from `at` on as the floats that they stand for.
    #[track_caller]
    fn floats(&self, numbers: &DynTensor, at: usize) -> DynTensor {
        let of_group = |x: &DynTensor| {
            x.narrow(1, at as i64, numbers.size(1)).to_dtype(DType::F32).unsqueeze(-1)
        };
        let mut x = numbers.to_dtype(DType::F32);
        if self.zero() > 0 {
            x -= f64::from(self.zero());
        }
        let x = x * of_group(&self.scales);
        match &self.minima {
            Some(minima) => x - of_group(minima),
            None => x,
        }
    }

    /// Integers of 4 bits, one a byte, in twos; the number of groups is even.
    #[track_caller]
    pub(crate) fn packed(mut self) -> Quantized {
        let n = self.numbers.size(1);
        let half = |at: usize| self.numbers.narrow(1, at as i64, n / 2);
        self.numbers = half(0).bitwise_or(&half(n / 2).bitwise_left_shift(4));
        self.is_packed = true;
        self
    }
}

/// How many groups a row has.
#[track_caller]
fn checked(columns: usize, how: QuantizeConfig) -> Result<usize> {
    let QuantizeConfig { bits, group } = how;
    if !matches!(bits, 4 | 8) {
        let message = format!("Quantized: {bits} bits");
        return Err(refused(message, "numbers have 8 or 4 bits"));
    }
    let n_groups = columns.checked_div(group).unwrap_or(0);
    if n_groups * group != columns || n_groups == 0 {
        let message = format!("Quantized: {columns} columns are not whole groups of {group}");
        return Err(refused(message, "`group` divides the number of columns"));
    }
    if bits == 4 && n_groups % 2 == 1 {
        let message = format!("Quantized: {n_groups} groups of {group}, which is odd");
        return Err(refused(message, "with 4 bits two groups share their bytes; halve `group`"));
    }
    Ok(n_groups)
}

/// The largest absolute value of a group is 127 steps from 128.
#[track_caller]
fn eight(x: &DynTensor) -> Quantized {
    let scales = x.abs().max(-1) / 127.0;
    let steps = (x / divisor(&scales)).round().clamp(-127.0, 127.0) + f64::from(ZERO);
    Quantized { numbers: steps.to_dtype(DType::U8), scales, minima: None, is_packed: false }
}

/// From the smallest number of a group to the largest one there are 15 steps.
#[track_caller]
fn four(x: &DynTensor) -> Quantized {
    let least = x.min(-1);
    let scales = (x.max(-1) - &least) / 15.0;
    let steps = ((x - least.unsqueeze(-1)) / divisor(&scales)).round().clamp(0.0, 15.0);
    let minima = Some(least.neg());
    Quantized { numbers: steps.to_dtype(DType::U8), scales, minima, is_packed: false }.packed()
}

/// The scales of the numbers of groups; 1 in place of 0, which all numbers of a group then are.
#[track_caller]
fn divisor(scales: &DynTensor) -> DynTensor {
    scales.eq(0.0).where_(1.0, scales).unsqueeze(-1)
}

#[cfg(test)]
mod tests;
