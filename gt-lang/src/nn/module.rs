//! `Module`: what a model is. A tree of named parts, whose leaves are tensors.
//!
//! Guarantees: parameters come in the order of the fields, under dotted names as in PyTorch's
//! `state_dict` (`blocks.0.fc1.weight`); a tensor in a model is a parameter when it requires a
//! gradient, else a buffer. It prescribes no `forward`: a model's forward is an ordinary method
//! with the types its author wants.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::panic::Location;
use std::sync::{Mutex, PoisonError};

use gt_ir::DType;

use super::init::Init;
use crate::core::DynTensor;
use crate::error::{Error, ErrorKind, Result};
use crate::no_grad::NoGrad;
use crate::typed::{Kind, Shape, Tensor};

/// Whether layers behave as in training or as in use (dropout and its like).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Training.
    Train,
    /// Evaluation: nothing random, nothing learned.
    Eval,
}

/// A part of a model: a layer, a struct of parts with `#[derive(Module)]`, or a tensor.
///
/// ```no_run
/// # extern crate gt_lang as gt;
/// # use gt::prelude::*;
/// dims! { Batch }
///
/// #[derive(Module)]
/// struct Mlp {
///     fc1: Linear<N<784>, N<128>>,
///     fc2: Linear<N<128>, N<10>>,
/// }
///
/// impl Mlp {
///     fn forward(&self, x: &T![Batch, 784]) -> T![Batch, 10] {
///         seq!(x => self.fc1, Relu, self.fc2)
///     }
/// }
///
/// let net = Mlp::new(); // PyTorch's default initialization
/// println!("{net}"); // the layers with their parameter counts
/// let optimizer = AdamW::new(net.parameters(), AdamWConfig::default());
/// let state = net.state_dict()?; // `fc1.weight`, `fc1.bias`, ..
/// # Ok::<(), gt::Error>(())
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a part of a model",
    label = "not a `Module`",
    note = "keep the field out of the model with `#[module(skip)]`"
)]
pub trait Module {
    /// What this part calls itself in a summary: `Linear(784 -> 256)`.
    fn describe(&self) -> String;

