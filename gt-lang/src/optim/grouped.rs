//! What all optimizers share: groups of parameters with their own settings, the state of each
//! parameter, saving and restoring it.

use std::panic::Location;

use smallvec::SmallVec;

use super::{Optimizer, pytorch};
use crate::core::DynTensor;
use crate::error::{Error, ErrorKind, Result};
use crate::no_grad::NoGrad;
use crate::session::Session;
use crate::state::{Commit, Misfits, StateDict, Stateful};

/// How one parameter is updated: the settings of an optimizer. Implement it to write an optimizer
/// of your own.
pub trait Rule: Clone {
    /// The optimizer's name in messages.
    const NAME: &'static str;
    /// PyTorch's names of the tensors kept for each parameter.
    const SLOTS: &'static [&'static str];

    /// The sizes of the tensor in a slot, of a parameter of these sizes: the same, unless a rule
    /// says otherwise. What is restored must have them.
    fn slot_sizes(_slot: usize, sizes: &[usize]) -> Vec<usize> {
        sizes.to_vec()
    }

    /// The parameter after one step; `slots.step` counts this one. Must record the same
    /// instructions in each step.
    fn update(&self, param: &DynTensor, grad: &DynTensor, slots: &mut Slots) -> DynTensor;

    /// Every number of the settings by its PyTorch name.
    fn settings(&mut self) -> Vec<(&'static str, &mut f64)>;
}

/// What an optimizer remembers of one parameter.
#[derive(Clone, Default)]
pub struct Slots {
    /// The number of this step, from 1.
    pub step: i32,
    tensors: SmallVec<[Option<DynTensor>; 3]>,
}

impl Slots {
    /// The tensor in a slot, if something was put there.
    pub fn get(&self, slot: usize) -> Option<&DynTensor> {
        self.tensors.get(slot)?.as_ref()
    }

    /// The tensor in a slot; zeros like `like` at first, so that every step records the same.
    #[must_use]
    #[track_caller]
    pub fn or_zeros(&self, slot: usize, like: &DynTensor) -> DynTensor {
        match self.get(slot) {
            Some(tensor) => tensor.clone(),
            None => like.zeros_like(),
        }
    }

    /// Puts a tensor into a slot.
    pub fn put(&mut self, slot: usize, tensor: &DynTensor) {
        if self.tensors.len() <= slot {
            self.tensors.resize(slot + 1, None);
        }
        self.tensors[slot] = Some(tensor.detach());
    }
}

/// An optimizer of groups of parameters, each with settings of its own.
pub struct Grouped<R: Rule> {
    params: Vec<DynTensor>,
    /// The group of each parameter.
    group_of: Vec<usize>,
    configs: Vec<R>,
    /// Empty until a parameter's first gradient.
    slots: Vec<Option<Slots>>,
}

impl<R: Rule> Grouped<R> {
    /// An optimizer of these leaves.
    pub fn new(params: impl IntoIterator<Item = DynTensor>, config: R) -> Self {
        Self::with_groups([(params.into_iter().collect(), config)])
    }

    /// An optimizer of several groups of leaves; one listed twice belongs to its first group.
    ///
    /// ```no_run
    /// # extern crate gt_lang as gt;
    /// # use gt::prelude::*;
    /// # let net: Linear<N<3>, N<1>> = Linear::new();
    /// let (matrices, others) = net.parameters().into_iter().partition(|p| p.rank() > 1);
    /// let optimizer = AdamW::with_groups([
    ///     (matrices, AdamWConfig { weight_decay: 0.1, ..Default::default() }),
    ///     (others, AdamWConfig { weight_decay: 0.0, ..Default::default() }),
    /// ]);
    /// ```
    pub fn with_groups(groups: impl IntoIterator<Item = (Vec<DynTensor>, R)>) -> Self {
        let mut all = Grouped { params: vec![], group_of: vec![], configs: vec![], slots: vec![] };
        for (params, config) in groups {
            for param in params {
                if !all.params.iter().any(|known| known.is(&param)) {
                    all.params.push(param);
                    all.group_of.push(all.configs.len());
                    all.slots.push(None);
                }
            }
            all.configs.push(config);
        }
        all
    }

