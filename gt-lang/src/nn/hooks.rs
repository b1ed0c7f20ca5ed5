//! Functions that see what the parts of a model make, and may replace it: PyTorch's forward hooks,
//! and the features of a forward pass by the names of parts.
//!
//! Guarantees: hooks see the parts of one model under their dotted names, on this thread, until
//! the guard is dropped. A part is where it lies in memory, so a clone is another one; the guard
//! borrows the model, which cannot move meanwhile. Without hooks a layer pays for a look at a
//! number of the thread.
//!
//! Does not: see parts without a size, such as `Relu`, nor a `forward` of your own that does not
//! end in [`hooked`].

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::marker::PhantomData;
use std::panic::Location;
use std::rc::Rc;

use super::module::{Event, Module, Place, walk};
use crate::core::DynTensor;
use crate::error::{Error, ErrorKind, Result};
use crate::typed::AnyTensor;

/// A function of a part's name and what the part made.
type Hook = dyn FnMut(&str, &DynTensor) -> Option<DynTensor>;

/// The hook of one model.
struct Registered {
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
    let registered = Rc::new(Registered { names, hook: RefCell::new(Box::new(hook)) });
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
    for registered in OPEN.with_borrow(Clone::clone) {
        let Some(name) = registered.names.get(&place) else { continue };
        // Borrowed already: inside of the hook itself.
        let Ok(mut hook) = registered.hook.try_borrow_mut() else { continue };
        if let Some(other) = hook(name, made.inner()) {
            made = T::conforming("hooked", other);
        }
    }
    made
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
