//! A file as text: one line each for an input, an initializer, a node and a result.

use std::fmt::Write as _;

use super::super::proto::{AttributeProto, ModelProto, NodeProto, ValueInfoProto, number_of};
use gt_ir::DType;

/// The file in lines; constants that GT has made have their values where they are used.
pub(super) fn text(model: &ModelProto) -> String {
    let graph = model.graph.as_ref().unwrap();
    let mut text = String::new();
    let (ir, opset) = (model.ir_version.unwrap(), model.opset_import[0].version.unwrap());
    writeln!(text, "ir {ir}, opset {opset}, {}", model.producer_name.as_ref().unwrap()).unwrap();
    for input in &graph.input {
        writeln!(text, "input {}", info(input)).unwrap();
    }
    for x in &graph.initializer {
        let ty = ty(x.data_type.unwrap(), x.dims.iter().copied());
        writeln!(text, "{} {ty}", x.name.as_ref().unwrap()).unwrap();
    }
    for node in &graph.node {
        writeln!(text, "{}", line(node)).unwrap();
    }
    for output in &graph.output {
        writeln!(text, "output {}", info(output)).unwrap();
    }
    text
}

fn line(node: &NodeProto) -> String {
    let attributes: String = node.attribute.iter().map(|a| format!(" {}", attribute(a))).collect();
    let (op, inputs) = (node.op_type.as_ref().unwrap(), node.input.join(", "));
    format!("{} = {op}({inputs}){attributes}", node.output.join(", "))
}

fn attribute(a: &AttributeProto) -> String {
    let value = match a.r#type.unwrap() {
        1 => a.f.unwrap().to_string(),
        2 => a.i.unwrap().to_string(),
        3 => String::from_utf8(a.s.clone().unwrap()).unwrap(),
        7 => format!("{:?}", a.ints),
        _ => "..".to_owned(),
    };
    format!("{}={value}", a.name.as_ref().unwrap())
}

fn info(value: &ValueInfoProto) -> String {
    let tensor = value.r#type.as_ref().unwrap().tensor_type.as_ref().unwrap();
    let dims = tensor.shape.as_ref().unwrap().dim.iter().map(|dim| dim.dim_value.unwrap());
    format!("{} {}", value.name.as_ref().unwrap(), ty(tensor.elem_type.unwrap(), dims))
}

fn ty(number: i32, dims: impl Iterator<Item = i64>) -> String {
    let dtype = DType::ALL.into_iter().find(|dtype| number_of(*dtype) == number).unwrap();
    let dims: Vec<String> = dims.map(|size| size.to_string()).collect();
    format!("{dtype}[{}]", dims.join(","))
}
