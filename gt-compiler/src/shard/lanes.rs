//! What each member does, in the making: instructions on its local values, and the values that
//! members send each other.
//!
//! Every local value has a *level*: how many exchanges must have happened before it exists. A value
//! that is received has one level more than the value that was sent. An instruction has the same
//! level on all its members, also on those that received nothing for it: otherwise a member that
//! is a level ahead would send its results with what the others need first, and they would compute
//! one after the other. Levels cut a lane into phases (`phases`); all that is sent at one level
//! travels together.
//!
//! A member that takes several turns (`turns`) has one lane for all of them. What it computes
//! equally in several turns is there once, so nothing is sent or computed twice.

use std::collections::{BTreeMap, HashMap};

use gt_ir::dtype::Category;
use gt_ir::layout::{Mesh, Region, boxed};
use gt_ir::op::infer;
use gt_ir::{Loc, Op, OpError, OperandType, Scalar, Type};
use smallvec::SmallVec;

use super::Literal;
use super::turns::{Key, Moment, Turns};

/// A local value, by its number on its lane.
pub(super) type Name = u32;

/// An operand of a local instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Arg {
    Value(Name),
    Literal(Literal, Scalar),
}

impl Arg {
    /// The value, unless it is a literal.
    pub(super) fn name(&self) -> Option<Name> {
        match self {
            Arg::Value(name) => Some(*name),
            Arg::Literal(..) => None,
        }
    }
}

/// One thing a member does.
#[derive(Clone, Debug)]
#[expect(clippy::large_enum_variant, reason = "nearly all are instructions")]
pub(super) enum Item {
    Instr { op: Op, args: SmallVec<[Arg; 3]>, out: Name, loc: Loc },
    Send { value: Name, to: u32, received: Name },
    Receive { out: Name },
}

/// A local value.
#[derive(Clone, Debug)]
pub(super) struct Local {
    pub(super) ty: Type,
    pub(super) moment: Moment,
    /// Its number in the segment, where it was there before.
    pub(super) given: Option<u32>,
}

/// One member's work.
#[derive(Clone, Debug, Default)]
pub(super) struct Lane {
    pub(super) locals: Vec<Local>,
    pub(super) items: Vec<Item>,
    slices: BTreeMap<(Name, Vec<(usize, usize)>), Name>,
    sent: BTreeMap<(Name, u32), Name>,
    /// The values given so far, by their numbers in the segment.
    given: BTreeMap<u32, Name>,
    /// What the instruction that is added now computes so far, where the member takes turns.
    computed: HashMap<(Op, SmallVec<[Arg; 3]>), Name>,
}

/// The work of all members.
#[derive(Clone, Debug)]
pub(super) struct Lanes {
    pub(super) all: Vec<Lane>,
    /// Where the user wrote what is added now.
    pub(super) loc: Loc,
    /// The earliest moment of instructions that are added now.
    pub(super) floor: Moment,
    pub(super) turns: Turns,
    /// Whether what is sent now leaves a stage of a pipeline.
    pub(super) leaves: bool,
    /// The bytes that are worth an exchange before all that is sent at a level is there.
    pub(super) bucket: u64,
}

/// Who holds a box of a tensor, and under which name.
#[derive(Clone, Debug)]
pub(super) struct Piece {
    pub(super) member: u32,
    pub(super) name: Name,
    pub(super) region: Region,
}

impl Lane {
    fn define(&mut self, ty: Type, moment: Moment, given: Option<u32>) -> Name {
        self.locals.push(Local { ty, moment, given });
        self.locals.len() as Name - 1
    }

    /// What a type rule sees of an operand.
    pub(super) fn operand_type(&self, arg: &Arg) -> OperandType {
        match arg {
            Arg::Value(name) => OperandType::Tensor(self.local(*name).ty),
            Arg::Literal(_, scalar) => OperandType::Scalar(*scalar),
        }
    }

    pub(super) fn local(&self, name: Name) -> &Local {
        &self.locals[name as usize]
    }
}

impl Lanes {
    pub(super) fn new(n_members: u32, turns: Turns, bucket: u64) -> Lanes {
        let all = vec![Lane::default(); n_members as usize];
        Lanes { all, loc: Loc::NONE, floor: Moment::default(), turns, leaves: false, bucket }
    }

    /// The place of a value in the order of a member's work.
    pub(super) fn key(&self, member: usize, name: Name) -> Key {
        self.all[member].local(name).moment.key(self.turns.schedule)
    }

