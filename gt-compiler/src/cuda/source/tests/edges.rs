//! Every pointwise op by its text, on the values that break things, against the interpreter: what a
//! device's sweep over the op table does, without the device.

use gt_ir::{
    Class, DType, HostTensor, Op, OpKind, OperandType, Type, infer,
    interp::{self, Arg},
    lower, text,
};

use super::{
    host::{Host, Names},
    machine::Planned,
};

#[path = "../../../../tests/sweeps/data.rs"]
#[expect(dead_code, reason = "sweeps use all of it")]
mod data;

use data::{agree, edgy, shape, units};

/// An op on operands of these types; `None` where it does not take them.
struct Case {
    op: Op,
    operands: Vec<HostTensor>,
    planned: Planned,
}

impl Case {
    fn new(op: Op, types: &[Type], names: &mut Names) -> Option<Case> {
        let given: Vec<OperandType> = types.iter().map(|ty| OperandType::Tensor(*ty)).collect();
        let out = infer(&op, &given).ok()?;
        let inputs = types.iter().enumerate().map(|(i, ty)| format!("%{i} = input : {ty}\n"));
        let inputs: String = inputs.collect();
        let n = types.len();
        let operands: Vec<String> = (0..n).map(|i| format!("%{i}")).collect();
        let tape = format!(
            "gt tape 1\n{inputs}%{n} = {op} {} : {out}\noutput %{n}\n",
            operands.join(", ")
        );
        let graph = lower(&text::parse(&tape).unwrap().0).unwrap();
        let operands = types.iter().zip(1..).map(|(ty, seed)| edgy(*ty, seed)).collect();
        Some(Case { op, operands, planned: Planned::new(&graph, names) })
    }

    fn check(&self, host: &Host) {
        let operands: Vec<&HostTensor> = self.operands.iter().collect();
        let got = self.planned.run(host, &operands, &[]).unwrap();
        let args: Vec<Arg<'_>> = self.operands.iter().map(Arg::Tensor).collect();
        let types: Vec<String> = operands.iter().map(|x| x.ty().to_string()).collect();
        let want = interp::eval(&self.op, &args).unwrap();
        let units = units(&self.op, want.ty().dtype);
        agree(&format!("{} {types:?}", self.op), &want, &got[0], units);
    }
}

fn check(what: &str, cases: &[Case]) {
    assert!(cases.len() > 50, "{} cases of {what}", cases.len());
    let sources: Vec<_> = cases.iter().flat_map(|c| c.planned.sources().cloned()).collect();
    let host = Host::new(what, &sources);
    cases.iter().for_each(|case| case.check(&host));
}

#[test]
fn pointwise_ops() {
    let ops = OpKind::ALL.iter().filter(|kind| kind.spec().class == Class::Pointwise);
    let ops: Vec<Op> = ops.filter_map(|kind| kind.spec().name.parse().ok()).collect();
    let mut names = Names::of("edge");
    let mut cases = Vec::new();
    for op in ops {
        for dtype in DType::ALL {
            let [line, row, column, truth] =
                [(dtype, &[67][..]), (dtype, &[5, 1]), (dtype, &[1, 39]), (DType::Bool, &[67])]
                    .map(|(dtype, sizes)| Type::new(dtype, shape(sizes)));
            let all = [&[line][..], &[row, column], &[truth, line, line]];
            cases.extend(all.into_iter().filter_map(|types| Case::new(op, types, &mut names)));
        }
    }
    check("pointwise", &cases);
}

#[test]
fn casts() {
    let mut names = Names::of("cast");
    let pairs = DType::ALL.iter().flat_map(|from| DType::ALL.map(|to| (*from, to)));
    let cases = pairs.filter_map(|(from, to)| {
        Case::new(Op::Cast(to), &[Type::new(from, shape(&[53]))], &mut names)
    });
    check("casts", &cases.collect::<Vec<_>>());
}
