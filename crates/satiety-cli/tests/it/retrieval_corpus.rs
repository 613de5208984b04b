//! Metadata in addition to judgments: groups, tiers, classes and traces; checking, pooling and storing a corpus; HTML and
//! CSV reports.

use crate::support::{Place, example, json_of};

const CORPUS: &str = r#"{"queryId":"q1","query":"why sqlite","category":"causal-query","judgments":[{"memoryId":"a","relevance":3},{"memoryId":"b","relevance":2}],"judgmentSource":"manual"}
{"queryId":"q2","query":"how to deploy","category":"cold-start","team":"red","judgments":[{"memoryId":"c","relevance":2},{"memoryId":"d","relevance":null}]}
"#;
const RUN: &str = "q1 Q0 b 1 9 t\nq1 Q0 a 2 8 t\nq2 Q0 x 1 9 t\nq2 Q0 c 2 8 t\n";

fn place() -> Place {
    let place = Place::new();
    place.write("corpus.jsonl", CORPUS);
    place.write("run.txt", RUN);
    place.write(
        "documents.csv",
        "id,tier,folder,class\na,constitutional,x,\nb,normal,x,\nc,critical,y,\n",
    );
    place.write("classes.tsv", "id\tclass\na\tsame\nb\tsame\n");
    place
}

const EVAL: [&str; 6] = ["retrieval", "eval", "--qrels", "corpus.jsonl", "--run", "run.txt"];

#[test]
fn metrics_by_group_and_for_first_queries() {
    let place = place();
    let more = ["--by", "category,team", "--metrics", "mrr@10", "--format", "json"];
    let found = json_of(&place, &[&EVAL[..], &more].concat());
    assert_eq!(
        found["by"]["category"]["causal-query"]["metrics"]["mrr@10"]["mean"],
        1.0
    );
    assert_eq!(found["by"]["category"]["cold-start"]["queries"], 1);
    assert_eq!(found["by"]["team"]["red"]["metrics"]["mrr@10"]["mean"], 0.5);
    assert_eq!(found["cold_start"]["ratio"], 0.5);
    let text = place.run(&[&EVAL[..], &["--by", "colour"]].concat());
    assert!(
        text.starts_with("exit 2") && text.contains("none of the 2 known queries has a field `colour`"),
        "{text}"
    );
}

#[test]
fn metrics_that_need_document_metadata() {
    let place = place();
    let metrics = "importance_recall@1,constitutional@2,constitutional_share@1,tier_p(critical)@2,ils@2";
    let more = [
        "--metrics",
        metrics,
        "--corpus",
        "documents.csv",
        "--per-query",
        "--format",
        "json",
    ];
    let found = json_of(&place, &[&EVAL[..], &more].concat());
    let values = &found["per_query"]["q1"];
    // b (weight 1) of a (4) and b.
    assert_eq!(values["importance_recall@1"], 0.2);
    assert_eq!(values["constitutional@2"], 1.0);
    assert_eq!(values["constitutional_share@1"], 0.0);
    assert_eq!(values["ils@2"], 0.5);
    assert_eq!(found["per_query"]["q2"]["tier_p(critical)@2"], 1.0);
    let text = place.run(&[&EVAL[..], &["--metrics", "ils@5"]].concat());
    assert!(
        text.starts_with("exit 2")
            && text.contains("cannot compute `ils@5`: no document has a folder")
            && text.contains("--corpus"),
        "{text}"
    );
    // a and b are equivalent: one thing to find, found first.
    let more = [
        "--metrics",
        "p@2,recall@1",
        "--corpus",
        "classes.tsv",
        "--per-query",
        "--format",
        "json",
    ];
    let found = json_of(&place, &[&EVAL[..], &more].concat());
    assert_eq!(found["per_query"]["q1"]["recall@1"], 1.0);
    assert_eq!(found["per_query"]["q1"]["p@2"], 0.5);
}

