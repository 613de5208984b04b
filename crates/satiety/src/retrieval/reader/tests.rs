//! Readers of valid and invalid input, independent of how it is split into chunks and parts.

use proptest::prelude::*;

use super::*;
use crate::retrieval::Dedup;

fn run(text: &str, options: OrderOptions) -> RetrievalResult<Run> {
    let mut reader = RunReader::trec();
    reader.push(text.as_bytes())?;
    reader.finish(options)
}

fn qrels(text: &str) -> RetrievalResult<Qrels> {
    let mut reader = QrelsReader::trec();
    reader.push(text.as_bytes())?;
    reader.finish(OrderOptions::default())
}

fn documents(run: &Run, query: &str) -> Vec<String> {
    run.documents(query).map(Into::into).collect()
}

#[test]
fn white_space_line_ends_comments_and_a_mark_do_not_matter() {
    let plain = qrels("q1 0 a 1\nq2 0 b 0\n").unwrap();
    let odd = qrels("\u{feff}q1\t0  a\u{b}1\r\n\r\n# note 1 2 3\n   \nq2 0 b 0").unwrap();
    for found in [plain, odd] {
        assert_eq!((found.queries(), found.len()), (2, 2));
        assert_eq!((found.query(0), found.query(1)), ("q1", "q2"));
        assert_eq!(found.grade("q1", "a"), Some(1));
        assert_eq!(found.grade("q2", "b"), Some(0));
        assert_eq!(found.grade("q2", "a"), None);
        assert_eq!(found.grade("q3", "a"), None);
    }
}

#[test]
fn equal_scores_go_by_id_from_the_end_or_by_rank() {
    let text = "q Q0 a 3 1.0 t\nq Q0 c 2 1.0 t\nq Q0 b 1 1.0 t\nq Q0 d 4 2.0 t\n";
    let trec = run(text, OrderOptions::default()).unwrap();
    assert_eq!(documents(&trec, "q"), ["d", "c", "b", "a"]);
    let ranked = OrderOptions {
        ties: Ties::Rank,
        ..OrderOptions::default()
    };
    assert_eq!(documents(&run(text, ranked).unwrap(), "q"), ["d", "b", "c", "a"]);
    assert_eq!(documents(&trec, "other"), Vec::<String>::new());
}

#[test]
fn scores_that_are_equal_as_32_bit_floats_are_ties() {
    let text = "q Q0 a 1 1.00000002 t\nq Q0 b 2 1.00000001 t\n";
    assert_eq!(
        documents(&run(text, OrderOptions::default()).unwrap(), "q"),
        ["b", "a"]
    );
}

#[test]
fn lines_of_a_query_need_not_be_contiguous() {
    let text = "q1 Q0 a 1 1 t\nq2 Q0 a 1 1 t\nq1 Q0 b 2 3 t\nq2 Q0 c 1 0 t\nq1 Q0 c 3 2 t";
    let run = run(text, OrderOptions::default()).unwrap();
    assert_eq!(documents(&run, "q1"), ["b", "c", "a"]);
    assert_eq!(documents(&run, "q2"), ["a", "c"]);
}

#[test]
fn a_duplicate_document_is_rejected_or_kept_once() {
    let text = "q Q0 a 1 1 t\nq Q0 b 2 2 t\nq Q0 a 3 3 t\n";
    let error = run(text, OrderOptions::default()).unwrap_err();
    assert_eq!(error.to_string(), "line 3: duplicate document `a` for query `q`");
    let first = OrderOptions {
        dedup: Dedup::First,
        ..OrderOptions::default()
    };
    assert_eq!(documents(&run(text, first).unwrap(), "q"), ["a", "b"]);
    // Comments and empty lines count; so do JSON lines, each with several documents.
    let text = "# note\nq 0 a 1\n\nq 0 b 1\nr 0 c 1\nq 0 a 1\n";
    assert_eq!(
        qrels(text).unwrap_err().to_string(),
        "line 6: duplicate document `a` for query `q`"
    );
    let mut reader = RunReader::new(FileFormat::JsonLines);
    reader
        .push(b"{\"queryId\": 1, \"results\": [1, 2]}\n\n{\"queryId\": 2, \"results\": [3, 4, 3]}\n")
        .unwrap();
    assert_eq!(
        reader.finish(OrderOptions::default()).unwrap_err().to_string(),
        "line 3: duplicate document `3` for query `2`"
    );
}

