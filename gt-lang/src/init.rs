//! Initialization by name, PyTorch's `torch.nn.init`: each function gives a parameter new values.
//!
//! Guarantees: values are drawn from the parameter's session, so a seed fixes them; nothing is
//! tracked; what a function cannot initialize is an error, and the parameter stays as it is.
//!
//! ```no_run
//! # extern crate gt_lang as gt;
//! # use gt::prelude::*;
//! let net: Linear<N<3>, N<2>> = Linear::new();
//! init::xavier_uniform(&net.weight)?;
//! net.apply(|name, p| if name.ends_with("bias") { init::zeros(p) } else { Ok(()) })?;
//! # Ok::<(), gt::Error>(())
//! ```

use std::panic::Location;

use crate::core::DynTensor;
use crate::error::{Error, ErrorKind, Result};
use crate::linalg::polar::{lying, polar};
use crate::no_grad::NoGrad;
use crate::typed::AnyTensor;

/// What stands between two layers; it decides by how much weights are scaled.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Nonlinearity {
    /// Nothing, or a sigmoid: a gain of 1.
    Linear,
    /// `tanh`: 5/3.
    Tanh,
    /// `relu`: the root of 2.
    Relu,
    /// `leaky_relu` of this slope: the root of `2 / (1 + slope^2)`.
    LeakyRelu(f64),
    /// `selu`: 3/4.
    Selu,
}

impl Nonlinearity {
    /// PyTorch's `calculate_gain`.
    #[must_use]
    pub fn gain(self) -> f64 {
        match self {
            Nonlinearity::Linear => 1.0,
            Nonlinearity::Tanh => 5.0 / 3.0,
            Nonlinearity::Relu => 2.0_f64.sqrt(),
            Nonlinearity::LeakyRelu(slope) => (2.0 / (1.0 + slope * slope)).sqrt(),
            Nonlinearity::Selu => 0.75,
        }
    }
}

/// Which side of a layer keeps its variance.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Fan {
    /// The values on the way forward.
    #[default]
    In,
    /// The gradients on the way back.
    Out,
}

/// Settings of [`kaiming_uniform`] and [`kaiming_normal`]; the default is PyTorch's.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Kaiming {
    /// Which side of the layer keeps its variance.
    pub mode: Fan,
    /// What follows the layer.
    pub nonlinearity: Nonlinearity,
}

impl Default for Kaiming {
    fn default() -> Self {
        Kaiming { mode: Fan::In, nonlinearity: Nonlinearity::LeakyRelu(0.0) }
    }
}

/// All `value`.
///
/// # Errors
/// The tensor is no leaf.
#[track_caller]
pub fn constant<T: AnyTensor>(parameter: &T, value: f64) -> Result<()> {
    fill(parameter, |p| Ok(p.full_like(value)))
}

/// All zeros.
///
/// # Errors
/// As [`constant`].
#[track_caller]
pub fn zeros<T: AnyTensor>(parameter: &T) -> Result<()> {
    constant(parameter, 0.0)
}

/// All ones.
///
/// # Errors
/// As [`constant`].
#[track_caller]
pub fn ones<T: AnyTensor>(parameter: &T) -> Result<()> {
    constant(parameter, 1.0)
}

/// Uniform in `[low, high)`.
///
/// # Errors
/// As [`constant`].
#[track_caller]
pub fn uniform<T: AnyTensor>(parameter: &T, low: f64, high: f64) -> Result<()> {
    fill(parameter, |p| Ok(p.rand_like() * (high - low) + low))
}

/// Normal with this mean and standard deviation.
///
/// # Errors
/// As [`constant`].
#[track_caller]
pub fn normal<T: AnyTensor>(parameter: &T, mean: f64, std: f64) -> Result<()> {
    fill(parameter, |p| Ok(p.randn_like() * std + mean))
}

/// Normal, and drawn again outside `low..=high`: PyTorch's defaults are a mean of 0, a standard
/// deviation of 1 and bounds of -2 and 2.
///
/// # Errors
/// As [`constant`]; also bounds the wrong way round, or a deviation that is not positive.
#[track_caller]
pub fn trunc_normal<T: AnyTensor>(
    parameter: &T,
    mean: f64,
    std: f64,
    bounds: [f64; 2],
) -> Result<()> {
    let [low, high] = bounds;
    if std <= 0.0 || low >= high {
        return Err(refused(
            format!("trunc_normal: a deviation of {std} between {low} and {high} has no numbers"),
            "the deviation is positive, and the lower bound comes first",
        ));
    }
    // By inversion: uniform between the probabilities of both bounds.
    let at = |bound: f64| libm::erf((bound - mean) / std / std::f64::consts::SQRT_2);
    let (from, to) = (at(low), at(high));
    fill(parameter, |p| {
        let normal = (p.rand_like() * (to - from) + from).erfinv() * (std * 2.0_f64.sqrt()) + mean;
        Ok(normal.clamp(low, high))
    })
}

