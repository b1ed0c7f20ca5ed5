//! Rows of several loops that do not merge, because an operand does not walk them as one.
//!
//! An element has the accumulator of its number in the row, but the innermost loop counts from 0
//! each time. So the accumulators stand in the order of the elements to come: after each innermost
//! loop they turn by as many lanes as it had elements, and after the row they turn back. A part of
//! a row begins and ends anywhere in an innermost loop; its first position is found by divisions.

use gt_ir::DType;

use super::{
    Unsupported,
    emit::{Emitter, Part, Turn},
    ir::{Base, Class, Inst, Mem, Op, Reg, Source, Width},
};
use crate::kernel::spec::{ACCUMULATORS, accumulated};

impl Emitter<'_> {
    /// Whether accumulators turn after the loop at this position, the innermost of a row.
    pub(super) fn turns_after(&self, at: usize) -> bool {
        self.nest.row.is_some() && at + 1 == self.nest.order.len() && self.reduces_vectors()
    }

    /// Room for two copies of a store's accumulators: 32 of four bytes, or 16 of eight.
    pub(super) fn reserve_turns(&mut self) {
        self.turns_at = self.f.reserve(2 * 4 * ACCUMULATORS as i32);
    }

    /// Turns the accumulators, so that the one so many lanes on becomes the first.
    pub(super) fn turn(&mut self, by: Turn) {
        let nest = self.nest;
        for (i, store) in nest.spec.stores.iter().enumerate() {
            if store.fold.is_none() {
                continue;
            }
            let dtype = accumulated(nest.spec.node(store.value).dtype);
            // Narrow elements are added up in lanes of four bytes.
            let (n, size) = (nest.accumulators(dtype), dtype.size().max(4));
            let from = match by {
                Turn::By(lanes) if lanes.is_multiple_of(n) => continue,
                Turn::By(lanes) => (None, (lanes % n * size) as i32),
                Turn::ByReg(lanes) => {
                    let lanes = self.general(Op::And(n as i32 - 1), &[lanes], None);
                    (Some((lanes, size as u8)), 0)
                }
            };
            self.turn_store(i, dtype, from);
        }
    }

    /// Turns those of a store by way of memory, where they lie twice.
    fn turn_store(&mut self, i: usize, dtype: DType, (index, disp): (Option<(Reg, u8)>, i32)) {
        let wide = dtype.size() == 8;
        let width = if wide { Width::Double } else { Width::Word };
        let halves: Vec<Reg> = self.sums[i]
            .iter()
            .flat_map(|sum| if wide { &sum[..] } else { &sum[..1] })
            .copied()
            .collect();
        let step = self.f.vectors.bytes();
        let all = step * halves.len() as i32;
        let place = |index, disp: i32| Some(Mem { base: Base::Frame, index, disp });
        for copy in [0, all] {
            for (at, half) in halves.iter().enumerate() {
                let mem = place(None, self.turns_at + copy + step * at as i32);
                let inst = Inst::new(Op::Store(width), None, &[Source::Reg(*half)]);
                self.f.push(Inst { mem, ..inst });
            }
        }
        for (at, half) in halves.iter().enumerate() {
            let turned = self.f.reg(Class::Vector);
            let mem = place(index, self.turns_at + disp + step * at as i32);
            self.f.push(Inst { mem, ..Inst::new(Op::Load(width), Some(turned), &[]) });
            let inst = Inst::new(Op::Move { wide }, Some(*half), &[Source::Reg(turned)]);
            self.f.push(inst);
        }
    }

    /// The loops of a whole row, which begins at position `at`.
    pub(super) fn whole_row(&mut self, at: usize, part: Part) -> Result<(), Unsupported> {
        let range = self.range(at);
        self.loop_over(at, range, true, part)?;
        if self.reduces_vectors() {
            let extent = (at..self.nest.order.len()).map(|at| self.nest.extent(at)).product();
            self.turn_back(Turn::By(extent));
        }
        Ok(())
    }

    /// Turns the accumulators back after so many elements.
    fn turn_back(&mut self, after: Turn) {
        match after {
            Turn::By(n) => {
                let most = self.nest.accumulators(DType::F32);
                self.turn(Turn::By(most - n % most));
            }
            Turn::ByReg(n) => {
                let zero = self.number(0);
                let back = self.general(Op::Subtract, &[zero, n], None);
                self.turn(Turn::ByReg(back));
            }
        }
    }

    /// The part of a row between the ends of the second range.
    pub(super) fn part_of_row(&mut self, at: usize, part: Part) -> Result<(), Unsupported> {
        let (low, high) = self.ranges[1];
        let last = self.nest.order.len() - 1;
        let extent = self.nest.extent(last);
        let n_loops = (at..last).map(|at| self.nest.extent(at)).product::<usize>();
        if i32::try_from(n_loops).is_err() {
            return Err(Unsupported("a huge loop"));
        }
        // The number of the innermost loop, the position in it, and how many elements are left.
        let number = self.quotient(low, extent)?;
        let before = self.multiplied(number, extent)?;
        let index = self.general(Op::Subtract, &[low, before], None);
        let left = self.general(Op::Subtract, &[high, low], None);
        let (zero, one_loop) = (self.number(0), self.number(extent as i64));
        let (body, exit) = (self.f.label(), self.f.label());
        self.jump(zero, left, false, exit);
        let start = self.f.insts.len();
        self.f.push(Inst::new(Op::Label(body), None, &[]));
        let end = self.sum(index, Some((left, 1)), 0);
        self.least(end, one_loop);
        let saved = (self.load_at.clone(), self.store_at.clone());
        let outer = self.along_row.replace(number);
        self.enter(at, number, part)?;
        self.loop_over(last, (index, end), false, part)?;
        (self.load_at, self.store_at) = saved;
        self.along_row = outer;
        let done = self.general(Op::Subtract, &[end, index], None);
        self.f.push(Inst::new(Op::Subtract, Some(left), &[Source::Reg(left), Source::Reg(done)]));
        self.f.push(Inst::new(Op::Subtract, Some(index), &[Source::Reg(index); 2]));
        self.advance(number, 1);
        self.jump(zero, left, true, body);
        self.f.loops.push((start, self.f.insts.len()));
        self.f.push(Inst::new(Op::Label(exit), None, &[]));
        if self.reduces_vectors() {
            let all = self.general(Op::Subtract, &[high, low], None);
            self.turn_back(Turn::ByReg(all));
        }
        Ok(())
    }

    /// Steps into the outer loops of a row, from position `at` on: into the innermost loop of this
    /// number.
    fn enter(&mut self, at: usize, number: Reg, part: Part) -> Result<(), Unsupported> {
        let outer = at..self.nest.order.len() - 1;
        let mut rest = number;
        let mut indices = Vec::new();
        for at in outer.clone().skip(1).rev() {
            let extent = self.nest.extent(at);
            let above = self.quotient(rest, extent)?;
            let whole = self.multiplied(above, extent)?;
            indices.push(self.general(Op::Subtract, &[rest, whole], None));
            rest = above;
        }
        indices.push(rest);
        for (at, index) in outer.zip(indices.into_iter().rev()) {
            self.step_into(at, index)?;
            self.nodes_at(at + 1, part)?;
        }
        Ok(())
    }

    /// `a = min(a, b)`.
    fn least(&mut self, a: Reg, b: Reg) {
        let (difference, is_less) = (self.general(Op::Subtract, &[b, a], None), self.f.label());
        self.jump(a, b, true, is_less);
        let mem = Some(Mem { base: Base::Reg(a), index: Some((difference, 1)), disp: 0 });
        self.f.push(Inst { mem, ..Inst::new(Op::Address, Some(a), &[]) });
        self.f.push(Inst::new(Op::Label(is_less), None, &[]));
    }

    pub(super) fn multiplied(&mut self, a: Reg, by: usize) -> Result<Reg, Unsupported> {
        let by = i32::try_from(by).map_err(|_| Unsupported("a huge loop"))?;
        Ok(self.general(Op::Multiply(by), &[a], None))
    }

    /// `a / by`, rounded down; it is less than 2^31.
    fn quotient(&mut self, a: Reg, by: usize) -> Result<Reg, Unsupported> {
        let by = i32::try_from(by).map_err(|_| Unsupported("a huge loop"))?;
        let a = self.f.make(Op::SplatGeneral { wide: true }, &[Source::Reg(a)]);
        let quotient = self.f.long_quotient(a, by);
        let mem = Some(Mem { base: Base::Frame, index: None, disp: self.turns_at });
        let store = Inst::new(Op::StoreFirst(Width::Double, 1), None, &[quotient]);
        self.f.push(Inst { mem, ..store });
        Ok(self.general(Op::LoadPointer, &[], mem))
    }
}
