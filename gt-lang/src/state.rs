//! `StateDict`: named values on the host, and what can be saved to one and restored from it.
//!
//! Guarantees: everything is a tensor, numbers too, so that a state fits any file format for
//! tensors without loss; names are in order; restoring looks at all of a state before it changes
//! anything.
//!
//! Does not: read or write files (`io` does).

use std::collections::BTreeMap;
use std::panic::Location;

use gt_ir::{DType, Element, HostTensor};

use crate::core::DynTensor;
use crate::error::{Error, ErrorKind, Result};
use crate::session::Session;

/// Tensors by name, as in PyTorch's `state_dict`.
///
/// ```no_run
/// # extern crate gt_lang as gt;
/// # use gt::prelude::*;
/// let net: Linear<N<3>, N<1>> = Linear::new();
/// let mut state = net.state_dict()?;
/// state.insert_number("epoch", 3_i64);
/// io::safetensors::save("net.safetensors", &state)?;
/// assert_eq!(io::safetensors::load("net.safetensors")?.number::<i64>("epoch")?, 3);
/// # Ok::<(), gt::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StateDict {
    entries: BTreeMap<String, HostTensor>,
}

/// What is left to do once a state is known to fit: cannot fail.
pub type Commit<'a> = Box<dyn FnOnce() + 'a>;

/// Something that a checkpoint holds: a model, an optimizer, a scheduler, a counter, a session's
/// generator.
pub trait Stateful {
    /// Its state, read from the workers.
    ///
    /// # Errors
    /// A tensor of it cannot be read.
    #[track_caller]
    fn state_dict(&self) -> Result<StateDict>;

    /// Looks whether `state` fits, changing nothing; the result restores it.
    ///
    /// # Errors
    /// Names are missing or unknown, or shapes or dtypes differ; all of them are listed.
    #[track_caller]
    fn prepare<'a>(&'a mut self, state: &StateDict) -> Result<Commit<'a>>;

    /// Restores a state; an error leaves everything as it was.
    ///
    /// # Errors
    /// As [`Stateful::prepare`].
    #[track_caller]
    fn load_state_dict(&mut self, state: &StateDict) -> Result<()> {
        self.prepare(state)?();
        Ok(())
    }
}

impl StateDict {
    /// An empty state.
    pub fn new() -> StateDict {
        StateDict::default()
    }

    /// Adds a tensor; one of the same name is replaced.
    pub fn insert(&mut self, name: impl Into<String>, value: HostTensor) {
        self.entries.insert(name.into(), value);
    }

    /// Adds a number, as a tensor without axes.
    pub fn insert_number<T: Element>(&mut self, name: impl Into<String>, value: T) {
        self.insert(name, HostTensor::scalar(value));
    }

    /// The tensor of this name.
    pub fn get(&self, name: &str) -> Option<&HostTensor> {
        self.entries.get(name)
    }

    /// The number of this name.
    ///
    /// # Errors
    /// No value has this name, or the value is not a single number of this type.
    #[track_caller]
    pub fn number<T: Element>(&self, name: &str) -> Result<T> {
        let found = self.get(name).filter(|value| value.ty().shape.numel() == 1);
        let one = found.and_then(|value| value.to_vec::<T>().ok()?.first().copied());
        match (one, self.get(name)) {
            (Some(number), _) => Ok(number),
            (None, Some(other)) => Err(data_error(format!(
                "`{name}` of the state is {}, not a single {}",
                other.ty(),
                T::DTYPE
            ))),
            (None, None) => {
                let error = data_error(format!("the state has no number `{name}`"));
                let close = |known: &&str| strsim::jaro_winkler(known, name) > 0.85;
                let meant = self.iter().map(|(known, _)| known).find(close);
                Err(meant
                    .map(|known| format!("did you mean `{known}`?"))
                    .into_iter()
                    .fold(error, Error::hint))
            }
        }
    }

    /// Adds another state under a prefix: `weight` as `model.weight`.
    pub fn nest(&mut self, prefix: &str, state: StateDict) {
        let nested =
            state.entries.into_iter().map(|(name, value)| (format!("{prefix}.{name}"), value));
        self.entries.extend(nested);
    }

    /// The state that was added under a prefix.
    #[must_use]
    pub fn part(&self, prefix: &str) -> StateDict {
        let inside = |(name, value): (&String, &HostTensor)| {
            let rest = name.strip_prefix(prefix)?.strip_prefix('.')?;
            Some((rest.to_owned(), value.clone()))
        };
        StateDict { entries: self.entries.iter().filter_map(inside).collect() }
    }

    /// The tensors under other names, as a model written elsewhere needs. Those for which the
    /// function gives no name are left out.
    ///
    /// ```no_run
    /// # extern crate gt_lang as gt;
    /// # use gt::prelude::*;
    /// let state = io::safetensors::load("bert.safetensors")?;
    /// let state = state.renamed(|name| Some(name.replace("gamma", "weight")))?;
    /// # Ok::<(), gt::Error>(())
    /// ```
    ///
    /// # Errors
    /// Two tensors would have one name.
    #[track_caller]
    pub fn renamed(&self, mut name: impl FnMut(&str) -> Option<String>) -> Result<StateDict> {
        let (mut renamed, mut olds) = (StateDict::new(), BTreeMap::new());
        for (old, value) in &self.entries {
            let Some(new) = name(old) else { continue };
            if let Some(first) = olds.insert(new.clone(), old) {
                let what = format!("state: `{first}` and `{old}` both become `{new}`");
                return Err(data_error(what).hint("leave one out by `None`"));
            }
            renamed.insert(new, value.clone());
        }
        Ok(renamed)
    }

