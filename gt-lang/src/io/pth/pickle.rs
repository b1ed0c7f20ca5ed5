//! A reader of pickles that knows what states of models and optimizers consist of, and nothing
//! else.
//!
//! Guarantees: total on any bytes; memory grows with the pickle's length only. Values are names of
//! things in flat lists, so nesting costs no stack, neither when reading nor when dropping. Calls
//! are recognized (a dictionary made, a tensor put together), never made. What changes a tensor's
//! values is understood or refused, never left out.
//!
//! Source: the comments of Python's `pickletools`, and what `torch/serialization.py` writes
//! (protocol 2; 4 is read as well).

use std::collections::BTreeMap;

use super::stack::{self, Global, Kind, Value};
use super::{foreign, storage_kind};
use crate::io::Refusal;

/// The most axes of a tensor.
const MAX_RANK: usize = 8;
/// The longest part of a name in an error.
const MAX_TOLD: usize = 100;

/// A tensor as the pickle describes it: elements of a storage.
#[derive(Clone, Debug)]
pub(super) struct TensorRef {
    pub(super) kind: Kind,
    pub(super) key: String,
    pub(super) offset: usize,
    pub(super) sizes: Vec<usize>,
    pub(super) strides: Vec<usize>,
    /// How many elements the storage has.
    pub(super) stored: usize,
    pub(super) lazy: Lazy,
}

/// What is yet to be done to the elements of the storage: PyTorch puts it off.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Lazy {
    /// A change of sign (`-x`, as the imaginary part of a conjugate is).
    pub(super) is_negated: bool,
    /// A change of the sign of imaginary parts.
    pub(super) is_conjugated: bool,
}

/// A storage: what its elements are, its name in the archive, and how many elements it has.
type Storage = (Kind, String, usize);

/// The machine: a stack, a memory by number, and the lists of what was made.
#[derive(Default)]
pub(super) struct Machine {
    stack: Vec<Value>,
    memo: BTreeMap<u32, Value>,
    texts: Vec<String>,
    sequences: Vec<Vec<Value>>,
    dicts: Vec<Vec<(Value, Value)>>,
    storages: Vec<Storage>,
    tensors: Vec<TensorRef>,
}

/// A result of the machine.
type Out<T = ()> = Result<T, Refusal>;

/// The bytes not yet read.
struct Input<'a>(&'a [u8]);

impl<'a> Input<'a> {
    /// The next `n` bytes.
    fn bytes(&mut self, n: usize) -> Out<&'a [u8]> {
        let (head, rest) = self.0.split_at_checked(n).ok_or("the pickle is cut off")?;
        self.0 = rest;
        Ok(head)
    }

    /// The next bytes, as many as the array has.
    fn array<const N: usize>(&mut self) -> Out<[u8; N]> {
        let (head, rest) = self.0.split_first_chunk::<N>().ok_or("the pickle is cut off")?;
        self.0 = rest;
        Ok(*head)
    }

    fn byte(&mut self) -> Out<u8> {
        self.array::<1>().map(|[byte]| byte)
    }

    fn u32(&mut self) -> Out<u32> {
        self.array().map(u32::from_le_bytes)
    }

    /// The text up to the next line feed.
    fn line(&mut self) -> Out<&'a str> {
        let end = self.0.iter().position(|byte| *byte == b'\n').ok_or("the pickle is cut off")?;
        let line = self.bytes(end)?;
        self.bytes(1)?;
        Ok(std::str::from_utf8(line)?)
    }

    /// The next `n` bytes as a text.
    fn text(&mut self, n: usize) -> Out<String> {
        Ok(std::str::from_utf8(self.bytes(n)?)?.to_owned())
    }
}

impl Machine {
    /// Runs a pickle to its end; what it makes.
    pub(super) fn run(&mut self, pickle: &[u8]) -> Out<Value> {
        let mut input = Input(pickle);
        loop {
            match input.byte()? {
                b'.' => return self.pop(),
                opcode => self.step(opcode, &mut input).map_err(|e| self.told(e))?,
            }
        }
    }

    /// The error, behind the name of what was being made.
    fn told(&self, error: Refusal) -> Refusal {
        let names: Vec<String> = stack::names(&self.stack, |key| self.key(key, MAX_TOLD));
        if names.is_empty() { error } else { error.of(&names.join(".")) }
    }

