//! Renders findings as SARIF 2.1.0, which code-scanning services read.

use std::collections::BTreeSet;
use std::fmt::Write;

use serde_json::{Value, json};

use crate::finding::{Finding, Rule};

const SCHEMA: &str =
    "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json";

/// Renders a log with one run. A run without findings is valid and closes earlier alerts.
pub fn render(findings: &[Finding]) -> String {
    let rules: Vec<Rule> = findings
        .iter()
        .map(|finding| finding.rule)
        .collect::<BTreeSet<Rule>>()
        .into_iter()
        .collect();
    let results: Vec<Value> = findings.iter().map(|finding| result(finding, &rules)).collect();
    let log = json!({
        "$schema": SCHEMA,
        "version": "2.1.0",
        "runs": [{
            "tool": {"driver": {
                "name": "Satiety",
                "version": env!("CARGO_PKG_VERSION"),
                "informationUri": env!("CARGO_PKG_REPOSITORY"),
                "rules": rules.iter().copied().map(descriptor).collect::<Vec<_>>(),
            }},
            "results": results,
        }],
    });
    format!("{log:#}\n")
}

fn descriptor(rule: Rule) -> Value {
    json!({
        "id": rule.id(),
        "shortDescription": {"text": rule.summary()},
        "fullDescription": {"text": rule.summary()},
        "help": {"text": rule.advice()},
    })
}

fn result(finding: &Finding, rules: &[Rule]) -> Value {
    json!({
        "ruleId": finding.rule.id(),
        "ruleIndex": rules.iter().position(|rule| *rule == finding.rule),
        "level": finding.level.name(),
        "message": {"text": finding.text()},
        "locations": [{"physicalLocation": {
            "artifactLocation": {"uri": uri(&finding.file), "uriBaseId": "%SRCROOT%"},
            "region": {"startLine": finding.line.max(1)},
        }}],
        // Alerts follow the changed item, not its line.
        "partialFingerprints": {"place/v1": format!("{}:{}", finding.rule.id(), finding.place)},
    })
}

/// Relative URI of a path.
fn uri(path: &str) -> String {
    let mut uri = String::with_capacity(path.len());
    for byte in path.replace('\\', "/").bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~/".contains(&byte) {
            uri.push(char::from(byte));
        } else {
            // Writing to a string cannot fail.
            let _ = write!(uri, "%{byte:02X}");
        }
    }
    uri
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::Level;

    fn finding(rule: Rule, file: &str) -> Finding {
        Finding {
            rule,
            level: Level::Error,
            place: "thresholds.s/pass_rate".into(),
            message: "lowered from 0.8 to 0.7".into(),
            file: file.into(),
            line: 7,
        }
    }

    #[test]
    fn results_refer_to_their_rules_and_lines() {
        let findings = [
            finding(Rule::WeakerThreshold, "suites/harness.toml"),
            finding(Rule::WeakerCase, "odd #name%20 ü.yaml"),
        ];
        let log: Value = serde_json::from_str(&render(&findings)).unwrap();
        let run = &log["runs"][0];
        for (result, finding) in run["results"].as_array().unwrap().iter().zip(&findings) {
            let index = usize::try_from(result["ruleIndex"].as_u64().unwrap()).unwrap();
            assert_eq!(run["tool"]["driver"]["rules"][index]["id"], finding.rule.id());
            let location = &result["locations"][0]["physicalLocation"];
            assert_eq!(location["region"]["startLine"], 7);
            let text = result["message"]["text"].as_str().unwrap();
            assert!(text.contains("lowered from 0.8 to 0.7. Restore it"), "{text}");
        }
        assert_eq!(
            run["results"][1]["locations"][0]["physicalLocation"]["artifactLocation"]["uri"],
            "odd%20%23name%2520%20%C3%BC.yaml"
        );
        let empty: Value = serde_json::from_str(&render(&[])).unwrap();
        assert_eq!(empty["runs"][0]["results"], json!([]));
    }
}
