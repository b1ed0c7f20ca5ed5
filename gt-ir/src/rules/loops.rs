//! Loops: rounds of a body that carries values from each round to the next, as `lax.scan` of JAX.
//!
//! A loop is the instructions of all its rounds. Its gradient is another loop, over the same slices
//! in the opposite order: each round computes the body again from what was carried into it, and
//! walks it backwards (backpropagation through time, Werbos 1990).

use smallvec::SmallVec;

use super::{derive::misplaced, grad::Out, infer::Result, lines};
use crate::{
    attr::Slice,
    body::{Body, Builder, MAX_WORK, Scan},
    emit::{Build, Emit, Emitted},
    error::OpError,
    grad::{Grads, Vjp, back_through},
    op::Op,
    operand::{Operand, OperandType, ValueId},
    shape::{Dim, Shape, Type},
};

impl Scan {
    /// The types of all results, on operands of these types: the carried values after the last
    /// round, then what the rounds stack along a first axis.
    ///
    /// # Errors
    /// The operands do not fit the loop or its body, a round gives values of other types than it
    /// gets, or there are more than [`MAX_WORK`] instructions in all rounds.
    pub fn results(&self, operands: &[Type]) -> Result<Vec<Type>> {
        if operands.len() < self.scanned().end || self.body.n_results() < self.carried().end {
            return Err(OpError::new(format!(
                "scan: {} operands and {} results of a round are too few for {} carried and {} \
                 scanned values",
                operands.len(),
                self.body.n_results(),
                self.n_carried,
                self.n_scanned
            )));
        }
        if self.work() > MAX_WORK {
            return Err(OpError::new(format!(
                "scan: {} rounds have {} instructions, more than {MAX_WORK}",
                self.length,
                self.work()
            ))
            .hint("loop over fewer slices at a time"));
        }
        let arguments = self.arguments(operands)?;
        let mut results = self.body.infer(&arguments)?;
        for (i, (ty, given)) in results.iter().zip(&arguments[self.carried()]).enumerate() {
            if ty != given {
                return Err(OpError::new(format!(
                    "scan: a round gets {given} and gives {ty} for carried value {i}"
                ))
                .hint("carry values of the same type in all rounds"));
            }
        }
        for ty in &mut results[self.carried().end..] {
            let line = Dim::new(self.length as usize);
            *ty =
                Type::new(ty.dtype, Shape::collect(std::iter::once(line).chain(ty.shape.dims()))?);
        }
        Ok(results)
    }

    /// The types of the arguments of the body.
    fn arguments(&self, operands: &[Type]) -> Result<Vec<Type>> {
        operands.iter().enumerate().map(|(i, ty)| self.argument(i, ty)).collect()
    }

    /// What makes a body of the arguments that it has on these operands, and these arguments.
    fn builder(&self, operands: &[Type]) -> Result<(Builder, Vec<Operand>)> {
        let arguments = self.arguments(operands)?;
        let args = (0..arguments.len()).map(Builder::argument).collect();
        Ok((Builder::new(arguments), args))
    }

    /// The type of an argument of the body.
    fn argument(&self, i: usize, ty: &Type) -> Result<Type> {
        if !self.scanned().contains(&i) {
            return Ok(ty.unnamed());
        }
        match ty.shape.sizes().first() {
            Some(&n) if n as u64 == self.length => {
                let inner = Shape::collect(ty.shape.dims().skip(1))?;
                Ok(Type::new(ty.dtype, inner).unnamed())
            }
            _ => Err(OpError::new(format!(
                "scan: operand {i} is {ty}, whose first axis does not have {} slices",
                self.length
            ))),
        }
    }
}

/// A line of the elements of all results of the dtype.
pub(crate) fn infer(op: &Op, ins: &[OperandType]) -> Result<Type> {
    let Op::Scan(scan) = op else { return Err(misplaced(op)) };
    let results = scan.results(&lines::tensors(op, ins)?)?;
    lines::ty(op, scan.dtype, &results)
}

/// The rounds one after the other.
pub(crate) fn unroll(e: &mut dyn Emit, op: &Op, ins: &[Operand]) -> Emitted {
    let Op::Scan(scan) = op else { return Err(misplaced(op)) };
    let Rounds { carried, stacked } = rounds(e, scan, ins)?;
    let all: Vec<ValueId> =
        carried.iter().filter_map(Operand::value).chain(stacked.into_iter().flatten()).collect();
    lines::joined(e, scan.dtype, &all)
}

