//! Functions that see what the parts of a model get and make, and may replace it: PyTorch's forward
//! pre-hooks and forward hooks, and the features of a forward pass by the names of parts.
//!
//! Guarantees: hooks see the parts of one model under their dotted names, on this thread, until
//! the guard is dropped. A part is where it lies in memory, so a clone is another one; the guard
//! borrows the model, which cannot move meanwhile. Without hooks a layer pays for a look at a
//! number of the thread.
//!
//! Does not: see parts without a size, such as `Relu`, nor a `forward` of your own that does not
//! begin with [`entered`] and end in [`hooked`].

use std::borrow::Cow;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::marker::PhantomData;
use std::panic::Location;
use std::rc::Rc;

use super::module::{Event, Module, Place, walk};
use crate::core::DynTensor;
use crate::error::{Error, ErrorKind, Result};
use crate::typed::AnyTensor;

/// A function of a part's name and what the part gets or made.
type Hook = dyn FnMut(&str, &DynTensor) -> Option<DynTensor>;

/// When a hook is called.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Moment {
    /// With what a part gets.
    Before,
    /// With what a part made.
    After,
}

/// The hook of one model.
struct Registered {
    moment: Moment,
    names: BTreeMap<Place, String>,
    hook: RefCell<Box<Hook>>,
}

thread_local! {
    static N_OPEN: Cell<usize> = const { Cell::new(0) };
    /// In the order of registration.
    static OPEN: RefCell<Vec<Rc<Registered>>> = const { RefCell::new(Vec::new()) };
}

/// A hook, until it is dropped.
#[must_use = "the hook is removed when this is dropped"]
pub struct ForwardHook<'m> {
    registered: Rc<Registered>,
    model: PhantomData<&'m ()>,
}

impl Drop for ForwardHook<'_> {
    fn drop(&mut self) {
        // Dropped after the borrow has ended: the function may hold tensors.
        let removed = OPEN.with_borrow_mut(|open| {
            let place = open.iter().position(|known| Rc::ptr_eq(known, &self.registered));
            let removed = place.map(|place| open.remove(place));
            N_OPEN.set(open.len());
            removed
        });
        drop(removed);
    }
}

/// Calls a function with what each part of the model makes, and the part's dotted name, until the
/// guard is dropped: PyTorch's `register_forward_hook` of a module and all inside of it. The model
/// itself has an empty name. A tensor that the function gives takes the place of what was made; it
/// has the same shape where the shape is in a type. Hooks run in the order of registration; a
/// forward pass inside of one does not call it.
///
/// Layers call it, and so does a `forward` of your own that ends in [`hooked`].
///
/// ```no_run
/// # extern crate gt_lang as gt;
/// # use gt::prelude::*;
/// # let (net, x): (Linear<N<3>, N<2>>, T![4, 3]) = (Linear::new(), Tensor::randn());
/// let hook = gt::nn::register_forward_hook(&net, |name, y| {
///     println!("{name}: {}", y.ty());
///     None
/// });
/// let y = net.forward(&x);
/// drop(hook);
/// ```
pub fn register_forward_hook<M: Module + ?Sized>(
    model: &M,
    hook: impl FnMut(&str, &DynTensor) -> Option<DynTensor> + 'static,
) -> ForwardHook<'_> {
    register(model, Moment::After, Box::new(hook))
}

