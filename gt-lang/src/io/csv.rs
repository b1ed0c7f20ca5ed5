//! Tables of numbers as comma-separated text.

use std::io::{self, Read, Write};
use std::path::Path;

use gt_ir::{Dim, HostTensor, Shape};

use super::{InFile, atomic};
use crate::error::Result;
use crate::state::data_error;

/// Whether the first line names the columns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Header {
    /// It does.
    #[default]
    Yes,
    /// It holds numbers as the others do.
    No,
}

/// A table: the names of its columns, if it has some, and its numbers, `f64[rows, columns]`.
#[derive(Clone, Debug, PartialEq)]
pub struct Table {
    /// The names of the columns; empty without a header.
    pub columns: Vec<String>,
    /// The numbers.
    pub values: HostTensor,
}

/// Reads a table of numbers; an empty field is NaN.
///
/// # Errors
/// The file cannot be read, a field is not a number (line and column are named), or a line has
/// another number of fields.
#[track_caller]
pub fn load(path: impl AsRef<Path>, header: Header) -> Result<Table> {
    let path = path.as_ref();
    read(std::fs::File::open(path).in_file(path)?, header, path)
}

/// The table of a file's bytes; errors name the file as `path`.
///
/// # Errors
/// As [`load`].
#[track_caller]
pub fn from_bytes(bytes: &[u8], header: Header, path: impl AsRef<Path>) -> Result<Table> {
    read(bytes, header, path.as_ref())
}

#[track_caller]
fn read(source: impl Read, header: Header, path: &Path) -> Result<Table> {
    let mut reader = ::csv::ReaderBuilder::new()
        .has_headers(header == Header::Yes)
        .trim(::csv::Trim::All)
        .from_reader(source);
    let columns: Vec<String> = match header {
        Header::Yes => reader.headers().in_file(path)?.iter().map(str::to_owned).collect(),
        Header::No => Vec::new(),
    };
    let (mut values, mut rows, mut width) = (Vec::new(), 0, columns.len());
    let mut record = ::csv::StringRecord::new();
    while reader.read_record(&mut record).in_file(path)? {
        width = record.len();
        for (column, field) in record.iter().enumerate() {
            let number = if field.is_empty() { Ok(f64::NAN) } else { field.parse() };
            let place = record.position().map_or(0, ::csv::Position::line);
            let number = number.map_err(|_| {
                let column = columns.get(column).cloned().unwrap_or((column + 1).to_string());
                format!("line {place}, column {column}: `{field}` is not a number")
            });
            values.push(number.in_file(path)?);
        }
        rows += 1;
    }
    let shape = Shape::from_dims(&[Dim::new(rows), Dim::new(width)]).in_file(path)?;
    let values = HostTensor::from_vec(values, shape).in_file(path)?;
    Ok(Table { columns, values })
}

/// Writes a table, as a whole or not at all. Numbers are written so that reading them gives the
/// same.
///
/// # Errors
/// The file cannot be written, the values are no matrix, or there are not as many names as columns.
#[track_caller]
pub fn save(path: impl AsRef<Path>, table: &Table) -> Result<()> {
    let path = path.as_ref();
    let width = width(table).in_file(path)?;
    atomic::write(path, |file| write(table, width, file))
}

/// The bytes of a table's file.
///
/// # Errors
/// The values are no matrix, or there are not as many names as columns.
#[track_caller]
pub fn to_bytes(table: &Table) -> Result<Vec<u8>> {
    let width = match width(table) {
        Ok(width) => width,
        Err(error) => return Err(data_error(error)),
    };
    let mut bytes = Vec::new();
    match write(table, width, &mut bytes) {
        Ok(()) => Ok(bytes),
        Err(error) => Err(data_error(error.to_string())),
    }
}

/// How many columns a table has, if it is one.
fn width(table: &Table) -> Result<usize, String> {
    let ty = table.values.ty();
    let &[_, width] = ty.shape.sizes() else {
        return Err(format!("a table is a matrix, not {ty}"));
    };
    if !table.columns.is_empty() && table.columns.len() != width {
        return Err(format!("{} names for the {width} columns of {ty}", table.columns.len()));
    }
    Ok(width)
}

fn write(table: &Table, width: usize, out: impl Write) -> io::Result<()> {
    let mut writer = ::csv::Writer::from_writer(out);
    if !table.columns.is_empty() {
        writer.write_record(&table.columns)?;
    }
    for row in table.values.to_f64().chunks_exact(width.max(1)) {
        writer.write_record(row.iter().map(f64::to_string))?;
    }
    writer.flush()
}
