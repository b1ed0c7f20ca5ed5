//! Instructions on the members of their mesh, in the layouts that `choose` prefers.

use std::sync::Arc;

use gt_ir::factors::{Factors, Links};
use gt_ir::layout::{Layout, Mesh, Spread};
use gt_ir::op::{Meaning, factors, infer};
use gt_ir::{Emit, Op, OpError, Operand, OperandType, Scalar, Type, ValueId};
use smallvec::SmallVec;

use super::{LITERALS, Mode, Sharder, Value};
use crate::native::is_product;
use crate::shard::choose::{Operand as Choice, Question, Strategy};
use crate::shard::lanes::Arg;
use crate::shard::plan::MAX_WAYS;
use crate::shard::reshard::Version;
use crate::shard::sharder::Sums;
use crate::shard::turns::Moment;

impl Sharder<'_> {
    /// The mesh of an instruction outside configured scopes: of its operands' the largest.
    pub(super) fn mesh_of(&self, inputs: &[Operand]) -> Arc<Mesh> {
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
    pub(super) fn allows(&self, factors: &Factors, inputs: &[Operand], mesh: &Arc<Mesh>) -> bool {
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
    pub(super) fn wish(&mut self, ty: &Type) -> Option<Layout> {
        let scope = self.scopes.current()?;
        (ty.shape.rank() > 0).then(|| self.scopes.wish(&scope, ty))
    }

    /// What a question about an instruction finds.
    pub(super) fn question<T>(
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
                match (&value.made, &self.mode) {
                    (Some(_), _) => Choice::Anywhere(value.wish.as_ref()),
                    (None, Mode::Note(_)) => Choice::Open,
                    (None, _) => Choice::Versions(&value.versions, &value.ty),
                }
            }
            Operand::Value(_) | Operand::Scalar(_) => Choice::Literal,
        };
        let operands: SmallVec<[Choice<'_>; 3]> = inputs.iter().map(choice).collect();
        let rates = &self.request.rates;
        let operands = &operands;
        let pinned = self.scopes.pinned();
        let shares = self.sums != Sums::Repeated;
        let question = Question { op, types, operands, out, factors, wish, pinned, shares, rates };
        find(&question, &Layout::whole(Arc::clone(mesh)))
    }

    /// An instruction on the members of a mesh.
    pub(super) fn apply(
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
        let moments = versions.iter().flatten().map(|version| self.lanes.moment(version));
        self.lanes.floor = moments.fold(Moment::default(), Moment::max);
        let mut names = SmallVec::new();
        self.lanes.begin();
        for rank in self.lanes.ranks(&layout.mesh) {
            let member = layout.mesh.members()[rank];
            self.lanes.at_rank(&layout.mesh, rank);
            let arg = |(operand, version): (&Operand, &Option<Version>)| match version {
                Some(version) => Arg::Value(version.names[rank]),
                None => self.literals(&[*operand])[0],
            };
            let args: SmallVec<[Arg; 3]> = inputs.iter().zip(&versions).map(arg).collect();
            let local = layout.local(rank, &ty);
            names.push(self.lanes.instr(member, op.resized(&local), &args)?);
        }
        self.lanes.floor = Moment::default();
        let names = self.lanes.at_all(&layout.mesh, names);
        let versions = vec![Version { layout, names }];
        Ok(self.value(Value { ty, versions, made: None, wish: None }))
    }

    /// The same value in the layout that a signal asks for.
    pub(super) fn view(&mut self, x: ValueId, ty: Type, wish: &Layout) -> Result<ValueId, OpError> {
        let version = self.version(x, wish)?;
        Ok(self.value(Value { ty, versions: vec![version], made: None, wish: None }))
    }
}

impl Emit for Sharder<'_> {
    fn emit(&mut self, op: Op, inputs: &[Operand]) -> Result<ValueId, OpError> {
        let types: SmallVec<[OperandType; 3]> =
            inputs.iter().map(|operand| self.operand_type(*operand)).collect();
        let ty = infer(&op, &types)?;
        let wish = self.wish(&ty);
        let made = self.made(&op, inputs);
        if made.is_some() {
            if let Mode::Note(problem) = &mut self.mode {
                problem.made(ty);
            }
            return Ok(self.value(Value { ty, versions: Vec::new(), made, wish }));
        }
        if let (Op::Reshape(_), [Operand::Value(x)], Some(wish)) = (op, inputs, &wish)
            && self.at(*x).ty.shape.same_sizes(&ty.shape)
        {
            if let Mode::Note(_) = self.mode {
                let operands = SmallVec::from_vec(vec![Some(wish.clone())]);
                let way = Strategy { operands, result: wish.clone() };
                return Ok(self.note_ways(&op, inputs, &types, ty, vec![(way, 0.0)]));
            }
            let view = self.view(*x, ty, wish)?;
            return self.settled(view);
        }
        let mesh = self.planned_mesh().map(Arc::clone);
        let planned = mesh.is_some();
        let mesh = mesh.or_else(|| self.scopes.current().map(|scope| Arc::clone(&scope.mesh)));
        let mesh = mesh.unwrap_or_else(|| self.mesh_of(inputs));
        let factors = factors(&op, &types, &ty);
        // Engines multiply in an order of their own, which gives other bits than the expansion.
        let keeps_bits = self.scopes.pinned() && is_product(&op, &types);
        let allows =
            |factors: &Factors| planned || keeps_bits || self.allows(factors, inputs, &mesh);
        if let Meaning::Derived(expansion) = op.spec().meaning
            && !factors.as_ref().is_some_and(allows)
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
        let result = ValueId(self.values.len() as u64);
        let strategy = match &self.mode {
            Mode::Greedy => self
                .question(&op, inputs, &types, &ty, about, |question, whole| question.best(whole)),
            Mode::Note(_) => {
                let all = |question: &Question<'_>, whole: &_| question.ways(whole, MAX_WAYS);
                let ways = self.question(&op, inputs, &types, &ty, about, all);
                return Ok(self.note_ways(&op, inputs, &types, ty, ways));
            }
            Mode::Follow(plan) => plan
                .strategy(result)
                .cloned()
                .ok_or_else(|| OpError::new("internal: an instruction without a plan"))?,
        };
        let result = self.apply(&op, inputs, ty, &strategy)?;
        self.settled(result)
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
