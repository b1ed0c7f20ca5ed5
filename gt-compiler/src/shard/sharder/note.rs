//! The walk for a plan: first it notes what there is to decide, then it follows what was decided.
//! Both walks name values alike.

use std::sync::Arc;

use gt_ir::layout::{Layout, Mesh};
use gt_ir::{Op, OpError, Operand, OperandType, Type, ValueId};
use smallvec::SmallVec;

use super::{LITERALS, Mode, Sharder, Value};
use crate::shard::choose::Strategy;
use crate::shard::plan::{Plan, Problem};

/// How often a segment is expected to come again: values that come to other members for it do so
/// once.
const TIMES: f64 = 100.0;

impl Sharder<'_> {
    /// What there is to decide on a mesh.
    pub(in crate::shard) fn note(mut self, mesh: &Arc<Mesh>) -> Result<Problem, OpError> {
        self.mode = Mode::Note(Box::new(Problem::new(mesh)));
        self.walk()?;
        let Mode::Note(mut problem) = self.mode else {
            return Err(OpError::new("internal: a walk has changed its mode"));
        };
        for (number, future) in self.futures.iter().enumerate().filter(|(_, f)| f.kept) {
            let name = |number: usize| self.numbers[number].0 as usize;
            let heir_of = future.heir_of.map(|before| name(before as usize));
            problem.kept(name(number), heir_of);
        }
        Ok(*problem)
    }

    /// The walk by a plan.
    pub(in crate::shard) fn follow(mut self, plan: Arc<Plan>) -> Self {
        self.mode = Mode::Follow(plan);
        self
    }

    /// Notes that the values so far are of the segment's values so far, or checks that the plan is
    /// for such values.
    pub(super) fn named(&mut self) -> Result<(), OpError> {
        let (numbers, values) = (self.numbers.len(), self.values.len());
        match &mut self.mode {
            Mode::Follow(plan) if !plan.names(numbers, values) => {
                Err(OpError::new("internal: a plan for other values"))
            }
            Mode::Note(problem) => {
                problem.end();
                Ok(())
            }
            Mode::Follow(_) | Mode::Greedy => Ok(()),
        }
    }

    /// The walk of one member that stands for all, for an estimate.
    pub(in crate::shard) fn alike(mut self) -> Self {
        self.lanes = self.lanes.alike();
        self
    }

    /// The mesh of all instructions, if there is or will be a plan.
    pub(super) fn planned_mesh(&self) -> Option<&Arc<Mesh>> {
        match &self.mode {
            Mode::Greedy => None,
            Mode::Note(problem) => Some(&problem.whole.mesh),
            Mode::Follow(plan) => Some(&plan.whole.mesh),
        }
    }

    /// Notes a value from before with the layouts that it may have, or brings it into the layout
    /// that was decided, which is returned.
    pub(super) fn place(&mut self, id: ValueId) -> Result<Option<Layout>, OpError> {
        let layout = match &self.mode {
            Mode::Greedy => return Ok(None),
            Mode::Note(_) => {
                self.note_given(id);
                return Ok(None);
            }
            Mode::Follow(plan) => plan.layout(id).cloned(),
        };
        layout.iter().try_for_each(|layout| self.version(id, layout).map(drop))?;
        Ok(layout)
    }

    /// The layout of a value that members make and the segment leaves, such as a parameter, if they
    /// share out parameters.
    pub(super) fn shared_out(&self, ty: &Type) -> Option<Layout> {
        let n = self.request.n_members;
        let is_asked = self.request.auto.is_some_and(|auto| auto.zero > 2);
        let mesh = Mesh::new((0..n).collect(), &[n as usize]).filter(|_| is_asked && n > 1)?;
        let whole = Layout::whole(Arc::new(mesh));
        let part = whole.widest(0, &ty.shape)?;
        Some(whole.with(0, part))
    }

    fn note_given(&mut self, id: ValueId) {
        let number = self.numbers.len() - 1;
        let upload = number >= self.request.inputs.len();
        let stays = self.futures[number].kept || self.futures[number].replaced;
        let Value { ty, versions, wish, .. } = self.at(id);
        let ty = *ty;
        let Mode::Note(problem) = &self.mode else { return };
        let layouts = match (wish, versions.first()) {
            (Some(wish), _) => vec![(wish.clone(), 0.0)],
            (None, Some(held)) if held.layout.mesh == problem.whole.mesh => {
                vec![(held.layout.clone(), 0.0)]
            }
            (None, held) => {
                let times = if stays && !upload { TIMES } else { 1.0 };
                let seconds = |to: &Layout| {
                    held.map_or(0.0, |v| self.request.rates.reshard(&v.layout, to, &ty)) / times
                };
                let layouts = Problem::layouts(&problem.whole, &ty);
                layouts.into_iter().map(|layout| (layout.clone(), seconds(&layout))).collect()
            }
        };
        if let Mode::Note(problem) = &mut self.mode {
            problem.given(ty, layouts, upload);
        }
    }

    /// Notes an instruction with the ways to compute it.
    pub(super) fn note_ways(
        &mut self,
        op: &Op,
        inputs: &[Operand],
        types: &[OperandType],
        ty: Type,
        ways: Vec<(Strategy, f64)>,
    ) -> ValueId {
        let number = |operand: &Operand| match operand {
            Operand::Value(value) if value.0 < LITERALS => Some(value.0 as usize),
            Operand::Value(_) | Operand::Scalar(_) => None,
        };
        let operands: SmallVec<[Option<usize>; 3]> = inputs.iter().map(number).collect();
        if let Mode::Note(problem) = &mut self.mode {
            problem.computed(op, (operands, types), ty, ways);
        }
        self.value(Value { ty, versions: Vec::new(), made: None, wish: None })
    }

    /// A result in the layout that was decided for all its uses.
    pub(super) fn settled(&mut self, id: ValueId) -> Result<ValueId, OpError> {
        let Mode::Follow(plan) = &self.mode else { return Ok(id) };
        if let Some(layout) = plan.layout(id).cloned() {
            self.version(id, &layout)?;
            if !layout.is_partial() {
                self.values[id.0 as usize].versions.retain(|v| !v.layout.is_partial());
            }
        }
        Ok(id)
    }
}
