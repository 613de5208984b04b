//! `satiety retrieval`, on the bundled example and on invalid files.

use std::io::Write;

use serde_json::Value;

use crate::support::{Place, example, json_of};

const QRELS: &str = "q1 0 a 3\nq1 0 b 0\nq1 0 c 2\nq2 0 a 1\nq3 0 z 2\n";
const RUN: &str = "q1 Q0 b 1 9 t\nq1 Q0 a 2 8 t\nq1 Q0 x 3 7 t\nq2 Q0 a 1 9 t\nq9 Q0 a 1 9 t\n";

/// `q1`: first relevant at rank 2, one of two found; `q2` has no document of grade 2; `q3` is not answered.
#[test]
fn eval_reports_means_counts_and_values() {
    let place = Place::new();
    place.write("qrels.txt", QRELS);
    place.write("run.txt", RUN);
    let base = ["retrieval", "eval", "--qrels", "qrels.txt", "--run", "run.txt"];
    let all = |more: &[&str]| json_of(&place, &[&base[..], more, &["--format", "json"]].concat());

    let found = all(&[
        "--metrics",
        "mrr@10,recall@5",
        "--metric",
        "judged@10",
        "--per-query",
    ]);
    assert_eq!(found["metrics"]["mrr@10"]["mean"], 0.25);
    assert_eq!(found["metrics"]["mrr@10"]["queries"], 2);
    assert_eq!(found["metrics"]["recall@5"]["mean"], 0.25);
    assert!(found["metrics"]["recall@5"]["ci"]["low"].is_number());
    assert_eq!(found["queries"], 3);
    assert_eq!(found["missing_queries"], 1);
    assert_eq!(found["unjudged_queries"], 1);
    assert_eq!(found["queries_without_relevant"], 1);
    assert_eq!(found["per_query"]["q1"]["mrr@10"], 0.5);
    assert_eq!(found["per_query"]["q2"].get("mrr@10"), None);
    assert_eq!(found["per_query"]["q2"]["judged@10"], 1.0);

    assert_eq!(all(&["--metrics", "mrr@3"]).get("per_query"), None);

    // trec_eval: q1 1/2, q2 1 (grade 1 counts), q3 omitted.
    let found = all(&["--metrics", "mrr", "--compat", "trec", "--resamples", "0"]);
    assert_eq!(found["metrics"]["mrr"]["mean"], 0.75);
    assert_eq!(found["metrics"]["mrr"]["ci"], Value::Null);
    assert_eq!(found["queries"], 2);

    let two = ["--run", "run.txt", "--metrics", "p@1"];
    assert_eq!(all(&two)["runs"].as_array().unwrap().len(), 2);
}

#[test]
fn the_example_renders_as_text_and_html() {
    let place = Place::new();
    let (qrels, control, treatment) = (
        example("retrieval/qrels.txt"),
        example("retrieval/bm25.txt"),
        example("retrieval/fusion.txt"),
    );
    let text = place.run(&["retrieval", "eval", "--qrels", &qrels, "--run", &control]);
    assert!(text.starts_with("exit 0"), "{text}");
    assert!(
        text.contains("ndcg@10") && text.contains("40 queries; relevant from grade 2"),
        "{text}"
    );
    let both = ["--qrels", &qrels, "--run", &control, "--run", &treatment];
    let text = place.run(&[&["retrieval", "compare"], &both[..], &["--format", "markdown"]].concat());
    assert!(text.contains("**BETTER**: ndcg@10 by +"), "{text}");
    assert!(text.contains("| metric | control | treatment |"), "{text}");
}

