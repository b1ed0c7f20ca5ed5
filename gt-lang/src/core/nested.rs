//! Numbers and arrays of arrays as tensors: `DynTensor::from([[1.0, 2.0], [3.0, 4.0]])`, PyTorch's
//! `torch.tensor`.
//!
//! Guarantees: the shape is that of the arrays, the dtype that of the numbers. Literals are `f64`
//! and `i32` unless they say otherwise (`1.0f32`). Lists whose lengths are known at run time only
//! go through [`DynTensor::from_vec`].

use gt_ir::Element;

use super::DynTensor;

/// A number, or arrays of them: what [`DynTensor::from`] takes.
#[diagnostic::on_unimplemented(
    message = "a tensor cannot be made of `{Self}`",
    note = "arrays of `f32`, `f64`, `i64`, `i32`, `u8` or `bool` can; for vectors there is \
            `from_vec`"
)]
pub trait Nested {
    /// What they are arrays of.
    type Element: Element;
    /// Appends the lengths, outermost first.
    fn sizes(sizes: &mut Vec<usize>);
    /// Appends the elements in row-major order.
    fn gather(self, elements: &mut Vec<Self::Element>);
}

macro_rules! numbers {
    ($($t:ty),+) => {$(
        #[diagnostic::do_not_recommend]
        impl Nested for $t {
            type Element = $t;
            fn sizes(_: &mut Vec<usize>) {}
            fn gather(self, elements: &mut Vec<$t>) {
                elements.push(self);
            }
        }
    )+};
}
numbers!(f32, f64, i64, i32, u8, bool);

#[diagnostic::do_not_recommend]
impl<A: Nested, const N: usize> Nested for [A; N] {
    type Element = A::Element;
    fn sizes(sizes: &mut Vec<usize>) {
        sizes.push(N);
        A::sizes(sizes);
    }
    fn gather(self, elements: &mut Vec<A::Element>) {
        self.into_iter().for_each(|part| part.gather(elements));
    }
}

/// A tensor of these numbers, which are copied.
///
/// ```no_run
/// # use gt_lang::DynTensor;
/// let x = DynTensor::from([[1.0f32, 2.0, 3.0], [4.0, 5.0, 6.0]]);
/// assert_eq!(x.sizes(), [2, 3]);
/// ```
impl<A: Nested> From<A> for DynTensor {
    #[track_caller]
    fn from(numbers: A) -> DynTensor {
        let (mut sizes, mut elements) = (Vec::new(), Vec::new());
        A::sizes(&mut sizes);
        numbers.gather(&mut elements);
        DynTensor::from_vec(elements, &sizes)
    }
}
