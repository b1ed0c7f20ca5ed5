//! Uploads of a session that lives on several workers. A large upload goes straight to the members
//! that need its rows, as the last upload of its type was needed. Any other upload goes to the
//! first member, which sends the others what they need.
//!
//! Guarantees: where an upload goes is settled when its first piece comes or when its input is
//! declared, and stays. A wrong guess costs an exchange and changes no result.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use gt_compiler::shard::{self, Partition};
use gt_ir::backend::RunError;
use gt_ir::canonical::{Bindings, Template};
use gt_ir::layout::Layout;
use gt_ir::shape::Type;
use gt_ir::{Entry, Tape, ValueId};

use super::{Gang, Orders, Place};
use crate::wire::{Chunk, Order};

/// The most types of which it is known how their uploads are needed.
const MAX_TYPES: usize = 256;

/// The uploads of one session.
#[derive(Debug, Default)]
pub(super) struct Uploads {
    /// The layout in which the last upload of each type was needed, if it is one of rows.
    needed: HashMap<Type, Layout>,
    /// Large uploads of which a piece or the declaration is missing.
    open: BTreeMap<ValueId, Upload>,
}

impl Uploads {
    /// Forgets an upload of which nothing is missing any more.
    fn close(&mut self, value: ValueId) {
        if self.open.get(&value).is_some_and(Upload::is_over) {
            self.open.remove(&value);
        }
    }
}

/// A large upload.
#[derive(Debug)]
struct Upload {
    place: Place,
    declared: bool,
    /// The bytes that have come.
    come: u64,
}

impl Upload {
    fn is_over(&self) -> bool {
        self.declared && self.come == self.place.ty.bytes() as u64
    }

    /// The members, the names of their parts, and where the parts lie in memory.
    fn parts(&self) -> impl Iterator<Item = (usize, ValueId, Type, (u64, u64))> {
        let Place { ty, layout, names } = &self.place;
        let row = ty.bytes() / ty.shape.sizes().first().map_or(1, |&n| n.max(1));
        let ranks = layout.mesh.members().iter().zip(names.iter()).enumerate();
        ranks.map(move |(rank, (&member, &name))| {
            let region = layout.region(rank, &ty.shape);
            let (first, end) = region.first().copied().unwrap_or((0, 1));
            let bytes = ((first * row) as u64, (end * row) as u64);
            (member as usize, name, layout.local(rank, ty), bytes)
        })
    }
}

impl Gang {
    /// A piece of an upload as the orders of members. Pieces of less than `large` bytes in all go
    /// to the first member.
    pub(in crate::dispatcher) fn chunk(&mut self, chunk: Box<Chunk>, large: u64) -> Orders {
        let value = chunk.value;
        if chunk.offset == 0 && chunk.total >= large && !self.uploads.open.contains_key(&value) {
            let place = self.guess(value, chunk.ty);
            self.uploads.open.insert(value, Upload { place, declared: false, come: 0 });
        }
        let Some(upload) = self.uploads.open.get_mut(&value) else {
            return vec![(0, Order::Chunk(chunk))];
        };
        upload.come = chunk.offset + chunk.bytes.len() as u64;
        let pieces = upload.parts().filter_map(|(member, name, ty, (first, end))| {
            let (from, to) = (chunk.offset.max(first), upload.come.min(end));
            (from < to).then(|| {
                let within = (from - chunk.offset) as usize..(to - chunk.offset) as usize;
                let bytes = chunk.bytes.slice(within);
                let (offset, total) = (from - first, end - first);
                (member, Order::Chunk(Box::new(Chunk { value: name, ty, offset, total, bytes })))
            })
        });
        let orders = pieces.collect();
        self.uploads.close(value);
        orders
    }

