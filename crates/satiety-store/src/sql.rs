//! Engine-independent statements and rows, so that a store method is compiled once and has no driver types.
//! Values are bound and columns are read dynamically by type.

use std::borrow::Cow;
use std::sync::Arc;

use sqlx::sqlite::SqliteRow;
use sqlx::{AssertSqlSafe, Row as _, SqlSafeStr as _, SqlStr};

use crate::StoreError;
use crate::error::{classify, is_transient};

/// Rows per statement: the engines' limits on bound values are 32,766 and 65,535.
pub(crate) const BATCH: usize = 500;
/// Characters of a statement in the log: a statement with many rows repeats itself.
const MAX_SUMMARY: usize = 2000;

/// A bound value. NULLs have a type as well, because PostgreSQL requires it.
#[derive(Debug)]
pub(crate) enum Value<'a> {
    Text(Option<Cow<'a, str>>),
    Integer(Option<i64>),
    Float(Option<f64>),
    Boolean(Option<bool>),
}

impl Value<'_> {
    /// Borrows the value without copying its text.
    pub(crate) fn borrowed(&self) -> Value<'_> {
        match self {
            Self::Text(text) => Value::Text(text.as_deref().map(Cow::Borrowed)),
            Self::Integer(number) => Value::Integer(*number),
            Self::Float(number) => Value::Float(*number),
            Self::Boolean(flag) => Value::Boolean(*flag),
        }
    }
}

/// Makes text storable on both engines: PostgreSQL has no NUL character, and a store must be able to move
/// there.
pub(crate) fn storable(text: Cow<'_, str>) -> Cow<'_, str> {
    if text.contains('\0') {
        text.replace('\0', "\u{FFFD}").into()
    } else {
        text
    }
}

/// Conversions from the types of row fields.
macro_rules! value_from {
    ($($variant:ident: $($type:ty => |$value:ident| $convert:expr),+;)+) => {
        $($(impl<'a> From<$type> for Value<'a> {
            fn from($value: $type) -> Self {
                Self::$variant($convert)
            }
        })+)+
    };
}
value_from! {
    Text: &'a str => |text| Some(storable(text.into())), &'a String => |text| Some(storable(text.into())),
        String => |text| Some(storable(text.into())), Option<&'a str> => |text| text.map(|text| storable(text.into())),
        Option<String> => |text| text.map(|text| storable(text.into())),
        &'a Option<String> => |text| text.as_deref().map(|text| storable(text.into()));
    Integer: i64 => |number| Some(number), Option<i64> => |number| number, u32 => |number| Some(number.into());
    Float: f64 => |number| Some(number), Option<f64> => |number| number;
    Boolean: bool => |flag| Some(flag), Option<bool> => |flag| flag;
}

/// A statement with its bound values.
#[derive(Debug)]
pub(crate) struct Sql<'a> {
    text: Cow<'static, str>,
    values: Vec<Value<'a>>,
    /// Whether the text was built dynamically and its placeholders are `?`. SQLite looks up each `$1` with a
    /// linear search.
    built: bool,
}

/// Creates a statement whose placeholders are `$1`, `$2`, …, with its values.
macro_rules! sql {
    ($text:expr $(; $($value:expr),+)?) => {
        $crate::sql::Sql::new($text, vec![$($($crate::sql::Value::from($value)),+)?])
    };
}
/// Values of one row of [`Sql::push_values`].
macro_rules! values {
    ($($value:expr),+ $(,)?) => {
        vec![$($crate::sql::Value::from($value)),+]
    };
}
/// Reads a struct whose fields are columns of the same names, followed by fields with expressions.
macro_rules! columns {
    ($row:expr => $type:ident { $($field:ident),* $(; $($other:ident $(: $value:expr)?),+)? }) => {
        $type { $($field: $row.get(stringify!($field))?,)* $($($other $(: $value)?),+)? }
    };
}
pub(crate) use {columns, sql, values};

impl<'a> Sql<'a> {
    pub(crate) fn new(text: impl Into<Cow<'static, str>>, values: Vec<Value<'a>>) -> Self {
        Self {
            text: text.into(),
            values,
            built: false,
        }
    }

    /// Starts a statement that is built dynamically.
    pub(crate) fn build(text: &str) -> Self {
        Self {
            text: text.to_owned().into(),
            values: Vec::new(),
            built: true,
        }
    }

