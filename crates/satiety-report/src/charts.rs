//! Charts as hand-written SVG: a few kinds, each with a title for screen readers and a tooltip for every
//! mark.
//!
//! Colours come from the page's style sheet, so charts work in light and dark mode.

use std::fmt::Write;

use crate::html::{Html, details, escape, table};

const WIDTH: f64 = 760.0;

/// A labelled value with a tooltip.
#[derive(Debug, Clone, PartialEq)]
pub struct Mark {
    pub label: String,
    pub value: f64,
    /// Tooltip text.
    pub hint: String,
}

/// A labelled value with an interval.
#[derive(Debug, Clone, PartialEq)]
pub struct IntervalMark {
    pub label: String,
    pub value: f64,
    pub interval: Option<(f64, f64)>,
    /// Tooltip text.
    pub hint: String,
}

/// Signed values as bars in the given order, for example the effect of a change by query.
pub(crate) fn changes(title: &str, marks: &[Mark]) -> Html {
    let (left, top, height) = (46.0, 14.0, 200.0);
    let most = marks
        .iter()
        .map(|mark| mark.value.abs())
        .filter(|value| value.is_finite())
        .fold(0.0, f64::max);
    let most = if most > 0.0 { most } else { 1.0 };
    let zero = top + height / 2.0;
    let y = |value: f64| zero - value / most * height / 2.0;
    let step = (WIDTH - left) / marks.len().max(1) as f64;
    let mut inside = String::new();
    for value in [most, 0.0, -most] {
        let class = if value == 0.0 { "zero" } else { "axis" };
        let _ = write!(
            inside,
            "<line class=\"{class}\" x1=\"{left}\" x2=\"{WIDTH}\" y1=\"{y:.1}\" y2=\"{y:.1}\"/>\
             <text x=\"{x}\" y=\"{t:.1}\" text-anchor=\"end\">{value:+.2}</text>",
            y = y(value),
            x = left - 6.0,
            t = y(value) + 4.0
        );
    }
    for (index, mark) in marks.iter().enumerate() {
        let value = if mark.value.is_finite() { mark.value } else { 0.0 };
        let class = match value {
            value if value > 0.0 => "up",
            value if value < 0.0 => "down",
            _ => "same",
        };
        // An unchanged query is drawn as a short stroke on the axis.
        let (from, to) = if value == 0.0 {
            (zero - 1.0, zero + 1.0)
        } else {
            (y(value).min(zero), y(value).max(zero))
        };
        let _ = write!(
            inside,
            "<rect class=\"{class}\" x=\"{x:.2}\" y=\"{from:.1}\" width=\"{w:.2}\" height=\"{h:.1}\"><title>{hint}</title></rect>",
            x = left + index as f64 * step,
            w = (step * 0.85).max(0.2),
            h = (to - from).max(0.5),
            hint = escape(&mark.hint)
        );
    }
    let rows = marks.iter().map(|mark| {
        vec![
            mark.label.clone(),
            cell(mark.value, |value| format!("{value:+.3}")),
            mark.hint.clone(),
        ]
    });
    let values = table(&["", "change", "description"], &[1], rows);
    figure(title, top + height + 10.0, &inside, &values)
}

