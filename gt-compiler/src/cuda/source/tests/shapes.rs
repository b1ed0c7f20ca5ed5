//! Programs of the shapes that choose a way of their own: long lists of indices, operands to turn,
//! random numbers of every dtype.

use std::collections::BTreeMap;

use gt_ir::{
    Entry, HostTensor, Tape, Type, ValueId, interp, lower,
    testing::{self, same_bits},
    text,
};

use super::{
    host::{Host, Names},
    machine::Planned,
    samples::SAMPLES,
};

/// Elements beyond which a program takes too long here.
const LARGE: usize = 2 << 20;

const SHAPES: &[&str] = &[
    // Blocks that own rows, and columns that are not a multiple of them.
    "%0 = input : f32[37,300]\n%1 = input : i64[5000]\n%2 = input : f32[5000,300]
     %3 = index_add[0] %0, %1, %2 : f32[37,300]\noutput %3",
    "%0 = input : bf16[3,50,20]\n%1 = input : i64[90]\n%2 = input : bf16[3,90,20]
     %3 = index_add[1] %0, %1, %2 : bf16[3,50,20]\noutput %3",
    // Blocks that own elements.
    "%0 = input : f32[3,700]\n%1 = input : i64[3,2100]\n%2 = input : f32[3,2100]
     %3 = scatter_add[1] %0, %1, %2 : f32[3,700]\noutput %3",
    "%0 = input : i32[41,2]\n%1 = input : i64[3000]\n%2 = input : i32[3000,2]
     %3 = index_add[0] %0, %1, %2 : i32[41,2]\noutput %3",
    // A thread for each line.
    "%0 = input : f64[10,2500]\n%1 = input : i64[70,2500]\n%2 = input : f64[70,2500]
     %3 = scatter_add[0] %0, %1, %2 : f64[10,2500]\noutput %3",
    // Slices by words of each width.
    "%0 = input : u8[20,3]\n%1 = input : i64[7]\n%2 = index_select[0] %0, %1 : u8[7,3]\noutput %2",
    "%0 = input : bf16[20,24]\n%1 = input : i64[7]\n%2 = index_select[0] %0, %1 : \
     bf16[7,24]\noutput %2",
    "%0 = input : f32[4,20,3]\n%1 = input : i64[7]\n%2 = index_select[1] %0, %1 : \
     f32[4,7,3]\noutput %2",
    "%0 = input : f32[5,9,7]\n%1 = input : i64[4,2,6]\n%2 = gather[1] %0, %1 : f32[4,2,6]\noutput \
     %2",
    // Long and short rows, and columns.
    "%0 = input : bf16[5,5000]\n%1 = argmax[1] %0 : i64[5]\noutput %1",
    "%0 = input : f32[300,40]\n%1 = argmax[0] %0 : i64[40]\noutput %1",
    "%0 = input : bool[40,6]\n%1 = argmax[1] %0 : i64[40]\noutput %1",
    // Rows sorted within a block, and merged from several chunks.
    "%0 = input : f32[7,300]\n%1 = argsort[1] %0 : i64[7,300]\noutput %1",
    "%0 = input : bool[2,5000]\n%1 = argsort[1,descending] %0 : i64[2,5000]\noutput %1",
    "%0 = input : bf16[2100,3]\n%1 = argsort[0] %0 : i64[2100,3]\noutput %1",
    "%0 = input : i64[2,4097]\n%1 = argsort[1,descending] %0 : i64[2,4097]\noutput %1",
    // Operands to turn, in a batch and with odd ends.
    "%0 = input : f32[3,130,101]\n%1 = input : f32[3,101,130]
     %2 = permute[0,2,1] %0 : f32[3,101,130]\n%3 = sub %2, %1 : f32[3,101,130]\noutput %3",
    "%0 = input : bf16[64,5,128]\n%1 = permute[2,1,0] %0 : bf16[128,5,64]
     %2 = neg %1 : bf16[128,5,64]\noutput %2",
];

const RANDOM: &[&str] =
    &["%0 = rand[T[1003]] 7 : T[1003]\noutput %0", "%0 = randn[T[1003]] -9 : T[1003]\noutput %0"];

const INTEGERS: &[&str] = &[
    "%0 = randint[T[517]] -3, 90, 123456789012345 : T[517]\noutput %0",
    "%0 = randint[T[517]] -9000000000000000000, 9000000000000000000, 5 : T[517]\noutput %0",
    "%0 = randint[T[517]] -40000, 70000, 6 : T[517]\noutput %0",
    "%0 = randint[T[5]] 4, 5, 6 : T[5]\noutput %0",
];

fn parse(instructions: &str) -> Tape {
    let lines = instructions.lines().map(str::trim).collect::<Vec<_>>();
    text::parse(&format!("gt tape 1\n{}\n", lines.join("\n"))).unwrap().0
}

/// Elements of the largest value.
fn size(tape: &Tape) -> usize {
    let graph = lower(tape).unwrap();
    graph.ids().map(|id| graph.node(id).ty.shape.numel()).max().unwrap_or(0)
}

/// Inputs: random numbers; indices of an axis of `bound` at least.
fn data(tape: &Tape, bound: i64) -> BTreeMap<ValueId, HostTensor> {
    let mut source = testing::Source::from_seed(3);
    let mut inputs = BTreeMap::new();
    for entry in &tape.entries {
        let Entry::Input { out, ty, .. } = entry else { continue };
        inputs.insert(*out, tensor(*ty, bound, &mut source));
    }
    inputs
}

