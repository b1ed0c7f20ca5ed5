//! The cases of `cargo xtask bench --ops`: the rows of xtask/peers/ops.txt at every size and dtype,
//! each as a tape for GT and an expression for PyTorch.

use anyhow::{Context, Result};
use gt_ir::text;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

const TABLE: &str = include_str!("../../../peers/ops.txt");

/// The sizes: a value has about the square of a size in elements.
pub(super) const SIZES: [usize; 3] = [64, 512, 4096];

/// The dtypes of values that are not positions.
pub(super) const DTYPES: [&str; 5] = ["f32", "bf16", "i64", "f64", "f16"];

/// A row of the table.
#[derive(Clone, Copy, Debug)]
pub(super) struct Form {
    pub(super) op: &'static str,
    tape: &'static str,
    pub(super) code: &'static str,
    positive: bool,
    /// Why it is slower than PyTorch's, if it is.
    pub(super) reason: &'static str,
}

/// A form at one size and dtype.
pub(super) struct Case {
    pub(super) name: String,
    /// Requests that start the case: of GT and of PyTorch.
    pub(super) asks: [Value; 2],
}

/// The rows of the table.
pub(super) fn forms() -> impl Iterator<Item = Form> {
    TABLE.lines().filter(|line| !line.is_empty() && !line.starts_with('#')).map(|line| {
        // A bar without blanks belongs to the body of a loop.
        let mut columns = line.split(" |").map(str::trim);
        let mut next = || columns.next().unwrap_or_default();
        Form { op: next(), tape: next(), code: next(), positive: next() == "+", reason: next() }
    })
}

impl Form {
    /// The case of this size and dtype; `None` where an op does not take this dtype.
    pub(super) fn case(&self, n: usize, dtype: &str) -> Result<Option<Case>> {
        let sized = |text: &str| sized(text, n, dtype);
        let mut tape = Tape { n, dtype, ..Tape::default() };
        for line in sized(self.tape).split(';').map(str::trim).filter(|line| !line.is_empty()) {
            tape.instruction(line).with_context(|| format!("`{line}` in xtask/peers/ops.txt"))?;
        }
        let text = tape.text();
        let plain = !tape.letters.values().any(|(ty, _)| ty.starts_with(dtype));
        if text::load(&text).is_err() || plain && dtype != DTYPES[0] {
            return Ok(None);
        }
        let inputs: BTreeMap<String, Value> = tape.inputs().collect();
        let code = sized(self.code);
        let peer = json!({ "code": code, "inputs": inputs, "below": n, "positive": self.positive });
        let ours = json!({ "tape": text, "below": n, "positive": self.positive });
        let name = format!("{} | {n} | {dtype}", self.code);
        Ok(Some(Case { name, asks: [ours, peer] }))
    }
}

fn sized(text: &str, n: usize, dtype: &str) -> String {
    let numbers = [("{nn}", n * n), ("{n}", n), ("{h}", n / 2), ("{h1}", n / 2 + 1)];
    let text = text.replace("{T}", dtype);
    numbers.iter().fold(text, |text, (name, number)| text.replace(name, &number.to_string()))
}

/// A tape as it grows.
#[derive(Default)]
struct Tape<'a> {
    n: usize,
    dtype: &'a str,
    /// The type and the number of each input.
    letters: BTreeMap<String, (String, usize)>,
    /// The numbers of named values.
    named: BTreeMap<String, usize>,
    last: usize,
    /// Values that an instruction has used: the others are results.
    used: BTreeSet<usize>,
    declared: String,
    body: String,
    n_values: usize,
}

