//! Kernels that compute each element on its own: threads along the flat index.
//!
//! Where elements lie side by side a thread takes as many of them as 16 bytes hold of the
//! narrowest: along the innermost loop, or of the flat index where rows are odd; else neighboring
//! threads take neighboring elements, one each. Where that is little to wait for and there is
//! enough for all, a thread takes several such packs, a block apart, and asks for all of them
//! first. How elements are shared out changes no bit of them.

use gt_ir::DType;

use crate::kernel::Access;

use super::{
    Source,
    body::{Body, Level, Steps, packs, packs_flat},
    space::Space,
    text::{Frame, Text},
    turn::Turn,
};

pub(super) const BLOCK: usize = 256;
/// Below this many elements a thread takes one: there are processors for all.
const SMALL: usize = 1 << 15;
const MAX_WIDTH: usize = 8;
/// Bytes a thread asks for before it waits, where it can.
const AHEAD: usize = 32;
/// Blocks from which on a large device is busy more than once over.
const MANY: usize = 2112;

pub(super) fn write(name: &str, space: &Space) -> Source {
    if let Some(turn) = Turn::of(space).filter(|_| space.parallel_len() >= SMALL) {
        return turn.write(name, space);
    }
    let (body, rounds, blocks) = plan(space);
    let frame = Frame {
        name,
        about: body.about(name),
        parameters: body.parameters(),
        grid: blocks as u64,
        block: BLOCK as u32,
        barriers: false,
        library: "",
    };
    frame.source(|text| points(text, &body, rounds, "blockIdx.x"))
}

/// The statements of a thread's elements, how many packs of them it takes, and how many blocks
/// there are.
pub(super) fn plan(space: &Space) -> (Body<'_>, usize, usize) {
    let n = space.parallel_len();
    let inner = space.n_parallel.checked_sub(1);
    let (width, is_flat) = width(space, n, inner);
    let mut body = Body::new(space, width, inner, |l| {
        if width > 1 && (Some(l) == inner || is_flat) { Level::Element } else { Level::Step }
    });
    body.flat = is_flat.then(|| "i".into());
    if !n.is_multiple_of(width) {
        body.live = Some("n".into());
    }
    let rounds = rounds(&body, n);
    let blocks = n.div_ceil(BLOCK * width * rounds);
    (body, rounds, blocks)
}

/// Packs of a thread.
fn rounds(body: &Body<'_>, n: usize) -> usize {
    let (bytes, width) = (body.bytes_of_step(), body.width);
    if width == 1 || body.live.is_some() || bytes == 0 {
        return 1;
    }
    let fits = |rounds: &usize| bytes * rounds <= AHEAD && n >= MANY * BLOCK * width * rounds;
    [4, 2].into_iter().find(fits).unwrap_or(1)
}

/// Elements a thread takes, and whether they are neighbors of the flat index rather than along the
/// innermost loop.
fn width(space: &Space, n: usize, inner: Option<usize>) -> (usize, bool) {
    let Some(last) = inner.filter(|_| n >= SMALL) else { return (1, false) };
    let spec = &space.spec;
    let stores = spec.stores.iter().map(|s| (s.buffer, &s.access));
    let accesses: Vec<(DType, &Access)> = spec
        .loads()
        .chain(stores)
        .map(|(buffer, access)| (spec.buffers[usize::from(buffer)], access))
        .collect();
    let fits = |width: usize, is_pack: &dyn Fn(DType, &Access) -> bool| {
        let moved = accesses.iter().filter(|(dtype, access)| is_pack(*dtype, access));
        moved.map(|(dtype, _)| dtype.size()).min().is_some_and(|size| size * width <= 16)
    };
    let widths = [MAX_WIDTH, 4, 2];
    let is_whole = |w: usize| space.n_parallel == 1 || spec.loops[last].extent.is_multiple_of(w);
    let along = |&w: &usize| is_whole(w) && fits(w, &|dtype, a| packs(a, dtype, w, inner));
    let flat = |&w: &usize| fits(w, &|dtype, a| packs_flat(space, a, dtype, w));
    let along = widths.into_iter().find(along).map(|w| (w, false));
    along.or_else(|| widths.into_iter().find(flat).map(|w| (w, true))).unwrap_or((1, false))
}

