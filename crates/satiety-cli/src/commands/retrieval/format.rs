//! Number formatting shared by the retrieval commands.

use satiety::stats::Interval;

pub(super) fn queries(count: usize) -> String {
    match count {
        1 => "1 query".into(),
        count => format!("{count} queries"),
    }
}

pub(super) fn format_metric(value: f64) -> String {
    format!("{value:.4}")
}

pub(super) fn signed(value: f64) -> String {
    format!("{value:+.4}")
}

pub(super) fn interval(ci: Interval) -> String {
    format!("{} to {}", format_metric(ci.low), format_metric(ci.high))
}

pub(super) fn probability(p: f64) -> String {
    if p < 0.0001 {
        "<0.0001".into()
    } else {
        format!("{p:.4}")
    }
}