/// The values that rounds give.
pub(crate) struct Rounds {
    /// The carried values after the last round.
    pub(crate) carried: Vec<Operand>,
    /// The slices of each stacked result, in their order.
    pub(crate) stacked: Vec<Vec<ValueId>>,
}

/// Emits the rounds of a loop on these operands.
pub(crate) fn rounds(e: &mut dyn Emit, scan: &Scan, ins: &[Operand]) -> Result<Rounds> {
    let n_carried = scan.carried().end;
    let (scanned, same) = (&ins[scan.scanned()], &ins[scan.scanned().end..]);
    let mut carried = ins[scan.carried()].to_vec();
    let mut stacked = vec![Vec::new(); scan.body.n_results() - n_carried];
    for round in scan.rounds() {
        let mut args = carried.clone();
        for x in scanned {
            let Operand::Value(x) = *x else { return Err(misplaced(&Op::Scan(*scan))) };
            args.push(slice_of(e, x, round)?.into());
        }
        args.extend_from_slice(same);
        let results = scan.body.call(e, &args)?;
        carried = results[..n_carried].iter().map(|value| (*value).into()).collect();
        for (all, value) in stacked.iter_mut().zip(&results[n_carried..]) {
            all.push(*value);
        }
    }
    if scan.reverse {
        stacked.iter_mut().for_each(|all| all.reverse());
    }
    Ok(Rounds { carried, stacked })
}

/// A slice along the first axis, without it.
fn slice_of(e: &mut dyn Emit, x: ValueId, i: u64) -> Emitted {
    let shape = e.ty(x).shape;
    let slice = e.slice(x, Slice { axis: 0, start: i, stop: i + 1, step: 1 })?;
    e.reshape(slice, Shape::collect(shape.dims().skip(1))?)
}

/// All results of a loop on these operands: one instruction for each dtype that they have, of those
/// that are wanted.
fn emitted(
    e: &mut dyn Emit,
    scan: Scan,
    operands: &[ValueId],
    wanted: impl Fn(usize) -> bool,
) -> Result<Vec<Option<ValueId>>> {
    let types: Vec<Type> = operands.iter().map(|value| e.ty(*value)).collect();
    let results = scan.results(&types)?;
    lines::emitted(e, |dtype| Op::Scan(Scan { dtype, ..scan }), operands, &results, wanted)
}

/// The operands of a loop that is walked backwards, by what they are to the loop itself.
struct Walk {
    scan: Scan,
    operands: Vec<ValueId>,
    types: Vec<Type>,
    /// Whether a gradient is asked for, of each operand. Those of carried values are always needed.
    wanted: Vec<bool>,
    /// The gradients of the results, which have one dtype.
    grads: Vec<Option<ValueId>>,
}

pub(crate) fn scan_grad(cx: &mut Vjp<'_>) -> Out {
    let Op::Scan(scan) = *cx.op else { return Err(misplaced(cx.op)) };
    let operands: Vec<ValueId> =
        (0..cx.inputs.len()).map(|i| cx.tensor(i)).collect::<Result<_>>()?;
    let types: Vec<Type> = operands.iter().map(|value| cx.e.ty(*value)).collect();
    let results = scan.results(&types)?;
    let grad = cx.grad;
    let grads = lines::gradients(cx.e, grad, &results)?;
    let is_carried = |i: usize| scan.carried().contains(&i) && types[i].dtype.is_float();
    let wanted = (0..types.len()).map(|i| is_carried(i) || cx.wants(i)).collect();
    let given = Walk { scan, operands, types, wanted, grads }.gradients(cx.e)?;
    Ok(given.into_iter().enumerate().map(|(i, grad)| grad.filter(|_| cx.wants(i))).collect())
}

