//! The graph of some rounds of a loop, for an engine that runs a loop a part at a time.

use super::{Calls, Graph, build};
use crate::{
    body::Scan,
    error::OpError,
    operand::{Operand, ValueId},
    rules::{lines, loops},
    shape::{Dim, Shape, Type},
};

impl Scan {
    /// The graph of primitives of so many rounds in a row of a loop on operands of these types.
    ///
    /// Its inputs are the operands, of scanned ones the slices that the rounds take. Its outputs
    /// are the carried values after the last round, and then, for each stacked result of the op's
    /// dtype, the elements of all its slices in a line. Derived ops for which `calls` holds stay as
    /// they are.
    ///
    /// # Errors
    /// The operands do not fit the loop.
    pub fn part(&self, operands: &[Type], n_rounds: u64, calls: Calls) -> Result<Graph, OpError> {
        self.results(operands)?;
        let part = Scan { length: n_rounds, ..*self };
        let input = |(i, ty): (usize, &Type)| match self.scanned().contains(&i) {
            true => {
                let rest = ty.shape.dims().skip(1);
                let dims = std::iter::once(Dim::new(n_rounds as usize)).chain(rest);
                Ok(Type::new(ty.dtype, Shape::collect(dims)?))
            }
            false => Ok(*ty),
        };
        let inputs: Vec<Type> = operands.iter().enumerate().map(input).collect::<Result<_, _>>()?;
        build::function(&inputs, calls, |e, operands| {
            let loops::Rounds { carried, stacked } = loops::rounds(e, &part, operands)?;
            let mut outputs: Vec<ValueId> = carried.iter().map(value).collect::<Result<_, _>>()?;
            for slices in stacked {
                if slices.first().is_some_and(|slice| e.ty(*slice).dtype == part.dtype) {
                    outputs.push(lines::joined(e, part.dtype, &slices)?);
                }
            }
            Ok(outputs)
        })
    }
}

fn value(operand: &Operand) -> Result<ValueId, OpError> {
    match operand {
        Operand::Value(value) => Ok(*value),
        Operand::Scalar(scalar) => {
            Err(OpError::new(format!("scan: the literal {scalar} is carried, not a tensor")))
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::{
        data::HostTensor,
        interp::{self, Arg},
        op::Op,
    };

    fn line(ty: &str, values: &[f32]) -> HostTensor {
        HostTensor::new(ty.parse().unwrap(), bytemuck::cast_slice(values).to_vec().into()).unwrap()
    }

    /// Two values are carried, one of them an index; a slice is taken, one is stacked.
    #[test]
    fn parts_in_a_row_are_the_loop() {
        let body = "mul(a0,a2)|add(v0,a3)|add(a1,1)|v1,v2,v0,a1";
        for reverse in ["", ",reverse"] {
            let op = format!("scan[6,2,1,f32{reverse}|{body}]").parse().unwrap();
            let Op::Scan(scan) = op else { panic!("no loop") };
            let slices: Vec<f32> = (0..12).map(|i| 1.0 - i as f32 / 8.0).collect();
            let same = line("f32[2]", &[0.5, -0.5]);
            let n = HostTensor::new("i64[]".parse().unwrap(), 7_i64.to_le_bytes().to_vec().into());
            let first = [line("f32[2]", &[2.0, 3.0]), n.unwrap()];
            let all = line("f32[6,2]", &slices);
            let args = [&first[0], &first[1], &all, &same].map(Arg::Tensor);
            let whole = interp::eval(&op, &args).unwrap().to_f64();

            let types = [*first[0].ty(), *first[1].ty(), *all.ty(), *same.ty()];
            let graph = scan.part(&types, 2, |_, _| false).unwrap();
            graph.validate_expanded().unwrap();
            let (mut carried, mut stacked) = (first.to_vec(), vec![0.0; 12]);
            let starts = if reverse.is_empty() { [0, 2, 4] } else { [4, 2, 0] };
            for start in starts {
                let some = line("f32[2,2]", &slices[2 * start..2 * start + 4]);
                let inputs = [carried[0].clone(), carried[1].clone(), some, same.clone()];
                let mut results = interp::run_graph(&graph, &inputs, graph.slots()).unwrap();
                // Of two stacked results, one has the loop's dtype.
                assert_eq!(results.len(), 3);
                stacked[2 * start..2 * start + 4].copy_from_slice(&results[2].to_f64());
                results.truncate(2);
                carried = results;
            }
            assert_eq!(carried[1].to_f64(), [13.0]);
            assert_eq!([carried[0].to_f64(), stacked].concat(), whole);
        }
    }
}
