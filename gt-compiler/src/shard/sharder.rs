//! The walk over a segment: each value in the layouts it is needed in, each instruction on the
//! members of its mesh.

mod explain;

use std::collections::BTreeMap;
use std::sync::Arc;

use gt_ir::factors::{Factors, Links};
use gt_ir::layout::{Layout, Mesh, Spread};
use gt_ir::op::{Meaning, factors, infer};
use gt_ir::{Class, Emit, Entry, Instr, Op, OpError, Operand, OperandType, Scalar, Type, ValueId};
use smallvec::SmallVec;

use super::choose::{Candidate, Operand as Choice, Question, Strategy};
use super::future::{Future, foresee};
use super::lanes::{Arg, Lanes, Name, Piece, everything};
use super::phases::{self, Needed};
use super::report::{Change, Report};
use super::reshard::Version;
use super::scopes::{Scope, Scopes};
use super::{Literal, Partition, Request, at};

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
        let out = self.emit(instr.op, &inputs)?;
        let future = self.futures[self.numbers.len()];
        self.numbers.push(out);
        if future.kept || future.n_uses != 1 || !future.carried {
            self.settle(out)?;
        }
        Ok(())
    }

    fn value(&mut self, value: Value) -> ValueId {
        self.values.push(value);
        ValueId(self.values.len() as u64 - 1)
    }

    fn at(&self, id: ValueId) -> &Value {
        &self.values[id.0 as usize]
    }

    /// Combines partial results.
    fn settle(&mut self, id: ValueId) -> Result<(), OpError> {
        let versions = &self.at(id).versions;
        let Some(first) = versions.first().filter(|v| v.layout.is_partial()) else {
            return Ok(());
        };
        let mut layout = first.layout.clone();
        for spread in &mut layout.spreads {
            if matches!(spread, Spread::Partial(_)) {
                *spread = Spread::Whole;
            }
        }
        self.version(id, &layout)?;
        self.values[id.0 as usize].versions.retain(|version| !version.layout.is_partial());
        Ok(())
    }

    /// A value in a layout.
    fn version(&mut self, id: ValueId, layout: &Layout) -> Result<Version, OpError> {
        let value = self.at(id);
        if let Some(version) = value.versions.iter().find(|v| v.layout == *layout) {
            return Ok(version.clone());
        }
        let version = if value.made.is_some() {
            self.make(id, layout)?
        } else {
            let ty = value.ty;
            let nearest = self.request.rates.nearest(&value.versions, layout, &ty);
            let (_, from) =
                nearest.ok_or_else(|| OpError::new("internal: a value that is nowhere"))?;
            self.change(id, &from.clone(), layout, &ty)?
        };
        self.values[id.0 as usize].versions.push(version.clone());
        Ok(version)
    }

    /// A value that depends on nothing from outside, made by each member.
    fn make(&mut self, id: ValueId, layout: &Layout) -> Result<Version, OpError> {
        let ty = self.at(id).ty;
        let mut names = SmallVec::new();
        for (rank, &member) in layout.mesh.members().iter().enumerate() {
            let addend = (0..layout.spreads.len()).any(|axis| {
                let partial = matches!(layout.spreads[axis], Spread::Partial(_));
                partial && layout.mesh.coordinate(rank, axis) != 0
            });
            names.push(if addend {
                self.lanes.zeros(member, layout.local(rank, &ty))?
            } else {
                self.make_part(
                    id,
                    member,
                    layout.local(rank, &ty),
                    &layout.region(rank, &ty.shape),
                )?
            });
        }
        Ok(Version { layout: layout.clone(), names })
    }

    fn make_part(
        &mut self,
        id: ValueId,
        member: u32,
        local: Type,
        region: &[(usize, usize)],
    ) -> Result<Name, OpError> {
        if let Some((Op::Full(_), inputs)) = &self.at(id).made {
            let args = self.literals(&inputs.clone());
            return self.lanes.instr(member, Op::Full(local), &args);
        }
        let name = self.make_whole(id, member)?;
        let whole = everything(&self.at(id).ty);
        self.lanes.slice(&Piece { member, name, region: whole }, region)
    }

    /// All of a value at one member.
    fn make_whole(&mut self, id: ValueId, member: u32) -> Result<Name, OpError> {
        if let Some(name) = self.made.get(&(id, member)) {
            return Ok(*name);
        }
        let Some((op, inputs)) = self.at(id).made.clone() else {
            return Err(OpError::new("internal: a value that no member can make by itself"));
        };
        let mut args: SmallVec<[Arg; 3]> = SmallVec::new();
        for operand in &inputs {
            args.push(match *operand {
                Operand::Value(value) if value.0 < LITERALS => {
                    Arg::Value(self.make_whole(value, member)?)
                }
                Operand::Value(_) | Operand::Scalar(_) => self.literals(&[*operand])[0],
            });
        }
        let name = self.lanes.instr(member, op.unnamed(), &args)?;
        self.made.insert((id, member), name);
        Ok(name)
    }

    /// Operands that are literals, as a member's instruction has them.
    fn literals(&self, operands: &[Operand]) -> SmallVec<[Arg; 3]> {
        let literal = |operand: &Operand| match *operand {
            Operand::Scalar(scalar) => Arg::Literal(Literal::Number(scalar), scalar),
            Operand::Value(slot) => {
                let slot = slot.0.wrapping_sub(LITERALS);
                let scalar = self.slots.get(slot as usize).copied();
                Arg::Literal(Literal::Slot(slot as u32), scalar.unwrap_or(Scalar::Bool(false)))
            }
        };
        operands.iter().map(literal).collect()
    }

    /// Whether each member can make a result by itself, cheaply.
    fn is_made(&self, op: &Op, inputs: &[Operand]) -> bool {
        let cheap = match op.spec().class {
            Class::Pointwise | Class::Source | Class::Move => true,
            Class::Reduce | Class::Contract | Class::Gather => false,
        };
        cheap
            && inputs.iter().all(|operand| match operand {
                Operand::Value(value) if value.0 < LITERALS => self.at(*value).made.is_some(),
                Operand::Value(_) | Operand::Scalar(_) => true,
            })
    }

    /// The mesh of an instruction outside configured scopes: of its operands' the largest.
    fn mesh_of(&self, inputs: &[Operand]) -> Arc<Mesh> {
        let mut largest: Option<&Arc<Mesh>> = None;
        for operand in inputs {
            let Operand::Value(value) = operand else { continue };
            let Some(value) = self.values.get(value.0 as usize) else { continue };
            for version in &value.versions {
                let mesh = &version.layout.mesh;
                if value.made.is_none() && largest.is_none_or(|l| mesh.len() > l.len()) {
                    largest = Some(mesh);
                }
            }
        }
        Arc::clone(largest.unwrap_or(&self.lead.mesh))
    }

    /// Whether the factors of a derived op allow for the ways in which its operands are split.
    fn allows(&self, factors: &Factors, inputs: &[Operand], mesh: &Arc<Mesh>) -> bool {
        inputs.iter().zip(&factors.operands).all(|(operand, links)| {
            let Operand::Value(value) = operand else { return true };
            let Some(value) = self.values.get(value.0 as usize) else { return true };
            let splits = value.versions.iter().filter(|v| v.layout.mesh == *mesh);
            let free = |spread: &Spread| match *spread {
                Spread::Split { dim, .. } => {
                    links.get(usize::from(dim)).is_some_and(Option::is_some)
                }
                Spread::Whole | Spread::Partial(_) => true,
            };
            let mut splits = splits.map(|v| v.layout.spreads.iter().all(free)).peekable();
            splits.peek().is_none() || splits.any(|free| free)
        })
    }

    /// What a signal asks of a result on its mesh.
    fn wish(&mut self, ty: &Type) -> Option<Layout> {
        let scope = self.scopes.current()?;
        (ty.shape.rank() > 0).then(|| self.scopes.wish(&scope, ty))
    }

    /// What a question about an instruction finds.
    fn question<T>(
        &self,
        op: &Op,
        inputs: &[Operand],
        types: &[OperandType],
        out: &Type,
        (factors, mesh, wish): (&Factors, &Arc<Mesh>, Option<&Layout>),
        find: impl FnOnce(&Question<'_>, &Layout) -> T,
    ) -> T {
        let choice = |operand: &Operand| match operand {
            Operand::Value(value) if value.0 < LITERALS => {
                let value = self.at(*value);
                match value.made {
                    Some(_) => Choice::Anywhere(value.wish.as_ref()),
                    None => Choice::Versions(&value.versions, &value.ty),
                }
            }
            Operand::Value(_) | Operand::Scalar(_) => Choice::Literal,
        };
        let operands: SmallVec<[Choice<'_>; 3]> = inputs.iter().map(choice).collect();
        let rates = &self.request.rates;
        let question = Question { op, types, operands: &operands, out, factors, wish, rates };
        find(&question, &Layout::whole(Arc::clone(mesh)))
    }

    /// An instruction on the members of a mesh.
    fn apply(
        &mut self,
        op: &Op,
        inputs: &[Operand],
        ty: Type,
        strategy: &Strategy,
    ) -> Result<ValueId, OpError> {
        let mut versions: SmallVec<[Option<Version>; 3]> = SmallVec::new();
        for (operand, layout) in inputs.iter().zip(&strategy.operands) {
            versions.push(match (operand, layout) {
                (Operand::Value(value), Some(layout)) => Some(self.version(*value, layout)?),
                _ => None,
            });
        }
        let layout = strategy.result.clone();
        let mut names = SmallVec::new();
        for (rank, &member) in layout.mesh.members().iter().enumerate() {
            let arg = |(operand, version): (&Operand, &Option<Version>)| match version {
                Some(version) => Arg::Value(version.names[rank]),
                None => self.literals(&[*operand])[0],
            };
            let args: SmallVec<[Arg; 3]> = inputs.iter().zip(&versions).map(arg).collect();
            let local = layout.local(rank, &ty);
            names.push(self.lanes.instr(member, op.resized(&local), &args)?);
        }
        let versions = vec![Version { layout, names }];
        Ok(self.value(Value { ty, versions, made: None, wish: None }))
    }

    /// The same value in the layout that a signal asks for.
    fn view(&mut self, x: ValueId, ty: Type, wish: &Layout) -> Result<ValueId, OpError> {
        let version = self.version(x, wish)?;
        Ok(self.value(Value { ty, versions: vec![version], made: None, wish: None }))
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

impl Emit for Sharder<'_> {
    fn emit(&mut self, op: Op, inputs: &[Operand]) -> Result<ValueId, OpError> {
        let types: SmallVec<[OperandType; 3]> =
            inputs.iter().map(|operand| self.operand_type(*operand)).collect();
        let ty = infer(&op, &types)?;
        let wish = self.wish(&ty);
        if self.is_made(&op, inputs) {
            let made = Some((op, inputs.into()));
            return Ok(self.value(Value { ty, versions: Vec::new(), made, wish }));
        }
        if let (Op::Reshape(_), [Operand::Value(x)], Some(wish)) = (op, inputs, &wish)
            && self.at(*x).ty.shape.same_sizes(&ty.shape)
        {
            return self.view(*x, ty, wish);
        }
        let mesh = self.scopes.current().map(|scope| Arc::clone(&scope.mesh));
        let mesh = mesh.unwrap_or_else(|| self.mesh_of(inputs));
        let factors = factors(&op, &types, &ty);
        if let Meaning::Derived(expansion) = op.spec().meaning
            && factors.as_ref().is_none_or(|factors| !self.allows(factors, inputs, &mesh))
        {
            return expansion(self, &op, inputs);
        }
        let factors = factors.unwrap_or_else(|| Factors {
            operands: inputs.iter().map(|_| Links::new()).collect(),
            ..Factors::default()
        });
        let about = (&factors, &mesh, wish.as_ref());
        if self.asked.is_some() && self.asked == self.now {
            let options =
                self.question(&op, inputs, &types, &ty, about, |q, whole| q.options(whole));
            self.options.extend(options);
        }
        let strategy = self.question(&op, inputs, &types, &ty, about, |q, whole| q.best(whole));
        self.apply(&op, inputs, ty, &strategy)
    }

    fn ty(&self, value: ValueId) -> Type {
        match self.values.get(value.0 as usize) {
            Some(value) => value.ty,
            None => {
                let slot = self.slots.get(value.0.wrapping_sub(LITERALS) as usize);
                Type::scalar(slot.map_or(gt_ir::DType::Bool, |scalar| scalar.weak_dtype()))
            }
        }
    }

    fn operand_type(&self, operand: Operand) -> OperandType {
        match operand {
            Operand::Value(value) if value.0 >= LITERALS => {
                let slot = self.slots.get(value.0.wrapping_sub(LITERALS) as usize);
                OperandType::Scalar(slot.copied().unwrap_or(Scalar::Bool(false)))
            }
            Operand::Value(value) => OperandType::Tensor(self.ty(value)),
            Operand::Scalar(scalar) => OperandType::Scalar(scalar),
        }
    }
}