    /// Shows the parts to a visitor, in order.
    fn visit(&self, visitor: &mut Visitor<'_>);

    /// Builds the model with the default initialization of all its parts.
    #[must_use]
    #[track_caller]
    fn new() -> Self
    where
        Self: Init,
    {
        Self::init()
    }

    /// Shows this part to a visitor under a name.
    fn visit_as(&self, name: &str, visitor: &mut Visitor<'_>) {
        visitor.child(name, self);
    }

    /// Switches between training and evaluation.
    fn set_mode(&mut self, _mode: Mode) {}

    /// Switches to training.
    fn train(&mut self) {
        self.set_mode(Mode::Train);
    }

    /// Switches to evaluation.
    fn eval(&mut self) {
        self.set_mode(Mode::Eval);
    }

    /// Freezes every parameter (`false`), or ends that (`true`): PyTorch's `requires_grad_`. Frozen
    /// parameters cost no gradient, and optimizers leave them as they are.
    ///
    /// ```no_run
    /// # extern crate gt_lang as gt;
    /// # use gt::prelude::*;
    /// # #[derive(Module)]
    /// # struct Net { backbone: Linear<N<3>, N<2>>, head: Linear<N<2>, N<1>> }
    /// let net = Net::new();
    /// net.backbone.requires_grad_(false);
    /// let optimizer = Sgd::new(net.head.parameters(), SgdConfig::default());
    /// ```
    #[doc(alias("freeze", "unfreeze"))]
    fn requires_grad_(&self, on: bool) {
        for (_, parameter) in self.named_parameters() {
            // Every parameter is a leaf.
            let _ = parameter.requires_grad_(on);
        }
    }

    /// The parameters: every leaf, frozen ones too. Give them to an optimizer.
    fn parameters(&self) -> Vec<DynTensor> {
        self.named_parameters().into_iter().map(|(_, tensor)| tensor).collect()
    }

    /// The parameters with their dotted names.
    fn named_parameters(&self) -> Vec<(String, DynTensor)> {
        let mut all = self.named_tensors();
        all.retain(|(_, tensor)| tensor.is_leaf());
        all
    }

    /// Every tensor with its dotted name, parameters and buffers.
    fn named_tensors(&self) -> Vec<(String, DynTensor)> {
        let mut tensors = Vec::new();
        walk(self, &mut |event| {
            if let Event::Leaf { path, tensor } = event {
                tensors.push((path.to_string(), tensor.clone()));
            }
        });
        tensors
    }

    /// The parts with their dotted names, this one first under an empty name, and what each calls
    /// itself: `("fc1", "Linear(784 -> 128)")`. Tensors are no parts.
    fn named_modules(&self) -> Vec<(String, String)> {
        let (mut modules, mut path) = (Vec::new(), Vec::<String>::new());
        walk(self, &mut |event| match event {
            Event::Enter { name, module, .. } => {
                path.push(name.to_owned());
                modules.push((path[1..].join("."), module));
            }
            Event::Exit => {
                path.pop();
            }
            Event::Leaf { .. } | Event::Buffer { .. } => (),
        });
        modules
    }

    /// Shows every parameter with its dotted name to a function, without tracking what it does: how
    /// weights are initialized by name. PyTorch's `apply`.
    ///
    /// ```no_run
    /// # extern crate gt_lang as gt;
    /// # use gt::prelude::*;
    /// let net: Linear<N<3>, N<2>> = Linear::new();
    /// net.apply(|name, parameter| match name.ends_with("weight") {
    ///     true => init::xavier_uniform(parameter),
    ///     false => init::zeros(parameter),
    /// })?;
    /// # Ok::<(), gt::Error>(())
    /// ```
    ///
    /// # Errors
    /// The first of the function.
    fn apply(&self, mut f: impl FnMut(&str, &DynTensor) -> Result<()>) -> Result<()>
    where
        Self: Sized,
    {
        let _guard = NoGrad::enter();
        self.named_parameters().iter().try_for_each(|(name, parameter)| f(name, parameter))
    }

    /// The number of elements of all parameters.
    fn parameter_count(&self) -> usize {
        self.parameters().iter().map(DynTensor::numel).sum()
    }

    /// Forgets the gradients of all parameters.
    fn zero_grad(&self) {
        self.parameters().iter().for_each(DynTensor::zero_grad);
    }

    /// Converts parameters, with the gradients they have, and buffers of floats to another float:
    /// PyTorch's `module.to(dtype)`. Convert a model before an optimizer remembers anything of its
    /// parameters, and give it inputs of that dtype.
    ///
    /// # Errors
    /// `dtype` is no float; nothing has changed then.
    #[doc(alias("to", "half", "double", "bfloat16"))]
    #[track_caller]
    fn to_dtype(&mut self, dtype: DType) -> Result<()> {
        if !dtype.is_float() {
            let message = format!("to_dtype: the parameters of a model are floats, not {dtype}");
            return Err(Error::new(ErrorKind::Operation, message, Location::caller()));
        }
        walk(self, &mut |event| match event {
            Event::Leaf { tensor, .. } => tensor.recast(dtype),
            Event::Buffer { cell, .. } => {
                let mut held = cell.lock().unwrap_or_else(PoisonError::into_inner);
                if held.dtype().is_float() {
                    *held = held.to_dtype(dtype);
                }
            }
            Event::Enter { .. } | Event::Exit => (),
        });
        Ok(())
    }

    /// The tree of parts and parameters beside them with their parameter counts, one line each.
    /// What `{}` prints for a derived model.
    fn summary(&self) -> String {
        let mut summary = Summary::default();
        walk(self, &mut |event| summary.meet(event));
        print_rows(&summary.rows())
    }
}

/// What a walk over a model meets.
pub enum Event<'a> {
    /// A part begins.
    Enter {
        /// The name of the field or the position in a list; empty at the root.
        name: &'a str,
        /// What the part calls itself.
        module: String,
        /// Where the part lies in memory; none of one without a size.
        place: Option<Place>,
    },
    /// A tensor.
    Leaf {
        /// Its dotted name.
        path: &'a str,
        /// The tensor.
        tensor: &'a DynTensor,
    },
    /// The tensor met last can be given another value here.
    Buffer {
        /// Its dotted name.
        path: &'a str,
        /// Where it stands.
        cell: &'a Mutex<DynTensor>,
    },
    /// The part that began last ends.
    Exit,
}

/// Where a part lies in memory, and its type: a struct and its first field begin at one address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    address: usize,
    kind: &'static str,
}

