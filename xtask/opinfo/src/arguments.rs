//! The arguments of a case by PyTorch's names, and the check that every argument is used.
//!
//! A row of the table has a signature: names in PyTorch's order, with defaults in Python's notation
//! (`input other alpha=1`). A row asks for arguments by name. If a row did not ask for an argument
//! and its value is not the default, GT does not have this argument, and the case is not computed.
//!
//! On the wire a tensor is `{"t": number}`, a float `{"f": "text"}`, a dtype `{"d": "f32"}`, a
//! slice `{"s": [start, stop, step]}`, Python's `...` is `{"e": true}`, and a value unknown to GT
//! is `{"x": "description"}`. Numbers, booleans, strings, lists and None are JSON's.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

use gt::core::{Arg, Axes, Index, keepdim};
use gt::ir::Scalar;
use gt::{DType, DynTensor};
use serde_json::Value;

use crate::protocol::Case;

/// The reason why a case is not computed.
pub(crate) enum Stop {
    /// GT does not have the operation or argument.
    Absent(String),
    /// GT returned an error.
    Failed(gt::Error),
}

impl From<gt::Error> for Stop {
    fn from(error: gt::Error) -> Stop {
        Stop::Failed(error)
    }
}

pub(crate) type Outcome<T> = Result<T, Stop>;

/// The error of an operation or argument that GT does not have.
pub(crate) fn absent<T>(what: impl Into<String>) -> Outcome<T> {
    Err(Stop::Absent(what.into()))
}

/// The arguments of a case.
pub(crate) struct Arguments<'a> {
    given: BTreeMap<&'a str, Value>,
    defaults: BTreeMap<&'a str, Value>,
    tensors: &'a [DynTensor],
    asked: RefCell<BTreeSet<String>>,
}