/// Values with intervals, one per row, around a zero line: groups of a comparison or metrics of a run.
pub(crate) fn intervals(title: &str, rows: &[IntervalMark]) -> Html {
    let (left, right, row_height) = (190.0, 90.0, 24.0);
    let ends = rows.iter().flat_map(|row| {
        let (low, high) = row.interval.unwrap_or((row.value, row.value));
        [low, high, row.value]
    });
    let (mut low, mut high) = ends
        .filter(|value| value.is_finite())
        .fold((0.0_f64, 0.0_f64), |(low, high), value| {
            (low.min(value), high.max(value))
        });
    if high - low <= 0.0 {
        (low, high) = (-1.0, 1.0);
    }
    let x = |value: f64| left + (value.clamp(low, high) - low) / (high - low) * (WIDTH - left - right);
    let height = row_height * rows.len() as f64 + 26.0;
    let mut inside = format!(
        "<line class=\"zero\" x1=\"{z:.1}\" x2=\"{z:.1}\" y1=\"4\" y2=\"{b:.1}\"/><text x=\"{z:.1}\" y=\"{t:.1}\" text-anchor=\"middle\">0</text>",
        z = x(0.0),
        b = height - 20.0,
        t = height - 6.0
    );
    for (index, row) in rows.iter().enumerate() {
        let y = 16.0 + index as f64 * row_height;
        let _ = write!(
            inside,
            "<g><title>{hint}</title><text x=\"{tx}\" y=\"{ty:.1}\" text-anchor=\"end\">{label}</text>",
            hint = escape(&row.hint),
            tx = left - 10.0,
            ty = y + 4.0,
            label = escape(&truncate(&row.label, 26))
        );
        if let Some((low, high)) = row.interval {
            let _ = write!(
                inside,
                "<line class=\"band\" stroke-width=\"2\" x1=\"{:.1}\" x2=\"{:.1}\" y1=\"{y:.1}\" y2=\"{y:.1}\"/>",
                x(low),
                x(high)
            );
        }
        let _ = write!(
            inside,
            "<circle class=\"mark\" cx=\"{:.1}\" cy=\"{y:.1}\" r=\"4\"/><text x=\"{:.1}\" y=\"{:.1}\">{:+.3}</text></g>",
            x(row.value),
            WIDTH - right + 10.0,
            y + 4.0,
            row.value
        );
    }
    let values = rows
        .iter()
        .map(|row| ranged_row(row, |value| format!("{value:+.3}")));
    figure(title, height, &inside, &table(&RANGED, &[1, 2], values))
}

/// Shares between 0 and 1 with their intervals, one per row.
pub(crate) fn shares(title: &str, rows: &[IntervalMark]) -> Html {
    let (left, right, row_height) = (230.0, 70.0, 22.0);
    let height = row_height * rows.len() as f64 + 30.0;
    let x = |value: f64| left + finite(value).clamp(0.0, 1.0) * (WIDTH - left - right);
    let mut inside = String::new();
    for percent in [0.0, 25.0, 50.0, 75.0, 100.0] {
        let _ = write!(
            inside,
            "<line class=\"axis\" x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"4\" y2=\"{b:.1}\"/><text x=\"{x:.1}\" y=\"{t:.1}\" text-anchor=\"middle\">{percent:.0} %</text>",
            x = x(percent / 100.0),
            b = height - 22.0,
            t = height - 6.0
        );
    }
    for (index, row) in rows.iter().enumerate() {
        let place = Place {
            label_end: left - 10.0,
            y: 14.0 + index as f64 * row_height,
            value_start: WIDTH - right + 14.0,
        };
        let interval = row.interval.map(|(low, high)| (x(low), x(high)));
        let value = format!("{:.0} %", 100.0 * finite(row.value));
        mark_row(&mut inside, &place, row, x(row.value), interval, &value);
    }
    let values = rows
        .iter()
        .map(|row| ranged_row(row, |value| format!("{:.1} %", 100.0 * value)));
    figure(title, height, &inside, &table(&RANGED, &[1, 2], values))
}

/// A difference with its non-inferiority margin, in the same unit.
#[derive(Debug, Clone, PartialEq)]
pub struct MarginMark {
    /// Difference with its interval and tooltip. Positive is better.
    pub difference: IntervalMark,
    /// Loss that is still acceptable.
    pub margin: f64,
    /// Formatted difference.
    pub formatted: String,
}