impl Place {
    /// The place of a part, which parts without a size share with others.
    pub(super) fn of<M: Module + ?Sized>(part: &M) -> Option<Place> {
        let address = std::ptr::from_ref(part).cast::<()>().addr();
        let kind = std::any::type_name::<M>();
        (size_of_val(part) > 0).then_some(Place { address, kind })
    }
}

/// Keeps the path of a walk and hands what it meets to a function.
pub struct Visitor<'a> {
    path: String,
    sink: &'a mut dyn FnMut(Event<'_>),
}

impl Visitor<'_> {
    /// Visits a part under a name.
    pub fn child<M: Module + ?Sized>(&mut self, name: &str, module: &M) {
        let outer = self.path.len();
        if outer > 0 {
            self.path.push('.');
        }
        self.path.push_str(name);
        enter(self, name, module);
        self.path.truncate(outer);
    }

    /// Visits the parts of a list, named by position.
    pub fn children<'m, M: Module + 'm>(&mut self, modules: impl IntoIterator<Item = &'m M>) {
        for (position, module) in modules.into_iter().enumerate() {
            module.visit_as(&position.to_string(), self);
        }
    }

    /// Shows the tensor this part is.
    pub fn tensor(&mut self, tensor: &DynTensor) {
        (self.sink)(Event::Leaf { path: &self.path, tensor });
    }

    /// Shows a tensor that can be given another value.
    pub fn buffer(&mut self, cell: &Mutex<DynTensor>) {
        let tensor = cell.lock().unwrap_or_else(PoisonError::into_inner).clone();
        self.tensor(&tensor);
        (self.sink)(Event::Buffer { path: &self.path, cell });
    }
}

