//! States of PyTorch's optimizers, under the names they have here: what `torch.save` wrote can be
//! trained on with.

use std::borrow::Cow;

use gt_ir::HostTensor;

use crate::state::StateDict;

const GROUPS: &str = "param_groups.";

/// A state as it is, or a PyTorch optimizer's with our names: `param_groups.0.betas.1` is
/// `group.0.beta2`. Of a group only `settings` are taken; what else it says (its parameters'
/// numbers, how to compute) is not needed.
pub(super) fn translated<'a>(state: &'a StateDict, settings: &[&str]) -> Cow<'a, StateDict> {
    if !state.iter().any(|(name, _)| name.starts_with(GROUPS)) {
        return Cow::Borrowed(state);
    }
    let mut out = StateDict::new();
    for (name, value) in state.iter() {
        match (name.strip_prefix(GROUPS).and_then(|rest| rest.split_once('.')), number(value)) {
            (Some((group, field)), Some(number)) if settings.contains(&setting(field)) => {
                out.insert_number(format!("group.{group}.{}", setting(field)), number);
            }
            (Some(_), _) => (),
            (None, Some(steps)) if name.ends_with(".step") => {
                out.insert_number(name, steps as i64);
            }
            (None, _) => out.insert(name, value.clone()),
        }
    }
    with_steps(&mut out);
    Cow::Owned(out)
}

/// Our name of a setting.
fn setting(field: &str) -> &str {
    match field {
        "betas.0" => "beta1",
        "betas.1" => "beta2",
        "eps.0" => "eps1",
        "eps.1" => "eps2",
        other => other,
    }
}

/// PyTorch's SGD does not count steps; that there is a momentum says that one was made.
fn with_steps(state: &mut StateDict) {
    let owners: Vec<String> = state
        .iter()
        .filter_map(|(name, _)| Some(name.strip_prefix("state.")?.split_once('.')?.0.to_owned()))
        .collect();
    for i in owners {
        let name = format!("state.{i}.step");
        if state.get(&name).is_none() {
            state.insert_number(name, 1_i64);
        }
    }
}

fn number(value: &HostTensor) -> Option<f64> {
    if value.ty().shape.numel() == 1 { value.to_f64().first().copied() } else { None }
}
