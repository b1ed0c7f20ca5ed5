//! Which phase each item of a member is part of. All that is computed after the same exchanges may
//! be one phase. Where members exchange much, it is several, so that values travel while members
//! compute:
//!
//! - What others wait for comes first, and the rest after it has been sent.
//! - What others wait for is sent in *buckets* of about equal size, each as soon as it is computed:
//!   the gradients of a network's last layers travel during the backward pass of its first layers
//!   (Li et al. 2020, "PyTorch Distributed: Experiences on Accelerating Data Parallel Training").
//!
//! Guarantees: an item comes after what it needs. Members may cut their work differently, because
//! keys rise where a value is sent.

use std::collections::BTreeMap;

use gt_ir::Class;

use super::lanes::{Arg, Item, Lane, Lanes, Name};
use super::needed::Needed;
use super::turns::Key;

/// The place of a phase: the key of what is computed in it, and its number among those of the key.
pub(super) type Place = (Key, u32);

/// The places of one member's work.
pub(super) struct Places {
    /// Where each item is computed, received or sent. None if nobody needs it.
    pub(super) items: Vec<Option<Place>>,
    /// Where each value is computed or received. None if nobody needs it or it was there before.
    pub(super) values: Vec<Option<Place>>,
}

impl Places {
    pub(super) fn new(lanes: &Lanes, needed: &Needed, member: usize) -> Places {
        let lane = &lanes.all[member];
        let mut keys: BTreeMap<Key, Vec<usize>> = BTreeMap::new();
        for (at, item) in lane.items.iter().enumerate() {
            if let Some(value) = value(item, member, lanes, needed) {
                keys.entry(lanes.key(member, value)).or_default().push(at);
            }
        }
        let mut cutter = Cutter::new(lane, lanes.bucket);
        let mut places =
            Places { items: vec![None; lane.items.len()], values: vec![None; lane.locals.len()] };
        for (key, items) in keys {
            for (at, part) in items.iter().zip(cutter.parts(&items)) {
                places.items[*at] = Some((key, part));
                if let Item::Instr { out, .. } | Item::Receive { out } = &lane.items[*at] {
                    places.values[*out as usize] = Some((key, part));
                }
            }
        }
        places
    }
}

/// The value that an item makes or sends, if somebody needs it.
fn value(item: &Item, member: usize, lanes: &Lanes, needed: &Needed) -> Option<Name> {
    let (name, is_needed) = match item {
        Item::Instr { out, .. } | Item::Receive { out } => (*out, needed.contains(member, *out)),
        // The value may be needed here, and nobody may need it there.
        Item::Send { value, to, received } => {
            (*value, needed.contains(lanes.place(*to), *received))
        }
    };
    is_needed.then_some(name)
}

/// The most buckets of one key. Phases cannot fuse what one can, and more of them would hide hardly
/// more: at most the last bucket travels while nothing is computed.
const MAX_BUCKETS: u64 = 16;
/// The phase of what nobody waits for.
const REST: u32 = u32::MAX;

/// Cuts the items of one key after the other.
struct Cutter<'a> {
    lane: &'a Lane,
    /// The bytes of a bucket.
    bucket: u64,
    /// By value, the last item that takes long among those that it needs, by its number.
    ready: Vec<usize>,
    /// The first phase for which each value is needed.
    part: Vec<u32>,
}

