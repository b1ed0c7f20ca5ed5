//! What a layout costs: elements that have to travel, and work that is not shared out.
//!
//! Times are estimates in seconds that rank alternatives; nothing is measured here.

use gt_ir::layout::{Layout, Spread};
use gt_ir::{Class, Op, OperandType, Type};

use super::lanes::{shared, volume};
use super::reshard::{GROUP, Version, group, is_direct, scattered};
use super::work::flops;

/// Seconds that count for what ends all turns, to put together what each of them has made: more
/// than anything else, because a program takes turns to need the memory of one.
const TOGETHER: f64 = 1.0;

/// What exchanges and computation cost.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rates {
    /// Seconds that an exchange takes, however small.
    pub latency: f64,
    /// Bytes a second that a member receives.
    pub exchange: f64,
    /// Floating-point operations a second of a member.
    pub flops: f64,
    /// Bytes a second that a member reads and writes.
    pub memory: f64,
    /// How many times as fast a member is while no other computes: more than 1 if members share a
    /// processor.
    pub alone: f64,
}

/// The part of a processor's best product that products of other shapes reach.
const SHARE: f64 = 0.9;
/// How many times as long as a message a bucket of messages travels: enough that the latency of one
/// more exchange does not matter.
const BUCKET: f64 = 8.0;
/// Seconds in which the threads of a processor begin and end a kernel together.
const FORK: f64 = 15e-6;

impl Default for Rates {
    /// A processor's thread as a member, its siblings in the same machine. An exchange ends a
    /// kernel that could have gone on, and members wait for the slowest. Threads of one process
    /// exchange faster than processes do, and have the same rates: what is estimated decides the
    /// order of sums, and both have the same bits.
    fn default() -> Rates {
        Rates { latency: 200e-6, exchange: 10e9, flops: 40e9, memory: 8e9, alone: 1.0 }
    }
}

impl Rates {
    /// Members on GPUs, whose exchanges pass through the memory of their hosts.
    pub const GPU: Rates =
        Rates { latency: 60e-6, exchange: 8e9, flops: 20e12, memory: 1.5e12, alone: 1.0 };

    /// These rates, with those that a text states in place of their own:
    /// `latency=20e-6,exchange=25e9,flops=400e12,memory=2.5e12`, in seconds, bytes a second and
    /// operations a second.
    ///
    /// # Errors
    /// The text is no such list; the message says what is wrong with it.
    pub fn stating(self, text: &str) -> Result<Rates, String> {
        let mut rates = self;
        for part in text.split(',') {
            let (key, number) =
                part.split_once('=').ok_or_else(|| format!("{part:?} has no `=`"))?;
            let rate = match key.trim() {
                "latency" => &mut rates.latency,
                "exchange" => &mut rates.exchange,
                "flops" => &mut rates.flops,
                "memory" => &mut rates.memory,
                other => {
                    return Err(format!(
                        "{other:?} is none of `latency`, `exchange`, `flops` and `memory`"
                    ));
                }
            };
            let number: Option<f64> = number.trim().parse().ok();
            *rate = number
                .filter(|n| n.is_finite() && *n > 0.0)
                .ok_or_else(|| format!("{part:?} has no positive number"))?;
        }
        Ok(rates)
    }

    /// Members with so many threads of a processor each.
    #[must_use]
    pub fn threads(n: f64) -> Rates {
        let own = Rates::default();
        Rates { flops: n * own.flops, memory: n * own.memory, ..own }
    }

    /// The same with members that reach so many floating-point operations and bytes of memory in a
    /// second. 0 if unknown.
    #[must_use]
    pub fn reaching(self, flops: f64, memory: f64) -> Rates {
        match flops > 0.0 && memory > 0.0 {
            true => Rates { flops: SHARE * flops, memory, ..self },
            false => self,
        }
    }

    /// Seconds of kernels that take a member so long beside the others, if it computes alone. What
    /// is too short for several threads takes one.
    pub(super) fn lone(&self, seconds: f64) -> f64 {
        match self.alone > 1.0 {
            true => seconds.min(seconds / self.alone + FORK),
            false => seconds,
        }
    }

    /// The bytes of a bucket, which is sent before all that is sent with it is there.
    pub(super) fn bucket(&self) -> u64 {
        (BUCKET * self.latency * self.exchange) as u64
    }

    /// Seconds until a value is in another layout.
    pub(super) fn reshard(&self, from: &Layout, to: &Layout, ty: &Type) -> f64 {
        if from.mesh.turns() > 1 {
            let (here, there) = (from.at_once(), to.at_once());
            return self.copied(from, to, ty) + self.reshard(&here, &there, ty);
        }
        let bytes = |elements: usize| (elements * ty.dtype.size()) as f64;
        let mut seconds = 0.0;
        let mut settled = from.clone();
        for (axis, spread) in from.spreads.iter().enumerate() {
            let kept = from.mesh == to.mesh && to.spreads[axis] == *spread;
            if matches!(spread, Spread::Partial(_)) && !kept {
                let n = from.mesh.sizes()[axis];
                let addend = bytes(volume(&from.region(0, &ty.shape)));
                let part = scattered(&settled, to, axis);
                seconds += match part {
                    Some(_) => self.reduce_scatter(addend, n),
                    None => self.all_reduce(addend, ty, n),
                };
                settled = settled.with(axis, part.unwrap_or(Spread::Whole));
            }
        }
        let lacking = (0..to.mesh.len()).map(|rank| {
            let region = to.region(rank, &ty.shape);
            let own = settled.mesh.rank_of(to.mesh.members()[rank]);
            let own = own.map_or(0, |own| shared(&settled.region(own, &ty.shape), &region));
            (volume(&region) - own, volume(&region))
        });
        let (most, part) = lacking.max().unwrap_or((0, 0));
        let n = from.mesh.len().max(to.mesh.len());
        // What is split elsewhere is cut out of other parts, and what is not one part is put
        // together.
        let cut = if to.is_whole() { 0 } else { most };
        let joined = if settled.is_whole() { 0 } else { part };
        match most {
            0 => seconds,
            _ => seconds + self.travel(n, bytes(most)) + self.copy(bytes(cut + joined)),
        }
    }

