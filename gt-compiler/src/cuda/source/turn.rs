//! Kernels that compute each element on its own from operands that lie the other way round: a block
//! turns squares of them in shared memory.
//!
//! Results are contiguous along the last loop, turned operands along another: so memory is read and
//! written in whole lines. It changes no bit.

use crate::kernel::{Access, Expr};

use super::{
    Source,
    body::{Body, Level, Steps},
    space::Space,
    text::{Frame, Text, memory_type},
};

/// Elements of a side of a square, and how many rows of it a block has threads for.
const SIDE: usize = 32;
const ROWS: usize = 8;
/// Extents below this are not worth a square.
const SHORT: usize = 16;
/// Squares of the widest elements that fit shared memory.
const MOST: usize = 5;

/// The loop that operands lie along, and these operands.
pub(super) struct Turn {
    along: usize,
    loads: Vec<usize>,
}

impl Turn {
    /// What is to be turned, if anything.
    pub(super) fn of(space: &Space) -> Option<Turn> {
        let last = space.n_parallel.checked_sub(1)?;
        let extent = |l: usize| space.spec.loops[l].extent;
        let turned = |a: &Access, l: usize| a.strides[l] == 1 && a.strides[last].unsigned_abs() > 1;
        let loads = |l: usize| -> Vec<usize> {
            let nodes = space.spec.nodes.iter().enumerate();
            nodes
                .filter(|(_, n)| matches!(&n.expr, Expr::Load { access, .. } if turned(access, l)))
                .map(|(id, _)| id)
                .take(MOST)
                .collect()
        };
        let along = (0..last)
            .filter(|&l| extent(l) >= SHORT)
            .max_by_key(|&l| (loads(l).len(), extent(l)))?;
        let (loads, is_long) = (loads(along), extent(last) >= SHORT);
        (is_long && !loads.is_empty()).then_some(Turn { along, loads })
    }

    pub(super) fn write(self, name: &str, space: &Space) -> Source {
        let extent = |l: usize| space.spec.loops[l].extent;
        let last = space.n_parallel - 1;
        let squares = [self.along, last].map(|l| extent(l).div_ceil(SIDE));
        let rest = space.parallel_len() / (extent(self.along) * extent(last)).max(1);
        let mut body = Body::new(space, 1, Some(last), |_| Level::Step);
        body.turned.clone_from(&self.loads);
        let frame = Frame {
            name,
            about: body.about(name),
            parameters: body.parameters(),
            grid: (rest * squares[0] * squares[1]) as u64,
            block: (SIDE * ROWS) as u32,
            barriers: true,
            library: "",
        };
        frame.source(|text| self.squares(text, &body, squares))
    }

    fn squares(&self, text: &mut Text, body: &Body<'_>, squares: [usize; 2]) {
        let (space, index) = (body.space, body.space.index());
        let number = |n: usize| space.literal(n as i128);
        let (last, along) = (space.n_parallel - 1, self.along);
        text.line(format!("const u32 x = threadIdx.x % {SIDE}u, y = threadIdx.x / {SIDE}u;"));
        text.line(format!("const {index} square = blockIdx.x;"));
        let places = [
            (last, format!("square % {}", number(squares[1]))),
            (along, format!("square / {} % {}", number(squares[1]), number(squares[0]))),
        ];
        for (l, place) in places {
            text.line(format!("const {index} from{l} = {place} * {SIDE}u;"));
        }
        let others: Vec<usize> =
            (0..space.n_parallel).filter(|l| *l != last && *l != along).collect();
        let rest = format!("square / {}", number(squares[0] * squares[1]));
        let mut at = vec![String::new(); space.n_parallel];
        for (&l, coordinate) in others.iter().zip(space.split(&others, &rest)) {
            text.line(format!("const {index} i{l} = {coordinate};"));
            at[l] = format!("i{l}");
        }
        body.fixed_values(text, &at);
        self.read(text, body, &at);
        text.line("__syncthreads();");
        self.rows(text, body, &mut at, [last, along]);
        body.step_values(text, Steps::One, &at);
        body.put(text, &at);
        text.close();
    }

    /// Reads the squares, threads along the way they lie.
    fn read(&self, text: &mut Text, body: &Body<'_>, at: &[String]) {
        let (space, mut at) = (body.space, at.to_vec());
        let last = space.n_parallel - 1;
        let loads = self.loads.iter().filter_map(|&id| {
            let Expr::Load { buffer, access } = &space.spec.nodes[id].expr else { return None };
            Some((id, *buffer, access))
        });
        for (id, buffer, _) in loads.clone() {
            let dtype = memory_type(body.buffer_dtype(buffer));
            text.line(format!("__shared__ {dtype} turned{id}[{SIDE}][{}];", SIDE + 1));
        }
        self.rows(text, body, &mut at, [self.along, last]);
        for (id, buffer, access) in loads {
            text.line(format!("turned{id}[k][x] = b{buffer}[{}];", space.at(access, &at)));
        }
        text.close();
    }

    /// Opens the loop over a thread's elements: `x` goes along the first of the loops, `k` along
    /// the second.
    fn rows(&self, text: &mut Text, body: &Body<'_>, at: &mut [String], loops: [usize; 2]) {
        let (space, index) = (body.space, body.space.index());
        text.line("#pragma unroll");
        text.open(format!("for (u32 k = y; k < {SIDE}; k += {ROWS})"));
        for (l, own) in loops.into_iter().zip(["x", "k"]) {
            text.line(format!("const {index} i{l} = from{l} + {own};"));
            let extent = space.spec.loops[l].extent;
            if !extent.is_multiple_of(SIDE) {
                text.line(format!("if (i{l} >= {}) continue;", space.literal(extent as i128)));
            }
            at[l] = format!("i{l}");
        }
    }
}
