//! Loops of many rounds, which stay loops, have the bits of their rounds written one after the
//! other.

use gt_compiler::{Arg, Engine, EngineError, Native, Options};
use gt_ir::{
    Builder, DType, Dim, Emit, Graph, HostTensor, Op, OpError, Operand, OperandType, Scan, Shape,
    Type, ValueId,
    attr::{AxisSet, Keep, Reduce},
    expand,
    graph::expand_with,
    testing::{Config, Source, inputs, same_bits, tape},
};

use crate::random::native;

/// Rounds of loops here: more than one part, and some left over.
const ROUNDS: usize = 531;

fn run(engine: &mut Native, graph: &Graph, data: &[HostTensor]) -> Result<HostTensor, EngineError> {
    let compiled = engine.compiler().compile(graph, &[], &Options::default())?;
    let mut values = data.iter().map(|x| engine.upload(x)).collect::<Result<_, _>>()?;
    let results = engine.run(&compiled.program, &mut values, &[])?;
    engine.download(&results[0])
}

/// The loop by itself, as a program, and unrolled.
fn three_ways(
    engine: &mut Native,
    scan: Scan,
    data: &[HostTensor],
) -> [Result<HostTensor, EngineError>; 3] {
    let op = Op::Scan(scan);
    let types: Vec<OperandType> = data.iter().map(|x| OperandType::Tensor(*x.ty())).collect();
    let uploaded: Vec<_> = data.iter().map(|x| engine.upload(x).unwrap()).collect();
    let args: Vec<Arg<'_>> = uploaded.iter().map(Arg::Value).collect();
    let alone = engine.execute(&op, &args).and_then(|value| engine.download(&value));
    let kept = expand_with(&op, &types, |op, _| matches!(op, Op::Scan(_))).unwrap();
    let looped = run(engine, &kept, data);
    [alone, looped, run(engine, &expand(&op, &types).unwrap(), data)]
}

/// A round of a random tape: its inputs are slices and what is the same in all rounds, its `f32`
/// results are stacked, and a sum of them is carried.
fn round(tape: &gt_ir::Tape, ids: &[ValueId], types: &[Type]) -> Result<(Scan, usize), OpError> {
    let float = Type::scalar(DType::F32);
    let mut e = Builder::new([float].into_iter().chain(types.iter().copied()));
    let mut known: Vec<(ValueId, Operand)> =
        ids.iter().enumerate().map(|(i, id)| (*id, Builder::argument(i + 1))).collect();
    let mut stacked = Vec::new();
    let mut next = e.emit(Op::Mul, &[Builder::argument(0), 0.5.into()])?;
    for instr in tape.instrs() {
        let find = |id: &ValueId| known.iter().find(|(known, _)| known == id).unwrap().1;
        let operands: Vec<Operand> = instr
            .inputs
            .iter()
            .map(|operand| match operand {
                Operand::Value(id) => find(id),
                Operand::Scalar(_) => *operand,
            })
            .collect();
        let out = e.emit(instr.op, &operands)?;
        known.push((instr.out, out.into()));
        let ty = e.ty(out);
        if ty.dtype == DType::F32 && ty.shape.numel() > 0 {
            stacked.push(Operand::Value(out));
            let axes = AxisSet::from_iter(0..ty.shape.rank());
            let total = e.emit(Op::Sum(Reduce { axes, keep: Keep::No }), &[out.into()])?;
            next = e.emit(Op::Add, &[next.into(), total.into()])?;
        }
    }
    let n_stacked = stacked.len();
    let results: Vec<Operand> = [next.into()].into_iter().chain(stacked).collect();
    let body = e.body(&results)?;
    let scan = Scan {
        length: ROUNDS as u64,
        n_carried: 1,
        n_scanned: 0,
        dtype: DType::F32,
        reverse: false,
        body,
    };
    Ok((scan, n_stacked))
}

