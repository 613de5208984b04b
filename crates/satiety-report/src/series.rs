//! Line charts of values over time: rounds, cycles or runs. The table below the drawing holds the numbers;
//! the page's script reads it for tooltips, so the values exist once.

use std::fmt::Write;

use crate::html::{Html, details, escape, table};

const WIDTH: f64 = 760.0;
const HEIGHT: f64 = 210.0;
const LEFT: f64 = 54.0;
const TOP: f64 = 16.0;
/// Padding on all sides, so that dots at the ends of the axes are not clipped.
const PADDING: f64 = 6.0;
/// Maximum number of labels below the axis.
const NAMES: usize = 8;
/// Maximum number of characters below the axis, including gaps between labels.
const LETTERS: usize = 66;
/// Number of line colours in the style sheet.
const COLOURS: usize = 4;

/// One line of a chart.
#[derive(Debug, Clone, PartialEq)]
pub struct Series {
    pub name: String,
    /// One value per axis position; `None` breaks the line.
    pub values: Vec<Option<f64>>,
    /// Interval around each value; may be empty.
    pub intervals: Vec<Option<(f64, f64)>>,
}

impl Series {
    pub fn new(name: impl Into<String>, values: Vec<Option<f64>>) -> Self {
        Self {
            name: name.into(),
            values,
            intervals: Vec::new(),
        }
    }

    /// Formats a value for the table.
    fn format_value(&self, place: usize) -> String {
        let value = self.values.get(place).copied().flatten();
        let interval = self.intervals.get(place).copied().flatten();
        match (value, interval) {
            (None, _) => "–".into(),
            (Some(value), None) => format!("{value:.3}"),
            (Some(value), Some((low, high))) => format!("{value:.3} ({low:.3} to {high:.3})"),
        }
    }
}

/// Horizontal line at a value of interest.
#[derive(Debug, Clone, PartialEq)]
pub struct Threshold {
    pub name: String,
    pub value: f64,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Lines {
    pub title: String,
    /// Name of the quantity on the axis.
    pub axis: &'static str,
    /// Labels of the axis positions.
    pub places: Vec<String>,
    pub series: Vec<Series>,
    pub thresholds: Vec<Threshold>,
    /// Ends of the scale; derived from the values when absent.
    pub range: Option<(f64, f64)>,
}

impl Lines {
    /// Chart on a scale from 0 to 1.
    pub fn shares(
        title: impl Into<String>,
        axis: &'static str,
        places: Vec<String>,
        series: Vec<Series>,
    ) -> Self {
        Self {
            title: title.into(),
            axis,
            places,
            series,
            thresholds: Vec::new(),
            range: Some((0.0, 1.0)),
        }
    }