/// What a thread of the block with a number does.
pub(super) fn points(text: &mut Text, body: &Body<'_>, rounds: usize, block: &str) {
    let space = body.space;
    let n = space.literal(space.parallel_len() as i128);
    let (index, width) = (space.index(), body.width);
    let position = match space.wide {
        true => format!("u64({block}) * {}u + threadIdx.x", BLOCK * rounds),
        false => format!("{block} * {}u + threadIdx.x", BLOCK * rounds),
    };
    let position = if width > 1 {
        format!("({position}) * {}", space.literal(width as i128))
    } else {
        position
    };
    if rounds > 1 {
        text.line(format!("const {index} first = {position};"));
        return several(text, body, rounds);
    }
    text.line(format!("const {index} i = {position};"));
    text.line(format!("if (i >= {n}) return;"));
    if body.live.is_some() {
        text.line(format!("const {index} n = {n} - i;"));
    }
    let at = at_step(text, body);
    body.fixed_values(text, &at);
    step(text, body, Steps::One, &at);
}

/// Packs a block apart: all are asked for first.
fn several(text: &mut Text, body: &Body<'_>, rounds: usize) {
    let (space, apart) = (body.space, BLOCK * body.width);
    let n = space.parallel_len();
    let each = |text: &mut Text| {
        text.line("#pragma unroll");
        text.open(format!("for (u32 s = 0; s < {rounds}; ++s)"));
        text.line(format!("const {} i = first + s * {apart}u;", space.index()));
        if !n.is_multiple_of(apart * rounds) {
            text.line(format!("if (i >= {}) break;", space.literal(n as i128)));
        }
        at_step(text, body)
    };
    body.fixed_values(text, &[]);
    body.declare_ahead(text, rounds);
    let at = each(text);
    body.load_ahead(text, &at);
    text.close();
    let at = each(text);
    step(text, body, Steps::Whole, &at);
    text.close();
}

/// The coordinates of a step, whose first element is `i`.
fn at_step(text: &mut Text, body: &Body<'_>) -> Vec<String> {
    if body.flat.is_some() { Vec::new() } else { coordinates(text, body.space, "i") }
}

/// A step of a thread.
fn step(text: &mut Text, body: &Body<'_>, steps: Steps, at: &[String]) {
    body.step_values(text, steps, at);
    if body.width == 1 {
        return body.put(text, at);
    }
    body.declare_packs(text);
    text.line("#pragma unroll");
    text.open(format!("for (u32 u = 0; u < {}; ++u)", body.width));
    if body.live.is_some() {
        text.line("if (u >= n) break;");
    }
    let element = element(text, body, at);
    body.element_values(text, &element);
    body.put(text, &element);
    text.close();
    body.store_packs(text, steps, at);
}

/// The coordinates of element `u`.
fn element(text: &mut Text, body: &Body<'_>, step: &[String]) -> Vec<String> {
    if body.flat.is_some() {
        return coordinates(text, body.space, "(i + u)");
    }
    let mut element = step.to_vec();
    if let Some(last) = element.last_mut() {
        *last = format!("({last} + u)");
    }
    element
}

/// Declares the coordinates of an element, and names them.
fn coordinates(text: &mut Text, space: &Space, flat: &str) -> Vec<String> {
    let loops: Vec<usize> = (0..space.spec.loops.len()).collect();
    if loops.len() <= 1 {
        return loops.iter().map(|_| flat.to_owned()).collect();
    }
    let of = space.split(&loops, flat);
    for (l, coordinate) in of.iter().enumerate() {
        text.line(format!("const {} i{l} = {coordinate};", space.index()));
    }
    loops.iter().map(|l| format!("i{l}")).collect()
}