/// The slices of all rounds in one value.
fn stack(slices: &[HostTensor]) -> HostTensor {
    let ty = slices[0].ty();
    let dims = [Dim::new(ROUNDS)].into_iter().chain(ty.shape.dims());
    let all: Vec<u8> =
        slices.iter().cycle().take(ROUNDS).flat_map(|x| x.bytes().iter().copied()).collect();
    HostTensor::new(Type::new(ty.dtype, Shape::collect(dims).unwrap()), all.into()).unwrap()
}

#[test]
fn random_rounds_have_the_bits_of_what_they_unroll_to() {
    let mut engine = native(2);
    let (config, mut n_loops) = (Config { instrs: 7, ..Config::default() }, 0);
    for seed in 0..24 {
        let mut source = Source::from_seed(seed);
        let tape = tape(&mut source, &config);
        let data: Vec<_> = (0..3).map(|_| inputs(&tape, &mut source)).collect();
        let ids: Vec<ValueId> = data[0].keys().copied().collect();
        let fits = |id: &&ValueId| data[0][id].ty().shape.rank() < gt_ir::MAX_RANK;
        // Scanned operands come first.
        let n_scanned = ids.iter().take(ids.len().div_ceil(2)).take_while(fits).count();
        let types: Vec<Type> = ids.iter().map(|id| *data[0][id].ty()).collect();
        let (scan, n_stacked) = round(&tape, &ids, &types).unwrap();
        if n_stacked == 0 || scan.body.work() < 4 {
            continue;
        }
        n_loops += 1;
        let scan = Scan { n_scanned: n_scanned as u16, reverse: seed % 2 == 0, ..scan };
        let first =
            HostTensor::new(Type::scalar(DType::F32), 0.25_f32.to_le_bytes().to_vec().into());
        let mut operands = vec![first.unwrap()];
        for (i, id) in ids.iter().enumerate() {
            let slices: Vec<HostTensor> = data.iter().map(|data| data[id].clone()).collect();
            operands.push(if i < n_scanned { stack(&slices) } else { slices[0].clone() });
        }
        let [alone, looped, unrolled] = three_ways(&mut engine, scan, &operands);
        let unrolled = unrolled.unwrap();
        assert!(same_bits(&alone.unwrap(), &unrolled), "seed {seed} alone: {}", scan.body);
        assert!(same_bits(&looped.unwrap(), &unrolled), "seed {seed}: {}", scan.body);
    }
    assert!(n_loops > 8, "{n_loops} loops");
    assert_eq!(engine.stats().live_bytes, 0);
}

fn ramp(ty: &str) -> HostTensor {
    let ty: Type = ty.parse().unwrap();
    let values = (0..ty.shape.numel()).map(|i| (i % 17) as f32 / 16.0 - 0.4);
    HostTensor::new(ty, values.flat_map(f32::to_le_bytes).collect::<Vec<u8>>().into()).unwrap()
}

fn scan(text: &str) -> Scan {
    let Ok(Op::Scan(scan)) = text.parse() else { panic!("{text}") };
    scan
}

