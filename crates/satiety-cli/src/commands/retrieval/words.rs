//! Figures and tables as text, the same way everywhere.

use satiety::stats::Interval;

pub(super) fn markdown(header: &[&str], rows: impl IntoIterator<Item = Vec<String>>) -> String {
    let line = |cells: Vec<String>| {
        let cells: Vec<String> = cells.iter().map(|cell| cell.replace('|', "\\|")).collect();
        format!("| {} |", cells.join(" | "))
    };
    let mut lines = vec![
        line(header.iter().map(ToString::to_string).collect()),
        format!("|{}", "---|".repeat(header.len())),
    ];
    lines.extend(rows.into_iter().map(line));
    lines.join("\n")
}

pub(super) fn queries(count: usize) -> String {
    match count {
        1 => "1 query".into(),
        count => format!("{count} queries"),
    }
}

pub(super) fn figure(value: f64) -> String {
    format!("{value:.4}")
}

pub(super) fn signed(value: f64) -> String {
    format!("{value:+.4}")
}

pub(super) fn interval(ci: Interval) -> String {
    format!("{} to {}", figure(ci.low), figure(ci.high))
}

pub(super) fn probability(p: f64) -> String {
    if p < 0.0001 {
        "<0.0001".into()
    } else {
        format!("{p:.4}")
    }
}

/// Rows with commas between; what has a comma, a quotation mark or a line end in it is quoted.
pub(in crate::commands) fn csv(header: &[&str], rows: impl Iterator<Item = Vec<String>>) -> String {
    let cell = |cell: &str| {
        if cell.contains([',', '"', '\n', '\r']) {
            format!("\"{}\"", cell.replace('"', "\"\""))
        } else {
            cell.to_owned()
        }
    };
    let line = |cells: &[String]| cells.iter().map(|text| cell(text)).collect::<Vec<_>>().join(",");
    let header: Vec<String> = header.iter().map(ToString::to_string).collect();
    let lines: Vec<String> = std::iter::once(line(&header))
        .chain(rows.map(|row| line(&row)))
        .collect();
    lines.join("\n")
}