#[test]
fn the_gate_passes_fails_or_is_inconclusive() {
    let place = Place::new();
    let (qrels, control, treatment) = (
        example("retrieval/qrels.txt"),
        example("retrieval/bm25.txt"),
        example("retrieval/fusion.txt"),
    );
    let code = |first: &str, second: &str, more: &[&str]| {
        let base = [
            "retrieval",
            "compare",
            "--quiet",
            "--qrels",
            &qrels,
            "--run",
            first,
            "--run",
            second,
        ];
        place
            .command(&[&base[..], more].concat())
            .status()
            .unwrap()
            .code()
    };
    let gate = ["--fail-if-worse", "0.01"];
    assert_eq!(code(&control, &treatment, &gate), Some(0));
    assert_eq!(code(&treatment, &control, &gate), Some(1));
    assert_eq!(code(&control, &control, &gate), Some(0));
    // Without a gate, a worse result is not an error.
    assert_eq!(code(&treatment, &control, &[]), Some(0));
    // Two queries that swap places: inconclusive.
    place.write("few.txt", "a 0 x 2\nb 0 x 2\n");
    place.write("one.txt", "a Q0 x 1 2 t\nb Q0 y 1 2 t\nb Q0 x 2 1 t\n");
    place.write("two.txt", "a Q0 y 1 2 t\na Q0 x 2 1 t\nb Q0 x 1 2 t\n");
    let text = place.run(&[
        "retrieval",
        "compare",
        "--qrels",
        "few.txt",
        "--run",
        "one.txt",
        "--run",
        "two.txt",
        "--fail-if-worse",
        "0.01",
    ]);
    assert!(text.starts_with("exit 3"), "{text}");
    assert!(
        text.contains("NO EVIDENCE EITHER WAY: ndcg@10 differs by"),
        "{text}"
    );
    assert!(text.contains("gate: inconclusive"), "{text}");
}

#[test]
fn compressed_files_are_read_and_damaged_ones_refused() {
    let place = Place::new();
    place.write("qrels.txt", QRELS);
    let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    packed.write_all(RUN.as_bytes()).unwrap();
    let packed = packed.finish().unwrap();
    fs_err::write(place.path("run.gz"), &packed).unwrap();
    fs_err::write(place.path("cut.gz"), &packed[..packed.len() / 2]).unwrap();
    fs_err::write(
        place.path("run.zst"),
        zstd::encode_all(RUN.as_bytes(), 1).unwrap(),
    )
    .unwrap();
    fs_err::write(place.path("odd.zst"), b"this is not zstd").unwrap();
    for name in ["run.gz", "run.zst"] {
        let found = json_of(
            &place,
            &[
                "retrieval",
                "eval",
                "--qrels",
                "qrels.txt",
                "--run",
                name,
                "--format",
                "json",
            ],
        );
        assert_eq!(found["metrics"]["mrr@10"]["mean"], 0.25, "{name}");
    }
    for name in ["cut.gz", "odd.zst"] {
        let text = place.run(&["retrieval", "eval", "--qrels", "qrels.txt", "--run", name]);
        assert!(text.starts_with("exit 2"), "{text}");
        assert!(
            text.contains(&format!("error: cannot decompress {name}")),
            "{text}"
        );
    }
}

#[test]
fn errors_name_file_and_line() {
    let place = Place::new();
    place.write("qrels.txt", QRELS);
    place.write("run.txt", RUN);
    place.write("short.txt", "q1 Q0 b 1 9 t\nq1 Q0 a\n");
    place.write("twice.txt", "q1 Q0 b 1 9 t\nq1 Q0 b 2 8 t\n");
    place.write("other.txt", "x1 Q0 b 1 9 t\n");
    place.write("empty.txt", "");
    for (run, message) in [
        ("short.txt", "short.txt: line 2: expected 6 fields"),
        (
            "twice.txt",
            "twice.txt: line 2: duplicate document `b` for query `q1`",
        ),
        (
            "other.txt",
            "other.txt: cannot evaluate the run: it shares no usable query",
        ),
        ("empty.txt", "empty.txt: the input is empty"),
        ("absent.txt", "cannot read absent.txt"),
    ] {
        let text = place.run(&["retrieval", "eval", "--qrels", "qrels.txt", "--run", run]);
        assert!(text.starts_with("exit 2") && text.contains(message), "{text}");
    }
    let base = ["retrieval", "eval", "--qrels", "qrels.txt", "--run"];
    let text = place.run(&[&base[..], &["twice.txt", "--dedup", "first"]].concat());
    assert!(text.starts_with("exit 0"), "{text}");
    let text = place.run(&[&base[..], &["run.txt", "--metrics", "ndgc@10"]].concat());
    assert!(
        text.starts_with("exit 2") && text.contains("invalid measure `ndgc@10`"),
        "{text}"
    );
    let text = place.run(&["retrieval", "compare", "--qrels", "qrels.txt", "--run", "run.txt"]);
    assert!(
        text.starts_with("exit 2") && text.contains("at least two runs are required"),
        "{text}"
    );
}