#[test]
fn errors_name_the_line() {
    let message_of = |text: &str| run(text, OrderOptions::default()).unwrap_err().to_string();
    let good = "q Q0 a 1 1 t\n";
    assert_eq!(
        message_of(&format!("{good}\nq Q0 b\n")),
        "line 3: expected 6 fields (query, Q0, document, rank, score, tag), got 3"
    );
    assert_eq!(
        message_of(&format!("{good}q Q0 b 1 2 t u")),
        "line 2: expected 6 fields (query, Q0, document, rank, score, tag), got 7"
    );
    assert_eq!(
        message_of(&format!("{good}q Q0 b 1 NaN t")),
        "line 2: score `NaN` is not a number"
    );
    assert_eq!(
        message_of(&format!("{good}q Q0 b 1 2,5 t")),
        "line 2: score `2,5` is not a number"
    );
    assert_eq!(message_of("\n# only a comment\n"), "the input is empty");
    assert_eq!(
        qrels("q 0 a 1\nq 0 b high\n").unwrap_err().to_string(),
        "line 2: grade `high` is not an integer"
    );
    assert_eq!(
        qrels("q 0 a\n").unwrap_err().to_string(),
        "line 1: expected 4 fields (query, iteration, document, grade), got 3"
    );
    let ranked = OrderOptions {
        ties: Ties::Rank,
        ..OrderOptions::default()
    };
    let text = format!("{good}q Q0 b first 2 t\nq Q0 c second 2 t");
    assert_eq!(
        run(&text, ranked).unwrap_err().to_string(),
        "line 2: rank is not an integer"
    );
    assert_eq!(run(&text, OrderOptions::default()).unwrap().len(), 3);
}

#[test]
fn invalid_utf8_and_long_lines_are_rejected() {
    let mut reader = RunReader::trec();
    let error = reader
        .push(b"q Q0 a 1 1 t\nq Q0 \xff 1 1 t\nq Q0 c 1 1 t\n")
        .unwrap_err();
    assert_eq!(error.to_string(), "line 2: not UTF-8 text");
    let mut reader = RunReader::trec();
    let error = reader.push(b"q Q0 a 1 1 t\nq Q0\nq Q0 \xff 1 1 t\n").unwrap_err();
    assert!(
        error.to_string().starts_with("line 2: expected 6 fields"),
        "{error}"
    );
    let mut reader = RunReader::trec();
    reader.push(b"q Q0 a 1 1 t\n").unwrap();
    let error = (0..100).find_map(|_| reader.push(&[b'x'; 1000]).err()).unwrap();
    assert_eq!(error.to_string(), "line 2 is longer than 65535 bytes");
    let mut reader = RunReader::trec();
    let mut long = vec![b'x'; 70_000];
    long.push(b'\n');
    assert!(matches!(
        reader.push(&long),
        Err(RetrievalError::LongLine { line: 1, .. })
    ));
}