    pub(crate) fn scale(&self) -> (f64, f64) {
        self.range.unwrap_or_else(|| ends(self))
    }
}

/// Draws the lines with a legend and their values as a table.
pub(crate) fn lines(chart: &Lines) -> Html {
    if chart.places.is_empty() {
        return Html(format!(
            "<p class=\"empty\">{}: no data yet.</p>",
            escape(&chart.title)
        ));
    }
    let (low, high) = chart.scale();
    let last = chart.places.len().saturating_sub(1).max(1) as f64;
    let plot = WIDTH - LEFT - 12.0;
    let x = |place: usize| place as f64 / last * plot;
    let y = |value: f64| (1.0 - (value.clamp(low, high) - low) / (high - low)) * HEIGHT;
    let seen = plot + 2.0 * PADDING;
    let mut inside = String::new();
    scale(&mut inside, chart, (low, high), &y);
    // The plot is a nested SVG, so that zooming stretches it alone.
    let _ = write!(
        inside,
        "<svg class=\"plot\" x=\"{LEFT}\" y=\"{:.1}\" width=\"{plot:.1}\" height=\"{tall:.1}\" \
         viewBox=\"-{PADDING} -{PADDING} {seen:.1} {tall:.1}\" preserveAspectRatio=\"none\">",
        TOP - PADDING,
        tall = HEIGHT + 2.0 * PADDING
    );
    for (index, series) in chart.series.iter().enumerate() {
        let class = index % COLOURS;
        for part in unbroken(&series.values) {
            let points: Vec<String> = part
                .iter()
                .map(|(place, value)| format!("{:.1},{:.1}", x(*place), y(*value)))
                .collect();
            let _ = write!(
                inside,
                "<polyline class=\"series s{class}\" points=\"{}\"/>",
                points.join(" ")
            );
        }
        for (place, interval) in series.intervals.iter().enumerate() {
            if let Some((low, high)) = interval.filter(|(low, high)| low.is_finite() && high.is_finite()) {
                let _ = write!(
                    inside,
                    "<path class=\"whisker s{class}\" d=\"M{at:.1} {:.1}V{:.1}\"/>",
                    y(low),
                    y(high),
                    at = x(place)
                );
            }
        }
        for (place, value) in present(&series.values) {
            // A zero-length stroke with round caps is a dot that stays round when the plot is stretched.
            let _ = write!(
                inside,
                "<path class=\"dot s{class}\" d=\"M{:.1} {:.1}h0\"><title>{}</title></path>",
                x(place),
                y(value),
                escape(&format!(
                    "{} {}, {}: {value:.3}",
                    chart.axis,
                    chart.places.get(place).map_or("", String::as_str),
                    series.name
                ))
            );
        }
    }
    inside.push_str("</svg>");
    names(&mut inside, chart, plot / last * plot / seen);
    let title = escape(&chart.title);
    let height = TOP + HEIGHT + 26.0;
    Html(format!(
        "<figure class=\"chart\" data-chart=\"lines\" data-axis=\"{axis}\"><figcaption>{title}{legend}</figcaption>\
         <div class=\"drawing\" tabindex=\"0\" role=\"group\" aria-label=\"Chart: {title}\">\
         <svg role=\"img\" aria-label=\"{title}\" viewBox=\"0 0 {WIDTH} {height:.0}\" width=\"{WIDTH}\">{inside}</svg></div>\
         {table}</figure>",
        axis = escape(chart.axis),
        legend = legend(chart),
        table = details("As a table", &[values(chart)])
    ))
}

/// Grid lines at both ends, in the middle and at thresholds.
fn scale(inside: &mut String, chart: &Lines, (low, high): (f64, f64), y: &dyn Fn(f64) -> f64) {
    let decimals = if high - low >= 20.0 { 0 } else { 2 };
    for value in [low, f64::midpoint(low, high), high] {
        let _ = write!(
            inside,
            "<line class=\"axis\" x1=\"{LEFT}\" x2=\"{WIDTH}\" y1=\"{at:.1}\" y2=\"{at:.1}\"/>\
             <text x=\"{tx}\" y=\"{ty:.1}\" text-anchor=\"end\">{value:.decimals$}</text>",
            at = TOP + y(value),
            tx = LEFT - 6.0,
            ty = TOP + y(value) + 4.0
        );
    }
    for threshold in chart.thresholds.iter().filter(|one| one.value.is_finite()) {
        let _ = write!(
            inside,
            "<line class=\"margin\" x1=\"{LEFT}\" x2=\"{WIDTH}\" y1=\"{at:.1}\" y2=\"{at:.1}\"/>\
             <text class=\"onmargin\" x=\"{tx}\" y=\"{ty:.1}\" text-anchor=\"end\">{}</text>",
            escape(&format!("{} {}", threshold.name, short(threshold.value))),
            at = TOP + y(threshold.value),
            tx = WIDTH - 4.0,
            ty = TOP + y(threshold.value) - 4.0
        );
    }
}

fn names(inside: &mut String, chart: &Lines, step: f64) {
    let longest = chart
        .places
        .iter()
        .map(|name| name.chars().count())
        .max()
        .unwrap_or(1);
    // Longer labels need more space.
    let fit = (LETTERS / longest.clamp(1, 12)).clamp(2, NAMES);
    let last = chart.places.len().saturating_sub(1);
    let every = chart.places.len().div_ceil(fit).max(1);
    let mut before = "";
    for (place, name) in chart.places.iter().enumerate().step_by(every) {
        // Runs within a minute have the same label.
        if place > 0 && name == before {
            continue;
        }
        before = name;
        // Labels at the ends stay inside; on a narrow screen only those are shown.
        let (anchor, class) = match place {
            0 => ("start", "place"),
            place if place == last => ("end", "place"),
            place if place + every > last => ("middle", "place"),
            _ => ("middle", "place between"),
        };
        let _ = write!(
            inside,
            "<text class=\"{class}\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"{anchor}\">{}</text>",
            (LEFT + PADDING + place as f64 * step).min(WIDTH - 2.0),
            TOP + HEIGHT + 20.0,
            escape(&truncate(name))
        );
    }
}

fn legend(chart: &Lines) -> String {
    let mut text = String::new();
    for (index, series) in chart.series.iter().enumerate() {
        let _ = write!(
            text,
            " <span class=\"key s{}\">{}</span>",
            index % COLOURS,
            escape(&series.name)
        );
    }
    text
}

fn values(chart: &Lines) -> Html {
    let mut header = vec![chart.axis];
    header.extend(chart.series.iter().map(|series| series.name.as_str()));
    let numbers: Vec<usize> = (1..header.len()).collect();
    table(
        &header,
        &numbers,
        chart.places.iter().enumerate().map(|(place, name)| {
            let mut row = vec![name.clone()];
            row.extend(chart.series.iter().map(|series| series.format_value(place)));
            row
        }),
    )
}

/// Values that can be drawn, with their positions.
fn present(values: &[Option<f64>]) -> impl Iterator<Item = (usize, f64)> {
    let places = values.iter().enumerate();
    places.filter_map(|(place, value)| Some((place, (*value).filter(|value| value.is_finite())?)))
}

/// Runs of adjacent values: a line is interrupted at missing values.
fn unbroken(values: &[Option<f64>]) -> Vec<Vec<(usize, f64)>> {
    let mut parts: Vec<Vec<(usize, f64)>> = Vec::new();
    for (place, value) in present(values) {
        match parts.last_mut() {
            Some(part) if part.last().is_some_and(|(before, _)| before + 1 == place) => {
                part.push((place, value));
            }
            _ => parts.push(vec![(place, value)]),
        }
    }
    parts
}

fn ends(chart: &Lines) -> (f64, f64) {
    let values = chart.series.iter().flat_map(|series| present(&series.values));
    let thresholds = chart.thresholds.iter().map(|one| one.value);
    let all = values
        .map(|(_, value)| value)
        .chain(thresholds.filter(|value| value.is_finite()));
    let (low, high) = all.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| {
        (low.min(value), high.max(value))
    });
    if low > high {
        return (0.0, 1.0);
    }
    let padding = ((high - low) * 0.05).max(1e-6);
    (low - padding, high + padding)
}

