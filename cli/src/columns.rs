//! Tables that go out as Parquet files: rows in, row groups out, so that memory stays bounded however long they are.

use crate::{failure::Failure, output::spare_profile};
use bf_profile::Replacement;
use parquet::{
    basic::{Compression, LogicalType, Repetition, Type as Physical},
    column::writer::ColumnWriter,
    data_type::ByteArray,
    errors::ParquetError,
    file::{metadata::KeyValue, properties::WriterProperties, writer::SerializedFileWriter},
    schema::types::Type,
};
use std::{
    fmt,
    io::Write as _,
    path::{Path, PathBuf},
    sync::Arc,
};

/// Rows of a group: some tens of MB before they are packed.
const GROUP: usize = 1 << 16;

/// What a column holds; every column may have nulls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// 64 bits with a sign.
    Integer,
    /// Double precision.
    Float,
    /// UTF-8.
    Text,
    /// Yes or no.
    Truth,
}

/// One cell of a row.
#[derive(Clone, Debug, PartialEq)]
pub enum Cell {
    /// Nothing is known.
    Null,
    /// Of [`Kind::Integer`].
    Integer(i64),
    /// Of [`Kind::Float`].
    Float(f64),
    /// Of [`Kind::Text`].
    Text(String),
    /// Of [`Kind::Truth`].
    Truth(bool),
}

impl From<u64> for Cell {
    /// Counts beyond 2^63 do not occur: a run that long would take centuries.
    fn from(count: u64) -> Self {
        i64::try_from(count).map_or(Self::Null, Self::Integer)
    }
}

impl From<u32> for Cell {
    fn from(count: u32) -> Self {
        Self::Integer(count.into())
    }
}

impl From<&str> for Cell {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl<T: Into<Self>> From<Option<T>> for Cell {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Null, Into::into)
    }
}

impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Null => Ok(()),
            Self::Integer(count) => count.fmt(f),
            Self::Float(value) => value.fmt(f),
            Self::Text(text) => f.write_str(text),
            Self::Truth(yes) => yes.fmt(f),
        }
    }
}

/// A column's name and kind.
pub type Column = (String, Kind);

/// A table on its way into a file, which is there only once the table is complete.
pub struct Table {
    path: PathBuf,
    writer: SerializedFileWriter<Replacement>,
    rows: Vec<Vec<Cell>>,
}

/// A table with all its rows, which has yet to get its name.
pub struct Complete {
    path: PathBuf,
    file: Replacement,
}

impl Complete {
    /// Gives the file its name.
    pub fn finish(self) -> Result<(), Failure> {
        self.file.finish().map_err(|error| Failure::file("write", &self.path, error))
    }
}

impl Table {
    /// Begins a file at `path`; `schema` names what its columns mean, and figures are of these tags, or of all references.
    pub fn new(path: &Path, schema: &str, tags: &[String], columns: Vec<Column>) -> Result<Self, Failure> {
        spare_profile(path)?;
        let file = Replacement::new(path).map_err(|error| Failure::file("write", path, error))?;
        let failed = |error: ParquetError| Failure::file("write", path, error);
        let fields = columns.iter().map(field).collect::<Result<_, _>>().map_err(failed)?;
        let schema_of_rows = Type::group_type_builder("bf").with_fields(fields).build().map_err(failed)?;
        let properties = WriterProperties::builder()
            .set_compression(Compression::SNAPPY)
            .set_created_by(concat!("bf ", env!("CARGO_PKG_VERSION")).to_owned())
            .set_key_value_metadata(Some(vec![
                KeyValue::new("schema".to_owned(), schema.to_owned()),
                KeyValue::new("tags".to_owned(), tags.join(", ")),
            ]))
            .build();
        let writer = SerializedFileWriter::new(file, Arc::new(schema_of_rows), Arc::new(properties)).map_err(failed)?;
        Ok(Self { path: path.to_owned(), writer, rows: Vec::new() })
    }

    /// Adds a row with a cell for each column.
    pub fn row(&mut self, cells: Vec<Cell>) -> Result<(), Failure> {
        self.rows.push(cells);
        if self.rows.len() < GROUP { Ok(()) } else { self.group() }
    }

    /// Writes what is left.
    pub fn complete(mut self) -> Result<Complete, Failure> {
        self.group()?;
        let failed = |error: &dyn fmt::Display| Failure::file("write", &self.path, error);
        let mut file = self.writer.into_inner().map_err(|error| failed(&error))?;
        file.flush().map_err(|error| failed(&error))?;
        Ok(Complete { path: self.path, file })
    }