    /// The pairs of a dictionary.
    pub(super) fn entries(&self, value: Value) -> &[(Value, Value)] {
        match value {
            Value::Dict(at) => self.dicts.get(at).map_or(&[], Vec::as_slice),
            _ => &[],
        }
    }

    /// The items of a list or tuple.
    pub(super) fn items(&self, value: Value) -> &[Value] {
        match value {
            Value::List(at) | Value::Tuple(at) => self.sequences.get(at).map_or(&[], Vec::as_slice),
            _ => &[],
        }
    }

    /// A dictionary's key as text, unless it is longer than that.
    pub(super) fn key(&self, key: Value, longest: usize) -> Option<String> {
        match key {
            Value::Text(at) => self.texts.get(at).filter(|text| text.len() <= longest).cloned(),
            Value::Int(number) => Some(number.to_string()),
            _ => None,
        }
    }

    /// A tensor by its number.
    pub(super) fn tensor(&self, at: usize) -> Option<&TensorRef> {
        self.tensors.get(at)
    }

    /// Executes one instruction.
    ///
    /// The instructions are those that Python's pickler emits for dictionaries, lists, tuples,
    /// texts, numbers and calls in protocols 2 to 4; any other is refused.
    fn step(&mut self, opcode: u8, input: &mut Input<'_>) -> Out {
        match opcode {
            // PROTO, FRAME: no meaning here.
            0x80 => input.bytes(1).map(drop),
            0x95 => input.bytes(8).map(drop),
            b'(' => self.push(Value::Mark),
            b'0' => self.pop().map(drop),
            b'1' => self.above_mark().map(drop),
            b'2' => self.top().and_then(|top| self.push(top)),
            b'}' => self.new_dict(),
            b']' => self.new_sequence(Vec::new(), Value::List),
            b')' => self.new_sequence(Vec::new(), Value::Tuple),
            b't' => self.above_mark().and_then(|items| self.new_sequence(items, Value::Tuple)),
            0x85..=0x87 => self.small_tuple(usize::from(opcode - 0x84)),
            b'a' | b'e' => self.append(opcode),
            b's' | b'u' => self.set_items(opcode),
            b'c' | 0x93 => self.global(opcode, input),
            b'Q' => self.persistent(),
            b'R' => self.reduce(),
            b'b' => self.build(),
            b'q' | b'r' | 0x94 => self.put(opcode, input),
            b'h' => input.byte().and_then(|at| self.get(at.into())),
            b'j' => input.u32().and_then(|at| self.get(at)),
            _ => self.literal(opcode, input),
        }
    }

    /// Pushes the constant that an instruction holds.
    fn literal(&mut self, opcode: u8, input: &mut Input<'_>) -> Out {
        let value = match opcode {
            b'N' => Value::None,
            0x88 => Value::Bool(true),
            0x89 => Value::Bool(false),
            b'J' => Value::Int(i32::from_le_bytes(input.array()?).into()),
            b'K' => Value::Int(input.byte()?.into()),
            b'M' => Value::Int(u16::from_le_bytes(input.array()?).into()),
            0x8a => Value::Int(long(input)?),
            b'G' => Value::Float(f64::from_be_bytes(input.array()?)),
            b'X' => {
                let n = input.u32()? as usize;
                self.new_text(input.text(n)?)
            }
            0x8c => {
                let n = input.byte()?.into();
                self.new_text(input.text(n)?)
            }
            other => {
                return Err(
                    format!("pickle instruction {other:#04x}, which states do not use").into()
                );
            }
        };
        self.push(value)
    }

    /// Pushes a value.
    fn push(&mut self, value: Value) -> Out {
        self.stack.push(value);
        Ok(())
    }

    /// The value on top of the stack.
    fn top(&self) -> Out<Value> {
        self.stack.last().copied().ok_or("the pickle takes what is not there".into())
    }

    /// Takes the value on top of the stack.
    fn pop(&mut self) -> Out<Value> {
        let top = self.top()?;
        self.stack.pop();
        Ok(top)
    }

    /// Takes the values above the topmost mark, and the mark.
    fn above_mark(&mut self) -> Out<Vec<Value>> {
        let mark = self.stack.iter().rposition(|value| *value == Value::Mark);
        let items = self.stack.split_off(mark.ok_or("the pickle lacks a mark")? + 1);
        self.stack.pop();
        Ok(items)
    }

    /// A text, put into the list of texts.
    fn new_text(&mut self, text: String) -> Value {
        self.texts.push(text);
        Value::Text(self.texts.len() - 1)
    }

