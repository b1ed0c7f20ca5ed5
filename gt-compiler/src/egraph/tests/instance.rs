//! Random graphs that a left side matches: operands are made from the type wanted of the whole,
//! downwards.

use std::collections::BTreeMap;

use gt_ir::{
    DType, Dim, Graph, HostTensor, NodeId, NodeKind, Op, OpKind, OperandType, Scalar, Shape, Type,
    attr::{Axis, AxisSet, Keep, Pad, Perm, Reduce, Slice},
    expand,
    graph::Rebuild,
    infer,
    testing::{Source, tensor},
};

use crate::egraph::{
    pattern::{Head, Term},
    rules::Dtypes,
};

/// Most variables of a left side.
const MAX_INPUTS: usize = 8;

/// Numbers given at run time.
const SLOTS: [f64; 2] = [1.5, -0.25];

/// A graph whose output a left side matches, and data for it.
pub(super) struct Instance {
    pub(super) graph: Graph,
    pub(super) data: Vec<HostTensor>,
}

/// How a term is made, decided before the first node.
#[derive(Clone, Debug)]
enum Plan {
    Input(usize),
    Number(Scalar, Type),
    Slot(u32, Type),
    Op(Op, Vec<Plan>),
}

impl Instance {
    /// `None` when chance made choices that do not go together.
    pub(super) fn of(left: &str, dtypes: Dtypes, source: &mut Source<'_>) -> Option<Instance> {
        let term = Term::parse(left)?;
        let mut maker = Maker {
            source,
            vars: BTreeMap::new(),
            inputs: Vec::new(),
            attrs: BTreeMap::new(),
            joined: BTreeMap::new(),
            dtypes,
        };
        let ty = maker.root(&term);
        let plan = maker.plan(&term, ty)?;
        let types = maker.inputs.clone();
        let data: Vec<HostTensor> = types.iter().map(|ty| special(*ty, source)).collect();
        // A graph with these inputs to build upon.
        let seed = seed_graph(&types)?;
        let mut new = Rebuild::of(&seed);
        let root = make(&plan, &mut new)?;
        let graph = new.finish(&[root]).ok()?;
        Some(Instance { graph, data })
    }
}

/// A graph with inputs of these types.
fn seed_graph(types: &[Type]) -> Option<Graph> {
    let operands: Vec<OperandType> =
        types.iter().map(|t| OperandType::Tensor(t.with_dtype(t.dtype))).collect();
    let tape = operands
        .iter()
        .enumerate()
        .map(|(i, t)| format!("%{i} = input : {t}\n"))
        .collect::<String>();
    // An instruction nobody needs brings the slots.
    let tape = format!("{tape}%99 = arange[f64[1]] {}, {} : f64[1]\n", SLOTS[0], SLOTS[1]);
    let (tape, _) = gt_ir::text::parse(&format!("gt tape 1\n{tape}")).ok()?;
    gt_ir::lower(&tape).ok()?.expanded().ok()
}

/// Random elements with special values among them.
fn special(ty: Type, source: &mut Source<'_>) -> HostTensor {
    let plain = tensor(ty, source);
    if !ty.dtype.is_float() || source.chance(1, 2) {
        return plain;
    }
    let size = ty.dtype.size();
    let mut bytes = plain.bytes().to_vec();
    for at in 0..ty.shape.numel() {
        let value = match source.below(12) {
            0 => f64::NAN,
            1 => f64::INFINITY,
            2 => f64::NEG_INFINITY,
            3 => -0.0,
            4 => 0.0,
            _ => continue,
        };
        let one =
            expand(&Op::Full(Type::scalar(ty.dtype)), &[OperandType::Scalar(Scalar::F64(value))])
                .unwrap();
        let one = gt_ir::interp::run_graph(&one, &[], &[Scalar::F64(value)]).unwrap();
        bytes[at * size..(at + 1) * size].copy_from_slice(one[0].bytes());
    }
    HostTensor::new(ty, bytes.into()).unwrap()
}

fn make(plan: &Plan, new: &mut Rebuild) -> Option<NodeId> {
    match plan {
        Plan::Input(k) => new.input(*k as u32).ok(),
        Plan::Number(value, ty) => {
            let scalar = new.leaf(NodeKind::Const(*value), Type::scalar(ty.dtype));
            if ty.shape.rank() == 0 {
                Some(scalar)
            } else {
                new.op(Op::Expand(ty.shape), &[scalar]).ok()
            }
        }
        Plan::Slot(k, ty) => {
            let scalar = new.leaf(NodeKind::Scalar(*k), Type::scalar(ty.dtype));
            if ty.shape.rank() == 0 {
                Some(scalar)
            } else {
                new.op(Op::Expand(ty.shape), &[scalar]).ok()
            }
        }
        Plan::Op(op, children) => {
            let children = children.iter().map(|c| make(c, new)).collect::<Option<Vec<_>>>()?;
            new.op(*op, &children).ok()
        }
    }
}

