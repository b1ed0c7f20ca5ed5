//! The walk over a segment, from its entries to the lanes of members. `values` brings values into
//! the layouts they are needed in, `instructions` puts instructions on the members of their mesh,
//! and `explain` notes why.

mod explain;
mod instructions;
mod note;
mod values;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use gt_ir::layout::{Layout, Region};
use gt_ir::{Emit, Entry, Instr, Loc, Op, OpError, Operand, Scalar, Type, ValueId};
use smallvec::SmallVec;

use super::choose::Candidate;
use super::future::{Future, foresee};
use super::lanes::{Lanes, Name};
use super::needed::Needed;
use super::phases;
use super::plan::{Plan, Problem};
use super::report::{Change, Report};
use super::reshard::Version;
use super::scopes::{Claim, Dropped, Scopes};
use super::turns::Turns;
use super::{Partition, Request, at, sink};
pub(super) use values::made_depth;

/// Names of literals: a literal's number is added to it.
const LITERALS: u64 = 1 << 40;

/// Operands of an instruction under the walk's own names.
type Operands = SmallVec<[Operand; 3]>;

/// A value of the segment, or one that an expansion has emitted.
struct Value {
    ty: Type,
    versions: Vec<Version>,
    /// How each member can make it by itself, where it depends on no value from outside.
    made: Option<Made>,
    /// The layout that a signal asks for.
    wish: Option<Layout>,
}

/// An operation that depends on no value from outside.
#[derive(Clone)]
struct Made {
    op: Op,
    inputs: Operands,
    /// The length of the longest chain of operations that it ends.
    depth: u8,
}

/// What members do with large sums.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sums {
    /// Each member combines all of a sum.
    Repeated,
    /// Each member combines a part. What replaces a whole value is gathered.
    Shared,
    /// Each member combines a part. What replaces a whole value stays in parts.
    Kept,
}

/// How the walk finds the layouts of instructions.
enum Mode {
    /// One after the other, by the least cost there.
    Greedy,
    /// It notes what there is to decide, and decides nothing.
    Note(Box<Problem>),
    /// It has been decided.
    Follow(Arc<Plan>),
}

pub(super) struct Sharder<'a> {
    request: &'a Request<'a>,
    mode: Mode,
    sums: Sums,
    scopes: Scopes<'a>,
    turns: Turns,
    lanes: Lanes,
    values: Vec<Value>,
    /// The walk's names of the segment's values.
    numbers: Vec<ValueId>,
    futures: Vec<Future>,
    slots: Vec<Scalar>,
    /// The boxes of values that members have made by themselves.
    made: BTreeMap<(ValueId, u32, Region), Name>,
    /// The layouts in which the uploads so far are needed.
    uploads: Vec<Layout>,
    /// The scopes in which each upload is used.
    claims: BTreeMap<ValueId, Vec<Claim>>,
    lead: Layout,
    /// The upload or instruction that the walk is at, by its number.
    now: Option<u32>,
    changes: Vec<Change>,
    /// The instruction whose possible layouts are noted.
    asked: Option<u32>,
    options: Vec<Candidate>,
}

/// What a walk is to bring about: the values that the segment frees, and those that it leaves.
type End = (Vec<u32>, Vec<(u32, Type, Version)>);