/// Uniform, by both fans (Glorot and Bengio 2010), with a gain of 1.
///
/// # Errors
/// The tensor is no leaf of two axes or more.
#[track_caller]
pub fn xavier_uniform<T: AnyTensor>(parameter: &T) -> Result<()> {
    xavier_uniform_with(parameter, Nonlinearity::Linear)
}

/// [`xavier_uniform`] with the gain of a nonlinearity.
///
/// # Errors
/// As [`xavier_uniform`].
#[track_caller]
pub fn xavier_uniform_with<T: AnyTensor>(parameter: &T, after: Nonlinearity) -> Result<()> {
    let [fan_in, fan_out] = fans("xavier_uniform", parameter.inner())?;
    let bound = after.gain() * (6.0 / (fan_in + fan_out)).sqrt();
    uniform(parameter, -bound, bound)
}

/// Normal, by both fans (Glorot and Bengio 2010), with a gain of 1.
///
/// # Errors
/// As [`xavier_uniform`].
#[track_caller]
pub fn xavier_normal<T: AnyTensor>(parameter: &T) -> Result<()> {
    xavier_normal_with(parameter, Nonlinearity::Linear)
}

/// [`xavier_normal`] with the gain of a nonlinearity.
///
/// # Errors
/// As [`xavier_uniform`].
#[track_caller]
pub fn xavier_normal_with<T: AnyTensor>(parameter: &T, after: Nonlinearity) -> Result<()> {
    let [fan_in, fan_out] = fans("xavier_normal", parameter.inner())?;
    normal(parameter, 0.0, after.gain() * (2.0 / (fan_in + fan_out)).sqrt())
}

/// Uniform, by one fan (He et al. 2015).
///
/// # Errors
/// As [`xavier_uniform`].
#[track_caller]
pub fn kaiming_uniform<T: AnyTensor>(parameter: &T, how: Kaiming) -> Result<()> {
    let std = kaiming_std("kaiming_uniform", parameter.inner(), how)?;
    let bound = 3.0_f64.sqrt() * std;
    uniform(parameter, -bound, bound)
}

/// Normal, by one fan (He et al. 2015).
///
/// # Errors
/// As [`xavier_uniform`].
#[track_caller]
pub fn kaiming_normal<T: AnyTensor>(parameter: &T, how: Kaiming) -> Result<()> {
    let std = kaiming_std("kaiming_normal", parameter.inner(), how)?;
    normal(parameter, 0.0, std)
}

/// Rows (columns, where there are fewer) that are orthogonal and of length `gain`; axes behind the
/// first count as one (Saxe et al. 2013).
///
/// It is the orthogonal factor of the polar decomposition of normal numbers, which is uniform among
/// orthogonal matrices as PyTorch's is, and takes products alone: about fifty of them.
///
/// # Errors
/// As [`xavier_uniform`].
#[track_caller]
pub fn orthogonal<T: AnyTensor>(parameter: &T, gain: f64) -> Result<()> {
    fans("orthogonal", parameter.inner())?;
    fill(parameter, |p| {
        let drawn = p.randn_like().flatten(1, -1);
        Ok((lying(&drawn, polar) * gain).reshape(p.shape()))
    })
}

/// Gives a parameter the values that a function makes of it.
#[track_caller]
fn fill<T: AnyTensor>(
    parameter: &T,
    values: impl FnOnce(&DynTensor) -> Result<DynTensor>,
) -> Result<()> {
    let _guard = NoGrad::enter();
    let parameter = parameter.inner();
    parameter.assign(&values(parameter)?)
}

/// How many numbers go into each output, and how many outputs each input reaches.
#[track_caller]
fn fans(name: &str, parameter: &DynTensor) -> Result<[f64; 2]> {
    match parameter.sizes()[..] {
        [outputs, inputs, ref kernel @ ..] => {
            let kernel: usize = kernel.iter().product();
            Ok([inputs * kernel, outputs * kernel].map(|fan| fan.max(1) as f64))
        }
        _ => Err(refused(
            format!("{name}: {} has no inputs and outputs", parameter.ty()),
            "weights of two axes or more have them; give others `zeros` or `normal`",
        )),
    }
}

#[track_caller]
fn kaiming_std(name: &str, parameter: &DynTensor, how: Kaiming) -> Result<f64> {
    let [fan_in, fan_out] = fans(name, parameter)?;
    let fan = match how.mode {
        Fan::In => fan_in,
        Fan::Out => fan_out,
    };
    Ok(how.nonlinearity.gain() / fan.sqrt())
}

#[track_caller]
fn refused(message: String, hint: &str) -> Error {
    Error::new(ErrorKind::Operation, message, Location::caller()).hint(hint)
}