#[test]
fn tables_and_json_lines_say_the_same_as_plain_lines() {
    let read = |format, text: &str| {
        let mut reader = QrelsReader::new(format);
        reader.push(text.as_bytes()).unwrap();
        let found = reader.finish(OrderOptions::default()).unwrap();
        let of = |query| {
            found
                .judgments(query)
                .map(|(id, grade)| (id.to_owned(), grade))
                .collect()
        };
        let lists: Vec<Vec<(String, i32)>> = (0..found.queries()).map(of).collect();
        lists
    };
    let expected = read(FileFormat::Trec, "q1 0 a 3\nq1 0 7 0\nq2 0 b 1\n");
    let beir = "query-id\tcorpus-id\tscore\nq1\ta\t3\r\nq1\t7\t0\n\nq2\tb\t1";
    assert_eq!(read(FileFormat::Tsv, beir), expected);
    let csv = "relevance,doc_id,query_id\n3,\"a\",q1\n0,7,q1\n1,b,\"q2\"\n";
    assert_eq!(read(FileFormat::Csv, csv), expected);
    let json = r#"{"queryId": "q1", "query": "why?", "intent": "find_decision", "category": "causal-query",
        "judgments": [{"memoryId": "a", "relevance": 3, "annotator": "x"}, {"memoryId": 7, "relevance": 0}],
        "judgmentSource": "manual", "harvestedAt": null}"#
        .replace('\n', " ");
    let json = json + "\n" + r#"{"queryId": "q2", "judgments": [{"memoryId": "b", "relevance": 1}]}"#;
    assert_eq!(read(FileFormat::JsonLines, &json), expected);

    let read = |format, text: &str| {
        let mut reader = RunReader::new(format);
        reader.push(text.as_bytes()).unwrap();
        documents(&reader.finish(OrderOptions::default()).unwrap(), "q")
    };
    let expected = ["c,d", "b", "a"];
    assert_eq!(
        read(FileFormat::Csv, "qid,docid,score\nq,a,1\nq,\"c,d\",3\nq,b,2\n"),
        expected
    );
    assert_eq!(
        read(
            FileFormat::JsonLines,
            r#"{"queryId": "q", "results": ["c,d", "b", "a"]}"#
        ),
        expected
    );
    let scored =
        r#"{"queryId": "q", "results": [{"memoryId": "a", "score": 1}, {"memoryId": "c,d", "score": 3},
        {"memoryId": "b", "score": 2}]}"#
            .replace('\n', " ");
    assert_eq!(read(FileFormat::JsonLines, &scored), expected);
}

#[test]
fn errors_in_tables_name_the_line() {
    let message_of = |format, text: &str| {
        let mut reader = QrelsReader::new(format);
        let pushed = reader.push(text.as_bytes());
        pushed
            .and_then(|()| reader.finish(OrderOptions::default()))
            .unwrap_err()
            .to_string()
    };
    for (text, expected) in [
        (
            "a,b,c\n",
            "line 1: missing column for the query (expected one of: query-id, ",
        ),
        (
            "qid,docid,rel\nq,a\n",
            "line 2: expected at least 3 columns, got 2",
        ),
        (
            "qid,docid,rel\nq,a,1.5\n",
            "line 2: grade `1.5` is not an integer",
        ),
        ("qid,docid,rel\n\"q,a,1\n", "line 2: unterminated quotation mark"),
        (
            "qid,docid,rel\n\"q\"x,a,1\n",
            "line 2: unexpected text after a closing quotation mark",
        ),
        ("qid,docid,rel\n,a,1\n", "line 2: query or document is empty"),
        ("qid,docid,rel\n", "the input is empty"),
    ] {
        let found = message_of(FileFormat::Csv, text);
        assert!(found.starts_with(expected), "{found}");
    }
    let found = message_of(
        FileFormat::JsonLines,
        "\n{\"queryId\": \"q\", \"judgments\": [{\"memoryId\": 1, \"relevance\": \"high\"}]}",
    );
    assert!(
        found.starts_with("line 2: judgments[0].relevance: invalid type: string \"high\""),
        "{found}"
    );
    assert!(message_of(FileFormat::JsonLines, "{").starts_with("line 1: "));
}

/// Reads a run in parts that end with these lines, as threads would.
fn run_in_parts(text: &str, cuts: &[usize], options: OrderOptions) -> RetrievalResult<Run> {
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    let ends = cuts.iter().map(|&cut| cut.min(lines.len())).chain([lines.len()]);
    let (mut start, mut before, mut parts) = (0, 0, Vec::new());
    for (number, end) in (0..).zip(ends) {
        let mut reader = RunReader::part(FileFormat::Trec, number);
        let read = reader.push(lines[start.min(end)..end].concat().as_bytes());
        let part = read
            .and_then(|()| reader.end(options))
            .map_err(|error| error.after(before))?;
        before += part.lines();
        parts.push(part);
        start = end.max(start);
    }
    RunPart::join(parts)
}