    /// An error in place of the rest of an upload, as the orders of members.
    pub(in crate::dispatcher) fn fail_upload(
        &mut self,
        value: ValueId,
        error: &Arc<RunError>,
    ) -> Orders {
        let fail = |value| Order::Fail { value, error: Arc::clone(error) };
        let Some(upload) = self.uploads.open.get_mut(&value) else {
            return vec![(0, fail(value))];
        };
        let lacking = upload.parts().filter(|(_, _, _, (_, end))| *end > upload.come);
        let orders = lacking.map(|(member, name, _, _)| (member, fail(name))).collect();
        upload.come = upload.place.ty.bytes() as u64;
        self.uploads.close(value);
        orders
    }

    /// Declares the uploads of a segment to the members they go to. `is_untouched` says whether no
    /// piece of an upload has come. Returns where each of them goes. An upload is declared once,
    /// however often its segment is.
    pub(super) fn declare(
        &mut self,
        template: &Template,
        bindings: &Bindings,
        (large, is_untouched): (u64, &dyn Fn(ValueId) -> bool),
        orders: &mut Orders,
    ) -> Vec<Layout> {
        let mut tapes: BTreeMap<usize, Tape> = BTreeMap::new();
        let mut layouts = Vec::new();
        for (entry, out) in defining(template).zip(bindings.defined.iter()) {
            let Entry::Input { ty, name, .. } = entry else { continue };
            if let Some(place) = self.places.get(&out) {
                layouts.push(place.layout.clone());
                continue;
            }
            let place = self.declared(out, *ty, (large, is_untouched));
            let members = place.layout.mesh.members().iter().zip(place.names.iter()).enumerate();
            for (rank, (&member, &out)) in members {
                let ty = if place.is_at_home() { *ty } else { place.layout.local(rank, ty) };
                let input = Entry::Input { out, ty, name: name.clone() };
                tapes.entry(member as usize).or_default().entries.push(input);
            }
            layouts.push(place.layout.clone());
            self.places.insert(out, place);
        }
        orders.extend(tapes.into_iter().map(|(m, tape)| (m, Order::Run(Arc::new(tape)))));
        layouts
    }

    /// Where an upload goes that is declared now.
    fn declared(
        &mut self,
        value: ValueId,
        ty: Type,
        (large, is_untouched): (u64, &dyn Fn(ValueId) -> bool),
    ) -> Place {
        if let Some(upload) = self.uploads.open.get_mut(&value) {
            upload.declared = true;
            let place = Place { ty, ..upload.place.clone() };
            self.uploads.close(value);
            return place;
        }
        if (ty.bytes() as u64) < large || !is_untouched(value) {
            return Place::at_home(value, ty);
        }
        let place = self.guess(value, ty);
        let upload = Upload { place: place.clone(), declared: true, come: 0 };
        self.uploads.open.insert(value, upload);
        place
    }

    /// Where the last upload of this type was needed, else the first member.
    fn guess(&mut self, value: ValueId, ty: Type) -> Place {
        let Some(layout) = self.uploads.needed.get(&ty.unnamed()).cloned() else {
            return Place::at_home(value, ty);
        };
        let n = layout.mesh.len() as u32;
        let first = self.names(n);
        let names = (0..u64::from(n)).map(|rank| ValueId(first + rank)).collect();
        Place { ty, layout, names }
    }

    /// Notes how the uploads of a segment were needed.
    pub(super) fn note_needed(&mut self, template: &Template, partition: &Partition) {
        let types = defining(template).filter_map(|entry| match entry {
            Entry::Input { ty, .. } => Some(ty.unnamed()),
            _ => None,
        });
        for (ty, layout) in types.zip(&partition.uploads) {
            let known = self.uploads.needed.get(&ty);
            if known == Some(layout) {
                continue;
            }
            self.uploads.needed.remove(&ty);
            if shard::is_by_rows(layout, &ty) && self.uploads.needed.len() < MAX_TYPES {
                self.uploads.needed.insert(ty, layout.clone());
            }
        }
    }
}

impl Place {
    /// Whether the first member holds the value under the client's name.
    fn is_at_home(&self) -> bool {
        self.layout == shard::at(0)
    }
}

/// The entries of a segment that define a value.
fn defining(template: &Template) -> impl Iterator<Item = &Entry> {
    template.tape.entries.iter().filter(|entry| entry.defines().is_some())
}
