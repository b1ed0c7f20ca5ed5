//! Selection and replacement by index.

use gt::DynTensor;
use gt::core::Index;
use gt::functional::ScatterReduce;

use super::rows;
use crate::arguments::{Arguments, Outcome, absent};

rows! {
    "gather", "input dim index sparse_grad=False" => |a| a.x()?.gather(a.int("dim")?, a.t("index")?);
    "index_select", "input dim index" => |a| a.x()?.index_select(a.int("dim")?, a.t("index")?);
    "index_add", "input dim index source alpha=1" => |a| a.x()?.index_add(a.int("dim")?, a.t("index")?, a.t("source")?);
    "index_copy", "input dim index source" => |a| a.x()?.index_copy(a.int("dim")?, a.t("index")?, a.t("source")?);
    "scatter", "input dim index src reduce=None" => |a| a.x()?.scatter(a.int("dim")?, a.t("index")?, a.t("src")?);
    "scatter_add", "input dim index src" => |a| a.x()?.scatter_add(a.int("dim")?, a.t("index")?, a.t("src")?);
    "scatter_reduce/sum", "input dim index src reduce include_self=True" => |a| reduced(a)?;
    "scatter_reduce/prod", "input dim index src reduce include_self=True" => |a| reduced(a)?;
    "scatter_reduce/mean", "input dim index src reduce include_self=True" => |a| reduced(a)?;
    "scatter_reduce/amax", "input dim index src reduce include_self=True" => |a| reduced(a)?;
    "scatter_reduce/amin", "input dim index src reduce include_self=True" => |a| reduced(a)?;
    "nn.functional.embedding", "weight input padding_idx=None max_norm=None norm_type=2 scale_grad_by_freq=False sparse=False" => |a| embedding(a)?;
    "nn.functional.one_hot", "input num_classes=-1" => |a| a.x()?.one_hot(a.size("num_classes")?);
    "masked_select", "input mask" => |a| a.x()?.masked_select(a.t("mask")?)?;
    "nonzero", "input as_tuple=False" => |a| a.x()?.nonzero()?;
    "argwhere", "input" => |a| a.x()?.nonzero()?;
    "__getitem__", "input index" => |a| a.x()?.slice(a.index("index")?);
    "select", "input dim index" => |a| a.x()?.slice(at(a, Index::At(a.int("index")?))?);
    "slice", "input dim=0 start=None end=None step=1" => |a| a.x()?.slice(at(a, range(a))?);
    "slice_scatter", "input src dim=0 start=None end=None step=1" => |a| a.x()?.slice_assign(at(a, range(a))?, a.t("src")?);
    "select_scatter", "input src dim index" => |a| a.x()?.slice_assign(at(a, Index::At(a.int("index")?))?, a.t("src")?);
}

fn reduced(a: &Arguments<'_>) -> Outcome<DynTensor> {
    let reduce = match a.text("reduce") {
        "sum" => ScatterReduce::Sum,
        "prod" => ScatterReduce::Prod,
        "mean" => ScatterReduce::Mean,
        "amax" => ScatterReduce::Amax,
        "amin" => ScatterReduce::Amin,
        other => return absent(format!("the reduction {other}")),
    };
    let (index, src) = (a.t("index")?, a.t("src")?);
    Ok(a.x()?.scatter_reduce(a.int("dim")?, index, src, reduce, a.truth("include_self")))
}

/// Whole axes before axis `dim`.
fn at(a: &Arguments<'_>, index: Index) -> Outcome<Vec<Index>> {
    let (dim, rank) = (a.int("dim")?, a.x()?.rank());
    let from_front = if dim < 0 { dim + rank as i64 } else { dim };
    match usize::try_from(from_front) {
        Ok(before) if before < rank.max(1) => {
            Ok([vec![Index::from(..); before], vec![index]].concat())
        }
        _ => absent(format!("the axis {dim}")),
    }
}

fn range(a: &Arguments<'_>) -> Index {
    let end = |name: &str| a.value(name).as_i64();
    Index::Range { start: end("start"), stop: end("end"), step: end("step").unwrap_or(1) }
}

fn embedding(a: &Arguments<'_>) -> Outcome<DynTensor> {
    let table = a.t("weight")?;
    if a.is_none("padding_idx") {
        return Ok(table.embedding(a.t("input")?));
    }
    let padding = a.int("padding_idx")?;
    let padding = if padding < 0 { padding + table.size(0) as i64 } else { padding };
    Ok(table.embedding_with_padding(a.t("input")?, padding))
}
