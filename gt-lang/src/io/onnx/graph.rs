//! A graph of ONNX's operators in the making: values with types, nodes, constants.
//!
//! Guarantees: equal constants are one initializer, and no two values have the same name.
//!
//! Does not: simplify. Those who run the graph fold constants and fuse nodes.

use std::collections::{BTreeMap, BTreeSet};

use gt_ir::{DType, HostTensor, Op, OpError, Operand, Scalar, Shape, Type, ValueId};

use super::proto::{AttributeProto, GraphProto, NodeProto, TensorProto, ValueInfoProto, number_of};

/// The result of one instruction.
pub(super) type Emitted = Result<ValueId, OpError>;

/// A graph in the making.
#[derive(Default)]
pub(super) struct Graph {
    values: Vec<Value>,
    nodes: Vec<NodeProto>,
    initializers: Vec<TensorProto>,
    inputs: Vec<ValueInfoProto>,
    /// Constants by dtype, sizes and contents.
    constants: BTreeMap<(i32, Vec<usize>, Vec<u8>), ValueId>,
    names: BTreeSet<String>,
    /// The primitive that ended it, because there is no operator for it.
    missing: Option<&'static str>,
}

/// A value with a name.
struct Value {
    name: String,
    ty: Type,
    /// Whether a node makes it.
    is_made: bool,
}

/// A node that is about to be added.
pub(super) struct Node {
    op: &'static str,
    inputs: Vec<Option<ValueId>>,
    attributes: Vec<AttributeProto>,
}

impl Node {
    /// An operator on operands, without attributes.
    pub(super) fn new(op: &'static str, inputs: &[ValueId]) -> Node {
        let inputs = inputs.iter().copied().map(Some).collect();
        Node { op, inputs, attributes: Vec::new() }
    }

    /// With one more operand.
    pub(super) fn operand(mut self, value: ValueId) -> Node {
        self.inputs.push(Some(value));
        self
    }

    /// With the next operand left out.
    pub(super) fn without(mut self) -> Node {
        self.inputs.push(None);
        self
    }

    /// With one more attribute.
    pub(super) fn with(mut self, attribute: AttributeProto) -> Node {
        self.attributes.push(attribute);
        self
    }

    /// With an integer attribute.
    pub(super) fn int(self, name: &str, value: i64) -> Node {
        self.with(AttributeProto::int(name, value))
    }
}

impl Graph {
    /// A value that is given.
    pub(super) fn input(&mut self, name: &str, ty: Type) -> ValueId {
        let id = self.value(name.to_owned(), ty, false);
        self.inputs.push(ValueInfoProto::of(&self.values[id.0 as usize].name, &ty));
        id
    }

    /// A value that is part of the graph.
    pub(super) fn initializer(&mut self, name: &str, value: &HostTensor) -> ValueId {
        let id = self.value(name.to_owned(), value.ty().unnamed(), false);
        self.initializers.push(TensorProto::of(&self.values[id.0 as usize].name, value));
        id
    }

    /// Adds a node with one result.
    pub(super) fn add(&mut self, node: Node, ty: Type) -> ValueId {
        let id = self.value(format!("{}_{}", node.op, self.nodes.len()), ty, true);
        self.push(node, &[id]);
        id
    }

    /// Adds a node of which the second result is wanted.
    pub(super) fn add_second(&mut self, node: Node, first: Type, second: Type) -> ValueId {
        let name = format!("{}_{}", node.op, self.nodes.len());
        let unused = self.value(format!("{name}_unused"), first, true);
        let id = self.value(name, second, true);
        self.push(node, &[unused, id]);
        id
    }

    fn push(&mut self, node: Node, results: &[ValueId]) {
        let name = |id: &ValueId| self.values[id.0 as usize].name.clone();
        let inputs = node.inputs.iter().map(|id| id.as_ref().map(name).unwrap_or_default());
        let (input, output): (Vec<String>, Vec<String>) =
            (inputs.collect(), results.iter().map(name).collect());
        self.nodes.push(NodeProto {
            name: output.last().cloned(),
            input,
            output,
            op_type: Some(node.op.to_owned()),
            attribute: node.attributes,
        });
    }

    fn value(&mut self, name: String, ty: Type, is_made: bool) -> ValueId {
        let name = self.unique(name);
        self.values.push(Value { name, ty, is_made });
        ValueId(self.values.len() as u64 - 1)
    }

    /// The name, or one like it that nothing has.
    fn unique(&mut self, name: String) -> String {
        let mut free = name.clone();
        let mut n = 1;
        while !self.names.insert(free.clone()) {
            n += 1;
            free = format!("{name}_{n}");
        }
        free
    }

