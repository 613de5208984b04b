//! Reads the `OpenMetrics` text that the registry writes, and writes it as Prometheus text.
//!
//! The registry can only encode itself. What else is made of it, such as the reference page and the metrics that
//! are pushed to a collector, is read from that text, so that every metric is defined once.

use std::borrow::Cow;
use std::fmt::Write as _;

/// All series of a metric.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct MetricFamily {
    /// Name without the suffixes of its series, such as `_total` and `_bucket`.
    pub(crate) name: String,
    pub(crate) help: String,
    /// `counter`, `gauge` or `histogram`.
    pub(crate) kind: String,
    pub(crate) points: Vec<Point>,
}

/// Value of a metric for one set of labels.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Point {
    pub(crate) labels: Vec<(String, String)>,
    pub(crate) value: PointValue,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum PointValue {
    Integer(i64),
    Float(f64),
    Histogram(HistogramValue),
}

/// State of a histogram.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct HistogramValue {
    pub(crate) sum: f64,
    pub(crate) count: u64,
    /// Buckets in ascending order; the last one is infinite.
    pub(crate) buckets: Vec<Bucket>,
}

/// A bucket of a histogram.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Bucket {
    /// Upper bound, inclusive.
    pub(crate) bound: f64,
    /// Number of observations up to the bound.
    pub(crate) cumulative: u64,
    pub(crate) exemplar: Option<ParsedExemplar>,
}

/// An observation with the trace that it belongs to.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ParsedExemplar {
    pub(crate) labels: Vec<(String, String)>,
    pub(crate) value: f64,
    /// Time in seconds since the Unix epoch.
    pub(crate) at: Option<f64>,
}

/// Reads all metrics of an `OpenMetrics` text. Lines that are not understood are skipped.
pub(crate) fn parse(text: &str) -> Vec<MetricFamily> {
    let mut families: Vec<MetricFamily> = Vec::new();
    for line in text.lines() {
        if let Some((name, help)) = line.strip_prefix("# HELP ").and_then(|line| line.split_once(' ')) {
            families.push(MetricFamily {
                name: name.to_owned(),
                help: help.trim_end_matches('.').to_owned(),
                ..MetricFamily::default()
            });
        } else if let Some((_, kind)) = line.strip_prefix("# TYPE ").and_then(|line| line.split_once(' ')) {
            if let Some(family) = families.last_mut() {
                kind.trim().clone_into(&mut family.kind);
            }
        } else if let (Some(family), Some(sample)) = (families.last_mut(), Sample::read(line)) {
            family.add(&sample);
        }
    }
    families
}

/// Writes an `OpenMetrics` text as Prometheus text 0.0.4: without exemplars, and counters are named like their
/// series.
pub(crate) fn to_prometheus_text(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut lines = text.lines().peekable();
    while let Some(line) = lines.next() {
        if let Some((name, help)) = line.strip_prefix("# HELP ").and_then(|line| line.split_once(' ')) {
            let is_counter = lines
                .peek()
                .is_some_and(|next| next.starts_with("# TYPE ") && next.ends_with(" counter"));
            let total = if is_counter { "_total" } else { "" };
            let _ = writeln!(out, "# HELP {name}{total} {help}");
        } else if let Some(name) = line
            .strip_prefix("# TYPE ")
            .and_then(|line| line.strip_suffix(" counter"))
        {
            let _ = writeln!(out, "# TYPE {name}_total counter");
        } else if line.starts_with("# TYPE ") {
            let _ = writeln!(out, "{line}");
        } else if let Some(sample) = Sample::read(line) {
            let _ = writeln!(out, "{} {}", sample.series, sample.value);
        }
    }
    out
}

/// A line with a value.
#[derive(Debug)]
struct Sample<'a> {
    /// Name with the labels, as written.
    series: &'a str,
    name: &'a str,
    /// Text between the braces.
    labels: &'a str,
    value: &'a str,
    exemplar: Option<&'a str>,
}

impl<'a> Sample<'a> {
    fn read(line: &'a str) -> Option<Self> {
        if line.starts_with('#') {
            return None;
        }
        let end = line.find(['{', ' '])?;
        let (name, rest) = line.split_at(end);
        let (labels, rest) = match rest.strip_prefix('{') {
            Some(inside) => {
                let close = end_of_labels(inside)?;
                (&inside[..close], &inside[close + 1..])
            }
            None => ("", rest),
        };
        let series = &line[..line.len() - rest.len()];
        let (value, exemplar) = match rest.split_once(" # ") {
            Some((value, exemplar)) => (value, Some(exemplar)),
            None => (rest, None),
        };
        Some(Self {
            series,
            name,
            labels,
            value: value.trim(),
            exemplar,
        })
    }
}

/// Position of the closing brace; braces in quoted values do not count.
fn end_of_labels(text: &str) -> Option<usize> {
    let (mut is_quoted, mut is_escaped) = (false, false);
    for (at, character) in text.char_indices() {
        match character {
            _ if is_escaped => is_escaped = false,
            '\\' if is_quoted => is_escaped = true,
            '"' => is_quoted = !is_quoted,
            '}' if !is_quoted => return Some(at),
            _ => {}
        }
    }
    None
}

/// Names and values of labels.
fn parse_labels(mut text: &str) -> Vec<(String, String)> {
    let mut labels = Vec::new();
    while let Some((name, rest)) = text.split_once("=\"") {
        let mut end = rest.len();
        let mut is_escaped = false;
        for (at, character) in rest.char_indices() {
            match character {
                _ if is_escaped => is_escaped = false,
                '\\' => is_escaped = true,
                '"' => {
                    end = at;
                    break;
                }
                _ => {}
            }
        }
        labels.push((
            name.trim_start_matches(',').to_owned(),
            unescape(&rest[..end]).into_owned(),
        ));
        text = rest.get(end + 1..).unwrap_or_default();
    }
    labels
}