impl<'a> Sharder<'a> {
    pub(super) fn new(
        request: &'a Request<'a>,
        dropped: &'a Dropped,
        sums: Sums,
    ) -> Result<Sharder<'a>, OpError> {
        let (turns, warnings) = Turns::of(request, dropped);
        let mut scopes = Scopes::new(request, dropped, turns.n);
        scopes.warnings = warnings;
        Ok(Sharder {
            request,
            mode: Mode::Greedy,
            sums,
            scopes,
            lanes: Lanes::new(request.n_members, turns, request.rates.bucket()),
            values: Vec::new(),
            numbers: Vec::new(),
            futures: foresee(request)?,
            slots: Vec::new(),
            made: BTreeMap::new(),
            uploads: Vec::new(),
            claims: claims(request, dropped, turns.n),
            lead: at(0).in_turns(turns.n),
            turns,
            now: None,
            changes: Vec::new(),
            asked: None,
            options: Vec::new(),
        })
    }

    pub(super) fn run(mut self) -> Result<Partition, OpError> {
        let end = self.walk()?;
        Ok(self.partition(&Needed::new(&self.lanes, &end.1), &end))
    }

    fn partition(&self, needed: &Needed, (freed, kept): &End) -> Partition {
        let report = Report::new(&self.lanes, needed, self.scopes.warnings.clone());
        let (parts, kept) = phases::cut(&self.lanes, needed, freed, kept);
        Partition { parts, kept, uploads: self.uploads.clone(), report }
    }

    fn walk(&mut self) -> Result<End, OpError> {
        let mut freed = Vec::new();
        self.lanes.reserve(self.request.template.tape.entries.len());
        for number in 0..self.request.inputs.len() {
            let (ty, layout) = &self.request.inputs[number];
            let id = self.given(*ty, layout);
            self.place(id)?;
            self.named()?;
        }
        for entry in &self.request.template.tape.entries {
            self.now = entry.defines().map(|value| value.0 as u32);
            match entry {
                Entry::Input { out, ty, name: _ } => {
                    self.upload(*out, *ty)?;
                    self.named()?;
                }
                Entry::Instr(instr) => {
                    self.instruction(instr)?;
                    self.named()?;
                }
                Entry::Enter(name) => self.scopes.enter(name),
                Entry::Exit(_) => self.scopes.exit(),
                Entry::Free(value) => freed.push(value.0 as u32),
                Entry::Output { .. } => {}
            }
        }
        self.now = None;
        let kept = self.kept()?;
        sink::sink(&mut self.lanes);
        Ok((freed, kept))
    }

    /// A value that is there before the segment's instructions.
    fn given(&mut self, ty: Type, layout: &Layout) -> ValueId {
        let number = self.numbers.len() as u32;
        let versions = vec![self.lanes.hold(number, &ty, layout)];
        let id = self.value(Value { ty, versions, made: None, wish: None });
        self.numbers.push(id);
        id
    }

    fn upload(&mut self, out: ValueId, ty: Type) -> Result<(), OpError> {
        let come = self.request.uploads.get(self.uploads.len());
        let mut layout = come.cloned().unwrap_or_else(|| at(0));
        let id = self.given(ty, &layout);
        let scope = match self.scopes.current() {
            Some(scope) => {
                self.scopes.overruled(&ty, Loc::NONE);
                Some(scope)
            }
            None => {
                let claims = self.claims.get(&out).map_or(&[][..], Vec::as_slice);
                self.scopes.claimed(claims, &ty)
            }
        };
        if let Some(scope) = scope {
            let lives_on = self.futures[self.numbers.len() - 1].kept;
            let wish = self.scopes.wish_of_upload(&scope, &ty, lives_on);
            self.version(id, &wish)?;
            self.values[id.0 as usize].wish = Some(wish.clone());
            layout = wish;
        }
        if let Some(planned) = self.place(id)? {
            layout = planned;
        }
        self.uploads.push(layout.at_once());
        Ok(())
    }

    fn instruction(&mut self, instr: &Instr) -> Result<(), OpError> {
        let mut inputs = Operands::new();
        for operand in &instr.inputs {
            inputs.push(Operand::Value(match operand {
                Operand::Scalar(scalar) => {
                    self.slots.push(*scalar);
                    ValueId(LITERALS + self.slots.len() as u64 - 1)
                }
                Operand::Value(number) => self.numbers[number.0 as usize],
            }));
        }
        self.lanes.loc = instr.loc;
        let out = self.emit(instr.op, &inputs)?;
        let ty = self.at(out).ty;
        self.scopes.overruled(&ty, instr.loc);
        let future = self.futures[self.numbers.len()];
        self.numbers.push(out);
        let greedy = matches!(self.mode, Mode::Greedy);
        if greedy && (future.kept || future.n_uses != 1 || !future.carried) {
            self.settle(out)?;
        }
        Ok(())
    }

    /// Where values are that the segment leaves, and that have moved.
    fn kept(&mut self) -> Result<Vec<(u32, Type, Version)>, OpError> {
        let mut kept = Vec::new();
        if let Mode::Note(_) = self.mode {
            return Ok(kept);
        }
        for number in 0..self.numbers.len() {
            let id = self.numbers[number];
            if !self.futures[number].kept {
                continue;
            }
            self.settle(id)?;
            let value = self.at(id);
            let first = value.versions.first().map(|version| version.layout.clone());
            let moved = value.versions.iter().find(|version| {
                first.as_ref().is_some_and(|first| version.layout.mesh != first.mesh)
                    && !version.layout.is_partial()
            });
            let layout = match (self.futures[number].given, moved) {
                (true, Some(moved)) => moved.layout.clone(),
                (true, None) => continue,
                (false, _) => {
                    let layout = first.or_else(|| value.wish.clone());
                    let layout = layout.or_else(|| self.shared_out(&value.ty));
                    let layout = layout.unwrap_or_else(|| self.lead.clone());
                    self.inherited(number, &layout).unwrap_or(layout)
                }
            };
            // Nothing outlives a segment in turns.
            let version = self.version(id, &layout.at_once().in_turns(self.turns.n))?;
            kept.push((number as u32, self.at(id).ty, version.at_once()));
        }
        Ok(kept)
    }
}