/// Differences in units of their margins, one per row: right of zero is better, and an interval that reaches
/// the left line may be worse than the margin allows. Values beyond four margins are drawn as an arrow at the
/// edge.
pub(crate) fn margins(title: &str, rows: &[MarginMark]) -> Html {
    let (left, right, row_height, most) = (150.0, 130.0, 26.0, 4.0);
    let height = row_height * rows.len() as f64 + 32.0;
    let unit = |row: &MarginMark, value: f64| {
        let size = if row.margin > 0.0 { row.margin } else { 1.0 };
        finite(value / size).clamp(-most, most)
    };
    let ends = rows.iter().flat_map(|row| {
        let (low, high) = row
            .difference
            .interval
            .unwrap_or((row.difference.value, row.difference.value));
        [unit(row, low), unit(row, high)]
    });
    // Padding, so that the lines at the margin and at zero are never at the edge.
    let (low, high) = ends.fold((-1.4_f64, 1.4_f64), |(low, high), end| {
        (low.min(end), high.max(end))
    });
    let x = |value: f64| left + (value - low) / (high - low) * (WIDTH - left - right);
    let mut inside = String::new();
    for (value, class, name) in [(-1.0, "margin", "margin"), (0.0, "zero", "no difference")] {
        let _ = write!(
            inside,
            "<line class=\"{class}\" x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"4\" y2=\"{b:.1}\"/><text x=\"{x:.1}\" y=\"{t:.1}\" text-anchor=\"middle\">{name}</text>",
            x = x(value),
            b = height - 22.0,
            t = height - 6.0
        );
    }
    for (index, row) in rows.iter().enumerate() {
        let place = Place {
            // Left of a possible arrow at the edge.
            label_end: left - 18.0,
            y: 16.0 + index as f64 * row_height,
            value_start: WIDTH - right + 14.0,
        };
        let interval = row
            .difference
            .interval
            .map(|(low, high)| (x(unit(row, low)), x(unit(row, high))));
        let value = unit(row, row.difference.value);
        mark_row(
            &mut inside,
            &place,
            &row.difference,
            x(value),
            interval,
            &row.formatted,
        );
        if value.abs() >= most {
            // The value is outside the drawn range.
            let way = value.signum();
            let _ = write!(
                inside,
                "<polygon class=\"mark\" points=\"{tip:.1},{y:.1} {base:.1},{up:.1} {base:.1},{down:.1}\"/>",
                tip = x(value) + way * 11.0,
                base = x(value) + way * 3.0,
                y = place.y,
                up = place.y - 5.0,
                down = place.y + 5.0
            );
        }
    }
    let values = rows.iter().map(|row| {
        vec![
            row.difference.label.clone(),
            row.formatted.clone(),
            format!("{:.4}", row.margin),
            row.difference.hint.clone(),
        ]
    });
    let values = table(&["", "difference", "margin", "description"], &[1, 2], values);
    figure(title, height, &inside, &values)
}

/// Data of a reliability diagram.
#[derive(Debug, Clone, PartialEq)]
pub struct Calibration {
    pub title: String,
    /// Axis titles: the predicted share and the observed share.
    pub axes: [&'static str; 2],
    pub points: Vec<CalibrationPoint>,
}

/// Items with similar predictions.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CalibrationPoint {
    pub predicted: f64,
    pub observed: f64,
    pub interval: Option<(f64, f64)>,
    pub items: usize,
}

