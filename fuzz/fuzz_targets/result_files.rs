//! Parses arbitrary text as results of other tools. Whatever is accepted has results, each with its own case, variant and
//! repeat, and can be compared with itself without a regression.
#![no_main]

use std::collections::BTreeSet;

use libfuzzer_sys::fuzz_target;
use satiety::bench::{
    GatePolicy, GateVerdict, HelmFiles, Named, ResultOrigin, ResultTable, RunImport, ScoreChoice, SuiteError, compare,
    read_deepeval, read_helm, read_junit, read_pytest_log, read_pytest_report, read_result_table,
};

fuzz_target!(|text: &str| {
    let file = Named { file: "file.json", text };
    let choice = ScoreChoice::default();
    let table = |table: Result<ResultTable, SuiteError>| {
        read_result_table("file.csv", &table?, origin(), &[], &choice).map(|table| table.import)
    };
    let stats = HelmFiles { stats: file, scenario_state: None, run_spec: None };
    for (tool, read) in [
        ("junit", read_junit(file, origin())),
        ("pytest report", read_pytest_report(file, origin())),
        ("pytest log", read_pytest_log(file, origin())),
        ("deepeval", read_deepeval(file, origin(), &choice)),
        ("helm", read_helm(stats, origin(), &choice)),
        ("csv", table(ResultTable::from_csv("file.csv", text, b','))),
        ("jsonl", table(ResultTable::from_json_lines("file.jsonl", text))),
    ] {
        if let Ok(read) = read {
            check(tool, &read);
        }
    }
});

fn check(tool: &str, read: &RunImport) {
    let results = &read.run.results;
    assert!(!results.is_empty(), "{tool}");
    let keys: BTreeSet<_> = results.iter().map(|result| (&result.case_id, &result.variant, result.repeat)).collect();
    assert_eq!(keys.len(), results.len(), "{tool}");
    let report = compare(&read.run, &read.run, &GatePolicy::default()).unwrap();
    assert_ne!(report.verdict, GateVerdict::Regression, "{tool}");
}

fn origin() -> ResultOrigin {
    ResultOrigin {
        suite_id: "suite".to_owned(),
        target: "target".to_owned(),
        recorded_at: "2026-08-01T10:00:00Z".parse().unwrap(),
    }
}
