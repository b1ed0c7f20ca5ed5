//! The templates of a session, and the quick way to admit a launch.
//!
//! A launch whose inputs have types that the template has not met before is expanded into a tape
//! and verified entry by entry. Its effect on the session is kept as a [`Variant`]. A later launch
//! that fits the variant has the same effect, whatever its values, so only the boundary of the
//! segment is checked. This module sends nothing and knows no peers.

use std::collections::BTreeMap;
use std::sync::Arc;

use gt_ir::backend::{ErrorKind, RunError};
use gt_ir::canonical::{Bindings, Template};
use gt_ir::shape::Type;
use gt_ir::tape::{Tape, ValueId};
use gt_ir::verify::{MAX_LIVE, MAX_SCOPES, Verifier};

use crate::footprint::{Distinct, Footprint, first_defined};
use crate::wire::{MAX_TEMPLATE_ENTRIES, MAX_TEMPLATES};

/// The most variants remembered for one template.
const MAX_VARIANTS: usize = 8;

/// The templates of a session.
#[derive(Debug, Default)]
pub(super) struct Templates {
    held: BTreeMap<u32, Definition>,
    n_entries: usize,
    distinct: Distinct,
}

/// A template, from its definition until it is forgotten.
#[derive(Debug)]
pub(super) struct Definition {
    pub(super) template: Arc<Template>,
    pub(super) footprint: Footprint,
    /// The number of workers for which one is enough. 0 if unknown.
    pub(super) stays: usize,
    /// The most recently used first. A list rather than an `Lru`, which is searched by slot: the
    /// first variant nearly always fits.
    variants: Vec<Variant>,
}

/// The effect of a template on inputs of certain types.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Variant {
    inputs: Vec<Type>,
    /// The definitions that outlive the segment, with their types.
    pub(super) kept: Vec<(u32, Type)>,
    /// The bytes that it adds to the live values, and the bytes that it frees.
    pub(super) bytes: (u128, u128),
}

impl Templates {
    /// Defines a template, in place of an earlier template of its number.
    pub(super) fn define(&mut self, number: u32, tape: Arc<Tape>) -> Result<(), RunError> {
        if number >= MAX_TEMPLATES {
            let message =
                format!("template number {number} is not below the limit of {MAX_TEMPLATES}");
            return Err(RunError::new(ErrorKind::Internal, message)
                .hint("reuse the number of a forgotten template"));
        }
        self.forget(number);
        let n_entries = self.n_entries + tape.entries.len();
        if n_entries > MAX_TEMPLATE_ENTRIES {
            let message = format!(
                "the session's templates have {n_entries} entries, more than {MAX_TEMPLATE_ENTRIES}"
            );
            return Err(RunError::new(ErrorKind::Internal, message)
                .hint("forget templates before defining others"));
        }
        let template = Template::new(tape).map_err(|why| {
            RunError::new(ErrorKind::Internal, format!("template {number}: {why}"))
                .hint("send it as a tape, or renumber its values by first use")
        })?;
        self.n_entries = n_entries;
        let (footprint, template) = (Footprint::of(&template), Arc::new(template));
        self.held
            .insert(number, Definition { template, footprint, stays: 0, variants: Vec::new() });
        Ok(())
    }

    pub(super) fn forget(&mut self, number: u32) {
        if let Some(held) = self.held.remove(&number) {
            self.n_entries -= held.template.tape.entries.len();
        }
    }

    /// Notes that a template is best on one of so many workers.
    pub(super) fn stays(&mut self, number: u32, n_workers: usize) {
        self.held.get_mut(&number).into_iter().for_each(|held| held.stays = n_workers);
    }

    /// Forgets for which templates one worker is best.
    pub(super) fn ask_again(&mut self) {
        self.held.values_mut().for_each(|held| held.stays = 0);
    }

    pub(super) fn clear(&mut self) {
        *self = Templates::default();
    }

    pub(super) fn get(&self, number: u32) -> Option<&Definition> {
        self.held.get(&number)
    }

    /// The variant that a launch fits, if its effect is certain without looking at its
    /// instructions: the inputs are alive and distinct and have the types of the variant, and every
    /// defined value has a new number (`above` or higher).
    pub(super) fn fitting(
        &mut self,
        number: u32,
        bindings: &Bindings,
        verifier: &Verifier,
        above: u64,
    ) -> Option<(&Definition, &Variant)> {
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
        held.variants[..=at].rotate_right(1);
        Some((held, held.variants.first()?))
    }

    /// Remembers the effect of a launch that was verified in full.
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