struct Maker<'s, 'a> {
    source: &'s mut Source<'a>,
    vars: BTreeMap<String, Plan>,
    inputs: Vec<Type>,
    attrs: BTreeMap<String, Op>,
    /// The types of variables that are no inputs.
    joined: BTreeMap<String, Type>,
    dtypes: Dtypes,
}

impl Maker<'_, '_> {
    /// A type for the whole term.
    fn root(&mut self, term: &Term) -> Type {
        let Term::Op { head: Head::Op(kind), .. } = term else {
            return Type::new(self.dtype(), self.shape());
        };
        let logical = matches!(
            kind,
            OpKind::Eq
                | OpKind::Lt
                | OpKind::LogicalAnd
                | OpKind::LogicalOr
                | OpKind::LogicalXor
                | OpKind::LogicalNot
        );
        let dtype = if logical { DType::Bool } else { self.dtype() };
        Type::new(dtype, self.shape())
    }

    fn dtype(&mut self) -> DType {
        let fitting: Vec<DType> = DType::ALL.into_iter().filter(|d| self.dtypes.hold(*d)).collect();
        // Most of the time the common one, so that dtypes of several variables agree.
        if self.source.chance(1, 2) && self.dtypes.hold(DType::F32) {
            DType::F32
        } else {
            fitting[self.source.below(fitting.len())]
        }
    }

    fn shape(&mut self) -> Shape {
        let rank = self.source.below(4);
        let sizes: Vec<usize> = (0..rank).map(|_| [1, 2, 3, 4][self.source.below(4)]).collect();
        Shape::new(&sizes).unwrap()
    }

    fn plan(&mut self, term: &Term, ty: Type) -> Option<Plan> {
        match term {
            Term::Var(name) => self.var(name, ty),
            Term::Uniform(name) => self.uniform(name, ty),
            Term::Number(value) => {
                let scalar = match ty.dtype {
                    DType::Bool => Scalar::Bool(*value != 0.0),
                    d if d.is_float() => Scalar::F64(*value),
                    _ if value.fract() == 0.0 && *value >= 0.0 || ty.dtype != DType::U8 => {
                        Scalar::I64(*value as i64)
                    }
                    _ => return None,
                };
                Some(Plan::Number(scalar, ty))
            }
            Term::Op { head, attr, children } => {
                let known = attr.as_ref().and_then(|a| self.attrs.get(a).copied());
                let kinds = head.ops();
                let kind =
                    known.map_or_else(|| kinds[self.source.below(kinds.len())], |op| op.kind());
                let (op, types) = self.operands(kind, known, ty, children.len())?;
                if let Some(attr) = attr {
                    self.attrs.insert(attr.clone(), op);
                }
                let children = children
                    .iter()
                    .zip(types)
                    .map(|(c, t)| self.plan(c, t))
                    .collect::<Option<Vec<_>>>()?;
                Some(Plan::Op(op, children))
            }
        }
    }

    fn var(&mut self, name: &str, ty: Type) -> Option<Plan> {
        if let Some(plan) = self.vars.get(name) {
            let known = match plan {
                Plan::Input(k) => self.inputs[*k],
                Plan::Number(_, ty) | Plan::Slot(_, ty) => *ty,
                Plan::Op(..) => self.joined.get(name).copied()?,
            };
            return known.same_layout(&ty).then(|| plan.clone());
        }
        let plan = match self.source.below(8) {
            // Numbers, since many rules are about them.
            0 => Plan::Number(self.number(ty.dtype), ty),
            1 => Plan::Slot(self.source.below(SLOTS.len()) as u32, ty),
            // Something repeated.
            2 | 3 if ty.shape.rank() > 0 => {
                let small = self.smaller(ty.shape);
                Plan::Op(Op::Expand(ty.shape), vec![self.input(Type::new(ty.dtype, small))?])
            }
            // Something joined.
            4 if ty.shape.rank() > 0 => {
                let (op, types) = self.operands(OpKind::Cat, None, ty, 2)?;
                let parts = types.into_iter().map(|t| self.input(t)).collect::<Option<Vec<_>>>()?;
                Plan::Op(op, parts)
            }
            _ => self.input(ty)?,
        };
        // A repeated variable must be the same value, and an expansion's type is the one wanted
        // here.
        self.vars.insert(name.to_owned(), plan.clone());
        self.joined.insert(name.to_owned(), ty);
        Some(plan)
    }