/// Reliability diagram. Perfect predictions lie on the dashed line; larger dots represent more items.
pub(crate) fn calibration(found: &Calibration) -> Html {
    const LEFT: f64 = 46.0;
    const TOP: f64 = 12.0;
    const SIDE: f64 = 320.0;
    let x = |p: f64| LEFT + p.clamp(0.0, 1.0) * SIDE;
    let y = |p: f64| TOP + (1.0 - p.clamp(0.0, 1.0)) * SIDE;
    let mut inside = String::new();
    // Writing to a string cannot fail.
    for tick in [0.0, 0.25, 0.5, 0.75, 1.0] {
        let _ = write!(
            inside,
            "<line class=\"axis\" x1=\"{a:.1}\" x2=\"{a:.1}\" y1=\"{TOP}\" y2=\"{b:.1}\"/>\
             <line class=\"axis\" x1=\"{LEFT}\" x2=\"{r:.1}\" y1=\"{c:.1}\" y2=\"{c:.1}\"/>\
             <text x=\"{a:.1}\" y=\"{t:.1}\" text-anchor=\"middle\">{tick:.2}</text>\
             <text x=\"{l:.1}\" y=\"{d:.1}\" text-anchor=\"end\">{tick:.2}</text>",
            a = x(tick),
            b = y(0.0),
            c = y(tick),
            r = x(1.0),
            t = y(0.0) + 18.0,
            l = LEFT - 6.0,
            d = y(tick) + 4.0
        );
    }
    let _ = write!(
        inside,
        "<line class=\"zero\" x1=\"{:.1}\" y1=\"{:.1}\" x2=\"{:.1}\" y2=\"{:.1}\" stroke-dasharray=\"4 4\"/>",
        x(0.0),
        y(0.0),
        x(1.0),
        y(1.0)
    );
    let total: usize = found.points.iter().map(|point| point.items).sum();
    let [predicted, observed] = found.axes;
    let mut line = Vec::new();
    for point in &found.points {
        let (at, up) = (x(point.predicted), y(point.observed));
        line.push(format!("{at:.1},{up:.1}"));
        if let Some((low, high)) = point.interval {
            let (low, high) = (y(low), y(high));
            let _ = write!(
                inside,
                "<line class=\"band\" stroke-width=\"1.5\" x1=\"{at:.1}\" x2=\"{at:.1}\" y1=\"{low:.1}\" y2=\"{high:.1}\"/>"
            );
        }
        let radius = 3.0 + 7.0 * (point.items as f64 / total.max(1) as f64).sqrt();
        let _ = write!(
            inside,
            "<circle class=\"mark\" cx=\"{at:.1}\" cy=\"{up:.1}\" r=\"{radius:.1}\"><title>{predicted} {:.3}, \
             {observed} {:.3}, {} items</title></circle>",
            point.predicted, point.observed, point.items
        );
    }
    let _ = write!(
        inside,
        "<polyline class=\"line\" points=\"{}\"/>\
         <text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{predicted}</text>\
         <text x=\"{:.1}\" y=\"{:.1}\">{observed}; dashed line: perfect calibration</text>",
        line.join(" "),
        x(0.5),
        y(0.0) + 38.0,
        x(1.0) + 16.0,
        TOP + 12.0
    );
    let rows = found.points.iter().map(|point| {
        vec![
            format!("{:.3}", point.predicted),
            format!("{:.3}", point.observed),
            point.items.to_string(),
        ]
    });
    let values = table(&[predicted, observed, "items"], &[0, 1, 2], rows);
    figure(&found.title, TOP + SIDE + 50.0, &inside, &values)
}

/// CSS classes of the parts of a bar.
const STACKED: [&str; 4] = ["mark", "up", "down", "same"];