#[test]
fn files_without_rankings_are_refused() {
    let place = Place::new();
    place.write("qrels.txt", QRELS);
    place.write("run.txt", RUN);
    place.write("nan.txt", "q1 Q0 b 1 9 t\nq1 Q0 a 2 nan t\n");
    place.write("empty.txt", "");
    fs_err::write(place.path("latin.txt"), b"q1 Q0 b 1 9 t\nq1 Q0 caf\xe9 2 8 t\n").unwrap();
    let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    for _ in 0..64 {
        packed.write_all(&vec![b'x'; 1 << 20]).unwrap();
    }
    fs_err::write(place.path("line.gz"), packed.finish().unwrap()).unwrap();
    for (qrels, run, message) in [
        (
            "qrels.txt",
            "nan.txt",
            "nan.txt: line 2: score `nan` is not a number",
        ),
        ("qrels.txt", "latin.txt", "latin.txt: line 2: not UTF-8 text"),
        (
            "qrels.txt",
            "line.gz",
            "line.gz: line 1 is longer than 65535 bytes",
        ),
        ("empty.txt", "run.txt", "empty.txt: the input is empty"),
    ] {
        let text = place.run(&["retrieval", "eval", "--qrels", qrels, "--run", run]);
        assert!(text.starts_with("exit 2") && text.contains(message), "{text}");
    }
}

/// Two gigabytes without a newline, in a process that may not allocate one.
#[test]
fn an_endless_line_is_refused_with_bounded_memory() {
    let place = Place::new();
    place.write("qrels.txt", QRELS);
    for (name, message) in [
        ("run.txt", "run.txt: line 1 is longer than 65535 bytes"),
        ("run.csv", "run.csv: line 1 is longer than 65535 bytes"),
        ("run.jsonl", "run.jsonl: line 1 is longer than 16777216 bytes"),
    ] {
        // A sparse file takes no disk space and reads as zeros.
        fs_err::File::create(place.path(name))
            .unwrap()
            .set_len(2 << 30)
            .unwrap();
        let limited = format!(
            "ulimit -v 1000000 && exec {} retrieval eval --qrels qrels.txt --run {name}",
            env!("CARGO_BIN_EXE_satiety")
        );
        let output = std::process::Command::new("sh")
            .args(["-c", &limited])
            .current_dir(place.folder.path())
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(
            output.status.code() == Some(2) && text.contains(message),
            "{text}"
        );
    }
}

#[test]
fn beir_tables_and_json_lines_are_read() {
    let place = Place::new();
    place.write(
        "beir/qrels/test.tsv",
        "query-id\tcorpus-id\tscore\nq1\ta\t3\nq1\tb\t0\nq1\tc\t2\nq2\ta\t1\nq3\tz\t2\n",
    );
    place.write(
        "run.csv",
        "query_id,doc_id,score\nq1,b,9\nq1,a,8\nq1,x,7\nq2,a,9\nq9,a,9\n",
    );
    place.write(
        "run.jsonl",
        "{\"queryId\": \"q1\", \"results\": [\"b\", \"a\", \"x\"]}\n{\"queryId\": \"q2\", \"results\": [\"a\"]}\n",
    );
    for run in ["run.csv", "run.jsonl"] {
        let found = json_of(
            &place,
            &[
                "retrieval",
                "eval",
                "--qrels",
                "beir",
                "--run",
                run,
                "--format",
                "json",
            ],
        );
        assert_eq!(found["metrics"]["mrr@10"]["mean"], 0.25, "{run}");
    }
    place.write("odd/qrels/train.tsv", "");
    place.write("odd/qrels/dev.tsv", "");
    let text = place.run(&["retrieval", "eval", "--qrels", "odd", "--run", "run.csv"]);
    assert!(text.starts_with("exit 2"), "{text}");
    assert!(
        text.contains("odd/qrels: no test.tsv, and 2 other tables"),
        "{text}"
    );
}
