//! Figures as text, the same way everywhere.

use satiety::stats::Interval;

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