fn short(value: f64) -> String {
    if value.abs() >= 100.0 {
        format!("{value:.0}")
    } else {
        format!("{value:.2}")
    }
}

fn truncate(name: &str) -> String {
    if name.chars().count() <= 12 {
        return name.into();
    }
    let kept: String = name.chars().take(11).collect();
    format!("{kept}…")
}

/// Course of a share, from 0 to 1, as a small drawing without axes, for cards, with the interval of each value where it is
/// known. The values follow as text for readers that do not see it.
pub fn sparkline(label: &str, values: &[Option<f64>], intervals: &[Option<(f64, f64)>]) -> Html {
    const WIDTH: f64 = 160.0;
    const HEIGHT: f64 = 36.0;
    const EDGE: f64 = 4.0;
    let last = values.len().saturating_sub(1).max(1) as f64;
    let x_of = |index: usize| EDGE + (WIDTH - 2.0 * EDGE) * index as f64 / last;
    let y_of = |value: f64| HEIGHT - EDGE - (HEIGHT - 2.0 * EDGE) * value.clamp(0.0, 1.0);
    let place = |(index, value): (usize, &Option<f64>)| {
        let value = value.filter(|value| value.is_finite())?;
        Some((x_of(index), y_of(value)))
    };
    let whiskers: String = intervals
        .iter()
        .enumerate()
        .filter_map(|(index, interval)| {
            let (low, high) = interval.filter(|(low, high)| low.is_finite() && high.is_finite())?;
            let x = x_of(index);
            Some(format!(
                "<line class=\"range\" x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{:.1}\" y2=\"{:.1}\"/>",
                y_of(low),
                y_of(high)
            ))
        })
        .collect();
    let points: Vec<(f64, f64)> = values.iter().enumerate().filter_map(place).collect();
    let path: Vec<String> = points.iter().map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
    let end = points.last().map_or_else(String::new, |(x, y)| {
        format!("<circle class=\"mark\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3\"/>")
    });
    let said: Vec<String> = values
        .iter()
        .enumerate()
        .filter_map(|(index, value)| {
            let value = format!("{:.1} %", 100.0 * (*value)?);
            Some(match intervals.get(index).copied().flatten() {
                Some((low, high)) => format!("{value} ({:.1} to {:.1})", 100.0 * low, 100.0 * high),
                None => value,
            })
        })
        .collect();
    Html(format!(
        "<svg class=\"spark\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" aria-hidden=\"true\">\
         <line class=\"axis\" x1=\"0\" x2=\"{WIDTH}\" y1=\"{EDGE}\" y2=\"{EDGE}\"/>\
         <line class=\"axis\" x1=\"0\" x2=\"{WIDTH}\" y1=\"{bottom}\" y2=\"{bottom}\"/>\
         {whiskers}<polyline class=\"line\" points=\"{}\"/>{end}</svg><p class=\"hidden\">{}: {}</p>",
        path.join(" "),
        escape(label),
        said.join(", "),
        bottom = HEIGHT - EDGE,
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drawn(values: Vec<Option<f64>>, thresholds: Vec<Threshold>) -> String {
        let places: Vec<String> = (1..=values.len()).map(|place| place.to_string()).collect();
        let series = vec![Series::new("<novelty>", values)];
        lines(&Lines {
            title: "what <is> new".into(),
            axis: "round",
            places,
            series,
            thresholds,
            range: None,
        })
        .to_string()
    }

    #[test]
    fn missing_values_break_the_line() {
        let text = drawn(vec![Some(0.5), Some(0.4), None, Some(0.1)], vec![]);
        assert_eq!(text.matches("<path class=\"dot").count(), 3);
        assert_eq!(text.matches("<polyline").count(), 2);
        assert!(text.contains("<td>3</td><td class=\"number\">–</td>"), "{text}");
        assert!(!text.contains("<novelty>") && !text.contains("<is>"), "{text}");
    }

    #[test]
    fn non_finite_values_are_not_drawn() {
        let strange = vec![Some(f64::NAN), Some(f64::INFINITY), Some(1.0)];
        let threshold = Threshold {
            name: "never".into(),
            value: f64::INFINITY,
        };
        let text = drawn(strange, vec![threshold]);
        let drawing = text.split("<details").next().unwrap();
        assert!(!drawing.contains("NaN") && !drawing.contains("inf"), "{drawing}");
        assert_eq!(drawing.matches("<path class=\"dot").count(), 1);
        assert!(drawn(vec![], vec![]).contains("no data yet"));
    }

    #[test]
    fn a_threshold_is_inside_the_scale() {
        let threshold = Threshold {
            name: "low".into(),
            value: 0.9,
        };
        let text = drawn(vec![Some(0.1), Some(0.2)], vec![threshold]);
        let line = text.split("class=\"margin\"").nth(1).unwrap();
        let at: f64 = line
            .split("y1=\"")
            .nth(1)
            .unwrap()
            .split('"')
            .next()
            .unwrap()
            .parse()
            .unwrap();
        // 5 % padding above the highest value, which is the threshold.
        let from_top = TOP + 0.05 / 1.1 * HEIGHT;
        assert!((at - from_top).abs() < 0.1, "{at} {from_top}");
    }
}
