//! The measuring programs with their arguments, and one run of them: rows, output and time limit.

use std::os::unix::process::CommandExt as _;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use perf::rows::{FILE, Row};

/// A measuring program and how it is started.
#[derive(Debug, Clone, Copy)]
pub(super) struct Section {
    pub(super) name: &'static str,
    program: &'static str,
    pub(super) summary: &'static str,
    /// Arguments with and without `--quick`.
    quick: &'static str,
    full: &'static str,
    /// Time limits in seconds, with and without `--quick`.
    limits: (u64, u64),
    /// Modules of the Python peers.
    pub(super) modules: &'static [&'static str],
    /// Commands that it needs.
    pub(super) commands: &'static [&'static str],
    /// Whether the program itself skips peers that are missing.
    pub(super) skips_missing: bool,
    pub(super) needs_model: bool,
}

const NONE: Section = Section {
    name: "",
    program: "",
    summary: "",
    quick: "",
    full: "",
    limits: (60, 600),
    modules: &[],
    commands: &[],
    skips_missing: false,
    needs_model: false,
};

pub(super) const SECTIONS: [Section; 12] = [
    Section {
        name: "score",
        program: "score",
        summary: "how the cost of scoring grows with nearly equal claims",
        quick: "--growth --rounds 500,1000,2000,4000",
        full: "--growth",
        limits: (60, 900),
        ..NONE
    },
    Section {
        name: "novelty",
        program: "novelty",
        summary: "repeated claims by word sets",
        modules: &["datasketch"],
        limits: (120, 900),
        ..NONE
    },
    Section {
        name: "progress",
        program: "progress",
        summary: "judging the steps of an agent",
        ..NONE
    },
    Section {
        name: "retrieval",
        program: "retrieval",
        summary: "retrieval metrics from files",
        full: "--large",
        limits: (90, 900),
        modules: &["pytrec_eval", "ir_measures", "ranx"],
        skips_missing: true,
        ..NONE
    },
    Section {
        name: "bootstrap",
        program: "bootstrap",
        summary: "bootstrap intervals",
        modules: &["scipy"],
        limits: (60, 300),
        ..NONE
    },
    Section {
        name: "bench",
        program: "bench",
        summary: "benchmark runs",
        quick: "--cases 1,2000,10000",
        limits: (90, 900),
        modules: &["pydantic_evals", "inspect_ai"],
        skips_missing: true,
        ..NONE
    },
    Section {
        name: "server",
        program: "server",
        summary: "requests per second over HTTP",
        quick: "--duration 3",
        limits: (90, 600),
        modules: &["fastapi", "uvicorn"],
        commands: &["wrk"],
        ..NONE
    },
    Section {
        name: "embed",
        program: "embed",
        summary: "the sentence model",
        quick: "--claims 400",
        limits: (90, 600),
        modules: &["sentence_transformers"],
        needs_model: true,
        ..NONE
    },
    Section {
        name: "paraphrase",
        program: "paraphrase",
        summary: "paraphrase detection",
        ..NONE
    },
    Section {
        name: "dialogue",
        program: "dialogue",
        summary: "signals on labeled conversations",
        ..NONE
    },
    Section {
        name: "memory",
        program: "memory",
        summary: "memory search",
        quick: "--section speed,log,save --sizes 1000 --searches 100",
        limits: (90, 3600),
        modules: &["numpy", "bm25s"],
        ..NONE
    },
    Section {
        name: "store",
        program: "store",
        summary: "durable writes",
        limits: (60, 600),
        commands: &["sqlite3", "psql"],
        skips_missing: true,
        ..NONE
    },
];

impl Section {
    pub(super) fn limit(&self, quick: bool) -> u64 {
        if quick { self.limits.0 } else { self.limits.1 }
    }

    pub(super) fn arguments(&self, quick: bool) -> &'static str {
        if quick { self.quick } else { self.full }
    }
}

/// What a section brought.
#[derive(Debug, Default)]
pub(super) struct Outcome {
    pub(super) rows: Vec<Row>,
    pub(super) notes: Vec<String>,
}

impl Outcome {
    pub(super) fn failed(why: impl Into<String>) -> Self {
        Self {
            rows: Vec::new(),
            notes: vec![format!("not measured: {}", why.into())],
        }
    }
}

/// Runs the program of a section within the time limit. Rows that were recorded before it failed count.
pub(super) fn run(section: &Section, arguments: &[String], limit: Duration) -> Result<Outcome> {
    let program = std::env::current_exe()?.with_file_name(section.program);
    if !program.is_file() {
        return Ok(Outcome::failed("the program is not built"));
    }
    let directory = tempfile::tempdir()?;
    let recorded = directory.path().join("rows.jsonl");
    let mut child = Command::new(&program)
        .args(arguments)
        .env(FILE, &recorded)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        // A group of its own, so that the servers and peers that it starts end with it.
        .process_group(0)
        .spawn()
        .with_context(|| format!("cannot start {}", program.display()))?;
    let (mut stdout, mut stderr) = (child.stdout.take(), child.stderr.take());
    let readers = [
        std::thread::spawn(move || read_all(stdout.as_mut())),
        std::thread::spawn(move || read_all(stderr.as_mut())),
    ];
    let begun = Instant::now();
    let mut notes = Vec::new();
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break Some(status);
        }
        if begun.elapsed() > limit {
            let group = format!("-{}", child.id());
            let _ = Command::new("kill").args(["-KILL", "--", &group]).status();
            child.wait()?;
            notes.push(format!(
                "stopped at its time limit of {} s (--limit)",
                limit.as_secs()
            ));
            break None;
        }
        std::thread::sleep(Duration::from_millis(50));
    };
    let [said, errors] = readers.map(|reader| reader.join().unwrap_or_default());
    if let Some(status) = status.filter(|status| !status.success()) {
        let last = errors
            .lines()
            .rfind(|line| !line.trim().is_empty())
            .unwrap_or("no message");
        notes.push(format!("not complete: {status}: {last}"));
    }
    // Programs that record no rows print their ratios; both say what they skipped.
    let text = fs_err::read_to_string(&recorded).unwrap_or_default();
    let rows: Vec<Row> = text
        .lines()
        .map(|line| serde_json::from_str(line).with_context(|| format!("invalid row {line}")))
        .collect::<Result<_>>()?;
    let is_remark = |line: &&str| line.contains("skipped") || (rows.is_empty() && has_result(line));
    notes.extend(said.lines().map(str::trim).filter(is_remark).map(str::to_owned));
    Ok(Outcome { rows, notes })
}

/// Whether a line of output gives a result in words, for programs that record no rows.
fn has_result(line: &str) -> bool {
    [
        "ratio",
        "AUC",
        "signals",
        "stop rounds",
        "p50",
        "quick",
        "focused",
        "save",
        "satiety",
        "peer",
    ]
    .iter()
    .any(|word| line.contains(word))
}

fn read_all(source: Option<&mut impl std::io::Read>) -> String {
    let mut bytes = Vec::new();
    if let Some(source) = source {
        // What was printed before an error is still shown.
        let _ = source.read_to_end(&mut bytes);
    }
    String::from_utf8_lossy(&bytes).into_owned()
}