/// Stacked bars with up to four kinds of parts.
#[derive(Debug, Clone, PartialEq)]
pub struct Stack {
    pub title: String,
    /// Name of the quantity that each bar stands for.
    pub axis: &'static str,
    pub kinds: [&'static str; 4],
    pub bars: Vec<StackBar>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct StackBar {
    pub label: String,
    /// Index of the kind, size and tooltip of each part.
    pub parts: Vec<(usize, u64, String)>,
}

/// One bar per row, with a legend below.
pub(crate) fn stack(found: &Stack) -> Html {
    const LEFT: f64 = 90.0;
    const PLOT: f64 = 640.0;
    const ROW: f64 = 26.0;
    let size = |bar: &StackBar| bar.parts.iter().map(|(_, size, _)| size).sum::<u64>();
    let most = found.bars.iter().map(size).max().unwrap_or(0).max(1) as f64;
    let class = |kind: usize| STACKED.get(kind).copied().unwrap_or("same");
    let mut inside = String::new();
    for (index, bar) in found.bars.iter().enumerate() {
        let top = 6.0 + index as f64 * ROW;
        let _ = write!(
            inside,
            "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{} {}</text>",
            LEFT - 8.0,
            top + 14.0,
            found.axis,
            escape(&bar.label)
        );
        let mut x = LEFT;
        for (kind, size, hint) in &bar.parts {
            let width = *size as f64 / most * PLOT;
            let _ = write!(
                inside,
                "<rect class=\"{}\" x=\"{x:.1}\" y=\"{top:.1}\" width=\"{:.1}\" height=\"18\"><title>{}</title></rect>",
                class(*kind),
                (width - 1.0).max(0.5),
                escape(hint)
            );
            x += width;
        }
    }
    let bottom = 6.0 + found.bars.len() as f64 * ROW;
    let mut x = LEFT;
    for (kind, name) in found.kinds.iter().enumerate() {
        let _ = write!(
            inside,
            "<rect class=\"{}\" x=\"{x:.1}\" y=\"{:.1}\" width=\"12\" height=\"12\"/><text x=\"{:.1}\" y=\"{:.1}\">{name}</text>",
            class(kind),
            bottom + 8.0,
            x + 18.0,
            bottom + 18.0
        );
        x += 50.0 + 7.0 * name.len() as f64;
    }
    let mut header = vec![found.axis];
    header.extend(found.kinds);
    let rows = found.bars.iter().map(|bar| {
        let mut row = vec![bar.label.clone()];
        row.extend((0..found.kinds.len()).map(|kind| {
            let parts = bar.parts.iter().filter(|(other, _, _)| *other == kind);
            parts.map(|(_, size, _)| size).sum::<u64>().to_string()
        }));
        row
    });
    figure(
        &found.title,
        bottom + 30.0,
        &inside,
        &table(&header, &[0, 1, 2, 3, 4], rows),
    )
}

/// Horizontal positions of a row's texts.
struct Place {
    label_end: f64,
    y: f64,
    value_start: f64,
}

fn mark_row(
    inside: &mut String,
    place: &Place,
    row: &IntervalMark,
    at: f64,
    interval: Option<(f64, f64)>,
    value: &str,
) {
    let y = place.y;
    let _ = write!(
        inside,
        "<g><title>{hint}</title><text x=\"{tx}\" y=\"{ty:.1}\" text-anchor=\"end\">{label}</text>",
        hint = escape(&row.hint),
        tx = place.label_end,
        ty = y + 4.0,
        label = escape(&truncate(&row.label, 32))
    );
    if let Some((low, high)) = interval {
        let _ = write!(
            inside,
            "<line class=\"band\" stroke-width=\"2\" x1=\"{low:.1}\" x2=\"{high:.1}\" y1=\"{y:.1}\" y2=\"{y:.1}\"/>"
        );
    }
    let _ = write!(
        inside,
        "<circle class=\"mark\" cx=\"{at:.1}\" cy=\"{y:.1}\" r=\"4\"/><text x=\"{vx:.1}\" y=\"{vy:.1}\">{value}</text></g>",
        vx = place.value_start,
        vy = y + 4.0,
        value = escape(value)
    );
}

fn finite(value: f64) -> f64 {
    if value.is_finite() { value } else { 0.0 }
}

/// Table header for values with intervals.
const RANGED: [&str; 4] = ["", "value", "interval", "description"];

/// Formats a value for a table; non-finite values become a dash.
fn cell(value: f64, format: impl Fn(f64) -> String) -> String {
    if value.is_finite() {
        format(value)
    } else {
        "–".into()
    }
}

fn ranged_row(row: &IntervalMark, format: impl Fn(f64) -> String) -> Vec<String> {
    let interval = row.interval.map_or_else(
        || "–".into(),
        |(low, high)| format!("{} to {}", cell(low, &format), cell(high, &format)),
    );
    vec![
        row.label.clone(),
        cell(row.value, &format),
        interval,
        row.hint.clone(),
    ]
}

/// Chart with its title above and its values as a table below, for readers who cannot see the drawing.
fn figure(title: &str, height: f64, inside: &str, values: &Html) -> Html {
    let title = escape(title);
    Html(format!(
        "<figure class=\"chart\"><figcaption>{title}</figcaption>\
         <div class=\"drawing\" tabindex=\"0\" role=\"group\" aria-label=\"Chart: {title}\">\
         <svg role=\"img\" aria-label=\"{title}\" viewBox=\"0 0 {WIDTH} {height:.0}\" width=\"{WIDTH}\">{inside}</svg></div>\
         {}</figure>",
        details("As a table", std::slice::from_ref(values))
    ))
}

fn truncate(text: &str, most: usize) -> String {
    if text.chars().count() <= most {
        return text.into();
    }
    let kept: String = text.chars().take(most - 1).collect();
    format!("{kept}…")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mark(value: f64) -> Mark {
        Mark {
            label: "<q>".into(),
            value,
            hint: "<b>&".into(),
        }
    }

    #[test]
    fn every_value_has_a_mark_and_is_escaped() {
        for values in [
            vec![],
            vec![0.0],
            vec![f64::NAN, f64::INFINITY, -1.0],
            vec![-0.5, 0.0, 0.25],
        ] {
            let marks: Vec<Mark> = values.iter().map(|value| mark(*value)).collect();
            let text = changes("what <changed>", &marks).to_string();
            assert_eq!(text.matches("<rect").count(), marks.len());
            assert!(
                !text.contains("NaN") && !text.contains("inf") && !text.contains("<b>"),
                "{text}"
            );
        }
    }

    #[test]
    fn bars_extend_from_zero() {
        let text = changes("t", &[mark(-0.5), mark(0.25)]).to_string();
        // Zero is at 114; the largest change, -0.5, extends 100 down, and 0.25 extends 50 up.
        assert!(text.contains("class=\"down\" x=\"46.00\" y=\"114.0\""), "{text}");
        assert!(
            text.contains("y=\"64.0\" width=\"303.45\" height=\"50.0\""),
            "{text}"
        );
    }

    #[test]
    fn shares_and_margins_stay_inside_for_any_input() {
        let ranged = |value: f64, interval| IntervalMark {
            label: "<a>".into(),
            value,
            interval,
            hint: "h".into(),
        };
        for value in [0.0, 0.5, 1.0, 7.0, -7.0, f64::NAN, f64::INFINITY] {
            let row = ranged(value, Some((value - 100.0, value + 100.0)));
            let shown = shares("t", std::slice::from_ref(&row)).to_string();
            let margined = MarginMark {
                difference: row,
                margin: 0.05,
                formatted: "<x>".into(),
            };
            let against = margins("t", &[margined]).to_string();
            for text in [shown, against] {
                assert!(!text.contains("NaN") && !text.contains("inf\""), "{text}");
                assert!(!text.contains("<a>") && !text.contains("<x>"), "{text}");
                for part in text.split("x1=\"").skip(1) {
                    let x: f64 = part.split('"').next().unwrap().parse().unwrap();
                    assert!((0.0..=WIDTH).contains(&x), "{x}");
                }
            }
        }
    }

    #[test]
    fn differences_are_scaled_by_their_margin() {
        let row = |value: f64, margin: f64| MarginMark {
            difference: IntervalMark {
                label: "m".into(),
                value,
                interval: None,
                hint: "h".into(),
            },
            margin,
            formatted: String::new(),
        };
        let text = margins("t", &[row(-0.05, 0.05), row(-20.0, 20.0)]).to_string();
        let line = text.split("class=\"margin\" x1=\"").nth(1).unwrap();
        let line = line.split('"').next().unwrap();
        assert_eq!(text.matches(&format!("cx=\"{line}\"")).count(), 2, "{text}");
        assert!(!text.contains("<polygon"), "{text}");
        assert!(margins("t", &[row(-9.0, 1.0)]).to_string().contains("<polygon"));
    }

    #[test]
    fn intervals_have_a_row_each() {
        let row = |value, interval| IntervalMark {
            label: "a very long name of a category indeed".into(),
            value,
            interval,
            hint: "h".into(),
        };
        let text = intervals("t", &[row(0.1, Some((-0.1, 0.3))), row(-0.2, None)]).to_string();
        assert_eq!(text.matches("<circle").count(), 2);
        assert_eq!(text.matches("class=\"band\"").count(), 1);
        assert!(text.contains("a very long name of a cat…"), "{text}");
        assert!(!intervals("t", &[]).to_string().contains("NaN"));
    }
}