    /// One number everywhere.
    fn uniform(&mut self, name: &str, ty: Type) -> Option<Plan> {
        if self.vars.contains_key(name) {
            return self.var(name, ty);
        }
        let plan = if self.source.chance(1, 2) {
            Plan::Number(self.number(ty.dtype), ty)
        } else {
            Plan::Slot(self.source.below(SLOTS.len()) as u32, ty)
        };
        self.vars.insert(name.to_owned(), plan.clone());
        Some(plan)
    }

    fn number(&mut self, dtype: DType) -> Scalar {
        match dtype {
            DType::Bool => Scalar::Bool(self.source.chance(1, 2)),
            d if d.is_float() => {
                Scalar::F64([0.5, 2.0, 3.0, -4.0, 1.0, 0.25][self.source.below(6)])
            }
            _ => Scalar::I64(self.source.below(5) as i64),
        }
    }

    fn input(&mut self, ty: Type) -> Option<Plan> {
        self.inputs.push(ty);
        (self.inputs.len() <= MAX_INPUTS).then(|| Plan::Input(self.inputs.len() - 1))
    }

    /// A shape that expands to this one.
    fn smaller(&mut self, shape: Shape) -> Shape {
        let drop = if self.source.chance(1, 3) { self.source.below(shape.rank() + 1) } else { 0 };
        let sizes: Vec<usize> = shape.sizes()[drop..]
            .iter()
            .map(|&s| if self.source.chance(1, 2) { 1 } else { s })
            .collect();
        Shape::new(&sizes).unwrap()
    }

    /// An op of a kind with a result of a type, and the types of its operands.
    #[expect(clippy::too_many_lines, reason = "an arm for each kind that needs more than a dtype")]
    fn operands(
        &mut self,
        kind: OpKind,
        known: Option<Op>,
        ty: Type,
        arity: usize,
    ) -> Option<(Op, Vec<Type>)> {
        let (dtype, shape) = (ty.dtype, ty.shape);
        let rank = shape.rank();
        Some(match kind {
            OpKind::Eq | OpKind::Lt => {
                if dtype != DType::Bool {
                    return None;
                }
                let of = if kind == OpKind::Lt || self.source.chance(1, 2) {
                    self.numeric()
                } else {
                    self.dtype()
                };
                (kind.name().parse().ok()?, vec![Type::new(of, shape); 2])
            }
            OpKind::LogicalAnd | OpKind::LogicalOr | OpKind::LogicalXor | OpKind::LogicalNot => {
                if dtype != DType::Bool {
                    return None;
                }
                (kind.name().parse().ok()?, vec![ty; arity])
            }
            OpKind::Where => (Op::Where, vec![ty.with_dtype(DType::Bool), ty, ty]),
            OpKind::Cast => {
                let from = if self.source.chance(1, 4) {
                    DType::ALL[self.source.below(8)]
                } else {
                    self.dtype()
                };
                (Op::Cast(dtype), vec![ty.with_dtype(from)])
            }
            OpKind::Sum | OpKind::Max | OpKind::Min => {
                if dtype == DType::Bool
                    || kind == OpKind::Sum && dtype.is_int() && dtype != DType::I64
                {
                    return None;
                }
                let (reduce, from) = self.reduce(kind, known, shape)?;
                let op = match kind {
                    OpKind::Sum => Op::Sum(reduce),
                    OpKind::Max => Op::Max(reduce),
                    _ => Op::Min(reduce),
                };
                (op, vec![Type::new(dtype, from)])
            }
            OpKind::MatMul => {
                if rank < 2 || dtype == DType::Bool {
                    return None;
                }
                let k = [1, 2, 3, 5][self.source.below(4)];
                let with = |m: usize, n: usize| {
                    let dims: Vec<Dim> =
                        shape.dims().take(rank - 2).chain([Dim::new(m), Dim::new(n)]).collect();
                    Type::new(dtype, Shape::from_dims(&dims).unwrap())
                };
                (
                    Op::MatMul,
                    vec![with(shape.sizes()[rank - 2], k), with(k, shape.sizes()[rank - 1])],
                )
            }
            OpKind::Reshape => (Op::Reshape(shape), vec![Type::new(dtype, self.reshaped(shape))]),
            OpKind::Permute => {
                let mut order: Vec<usize> = (0..rank).collect();
                (1..rank).for_each(|i| order.swap(i, self.source.below(i + 1)));
                let perm = if let Some(Op::Permute(p)) = known { p } else { Perm::new(&order)? };
                let inverse = perm.inverse();
                if inverse.rank() != rank {
                    return None;
                }
                let dims: Vec<Dim> = inverse.axes().map(|a| shape.dim(a)).collect();
                (Op::Permute(perm), vec![Type::new(dtype, Shape::from_dims(&dims).ok()?)])
            }
            OpKind::Expand => (Op::Expand(shape), vec![Type::new(dtype, self.smaller(shape))]),
            OpKind::Slice => {
                let axis = self.axis(rank)?;
                let n = shape.sizes()[axis];
                let (before, after) = (self.source.below(3), self.source.below(3));
                let step = if self.source.chance(1, 3) { 2 } else { 1 };
                let stop = before + if n == 0 { 0 } else { (n - 1) * step + 1 };
                let slice = Slice {
                    axis: axis as u8,
                    start: before as u64,
                    stop: stop as u64,
                    step: step as u64,
                };
                (Op::Slice(slice), vec![Type::new(dtype, resized(shape, axis, stop + after))])
            }
            OpKind::Pad => {
                let axis = self.axis(rank)?;
                let n = shape.sizes()[axis];
                let lo = self.source.below(n + 1);
                let hi = self.source.below(n - lo + 1);
                let pad = Pad { axis: axis as u8, lo: lo as u64, hi: hi as u64, interior: 0 };
                (
                    Op::Pad(pad),
                    vec![Type::new(dtype, resized(shape, axis, n - lo - hi)), Type::scalar(dtype)],
                )
            }
            OpKind::Cat => {
                let axis = self.axis(rank)?;
                let n = shape.sizes()[axis];
                let first = self.source.below(n + 1);
                let parts = [first, n - first].map(|n| Type::new(dtype, resized(shape, axis, n)));
                (Op::Cat(Axis(axis as u8)), parts.to_vec())
            }
            OpKind::Gather => {
                let axis = self.axis(rank)?;
                // Indices are drawn from -16 to 16: most are out of range, and both sides must
                // fail.
                let from = resized(shape, axis, 17);
                (
                    Op::Gather(Axis(axis as u8)),
                    vec![Type::new(dtype, from), ty.with_dtype(DType::I64)],
                )
            }
            _ => {
                let op: Op = kind.name().parse().ok()?;
                if infer(&op, &vec![OperandType::Tensor(ty); arity]).ok()?.dtype != dtype {
                    return None;
                }
                (op, vec![ty; arity])
            }
        })
    }

