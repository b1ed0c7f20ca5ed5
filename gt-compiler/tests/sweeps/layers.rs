//! Layers as a library computes them where it may: a product, a row added to each of its rows, and
//! an activation, against the interpreter.

use gt_compiler::{Engine, Numerics, Options, Value};
use gt_ir::{
    DType, HostTensor, Op, Shape, Tape, Type, graph, interp,
    testing::{difference, units},
};

/// Rows, terms and columns, and whether the weights lie transposed.
const SIZES: [([usize; 3], bool); 3] =
    [([5, 7, 9], true), ([64, 32, 48], false), ([2, 1, 3], true)];

/// A layer: a product, a row added, perhaps an activation.
pub(crate) fn layer(
    dtype: &str,
    [m, k, n]: [usize; 3],
    activation: Option<&str>,
    transposed: bool,
) -> String {
    let weight = match transposed {
        true => {
            format!("%1 = input : {dtype}[{n},{k}]\n%3 = transpose[0,1] %1 : {dtype}[{k},{n}]\n")
        }
        false => {
            format!("%1 = input : {dtype}[{k},{n}]\n%3 = reshape[{k},{n}] %1 : {dtype}[{k},{n}]\n")
        }
    };
    let last = match activation {
        Some(op) => {
            format!("%6 = {op} %5 : {dtype}[{m},{n}]\nfree %3\nfree %4\nfree %5\noutput %6\n")
        }
        None => "free %3\nfree %4\noutput %5\n".into(),
    };
    format!(
        "%0 = input : {dtype}[{m},{k}]\n{weight}%2 = input : {dtype}[{n}]\n%4 = matmul %0, %3 : \
         {dtype}[{m},{n}]\n%5 = add %4, %2 : {dtype}[{m},{n}]\n{last}"
    )
}

/// Layers of every kind as programs that may be computed by other formulas.
pub(crate) fn layers(engine: &mut dyn Engine) {
    for dtype in [DType::F32, DType::F64, DType::Bf16, DType::F16] {
        for (sizes, transposed) in SIZES {
            for activation in [None, Some("relu"), Some("gelu_tanh")] {
                let text = layer(&dtype.to_string(), sizes, activation, transposed);
                check(engine, &gt_ir::text::parse(&format!("gt tape 1\n{text}")).unwrap().0);
            }
        }
    }
}

fn check(engine: &mut dyn Engine, tape: &Tape) {
    let segment = graph::segment(tape, |_| None).unwrap();
    let options = Options { numerics: Numerics::Approximate, ..Options::default() };
    let compiled = engine.compiler().compile(&segment.graph, &segment.donated, &options);
    let program = compiled.unwrap().program;
    let types = segment.graph.inputs().iter().map(|id| segment.graph.node(*id).ty);
    let data: Vec<HostTensor> = types.map(ramp).collect();
    let named = segment.inputs.iter().copied().zip(data.iter().cloned()).collect();
    let wanted = interp::run(tape, &named).unwrap().into_values().next().unwrap();
    let tolerance = 4.0 * units(&segment.graph, wanted.ty().dtype);
    // Where there are graphs: step by step, then replayed.
    for _ in 0..5 {
        let mut inputs: Vec<Value> = data.iter().map(|t| engine.upload(t).unwrap()).collect();
        let results = engine.run(&program, &mut inputs, segment.graph.slots()).unwrap();
        // The inputs, alive to the end, come before it.
        let got = engine.download(results.last().unwrap()).unwrap();
        let found = difference(&wanted, &got, tolerance);
        assert_eq!(found, None, "{}", gt_ir::text::print(tape));
    }
}

fn ramp(ty: Type) -> HostTensor {
    let values = (0..ty.shape.numel()).map(|i| ((i * 37 + 11) % 23) as f64 / 8.0 - 1.25);
    let shape = Shape::new(ty.shape.sizes()).unwrap();
    let wide = HostTensor::from_vec(values.collect(), shape).unwrap();
    interp::eval(&Op::Cast(ty.dtype), &[interp::Arg::Tensor(&wide)]).unwrap()
}