#[test]
fn errors_in_parts_have_the_lines_of_the_file() {
    let text = "q Q0 a 1 4 t\nq Q0 b 2 3 t\n#\nq Q0 c x 2 t\nq Q0 a 4 1 t\n";
    let ranked = OrderOptions {
        ties: Ties::Rank,
        ..OrderOptions::default()
    };
    for options in [OrderOptions::default(), ranked] {
        for text in [text.to_owned(), text.to_owned() + "q Q0\n"] {
            let whole = run(&text, options).unwrap_err();
            for cut in 0..=6 {
                assert_eq!(run_in_parts(&text, &[cut], options).unwrap_err(), whole, "{cut}");
            }
        }
    }
    let whole = run(text, OrderOptions::default()).unwrap_err();
    assert_eq!(whole.to_string(), "line 5: duplicate document `a` for query `q`");
}

proptest! {
    #[test]
    fn the_size_of_chunks_does_not_matter(
        rows in proptest::collection::vec((0_u8..4, 0_u16..500, -100_i32..100), 1..60),
        chunk_size in 1_usize..50,
    ) {
        use std::fmt::Write;
        let mut text = String::new();
        for (index, (query, document, score)) in rows.iter().enumerate() {
            let _ = writeln!(text, "q{query} Q0 d{document}x{index} {index} {score} tag");
        }
        let whole = run(&text, OrderOptions::default()).unwrap();
        let mut reader = RunReader::trec();
        for chunk in text.as_bytes().chunks(chunk_size) {
            reader.push(chunk).unwrap();
        }
        let chunked = reader.finish(OrderOptions::default()).unwrap();
        for query in ["q0", "q1", "q2", "q3"] {
            prop_assert_eq!(documents(&whole, query), documents(&chunked, query));
        }
        prop_assert_eq!(whole.len(), rows.len());
    }

    #[test]
    fn the_number_of_parts_does_not_matter(
        rows in proptest::collection::vec((0_u8..4, 0_u16..40, -3_i32..3), 1..60),
        mut cuts in proptest::collection::vec(0_usize..60, 0..4),
        by_rank in any::<bool>(),
        refuse in any::<bool>(),
        grouped in any::<bool>(),
    ) {
        use std::fmt::Write;
        let mut rows = rows;
        if grouped {
            rows.sort_by_key(|row| row.0);
        }
        let mut text = String::new();
        for (index, (query, document, score)) in rows.iter().enumerate() {
            let _ = writeln!(text, "q{query} Q0 d{document} {} {score} tag", index % 7);
        }
        cuts.sort_unstable();
        let options = OrderOptions {
            ties: if by_rank { Ties::Rank } else { Ties::Trec },
            dedup: if refuse { Dedup::Refuse } else { Dedup::First },
        };
        match (run(&text, options), run_in_parts(&text, &cuts, options)) {
            (Ok(whole), Ok(parts)) => {
                prop_assert_eq!((whole.len(), whole.queries()), (parts.len(), parts.queries()));
                for query in ["q0", "q1", "q2", "q3"] {
                    prop_assert_eq!(documents(&whole, query), documents(&parts, query));
                }
            }
            (whole, parts) => prop_assert_eq!(whole.err(), parts.err()),
        }
    }

    #[test]
    fn the_slow_path_agrees_with_the_fast_path(
        rows in proptest::collection::vec((0_u8..3, "[a-z]{1,20}", -5000_i32..5000, 0_usize..6), 1..30),
    ) {
        use std::fmt::Write;
        let (mut plain, mut odd) = (String::new(), String::new());
        for (index, (query, document, score, shape)) in rows.iter().enumerate() {
            let score = f64::from(*score) / 64.0;
            let _ = writeln!(plain, "q{query} Q0 {document}{index} {index} {score} tag");
            let (between, end) = [(" ", "\n"), ("\t", "\r\n"), ("  ", "\n"), (" \t", " \n"), (" ", "\n\n"), (" ", "\n#x\n")][*shape];
            let _ = write!(odd, "q{query}{between}Q0 {document}{index}{between}{index} {score:e}{between}tag{end}");
        }
        let (plain, odd) = (run(&plain, OrderOptions::default()).unwrap(), run(&odd, OrderOptions::default()).unwrap());
        for query in ["q0", "q1", "q2"] {
            prop_assert_eq!(documents(&plain, query), documents(&odd, query));
        }
    }
}