    /// The settings of the groups.
    pub fn configs(&self) -> &[R] {
        &self.configs
    }

    /// The settings of the groups, to change them.
    pub fn configs_mut(&mut self) -> &mut [R] {
        &mut self.configs
    }

    /// The tensors kept for the parameters.
    pub fn state(&self) -> impl Iterator<Item = &DynTensor> {
        self.slots.iter().flatten().flat_map(|slots| slots.tensors.iter().flatten())
    }

    #[track_caller]
    fn step_one(&mut self, i: usize) -> Result<()> {
        let param = &self.params[i];
        let Some(grad) = gradient(R::NAME, param)? else { return Ok(()) };
        // What was there is kept until the parameter is known to take its new value.
        let mut slots = self.slots[i].clone().unwrap_or_default();
        slots.step = slots.step.saturating_add(1);
        let after = self.configs[self.group_of[i]].update(param, &grad, &mut slots);
        param.replace(&after)?;
        self.slots[i] = Some(slots);
        Ok(())
    }
}

impl<R: Rule> Optimizer for Grouped<R> {
    #[track_caller]
    fn step(&mut self) -> Result<()> {
        let _guard = NoGrad::enter();
        for i in 0..self.params.len() {
            self.step_one(i)?;
        }
        end_step(&self.params);
        Ok(())
    }

    fn parameters(&self) -> &[DynTensor] {
        &self.params
    }

    fn groups(&self) -> usize {
        self.configs.len()
    }

    fn setting(&self, group: usize, name: &str) -> Option<f64> {
        let mut config = self.configs.get(group)?.clone();
        config.settings().into_iter().find(|(known, _)| *known == name).map(|(_, value)| *value)
    }

    #[track_caller]
    fn set(&mut self, group: usize, name: &str, value: f64) -> Result<()> {
        let n_groups = self.configs.len();
        let Some(config) = self.configs.get_mut(group) else {
            let message = format!("{}: there is no group {group} of parameters", R::NAME);
            let error = Error::new(ErrorKind::Operation, message, Location::caller());
            return Err(error.hint(format!("there are {n_groups}, counted from 0")));
        };
        let mut settings = config.settings();
        match settings.iter_mut().find(|(known, _)| *known == name) {
            Some((_, setting)) => **setting = value,
            None => {
                let names: Vec<&str> = settings.iter().map(|(known, _)| *known).collect();
                return Err(no_setting(R::NAME, name, &names));
            }
        }
        Ok(())
    }
}

/// Saved as `group.0.lr`, `state.3.step`, `state.3.exp_avg`, ..: parameters are numbered as in
/// PyTorch, whose own states (`io::pth` reads them) are restored as well.
impl<R: Rule> Stateful for Grouped<R> {
    fn state_dict(&self) -> Result<StateDict> {
        let mut state = StateDict::new();
        for (group, config) in self.configs.iter().enumerate() {
            for (name, value) in config.clone().settings() {
                state.insert_number(format!("group.{group}.{name}"), *value);
            }
        }
        for (i, slots) in self.slots.iter().enumerate() {
            let Some(slots) = slots else { continue };
            state.insert_number(format!("state.{i}.step"), i64::from(slots.step));
            for (name, tensor) in R::SLOTS.iter().zip(&slots.tensors) {
                if let Some(tensor) = tensor {
                    state.insert(format!("state.{i}.{name}"), tensor.to_host()?);
                }
            }
        }
        Ok(state)
    }

    fn prepare<'a>(&'a mut self, state: &StateDict) -> Result<Commit<'a>> {
        let mut configs = self.configs.clone();
        let settings: Vec<&str> =
            configs.iter_mut().flat_map(|c| c.settings()).map(|(name, _)| name).collect();
        let state = &*pytorch::translated(state, &settings);
        let mut wanted = Vec::new();
        for (group, config) in configs.iter_mut().enumerate() {
            for (name, value) in config.settings() {
                let name = format!("group.{group}.{name}");
                if state.get(&name).is_some() {
                    *value = state.number(&name)?;
                }
                wanted.push(name);
            }
        }
        // Which parameters have a state, and which tensors it holds, is the state's to say.
        let known = |name: &&str| wants_slot::<R>(name, self.params.len());
        wanted.extend(state.iter().map(|(name, _)| name).filter(known).map(str::to_owned));
        let names: Vec<&str> = wanted.iter().map(String::as_str).collect();
        let mut misfits = Misfits::names(R::NAME, state, &names);
        let slots = self.params.iter().enumerate();
        let slots: Vec<Option<Slots>> =
            slots.map(|(i, param)| restored::<R>(state, i, param, &mut misfits)).collect();
        misfits.finish()?;
        Ok(Box::new(move || (self.configs, self.slots) = (configs, slots)))
    }
}