impl<'a> Arguments<'a> {
    /// The arguments of the case under the names of a signature. A last name with a star takes the
    /// remaining positional arguments as a list.
    pub(crate) fn new(
        signature: &'a str,
        case: &'a Case,
        tensors: &'a [DynTensor],
    ) -> Outcome<Arguments<'a>> {
        let mut defaults = BTreeMap::new();
        let mut names = Vec::new();
        for word in signature.split_whitespace() {
            let (name, default) = word.split_once('=').unwrap_or((word, ""));
            names.push(name.trim_start_matches('*'));
            if !default.is_empty() {
                defaults.insert(name, python(default));
            }
        }
        let mut given = BTreeMap::new();
        let starred = signature.split_whitespace().position(|word| word.starts_with('*'));
        for (i, value) in case.args.iter().enumerate() {
            match (starred, names.get(i)) {
                (Some(star), _) if i >= star => {
                    if let Value::Array(rest) =
                        given.entry(names[star]).or_insert_with(|| Value::Array(Vec::new()))
                    {
                        rest.push(value.clone());
                    }
                }
                (_, Some(name)) => drop(given.insert(*name, value.clone())),
                _ => return absent(format!("{} arguments", case.args.len())),
            }
        }
        for (name, value) in &case.kwargs {
            given.insert(name.as_str(), value.clone());
        }
        Ok(Arguments { given, defaults, tensors, asked: RefCell::default() })
    }

    /// Checks that every argument was asked for or has its default.
    pub(crate) fn all_used(&self) -> Outcome<()> {
        for (name, value) in &self.given {
            let is_default =
                value.is_null() || self.defaults.get(name).is_some_and(|d| same(d, value));
            if !is_default && !self.asked.borrow().contains(*name) {
                return absent(format!("the argument {name}"));
            }
        }
        Ok(())
    }

    /// An argument as JSON, or None if it is absent.
    pub(crate) fn value(&self, name: &str) -> &Value {
        self.asked.borrow_mut().insert(name.to_owned());
        self.given.get(name).or_else(|| self.defaults.get(name)).unwrap_or(&Value::Null)
    }

    pub(crate) fn is_none(&self, name: &str) -> bool {
        self.value(name).is_null()
    }

    /// The tensor called `input`.
    pub(crate) fn x(&self) -> Outcome<&'a DynTensor> {
        self.t("input")
    }

    pub(crate) fn t(&self, name: &str) -> Outcome<&'a DynTensor> {
        match self.maybe(name)? {
            Some(tensor) => Ok(tensor),
            None => absent(format!("no tensor as {name}")),
        }
    }

    /// A tensor, or None.
    pub(crate) fn maybe(&self, name: &str) -> Outcome<Option<&'a DynTensor>> {
        match self.value(name) {
            Value::Null => Ok(None),
            value => self.one_tensor(value, name).map(Some),
        }
    }

    pub(crate) fn one_tensor(&self, value: &Value, name: &str) -> Outcome<&'a DynTensor> {
        let number = value["t"].as_u64().and_then(|n| usize::try_from(n).ok());
        match number.and_then(|n| self.tensors.get(n)) {
            Some(tensor) => Ok(tensor),
            None => absent(format!("{} as {name}", description(value))),
        }
    }

    /// The elements of a list, or no elements if the argument is not a list.
    pub(crate) fn list_of_values(&self, name: &str) -> &[Value] {
        self.value(name).as_array().map_or(&[], Vec::as_slice)
    }

    /// The tensors of a list.
    pub(crate) fn list(&self, name: &str) -> Outcome<Vec<&'a DynTensor>> {
        match self.value(name) {
            Value::Array(all) => all.iter().map(|value| self.one_tensor(value, name)).collect(),
            other => absent(format!("{} as {name}", description(other))),
        }
    }

    /// A tensor or a number.
    pub(crate) fn arg(&self, name: &str) -> Outcome<Arg<'a>> {
        let value = self.value(name);
        match scalar(value) {
            Some(number) => Ok(Arg::Scalar(number)),
            None => self.one_tensor(value, name).map(Arg::Tensor),
        }
    }

    pub(crate) fn scalar(&self, name: &str) -> Outcome<Scalar> {
        let value = self.value(name);
        scalar(value).map_or_else(|| absent(format!("{} as {name}", description(value))), Ok)
    }

    pub(crate) fn float(&self, name: &str) -> Outcome<f64> {
        self.scalar(name).map(|number| number.as_f64())
    }

    pub(crate) fn int(&self, name: &str) -> Outcome<i64> {
        let value = self.value(name);
        value.as_i64().map_or_else(|| absent(format!("{} as {name}", description(value))), Ok)
    }

    pub(crate) fn size(&self, name: &str) -> Outcome<usize> {
        let n = self.int(name)?;
        usize::try_from(n).or_else(|_| absent(format!("{n} as {name}")))
    }

    pub(crate) fn truth(&self, name: &str) -> bool {
        self.value(name).as_bool().unwrap_or(false)
    }

    pub(crate) fn text(&self, name: &str) -> &str {
        self.value(name).as_str().unwrap_or_default()
    }

    /// Integers: a list, or a single integer.
    pub(crate) fn ints(&self, name: &str) -> Outcome<Vec<i64>> {
        let value = self.value(name);
        let all: Option<Vec<i64>> = match value {
            Value::Array(all) => all.iter().map(Value::as_i64).collect(),
            one => one.as_i64().map(|n| vec![n]),
        };
        all.map_or_else(|| absent(format!("{} as {name}", description(value))), Ok)
    }

    pub(crate) fn sizes(&self, name: &str) -> Outcome<Vec<usize>> {
        let each = |n: i64| usize::try_from(n).or_else(|_| absent(format!("{n} as {name}")));
        self.ints(name)?.into_iter().map(each).collect()
    }

    /// Sizes along the axes of a window. A single number stands for all.
    pub(crate) fn each<const N: usize>(&self, name: &str) -> Outcome<[usize; N]> {
        let sizes = self.sizes(name)?;
        match (sizes.as_slice(), <[usize; N]>::try_from(sizes.as_slice())) {
            ([one], _) => Ok([*one; N]),
            (_, Ok(all)) => Ok(all),
            (_, Err(_)) => absent(format!("{} as {name}", description(self.value(name)))),
        }
    }

    /// Sizes along height and width. A single number stands for both.
    pub(crate) fn pair(&self, name: &str) -> Outcome<[usize; 2]> {
        self.each(name)
    }

    /// The argument `dim` with `keepdim`. None means all axes.
    pub(crate) fn axes(&self) -> Outcome<Axes> {
        let axes = match self.is_none("dim") {
            true => Axes::from(..),
            false => Axes::from(self.ints("dim")?.as_slice()),
        };
        Ok(if self.truth("keepdim") { keepdim(axes) } else { axes })
    }

    pub(crate) fn dtype(&self, name: &str) -> Outcome<Option<DType>> {
        let value = self.value(name);
        if value.is_null() {
            return Ok(None);
        }
        let dtype = value["d"].as_str().and_then(|name| name.parse().ok());
        dtype.map_or_else(|| absent(format!("{} as {name}", description(value))), |d| Ok(Some(d)))
    }

    /// The index in the brackets of `x[..]`.
    pub(crate) fn index(&self, name: &str) -> Outcome<Vec<Index>> {
        match self.value(name) {
            Value::Array(all) => all.iter().map(|one| self.one_index(one, name)).collect(),
            one => Ok(vec![self.one_index(one, name)?]),
        }
    }

    fn one_index(&self, value: &Value, name: &str) -> Outcome<Index> {
        let end = |i: usize| value["s"][i].as_i64();
        match value {
            Value::Null => Ok(Index::NewAxis),
            Value::Number(n) => Ok(Index::At(n.as_i64().unwrap_or(i64::MAX))),
            Value::Array(all) => {
                let all: Option<Vec<i64>> = all.iter().map(Value::as_i64).collect();
                let all = all.map_or_else(|| absent("a list of lists as index"), Ok)?;
                let n = all.len();
                Ok(Index::Tensor(DynTensor::from_vec(all, [n])))
            }
            _ if !value["s"].is_null() => {
                Ok(Index::Range { start: end(0), stop: end(1), step: end(2).unwrap_or(1) })
            }
            _ if !value["e"].is_null() => Ok(Index::Ellipsis),
            _ => self.one_tensor(value, name).map(|tensor| Index::Tensor(tensor.clone())),
        }
    }
}

