//! Several kernels as one launch.
//!
//! Along the same rows: a row has a few neighboring threads, as many as fold it alone, which go
//! through the kernels one after the other; what these hand each other lies in shared memory, so a
//! row comes from memory once. Side by side: each kernel has blocks of its own, and equal ones
//! share their text. Neither changes a bit of what the kernels compute alone.

use gt_ir::DType;

use super::{
    Source, pointwise,
    reduce::{self, Reduce},
    space::Space,
    text::{Frame, Parameter, Text, memory_type},
};
use crate::device::{Joint, Part, Slot, Way};

pub(super) fn write(name: &str, joint: &Joint) -> Source {
    match &joint.way {
        Way::Beside => beside(name, joint),
        Way::Rows { rows, locals } => along_rows(name, joint, *rows, locals),
    }
}

fn parameters(joint: &Joint) -> Vec<Parameter> {
    let parameter = |(n, &dtype): (usize, &DType)| Parameter {
        name: format!("g{n}"),
        dtype,
        is_written: joint.parts.iter().any(|p| p.writes().any(|w| usize::from(w) == n)),
    };
    joint.buffers.iter().enumerate().map(parameter).collect()
}

/// A buffer that each row has its own of, in shared memory.
struct Local {
    dtype: DType,
    /// Elements of a row, with room for the next to begin where packs do.
    len: usize,
}

fn locals(joint: &Joint, bytes: &[usize]) -> Vec<Local> {
    let dtype = |n: usize| {
        let mut all = joint.parts.iter().flat_map(|p| p.slots.iter().zip(&p.spec.buffers));
        let found = all.find(|(slot, _)| **slot == Slot::Local(n as u16));
        found.map_or(DType::F32, |(_, dtype)| *dtype)
    };
    let local = |(n, &bytes): (usize, &usize)| {
        let dtype = dtype(n);
        Local { dtype, len: bytes.next_multiple_of(16) / dtype.size() }
    };
    bytes.iter().enumerate().map(local).collect()
}

/// A part's space, in which each row's own buffers begin at its row.
fn space_of(part: &Part) -> Space {
    let mut spec = part.spec.clone();
    let is_local = |buffer: u16| matches!(part.slots[usize::from(buffer)], Slot::Local(_));
    for node in &mut spec.nodes {
        if node.expr.buffer_mut().is_some_and(|buffer| is_local(*buffer))
            && let Some(access) = node.expr.access_mut()
        {
            access.strides[0] = 0;
        }
    }
    for store in spec.stores.iter_mut().filter(|store| is_local(store.buffer)) {
        store.access.strides[0] = 0;
    }
    Space::of_rows(&spec)
}

fn along_rows(name: &str, joint: &Joint, n_rows: usize, bytes: &[usize]) -> Source {
    let locals = locals(joint, bytes);
    let spaces: Vec<Space> = joint.parts.iter().map(space_of).collect();
    let lanes = reduce::lanes_of(spaces.iter());
    let handed = locals.iter().map(|local| local.len * local.dtype.size()).sum();
    let rows = reduce::rows_of_block(lanes, n_rows, handed);
    let parts: Vec<Reduce<'_>> =
        spaces.iter().map(|space| reduce::along(space, [lanes, rows, n_rows])).collect();
    let frame = Frame {
        name,
        about: vec![format!("{name}: {} kernels along {n_rows} rows", parts.len())],
        parameters: parameters(joint),
        grid: n_rows.div_ceil(rows) as u64,
        block: (rows * lanes) as u32,
        barriers: true,
        library: "",
    };
    frame.source(|text| {
        for (n, Local { dtype, len }) in locals.iter().enumerate() {
            let ty = memory_type(*dtype);
            text.line(format!("struct alignas(16) Handed{n} {{ {ty} at[{rows}][{len}]; }};"));
            text.line(format!("__shared__ Handed{n} handed{n};"));
        }
        if !locals.is_empty() {
            text.line(format!("const u32 slot = threadIdx.x / {lanes}u;"));
        }
        if let Some(first) = parts.first() {
            first.place(text, spaces.iter().any(|space| space.wide));
        }
        for (n, (part, of)) in joint.parts.iter().zip(&parts).enumerate() {
            if n > 0 {
                text.line("__syncthreads();");
            }
            one_of(text, part, of);
        }
    })
}

/// One kernel of those along rows, in a block of its own.
fn one_of(text: &mut Text, part: &Part, of: &Reduce<'_>) {
    text.open("");
    of.body.about("then").iter().for_each(|line| text.line(format!("// {line}")));
    for (parameter, slot) in of.body.parameters().iter().zip(&part.slots) {
        let constant = if parameter.is_written { "" } else { "const " };
        let from = match slot {
            Slot::Argument(n) => format!("g{n}"),
            Slot::Local(n) => format!("handed{n}.at[slot]"),
        };
        let (ty, name) = (memory_type(parameter.dtype), &parameter.name);
        text.line(format!("{constant}{ty}* const {name} = {from};"));
    }
    of.at_place(text);
    text.close();
}

/// A part of a launch of kernels side by side.
struct Beside {
    /// The function that computes it, by number.
    function: usize,
    arguments: Vec<String>,
    first_scalar: usize,
    first_block: usize,
}

fn beside(name: &str, joint: &Joint) -> Source {
    let (mut bodies, mut library) = (Vec::<String>::new(), String::new());
    let (mut parts, mut blocks) = (Vec::new(), 0);
    for part in &joint.parts {
        let space = Space::new(&part.spec, None);
        let (body, rounds, own_blocks) = pointwise::plan(&space);
        let parameters = body.parameters().into_iter().map(|p| {
            let constant = if p.is_written { "" } else { "const " };
            format!("{constant}{}* {}", memory_type(p.dtype), p.name)
        });
        let parameters: Vec<String> = parameters.collect();
        let text = Text::of(|text| {
            text.open(format!("({}, const u64* scalars, const u32 block)", parameters.join(", ")));
            pointwise::points(text, &body, rounds, "block");
            text.close();
        });
        let function = bodies.iter().position(|b| *b == text).unwrap_or_else(|| {
            let function = bodies.len();
            for line in body.about(&format!("part{function}")) {
                library += &format!("// {line}\n");
            }
            library += &format!("__device__ void part{function}{text}\n");
            bodies.push(text);
            function
        });
        let argument = |slot: &Slot| match slot {
            Slot::Argument(n) | Slot::Local(n) => format!("g{n}"),
        };
        let arguments = part.slots.iter().map(argument).collect();
        let first_scalar = part.first_scalar;
        parts.push(Beside { function, arguments, first_scalar, first_block: blocks });
        blocks += own_blocks;
    }
    let frame = Frame {
        name,
        about: vec![format!("{name}: {} kernels side by side", parts.len())],
        parameters: parameters(joint),
        grid: blocks as u64,
        block: pointwise::BLOCK as u32,
        barriers: false,
        library: &library,
    };
    frame.source(|text| choose(text, &parts))
}

/// Calls the function of the part that a block belongs to.
fn choose(text: &mut Text, parts: &[Beside]) {
    match parts {
        [] => (),
        [Beside { function, arguments, first_scalar, first_block }] => text.line(format!(
            "part{function}({}, scalars + {first_scalar}, blockIdx.x - {first_block}u);",
            arguments.join(", ")
        )),
        _ => {
            let (low, high) = parts.split_at(parts.len() / 2);
            text.open(format!("if (blockIdx.x < {}u)", high[0].first_block));
            choose(text, low);
            text.close();
            text.open("else");
            choose(text, high);
            text.close();
        }
    }
}
