//! Who is told of a regression. Telling is not gating: an alert that cannot be delivered is a warning.

use satiety::bench::{GateReport, GateVerdict};
use serde_json::{Value, json};

use crate::Engine;
use crate::hooks::Alert;

impl Engine {
    /// Tells about a regression, and about nothing else. What comes back are warnings about hooks that failed.
    pub async fn bench_alert(&self, alert: &Alert, suite_id: &str, report: &GateReport) -> Vec<String> {
        if report.verdict != GateVerdict::Regression {
            return Vec::new();
        }
        match body(suite_id, report) {
            Ok(body) => alert.tell("bench.alert", &body).await,
            Err(problem) => vec![format!("the alert could not be written: {problem}")],
        }
    }
}

/// The gate's report, with what it is about.
fn body(suite_id: &str, report: &GateReport) -> Result<Value, serde_json::Error> {
    let mut value = serde_json::to_value(report)?;
    if let Some(fields) = value.as_object_mut() {
        fields.insert("event".into(), json!("bench_regression"));
        fields.insert("suite_id".into(), json!(suite_id));
    }
    Ok(value)
}
