//! The templates of a session, and the quick way to admit a launch of one.
//!
//! The first launch of a template, and every one whose inputs have types not met before, is
//! expanded into a tape and verified entry by entry; what came of it is kept as a [`Variant`]. A
//! launch that fits a variant has the same effect on the session, whatever its values: then only
//! what crosses the segment's boundary is looked at. It sends nothing and knows no peers.

use std::collections::BTreeMap;
use std::sync::Arc;

use gt_ir::backend::{ErrorKind, RunError};
use gt_ir::canonical::{Bindings, Template};
use gt_ir::shape::Type;
use gt_ir::tape::{Tape, ValueId};
use gt_ir::verify::{MAX_LIVE, MAX_SCOPES, Verifier};

use crate::footprint::{Distinct, Footprint, first_defined};
use crate::wire::{MAX_TEMPLATE_ENTRIES, MAX_TEMPLATES};

/// Types of inputs remembered for one template.
const MAX_VARIANTS: usize = 8;

/// The templates of a session.
#[derive(Debug, Default)]
pub(super) struct Templates {
    held: BTreeMap<u32, Held>,
    n_entries: usize,
    distinct: Distinct,
}

/// A template.
#[derive(Debug)]
pub(super) struct Held {
    pub(super) template: Template,
    pub(super) footprint: Footprint,
    /// The last one met first.
    variants: Vec<Variant>,
}

/// The effect of a template on inputs of certain types.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Variant {
    inputs: Vec<Type>,
    /// What stays alive of what it defines, and the type of each.
    pub(super) kept: Vec<(u32, Type)>,
    /// Bytes it adds to those of live values, and bytes it takes from them.
    pub(super) bytes: (u128, u128),
}

impl Templates {
    /// Takes a template; what had its number before is gone.
    pub(super) fn define(&mut self, number: u32, tape: Arc<Tape>) -> Result<(), RunError> {
        if number >= MAX_TEMPLATES {
            let message = format!("template {number} is above the limit of {MAX_TEMPLATES}");
            return Err(RunError::new(ErrorKind::Internal, message)
                .hint("give a number again after forgetting it"));
        }
        self.forget(number);
        let n_entries = self.n_entries + tape.entries.len();
        if n_entries > MAX_TEMPLATE_ENTRIES {
            let message = format!(
                "templates of {n_entries} entries are above the limit of {MAX_TEMPLATE_ENTRIES}"
            );
            return Err(RunError::new(ErrorKind::Internal, message)
                .hint("forget templates before defining others"));
        }
        let template = Template::new(tape).map_err(|why| {
            RunError::new(ErrorKind::Internal, format!("template {number}: {why}"))
                .hint("send it as a tape, or renumber its values by first use")
        })?;
        self.n_entries = n_entries;
        let footprint = Footprint::of(&template);
        self.held.insert(number, Held { template, footprint, variants: Vec::new() });
        Ok(())
    }

    pub(super) fn forget(&mut self, number: u32) {
        if let Some(held) = self.held.remove(&number) {
            self.n_entries -= held.template.tape.entries.len();
        }
    }

    pub(super) fn clear(&mut self) {
        *self = Templates::default();
    }

    pub(super) fn get(&self, number: u32) -> Option<&Held> {
        self.held.get(&number)
    }

    /// The variant that a launch fits, if its effect is certain without looking at its
    /// instructions: the inputs are alive, distinct and of types met before, and every new value
    /// has a number above all that were ever given (`above` and up are).
    pub(super) fn fitting(
        &mut self,
        number: u32,
        bindings: &Bindings,
        verifier: &Verifier,
        above: u64,
    ) -> Option<(&Held, &Variant)> {
        let Templates { held, distinct, .. } = self;
        let held = held.get_mut(&number)?;
        let template = &held.template;
        let first = first_defined(bindings)?.0;
        let sized = bindings.inputs.len() == template.n_inputs
            && bindings.defined.len() == template.n_defined
            && bindings.scalars.len() == template.slots.len();
        let fresh = (first >= above || template.n_defined == 0)
            && first.checked_add(template.n_defined as u64).is_some()
            && verifier.n_live() + template.n_defined <= MAX_LIVE
            && verifier.scopes().len() + held.footprint.depth? <= MAX_SCOPES;
        let mut literals = bindings.scalars.iter().zip(&template.slots);
        let literal = literals.all(|(given, wanted)| given.weak_dtype() == *wanted)
            && held.footprint.accepts(&bindings.scalars);
        if !sized || !fresh || !literal {
            return None;
        }
        distinct.begin(bindings.inputs.len());
        if !bindings.inputs.iter().all(|&value| distinct.add(value)) {
            return None;
        }
        let at = held.variants.iter().position(|variant| {
            let mut pairs = bindings.inputs.iter().zip(&variant.inputs);
            pairs.all(|(&value, ty)| verifier.ty_of(value) == Some(ty))
        })?;
        held.variants.swap(0, at);
        Some((held, held.variants.first()?))
    }

    /// Remembers what came of a launch that was verified in full.
    pub(super) fn learn(
        &mut self,
        number: u32,
        bindings: &Bindings,
        inputs: Vec<Type>,
        verifier: &Verifier,
    ) {
        let Some(held) = self.held.get_mut(&number) else { return };
        let Some(first) = first_defined(bindings) else { return };
        let ty = |&at: &u32| Some((at, verifier.ty(ValueId(first.0 + u64::from(at)))?));
        let Some(kept) = held.footprint.kept.iter().map(ty).collect::<Option<Vec<_>>>() else {
            return;
        };
        let added = kept.iter().map(|(_, ty)| ty.bytes() as u128).sum();
        let freed = held.footprint.freed.iter().filter_map(|&at| inputs.get(at as usize));
        let taken = freed.map(|ty| ty.bytes() as u128).sum();
        held.variants.insert(0, Variant { inputs, kept, bytes: (added, taken) });
        held.variants.truncate(MAX_VARIANTS);
    }
}
