//! The order of elements along an axis, by sorting their places where they lie.
//!
//! Chunks of rows are sorted in the memory of a block and then merged two by two, a kernel for each
//! distance that is longer than a chunk. Nothing but the result is written. The keys of places are
//! all different, so the order is the stable one.

use gt_ir::attr::Order;

use super::{BLOCK, Index, Slices, frame};
use crate::{
    cuda::source::{Source, text::Text},
    schedule::Routine,
};

const LIBRARY: &str = include_str!("argsort.cuh");
/// Places of a chunk, as the library has it.
const CHUNK: usize = 1024;

pub(super) fn write(name: &str, routine: &Routine, order: Order) -> Vec<Source> {
    let slices = Slices::new(&routine.inputs[0].1.shape, usize::from(order.axis));
    let sort = Sort { name, routine, slices, descending: order.descending };
    let mut sources = vec![sort.chunks(format!("{name}_chunks"), false)];
    let mut window = 2 * CHUNK;
    while window < 2 * slices.axis {
        sources.push(sort.exchanges(format!("{name}_turn{window}"), window / 2, true));
        let mut apart = window / 4;
        while apart >= CHUNK {
            sources.push(sort.exchanges(format!("{name}_merge{window}_{apart}"), apart, false));
            apart /= 2;
        }
        sources.push(sort.chunks(format!("{name}_merge{window}"), true));
        window *= 2;
    }
    sources
}

struct Sort<'a> {
    name: &'a str,
    routine: &'a Routine,
    slices: Slices,
    descending: bool,
}

impl Sort<'_> {
    fn source(
        &self,
        name: &str,
        threads: usize,
        barriers: bool,
        body: impl FnOnce(&mut Text),
    ) -> Source {
        debug_assert!(name.starts_with(self.name), "a kernel of this routine");
        let mut frame = frame(name, self.routine, &["x"], threads);
        (frame.library, frame.barriers) = (LIBRARY, barriers);
        frame.source(body)
    }

    /// Where the elements of a row begin.
    fn row(&self) -> String {
        let Slices { axis, inner, .. } = self.slices;
        format!(
            "const u64 row = where.row / {inner}ull * {}ull + where.row % {inner}ull;",
            axis * inner
        )
    }

    /// Sorts each chunk, or ends a merge within it.
    fn chunks(&self, name: String, merge: bool) -> Source {
        let Slices { outer, axis, inner } = self.slices;
        let threads = outer * inner * axis.div_ceil(CHUNK) * BLOCK;
        self.source(&name, threads, true, |text| {
            text.line(format!("const Chunk where = chunk_of({axis}ull);"));
            text.line(self.row());
            let call = format!("chunk<{}, {merge}>", self.descending);
            text.line(format!("{call}(x + row, {inner}ull, out + row, where.first, where.count);"));
        })
    }

    /// Exchanges places this far apart, or, of halves of windows, those as far from the middle.
    fn exchanges(&self, name: String, apart: usize, turn: bool) -> Source {
        let Slices { outer, axis, inner } = self.slices;
        let pairs = axis.div_ceil(2 * apart) * apart;
        let n = outer * inner * pairs;
        self.source(&name, n, false, |text| {
            Index { wide: true }.declare(text, n);
            text.line(format!("const struct {{ u64 row; }} where = {{i / {pairs}ull}};"));
            text.line(format!(
                "const u64 base = i % {pairs}ull / {apart}ull * {}ull, at = i % {apart}ull;",
                2 * apart
            ));
            let high = match turn {
                true => format!("base + {}ull - at", 2 * apart - 1),
                false => format!("base + at + {apart}ull"),
            };
            text.line(format!("const u64 low = base + at, high = {high};"));
            text.line(format!("if (high >= {axis}ull) return;"));
            text.line(self.row());
            let places = format!("out + row + low * {inner}ull, out + row + high * {inner}ull");
            text.line(format!("exchange<{}>(x + row, {inner}ull, {places});", self.descending));
        })
    }
}