fn tensor(ty: Type, bound: i64, source: &mut testing::Source<'_>) -> HostTensor {
    if ty.dtype != gt_ir::DType::I64 {
        return testing::tensor(ty, source);
    }
    // Often the same one, as padding is.
    let index = |source: &mut testing::Source<'_>| match source.chance(1, 4) {
        true => 1,
        false => source.below(bound as usize) as i64,
    };
    let indices = (0..ty.shape.numel()).map(|_| index(source)).collect();
    HostTensor::from_vec::<i64>(indices, ty.shape).unwrap()
}

fn outputs(tape: &Tape) -> Vec<ValueId> {
    let output = |e: &Entry| {
        let Entry::Output { value, .. } = e else { return None };
        Some(*value)
    };
    tape.entries.iter().filter_map(output).collect()
}

fn run(
    planned: &Planned,
    host: &Host,
    tape: &Tape,
    data: &BTreeMap<ValueId, HostTensor>,
) -> Result<Vec<HostTensor>, i64> {
    planned.run(host, &data.values().collect::<Vec<_>>(), lower(tape).unwrap().slots())
}

/// The smallest axis an index may be of, in these programs.
const BOUND: i64 = 9;

#[test]
fn every_way_is_right() {
    let samples = SAMPLES.iter().map(|(_, instructions)| *instructions);
    let tapes: Vec<Tape> = SHAPES
        .iter()
        .copied()
        .chain(samples)
        .map(parse)
        .filter(|tape| size(tape) <= LARGE)
        .collect();
    let mut names = Names::of("shape");
    let planned: Vec<Planned> =
        tapes.iter().map(|tape| Planned::new(&lower(tape).unwrap(), &mut names)).collect();
    let host =
        Host::new("shapes", &planned.iter().flat_map(|p| p.sources().cloned()).collect::<Vec<_>>());
    for (tape, planned) in tapes.iter().zip(&planned) {
        let data = data(tape, BOUND);
        let (want, got) =
            (interp::run(tape, &data).unwrap(), run(planned, &host, tape, &data).unwrap());
        for (id, got) in outputs(tape).iter().zip(&got) {
            let difference = testing::difference(&want[id], got, 8.0);
            assert_eq!(difference, None, "{}", text::print(tape));
        }
    }
}

/// To the bit, but for normal numbers in `f64`.
#[test]
fn random_numbers_are_those_of_the_cpu() {
    let of = |programs: &[&str], dtypes: &[&str]| -> Vec<Tape> {
        let all = programs.iter().flat_map(|p| dtypes.iter().map(|d| p.replace('T', d)));
        all.map(|instructions| parse(&instructions)).collect()
    };
    let mut tapes = of(RANDOM, &["f32", "f16", "bf16", "f64"]);
    tapes.extend(of(INTEGERS, &["i64", "i32", "u8", "f32", "f64", "f16", "bf16"]));
    let mut names = Names::of("random");
    let planned: Vec<Planned> =
        tapes.iter().map(|tape| Planned::new(&lower(tape).unwrap(), &mut names)).collect();
    let host = Host::new(
        "numbers",
        &planned.iter().flat_map(|p| p.sources().cloned()).collect::<Vec<_>>(),
    );
    for (tape, planned) in tapes.iter().zip(&planned) {
        let none = BTreeMap::new();
        let (want, got) =
            (interp::run(tape, &none).unwrap(), run(planned, &host, tape, &none).unwrap());
        let text = text::print(tape);
        let (want, got) = (&want[&outputs(tape)[0]], &got[0]);
        let fine = match text.contains("randn[f64") {
            true => testing::difference(want, got, 1.0).is_none(),
            false => same_bits(want, got),
        };
        assert!(fine, "{text}");
    }
}

#[test]
fn an_index_out_of_range_is_told() {
    let tapes = [
        "gather[0] %0, %1",
        "index_select[0] %0, %1",
        "index_add[0] %0, %1, %2",
        "scatter_add[0] %0, %1, %2",
    ]
    .map(|op| {
        let to = if op.contains("add") { "f32[30]" } else { "f32[300]" };
        parse(&format!(
            "%0 = input : f32[30]\n%1 = input : i64[300]\n%2 = input : f32[300]\n%3 = {op} : \
             {to}\noutput %3"
        ))
    });
    let mut names = Names::of("wrong");
    let planned = tapes.each_ref().map(|tape| Planned::new(&lower(tape).unwrap(), &mut names));
    let host =
        Host::new("wrong", &planned.iter().flat_map(|p| p.sources().cloned()).collect::<Vec<_>>());
    for (tape, planned) in tapes.iter().zip(&planned) {
        let mut data = data(tape, 30);
        assert!(run(planned, &host, tape, &data).is_ok());
        for wrong in [-1, 30, i64::MIN] {
            let index = &data[&indices_of(tape)];
            let mut indices: Vec<i64> = index.to_vec().unwrap();
            indices[200] = wrong;
            let changed = HostTensor::from_vec(indices, index.ty().shape).unwrap();
            let before = data.insert(indices_of(tape), changed).unwrap();
            assert_eq!(run(planned, &host, tape, &data), Err(wrong));
            data.insert(indices_of(tape), before);
        }
    }
}

/// The second input.
fn indices_of(tape: &Tape) -> ValueId {
    let inputs = tape.entries.iter().filter_map(|e| {
        let Entry::Input { out, .. } = e else { return None };
        Some(*out)
    });
    inputs.collect::<Vec<_>>()[1]
}
