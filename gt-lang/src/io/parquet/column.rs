//! A column of a Parquet file: which elements it has, and how they become those of a tensor.
//!
//! Guarantees: integers keep their values, in the next dtype that has them all.

use std::ops::Range;

use ::parquet::basic::{ConvertedType, LogicalType, Type as Physical};
use ::parquet::data_type::{
    BoolType, ByteArray, ByteArrayType, DoubleType, FixedLenByteArray, FixedLenByteArrayType,
    FloatType, Int32Type, Int64Type,
};
use ::parquet::file::serialized_reader::SerializedFileReader;
use ::parquet::schema::types::{ColumnDescriptor, SchemaDescriptor};
use bytes::Bytes;
use gt_ir::{Element, HostTensor};
use half::f16;

use super::super::unpack::Unpacking;
use super::super::{Refusal, tensor};
use super::levels::{Cells, Elements, cells};

/// A column with one element or one list in each row.
#[derive(Clone, Debug)]
pub(super) struct Column {
    pub(super) name: String,
    /// Its number among the columns of the file.
    pub(super) leaf: usize,
    kind: Kind,
}

/// The elements of a column.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    Bool,
    U8,
    I32,
    U32,
    I64,
    U64,
    F16,
    F32,
    F64,
    Text,
    /// Without a counterpart here, and why.
    Foreign(&'static str),
}

impl Column {
    /// The columns of a file.
    pub(super) fn all(schema: &SchemaDescriptor) -> Vec<Column> {
        let leaves = schema.columns().iter().enumerate();
        leaves.map(|(leaf, column)| Column::of(leaf, column, schema)).collect()
    }

    fn of(leaf: usize, column: &ColumnDescriptor, schema: &SchemaDescriptor) -> Column {
        let root = schema.get_column_root_idx(leaf);
        let of_root = |other: &usize| schema.get_column_root_idx(*other) == root;
        let is_alone = (0..schema.num_columns()).filter(of_root).take(2).count() == 1;
        let is_list = column.max_rep_level() == 1 && is_alone;
        let path = column.path().parts();
        let name = if is_list { path[..1].concat() } else { column.path().string() };
        let kind = match column.max_rep_level() {
            0 => kind(column),
            1 if is_alone => kind(column),
            1 => Kind::Foreign("a list of structures"),
            _ => Kind::Foreign("a list of lists"),
        };
        Column { name, leaf, kind }
    }

    /// The elements of these groups of rows.
    pub(super) fn read(
        &self,
        file: &SerializedFileReader<Bytes>,
        groups: Range<usize>,
        left: &mut Unpacking,
    ) -> Result<HostTensor, Refusal> {
        macro_rules! of {
            ($physical:ty, $missing:expr, $convert:expr) => {{
                let elements = Elements { missing: $missing, convert: $convert };
                made(cells::<$physical, _>(file, (self.leaf, groups), left, &elements)?)
            }};
        }
        match self.kind {
            Kind::Bool => of!(BoolType, None, |v: &bool| Some(*v)),
            Kind::U8 => of!(Int32Type, None, |v: &i32| u8::try_from(*v).ok()),
            Kind::I32 => of!(Int32Type, None, |v: &i32| Some(*v)),
            Kind::U32 => of!(Int32Type, None, |v: &i32| Some(i64::from(v.cast_unsigned()))),
            Kind::I64 => of!(Int64Type, None, |v: &i64| Some(*v)),
            // Its bits stand for one with a sign, so that large ones are negative.
            Kind::U64 => of!(Int64Type, None, |v: &i64| Some(*v).filter(|v| *v >= 0)),
            Kind::F16 => of!(FixedLenByteArrayType, Some(f16::NAN), |v: &FixedLenByteArray| {
                v.data().try_into().ok().map(f16::from_le_bytes)
            }),
            Kind::F32 => of!(FloatType, Some(f32::NAN), |v: &f32| Some(*v)),
            Kind::F64 => of!(DoubleType, Some(f64::NAN), |v: &f64| Some(*v)),
            Kind::Text => Err(Refusal::new("a column of texts")
                .hint("`texts` reads it, for a tokenizer to make numbers of")),
            Kind::Foreign(what) => Err(Refusal::new(format!("{what}, which is not read here"))
                .hint("columns are of numbers or truth values, or of lists of them")),
        }
    }

    /// The texts of these groups of rows.
    pub(super) fn texts(
        &self,
        file: &SerializedFileReader<Bytes>,
        groups: Range<usize>,
        left: &mut Unpacking,
    ) -> Result<Vec<String>, Refusal> {
        if self.kind != Kind::Text {
            return Err(Refusal::new("not a column of texts").hint("`get` reads numbers"));
        }
        // Shared until their lengths are counted: a file may repeat a long text in few bytes.
        let missing = Some(ByteArray::from(Bytes::new()));
        let elements = Elements { missing, convert: |v: &ByteArray| Some(v.clone()) };
        let cells = cells::<ByteArrayType, _>(file, (self.leaf, groups), left, &elements)?;
        if cells.width.is_some() {
            return Err("a column of lists of texts, which is not read here".into());
        }
        let texts = cells.values.iter().enumerate().map(|(row, value)| {
            left.take(value.len() as u64)?;
            let text = std::str::from_utf8(value.data());
            text.map(str::to_owned).map_err(|e| Refusal::new(format!("row {row}: {e}")))
        });
        texts.collect()
    }
}

/// A tensor of cells.
fn made<E: Element>(cells: Cells<E>) -> Result<HostTensor, Refusal> {
    let Cells { values, rows, width } = cells;
    let sizes = [rows, width.unwrap_or(1)];
    let sizes = if width.is_some() { &sizes[..] } else { &sizes[..1] };
    tensor(E::DTYPE, sizes, E::into_bytes(values))
}

fn kind(column: &ColumnDescriptor) -> Kind {
    use ConvertedType as Old;
    let (logical, old) = (column.logical_type_ref(), column.converted_type());
    let unsigned = |bits: i8| logical == Some(&LogicalType::integer(bits, false));
    if matches!(logical, Some(LogicalType::Decimal(_))) || old == Old::DECIMAL {
        return Kind::Foreign("a column of decimal fractions");
    }
    match column.physical_type() {
        Physical::BOOLEAN => Kind::Bool,
        Physical::INT32 if unsigned(8) || old == Old::UINT_8 => Kind::U8,
        Physical::INT32 if unsigned(32) || old == Old::UINT_32 => Kind::U32,
        Physical::INT32 => Kind::I32,
        Physical::INT64 if unsigned(64) || old == Old::UINT_64 => Kind::U64,
        Physical::INT64 => Kind::I64,
        Physical::FLOAT => Kind::F32,
        Physical::DOUBLE => Kind::F64,
        Physical::FIXED_LEN_BYTE_ARRAY if logical == Some(&LogicalType::Float16) => Kind::F16,
        Physical::BYTE_ARRAY if is_text(logical, old) => Kind::Text,
        Physical::INT96 => Kind::Foreign("a column of times of 96 bits"),
        Physical::BYTE_ARRAY | Physical::FIXED_LEN_BYTE_ARRAY => Kind::Foreign("a column of bytes"),
    }
}

fn is_text(logical: Option<&LogicalType>, old: ConvertedType) -> bool {
    let is_new =
        matches!(logical, Some(LogicalType::String | LogicalType::Enum | LogicalType::Json));
    is_new || matches!(old, ConvertedType::UTF8 | ConvertedType::ENUM | ConvertedType::JSON)
}