impl Sharder<'_> {
    /// The layout of the value from before that a value replaces, on the same mesh: what a loop
    /// updates comes out as it went in.
    fn inherited(&self, number: usize, layout: &Layout) -> Option<Layout> {
        let before = self.futures[number].heir_of?;
        if let Mode::Follow(plan) = &self.mode {
            return plan.layout(self.numbers[before as usize]).cloned();
        }
        let versions = self.at(self.numbers[before as usize]).versions.iter();
        let before = versions.map(|v| &v.layout).find(|before| before.mesh == layout.mesh)?;
        let stays = match self.sums {
            Sums::Repeated => false,
            Sums::Shared => true,
            Sums::Kept => !before.is_whole(),
        };
        stays.then(|| before.clone())
    }

    /// Where the segment leaves what replaces values from before, by their numbers.
    pub(super) fn heirs(mut self) -> Result<BTreeMap<u32, Layout>, OpError> {
        let (_, kept) = self.walk()?;
        let heir = |(number, _, version): (u32, Type, Version)| {
            Some((self.futures[number as usize].heir_of?, version.layout))
        };
        Ok(kept.into_iter().filter_map(heir).collect())
    }
}

/// The scopes in which each upload is used, in order, each once; none if the first use is outside
/// of scopes.
fn claims(request: &Request<'_>, dropped: &Dropped, turns: usize) -> BTreeMap<ValueId, Vec<Claim>> {
    let mut scopes = Scopes::new(request, dropped, turns);
    let mut found: BTreeMap<ValueId, Vec<Claim>> = BTreeMap::new();
    let mut unused = BTreeSet::new();
    for entry in &request.template.tape.entries {
        match entry {
            Entry::Input { out, .. } => drop(unused.insert(*out)),
            Entry::Instr(instr) => {
                let scope = scopes.current();
                for operand in &instr.inputs {
                    let Operand::Value(value) = operand else { continue };
                    if unused.remove(value) && scope.is_some() {
                        found.insert(*value, Vec::new());
                    }
                    if let (Some(claims), Some(scope)) = (found.get_mut(value), &scope)
                        && claims.iter().all(|claim| !Arc::ptr_eq(&claim.scope, scope))
                    {
                        claims.push(Claim { scope: Arc::clone(scope), loc: instr.loc });
                    }
                }
            }
            Entry::Enter(name) => scopes.enter(name),
            Entry::Exit(_) => scopes.exit(),
            Entry::Free(_) | Entry::Output { .. } => {}
        }
    }
    found
}