impl<'a> Cutter<'a> {
    fn new(lane: &'a Lane, bucket: u64) -> Cutter<'a> {
        let n = lane.locals.len();
        Cutter { lane, bucket, ready: vec![0; n], part: vec![REST; n] }
    }

    /// The phase of each item of a key, by its number among the phases of the key.
    fn parts(&mut self, items: &[usize]) -> Vec<u32> {
        let mut parts = self.buckets(items);
        if parts.iter().all(|part| *part == REST) {
            return vec![0; items.len()];
        }
        self.needs(items, &mut parts);
        let mut n = merge(&mut parts, |at| takes_long(&self.lane.items[items[at]]));
        let rest = self.pays(items, &parts);
        if !rest {
            n -= 1;
        }
        parts.iter_mut().filter(|part| **part == REST).for_each(|part| *part = n);
        parts
    }

    /// The buckets of what is sent, in the order in which it is ready. All else is rest.
    fn buckets(&mut self, items: &[usize]) -> Vec<u32> {
        let mut sent = Vec::new();
        for (nth, &at) in items.iter().enumerate() {
            match &self.lane.items[at] {
                Item::Instr { args, out, .. } if !takes_long(&self.lane.items[at]) => {
                    let ready = args.iter().filter_map(Arg::name).map(|n| self.ready[n as usize]);
                    self.ready[*out as usize] = ready.max().unwrap_or(0);
                }
                Item::Instr { out, .. } | Item::Receive { out } => self.ready[*out as usize] = at,
                Item::Send { value, .. } => {
                    let bytes = self.lane.local(*value).ty.bytes() as u64;
                    sent.push((self.ready[*value as usize], nth, bytes));
                }
            }
        }
        sent.sort_unstable();
        let all: u64 = sent.iter().map(|(.., bytes)| bytes).sum();
        let size = self.bucket.max(all.div_ceil(MAX_BUCKETS));
        let mut parts = vec![REST; items.len()];
        let (mut bucket, mut full) = (0, 0);
        for (_, nth, bytes) in sent {
            if full >= size {
                (bucket, full) = (bucket + 1, 0);
            }
            parts[nth] = bucket;
            full += bytes;
        }
        parts
    }

    /// Gives each item the first phase for which it is needed.
    fn needs(&mut self, items: &[usize], parts: &mut [u32]) {
        for (&at, part) in items.iter().zip(parts).rev() {
            let earlier = |of: &mut u32, part: u32| *of = part.min(*of);
            match &self.lane.items[at] {
                Item::Send { value, .. } => earlier(&mut self.part[*value as usize], *part),
                Item::Receive { out } => *part = self.part[*out as usize],
                Item::Instr { args, out, .. } => {
                    *part = self.part[*out as usize];
                    for name in args.iter().filter_map(Arg::name) {
                        earlier(&mut self.part[name as usize], *part);
                    }
                }
            }
        }
    }

    /// Whether others would wait long for what does not concern them. Two phases cannot fuse what
    /// one can, so a product must be in the rest, or nothing but movement before it.
    fn pays(&self, items: &[usize], parts: &[u32]) -> bool {
        let classes = |rest: bool| {
            let of = move |(_, part): &(&usize, &u32)| (**part == REST) == rest;
            items.iter().zip(parts).filter(of).filter_map(|(at, _)| match &self.lane.items[*at] {
                Item::Instr { op, .. } => Some(op.spec().class),
                Item::Send { .. } | Item::Receive { .. } => None,
            })
        };
        let moves = classes(false).all(|class| class == Class::Move);
        let heavy = |class| is_heavy(class) || (moves && class != Class::Move);
        classes(true).any(heavy)
    }
}

/// Whether the time until an item is done is worth an exchange of its own: a product, or a wait for
/// other members.
fn takes_long(item: &Item) -> bool {
    match item {
        Item::Instr { op, .. } => is_heavy(op.spec().class),
        Item::Receive { .. } => true,
        Item::Send { .. } => false,
    }
}

fn is_heavy(class: Class) -> bool {
    matches!(class, Class::Contract | Class::Matrix)
}

/// Puts buckets together between which nothing takes long. Returns how many are left.
fn merge(parts: &mut [u32], takes_long: impl Fn(usize) -> bool) -> u32 {
    let n = parts.iter().filter(|part| **part != REST).max().map_or(0, |last| *last as usize + 1);
    let mut begins = vec![false; n];
    for (at, part) in parts.iter().enumerate().filter(|(_, part)| **part != REST) {
        begins[*part as usize] |= takes_long(at);
    }
    let mut last = 0;
    let number = |(at, begins): (usize, &bool)| {
        last += u32::from(at > 0 && *begins);
        last
    };
    let numbers: Vec<u32> = begins.iter().enumerate().map(number).collect();
    parts.iter_mut().filter(|part| **part != REST).for_each(|part| *part = numbers[*part as usize]);
    numbers.last().map_or(0, |last| last + 1)
}