/// Calls a function with what each part of the model gets, and the part's dotted name, until the
/// guard is dropped: PyTorch's `register_forward_pre_hook` of a module and all inside of it. Of
/// parts with several inputs it is the first: the sequence, the query, the indices. A tensor that
/// the function gives takes its place; one of another dtype or shape is an error of what the part
/// makes.
///
/// Layers call it, and so does a `forward` of your own that begins with [`entered`].
///
/// ```no_run
/// # extern crate gt_lang as gt;
/// # use gt::prelude::*;
/// # let (net, x): (Linear<N<3>, N<2>>, T![4, 3]) = (Linear::new(), Tensor::randn());
/// // Quantizes what each layer gets.
/// let hook = gt::nn::register_forward_pre_hook(&net, |_, x| Some((x * 16.0).round() / 16.0));
/// let y = net.forward(&x);
/// drop(hook);
/// ```
pub fn register_forward_pre_hook<M: Module + ?Sized>(
    model: &M,
    hook: impl FnMut(&str, &DynTensor) -> Option<DynTensor> + 'static,
) -> ForwardHook<'_> {
    register(model, Moment::Before, Box::new(hook))
}

fn register<M: Module + ?Sized>(model: &M, moment: Moment, hook: Box<Hook>) -> ForwardHook<'_> {
    let (mut names, mut path) = (BTreeMap::new(), Vec::<String>::new());
    walk(model, &mut |event| match event {
        Event::Enter { name, place, .. } => {
            path.push(name.to_owned());
            if let Some(place) = place {
                names.insert(place, path[1..].join("."));
            }
        }
        Event::Exit => {
            path.pop();
        }
        Event::Leaf { .. } | Event::Buffer { .. } => (),
    });
    let registered = Rc::new(Registered { moment, names, hook: RefCell::new(hook) });
    OPEN.with_borrow_mut(|open| {
        open.push(registered.clone());
        N_OPEN.set(open.len());
    });
    ForwardHook { registered, model: PhantomData }
}

/// What a part made, as the hooks of [`register_forward_hook`] leave it: what a
/// `forward` of your own ends in, so that hooks and [`features`] know its part.
///
/// ```no_run
/// # extern crate gt_lang as gt;
/// # use gt::prelude::*;
/// dims! { Batch }
/// #[derive(Module)]
/// struct Block { fc: Linear<N<8>, N<8>> }
///
/// impl Block {
///     fn forward(&self, x: &T![Batch, 8]) -> T![Batch, 8] {
///         let y = x + self.fc.forward(x).relu();
///         gt::nn::hooked(self, y)
///     }
/// }
/// ```
#[must_use]
#[track_caller]
pub fn hooked<M: Module + ?Sized, T: AnyTensor>(part: &M, made: T) -> T {
    if N_OPEN.get() == 0 {
        return made;
    }
    let Some(place) = Place::of(part) else { return made };
    let mut made = made;
    for registered in open(Moment::After) {
        if let Some((_, other)) = registered.call(place, made.inner()) {
            made = T::conforming("hooked", other);
        }
    }
    made
}

/// What a part gets, as the hooks of [`register_forward_pre_hook`] leave it: what a `forward` of
/// your own begins with, so that they know its part.
///
/// ```no_run
/// # extern crate gt_lang as gt;
/// # use gt::prelude::*;
/// dims! { Batch }
/// #[derive(Module)]
/// struct Block { fc: Linear<N<8>, N<8>> }
///
/// impl Block {
///     fn forward(&self, x: &T![Batch, 8]) -> T![Batch, 8] {
///         let x = &gt::nn::entered(self, x);
///         gt::nn::hooked(self, x + self.fc.forward(x).relu())
///     }
/// }
/// ```
#[must_use]
#[track_caller]
pub fn entered<M: Module + ?Sized, T: AnyTensor>(part: &M, x: &T) -> T {
    T::like(entering(part, x.inner()).into_owned())
}

/// [`entered`] without a type, for layers.
#[track_caller]
pub(super) fn entering<'x, M: Module + ?Sized>(part: &M, x: &'x DynTensor) -> Cow<'x, DynTensor> {
    if N_OPEN.get() == 0 {
        return Cow::Borrowed(x);
    }
    let Some(place) = Place::of(part) else { return Cow::Borrowed(x) };
    let mut x = Cow::Borrowed(x);
    for registered in open(Moment::Before) {
        if let Some((name, other)) = registered.call(place, &x) {
            x = Cow::Owned(fitting(name, &x, other));
        }
    }
    x
}