    fn group(&mut self) -> Result<(), Failure> {
        let rows = std::mem::take(&mut self.rows);
        pack(&mut self.writer, &rows).map_err(|error| Failure::file("write", &self.path, error))
    }
}

fn field((name, kind): &Column) -> Result<Arc<Type>, ParquetError> {
    let (physical, logical) = match kind {
        Kind::Integer => (Physical::INT64, None),
        Kind::Float => (Physical::DOUBLE, None),
        Kind::Text => (Physical::BYTE_ARRAY, Some(LogicalType::String)),
        Kind::Truth => (Physical::BOOLEAN, None),
    };
    let builder = Type::primitive_type_builder(name, physical).with_repetition(Repetition::OPTIONAL);
    Ok(Arc::new(builder.with_logical_type(logical).build()?))
}

/// Writes rows as one group, column by column.
fn pack(writer: &mut SerializedFileWriter<Replacement>, rows: &[Vec<Cell>]) -> Result<(), ParquetError> {
    if rows.is_empty() {
        return Ok(());
    }
    let mut group = writer.next_row_group()?;
    let mut at = 0;
    while let Some(mut column) = group.next_column()? {
        let cells = || rows.iter().filter_map(|row| row.get(at));
        let there: Vec<i16> = cells().map(|cell| i16::from(*cell != Cell::Null)).collect();
        match column.untyped() {
            ColumnWriter::Int64ColumnWriter(to) => {
                let values =
                    cells().filter_map(|cell| if let Cell::Integer(value) = cell { Some(*value) } else { None });
                to.write_batch(&values.collect::<Vec<_>>(), Some(&there), None)?;
            }
            ColumnWriter::DoubleColumnWriter(to) => {
                let values = cells().filter_map(|cell| if let Cell::Float(value) = cell { Some(*value) } else { None });
                to.write_batch(&values.collect::<Vec<_>>(), Some(&there), None)?;
            }
            ColumnWriter::BoolColumnWriter(to) => {
                let values = cells().filter_map(|cell| if let Cell::Truth(value) = cell { Some(*value) } else { None });
                to.write_batch(&values.collect::<Vec<_>>(), Some(&there), None)?;
            }
            ColumnWriter::ByteArrayColumnWriter(to) => {
                let text =
                    |cell: &Cell| if let Cell::Text(text) = cell { Some(ByteArray::from(text.as_str())) } else { None };
                to.write_batch(&cells().filter_map(text).collect::<Vec<_>>(), Some(&there), None)?;
            }
            _ => return Err(ParquetError::General("a column of a kind that no table here has".to_owned())),
        }
        column.close()?;
        at += 1;
    }
    group.close()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use parquet::file::reader::{FileReader as _, SerializedFileReader};
    use std::fs::File;

    #[test]
    fn rows_read_back_and_a_table_that_is_given_up_leaves_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("t.parquet");
        let columns = [("n", Kind::Integer), ("x", Kind::Float), ("name", Kind::Text), ("yes", Kind::Truth)]
            .map(|(name, kind)| (name.to_owned(), kind));
        drop(Table::new(&path, "test/1", &[], columns.to_vec()).unwrap());
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
        let tags = ["a", "b"].map(str::to_owned);
        let mut table = Table::new(&path, "test/1", &tags, columns.to_vec()).unwrap();
        table.row(vec![7_u64.into(), Cell::Float(0.5), "a".into(), Cell::Truth(true)]).unwrap();
        table.row(vec![Cell::Null, Cell::Null, Cell::Null, Cell::Null]).unwrap();
        table.complete().unwrap().finish().unwrap();
        let reader = SerializedFileReader::new(File::open(&path).unwrap()).unwrap();
        let rows: Vec<String> = reader.get_row_iter(None).unwrap().map(|row| row.unwrap().to_string()).collect();
        assert_eq!(rows, ["{n: 7, x: 0.5, name: \"a\", yes: true}", "{n: null, x: null, name: null, yes: null}"]);
        let facts = reader.metadata().file_metadata().key_value_metadata().unwrap();
        assert_eq!([0, 1].map(|at: usize| facts[at].value.as_deref()), [Some("test/1"), Some("a, b")]);
    }
}