impl Tape<'_> {
    /// `name = op operands`, or without a name.
    fn instruction(&mut self, line: &str) -> Result<()> {
        let (name, work) = match line.split_once(" = ") {
            Some((name, work)) => (Some(name), work),
            None => (None, line),
        };
        let (op, operands) = work.split_once(' ').unwrap_or((work, ""));
        let operands: Vec<String> = operands
            .split(',')
            .map(str::trim)
            .filter(|word| !word.is_empty())
            .map(|word| self.operand(word))
            .collect::<Result<_>>()?;
        self.define(op, &operands);
        if let Some(name) = name {
            self.named.insert(name.into(), self.last);
        }
        Ok(())
    }

    fn define(&mut self, op: &str, operands: &[String]) {
        self.last = self.n_values;
        self.n_values += 1;
        // Writing to a string cannot fail.
        let _ = writeln!(self.body, "%{} = {op} {}", self.last, operands.join(", "));
    }

    fn operand(&mut self, word: &str) -> Result<String> {
        if word.parse::<f64>().is_ok() {
            return Ok(word.into());
        }
        let value = match (word, self.named.get(word)) {
            ("$", _) => self.last,
            (_, Some(&value)) => value,
            ("t", None) => {
                let x = self.operand("x")?;
                self.define("permute[1,0]", &[x]);
                self.named.insert("t".into(), self.last);
                self.last
            }
            (letter, None) => return self.input(letter),
        };
        self.used.insert(value);
        Ok(format!("%{value}"))
    }

    fn input(&mut self, letter: &str) -> Result<String> {
        if !self.letters.contains_key(letter) {
            let ty = self.ty(letter).with_context(|| format!("there is no input `{letter}`"))?;
            // Writing to a string cannot fail.
            let _ = writeln!(self.declared, "%{} = input \"{letter}\" : {ty}", self.n_values);
            self.letters.insert(letter.into(), (ty, self.n_values));
            self.n_values += 1;
        }
        Ok(format!("%{}", self.letters[letter].1))
    }

    /// The type of an input.
    fn ty(&self, letter: &str) -> Option<String> {
        let (n, of) = (self.n, |shape: &[usize]| format!("{}{shape:?}", self.dtype));
        let whole = |shape: &[usize]| format!("i64{shape:?}");
        let ty = match letter {
            "x" | "y" => of(&[n, n]),
            "r" => of(&[1, n]),
            "k" => of(&[n, 1]),
            "v" => of(&[n]),
            "q" => of(&[n * n]),
            "c" => of(&[16, n, n / 16]),
            "b" => format!("bool[{n},{n}]"),
            "i" => whole(&[n]),
            "j" => whole(&[n, n]),
            "s" => whole(&[n * n]),
            "e" => of(&[8 * n, 128]),
            "m" => of(&[n, 128]),
            "w" => of(&[128, n]),
            "o" | "p" => of(&[n * n / 1024, 32, 32]),
            "a" => of(&[n / 64, 8, 128, 64]),
            "g" => of(&[n / 8, 16, 32, 32]),
            "f" => of(&[16, 16, 3, 3]),
            "d" => of(&[16, 1, 3, 3]),
            "u" | "z" => of(&[16]),
            _ => return None,
        };
        Some(ty.replace(' ', ""))
    }

    /// The inputs as PyTorch's side takes them.
    fn inputs(&self) -> impl Iterator<Item = (String, Value)> {
        self.letters.iter().map(|(letter, (ty, _))| {
            let (dtype, shape) = ty.split_once('[').unwrap_or_default();
            let sizes = shape.trim_end_matches(']').split(',');
            let sizes: Vec<usize> = sizes.filter_map(|size| size.parse().ok()).collect();
            (letter.clone(), json!([dtype, sizes]))
        })
    }

    /// The text: results stay alive, so that they are computed, and only a number is read.
    fn text(&self) -> String {
        let (declared, body, end) = (&self.declared, &self.body, self.n_values);
        let free = self.used.iter().map(|value| format!("free %{value}\n")).collect::<String>();
        format!("gt tape 1\n{declared}{body}{free}%{end} = full[f32[]] 0.0\noutput %{end}\n")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gt_ir::op::OpKind;

    #[test]
    fn every_op_has_a_case() {
        let known: BTreeSet<&str> = forms().map(|form| form.op).collect();
        let absent: Vec<&str> =
            OpKind::ALL.iter().map(|op| op.name()).filter(|op| !known.contains(op)).collect();
        assert!(absent.is_empty(), "xtask/peers/ops.txt has no row for {}", absent.join(", "));
    }

    #[test]
    fn every_form_is_a_tape() {
        for form in forms() {
            let cases = DTYPES.map(|dtype| form.case(SIZES[0], dtype).unwrap());
            assert!(cases.iter().any(Option::is_some), "{form:?} is no tape in any dtype");
        }
    }
}