    /// Seconds of an exchange in which each of `n` members receives so many bytes.
    fn travel(&self, n: usize, bytes: f64) -> f64 {
        self.wait(n) + bytes / self.exchange
    }

    /// Seconds in which a member reads and writes so many bytes.
    fn copy(&self, bytes: f64) -> f64 {
        2.0 * bytes / self.memory
    }

    /// Seconds in which a member rearranges what it has from turn to turn. Nothing travels.
    fn copied(&self, from: &Layout, to: &Layout, ty: &Type) -> f64 {
        let (Some(before), Some(after)) = (from.spreads.last(), to.spreads.last()) else {
            return 0.0;
        };
        let bytes = volume(&from.at_once().region(0, &ty.shape)) * ty.dtype.size();
        let copy = bytes as f64 / self.memory;
        match (before, after) {
            (Spread::Partial(_), Spread::Partial(_)) | (Spread::Whole, _) => 0.0,
            (Spread::Partial(_), Spread::Split { .. } | Spread::Whole) => {
                copy * from.mesh.turns() as f64
            }
            (Spread::Split { .. }, _) if before == after => 0.0,
            (Spread::Split { .. }, _) => copy + TOGETHER,
        }
    }

    /// Seconds of the messages of an exchange in which `n` members have one for each other member,
    /// or for those of their group, and then in the same way for those of other groups.
    fn wait(&self, n: usize) -> f64 {
        match group(n) {
            Some(size) => self.wait(size) + self.wait(n / size),
            None => self.latency * (n as f64 / GROUP as f64).max(1.0),
        }
    }

    /// Seconds until each of `n` members has its part of the sum of addends of so many bytes.
    fn reduce_scatter(&self, addend: f64, n: usize) -> f64 {
        let part = addend / n as f64;
        let sums = (addend + part) / self.memory;
        self.travel(n, addend - part) + self.copy(addend - part) + sums
    }

    /// Seconds until each of `n` members has all of a value of so many bytes of which it has a
    /// part.
    fn gather(&self, whole: f64, n: usize) -> f64 {
        self.travel(n, whole - whole / n as f64) + self.copy(whole)
    }

    /// Seconds until each of `n` members has the sum of addends of so many bytes: many members
    /// combine in groups, and then across groups.
    fn all_reduce(&self, addend: f64, ty: &Type, n: usize) -> f64 {
        match group(n) {
            Some(size) => self.all_reduce(addend, ty, size) + self.all_reduce(addend, ty, n / size),
            None if is_direct(ty, n) => {
                let sums = (n + 1) as f64 * addend / self.memory;
                self.travel(n, addend * (n - 1) as f64) + sums
            }
            None => self.reduce_scatter(addend, n) + self.gather(addend, n),
        }
    }

    /// The dimension along which members share the sum of a partial result along an axis of its
    /// mesh, if the sum is large: its bytes travel for longer than any message does.
    pub(super) fn shared(&self, layout: &Layout, axis: usize, ty: &Type) -> Option<Spread> {
        let bytes = volume(&layout.region(0, &ty.shape)) * ty.dtype.size();
        let is_large = bytes as f64 > self.latency * self.exchange;
        // What one member adds up over its turns is not shared.
        (is_large && !layout.mesh.is_turns(axis)).then(|| layout.widest(axis, &ty.shape))?
    }

    /// Seconds until a value is in another layout, from the version that is nearest to it.
    pub(super) fn nearest<'a>(
        &self,
        versions: &'a [Version],
        to: &Layout,
        ty: &Type,
    ) -> Option<(f64, &'a Version)> {
        let costs = versions.iter().map(|v| (self.reshard(&v.layout, to, ty), v));
        costs.min_by(|a, b| a.0.total_cmp(&b.0))
    }

    /// Seconds that one member computes a part of an op: `share` is its part of the whole.
    pub(super) fn compute(&self, op: &Op, ins: &[OperandType], out: &Type, share: f64) -> f64 {
        let read = match op.spec().class {
            // Of what a slice does not take nothing is read.
            Class::Move => out.bytes(),
            Class::Pointwise
            | Class::Reduce
            | Class::Contract
            | Class::Matrix
            | Class::Gather
            | Class::Source => tensors(ins).map(Type::bytes).sum(),
        };
        share * self.work(op, ins, out, read + out.bytes())
    }

    /// Seconds that one member computes an op that reads and writes so many bytes.
    pub(super) fn work(&self, op: &Op, ins: &[OperandType], out: &Type, bytes: usize) -> f64 {
        let flops = flops(op, ins, out);
        (flops / self.flops).max(bytes as f64 / self.memory)
    }
}

/// Whether what a class of ops computes may stay in the caches: element by element, or moved.
pub(super) fn is_fused(class: Class) -> bool {
    matches!(class, Class::Pointwise | Class::Move | Class::Source)
}

/// Whether a class of ops may take its operands from the caches.
pub(super) fn fuses(class: Class) -> bool {
    is_fused(class) || class == Class::Reduce
}

/// The operands that are no literals.
fn tensors(ins: &[OperandType]) -> impl Iterator<Item = &Type> {
    ins.iter().filter_map(|operand| match operand {
        OperandType::Tensor(ty) => Some(ty),
        OperandType::Scalar(_) => None,
    })
}
