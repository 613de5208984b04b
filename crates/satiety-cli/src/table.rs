//! Terminal tables: aligned columns without borders, as wide as the terminal.

pub(crate) use satiety_report::terminal::sparkline;
use satiety_report::{Table, Text, terminal};

/// Table with a header; columns whose index is in `numbers` are right-aligned.
pub(crate) fn table(
    header: &[&str],
    numbers: &[usize],
    rows: impl IntoIterator<Item = Vec<String>>,
) -> String {
    let cells = |row: Vec<String>| row.into_iter().map(Text::from).collect();
    terminal::coloured_table(&Table::new(header, numbers, rows.into_iter().map(cells)))
}

/// Human-readable size in decimal units.
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
    fn sizes_are_abbreviated() {
        assert_eq!(
            [bytes(0), bytes(999), bytes(1000), bytes(12_345_678)],
            ["0 B", "999 B", "1.0 kB", "12.3 MB"]
        );
    }
}
