//! Stores past the caches.
//!
//! Whole lines of the cache go to memory at once, one vector each or two of 256 bits, and memory
//! need not read the lines that are overwritten. The instructions want addresses at lines, and
//! generated code looks whether its first ones are: if not, it stores through the caches, by the
//! same loops. The values are the same either way.

use gt_ir::DType;

use super::{
    Unsupported,
    emit::{Emitter, Part},
    ir::{Inst, Op, Reg, Source, Width},
};
use crate::kernel::{nest::Nest, spec::Store};

/// Bytes of a line of the cache.
const LINE: i64 = 64;

impl Nest {
    /// Whether all whole vectors of a store lie in lines of the cache as the first one does.
    pub(crate) fn stores_lines(&self, store: &Store) -> bool {
        let Some(vector) = self.vector else { return false };
        let size = self.spec.buffers[usize::from(store.buffer)].size();
        let stride = |at: usize| self.stride(&store.access, at);
        let others = (0..self.order.len()).filter(|at| *at != vector);
        !self.folds()
            && stride(vector) == 1
            && self.extent(vector) * size >= LINE as usize
            && (size >= 4 || self.by_words() || self.stores_float16(store))
            && others.map(stride).all(|stride| stride * size as i64 % LINE == 0)
    }
}

impl Nest {
    /// Whether a store takes neighboring `f16`, of which two vectors of a block fill a line: a
    /// block has several where nothing lies apart.
    fn stores_float16(&self, store: &Store) -> bool {
        let Some(vector) = self.vector else { return false };
        self.spec.buffers[usize::from(store.buffer)] == DType::F16
            && store.fold.is_none()
            && self.stride(&store.access, vector) == 1
            && self.spec.accesses().all(|a| matches!(self.stride(a, vector), 0 | 1))
    }

    /// Whether vectors of a block are stored two at a time.
    pub(super) fn stores_pairs(&self) -> bool {
        self.by_words() || self.spec.stores.iter().any(|store| self.stores_float16(store))
    }
}

impl Emitter<'_> {
    /// The whole nest: with stores past the caches, and without where lines do not fit.
    pub(super) fn streaming_or_not(&mut self) -> Result<(), Unsupported> {
        let nest = self.nest;
        let is_streamed =
            |store: &Store| nest.spec.streams.contains(&store.buffer) && nest.stores_lines(store);
        let streamed: Vec<bool> = nest.spec.stores.iter().map(is_streamed).collect();
        if !streamed.contains(&true) {
            return self.nest_from(0, Part::Outside);
        }
        let (through, end) = (self.f.label(), self.f.label());
        let zero = self.number(0);
        for i in (0..streamed.len()).filter(|i| streamed[*i]) {
            let behind_line = self.behind_line(i)?;
            self.jump(zero, behind_line, true, through);
        }
        self.streamed = streamed;
        self.nest_from(0, Part::Outside)?;
        self.streamed.fill(false);
        // What goes past the caches is seen by others once this is done.
        self.f.push(Inst::new(Op::Fence, None, &[]));
        self.jump(zero, zero, false, end);
        self.f.push(Inst::new(Op::Label(through), None, &[]));
        self.nest_from(0, Part::Outside)?;
        self.f.push(Inst::new(Op::Label(end), None, &[]));
        Ok(())
    }

    /// How many bytes behind the beginning of a line the first element of a store lies.
    fn behind_line(&mut self, store: usize) -> Result<Reg, Unsupported> {
        let (nest, place) = (self.nest, self.store_at[store]);
        let Store { buffer, access, .. } = &nest.spec.stores[store];
        let mem = self.mem(place, 0)?;
        let mut first = self.general(Op::Address, &[], Some(mem));
        if let Some((at, _)) = nest.split_parallel {
            let size = nest.spec.buffers[usize::from(*buffer)].size() as i64;
            let by = i32::try_from(nest.stride(access, at) * size);
            let by = by.map_err(|_| Unsupported("a huge stride"))?;
            let moved = self.general(Op::Multiply(by), &[self.ranges[0].0], None);
            first = self.sum(first, Some((moved, 1)), 0);
        }
        Ok(self.general(Op::And(LINE as i32 - 1), &[first], None))
    }

    /// Whether vector `u` of a block goes past the caches in one line with the one beside it.
    pub(super) fn fills_line(&self, store: usize, (part, u): (Part, usize)) -> bool {
        let spec = &self.nest.spec;
        let dtype = spec.buffers[usize::from(spec.stores[store].buffer)];
        self.has_other(part, u) && self.streamed[store] && dtype == DType::F16
    }

    /// Stores the vectors `u - 1` and `u` past the caches.
    pub(super) fn stream_line(&mut self, store: usize, u: usize) -> Result<(), Unsupported> {
        let value = self.nest.spec.stores[store].value;
        let mem =
            self.mem(self.store_at[store], self.to_vector(u - 1, DType::F16.size() as i64))?;
        let mut lanes = |u| -> Result<Source, Unsupported> {
            let stored = self.f.stored(DType::F16, self.operand(value, u))?;
            Ok(Source::Reg(self.f.register(stored)))
        };
        let pair = [lanes(u - 1)?, lanes(u)?];
        let line = self.f.make(Op::JoinFloat16, &pair);
        self.f.push(Inst { mem: Some(mem), ..Inst::new(Op::Stream, None, &[line]) });
        Ok(())
    }

    /// The instruction that stores whole vectors.
    pub(super) fn storing(&self, store: usize, width: Width) -> Op {
        let is_whole = matches!(width, Width::Word | Width::Double);
        if is_whole && self.streamed[store] { Op::Stream } else { Op::Store(width) }
    }
}