    fn numeric(&mut self) -> DType {
        let dtype = self.dtype();
        if dtype == DType::Bool { DType::F32 } else { dtype }
    }

    fn axis(&mut self, rank: usize) -> Option<usize> {
        (rank > 0).then(|| self.source.below(rank))
    }

    /// Another shape of as many elements.
    fn reshaped(&mut self, shape: Shape) -> Shape {
        let mut sizes: Vec<usize> = shape.sizes().to_vec();
        match self.source.below(4) {
            0 => sizes = vec![shape.numel()],
            1 => sizes.retain(|s| *s != 1),
            2 => sizes.insert(self.source.below(sizes.len() + 1), 1),
            _ => sizes.reverse(),
        }
        Shape::new(&sizes).unwrap()
    }

    /// Axes, and the shape they are taken from to leave one.
    fn reduce(&mut self, kind: OpKind, known: Option<Op>, to: Shape) -> Option<(Reduce, Shape)> {
        let known = match known {
            Some(Op::Sum(r) | Op::Max(r) | Op::Min(r)) => Some(r),
            Some(_) | None => None,
        };
        let keep = known.map_or_else(
            || if self.source.chance(1, 2) { Keep::Yes } else { Keep::No },
            |r| r.keep,
        );
        let small =
            |s: &mut Source<'_>| [2, 3, 4, 1][s.below(if kind == OpKind::Sum { 4 } else { 3 })];
        let mut sizes: Vec<usize> = to.sizes().to_vec();
        let mut axes = AxisSet::default();
        if keep == Keep::Yes {
            for (axis, size) in sizes.iter_mut().enumerate() {
                let here =
                    known.map_or_else(|| self.source.chance(2, 3), |r| r.axes.contains(axis));
                if here && *size == 1 {
                    *size = small(self.source);
                    axes.insert(axis);
                }
            }
        } else {
            let n = known.map_or_else(|| 1 + self.source.below(2), |r| r.axes.len());
            let at: Vec<usize> = match known {
                Some(r) => r.axes.iter().collect(),
                None => (0..n).map(|i| self.source.below(sizes.len() + i + 1)).collect(),
            };
            let mut at = at;
            at.sort_unstable();
            at.dedup();
            for axis in at {
                if axis > sizes.len() {
                    return None;
                }
                sizes.insert(axis, small(self.source));
                axes.insert(axis);
            }
        }
        Some((Reduce { axes, keep }, Shape::new(&sizes).ok()?))
    }
}

fn resized(shape: Shape, axis: usize, size: usize) -> Shape {
    let dims: Vec<Dim> =
        shape.dims().enumerate().map(|(i, d)| if i == axis { Dim::new(size) } else { d }).collect();
    Shape::from_dims(&dims).unwrap()
}