/// The error of a setting that has none of these names.
#[track_caller]
fn no_setting(op: &str, name: &str, names: &[&str]) -> Error {
    let message = format!("{op}: there is no setting `{name}`; there are {}", names.join(", "));
    let error = Error::new(ErrorKind::Operation, message, Location::caller());
    match nearest(name, names) {
        Some(meant) => error.hint(format!("did you mean `{meant}`?")),
        None => error,
    }
}

/// The name that was most likely meant: PyTorch's for a word that is common elsewhere, or one
/// spelled nearly so.
fn nearest<'a>(name: &str, names: &[&'a str]) -> Option<&'a str> {
    let word = match name {
        "learning_rate" | "rate" | "step_size" => "lr",
        "l2" | "decay" | "wd" => "weight_decay",
        "epsilon" => "eps",
        "betas" | "beta_1" => "beta1",
        "beta_2" => "beta2",
        other => other,
    };
    let close = |known: &&&str| (strsim::jaro_winkler(word, known) * 1000.0) as u32;
    names.iter().max_by_key(close).filter(|known| close(known) > 750).copied()
}

/// Whether this is `state.<i>.step` or `state.<i>.<slot>` of one of the parameters.
fn wants_slot<R: Rule>(name: &str, params: usize) -> bool {
    let rest = name.strip_prefix("state.").and_then(|rest| rest.split_once('.'));
    rest.is_some_and(|(i, slot)| {
        i.parse::<usize>().is_ok_and(|i| i < params) && (slot == "step" || R::SLOTS.contains(&slot))
    })
}

/// The state of one parameter.
fn restored<R: Rule>(
    state: &StateDict,
    i: usize,
    param: &DynTensor,
    misfits: &mut Misfits<'_>,
) -> Option<Slots> {
    let name = |slot: &str| format!("state.{i}.{slot}");
    let held = R::SLOTS.iter().any(|slot| state.get(&name(slot)).is_some());
    let step = state.number::<i64>(&name("step")).ok().and_then(|step| i32::try_from(step).ok());
    let Some(step) = step else {
        if held || state.get(&name("step")).is_some() {
            misfits.push(format!("{}: no number of steps", name("step")));
        }
        return None;
    };
    let mut slots = Slots { step, ..Slots::default() };
    for (at, slot) in R::SLOTS.iter().enumerate() {
        let Some(value) = state.get(&name(slot)) else { continue };
        let sizes = R::slot_sizes(at, &param.sizes());
        misfits.compare_sizes(&name(slot), value, param.dtype(), &sizes);
        // The dtype saved is the dtype needed: moments need not have their parameter's.
        let session = param.session();
        let _entered = session.as_ref().map(Session::enter);
        slots.put(at, &DynTensor::from_host(value.clone()));
    }
    Some(slots)
}

/// Ends a step of the session the parameters live in, or of each if there are several.
pub(super) fn end_step(params: &[DynTensor]) {
    let mut ended: Vec<Session> = Vec::new();
    for session in params.iter().filter_map(DynTensor::session) {
        if !ended.iter().any(|s| s.is(&session)) {
            session.step();
            ended.push(session);
        }
    }
}

/// The gradient of a parameter; `None` when there is none to follow.
#[track_caller]
pub(super) fn gradient(op: &str, param: &DynTensor) -> Result<Option<DynTensor>> {
    if !param.is_leaf() {
        let message = format!(
            "{op}: the parameter {} is not a leaf, so its value cannot be replaced",
            param.ty()
        );
        let error = Error::new(ErrorKind::Gradient, message, Location::caller());
        return Err(error.hint("make it one with `.requires_grad()` and compute from that"));
    }
    Ok(param.grad())
}
