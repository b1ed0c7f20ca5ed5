//! Segments in the making.

use gt_compiler::shard::at;
use gt_ir::attr::{Axis, AxisSet, Keep, Reduce};
use gt_ir::layout::Layout;
use gt_ir::signal::Signals;
use gt_ir::testing::{self, Source};
use gt_ir::{
    DType, Emit, Entry, HostTensor, Instr, Loc, Op, OpError, Operand, OperandType, Shape, Tape,
    Type, ValueId, infer, interp,
};

use super::Data;
use super::layouts::line;

/// A segment in the making.
#[derive(Clone, Debug, Default)]
pub(super) struct Recorder {
    pub(super) tape: Tape,
    pub(super) types: Vec<Type>,
    pub(super) outside: Vec<ValueId>,
    pub(super) signals: Signals,
}

impl Recorder {
    /// A value from outside.
    pub(super) fn outside(&mut self, ty: Type) -> ValueId {
        self.types.push(ty);
        let id = ValueId(self.types.len() as u64 - 1);
        self.outside.push(id);
        id
    }

    /// The values from outside become uploads.
    pub(super) fn uploads(&mut self) {
        for out in std::mem::take(&mut self.outside) {
            let ty = self.types[out.0 as usize];
            self.tape.entries.push(Entry::Input { out, ty, name: None });
        }
    }

    /// The segment as a whole program, and what it leaves by the interpreter.
    pub(super) fn run(&self, data: &Data) -> (Tape, Data) {
        let outside = self.outside.iter().map(|out| {
            let ty = self.types[out.0 as usize];
            Entry::Input { out: *out, ty, name: None }
        });
        let mut tape = Tape { entries: outside.chain(self.tape.entries.iter().cloned()).collect() };
        let mut alive: Vec<ValueId> = tape.entries.iter().filter_map(Entry::defines).collect();
        for entry in &tape.entries {
            if let Entry::Free(value) = entry {
                alive.retain(|other| other != value);
            }
        }
        tape.entries.extend(alive.into_iter().map(|value| Entry::Output { value, name: None }));
        let results = interp::run(&tape, data).unwrap();
        (tape, results)
    }

    /// A value like another one, of which each member has an addend: a float is a sum over a
    /// dimension that is split, any other has rows added at positions that are.
    pub(super) fn addends(
        &mut self,
        id: ValueId,
        n: u32,
        data: &mut Data,
        layouts: &mut Vec<Layout>,
    ) -> Option<ValueId> {
        let ty = self.ty(id).unnamed();
        if ty.dtype.is_float() {
            return self.folded(id, Op::Sum, n, data, layouts);
        }
        let mut source = Source::from_seed(id.0 + 5);
        let n_rows = *ty.shape.sizes().first()?;
        let rows = testing::tensor(ty, &mut source);
        let old = data[&id].clone();
        let base = match ty.dtype {
            DType::Bool => old,
            _ => interp::eval(&Op::Sub, &[interp::Arg::Tensor(&old), interp::Arg::Tensor(&rows)])
                .ok()?,
        };
        let places = Shape::new(&[n_rows]).ok()?;
        let index = self.outside(Type::new(DType::I64, places));
        let src = self.outside(ty);
        data.insert(index, HostTensor::from_vec((0..n_rows as i64).collect(), places).ok()?);
        data.insert(src, rows);
        data.insert(id, base);
        layouts[id.0 as usize] = at(0);
        layouts.push(line(n, Some(0), &self.ty(index)));
        layouts.push(line(n, Some(0), &ty));
        self.emit(Op::IndexAdd(Axis(0)), &[id.into(), index.into(), src.into()]).ok()
    }

    /// A value like another one, folded over a dimension that is split.
    pub(super) fn folded(
        &mut self,
        id: ValueId,
        fold: fn(Reduce) -> Op,
        n: u32,
        data: &mut Data,
        layouts: &mut Vec<Layout>,
    ) -> Option<ValueId> {
        let ty = self.ty(id);
        let sizes: Vec<usize> = [n as usize].iter().chain(ty.shape.sizes()).copied().collect();
        let stacked = Type::new(ty.dtype, Shape::new(&sizes).ok()?);
        let x = self.outside(stacked);
        data.insert(x, testing::tensor(stacked, &mut Source::from_seed(id.0 + 5)));
        layouts.push(line(n, Some(0), &stacked));
        let axes: AxisSet = [0].into_iter().collect();
        self.emit(fold(Reduce { axes, keep: Keep::No }), &[x.into()]).ok()
    }
}

impl Emit for Recorder {
    fn emit(&mut self, op: Op, inputs: &[Operand]) -> Result<ValueId, OpError> {
        let types: Vec<OperandType> = inputs.iter().map(|o| self.operand_type(*o)).collect();
        let ty = infer(&op, &types)?;
        let out = ValueId(self.types.len() as u64);
        self.types.push(ty);
        let inputs = inputs.iter().copied().collect();
        self.tape.entries.push(Entry::Instr(Instr { out, op, inputs, loc: Loc::NONE }));
        Ok(out)
    }

    fn ty(&self, value: ValueId) -> Type {
        self.types[value.0 as usize]
    }
}
