//! Boxes of tensors at a member, cut out of pieces that members hold and put together.

use gt_ir::layout::{Region, boxed};
use gt_ir::{Op, OpError};
use smallvec::SmallVec;

use super::{Arg, Lanes, Local, Name, volume};

/// Who holds a box of a tensor, and under which name.
#[derive(Clone, Debug)]
pub(in crate::shard) struct Piece {
    pub(in crate::shard) member: u32,
    pub(in crate::shard) name: Name,
    pub(in crate::shard) region: Region,
}

impl Lanes {
    /// A box of a local value, whose own elements are those of another box.
    pub(in crate::shard) fn slice(
        &mut self,
        piece: &Piece,
        region: &[(usize, usize)],
    ) -> Result<Name, OpError> {
        let key = (piece.member, piece.name, region.to_vec());
        if let Some(name) = self.all[self.place(piece.member)].slices.get(&key) {
            return Ok(*name);
        }
        let mut name = self.held(piece);
        for (axis, (&(first, end), &(own, own_end))) in region.iter().zip(&piece.region).enumerate()
        {
            if (first, end) == (own, own_end) {
                continue;
            }
            let slice = gt_ir::attr::Slice {
                axis: axis as u8,
                start: (first - own) as u64,
                stop: (end - own) as u64,
                step: 1,
            };
            name = self.instr(piece.member, Op::Slice(slice), &[Arg::Value(name)])?;
        }
        self.lane(piece.member).slices.insert(key, name);
        Ok(name)
    }

    /// The name of a piece at its member. A lane that stands for all may hold one of another size.
    fn held(&mut self, piece: &Piece) -> Name {
        let place = self.place(piece.member);
        let Local { ty, moment, .. } = *self.all[place].local(piece.name);
        let sizes = piece.region.iter().map(|(first, end)| end - first);
        if !self.alike || sizes.eq(ty.shape.sizes().iter().copied()) {
            return piece.name;
        }
        self.all[place].define(boxed(&ty, &piece.region), moment, None)
    }

    /// A box of a tensor at a member, from those who hold pieces of it. A piece of its own comes
    /// first; of others, each member begins at another one, so that none is asked by all.
    pub(in crate::shard) fn assemble(
        &mut self,
        member: u32,
        region: &Region,
        pieces: &[Piece],
    ) -> Result<Name, OpError> {
        if volume(region) == 0
            && let Some(piece) = pieces.first()
        {
            let holder = &self.all[self.place(piece.member)];
            let ty = boxed(&holder.local(piece.name).ty, region);
            return self.zeros(member, ty);
        }
        let own = pieces.iter().find(|p| p.member == member && covers(&p.region, region));
        let n = pieces.len().max(1);
        // The pieces of a member's turns follow each other.
        let first = member as usize * self.turns.n;
        let others = (0..pieces.len()).map(|i| &pieces[(i + first) % n]);
        let whole = own.or_else(|| others.into_iter().find(|p| covers(&p.region, region)));
        if let Some(piece) = whole.cloned() {
            let part = self.slice(&piece, region)?;
            return Ok(self.send(piece.member, part, member));
        }
        let (axis, cuts) = cut(region, pieces)
            .ok_or_else(|| OpError::new("internal: nobody holds a part of a sharded value"))?;
        let mut parts: SmallVec<[Arg; 3]> = SmallVec::new();
        for pair in cuts.windows(2) {
            let mut part = region.clone();
            part[axis] = (pair[0], pair[1]);
            parts.push(Arg::Value(self.assemble(member, &part, pieces)?));
        }
        self.instr(member, Op::Cat(gt_ir::attr::Axis(axis as u8)), &parts)
    }
}

/// Whether a box contains another.
fn covers(outer: &[(usize, usize)], inner: &[(usize, usize)]) -> bool {
    outer.iter().zip(inner).all(|(o, i)| o.0 <= i.0 && i.1 <= o.1)
}

/// An axis along which the pieces cut a box, and the cuts, both ends included.
fn cut(region: &Region, pieces: &[Piece]) -> Option<(usize, Vec<usize>)> {
    for (axis, &(first, end)) in region.iter().enumerate() {
        let bounds = pieces.iter().flat_map(|p| [p.region[axis].0, p.region[axis].1]);
        let mut cuts: Vec<usize> = bounds.filter(|at| (first..end).contains(at)).collect();
        cuts.extend([first, end]);
        cuts.sort_unstable();
        cuts.dedup();
        if cuts.len() > 2 {
            return Some((axis, cuts));
        }
    }
    None
}