/// Visits a whole model.
pub fn walk<M: Module + ?Sized>(module: &M, sink: &mut dyn FnMut(Event<'_>)) {
    module.visit_as("", &mut Visitor { path: String::new(), sink });
}

/// A part between its two marks. A tensor is no part of its own: it has no description.
fn enter<M: Module + ?Sized>(visitor: &mut Visitor<'_>, name: &str, module: &M) {
    let description = module.describe();
    if description.is_empty() {
        return module.visit(visitor);
    }
    let place = Place::of(module);
    (visitor.sink)(Event::Enter { name, module: description, place });
    module.visit(visitor);
    (visitor.sink)(Event::Exit);
}

/// The rows of a summary. Parameters have rows of their own where they stand beside parts, and at
/// the root: the counts add up.
#[derive(Default)]
struct Summary {
    rows: Vec<Row>,
    /// The parts that have begun and not ended, by their rows.
    open: Vec<usize>,
}

/// A line of a summary.
struct Row {
    text: String,
    n_parameters: usize,
    /// The part that a parameter stands in; none for a part.
    bare_in: Option<usize>,
    has_parts: bool,
}

impl Summary {
    fn meet(&mut self, event: Event<'_>) {
        match event {
            Event::Enter { name, module, .. } => {
                if let Some(&outer) = self.open.last() {
                    self.rows[outer].has_parts = true;
                }
                self.push(name, &module, None);
                self.open.push(self.rows.len() - 1);
            }
            Event::Leaf { path, tensor } if tensor.is_leaf() => {
                let n_parameters = tensor.numel();
                self.open.iter().for_each(|&row| self.rows[row].n_parameters += n_parameters);
                if let Some(&part) = self.open.last() {
                    let name = path.rsplit('.').next().unwrap_or(path);
                    self.push(name, &tensor.ty().to_string(), Some(part)).n_parameters =
                        n_parameters;
                }
            }
            Event::Leaf { .. } | Event::Buffer { .. } => (),
            Event::Exit => {
                self.open.pop();
            }
        }
    }

    fn push(&mut self, name: &str, what: &str, bare_in: Option<usize>) -> &mut Row {
        let colon = if name.is_empty() { "" } else { ": " };
        let text = format!("{}{name}{colon}{what}", "  ".repeat(self.open.len()));
        self.rows.push(Row { text, n_parameters: 0, bare_in, has_parts: false });
        let last = self.rows.len() - 1;
        &mut self.rows[last]
    }

    /// The lines that are shown.
    fn rows(&self) -> Vec<&Row> {
        let beside_parts = |part: usize| part == 0 || self.rows[part].has_parts;
        self.rows.iter().filter(|row| row.bare_in.is_none_or(beside_parts)).collect()
    }
}

/// The lines with their columns aligned.
fn print_rows(rows: &[&Row]) -> String {
    let counts: Vec<String> = rows.iter().map(|r| grouped(r.n_parameters)).collect();
    let width = rows.iter().map(|r| r.text.chars().count()).max().unwrap_or(0);
    let digits = counts.iter().map(String::len).max().unwrap_or(0);
    let mut out = String::new();
    for (position, (row, count)) in rows.iter().zip(&counts).enumerate() {
        let unit = if position == 0 { " parameters" } else { "" };
        let line = format!("{:width$}  {count:>digits$}{unit}", row.text);
        let _ = writeln!(out, "{}", line.trim_end());
    }
    out.truncate(out.trim_end().len());
    out
}

/// `1234567` as `1,234,567`.
fn grouped(number: usize) -> String {
    let digits = number.to_string();
    let mut out = String::new();
    for (position, digit) in digits.chars().enumerate() {
        if position > 0 && (digits.len() - position).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

#[diagnostic::do_not_recommend]
impl<S: Shape, K: Kind> Module for Tensor<S, K> {
    /// Empty: a tensor is a leaf, its name says what it is.
    fn describe(&self) -> String {
        String::new()
    }
    fn visit(&self, visitor: &mut Visitor<'_>) {
        visitor.tensor(self.as_dyn());
    }
}

#[diagnostic::do_not_recommend]
impl Module for DynTensor {
    fn describe(&self) -> String {
        String::new()
    }
    fn visit(&self, visitor: &mut Visitor<'_>) {
        visitor.tensor(self);
    }
}

#[diagnostic::do_not_recommend]
impl<M: Module> Module for Vec<M> {
    fn describe(&self) -> String {
        format!("list of {}", self.len())
    }
    fn visit(&self, visitor: &mut Visitor<'_>) {
        visitor.children(self);
    }
    fn set_mode(&mut self, mode: Mode) {
        self.iter_mut().for_each(|m| m.set_mode(mode));
    }
}

#[diagnostic::do_not_recommend]
impl<M: Module, const COUNT: usize> Module for [M; COUNT] {
    fn describe(&self) -> String {
        format!("list of {COUNT}")
    }
    fn visit(&self, visitor: &mut Visitor<'_>) {
        visitor.children(self);
    }
    fn set_mode(&mut self, mode: Mode) {
        self.iter_mut().for_each(|m| m.set_mode(mode));
    }
}

/// Parts by names, in the order of the names: PyTorch's `ModuleDict`, which has them in the order
/// that they were put in. `BTreeMap<String, Box<dyn Module>>` holds parts of different types.
#[diagnostic::do_not_recommend]
impl<M: Module> Module for BTreeMap<String, M> {
    fn describe(&self) -> String {
        format!("{} parts by name", self.len())
    }
    fn visit(&self, visitor: &mut Visitor<'_>) {
        self.iter().for_each(|(name, module)| module.visit_as(name, visitor));
    }
    fn set_mode(&mut self, mode: Mode) {
        self.values_mut().for_each(|m| m.set_mode(mode));
    }
}

/// A part that may be missing; what is there stands under the field's own name.
#[diagnostic::do_not_recommend]
impl<M: Module> Module for Option<M> {
    fn describe(&self) -> String {
        self.as_ref().map_or_else(String::new, Module::describe)
    }
    fn visit(&self, visitor: &mut Visitor<'_>) {
        if let Some(module) = self {
            module.visit(visitor);
        }
    }
    fn visit_as(&self, name: &str, visitor: &mut Visitor<'_>) {
        if let Some(module) = self {
            module.visit_as(name, visitor);
        }
    }
    fn set_mode(&mut self, mode: Mode) {
        self.iter_mut().for_each(|m| m.set_mode(mode));
    }
}

#[diagnostic::do_not_recommend]
impl<M: Module + ?Sized> Module for Box<M> {
    fn describe(&self) -> String {
        (**self).describe()
    }
    fn visit(&self, visitor: &mut Visitor<'_>) {
        (**self).visit(visitor);
    }
    fn visit_as(&self, name: &str, visitor: &mut Visitor<'_>) {
        (**self).visit_as(name, visitor);
    }
    fn set_mode(&mut self, mode: Mode) {
        (**self).set_mode(mode);
    }
}

#[diagnostic::do_not_recommend]
impl<T: ?Sized> Module for std::marker::PhantomData<T> {
    fn describe(&self) -> String {
        String::new()
    }
    fn visit(&self, _: &mut Visitor<'_>) {}
}