    /// Pushes an empty dictionary.
    fn new_dict(&mut self) -> Out {
        self.dicts.push(Vec::new());
        self.push(Value::Dict(self.dicts.len() - 1))
    }

    /// Pushes a list or tuple of these items.
    fn new_sequence(&mut self, items: Vec<Value>, kind: fn(usize) -> Value) -> Out {
        self.sequences.push(items);
        self.push(kind(self.sequences.len() - 1))
    }

    /// Makes a tuple of the `n` values on top.
    fn small_tuple(&mut self, n: usize) -> Out {
        let from = self.stack.len().checked_sub(n).ok_or("the pickle takes what is not there")?;
        let items = self.stack.split_off(from);
        self.new_sequence(items, Value::Tuple)
    }

    /// Appends to the list below: one value, or those above the mark.
    fn append(&mut self, opcode: u8) -> Out {
        let items = if opcode == b'e' { self.above_mark()? } else { vec![self.pop()?] };
        match self.top()? {
            Value::List(at) if at < self.sequences.len() => {
                self.sequences[at].extend(items);
                Ok(())
            }
            _ => Err("the pickle appends to a value that is not a list".into()),
        }
    }

    /// Sets items of the dictionary below: one pair, or those above the mark.
    fn set_items(&mut self, opcode: u8) -> Out {
        let items = match opcode {
            b'u' => self.above_mark()?,
            _ => {
                let (value, key) = (self.pop()?, self.pop()?);
                vec![key, value]
            }
        };
        match self.top()? {
            Value::Dict(at) if at < self.dicts.len() && items.len().is_multiple_of(2) => {
                self.dicts[at].extend(items.chunks_exact(2).map(|pair| (pair[0], pair[1])));
                Ok(())
            }
            _ => Err("the pickle sets items of a value that is not a dictionary".into()),
        }
    }

    /// Remembers the value on top under a number.
    fn put(&mut self, opcode: u8, input: &mut Input<'_>) -> Out {
        let at = match opcode {
            b'q' => input.byte()?.into(),
            b'r' => input.u32()?,
            _ => u32::try_from(self.memo.len())?,
        };
        let top = self.top()?;
        self.memo.insert(at, top);
        Ok(())
    }

    /// Pushes the value remembered under a number.
    fn get(&mut self, at: u32) -> Out {
        let value = self.memo.get(&at).copied();
        self.push(value.ok_or("the pickle takes what it has not put away")?)
    }

    /// Pushes a class or function that states mention, by module and name.
    fn global(&mut self, opcode: u8, input: &mut Input<'_>) -> Out {
        let (module, name) = if opcode == b'c' {
            (input.line()?.to_owned(), input.line()?.to_owned())
        } else {
            let (name, module) = (self.pop()?, self.pop()?);
            (self.text(module)?.to_owned(), self.text(name)?.to_owned())
        };
        let global = match (module.as_str(), name.as_str()) {
            ("collections", "OrderedDict") => Global::OrderedDict,
            ("torch._utils", "_rebuild_tensor_v2") => Global::Tensor,
            ("torch._utils", "_rebuild_parameter") => Global::Parameter,
            ("torch", "Size") => Global::Size,
            ("torch", class) if storage_kind(class).is_some() => {
                storage_kind(class).map(Global::Storage).ok_or("a storage")?
            }
            _ => return Err(foreign::refusal(&module, &name)),
        };
        self.push(Value::Global(global))
    }

    fn text(&self, value: Value) -> Out<&str> {
        match value {
            Value::Text(at) => self.texts.get(at).map(String::as_str),
            _ => None,
        }
        .ok_or("the pickle has something else where a text belongs".into())
    }

    /// `('storage', class, key, device, elements)`.
    fn persistent(&mut self) -> Out {
        let id = self.pop()?;
        match *self.items(id) {
            [word, Value::Global(Global::Storage(kind)), key, _, Value::Int(stored)]
                if self.text(word)? == "storage" =>
            {
                let stored = usize::try_from(stored)?;
                self.storages.push((kind, self.text(key)?.to_owned(), stored));
                self.push(Value::Storage(self.storages.len() - 1))
            }
            _ => Err("the pickle refers to a value that is not a storage".into()),
        }
    }