    /// Names and tensors, in the order of names.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &HostTensor)> {
        self.entries.iter().map(|(name, value)| (name.as_str(), value))
    }

    /// The number of tensors.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether the dictionary is empty.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }
}

impl FromIterator<(String, HostTensor)> for StateDict {
    fn from_iter<I: IntoIterator<Item = (String, HostTensor)>>(entries: I) -> Self {
        StateDict { entries: entries.into_iter().collect() }
    }
}

/// The complaints of a state that does not fit, gathered so that one error tells them all.
pub(crate) struct Misfits<'a> {
    what: &'a str,
    lines: Vec<String>,
    hint: Option<String>,
}

impl<'a> Misfits<'a> {
    /// Names this state must have exactly: the others are complained of.
    pub(crate) fn names(what: &'a str, state: &StateDict, wanted: &[&str]) -> Misfits<'a> {
        let mut lines = Vec::new();
        let (missing, unexpected) = (missing_of(state, wanted), unexpected_of(state, wanted));
        for (title, names) in [("missing", missing), ("unexpected", unexpected)] {
            if !names.is_empty() {
                lines.push(format!("{title}: {}", names.join(", ")));
            }
        }
        let hint = prefixed(&missing_of(state, wanted), &unexpected_of(state, wanted));
        Misfits { what, lines, hint }
    }

    /// No complaint yet.
    pub(crate) fn none(what: &'a str) -> Misfits<'a> {
        Misfits { what, lines: Vec::new(), hint: None }
    }

    /// Complains of a value that cannot take the place of a tensor: shapes must agree, dtypes may
    /// differ among floats.
    pub(crate) fn compare(&mut self, name: &str, value: Option<&HostTensor>, into: &DynTensor) {
        if let Some(value) = value {
            self.compare_sizes(name, value, into.dtype(), &into.sizes());
        }
    }

    /// As [`Misfits::compare`], for a tensor of this dtype and these sizes.
    pub(crate) fn compare_sizes(
        &mut self,
        name: &str,
        value: &HostTensor,
        dtype: DType,
        sizes: &[usize],
    ) {
        let found = value.ty();
        let is_alike = found.dtype == dtype || (found.dtype.is_float() && dtype.is_float());
        if found.shape.sizes() != sizes || !is_alike {
            let sizes: Vec<String> = sizes.iter().map(usize::to_string).collect();
            let wanted = format!("{dtype}[{}]", sizes.join(","));
            self.lines.push(format!("{name}: is {wanted}, but the state has {found}"));
        }
    }

    /// Another complaint.
    pub(crate) fn push(&mut self, line: String) {
        self.lines.push(line);
    }

    /// The error, if there is a complaint.
    #[track_caller]
    pub(crate) fn finish(self) -> Result<()> {
        if self.lines.is_empty() {
            return Ok(());
        }
        let lines = self.lines.join("\n  ");
        let error = data_error(format!("{}: the state does not fit\n  {lines}", self.what));
        Err(self.hint.into_iter().fold(error, Error::hint))
    }
}

/// What is wanted, and not there.
fn missing_of<'a>(state: &StateDict, wanted: &[&'a str]) -> Vec<&'a str> {
    wanted.iter().copied().filter(|name| state.get(name).is_none()).collect()
}

/// What is there, and not wanted.
fn unexpected_of<'a>(state: &'a StateDict, wanted: &[&str]) -> Vec<&'a str> {
    state.iter().map(|(name, _)| name).filter(|name| !wanted.contains(name)).collect()
}

/// What to do where all that is missing is there under a prefix, as `module.` of parallel training
/// or the name of a part.
fn prefixed(missing: &[&str], unexpected: &[&str]) -> Option<String> {
    let first = missing.first()?;
    let prefix = unexpected.iter().find_map(|name| name.strip_suffix(first)?.strip_suffix('.'))?;
    let is_there = |name: &&str| unexpected.contains(&&*format!("{prefix}.{name}"));
    missing
        .iter()
        .all(is_there)
        .then(|| format!("the names begin with `{prefix}.`: give it `state.part(\"{prefix}\")`"))
}

/// The error of data that is not what it should be.
#[track_caller]
pub(crate) fn data_error(message: String) -> Error {
    Error::new(ErrorKind::Data, message, Location::caller())
}

/// A tensor of this content, in a session and dtype that fit `like`.
#[track_caller]
pub(crate) fn upload_like(value: &HostTensor, like: &DynTensor) -> DynTensor {
    let session = like.session();
    let _entered = session.as_ref().map(Session::enter);
    DynTensor::from_host(value.clone()).to_dtype(like.dtype())
}

/// A counter, such as the number of steps done.
impl Stateful for u64 {
    fn state_dict(&self) -> Result<StateDict> {
        let mut state = StateDict::new();
        state.insert_number("value", self.cast_signed());
        Ok(state)
    }

    fn prepare<'a>(&'a mut self, state: &StateDict) -> Result<Commit<'a>> {
        let value: i64 = state.number("value")?;
        Ok(Box::new(move || *self = value.cast_unsigned()))
    }
}

/// The generator of random numbers.
impl Stateful for Session {
    fn state_dict(&self) -> Result<StateDict> {
        let (seed, drawn) = self.rng_state();
        let mut state = StateDict::new();
        state.insert_number("seed", seed.cast_signed());
        state.insert_number("drawn", drawn.cast_signed());
        Ok(state)
    }

    fn prepare<'a>(&'a mut self, state: &StateDict) -> Result<Commit<'a>> {
        let (seed, drawn): (i64, i64) = (state.number("seed")?, state.number("drawn")?);
        Ok(Box::new(move || self.set_rng_state((seed.cast_unsigned(), drawn.cast_unsigned()))))
    }
}
