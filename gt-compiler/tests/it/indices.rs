//! Elements and slices at positions that are data, where threads share them in each of their ways:
//! the interpreter's bits.

use std::collections::BTreeMap;

use gt_ir::{
    DType, Entry, HostTensor, Tape, ValueId,
    testing::{Source, same_bits, special_tensor, tensor},
};

use crate::{random::native, sweeps::tapes::eager};

/// What the positions of a slice's elements are.
#[derive(Clone, Copy, Debug)]
enum Index {
    Slices,
    /// Of elements, the same all over each slice.
    Alike,
    /// The same, but for one element of the last slice.
    NearlyAlike,
    Elements,
}

const INDICES: [Index; 4] = [Index::Slices, Index::Alike, Index::NearlyAlike, Index::Elements];

fn program(dtype: &str, [rows, width, named]: [usize; 3], index: Index) -> Tape {
    let (positions, [add, take]) = match index {
        Index::Slices => (format!("{named}"), ["index_add", "index_select"]),
        Index::Alike | Index::NearlyAlike | Index::Elements => {
            (format!("{named},{width}"), ["scatter_add", "gather"])
        }
    };
    let text = format!(
        "gt tape 1
%0 = input : {dtype}[{rows},{width}]
%1 = input : i64[{positions}]
%2 = input : {dtype}[{named},{width}]
%3 = {add}[0] %0, %1, %2
%4 = {take}[0] %0, %1
output %3
output %4
"
    );
    gt_ir::text::parse(&text).unwrap().0
}

/// Positions among all rows, or among a few of them.
fn positions(source: &mut Source<'_>, [rows, width, named]: [usize; 3], of: Index) -> Vec<i64> {
    let most = if source.chance(1, 2) { rows } else { 1 + source.below(rows) };
    let mut position = || source.below(most) as i64;
    let slices: Vec<i64> = (0..named).map(|_| position()).collect();
    let alike = || slices.iter().flat_map(|at| vec![*at; width]);
    match of {
        Index::Slices => slices,
        Index::Alike => alike().collect(),
        Index::NearlyAlike => {
            let mut all: Vec<i64> = alike().collect();
            all.last_mut().into_iter().for_each(|last| *last = position());
            all
        }
        Index::Elements => (0..named * width).map(|_| position()).collect(),
    }
}

fn data(tape: &Tape, source: &mut Source<'_>, index: Vec<i64>) -> BTreeMap<ValueId, HostTensor> {
    let mut index = Some(index);
    let types = tape.entries.iter().filter_map(|entry| match entry {
        Entry::Input { out, ty, .. } => Some((*out, *ty)),
        _ => None,
    });
    let values = types.map(|(id, ty)| {
        let value = match (id.0, index.take_if(|_| id.0 == 1)) {
            (1, Some(index)) => HostTensor::from_vec(index, ty.shape).unwrap(),
            _ if ty.dtype.is_float() && source.chance(1, 3) => special_tensor(ty, source),
            _ => tensor(ty, source),
        };
        (id, value)
    });
    values.collect()
}

#[test]
fn threads_share_positions() {
    let mut source = Source::from_seed(33);
    let sizes = [[700, 33, 1500], [5, 40, 2000], [40, 3, 30_000], [9, 1, 70_000], [64, 300, 200]];
    for dtype in DType::ALL.into_iter().filter(|dtype| *dtype != DType::Bool) {
        for (i, sizes) in sizes.into_iter().enumerate() {
            for of in INDICES {
                let tape = program(&dtype.to_string(), sizes, of);
                let index = positions(&mut source, sizes, of);
                let data = data(&tape, &mut source, index);
                let want = gt_ir::interp::run(&tape, &data).unwrap();
                let got = eager(&mut native(1 + i % 4), &tape, &data).unwrap();
                for (id, want) in &want {
                    assert!(same_bits(want, &got[id]), "{id} of {dtype} {sizes:?} {of:?}");
                }
            }
        }
    }
}

/// Extrema at positions, by one element after the other.
fn met(data: &BTreeMap<ValueId, HostTensor>, width: usize, largest: bool) -> Vec<f64> {
    let [mut at, index, src] = [0, 1, 2].map(|id| data[&ValueId(id)].to_f64());
    for (i, (row, x)) in index.iter().zip(src).enumerate() {
        let place = &mut at[*row as usize * width + i % width];
        let replaces =
            if largest { x.total_cmp(place).is_gt() } else { x.total_cmp(place).is_lt() };
        if x.is_nan() || (replaces && !place.is_nan()) {
            *place = x;
        }
    }
    at
}

#[test]
fn threads_share_extrema() {
    let mut source = Source::from_seed(35);
    let same = |a: &f64, b: &f64| a.to_bits() == b.to_bits() || (a.is_nan() && b.is_nan());
    for dtype in DType::ALL.into_iter().filter(|dtype| *dtype != DType::Bool) {
        for (i, sizes) in [[700, 33, 1500], [5, 40, 2000], [9, 1, 70_000]].into_iter().enumerate() {
            for of in [Index::Alike, Index::NearlyAlike, Index::Elements] {
                let tape = gt_ir::text::print(&program(&dtype.to_string(), sizes, of));
                let tape =
                    tape.replace("scatter_add", "scatter_max").replace("gather", "scatter_min");
                let tape = tape.replace("scatter_min[0] %0, %1", "scatter_min[0] %0, %1, %2");
                let tape = gt_ir::text::parse(&tape).unwrap().0;
                let index = positions(&mut source, sizes, of);
                let data = data(&tape, &mut source, index);
                let got = eager(&mut native(1 + i % 4), &tape, &data).unwrap();
                for (id, largest) in [(3, true), (4, false)] {
                    let (got, want) = (got[&ValueId(id)].to_f64(), met(&data, sizes[1], largest));
                    let agree = got.iter().zip(&want).all(|(a, b)| same(a, b));
                    assert!(agree, "%{id} of {dtype} {sizes:?} {of:?}");
                }
            }
        }
    }
}

#[test]
fn a_position_outside_is_named() {
    let mut source = Source::from_seed(34);
    for index in INDICES {
        let sizes = [50, 33, 1200];
        let tape = program("f32", sizes, index);
        let mut index = positions(&mut source, sizes, index);
        index.iter_mut().for_each(|i| *i = if *i == 7 { 50 } else { *i });
        index[0] = 50;
        let data = data(&tape, &mut source, index);
        let error = eager(&mut native(2), &tape, &data).unwrap_err().to_string();
        assert!(error.contains("50"), "{error}");
    }
}