    /// Recognizes a call of a function by its arguments; nothing is called.
    fn reduce(&mut self) -> Out {
        let (arguments, function) = (self.pop()?, self.pop()?);
        match (function, self.items(arguments)) {
            (Value::Global(Global::OrderedDict), []) => self.new_dict(),
            (
                Value::Global(Global::Parameter),
                [data @ Value::Tensor(_), Value::Bool(_), hooks],
            ) if self.is_nothing(*hooks) => self.push(*data),
            (Value::Global(Global::Size), [items @ (Value::Tuple(_) | Value::List(_))]) => {
                self.push(*items)
            }
            (
                Value::Global(Global::Tensor),
                [Value::Storage(at), Value::Int(offset), sizes, strides, rest @ ..],
            ) => {
                let mut tensor = self.described(*at, *offset, *sizes, *strides)?;
                tensor.lazy = self.lazy(tensor.kind, rest)?;
                self.tensors.push(tensor);
                self.push(Value::Tensor(self.tensors.len() - 1))
            }
            _ => Err("the pickle calls something in a way that states do not".into()),
        }
    }

    /// A tensor over a storage, with sizes and strides that fit each other.
    fn described(&self, at: usize, offset: i64, sizes: Value, strides: Value) -> Out<TensorRef> {
        let (kind, key, stored) =
            self.storages.get(at).cloned().ok_or("a storage that is not there")?;
        let numbers = |value: Value| -> Out<Vec<usize>> {
            if !matches!(value, Value::Tuple(_) | Value::List(_)) {
                return Err("a shape that is not a list of sizes".into());
            }
            let whole = |item: &Value| match item {
                Value::Int(number) => usize::try_from(*number).ok(),
                _ => None,
            };
            let all: Option<Vec<usize>> = self.items(value).iter().map(whole).collect();
            all.filter(|all| all.len() <= MAX_RANK)
                .ok_or("a shape that is not a list of sizes".into())
        };
        let (sizes, strides) = (numbers(sizes)?, numbers(strides)?);
        if sizes.len() != strides.len() {
            return Err("a shape and strides of different lengths".into());
        }
        let offset = usize::try_from(offset)?;
        let lazy = Lazy::default();
        Ok(TensorRef { kind, key, offset, sizes, strides, stored, lazy })
    }

    /// What follows a tensor's strides: `requires_grad`, hooks, and a dictionary of lazy changes
    /// where there are any.
    fn lazy(&self, kind: Kind, rest: &[Value]) -> Out<Lazy> {
        let changes = match rest {
            [Value::Bool(_), hooks] if self.is_nothing(*hooks) => &[],
            [Value::Bool(_), hooks, Value::None] if self.is_nothing(*hooks) => &[],
            [Value::Bool(_), hooks, changes @ Value::Dict(_)] if self.is_nothing(*hooks) => {
                self.entries(*changes)
            }
            _ => return Err("the tensor has more to it than a state's tensors have".into()),
        };
        let mut lazy = Lazy::default();
        for (what, on) in changes {
            match (self.text(*what)?, on) {
                (_, Value::Bool(false)) => (),
                ("neg", Value::Bool(true)) if kind.dtype.is_float() => lazy.is_negated = true,
                ("conj", Value::Bool(true)) if kind.is_complex => lazy.is_conjugated = true,
                (what, _) => return Err(foreign::lazy(what)),
            }
        }
        Ok(lazy)
    }

    /// No hooks: nothing, or an empty dictionary.
    fn is_nothing(&self, hooks: Value) -> bool {
        match hooks {
            Value::None => true,
            Value::Dict(_) => self.entries(hooks).is_empty(),
            _ => false,
        }
    }

    /// Attributes of a dictionary, such as a state's `_metadata`: not needed.
    fn build(&mut self) -> Out {
        self.pop()?;
        match self.top()? {
            Value::Dict(_) => Ok(()),
            _ => Err("the pickle sets attributes of a value that is not a dictionary".into()),
        }
    }
}

/// An integer of up to eight bytes, two's complement.
fn long(input: &mut Input<'_>) -> Out<i64> {
    let n = usize::from(input.byte()?);
    let bytes = input.bytes(n)?;
    if n > 8 {
        return Err("an integer of more than 64 bits".into());
    }
    let negative = bytes.last().is_some_and(|byte| byte & 0x80 != 0);
    let mut all = [if negative { 0xff } else { 0 }; 8];
    all[..n].copy_from_slice(bytes);
    Ok(i64::from_le_bytes(all))
}
