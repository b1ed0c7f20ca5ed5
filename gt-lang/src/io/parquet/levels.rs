//! The cells of a column, put together from values and levels: Parquet's way of lists and of
//! missing values (Dremel, Melnik et al. 2010).
//!
//! Guarantees: there are as many rows as the file states, lists have one length, and pages are
//! counted against the limit before their values take memory.

use std::ops::Range;

use ::parquet::column::page::{Page, PageMetadata, PageReader};
use ::parquet::column::reader::ColumnReaderImpl;
use ::parquet::data_type::DataType;
use ::parquet::errors::{ParquetError, Result as Read};
use ::parquet::file::reader::FileReader;
use ::parquet::file::serialized_reader::SerializedFileReader;
use ::parquet::schema::types::ColumnDescriptor;
use bytes::Bytes;

use super::super::Refusal;
use super::super::unpack::Unpacking;
use super::damaged;

/// The elements of a column, row after row.
pub(super) struct Cells<E> {
    pub(super) values: Vec<E>,
    pub(super) rows: usize,
    /// The length of the lists, if they are lists.
    pub(super) width: Option<usize>,
}

/// How a value becomes an element.
pub(super) struct Elements<E, F> {
    /// What stands for a missing value; without it one is an error.
    pub(super) missing: Option<E>,
    /// The element, unless the value is out of its range.
    pub(super) convert: F,
}

/// What stands in the pages of a group of rows.
struct Group<T> {
    values: Vec<T>,
    /// How much of the path to each value there is; all of it where there is a value.
    defined: Vec<i16>,
    /// 0 where a row begins.
    repeated: Vec<i16>,
    rows: usize,
    n_levels: usize,
}

/// The cells of groups of rows.
pub(super) fn cells<T: DataType, E: Clone>(
    file: &SerializedFileReader<Bytes>,
    (leaf, groups): (usize, Range<usize>),
    left: &mut Unpacking,
    elements: &Elements<E, impl Fn(&T::T) -> Option<E>>,
) -> Result<Cells<E>, Refusal> {
    let column = file.metadata().file_metadata().schema_descr().column(leaf);
    let width = (column.max_rep_level() > 0).then_some(0);
    let mut cells = Cells { values: Vec::new(), rows: 0, width };
    for number in groups {
        let size = size_of::<T::T>() + size_of::<E>() + 2 * size_of::<i16>();
        let group = group::<T>(file, leaf, number, (left, size))?;
        cells.push(&group, &column, elements)?;
    }
    Ok(cells)
}

/// Reads a group of rows, in which a value takes so much memory.
fn group<T: DataType>(
    file: &SerializedFileReader<Bytes>,
    leaf: usize,
    number: usize,
    (left, size): (&mut Unpacking, usize),
) -> Result<Group<T::T>, Refusal> {
    let column = file.metadata().file_metadata().schema_descr().column(leaf);
    let group = file.get_row_group(number).map_err(damaged)?;
    let stated = usize::try_from(group.metadata().num_rows()).unwrap_or(0);
    let pages = group.get_column_page_reader(leaf).map_err(damaged)?;
    let pages = Box::new(Counted { pages, left: left.clone(), size: size as u64 });
    let (mut values, mut defined, mut repeated) = (Vec::new(), Vec::new(), Vec::new());
    let mut reader = ColumnReaderImpl::<T>::new(column, pages);
    let read = reader.read_records(stated, Some(&mut defined), Some(&mut repeated), &mut values);
    let (rows, n_values, n_levels) = read.map_err(damaged)?;
    if rows != stated {
        return Err(format!("group of rows {number} has {rows} of its {stated} rows").into());
    }
    left.take((n_levels.max(n_values) as u64).saturating_mul(size as u64))?;
    Ok(Group { values, defined, repeated, rows, n_levels })
}

impl<E: Clone> Cells<E> {
    /// Adds a group of rows.
    fn push<T>(
        &mut self,
        group: &Group<T>,
        column: &ColumnDescriptor,
        Elements { missing, convert }: &Elements<E, impl Fn(&T) -> Option<E>>,
    ) -> Result<(), Refusal> {
        let most = column.max_def_level();
        let missing = missing.as_ref().filter(|_| self.width.is_none());
        let mut values = group.values.iter();
        for i in 0..group.n_levels {
            let is_there = most == 0 || group.defined.get(i) == Some(&most);
            let (value, what) = match is_there.then(|| values.next()).flatten() {
                Some(value) => (convert(value), "a number is out of range"),
                None => (missing.cloned(), "a number is missing, or a list is empty"),
            };
            self.values.push(value.ok_or_else(|| self.refusal(group, i, what))?);
        }
        if self.width.is_some() {
            self.measure(&group.repeated)?;
        }
        self.rows += group.rows;
        Ok(())
    }

    /// Checks that the lists of a group have the length of all lists.
    fn measure(&mut self, repeated: &[i16]) -> Result<(), Refusal> {
        let lists = repeated.chunk_by(|_, next| *next != 0).enumerate();
        for (i, list) in lists {
            let (row, n) = (self.rows + i, list.len());
            let width = self.width.filter(|_| row > 0).unwrap_or(n);
            if n != width {
                let what = format!("row {row}: a list of {n} numbers, where others have {width}");
                return Err(Refusal::new(what).hint("lists are rows of a matrix, of one length"));
            }
            self.width = Some(width);
        }
        Ok(())
    }

    /// The error of the value at a level of a group.
    fn refusal<T>(&self, group: &Group<T>, level: usize, what: &str) -> Refusal {
        let row = match self.width {
            None => level,
            Some(_) => group.repeated[..=level].iter().filter(|level| **level == 0).count() - 1,
        };
        Refusal::new(format!("row {}: {what}", self.rows + row))
            .hint("fill what is missing before the file is written, as by pandas' `fillna`")
    }
}

/// Pages, as long as their values fit what is left.
struct Counted {
    pages: Box<dyn PageReader>,
    left: Unpacking,
    size: u64,
}

impl Iterator for Counted {
    type Item = Read<Page>;
    fn next(&mut self) -> Option<Read<Page>> {
        self.get_next_page().transpose()
    }
}

impl PageReader for Counted {
    fn get_next_page(&mut self) -> Read<Option<Page>> {
        let Some(page) = self.pages.get_next_page()? else { return Ok(None) };
        let values = u64::from(page.num_values()).saturating_mul(self.size);
        match self.left.take(values.saturating_add(page.buffer().len() as u64)) {
            Ok(()) => Ok(Some(page)),
            Err(refusal) => Err(ParquetError::External(Box::new(TooLarge(refusal)))),
        }
    }
    fn peek_next_page(&mut self) -> Read<Option<PageMetadata>> {
        self.pages.peek_next_page()
    }
    fn skip_next_page(&mut self) -> Read<()> {
        self.pages.skip_next_page()
    }
    fn at_record_boundary(&mut self) -> Read<bool> {
        self.pages.at_record_boundary()
    }
}

/// A refusal on its way through the crate.
#[derive(Debug, thiserror::Error)]
#[error("{}", .0.message)]
pub(super) struct TooLarge(pub(super) Refusal);