impl Walk {
    /// The operands in a range that have gradients.
    fn wanted(&self, range: std::ops::Range<usize>) -> impl Iterator<Item = usize> + '_ {
        range.filter(|i| self.wanted[*i])
    }

    /// The operands that are the same in all rounds.
    fn same(&self) -> std::ops::Range<usize> {
        self.scan.scanned().end..self.operands.len()
    }

    /// The gradients of the operands.
    fn gradients(&self, e: &mut dyn Emit) -> Result<Grads> {
        let mut operands = Vec::new();
        // What is gathered round by round: gradients of the carried values, and sums of those of
        // what is the same in all rounds.
        for i in self.wanted(self.scan.carried()) {
            operands.push(match self.grads[i] {
                Some(grad) => grad,
                None => e.full(self.types[i].unnamed(), 0)?,
            });
        }
        for i in self.wanted(self.same()) {
            operands.push(e.full(self.types[i].unnamed(), 0)?);
        }
        let n_gathered = operands.len();
        // Of each round: what was carried into it, what it took, and the gradients of its results.
        operands.extend(self.carried_in(e)?);
        operands.extend(&self.operands[self.scan.scanned()]);
        operands.extend(self.grads.iter().skip(self.scan.carried().end).flatten());
        let n_scanned = operands.len() - n_gathered;
        operands.extend(&self.operands[self.same()]);
        let types: Vec<Type> = operands.iter().map(|value| e.ty(*value)).collect();
        let (n_carried, n_scanned) = (count(n_gathered)?, count(n_scanned)?);
        let back = Scan { n_carried, n_scanned, reverse: !self.scan.reverse, ..self.scan };
        let back = Scan { body: self.body(back, &types)?, ..back };
        let found = emitted(e, back, &operands, |_| true)?;
        let order = self.wanted(self.scan.carried()).chain(self.wanted(self.same()));
        let order = order.chain(self.wanted(self.scan.scanned()));
        let mut grads: Grads = SmallVec::from_elem(None, self.operands.len());
        for (i, grad) in order.zip(found) {
            grads[i] = grad.map(|grad| e.reshape(grad, self.types[i].shape)).transpose()?;
        }
        Ok(grads)
    }

    /// The carried values at the beginning of each round, stacked.
    fn carried_in(&self, e: &mut dyn Emit) -> Result<Vec<ValueId>> {
        let (mut builder, args) = self.scan.builder(&self.types)?;
        let next = self.scan.body.call(&mut builder, &args)?;
        let next = next[self.scan.carried()].iter().map(|value| Operand::Value(*value));
        let results: Vec<Operand> = next.chain(args[self.scan.carried()].iter().copied()).collect();
        let scan = Scan { body: builder.body(&results)?, ..self.scan };
        let n_carried = self.scan.carried().end;
        let found = emitted(e, scan, &self.operands, |i| i >= n_carried)?;
        Ok(found.into_iter().skip(n_carried).flatten().collect())
    }

    /// A round of the walk, on operands of these types.
    fn body(&self, back: Scan, types: &[Type]) -> Result<Body> {
        let (mut e, args) = back.builder(types)?;
        // The arguments of the loop's own body, and the gradients of its results.
        let (n_own, n_scanned) = (self.scan.scanned().end, usize::from(back.n_scanned));
        let (gathered, rest) = args.split_at(back.n_carried.into());
        let own: Vec<Operand> = rest[..n_own].iter().chain(&rest[n_scanned..]).copied().collect();
        let mut of_carried = gathered.iter();
        let mut of_stacked = rest[n_own..n_scanned].iter();
        let grads =
            self.grads.iter().enumerate().map(|(i, grad)| match self.scan.carried().contains(&i) {
                true => self.wanted[i].then(|| of_carried.next()).flatten(),
                false => grad.and_then(|_| of_stacked.next()),
            });
        let grads: Vec<Option<ValueId>> = grads.map(|grad| grad.and_then(Operand::value)).collect();
        let call = |e: &mut dyn Emit, args: &[Operand]| self.scan.body.call(e, args);
        let found = back_through(&mut e, &own, &self.wanted, call, &grads)?;
        let mut results = Vec::new();
        let mut sums = gathered[self.wanted(self.scan.carried()).count()..].iter();
        for i in self.wanted(self.scan.carried()) {
            results.push(lines::given(&mut e, found[i], own[i])?.into());
        }
        for i in self.wanted(self.same()) {
            let sum = *sums.next().ok_or_else(|| OpError::new("scan: a sum is missing"))?;
            results.push(match found[i] {
                Some(grad) => e.add(sum, grad)?.into(),
                None => sum,
            });
        }
        for i in self.wanted(self.scan.scanned()) {
            results.push(lines::given(&mut e, found[i], own[i])?.into());
        }
        e.body(&results)
    }
}

/// As the attribute of an op counts.
fn count(n: usize) -> Result<u16> {
    u16::try_from(n).map_err(|_| OpError::new("scan: too many operands"))
}