#[test]
fn a_trace_has_pipeline_metrics() {
    let place = Place::new();
    let (corpus, trace) = (
        example("retrieval/corpus.jsonl"),
        example("retrieval/trace.jsonl"),
    );
    let run = ["retrieval", "eval", "--qrels", &corpus, "--run", &trace];
    let found = json_of(&place, &[&run[..], &["--format", "json"]].concat());
    let pipeline = &found["pipeline"];
    assert_eq!(pipeline["queries"], 40);
    for path in [
        "/channels/vector/unique/mean",
        "/fusion_reorder_rate/ci/low",
        "/expansion_impact/mean",
    ] {
        assert!(
            pipeline.pointer(path).is_some_and(serde_json::Value::is_number),
            "{path}"
        );
    }
    assert!(
        pipeline["latency_ms"]["total"]["p95"].as_f64() > pipeline["latency_ms"]["total"]["p50"].as_f64()
    );
    assert!(pipeline["dedup_tokens"]["total"].as_u64() > Some(0));
    assert!(found["personalization_lift"]["mean"].is_number());
    let text = place.run(&run);
    for part in ["channels, top 10", "mrr, lift from session context", "latency"] {
        assert!(text.contains(part), "{text}");
    }
}

#[test]
fn html_and_csv_reports() {
    let place = place();
    place.write("other.txt", "q1 Q0 x 1 9 t\nq1 Q0 a 2 8 t\nq2 Q0 c 1 9 t\n");
    let compare = [
        "retrieval",
        "compare",
        "--qrels",
        "corpus.jsonl",
        "--run",
        "run.txt",
        "--run",
        "other.txt",
    ];
    let text = place.run(&[&compare[..], &["--by", "category", "--format", "html"]].concat());
    assert!(
        text.contains("<!doctype html>") && text.contains("why sqlite"),
        "{text}"
    );
    assert_eq!(text.matches("<rect").count(), 2, "{text}");
    assert_eq!(text.matches("<circle").count(), 2, "{text}");
    let text = place.run(&[&compare[..], &["--format", "csv", "--metrics", "mrr"]].concat());
    assert!(
        text.contains(
            "treatment_run,query,metric,control,treatment,difference\nother.txt,q1,mrr,1,0.5,-0.5\n"
        ),
        "{text}"
    );
    let text = place.run(&[&EVAL[..], &["--format", "csv", "--metrics", "mrr"]].concat());
    assert!(
        text.contains("run,query,metric,value\nrun.txt,q1,mrr,1\nrun.txt,q2,mrr,0.5"),
        "{text}"
    );
    let text = place.run(&["doctor", "--format", "csv"]);
    assert!(
        text.starts_with("exit 2") && text.contains("does not support the format CSV"),
        "{text}"
    );
}

#[test]
fn a_corpus_is_checked() {
    let place = place();
    let check = [
        "retrieval",
        "corpus",
        "check",
        "corpus.jsonl",
        "--documents",
        "documents.csv",
    ];
    let found = json_of(&place, &[&check[..], &["--format", "json"]].concat());
    assert_eq!(found["coverage"]["pending"], 1);
    assert_eq!(found["sources"]["manual"], 2);
    assert_eq!(found["sources"]["unstated"], 1);
    assert_eq!(found["power"]["needed"], 128);
    assert_eq!(found["sigma_measured"], false);
    let text = place.run(&[&check[..], &["--strict"]].concat());
    assert!(
        text.starts_with("exit 1") && text.contains("causal-query lacks 24 of 25 queries"),
        "{text}"
    );
    let text = place.run(&[&check[..], &["--run", "run.txt"]].concat());
    assert!(
        text.starts_with("exit 2") && text.contains("pass --run twice"),
        "{text}"
    );
    let text = place.run(&[&check[..], &["--run", "run.txt", "--run", "run.txt"]].concat());
    assert!(
        text.starts_with("exit 2") && text.contains("their differences have no variance"),
        "{text}"
    );
    let text = place.run(&[&check[..], &["--sigma", "0"]].concat());
    assert!(text.starts_with("exit 2"), "{text}");
}