/// Values that a round hands on as it got them, gives twice, or swaps; several carried values; a
/// loop within a loop; rounds that alone are longer than a part; matrices.
#[test]
fn what_rounds_hand_on_arrives() {
    let mut engine = native(2);
    let long = (0..600).map(|i| format!("add(v{i},0.125)|")).collect::<String>();
    let long = format!("scan[5,1,0,f32|mul(a0,0.5)|{long}v600,v7]");
    let inner = "scan[9,1,0,f32|mul(a0,0.75)|add(v0,a1)|v1](a0,a1)";
    let nested = format!("scan[700,1,0,f32,reverse|{inner}|reshape[3](v0)|v1,v1]");
    let rows = "matmul(a0,a2)|add(v0,a1)|tanh(v1)|sum[1](v2)|v2,v3,v2";
    let cases: [(&str, &[&str]); 6] = [
        (
            "scan[900,2,1,f32|add(a0,a2)|mul(v0,0.5)|a1,v1,a2,v1,v1,a0]",
            &["f32[3]", "f32[3]", "f32[900,3]"],
        ),
        ("scan[1500,2,0,f32|neg(a0)|a1,a0,v0]", &["f32[2]", "f32[2]"]),
        (&nested, &["f32[3]", "f32[3]"]),
        (&long, &["f32[40]"]),
        (&format!("scan[400,1,1,f32|{rows}]"), &["f32[33,20]", "f32[400,20]", "f32[20,20]"]),
        ("scan[2500,1,1,f32|lt(a1,a0)|where(v0,a1,a0)|v1]", &["f32[]", "f32[2500]"]),
    ];
    for (text, types) in cases {
        let scan = scan(text);
        let data: Vec<HostTensor> = types.iter().map(|ty| ramp(ty)).collect();
        let [alone, looped, unrolled] = three_ways(&mut engine, scan, &data);
        let unrolled = unrolled.unwrap();
        assert!(same_bits(&alone.unwrap(), &unrolled), "alone: {text}");
        assert!(same_bits(&looped.unwrap(), &unrolled), "{text}");
    }
}

/// The code of a loop does not grow with its rounds, and its program is kept and loaded as others.
#[test]
fn a_loop_is_the_code_of_some_rounds() {
    let mut engine = native(1);
    let op = |n: usize| scan(&format!("scan[{n},1,1,f32|mul(a0,0.5)|add(v0,a1)|tanh(v1)|v2,v1]"));
    let program = |engine: &Native, n: usize| {
        let types = ["f32[4]".to_owned(), format!("f32[{n},4]")];
        let types = types.map(|ty| OperandType::Tensor(ty.parse().unwrap()));
        let graph = expand_with(&Op::Scan(op(n)), &types, |_, _| true).unwrap();
        engine.compiler().compile(&graph, &[], &Options::default()).unwrap().program
    };
    let (short, long) = (program(&engine, 1_000), program(&engine, 40_000));
    let size = |program: &gt_compiler::Program| program.to_bytes().unwrap().len();
    assert!(size(&long) < 2 * size(&short), "{} and {}", size(&long), size(&short));
    let data = [ramp("f32[4]"), ramp("f32[40000,4]")];
    let loaded = engine.compiler().load(&long.to_bytes().unwrap()).unwrap();
    let mut results = [long, loaded].map(|program| {
        let mut values = data.iter().map(|x| engine.upload(x).unwrap()).collect();
        let results = engine.run(&program, &mut values, &[]).unwrap();
        engine.download(&results[0]).unwrap().to_f64()
    });
    let (a, b) = results.split_at_mut(1);
    assert_eq!(a, b);
    let mut x = [-0.4_f32, -0.3375, -0.275, -0.2125];
    let slices = data[1].to_f64();
    for slice in slices.chunks(4) {
        for (x, y) in x.iter_mut().zip(slice) {
            *x = (*x * 0.5 + *y as f32).tanh();
        }
    }
    for (x, y) in x.iter().zip(&a[0]) {
        assert!((f64::from(*x) - y).abs() < 1e-5, "{x} and {y}");
    }
}

/// An index outside its axis in a late round is the error of the unrolled loop, and inputs are as
/// they were.
#[test]
fn a_late_round_may_fail() {
    let mut engine = native(1);
    let scan = scan("scan[1200,1,1,f32|index_select[0](a2,a1)|add(a0,v0)|v1,v1]");
    let mut positions = vec![1_i64; 1200];
    positions[1100] = 9;
    let positions: Vec<u8> = positions.into_iter().flat_map(i64::to_le_bytes).collect();
    let index = HostTensor::new("i64[1200,1]".parse().unwrap(), positions.into()).unwrap();
    let data = [ramp("f32[1]"), index, ramp("f32[5]")];
    let [alone, looped, unrolled] = three_ways(&mut engine, scan, &data);
    let expected = unrolled.unwrap_err();
    assert_eq!((alone.unwrap_err(), looped.unwrap_err()), (expected.clone(), expected));
}
