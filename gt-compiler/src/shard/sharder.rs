//! The walk over a segment, from its entries to the lanes of members. `values` brings values into
//! the layouts they are needed in, `instructions` puts instructions on the members of their mesh,
//! and `explain` notes why.

mod explain;
mod instructions;
mod values;

use std::collections::BTreeMap;
use std::sync::Arc;

use gt_ir::layout::Layout;
use gt_ir::{Emit, Entry, Instr, Op, OpError, Operand, Scalar, Type, ValueId};
use smallvec::SmallVec;

use super::choose::Candidate;
use super::future::{Future, foresee};
use super::lanes::{Lanes, Name};
use super::phases::{self, Needed};
use super::report::{Change, Report};
use super::reshard::Version;
use super::scopes::{Scope, Scopes};
use super::{Partition, Request, at};

/// Names of literals: a literal's number is added to it.
const LITERALS: u64 = 1 << 40;

/// Operands of an instruction under the walk's own names.
type Operands = SmallVec<[Operand; 3]>;

/// A value of the segment, or one that an expansion has emitted.
struct Value {
    ty: Type,
    versions: Vec<Version>,
    /// How each member can make it by itself, where it depends on no value from outside.
    made: Option<(Op, Operands)>,
    /// The layout that a signal asks for.
    wish: Option<Layout>,
}

pub(super) struct Sharder<'a> {
    request: &'a Request<'a>,
    scopes: Scopes<'a>,
    lanes: Lanes,
    values: Vec<Value>,
    /// The walk's names of the segment's values.
    numbers: Vec<ValueId>,
    futures: Vec<Future>,
    slots: Vec<Scalar>,
    /// What members have made by themselves.
    made: BTreeMap<(ValueId, u32), Name>,
    /// The scope of the first use of each upload.
    first_use: BTreeMap<ValueId, Arc<Scope>>,
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
    pub(super) fn new(request: &'a Request<'a>) -> Result<Sharder<'a>, OpError> {
        let mut sharder = Sharder {
            request,
            scopes: Scopes::new(request.signals, request.n_members),
            lanes: Lanes::new(request.n_members),
            values: Vec::new(),
            numbers: Vec::new(),
            futures: foresee(request)?,
            slots: Vec::new(),
            made: BTreeMap::new(),
            first_use: BTreeMap::new(),
            lead: at(0),
            now: None,
            changes: Vec::new(),
            asked: None,
            options: Vec::new(),
        };
        sharder.first_use = sharder.first_uses();
        for (ty, layout) in request.inputs {
            sharder.given(*ty, layout);
        }
        Ok(sharder)
    }

    pub(super) fn run(mut self) -> Result<Partition, OpError> {
        let end = self.walk()?;
        Ok(self.partition(&Needed::new(&self.lanes, &end.1), &end))
    }

    fn partition(&self, needed: &Needed, (freed, kept): &End) -> Partition {
        let report = Report::new(&self.lanes, needed, self.scopes.warnings.clone());
        let (parts, kept) = phases::cut(&self.lanes, needed, freed, kept);
        Partition { parts, kept, report }
    }

    fn walk(&mut self) -> Result<End, OpError> {
        let mut freed = Vec::new();
        for entry in &self.request.template.tape.entries {
            self.now = entry.defines().map(|value| value.0 as u32);
            match entry {
                Entry::Input { out, ty, name: _ } => self.upload(*out, *ty)?,
                Entry::Instr(instr) => self.instruction(instr)?,
                Entry::Enter(name) => self.scopes.enter(name),
                Entry::Exit(_) => self.scopes.exit(),
                Entry::Free(value) => freed.push(value.0 as u32),
                Entry::Output { .. } => {}
            }
        }
        self.now = None;
        let kept = self.kept()?;
        Ok((freed, kept))
    }

    /// The scope in which each upload that stands in none is used first.
    fn first_uses(&self) -> BTreeMap<ValueId, Arc<Scope>> {
        let mut scopes = Scopes::new(self.request.signals, self.request.n_members);
        let (mut unused, mut found) = (Vec::new(), BTreeMap::new());
        for entry in &self.request.template.tape.entries {
            match entry {
                Entry::Input { out, .. } => unused.push(*out),
                Entry::Instr(instr) => unused.retain(|upload| {
                    let used = instr.inputs.contains(&Operand::Value(*upload));
                    found.extend(scopes.current().filter(|_| used).map(|scope| (*upload, scope)));
                    !used
                }),
                Entry::Enter(name) => scopes.enter(name),
                Entry::Exit(_) => scopes.exit(),
                Entry::Free(_) | Entry::Output { .. } => {}
            }
        }
        found
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
        let id = self.given(ty, &at(0));
        let scope = self.scopes.current().or_else(|| self.first_use.get(&out).cloned());
        if let Some(scope) = scope {
            let wish = self.scopes.wish(&scope, &ty);
            self.version(id, &wish)?;
            self.values[id.0 as usize].wish = Some(wish);
        }
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
        let future = self.futures[self.numbers.len()];
        self.numbers.push(out);
        if future.kept || future.n_uses != 1 || !future.carried {
            self.settle(out)?;
        }
        Ok(())
    }

    /// Where values are that the segment leaves, and that have moved.
    fn kept(&mut self) -> Result<Vec<(u32, Type, Version)>, OpError> {
        let mut kept = Vec::new();
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
            let version = match (self.futures[number].given, moved) {
                (true, Some(moved)) => moved.clone(),
                (true, None) => continue,
                (false, _) => {
                    let layout = first.or_else(|| value.wish.clone());
                    let layout = layout.unwrap_or_else(|| self.lead.clone());
                    self.version(id, &layout)?
                }
            };
            kept.push((number as u32, self.at(id).ty, version));
        }
        Ok(kept)
    }
}
