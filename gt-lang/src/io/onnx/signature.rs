//! What functions that are exported take and give: tensors of either kind in tuples and lists.

use crate::core::DynTensor;
use crate::error::Result;
use crate::typed::AnyTensor;

/// The inputs of a function that is exported: `(&x, &y)`, or a slice of `&DynTensor`.
pub trait Inputs {
    /// What the function gets: tensors like them.
    type Given;
    /// The inputs.
    fn tensors(&self) -> Vec<DynTensor>;
    /// What stands for them, in their order.
    fn given(stand_ins: Vec<DynTensor>) -> Self::Given;
}

impl Inputs for &[&DynTensor] {
    type Given = Vec<DynTensor>;
    fn tensors(&self) -> Vec<DynTensor> {
        self.iter().map(|x| (*x).clone()).collect()
    }
    fn given(stand_ins: Vec<DynTensor>) -> Vec<DynTensor> {
        stand_ins
    }
}

/// The results of a function that is exported: a tensor, a tuple or a vector of them, or a `Result`
/// with these.
pub trait Outputs {
    /// The results.
    ///
    /// # Errors
    /// That of the function.
    fn tensors(self) -> Result<Vec<DynTensor>>;
}

impl<T: AnyTensor> Outputs for T {
    fn tensors(self) -> Result<Vec<DynTensor>> {
        Ok(vec![self.inner().clone()])
    }
}

impl<T: AnyTensor> Outputs for Vec<T> {
    fn tensors(self) -> Result<Vec<DynTensor>> {
        Ok(self.iter().map(|x| x.inner().clone()).collect())
    }
}

impl<T: Outputs> Outputs for Result<T> {
    fn tensors(self) -> Result<Vec<DynTensor>> {
        self?.tensors()
    }
}

macro_rules! tuples {
    ($(($($name:ident),*)),+ $(,)?) => {$(
        impl<$($name: AnyTensor),*> Inputs for ($(&$name,)*) {
            type Given = ($($name,)*);
            fn tensors(&self) -> Vec<DynTensor> {
                #[allow(non_snake_case, reason = "the names of the types stand for the values")]
                let ($($name,)*) = self;
                vec![$($name.inner().clone()),*]
            }
            fn given(stand_ins: Vec<DynTensor>) -> Self::Given {
                let mut all = stand_ins.into_iter();
                // There is one for each input.
                ($($name::like(all.next().unwrap_or_else(|| DynTensor::from(0.0f32))),)*)
            }
        }

        impl<$($name: AnyTensor),*> Outputs for ($($name,)*) {
            fn tensors(self) -> Result<Vec<DynTensor>> {
                #[allow(non_snake_case, reason = "the names of the types stand for the values")]
                let ($($name,)*) = self;
                Ok(vec![$($name.inner().clone()),*])
            }
        }
    )+};
}
tuples! { (A), (A, B), (A, B, C), (A, B, C, D), (A, B, C, D, E), (A, B, C, D, E, F) }
