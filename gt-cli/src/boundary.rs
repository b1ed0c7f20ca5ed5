//! Inputs and outputs of a tape, by name.

use crate::fault::advised;
use anyhow::{Result, bail, ensure};
use gt_ir::{Entry, HostTensor, Tape, Type, ValueId};
use gt_lang::state::StateDict;
use std::collections::BTreeSet;
use std::sync::Arc;

/// An input that needs a tensor.
pub(crate) struct Wanted {
    pub(crate) value: ValueId,
    pub(crate) name: String,
    pub(crate) ty: Type,
}

impl Wanted {
    /// An input of a program whose values have no numbers.
    pub(crate) fn new(name: String, ty: Type) -> Wanted {
        Wanted { value: ValueId(0), name, ty }
    }
}

/// The inputs of a tape.
pub(crate) fn inputs(tape: &Tape) -> Vec<Wanted> {
    let mut wanted = Vec::new();
    for entry in &tape.entries {
        if let Entry::Input { out, ty, name } = entry {
            wanted.push(Wanted { value: *out, name: name_of(*out, name.as_ref()), ty: *ty });
        }
    }
    wanted
}

/// The tensor of each input, found by its name, with its declared type.
pub(crate) fn bind(wanted: &[Wanted], given: &StateDict) -> Result<Vec<HostTensor>> {
    let names = given.iter().map(|(name, _)| name).collect::<Vec<_>>().join(", ");
    let mut bound = Vec::new();
    for Wanted { name, ty, .. } in wanted {
        let Some(tensor) = given.get(name) else {
            let there = if names.is_empty() {
                "no tensors are given".into()
            } else {
                format!("the file has {names}")
            };
            bail!(advised(
                format!("no tensor for input `{name}` ({ty}); {there}"),
                "name a file with this tensor by `--inputs FILE.safetensors`"
            ));
        };
        let fits = tensor.ty().dtype == ty.dtype && tensor.ty().shape.sizes() == ty.shape.sizes();
        ensure!(
            fits,
            advised(
                format!("input `{name}` is {ty} on the tape, but {} in the file", tensor.ty()),
                "dtype and sizes must be the same"
            )
        );
        bound.push(HostTensor::new(*ty, tensor.clone().into_bytes())?);
    }
    Ok(bound)
}

/// The outputs with their names, in the tape's order.
pub(crate) fn outputs(tape: &Tape) -> Result<Vec<(ValueId, String)>> {
    let mut taken = BTreeSet::new();
    let mut wanted = Vec::new();
    for entry in &tape.entries {
        let Entry::Output { value, name } = entry else { continue };
        let name = name_of(*value, name.as_ref());
        ensure!(
            taken.insert(name.clone()),
            advised(
                format!("two outputs are called `{name}`"),
                "write `output %N \"NAME\"` with a different name for each"
            )
        );
        wanted.push((*value, name));
    }
    ensure!(
        !wanted.is_empty(),
        advised(
            "the tape has no output, so there is nothing to compute",
            "add `output %N` for each result"
        )
    );
    Ok(wanted)
}

fn name_of(value: ValueId, name: Option<&Arc<str>>) -> String {
    name.map_or_else(|| value.to_string(), |name| name.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;
    use gt_ir::{DType, Shape, Type};

    fn tape(text: &str) -> Tape {
        gt_ir::text::load(text).unwrap().tape
    }

    fn tensor(dtype: DType, sizes: &[usize]) -> HostTensor {
        let ty = Type::new(dtype, Shape::new(sizes).unwrap());
        HostTensor::new(ty, Bytes::from(vec![0; ty.bytes()])).unwrap()
    }

    #[test]
    fn inputs_are_found_by_name_or_number() {
        let tape = tape("gt tape 1\n%0 = input \"x\" : f32[B=2]\n%3 = input : i64[]\noutput %0\n");
        let given = [
            ("x", tensor(DType::F32, &[2])),
            ("%3", tensor(DType::I64, &[])),
            ("unused", tensor(DType::U8, &[1])),
        ];
        let given = |left_out: &str| -> StateDict {
            let rest = given.iter().filter(|(name, _)| *name != left_out);
            rest.map(|(name, tensor)| (name.to_string(), tensor.clone())).collect()
        };
        let wanted = inputs(&tape);
        let bound = bind(&wanted, &given("")).unwrap();
        assert_eq!(
            bound.iter().map(|tensor| tensor.ty().to_string()).collect::<Vec<_>>(),
            ["f32[B=2]", "i64[]"]
        );

        let error = bind(&wanted, &given("x")).unwrap_err().to_string();
        assert!(
            error.starts_with("no tensor for input `x` (f32[B=2]); the file has %3, unused"),
            "{error}"
        );
        let mut wrong = given("");
        wrong.insert("x", tensor(DType::F32, &[3]));
        let error = bind(&wanted, &wrong).unwrap_err().to_string();
        let told = "input `x` is f32[B=2] on the tape, but f32[3] in the file\nhint: ";
        assert!(error.starts_with(told), "{error}");
    }

    #[test]
    fn outputs_have_names_of_their_own() {
        let two = tape("gt tape 1\n%0 = input : f32[]\n%1 = exp %0\noutput %0\noutput %1 \"y\"\n");
        assert_eq!(
            outputs(&two).unwrap(),
            [(ValueId(0), "%0".to_string()), (ValueId(1), "y".to_string())]
        );
        for bad in
            ["gt tape 1\n", "gt tape 1\n%0 = input : f32[]\noutput %0 \"a\"\noutput %0 \"a\"\n"]
        {
            assert!(outputs(&tape(bad)).is_err());
        }
    }
}