#[test]
fn a_judged_pool_is_read_back() {
    let place = place();
    place.write("other.txt", "q1 Q0 n 1 9 t\nq2 Q0 c 1 9 t\n");
    let pool = [
        "retrieval",
        "pool",
        "--run",
        "run.txt",
        "--run",
        "other.txt",
        "--qrels",
        "corpus.jsonl",
    ];
    let found = json_of(&place, &[&pool[..], &["--format", "json"]].concat());
    assert_eq!((&found["documents"], &found["judged"]), (&2.into(), &3.into()));
    let text = place.run(&[&pool[..], &["--queries", "corpus.jsonl", "--output", "pool.csv"]].concat());
    assert!(
        text.starts_with("exit 0") && text.contains("written to pool.csv"),
        "{text}"
    );
    let sheet = fs_err::read_to_string(place.path("pool.csv")).unwrap();
    assert!(
        sheet.contains("\"q1\",\"why sqlite\",\"n\",\"\",\"\",\n"),
        "{sheet}"
    );
    // Fill in the grades, as a person would.
    place.write("judged.csv", &sheet.replace(",\"\",\"\",\n", ",\"\",\"\",2\n"));
    let eval = [
        "retrieval",
        "eval",
        "--qrels",
        "judged.csv",
        "--run",
        "other.txt",
        "--metrics",
        "mrr",
    ];
    let found = json_of(&place, &[&eval[..], &["--format", "json"]].concat());
    assert_eq!(found["metrics"]["mrr"]["mean"], 0.5);
    let text = place.run(&[&pool[..], &["--output", "pool.txt"]].concat());
    assert!(
        text.starts_with("exit 2") && text.contains("ends in .csv or .jsonl"),
        "{text}"
    );
}

#[test]
fn a_stored_corpus_round_trips() {
    let place = place();
    let found = json_of(
        &place,
        &["retrieval", "import", "corpus.jsonl", "--format", "json"],
    );
    assert_eq!(
        (&found["queries"], &found["judgments"], &found["pending"]),
        (&2.into(), &3.into(), &1.into())
    );
    let text = place.run(&["retrieval", "export", "again.jsonl"]);
    assert!(text.starts_with("exit 0"), "{text}");
    let again = fs_err::read_to_string(place.path("again.jsonl")).unwrap();
    for part in [
        "\"query\":\"why sqlite\"",
        "\"team\":\"red\"",
        "\"source\":\"manual\"",
        "\"relevance\":3",
    ] {
        assert!(again.contains(part), "{again}");
    }
    place.run(&["retrieval", "export", "qrels.txt"]);
    let qrels = fs_err::read_to_string(place.path("qrels.txt")).unwrap();
    assert_eq!(qrels, "q1 0 a 3\nq1 0 b 2\nq2 0 c 2\n");
    let found = json_of(&place, &[&EVAL[..], &["--record", "--format", "json"]].concat());
    assert!(
        found["run_id"].as_str().is_some_and(|id| id.starts_with("eval-")),
        "{found}"
    );
    let status = json_of(&place, &["db", "status", "--format", "json"]);
    let rows = |name: &str| {
        let tables = status["tables"].as_array().unwrap();
        tables.iter().find(|table| table["name"] == name).unwrap()["rows"].as_u64()
    };
    assert_eq!(
        (rows("eval_queries"), rows("eval_judgments"), rows("eval_results")),
        (Some(2), Some(3), Some(1))
    );
    place.write(
        "broken.jsonl",
        "{\"queryId\":\"x\",\"judgments\":[{\"memoryId\":\"a\",\"relevance\":1}]}\n{\"queryId\":",
    );
    let text = place.run(&["retrieval", "import", "broken.jsonl"]);
    assert!(
        text.starts_with("exit 2") && text.contains("broken.jsonl: line 2"),
        "{text}"
    );
    let status = json_of(&place, &["db", "status", "--format", "json"]);
    let queries = status["tables"]
        .as_array()
        .unwrap()
        .iter()
        .find(|table| table["name"] == "eval_queries");
    assert_eq!(queries.unwrap()["rows"], 2);
}