pub(crate) fn scalar(value: &Value) -> Option<Scalar> {
    match value {
        Value::Bool(truth) => Some(Scalar::Bool(*truth)),
        Value::Number(n) => n.as_i64().map(Scalar::I64).or_else(|| n.as_f64().map(Scalar::F64)),
        _ => value["f"].as_str()?.parse().ok().map(Scalar::F64),
    }
}

/// The default in a signature.
fn python(text: &str) -> Value {
    match text {
        "None" => Value::Null,
        "True" => Value::Bool(true),
        "False" => Value::Bool(false),
        _ => serde_json::from_str(text).unwrap_or_else(|_| Value::String(text.into())),
    }
}

/// Whether both values are equal. An integer equals the float of the same value.
fn same(a: &Value, b: &Value) -> bool {
    let number = |v: &Value| scalar(v).filter(|_| !v.is_boolean()).map(|s| s.as_f64());
    a == b || number(a).zip(number(b)).is_some_and(|(a, b)| a == b)
}

/// A short description of a value.
fn description(value: &Value) -> String {
    match value {
        Value::Null => "None".into(),
        Value::Array(_) => "a list".into(),
        Value::String(text) => format!("\"{text}\""),
        Value::Object(_) => match value["x"].as_str().or(value["d"].as_str()) {
            Some(what) => what.into(),
            None if !value["t"].is_null() => "a tensor".into(),
            None => "a float".into(),
        },
        other => other.to_string(),
    }
}
