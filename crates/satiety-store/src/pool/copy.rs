//! Rows in the text format of `COPY`, the fastest way into PostgreSQL.

use crate::sql::Value;

/// Bytes after which a part is sent.
pub(super) const CHUNK: usize = 1 << 20;

/// Appends a row: values separated by tabs, `\N` for NULL.
pub(super) fn push_row(out: &mut String, row: &[Value<'_>]) {
    use std::fmt::Write as _;
    for (at, value) in row.iter().enumerate() {
        if at > 0 {
            out.push('\t');
        }
        // Writing to a string does not fail.
        let _ = match value {
            Value::Text(Some(text)) => {
                push_text(out, text);
                Ok(())
            }
            Value::Integer(Some(number)) => write!(out, "{number}"),
            Value::Float(Some(number)) if number.is_finite() => write!(out, "{number:?}"),
            Value::Float(Some(number)) => out.write_str(if number.is_nan() {
                "NaN"
            } else if *number > 0.0 {
                "Infinity"
            } else {
                "-Infinity"
            }),
            Value::Boolean(Some(flag)) => out.write_str(if *flag { "t" } else { "f" }),
            Value::Text(None) | Value::Integer(None) | Value::Float(None) | Value::Boolean(None) => {
                out.write_str("\\N")
            }
        };
    }
    out.push('\n');
}

fn push_text(out: &mut String, text: &str) {
    for letter in text.chars() {
        match letter {
            '\\' => out.push_str("\\\\"),
            '\t' => out.push_str("\\t"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            other => out.push(other),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sql::values;

    #[test]
    fn rows_are_escaped() {
        let mut out = String::new();
        let row = values! { "a\tb\\N\nc\r", 7_i64, 0.1_f64, f64::INFINITY, true, None::<f64> };
        push_row(&mut out, &row);
        assert_eq!(out, "a\\tb\\\\N\\nc\\r\t7\t0.1\tInfinity\tt\t\\N\n");
    }
}
