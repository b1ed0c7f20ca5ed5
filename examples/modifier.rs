//! Two stream modifiers in a program of their own: one counts the multiplications and additions of
//! matrix products, one forbids an op. The core of GT knows neither. With the arguments `serve
//! HOST:PORT` the program is a server that forbids an op to its clients.

#![expect(clippy::print_stdout, reason = "a program that prints")]

use gt::ir::verify::Verifier;
use gt::ir::{Op, Operand, Tape};
use gt::modifier::{Modifier, Place, insert, stats};
use gt::prelude::*;

/// Counts the multiplications and additions of products.
#[derive(Default)]
struct Flops {
    /// Knows the types of all values of the session.
    types: Verifier,
    products: u64,
    flops: u64,
}

impl Modifier for Flops {
    fn name(&self) -> &str {
        "flops"
    }

    fn process(&mut self, segment: Tape) -> std::result::Result<Tape, String> {
        for entry in &segment.entries {
            let out = self.types.entry(entry).map_err(|fault| format!("{fault:?}"))?;
            let gt::ir::Entry::Instr(instr) = entry else { continue };
            if let (Op::MatMul, [Operand::Value(lhs), _], Some(out)) =
                (instr.op, &instr.inputs[..], out)
            {
                let lhs = self.types.ty_of(*lhs).map(|ty| ty.shape.sizes().to_vec());
                let inner = lhs.and_then(|sizes| sizes.last().copied()).unwrap_or(1);
                self.flops += 2 * (out.shape.numel() * inner) as u64;
                self.products += 1;
            }
        }
        Ok(segment)
    }

    fn stats(&self) -> Vec<(String, u64)> {
        vec![("products".into(), self.products), ("flops".into(), self.flops)]
    }
}

/// Refuses segments with an op.
struct Forbid {
    op: &'static str,
    refused: u64,
}

impl Modifier for Forbid {
    fn name(&self) -> &str {
        "forbid"
    }

    fn process(&mut self, segment: Tape) -> std::result::Result<Tape, String> {
        let loc = segment.instrs().find(|i| i.op.name() == self.op).map(|instr| instr.loc);
        match loc {
            Some(loc) => {
                self.refused += 1;
                Err(format!("{} is forbidden here (at {loc})", self.op))
            }
            None => Ok(segment),
        }
    }

    fn stats(&self) -> Vec<(String, u64)> {
        vec![("refused".into(), self.refused)]
    }
}

fn main() -> Result<()> {
    // A server of a cluster that refuses to take an op from any program.
    if let [_, command, address] = &std::env::args().collect::<Vec<_>>()[..] {
        assert_eq!(command, "serve", "the arguments are `serve HOST:PORT`, or none");
        insert(Place::Dispatcher, Forbid { op: "cos", refused: 0 });
        return gt::cluster::serve(address, |line| println!("{line}"));
    }
    insert(Place::Client, Flops::default());
    insert(Place::Worker, Forbid { op: "sin", refused: 0 });
    let x: T![N<32>, N<64>] = Tensor::ones();
    let w: T![N<64>, N<16>] = Tensor::ones();
    println!("sum of the product: {}", x.matmul(&w).sum().item()?);
    match x.sin().sum().item() {
        Ok(sum) => println!("sum of sines: {sum}"),
        Err(error) => println!("refused: {}", error.message()),
    }
    for (name, counts) in stats(Place::Client).into_iter().chain(stats(Place::Worker)) {
        println!("{name}: {counts:?}");
    }
    Ok(())
}
