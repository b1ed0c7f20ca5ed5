//! Shapes, axes, concatenation and splitting.

use gt::DynTensor;

use super::rows;
use crate::arguments::{Arguments, Outcome, absent};

rows! {
    "reshape", "input *shape" => |a| a.x()?.reshape(shape(a, "shape")?);
    "view", "input *shape" => |a| a.x()?.reshape(shape(a, "shape")?);
    "flatten", "input start_dim=0 end_dim=-1" => |a| a.x()?.flatten(a.int("start_dim")?, a.int("end_dim")?);
    "unflatten", "input dim sizes" => |a| a.x()?.unflatten(a.int("dim")?, a.sizes("sizes")?);
    "unsqueeze", "input dim" => |a| a.x()?.unsqueeze(a.int("dim")?);
    "squeeze", "input dim=None" => |a| squeeze(a)?;
    "squeeze/multiple", "input dim" => |a| a.x()?.squeeze_axes(a.ints("dim")?.as_slice());
    "permute", "input dims" => |a| a.x()?.permute(a.ints("dims")?);
    "transpose", "input dim0 dim1" => |a| a.x()?.transpose(a.int("dim0")?, a.int("dim1")?);
    "t", "input" => |a| a.x()?.t();
    "T", "input" => |a| a.x()?.t();
    "mT", "input" => |a| a.x()?.t();
    "movedim", "input source destination" => |a| movedim(a)?;
    "expand", "input *sizes" => |a| a.x()?.expand(shape(a, "sizes")?);
    "broadcast_to", "input sizes" => |a| a.x()?.expand(a.ints("sizes")?);
    "cat", "tensors dim=0" => |a| DynTensor::cat(a.list("tensors")?, a.int("dim")?);
    "stack", "tensors dim=0" => |a| DynTensor::stack(a.list("tensors")?, a.int("dim")?);
    "narrow", "input dim start length" => |a| a.x()?.narrow(a.int("dim")?, a.int("start")?, a.size("length")?);
    "split", "input split_size dim=0" => |a| a.x()?.split(a.size("split_size")?, a.int("dim")?);
    "split/list_args", "input sizes dim=0" => |a| a.x()?.split_sizes(a.sizes("sizes")?, a.int("dim")?);
    "split_with_sizes", "input sizes dim=0" => |a| a.x()?.split_sizes(a.sizes("sizes")?, a.int("dim")?);
    "chunk", "input chunks dim=0" => |a| a.x()?.chunk(a.size("chunks")?, a.int("dim")?);
    "flip", "input dims" => |a| a.x()?.flip(a.ints("dims")?.as_slice());
    "tril", "input diagonal=0" => |a| a.x()?.tril(a.int("diagonal")?);
    "triu", "input diagonal=0" => |a| a.x()?.triu(a.int("diagonal")?);
    "roll", "input shifts dims" => |a| roll(a)?;
    "repeat", "input *repeats" => |a| a.x()?.repeat(a.sizes("repeats").or_else(|_| nested(a))?);
    "repeat_interleave", "input repeats dim=None output_size=None" => |a| repeat_interleave(a)?;
    "diag", "input diagonal=0" => |a| a.x()?.diag();
    "unfold", "input dimension size step" => |a| a.x()?.unfold(a.int("dimension")?, a.size("size")?, a.size("step")?);
    "constant_pad_nd", "input pad value=0" => |a| a.x()?.pad(around(a)?, a.scalar("value")?);
    "nn.functional.pad/constant", "input pad mode=constant value=0.0" => |a| a.x()?.pad(around(a)?, a.scalar("value")?);
    "meshgrid/variadic_tensors", "*tensors indexing=ij" => |a| DynTensor::meshgrid(a.list("tensors")?);
    "meshgrid/list_of_tensors", "tensors indexing=ij" => |a| DynTensor::meshgrid(a.list("tensors")?);
    "contiguous", "input" => |a| a.x()?.clone();
    "clone", "input" => |a| a.x()?.clone();
}

/// Sizes that are given as one list or as separate arguments.
fn shape(a: &Arguments<'_>, name: &str) -> Outcome<Vec<i64>> {
    match a.value(name).as_array().map(Vec::as_slice) {
        Some([serde_json::Value::Array(list)]) => {
            let all: Option<Vec<i64>> = list.iter().map(serde_json::Value::as_i64).collect();
            all.map_or_else(|| absent(format!("a size in {name}")), Ok)
        }
        _ => a.ints(name),
    }
}

fn nested(a: &Arguments<'_>) -> Outcome<Vec<usize>> {
    let n = |n: i64| usize::try_from(n).or_else(|_| absent(format!("{n} copies")));
    shape(a, "repeats")?.into_iter().map(n).collect()
}

fn squeeze(a: &Arguments<'_>) -> Outcome<DynTensor> {
    match a.is_none("dim") {
        true => Ok(a.x()?.squeeze_axes(..)),
        false => Ok(a.x()?.squeeze(a.int("dim")?)),
    }
}

fn movedim(a: &Arguments<'_>) -> Outcome<DynTensor> {
    match (a.ints("source")?.as_slice(), a.ints("destination")?.as_slice()) {
        ([from], [to]) => Ok(a.x()?.movedim(*from, *to)),
        _ => absent("several axes"),
    }
}

/// Applies a function to one axis after the other.
fn roll(a: &Arguments<'_>) -> Outcome<DynTensor> {
    if a.is_none("dims") {
        return absent("no axis");
    }
    let (shifts, dims) = (a.ints("shifts")?, a.ints("dims")?);
    let each = shifts.into_iter().zip(dims);
    Ok(each.fold(a.x()?.clone(), |x, (shift, dim)| x.roll(shift, dim)))
}

fn repeat_interleave(a: &Arguments<'_>) -> Outcome<DynTensor> {
    match a.is_none("dim") {
        true => Ok(a.x()?.reshape([-1]).repeat_interleave(a.size("repeats")?, 0)),
        false => Ok(a.x()?.repeat_interleave(a.size("repeats")?, a.int("dim")?)),
    }
}

/// PyTorch's pads, which begin with the last axis, as pairs that begin with the first.
pub(super) fn around(a: &Arguments<'_>) -> Outcome<Vec<(i64, i64)>> {
    let pads = a.ints("pad")?;
    let mut pairs: Vec<(i64, i64)> =
        pads.chunks(2).filter_map(|p| Some((*p.first()?, *p.get(1)?))).collect();
    pairs.resize(a.x()?.rank().max(pairs.len()), (0, 0));
    pairs.reverse();
    Ok(pairs)
}