    fn lane(&mut self, member: u32) -> &mut Lane {
        &mut self.all[member as usize]
    }

    /// A value that a member has before the segment begins.
    pub(super) fn given(&mut self, member: u32, number: u32, ty: Type) -> Name {
        let lane = self.lane(member);
        if let Some(name) = lane.given.get(&number) {
            return *name;
        }
        let name = lane.define(ty.unnamed(), Moment::default(), Some(number));
        lane.given.insert(number, name);
        name
    }

    /// What is added from now on computes nothing that was computed before: two values of the
    /// segment are two on each member, although they may be equal.
    pub(super) fn begin(&mut self) {
        if self.turns.n > 1 {
            self.all.iter_mut().for_each(|lane| lane.computed.clear());
        }
    }

    /// What is added from now on is work of a rank of a mesh, in its turn.
    pub(super) fn at_rank(&mut self, mesh: &Mesh, rank: usize) {
        self.floor.turn = mesh.turn(rank) as u32;
    }

    /// An instruction of a member.
    pub(super) fn instr(&mut self, member: u32, op: Op, args: &[Arg]) -> Result<Name, OpError> {
        let (loc, floor, turns) = (self.loc, self.floor, self.turns.n);
        let lane = self.lane(member);
        let types: SmallVec<[OperandType; 3]> =
            args.iter().map(|arg| lane.operand_type(arg)).collect();
        let key = (op, args.into());
        if let Some(name) = lane.computed.get(&key) {
            return Ok(*name);
        }
        let moments = args.iter().filter_map(Arg::name).map(|name| lane.local(name).moment);
        let moment = moments.fold(floor, Moment::max);
        let ty = infer(&op, &types)?.unnamed();
        let out = lane.define(ty, moment, None);
        lane.items.push(Item::Instr { op, args: args.into(), out, loc });
        if turns > 1 {
            lane.computed.insert(key, out);
        }
        Ok(out)
    }

    /// Zeros at a member.
    pub(super) fn zeros(&mut self, member: u32, ty: Type) -> Result<Name, OpError> {
        let zero = match ty.dtype.category() {
            Category::Bool => Scalar::Bool(false),
            Category::Int => Scalar::I64(0),
            Category::Float => Scalar::F64(0.0),
        };
        self.instr(member, Op::Full(ty), &[Arg::Literal(Literal::Number(zero), zero)])
    }

    /// A value of one member at another.
    pub(super) fn send(&mut self, from: u32, value: Name, to: u32) -> Name {
        if from == to {
            return value;
        }
        if let Some(received) = self.all[from as usize].sent.get(&(value, to)) {
            return *received;
        }
        let Local { ty, moment, .. } = *self.all[from as usize].local(value);
        let received = moment.after_exchange(self.leaves);
        let lane = self.lane(to);
        let received = lane.define(ty, received, None);
        lane.items.push(Item::Receive { out: received });
        let lane = self.lane(from);
        lane.items.push(Item::Send { value, to, received });
        lane.sent.insert((value, to), received);
        received
    }

    /// A box of a local value, whose own elements are those of another box.
    pub(super) fn slice(
        &mut self,
        piece: &Piece,
        region: &[(usize, usize)],
    ) -> Result<Name, OpError> {
        let key = (piece.name, region.to_vec());
        if let Some(name) = self.all[piece.member as usize].slices.get(&key) {
            return Ok(*name);
        }
        let mut name = piece.name;
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

    /// A box of a tensor at a member, from those who hold pieces of it. A piece of its own comes
    /// first; of others, each member begins at another one, so that none is asked by all.
    pub(super) fn assemble(
        &mut self,
        member: u32,
        region: &Region,
        pieces: &[Piece],
    ) -> Result<Name, OpError> {
        if volume(region) == 0
            && let Some(piece) = pieces.first()
        {
            let ty = boxed(&self.all[piece.member as usize].local(piece.name).ty, region);
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

/// The box of a whole tensor.
pub(super) fn everything(ty: &Type) -> Region {
    ty.shape.sizes().iter().map(|&size| (0, size)).collect()
}

/// How many elements a box has.
pub(super) fn volume(region: &[(usize, usize)]) -> usize {
    region.iter().map(|(first, end)| end - first).product()
}

/// How many elements two boxes share.
pub(super) fn shared(a: &[(usize, usize)], b: &[(usize, usize)]) -> usize {
    let along =
        |(a, b): (&(usize, usize), &(usize, usize))| a.1.min(b.1).saturating_sub(a.0.max(b.0));
    a.iter().zip(b).map(along).product()
}
