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
//! For an estimate all members of a mesh may be taken to be *alike*. Then there is one lane. What
//! it sends is what others send to it, so it takes the time of a lane among siblings.
//!
//! A member that takes several turns (`turns`) has one lane for all of them. What it computes
//! equally in several turns is there once, so nothing is sent or computed twice.

mod pieces;

use std::collections::{BTreeMap, HashMap};
use std::ops::Range;

use gt_ir::dtype::Category;
use gt_ir::layout::{Mesh, Region};
use gt_ir::op::infer;
use gt_ir::{Loc, Op, OpError, OperandType, Scalar, Type};
use smallvec::SmallVec;

use super::Literal;
use super::turns::{Key, Moment, Turns};
pub(super) use pieces::Piece;

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
    slices: BTreeMap<Slice, Name>,
    /// By sender, value and receiver.
    sent: BTreeMap<(u32, Name, u32), Name>,
    /// The values given so far, by their numbers in the segment.
    given: BTreeMap<u32, Name>,
    /// What the instruction that is added now computes so far, where the member takes turns.
    computed: HashMap<(Op, SmallVec<[Arg; 3]>), Name>,
}

/// A box of a value of a member. A lane may stand for several members.
type Slice = (u32, Name, Vec<(usize, usize)>);

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
    /// Whether one lane stands for all members.
    alike: bool,
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
        let (loc, floor) = (Loc::NONE, Moment::default());
        Lanes { all, loc, floor, turns, leaves: false, bucket, alike: false }
    }

    /// One lane that stands for all members.
    pub(super) fn alike(mut self) -> Lanes {
        self.all.truncate(1);
        self.alike = true;
        self
    }

    /// Makes room for so many instructions.
    pub(super) fn reserve(&mut self, n: usize) {
        for lane in &mut self.all {
            lane.locals.reserve(n);
            lane.items.reserve(n);
        }
    }

    /// The place of a member's lane.
    pub(super) fn place(&self, member: u32) -> usize {
        if self.alike { 0 } else { member as usize }
    }

    /// The ranks of a mesh whose work is added: all, or one that stands for all. It is not the
    /// first, which may hold what others lack.
    pub(super) fn ranks(&self, mesh: &Mesh) -> Range<usize> {
        let one = 1.min(mesh.len() - 1);
        if self.alike { one..one + 1 } else { 0..mesh.len() }
    }

    /// The names at all ranks of a mesh, from those at the ranks whose work is added.
    pub(super) fn at_all(&self, mesh: &Mesh, names: SmallVec<[Name; 4]>) -> SmallVec<[Name; 4]> {
        match names.first() {
            Some(&name) if self.alike => SmallVec::from_elem(name, mesh.len()),
            _ => names,
        }
    }

    /// The place of a value in the order of a member's work.
    pub(super) fn key(&self, member: usize, name: Name) -> Key {
        self.all[member].local(name).moment.key(self.turns.schedule)
    }

    fn lane(&mut self, member: u32) -> &mut Lane {
        let place = self.place(member);
        &mut self.all[place]
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
        let sender = &self.all[self.place(from)];
        if let Some(received) = sender.sent.get(&(from, value, to)) {
            return *received;
        }
        let Local { ty, moment, .. } = *sender.local(value);
        let received = moment.after_exchange(self.leaves);
        let lane = self.lane(to);
        let received = lane.define(ty, received, None);
        lane.items.push(Item::Receive { out: received });
        let lane = self.lane(from);
        lane.items.push(Item::Send { value, to, received });
        lane.sent.insert((from, value, to), received);
        received
    }
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