    /// The primitive that there is no operator for, if an instruction failed because of one.
    pub(super) const fn missing(&self) -> Option<&'static str> {
        self.missing
    }

    /// Notes the primitive, and gives the error of it.
    pub(super) fn miss(&mut self, op: &Op) -> OpError {
        self.missing = Some(op.name());
        OpError::new(format!("{}: there is no operator for it", op.name()))
    }

    /// The type of a value.
    pub(super) fn type_of(&self, value: ValueId) -> Type {
        self.values[value.0 as usize].ty
    }

    /// A constant.
    pub(super) fn constant(&mut self, value: &HostTensor) -> ValueId {
        let ty = value.ty();
        let key = (number_of(ty.dtype), ty.shape.sizes().to_vec(), value.bytes().to_vec());
        if let Some(known) = self.constants.get(&key) {
            return *known;
        }
        let id = self.initializer(&format!("constant_{}", self.constants.len()), value);
        self.constants.insert(key, id);
        id
    }

    /// Integers as a constant, which is a line.
    pub(super) fn ints(&mut self, values: impl IntoIterator<Item = i64>) -> Emitted {
        let values: Vec<i64> = values.into_iter().collect();
        let shape = Shape::new(&[values.len()])?;
        Ok(self.constant(&HostTensor::from_vec(values, shape)?))
    }

    /// A literal as a constant without axes.
    pub(super) fn literal(&mut self, scalar: Scalar, dtype: DType) -> Emitted {
        Ok(self.constant(&number(scalar, dtype)?))
    }

    /// The operand as a value of this dtype.
    pub(super) fn operand(&mut self, operand: Operand, dtype: DType) -> Emitted {
        match operand {
            Operand::Scalar(scalar) => self.literal(scalar, dtype),
            Operand::Value(value) => Ok(self.cast(value, dtype)),
        }
    }

    /// The value in this dtype.
    pub(super) fn cast(&mut self, value: ValueId, dtype: DType) -> ValueId {
        let ty = self.type_of(value);
        if ty.dtype == dtype {
            return value;
        }
        let node = Node::new("Cast", &[value]).int("to", number_of(dtype).into());
        self.add(node, ty.with_dtype(dtype))
    }

    /// The value in this shape of as many elements.
    pub(super) fn reshape(&mut self, value: ValueId, shape: Shape) -> Emitted {
        let ty = self.type_of(value);
        if ty.shape.same_sizes(&shape) {
            return Ok(value);
        }
        let sizes = self.ints(super::proto::dims(shape.sizes()))?;
        let mut node = Node::new("Reshape", &[value, sizes]);
        if shape.numel() == 0 {
            node = node.int("allowzero", 1);
        }
        Ok(self.add(node, Type::new(ty.dtype, shape)))
    }

    /// The value repeated to this shape.
    pub(super) fn expand(&mut self, value: ValueId, shape: Shape) -> Emitted {
        let ty = self.type_of(value);
        if ty.shape.same_sizes(&shape) {
            return Ok(value);
        }
        let sizes = self.ints(super::proto::dims(shape.sizes()))?;
        Ok(self.add(Node::new("Expand", &[value, sizes]), Type::new(ty.dtype, shape)))
    }

    /// The graph with these results under these names.
    pub(super) fn finish(mut self, results: &[(String, ValueId)]) -> GraphProto {
        let mut renamed = BTreeMap::new();
        let mut output = Vec::new();
        for (name, id) in results {
            let (name, value) = (self.unique(name.clone()), &self.values[id.0 as usize]);
            let (old, ty) = (value.name.clone(), value.ty);
            if value.is_made && !renamed.contains_key(&old) {
                renamed.insert(old, name.clone());
            } else {
                // Of a value that is renamed already, the new name.
                let old = renamed.get(&old).cloned().unwrap_or(old);
                self.nodes.push(same(old, name.clone()));
            }
            output.push(ValueInfoProto::of(&name, &ty));
        }
        self.rename(&renamed);
        GraphProto {
            node: self.nodes,
            name: Some("gt".to_owned()),
            initializer: self.initializers,
            input: self.inputs,
            output,
        }
    }

    fn rename(&mut self, names: &BTreeMap<String, String>) {
        for node in &mut self.nodes {
            for name in node.input.iter_mut().chain(&mut node.output) {
                if let Some(new) = names.get(name) {
                    name.clone_from(new);
                }
            }
        }
    }
}

/// A node that gives a value another name.
fn same(from: String, to: String) -> NodeProto {
    NodeProto {
        input: vec![from],
        name: Some(to.clone()),
        output: vec![to],
        op_type: Some("Identity".to_owned()),
        attribute: Vec::new(),
    }
}

/// A literal in this dtype, without axes.
pub(super) fn number(scalar: Scalar, dtype: DType) -> Result<HostTensor, OpError> {
    let cast =
        gt_ir::interp::eval(&Op::Full(Type::scalar(dtype)), &[gt_ir::interp::Arg::Scalar(scalar)]);
    cast.map_err(|error| OpError::new(error.to_string()))
}
