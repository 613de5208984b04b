//! Imports of untrusted files: they read no other files, and unpacking and expansion are limited.

use std::io::Write as _;
use std::time::{Duration, Instant};

use crate::support::Place;

#[test]
fn promptfoo_imports_read_only_their_directory() {
    let place = Place::new();
    place.write("secret.txt", "TOPSECRET");
    place.write("config/inside.txt", "something inside");
    place.write("config-beside/other.txt", "TOPSECRET");
    std::os::unix::fs::symlink("../secret.txt", place.path("config/link.txt")).unwrap();
    std::os::unix::fs::symlink("..", place.path("config/up")).unwrap();
    let absolute = place.path("secret.txt");
    let references = [
        "../secret.txt".to_owned(),
        absolute.display().to_string(),
        "link.txt".into(),
        "up/secret.txt".into(),
        "x/../../secret.txt".into(),
        "./../secret.txt".into(),
        "../config-beside/other.txt".into(),
        "/dev/zero".into(),
        "/proc/self/environ".into(),
    ];
    for (number, reference) in references.iter().enumerate() {
        let config = format!(
            "prompts: ['say {{{{a}}}}', 'file://{reference}']\ntests:\n  - vars: {{a: 'file://{reference}'}}\n  - file://{reference}\n"
        );
        place.write("config/promptfooconfig.yaml", &config);
        let out = format!("out{number}");
        let began = Instant::now();
        let shown = place.run(&["bench", "import", "config/promptfooconfig.yaml", "--output", &out]);
        assert!(began.elapsed() < Duration::from_secs(10), "{reference}");
        assert!(
            shown.contains("outside the configuration's directory") || shown.contains("not there"),
            "{reference}: {shown}"
        );
        assert!(!shown.contains("TOPSECRET"), "{reference}: {shown}");
        let cases =
            fs_err::read_to_string(place.path(&format!("{out}/cases/cases.json"))).unwrap_or_default();
        assert!(!cases.contains("TOPSECRET"), "{reference}: {cases}");
    }
    place.write(
        "config/promptfooconfig.yaml",
        "prompts: ['say {{a}}']\ntests:\n  - vars: {a: 'file://./inside.txt'}\n",
    );
    place.run(&[
        "bench",
        "import",
        "config/promptfooconfig.yaml",
        "--output",
        "fine",
    ]);
    let cases = fs_err::read_to_string(place.path("fine/cases/cases.json")).unwrap();
    assert!(cases.contains("something inside"), "{cases}");
}

#[test]
fn exponential_variable_expansion_is_refused() {
    let place = Place::new();
    let lists: Vec<String> = ('a'..='h')
        // Only lists of texts are expanded.
        .map(|name| format!("{name}: [p, q, r, s, t, u, v, w, x, z]"))
        .collect();
    let config = format!(
        "prompts: ['{{{{a}}}}']\ntests:\n  - vars: {{{}}}\n",
        lists.join(", ")
    );
    place.write("promptfooconfig.yaml", &config);
    let began = Instant::now();
    let shown = place.run(&["bench", "import", "promptfooconfig.yaml", "--output", "out"]);
    assert!(
        shown.starts_with("exit 2\n") && shown.contains("100000 cases"),
        "{shown}"
    );
    assert!(began.elapsed() < Duration::from_secs(10));
}

#[test]
fn archive_bombs_are_refused() {
    let place = Place::new();
    let file = fs_err::File::create(place.path("bomb.eval")).unwrap();
    let mut archive = zip::ZipWriter::new(file);
    let options = zip::write::SimpleFileOptions::default();
    archive.start_file("_journal/start.json", options).unwrap();
    archive
        .write_all(b"{\"version\": 2, \"eval\": {\"task\": \"t\"}}")
        .unwrap();
    // Each member is small enough by itself.
    let blank = vec![b' '; 8 << 20];
    for number in 0..30 {
        archive
            .start_file(format!("_journal/summaries/{number}.json"), options)
            .unwrap();
        archive.write_all(b"[").unwrap();
        archive.write_all(&blank).unwrap();
        archive.write_all(b"]").unwrap();
    }
    archive.finish().unwrap();
    let shown = place.run(&["bench", "import", "bomb.eval"]);
    assert!(
        shown.starts_with("exit 2\n") && shown.contains("its members exceed"),
        "{shown}"
    );

    let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    for _ in 0..12 {
        packed.write_all(&blank).unwrap();
    }
    fs_err::write(place.path("run.txt.gz"), packed.finish().unwrap()).unwrap();
    place.write("qrels.txt", "q1 0 d1 1\n");
    let shown = place.run(&["retrieval", "eval", "--qrels", "qrels.txt", "--run", "run.txt.gz"]);
    assert!(
        shown.starts_with("exit 2\n") && (shown.contains("times its size") || shown.contains("longer than")),
        "{shown}"
    );
}
