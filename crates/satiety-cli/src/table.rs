//! Tables for people: aligned columns, no lines, as wide as the terminal.

use comfy_table::{CellAlignment, ContentArrangement, Table, presets};

/// A table with a header; columns named in `numbers` are aligned to the right.
pub(crate) fn table(
    header: &[&str],
    numbers: &[usize],
    rows: impl IntoIterator<Item = Vec<String>>,
) -> String {
    let mut table = Table::new();
    table
        .load_style(presets::NOTHING)
        .set_content_arrangement(ContentArrangement::Dynamic)
        .set_header(header);
    for row in rows {
        table.add_row(row);
    }
    for index in numbers {
        if let Some(column) = table.column_mut(*index) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    for column in table.column_iter_mut() {
        column.set_padding((0, 2));
    }
    table
        .lines()
        .map(|line| line.trim_end().to_owned())
        .collect::<Vec<_>>()
        .join("\n")
}

/// A curve of values from 0 to 1 in one line of blocks.
pub(crate) fn sparkline(values: &[f64]) -> String {
    const BLOCKS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    values
        .iter()
        .map(|value| {
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "clamped to 0..=7 before"
            )]
            let index = (value * 7.0).round().clamp(0.0, 7.0) as usize;
            BLOCKS[index]
        })
        .collect()
}

/// Bytes as a person says them.
pub(crate) fn bytes(bytes: u64) -> String {
    const UNITS: [&str; 5] = ["B", "kB", "MB", "GB", "TB"];
    let mut value = bytes as f64;
    let mut unit = 0;
    while value >= 1000.0 && unit + 1 < UNITS.len() {
        value /= 1000.0;
        unit += 1;
    }
    if unit == 0 {
        format!("{bytes} B")
    } else {
        format!("{value:.1} {}", UNITS[unit])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_short() {
        assert_eq!(
            [bytes(0), bytes(999), bytes(1000), bytes(12_345_678)],
            ["0 B", "999 B", "1.0 kB", "12.3 MB"]
        );
    }

    #[test]
    fn a_curve_stays_in_its_line() {
        assert_eq!(sparkline(&[0.0, 0.5, 1.0, 7.0, -1.0, f64::NAN]), "▁▅██▁▁");
    }

    #[test]
    fn numbers_line_up() {
        let text = table(
            &["what", "rows"],
            &[1],
            [vec!["a".into(), "7".into()], vec!["bb".into(), "123".into()]],
        );
        assert_eq!(text, "what  rows\na        7\nbb     123");
    }
}