    pub(crate) fn push(mut self, text: &str) -> Self {
        self.text.to_mut().push_str(text);
        self
    }

    pub(crate) fn push_bind(mut self, value: impl Into<Value<'a>>) -> Self {
        self.values.push(value.into());
        self.push("?")
    }

    /// Binds a value to a `?` of a text that was appended before.
    pub(crate) fn bind(mut self, value: impl Into<Value<'a>>) -> Self {
        self.values.push(value.into());
        self
    }

    /// Appends `(a, b, c)`.
    pub(crate) fn push_list(mut self, values: impl IntoIterator<Item = Value<'a>>) -> Self {
        let before = self.values.len();
        self.values.extend(values);
        let marks = vec!["?"; self.values.len() - before].join(", ");
        self.push("(").push(&marks).push(")")
    }

    /// Appends `VALUES (a, b), (c, d)`.
    pub(crate) fn push_values(mut self, rows: impl IntoIterator<Item = Vec<Value<'a>>>) -> Self {
        let mut separator = "VALUES ";
        for row in rows {
            self = self.push(separator).push_list(row);
            separator = ", ";
        }
        self
    }

    /// The statement without its values, at most [`MAX_SUMMARY`] characters of it.
    pub(crate) fn summary(&self) -> String {
        let mut words = String::new();
        for word in self.text.split_whitespace() {
            if words.len() > MAX_SUMMARY {
                words.push_str(" …");
                break;
            }
            if !words.is_empty() {
                words.push(' ');
            }
            words.push_str(word);
        }
        words
    }

    fn text(&self, postgres: bool) -> SqlStr {
        match &self.text {
            Cow::Borrowed(text) => (*text).into_sql_str(),
            Cow::Owned(text) if self.built && postgres => AssertSqlSafe(numbered(text)).into_sql_str(),
            // Safe: built from constants of this program; user input is bound.
            Cow::Owned(text) => AssertSqlSafe(text.clone()).into_sql_str(),
        }
    }
}

/// Replaces each `?` with `$1`, `$2`, ….
fn numbered(text: &str) -> String {
    let mut pieces = text.split('?');
    let mut numbered = pieces.next().unwrap_or_default().to_owned();
    for (at, piece) in pieces.enumerate() {
        numbered.push('$');
        numbered.push_str(&(at + 1).to_string());
        numbered.push_str(piece);
    }
    numbered
}

/// Builds the statement for one engine: text and arguments.
macro_rules! engine_query {
    ($function:ident, $database:ty, $arguments:ty, $postgres:literal) => {
        pub(crate) fn $function<'q>(
            sql: &Sql<'_>,
        ) -> Result<sqlx::query::Query<'q, $database, $arguments>, sqlx::Error> {
            use sqlx::Arguments as _;
            let mut arguments = <$arguments>::default();
            for value in &sql.values {
                match value {
                    Value::Text(text) => arguments.add(text.as_deref()),
                    Value::Integer(number) => arguments.add(*number),
                    Value::Float(number) => arguments.add(*number),
                    Value::Boolean(flag) => arguments.add(*flag),
                }
                .map_err(sqlx::Error::Encode)?;
            }
            Ok(sqlx::query_with(sql.text($postgres), arguments))
        }
    };
}
engine_query!(sqlite_query, sqlx::Sqlite, sqlx::sqlite::SqliteArguments, false);
#[cfg(feature = "postgres")]
engine_query!(postgres_query, sqlx::Postgres, sqlx::postgres::PgArguments, true);

/// Error of an attempt, and whether a retry can help.
#[derive(Debug)]
pub(crate) struct Fault {
    pub(crate) error: StoreError,
    pub(crate) transient: bool,
}

impl Fault {
    pub(crate) fn new(place: &str, error: sqlx::Error) -> Self {
        Self {
            transient: is_transient(&error),
            error: classify(place, error),
        }
    }
}

impl From<StoreError> for Fault {
    fn from(error: StoreError) -> Self {
        Self {
            error,
            transient: false,
        }
    }
}

impl From<Fault> for StoreError {
    fn from(fault: Fault) -> Self {
        fault.error
    }
}

#[derive(Debug)]
pub(crate) enum EngineRow {
    Sqlite(SqliteRow),
    #[cfg(feature = "postgres")]
    Postgres(sqlx::postgres::PgRow),
}