/// A tensor in the place of another, or the error that it does not fit.
#[track_caller]
fn fitting(name: &str, x: &DynTensor, other: DynTensor) -> DynTensor {
    let (is, was) = (other.ty(), x.ty());
    if other.error().is_some() || (is.dtype == was.dtype && is.shape.same_sizes(&was.shape)) {
        return other;
    }
    let message = format!("forward pre-hook: `{name}` gets {was}, and the hook gives {is}");
    let error = Error::new(ErrorKind::Operation, message, Location::caller());
    DynTensor::failed(error.hint("the hook gives a tensor of the same dtype and shape"), was)
}

/// The hooks of this moment, in the order of registration.
fn open(moment: Moment) -> Vec<Rc<Registered>> {
    let mut open = OPEN.with_borrow(Clone::clone);
    open.retain(|registered| registered.moment == moment);
    open
}

impl Registered {
    /// The name of the part, and the tensor that the hook gives for it. `None` of a part that it
    /// does not know, and inside of the hook itself.
    fn call(&self, place: Place, x: &DynTensor) -> Option<(&str, DynTensor)> {
        let name = self.names.get(&place)?;
        let mut hook = self.hook.try_borrow_mut().ok()?;
        hook(name, x).map(|other| (name.as_str(), other))
    }
}

/// The result of a function and what the named parts of the model made meanwhile, by name; of a
/// part that is used several times, the last. `""` is the model itself.
///
/// ```no_run
/// # extern crate gt_lang as gt;
/// # use gt::prelude::*;
/// # dims! { Batch }
/// # #[derive(Module)]
/// # struct Net { backbone: Linear<N<8>, N<16>>, head: Linear<N<16>, N<2>> }
/// # let (net, x): (Net, T![Batch, 8]) = (Net::new(), Tensor::randn_with([4]));
/// let (y, features) = gt::nn::features(&net, ["backbone"], || {
///     seq!(&x => net.backbone, Relu, net.head)
/// })?;
/// assert_eq!(features["backbone"].sizes(), [4, 16]);
/// # Ok::<(), gt::Error>(())
/// ```
///
/// # Errors
/// A name that no part has, or a part that made nothing: its `forward` was not called, or does not
/// end in [`hooked`].
#[track_caller]
pub fn features<M, S, R>(
    model: &M,
    names: impl IntoIterator<Item = S>,
    f: impl FnOnce() -> R,
) -> Result<(R, BTreeMap<String, DynTensor>)>
where
    M: Module + ?Sized,
    S: AsRef<str>,
{
    let wanted: Vec<String> = names.into_iter().map(|name| name.as_ref().to_owned()).collect();
    let known = model.named_modules();
    for name in &wanted {
        if !known.iter().any(|(known, _)| known == name) {
            return Err(missing(name, "the model has no part of this name")
                .hint("`named_modules` lists them"));
        }
    }
    let seen = Rc::new(RefCell::new(BTreeMap::new()));
    let (sink, asked) = (seen.clone(), wanted.clone());
    let hook = register_forward_hook(model, move |name, made| {
        if asked.iter().any(|asked| asked == name) {
            sink.borrow_mut().insert(name.to_owned(), made.clone());
        }
        None
    });
    let result = f();
    drop(hook);
    let seen = seen.take();
    match wanted.iter().find(|name| !seen.contains_key(*name)) {
        None => Ok((result, seen)),
        Some(name) => Err(missing(name, "nothing was made").hint(
            "a part is seen where its `forward` is called, if that is a layer's or ends in \
             `gt::nn::hooked(self, y)`",
        )),
    }
}

#[track_caller]
fn missing(name: &str, why: &str) -> Error {
    let message = format!("features: `{name}`: {why}");
    Error::new(ErrorKind::Operation, message, Location::caller())
}