fn unescape(text: &str) -> Cow<'_, str> {
    if !text.contains('\\') {
        return text.into();
    }
    let mut plain = String::with_capacity(text.len());
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        if character != '\\' {
            plain.push(character);
            continue;
        }
        match characters.next() {
            Some('n') => plain.push('\n'),
            Some(other) => plain.push(other),
            None => {}
        }
    }
    plain.into()
}

fn parse_exemplar(text: &str) -> Option<ParsedExemplar> {
    let inside = text.strip_prefix('{')?;
    let close = end_of_labels(inside)?;
    let mut numbers = inside[close + 1..].split_whitespace();
    Some(ParsedExemplar {
        labels: parse_labels(&inside[..close]),
        value: numbers.next()?.parse().ok()?,
        at: numbers.next().and_then(|at| at.parse().ok()),
    })
}

impl MetricFamily {
    fn add(&mut self, sample: &Sample<'_>) {
        let suffix = sample.name.strip_prefix(self.name.as_str()).unwrap_or_default();
        let mut labels = parse_labels(sample.labels);
        if self.kind != "histogram" {
            let value = match sample.value.parse() {
                Ok(integer) => PointValue::Integer(integer),
                Err(_) => match sample.value.parse() {
                    Ok(float) => PointValue::Float(float),
                    Err(_) => return,
                },
            };
            self.points.push(Point { labels, value });
            return;
        }
        let bound = labels
            .iter()
            .position(|(name, _)| name == "le")
            .map(|at| labels.remove(at).1);
        // The lines of a histogram are next to each other, so that only the last one is looked at.
        if self.points.last().is_none_or(|point| point.labels != labels) {
            self.points.push(Point {
                labels,
                value: PointValue::Histogram(HistogramValue::default()),
            });
        }
        let Some(Point {
            value: PointValue::Histogram(histogram),
            ..
        }) = self.points.last_mut()
        else {
            return;
        };
        match suffix {
            "_sum" => histogram.sum = sample.value.parse().unwrap_or_default(),
            "_count" => histogram.count = sample.value.parse().unwrap_or_default(),
            _ => histogram.buckets.push(Bucket {
                bound: match bound.as_deref() {
                    Some("+Inf") | None => f64::INFINITY,
                    Some(bound) => bound.parse().unwrap_or(f64::INFINITY),
                },
                cumulative: sample.value.parse().unwrap_or_default(),
                exemplar: sample.exemplar.and_then(parse_exemplar),
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "# HELP satiety_http_requests HTTP requests by route.\n\
        # TYPE satiety_http_requests counter\n\
        satiety_http_requests_total{route=\"/a # {x\\\"}\\\\\",status=\"200\"} 3\n\
        # HELP satiety_time_seconds Time.\n\
        # TYPE satiety_time_seconds histogram\n\
        satiety_time_seconds_sum{route=\"a\"} 0.5\n\
        satiety_time_seconds_count{route=\"a\"} 2\n\
        satiety_time_seconds_bucket{le=\"0.1\",route=\"a\"} 1 # {trace_id=\"4bf9\",span_id=\"00f0\"} 0.05 1700000000.25\n\
        satiety_time_seconds_bucket{le=\"+Inf\",route=\"a\"} 2\n\
        # HELP satiety_rate Rate.\n\
        # TYPE satiety_rate gauge\n\
        satiety_rate 0.25\n\
        # EOF\n";

    #[test]
    fn text_is_read_with_labels_buckets_and_exemplars() {
        let families = parse(TEXT);
        assert_eq!(families.len(), 3);
        assert_eq!(families[0].help, "HTTP requests by route");
        assert_eq!(
            families[0].points[0],
            Point {
                labels: vec![
                    ("route".into(), "/a # {x\"}\\".into()),
                    ("status".into(), "200".into())
                ],
                value: PointValue::Integer(3),
            }
        );
        let PointValue::Histogram(histogram) = &families[1].points[0].value else {
            panic!("{families:?}");
        };
        assert_eq!((histogram.sum, histogram.count), (0.5, 2));
        assert_eq!(
            families[1].points[0].labels,
            [("route".to_owned(), "a".to_owned())]
        );
        let exemplar = histogram.buckets[0].exemplar.as_ref().unwrap();
        assert_eq!((exemplar.value, exemplar.at), (0.05, Some(1_700_000_000.25)));
        assert_eq!(exemplar.labels[0], ("trace_id".to_owned(), "4bf9".to_owned()));
        assert!(histogram.buckets[1].bound.is_infinite());
        assert_eq!(families[2].points[0].value, PointValue::Float(0.25));
    }

    #[test]
    fn prometheus_text_has_no_exemplars_and_names_counters_like_their_series() {
        let text = to_prometheus_text(TEXT);
        assert_eq!(
            text,
            "# HELP satiety_http_requests_total HTTP requests by route.\n\
             # TYPE satiety_http_requests_total counter\n\
             satiety_http_requests_total{route=\"/a # {x\\\"}\\\\\",status=\"200\"} 3\n\
             # HELP satiety_time_seconds Time.\n\
             # TYPE satiety_time_seconds histogram\n\
             satiety_time_seconds_sum{route=\"a\"} 0.5\n\
             satiety_time_seconds_count{route=\"a\"} 2\n\
             satiety_time_seconds_bucket{le=\"0.1\",route=\"a\"} 1\n\
             satiety_time_seconds_bucket{le=\"+Inf\",route=\"a\"} 2\n\
             # HELP satiety_rate Rate.\n\
             # TYPE satiety_rate gauge\n\
             satiety_rate 0.25\n"
        );
    }
}
