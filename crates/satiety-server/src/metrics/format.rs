//! Text formats of the metrics: Prometheus text for every client, `OpenMetrics` with exemplars for scrapers that
//! accept it.

use axum::http::{HeaderMap, header};

use super::{Metrics, exposition};

/// Text format of a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TextFormat {
    OpenMetrics,
    Prometheus,
}

impl TextFormat {
    /// Chooses the format by the `Accept` header of a scraper.
    pub(crate) fn accepted(headers: &HeaderMap) -> Self {
        let accepts = headers
            .get_all(header::ACCEPT)
            .iter()
            .filter_map(|value| value.to_str().ok())
            .flat_map(|value| value.split(','))
            .any(|range| {
                let mut parts = range.split(';').map(str::trim);
                let is_named = parts
                    .next()
                    .is_some_and(|kind| kind.eq_ignore_ascii_case("application/openmetrics-text"));
                let is_refused = parts
                    .filter_map(|part| part.strip_prefix("q="))
                    .any(|weight| weight.parse::<f64>().is_ok_and(|weight| weight <= 0.0));
                is_named && !is_refused
            });
        if accepts {
            Self::OpenMetrics
        } else {
            Self::Prometheus
        }
    }

    pub(crate) fn content_type(self) -> &'static str {
        match self {
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
            Self::Prometheus => "text/plain; version=0.0.4; charset=utf-8",
        }
    }

    pub(crate) fn write(self, metrics: &Metrics) -> String {
        match self {
            Self::OpenMetrics => metrics.text(),
            Self::Prometheus => exposition::to_prometheus_text(&metrics.text()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn openmetrics_is_written_only_for_scrapers_that_ask_for_it() {
        for (accept, format) in [
            (None, TextFormat::Prometheus),
            (Some("*/*"), TextFormat::Prometheus),
            (Some("text/plain;version=0.0.4"), TextFormat::Prometheus),
            (
                Some("application/openmetrics-text;q=0, */*"),
                TextFormat::Prometheus,
            ),
            (
                Some(
                    "application/openmetrics-text;version=1.0.0;q=0.5,text/plain;version=0.0.4;q=0.4,*/*;q=0.1",
                ),
                TextFormat::OpenMetrics,
            ),
        ] {
            let mut headers = HeaderMap::new();
            if let Some(accept) = accept {
                headers.insert(header::ACCEPT, accept.parse().unwrap());
            }
            assert_eq!(TextFormat::accepted(&headers), format, "{accept:?}");
        }
    }
}