/// A row of a result.
#[derive(Debug)]
pub(crate) struct Row {
    pub(crate) row: EngineRow,
    pub(crate) place: Arc<str>,
}

/// Types that a column can be read as.
pub(crate) trait Column: Sized {
    fn read(row: &EngineRow, index: Index<'_>) -> Result<Self, sqlx::Error>;
}

/// A column, by name or by number.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Index<'n> {
    Name(&'n str),
    Number(usize),
}

impl<'n> From<&'n str> for Index<'n> {
    fn from(name: &'n str) -> Self {
        Self::Name(name)
    }
}

impl From<usize> for Index<'_> {
    fn from(number: usize) -> Self {
        Self::Number(number)
    }
}

macro_rules! column {
    ($($type:ty),+) => {
        $(impl Column for $type {
            fn read(row: &EngineRow, index: Index<'_>) -> Result<Self, sqlx::Error> {
                match (row, index) {
                    (EngineRow::Sqlite(row), Index::Name(name)) => row.try_get(name),
                    (EngineRow::Sqlite(row), Index::Number(number)) => row.try_get(number),
                    #[cfg(feature = "postgres")]
                    (EngineRow::Postgres(row), Index::Name(name)) => row.try_get(name),
                    #[cfg(feature = "postgres")]
                    (EngineRow::Postgres(row), Index::Number(number)) => row.try_get(number),
                }
            }
        })+
    };
}
column!(
    String,
    i64,
    f64,
    bool,
    Option<String>,
    Option<i64>,
    Option<f64>,
    Option<bool>
);

impl Row {
    /// Reads a column by name or number.
    pub(crate) fn get<'n, T: Column>(&self, index: impl Into<Index<'n>>) -> Result<T, StoreError> {
        T::read(&self.row, index.into()).map_err(|error| classify(&self.place, error))
    }

    /// Reads a JSON column written by this store; `what` names it in errors.
    pub(crate) fn json(
        &self,
        column: &str,
        what: std::fmt::Arguments<'_>,
    ) -> Result<serde_json::Value, StoreError> {
        self.parse(&self.get::<String>(column)?, what)
    }

    /// Like `json`, for a nullable column.
    pub(crate) fn optional_json(
        &self,
        column: &str,
        what: std::fmt::Arguments<'_>,
    ) -> Result<Option<serde_json::Value>, StoreError> {
        let text: Option<String> = self.get(column)?;
        text.map(|text| self.parse(&text, what)).transpose()
    }

    /// Reads a JSON column with a list of strings.
    pub(crate) fn list(
        &self,
        column: &str,
        what: std::fmt::Arguments<'_>,
    ) -> Result<Vec<String>, StoreError> {
        let value = self.json(column, what)?;
        let values = value.as_array().into_iter().flatten();
        Ok(values
            .filter_map(|value| value.as_str().map(str::to_owned))
            .collect())
    }

    fn parse(&self, text: &str, what: std::fmt::Arguments<'_>) -> Result<serde_json::Value, StoreError> {
        serde_json::from_str(text).map_err(|cause| StoreError::Unreadable {
            place: self.place.to_string(),
            what: what.to_string(),
            detail: cause.to_string(),
        })
    }
}

/// Reads the first column of each row.
pub(crate) fn first_column<T: Column>(rows: &[Row]) -> Result<Vec<T>, StoreError> {
    rows.iter().map(|row| row.get(0)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn placeholders_are_numbered_for_postgres_and_bare_for_sqlite() {
        let sql = Sql::build("INSERT INTO t (a, b) ")
            .push_values([values! { "x", 1_i64 }, values! { "y", 2_i64 }])
            .push(" ON CONFLICT DO NOTHING");
        assert_eq!(
            sql.text(false).as_str(),
            "INSERT INTO t (a, b) VALUES (?, ?), (?, ?) ON CONFLICT DO NOTHING"
        );
        assert_eq!(
            sql.text(true).as_str(),
            "INSERT INTO t (a, b) VALUES ($1, $2), ($3, $4) ON CONFLICT DO NOTHING"
        );
        assert_eq!(sql.values.len(), 4);
    }

    #[test]
    fn nul_characters_are_replaced_when_a_text_is_bound() {
        let sql = sql!("SELECT $1"; "a\0b");
        assert!(matches!(&sql.values[0], Value::Text(Some(text)) if text == "a\u{FFFD}b"));
    }
}
