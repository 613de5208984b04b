//! Attacks on `harness check` by an agent with a shell in the repository and without an approver's key. SECURITY.md lists
//! the same attacks.

use std::path::Path;
use std::process::Command;

use jiff::{SignedDuration, Timestamp};
use satiety::harness::{Lock, Transition, TransitionStatement};
use satiety_engine::harness::KeyFile;
use serde_json::{Value, json};

use crate::harness_support::{Lab, PASSPHRASE};

/// Types the beginning of the displayed hash, and then a passphrase.
const SIGN: &str = r"
import os, pty, re, select, sys
child, terminal = pty.fork()
if child == 0:
    os.execv(sys.argv[2], sys.argv[2:])
seen = ''
answered = 0
while select.select([terminal], [], [], 60)[0]:
    try:
        data = os.read(terminal, 4096).decode(errors='replace')
    except OSError:
        break
    if not data:
        break
    seen += data
    if answered == 0 and 'hash to approve it: ' in seen:
        answered = 1
        os.write(terminal, (re.search(r'to lock +([0-9a-f]{8})', seen).group(1) + '\n').encode())
    if answered == 1 and 'passphrase of anna: ' in seen:
        answered = 2
        os.write(terminal, (sys.argv[1] + '\n').encode())
print(seen)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
";

/// A harness with directory fixtures, a baseline and keys, committed as the base.
struct Repo {
    lab: Lab,
}

impl Repo {
    fn new() -> Self {
        let lab = Lab::new(4);
        lab.place.write("suites/echoes/data/in/a.txt", "one\n");
        lab.place.write("suites/echoes/data/in/deep/b.txt", "two\n");
        lab.place.write(
            "suites/echoes/cases/files.json",
            r#"{"case_id": "files", "input": {"goal": "g", "files": ["data/in"]}, "expected": {"mode": "exact", "value": "g"}, "repeats": 3, "timeout_ms": 5000}"#,
        );
        lab.place.write(
            "suites/echoes/baseline.json",
            &baseline(&[("c00", "pass"), ("c01", "pass"), ("c02", "fail"), ("c03", "pass")]).to_string(),
        );
        let repo = Self { lab };
        repo.git(&["init", "-q", "-b", "main"]);
        repo.commit();
        repo
    }

    /// The same with a lock file.
    fn locked() -> Self {
        let repo = Self::new();
        repo.lab.expect(0, &["harness", "lock"]);
        repo.commit();
        repo
    }

    fn git(&self, arguments: &[&str]) -> String {
        git(self.lab.place.folder.path(), arguments)
    }

    fn commit(&self) {
        self.git(&["add", "-A", "suites", "satiety.toml"]);
        self.git(&["commit", "-qm", "harness"]);
    }

    /// Checks the tree against the last commit.
    fn check(&self, code: i32) -> Value {
        self.lab.json(code, &["harness", "check", "git:HEAD", "suites"])
    }

    fn edit(&self, file: &str, from: &str, to: &str) {
        let path = self.lab.place.path(file);
        let text = fs_err::read_to_string(&path).unwrap();
        assert!(text.contains(from), "{file} has no {from}: {text}");
        fs_err::write(path, text.replace(from, to)).unwrap();
    }

    fn remove(&self, file: &str) {
        fs_err::remove_file(self.lab.place.path(file)).unwrap();
    }

    fn remove_hard_cases(&self) {
        for case in ["c00", "c01", "c02"] {
            self.remove(&format!("suites/echoes/cases/{case}.json"));
        }
    }

    /// Signs the step from the last commit to the current tree with this key, and writes it.
    fn transition(&self, key: &KeyFile, hours: (i64, i64)) -> Transition {
        // The locks as computed by the program.
        let from = self.lock_of_commit();
        let mut to = self.lock_of_tree();
        let id = format!("transition-test-{}", to.transitions.len());
        to.transitions.insert(id.clone());
        let at = |hours| {
            Timestamp::now()
                .checked_add(SignedDuration::from_hours(hours))
                .unwrap()
        };
        let mut statement = TransitionStatement::about(
            (&from, &to),
            id.as_str(),
            "contradicts the specification",
            key.name.as_str(),
            (at(hours.0), SignedDuration::from_hours(1)),
        )
        .unwrap();
        statement.expires_at = at(hours.1);
        let signature = key.sign_bytes(&statement.signed_bytes(), PASSPHRASE).unwrap();
        let transition = Transition {
            statement,
            signature,
            from,
            to,
        };
        self.write_transition(&transition);
        transition
    }

    fn write_transition(&self, transition: &Transition) {
        let file = format!("suites/.harness/transitions/{}.json", transition.statement.id);
        self.lab
            .place
            .write(&file, &serde_json::to_string_pretty(transition).unwrap());
        if self.lab.place.path("suites/harness.lock").exists() {
            self.lab
                .place
                .write("suites/harness.lock", &transition.to.render());
        }
    }

    fn lock_of_tree(&self) -> Lock {
        let copy = tempfile::tempdir().unwrap();
        copy_tree(self.lab.place.folder.path(), copy.path());
        lock_in(&self.lab, copy.path())
    }

    fn lock_of_commit(&self) -> Lock {
        let copy = tempfile::tempdir().unwrap();
        copy_tree(self.lab.place.folder.path(), copy.path());
        git(copy.path(), &["checkout", "-q", "-f", "HEAD", "--", "."]);
        git(copy.path(), &["clean", "-qfd"]);
        lock_in(&self.lab, copy.path())
    }
}

/// Lock of the harness in a directory; its identity is that of the existing lock file, or none.
fn lock_in(lab: &Lab, directory: &Path) -> Lock {
    let file = directory.join("suites/harness.lock");
    let known = fs_err::read_to_string(&file)
        .ok()
        .map(|text| Lock::parse(&text).unwrap());
    let _ = fs_err::remove_file(&file);
    let done = lab
        .command(&["harness", "lock", "--harness", "suites"])
        .current_dir(directory)
        .output()
        .unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    let mut lock = Lock::parse(&fs_err::read_to_string(&file).unwrap()).unwrap();
    lock.id = known.and_then(|lock| lock.id);
    lock
}

fn copy_tree(from: &Path, to: &Path) {
    let done = Command::new("cp")
        .arg("-a")
        .arg(format!("{}/.", from.display()))
        .arg(to)
        .status()
        .unwrap();
    assert!(done.success());
}

fn git(directory: &Path, arguments: &[&str]) -> String {
    let done = Command::new("git")
        .args([
            "-c",
            "user.name=t",
            "-c",
            "user.email=t@example.org",
            "-c",
            "protocol.file.allow=always",
        ])
        .args(arguments)
        .current_dir(directory)
        .output()
        .unwrap();
    assert!(
        done.status.success(),
        "{arguments:?}: {}",
        String::from_utf8_lossy(&done.stderr)
    );
    String::from_utf8_lossy(&done.stdout).trim().to_owned()
}

fn baseline(results: &[(&str, &str)]) -> Value {
    let results: Vec<Value> = results
        .iter()
        .map(|(id, status)| {
            let score = if *status == "pass" { 1.0 } else { 0.0 };
            json!({"case_id": id, "case_hash": format!("hash of {id}"), "status": status, "score": score, "repeat": 0, "deterministic": true})
        })
        .collect();
    json!({"run_id": "run-1", "suite_id": "echoes", "target": "echo", "started_at": "2026-01-01T00:00:00Z",
        "completed_at": "2026-01-01T00:01:00Z", "results": results})
}

#[test]
fn stricter_changes_pass_with_and_without_a_lock_file() {
    for repo in [Repo::new(), Repo::locked()] {
        repo.check(0);
        repo.lab.place.write(
            "suites/echoes/cases/new.json",
            r#"{"case_id": "new", "input": {"goal": "n"}, "expected": {"mode": "exact", "value": "n"}}"#,
        );
        repo.edit("suites/harness.toml", "0.5", "0.6");
        repo.edit(
            "suites/echoes/baseline.json",
            "\"status\":\"fail\"",
            "\"status\":\"pass\"",
        );
        repo.edit("suites/echoes/baseline.json", "\"score\":0.0", "\"score\":1.0");
        let checked = repo.check(0);
        assert_eq!(checked["allowed"], true);
        let places: Vec<&str> = checked["changes"]
            .as_array()
            .unwrap()
            .iter()
            .filter_map(|change| change["place"].as_str())
            .collect();
        for place in [
            "suites.echoes.new",
            "thresholds.echoes/pass_rate",
            "baselines.echoes.c02",
        ] {
            assert!(places.contains(&place), "{places:?}");
        }
        let (has_lock, locked) = (
            repo.lab.place.path("suites/harness.lock").exists(),
            &checked["lock"],
        );
        assert_eq!(locked, if has_lock { "stale" } else { "absent" });
        // A regenerated lock file is current, and the base of the next change.
        repo.lab.expect(0, &["harness", "lock"]);
        assert_eq!(repo.check(0)["lock"], "current");
        repo.lab.expect(0, &["harness", "lock", "--check"]);
        repo.commit();
        repo.check(0);
    }
}

#[test]
fn removed_cases_are_detected_for_every_path_spelling() {
    let repo = Repo::new();
    repo.remove_hard_cases();
    let absolute = repo.lab.place.path("suites").display().to_string();
    let top = repo.lab.place.folder.path().display().to_string();
    for (directory, old, new) in [
        (".", "git:HEAD", "suites"),
        (".", "git:HEAD", "./suites/"),
        (".", "git:HEAD", absolute.as_str()),
        (".", "git:HEAD", "suites/../suites"),
        (".", "git:main", "suites"),
        (".", "git:HEAD:suites", absolute.as_str()),
        (".", "git:HEAD:suites/", "suites"),
        ("suites", "git:HEAD", "."),
        ("suites", "git:HEAD", "../suites"),
        ("suites/echoes", "git:HEAD", ".."),
        ("/", "git:HEAD", absolute.as_str()),
        (".", "git:HEAD", top.as_str()),
        (".", "git:HEAD", "."),
    ] {
        let done = repo
            .lab
            .command(&["harness", "check", old, new])
            .current_dir(repo.lab.place.path(directory))
            .output()
            .unwrap();
        let out = String::from_utf8_lossy(&done.stdout);
        assert_eq!(done.status.code(), Some(1), "{directory} {old} {new}: {out}");
        assert!(out.contains("echoes.c00"), "{directory} {old} {new}: {out}");
    }
    // A directory that the base does not have is not "at least as rigorous".
    repo.lab
        .expect(2, &["harness", "check", "git:HEAD:nowhere", "suites"]);
    repo.lab
        .expect(2, &["harness", "check", "git:HEAD:../suites", "suites"]);
    repo.lab.expect(2, &["harness", "check", "suites", "suites"]);
}

#[test]
fn git_tricks_do_not_change_the_base() {
    // Attributes that exclude files from archives, in the base and in the repository.
    let repo = Repo::new();
    repo.lab
        .place
        .write(".gitattributes", "suites/echoes/cases/** export-ignore\n");
    repo.git(&["add", ".gitattributes"]);
    repo.commit();
    repo.lab
        .place
        .write(".git/info/attributes", "suites/** export-ignore filter=easy\n");
    repo.git(&["config", "filter.easy.smudge", "echo '{}'"]);
    repo.remove_hard_cases();
    repo.check(1);

    // A replace object for the base's commit, tree or blob.
    let repo = Repo::new();
    let hard = repo.git(&["rev-parse", "HEAD"]);
    let (tree, blob) = (
        repo.git(&["rev-parse", "HEAD:suites/echoes/cases"]),
        repo.git(&["rev-parse", "HEAD:suites/harness.toml"]),
    );
    repo.remove_hard_cases();
    repo.edit("suites/harness.toml", "0.5", "0.1");
    repo.commit();
    for (kind, from, to) in [
        ("commit", hard.clone(), "HEAD"),
        ("tree", tree, "HEAD:suites/echoes/cases"),
        ("blob", blob, "HEAD:suites/harness.toml"),
    ] {
        repo.git(&["replace", &from, to]);
        let revision = format!("git:{hard}");
        let (out, _) = repo.lab.expect(1, &["harness", "check", &revision, "suites"]);
        assert!(out.contains("c00") && out.contains("pass_rate"), "{kind}: {out}");
    }

    // Variables and settings that redirect git to another repository.
    let repo = Repo::new();
    let other = Repo::new();
    other.remove_hard_cases();
    other.commit();
    repo.remove_hard_cases();
    let elsewhere = other.lab.place.folder.path();
    for (name, value) in [
        ("GIT_DIR", elsewhere.join(".git")),
        ("GIT_OBJECT_DIRECTORY", elsewhere.join(".git/objects")),
        ("GIT_ALTERNATE_OBJECT_DIRECTORIES", elsewhere.join(".git/objects")),
        ("GIT_COMMON_DIR", elsewhere.join(".git")),
        ("GIT_WORK_TREE", elsewhere.to_path_buf()),
        ("GIT_INDEX_FILE", elsewhere.join(".git/index")),
    ] {
        let done = repo
            .lab
            .command(&["harness", "check", "git:HEAD", "suites"])
            .env(name, &value)
            .output()
            .unwrap();
        assert_eq!(done.status.code(), Some(1), "{name}");
    }
    repo.git(&["config", "core.worktree", &elsewhere.display().to_string()]);
    repo.lab
        .expect_one_of(&[1, 2], &["harness", "check", "git:HEAD", "suites"]);
}

#[test]
fn ambiguous_references_are_refused() {
    let repo = Repo::new();
    repo.git(&["update-ref", "refs/remotes/origin/main", "HEAD"]);
    repo.remove_hard_cases();
    repo.lab
        .expect(1, &["harness", "check", "git:origin/main", "suites"]);
    repo.commit();
    // Git prefers a tag to a remote branch of the same name.
    repo.git(&["tag", "origin/main", "HEAD"]);
    let (_, err) = repo
        .lab
        .expect(2, &["harness", "check", "git:origin/main", "suites"]);
    assert!(err.contains("ambiguous reference"), "{err}");
    repo.git(&["tag", "-d", "origin/main"]);
    repo.git(&["branch", "origin/main", "HEAD"]);
    repo.lab
        .expect(2, &["harness", "check", "git:origin/main", "suites"]);
    repo.git(&["branch", "-D", "origin/main"]);
    repo.lab
        .place
        .write(".git/origin/main", &repo.git(&["rev-parse", "HEAD"]));
    repo.lab
        .expect_one_of(&[1, 2], &["harness", "check", "git:origin/main", "suites"]);
    repo.lab
        .expect(1, &["harness", "check", "git:refs/remotes/origin/main", "suites"]);
}

#[test]
fn damaged_git_objects_are_refused() {
    let repo = Repo::new();
    let id = repo.git(&["rev-parse", "HEAD:suites/harness.toml"]);
    let path = repo
        .lab
        .place
        .path(&format!(".git/objects/{}/{}", &id[..2], &id[2..]));
    let mut easier = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::default());
    std::io::Write::write_all(&mut easier, b"blob 12\0alpha = 0.05").unwrap();
    let _ = fs_err::remove_file(&path);
    fs_err::write(&path, easier.finish().unwrap()).unwrap();
    repo.lab.place.write("suites/harness.toml", "alpha = 0.05");
    let (_, err) = repo.lab.expect(2, &["harness", "check", "git:HEAD", "suites"]);
    assert!(err.contains("corrupt"), "{err}");
}

#[cfg(unix)]
#[test]
fn links_submodules_and_nested_repositories_are_refused() {
    use std::os::unix::fs::symlink;
    // The directory itself becomes a link to an easier one that the base also has.
    let repo = Repo::new();
    repo.lab
        .place
        .write("easy/echoes/suite.json", r#"{"suite_id": "echoes"}"#);
    repo.lab.place.write(
        "easy/echoes/cases/c.json",
        r#"{"case_id": "c", "input": {"goal": "c"}, "expected": {"mode": "contains", "value": ""}}"#,
    );
    repo.git(&["add", "easy"]);
    repo.commit();
    fs_err::remove_dir_all(repo.lab.place.path("suites")).unwrap();
    symlink("easy", repo.lab.place.path("suites")).unwrap();
    let (_, err) = repo.lab.expect(1, &["harness", "check", "git:HEAD", "suites"]);
    assert!(err.contains("symbolic links"), "{err}");

    for link in [
        "suites/echoes/cases/c00.json",
        "suites/echoes/cases",
        "suites/echoes/data/in/deep",
        "suites/harness.toml",
    ] {
        let repo = Repo::new();
        let path = repo.lab.place.path(link);
        fs_err::rename(&path, repo.lab.place.path("moved")).unwrap();
        symlink(repo.lab.place.path("moved"), &path).unwrap();
        // In the tree, and then in the base.
        repo.lab.expect(1, &["harness", "check", "git:HEAD", "suites"]);
        repo.lab.expect(1, &["harness", "lock"]);
        repo.commit();
        repo.remove(link);
        fs_err::rename(repo.lab.place.path("moved"), &path).unwrap();
        repo.lab.expect(1, &["harness", "check", "git:HEAD", "suites"]);
    }

    // A repository in place of the directory, with an easier history.
    let repo = Repo::new();
    repo.remove_hard_cases();
    let inner = repo.lab.place.path("suites");
    git(&inner, &["init", "-q"]);
    git(&inner, &["add", "-A"]);
    git(&inner, &["commit", "-qm", "easier"]);
    repo.lab.expect(1, &["harness", "check", "git:HEAD", "suites"]);
    let done = repo
        .lab
        .command(&["harness", "check", "git:HEAD", "."])
        .current_dir(&inner)
        .output()
        .unwrap();
    assert_eq!(done.status.code(), Some(1));

    // A submodule below the harness.
    let (repo, other) = (Repo::new(), Repo::new());
    let url = other.lab.place.folder.path().display().to_string();
    repo.git(&["submodule", "add", "-q", &url, "suites/more"]);
    repo.lab.expect(1, &["harness", "check", "git:HEAD", "suites"]);
    repo.commit();
    repo.lab.expect(1, &["harness", "check", "git:HEAD", "suites"]);
}

#[test]
fn a_file_instead_of_the_directory_is_refused() {
    let repo = Repo::new();
    let (manifest, _) = repo.lab.expect(0, &["harness", "manifest"]);
    let lock = repo.lock_of_commit().render();
    for content in [manifest, lock] {
        fs_err::rename(repo.lab.place.path("suites"), repo.lab.place.path("aside")).unwrap();
        repo.lab.place.write("suites", &content);
        repo.lab
            .expect_one_of(&[1, 2], &["harness", "check", "git:HEAD", "suites"]);
        repo.lab
            .expect_one_of(&[1, 2], &["harness", "check", "aside", "suites"]);
        repo.remove("suites");
        fs_err::rename(repo.lab.place.path("aside"), repo.lab.place.path("suites")).unwrap();
    }
}

#[test]
fn every_file_that_affects_a_verdict_is_covered() {
    type Attack = (&'static str, &'static str, fn(&Repo));
    let attacks: &[Attack] = &[
        ("fixture in a directory", "suites.echoes.files", |repo| {
            repo.edit("suites/echoes/data/in/deep/b.txt", "two", "easy");
        }),
        (
            "fixture removed from a directory",
            "suites.echoes.files",
            |repo| {
                repo.remove("suites/echoes/data/in/deep/b.txt");
            },
        ),
        ("fixture added to a directory", "suites.echoes.files", |repo| {
            repo.lab.place.write("suites/echoes/data/in/answers.txt", "g");
        }),
        ("fixture renamed", "suites.echoes.files", |repo| {
            let place = |name: &str| repo.lab.place.path(name);
            fs_err::rename(
                place("suites/echoes/data/in/a.txt"),
                place("suites/echoes/data/in/c.txt"),
            )
            .unwrap();
        }),
        ("threshold lowered", "thresholds.echoes/pass_rate", |repo| {
            repo.edit("suites/harness.toml", "0.5", "0.49");
        }),
        ("rules removed", "thresholds.echoes/pass_rate", |repo| {
            repo.remove("suites/harness.toml");
        }),
        ("repeats lowered", "suites.echoes.files", |repo| {
            repo.edit(
                "suites/echoes/cases/files.json",
                "\"repeats\": 3",
                "\"repeats\": 2",
            );
        }),
        ("time limit raised", "suites.echoes.files", |repo| {
            repo.edit("suites/echoes/cases/files.json", "5000", "50000");
        }),
        (
            "graduation without evidence",
            "suites.echoes.files.tier",
            |repo| {
                repo.edit(
                    "suites/echoes/cases/files.json",
                    "\"repeats\"",
                    "\"tags\": [\"regression\"], \"repeats\"",
                );
            },
        ),
        ("whole suite graduated", "suites.echoes.c00.tier", |repo| {
            repo.edit(
                "suites/echoes/suite.json",
                "{",
                "{\"metadata\": {\"tier\": \"regression\"}, ",
            );
        }),
        (
            "determinism undeclared",
            "suites.echoes.c00.deterministic",
            |repo| {
                repo.edit("suites/echoes/suite.json", "true", "false");
            },
        ),
        ("target replaced", "targets.echoes", |repo| {
            repo.lab.place.write(
                "suites/echoes/target.toml",
                "type = \"replay\"\nfile = \"answers.jsonl\"\n",
            );
        }),
        ("target removed", "targets.echoes", |repo| {
            repo.remove("suites/echoes/target.toml");
        }),
        ("target shadowed", "targets.echoes", |repo| {
            repo.remove("suites/echoes/target.toml");
            repo.lab
                .place
                .write("suites/target.toml", "type = \"chat\"\nmodel = \"openai:easy\"\n");
        }),
        ("baseline passes lowered", "baselines.echoes.c00", |repo| {
            repo.lab.place.write(
                "suites/echoes/baseline.json",
                &baseline(&[("c00", "fail"), ("c01", "pass"), ("c02", "fail"), ("c03", "pass")]).to_string(),
            );
        }),
        ("baseline errors", "baselines.echoes.c00", |repo| {
            repo.lab.place.write(
                "suites/echoes/baseline.json",
                &baseline(&[
                    ("c00", "error"),
                    ("c01", "pass"),
                    ("c02", "fail"),
                    ("c03", "pass"),
                ])
                .to_string(),
            );
        }),
        ("baseline of other contents", "baselines.echoes.c00", |repo| {
            repo.edit("suites/echoes/baseline.json", "hash of c00", "another");
        }),
        ("baseline without a case", "baselines.echoes.c03", |repo| {
            repo.lab.place.write(
                "suites/echoes/baseline.json",
                &baseline(&[("c00", "pass"), ("c01", "pass"), ("c02", "fail")]).to_string(),
            );
        }),
        ("baseline removed", "baselines.echoes", |repo| {
            repo.remove("suites/echoes/baseline.json");
        }),
        ("baseline scores lowered", "baselines.echoes.mean_score", |repo| {
            repo.edit("suites/echoes/baseline.json", "\"score\":1.0", "\"score\":0.1");
        }),
        ("baseline not deterministic", "baselines.echoes.c00", |repo| {
            repo.edit(
                "suites/echoes/baseline.json",
                "\"deterministic\":true",
                "\"deterministic\":false",
            );
        }),
        ("sandbox off", "sandbox", |repo| {
            let text = fs_err::read_to_string(repo.lab.place.path("suites/harness.toml")).unwrap();
            repo.lab
                .place
                .write("suites/harness.toml", &format!("sandbox = \"off\"\n{text}"));
        }),
        ("own key added", "keys.approvers.agent", |repo| {
            let agent = KeyFile::generate("agent", PASSPHRASE).unwrap();
            repo.lab.settings(&[&repo.lab.key, &agent], "");
        }),
        ("key swapped under its name", "keys.approvers.anna", |repo| {
            let agent = KeyFile::generate("anna", PASSPHRASE).unwrap();
            repo.lab.settings(&[&agent], "");
        }),
        ("keys removed", "keys.approvers.anna", |repo| {
            repo.remove("satiety.toml");
        }),
        (
            "nearer settings with another key",
            "keys.approvers.agent",
            |repo| {
                let agent = KeyFile::generate("agent", PASSPHRASE).unwrap();
                let text = format!(
                    "[[harness.approvers]]\nname = \"agent\"\npublic_key = \"{}\"\n",
                    agent.public_key
                );
                repo.lab.place.write("suites/satiety.toml", &text);
            },
        ),
        (
            "a suite at the root hides the others",
            "suites.echoes.c00",
            |repo| {
                repo.lab.place.write("suites/suite.json", r#"{"suite_id": "other", "cases": [{"case_id": "x", "input": {"goal": "x"}, "expected": {"mode": "exact", "value": "x"}}]}"#);
            },
        ),
    ];
    for make in [Repo::new, Repo::locked] {
        for (name, place, attack) in attacks {
            let repo = make();
            attack(&repo);
            let checked = repo.check(1);
            let refused = checked["changes"].as_array().unwrap().iter().any(|change| {
                change["place"].as_str().unwrap().starts_with(place)
                    && (matches!(change["rigor"].as_str(), Some("weaker" | "incomparable"))
                        || change["needs_approval"] == true)
            });
            assert!(refused, "{name}: {checked:#}");
            // A lock file written by the agent does not help either, whether the old one stays, is removed or is edited.
            if repo.lab.place.path("suites/harness.lock").exists() {
                repo.lab.expect(1, &["harness", "lock", "--harness", "suites"]);
                let forged = repo.lock_of_tree().render();
                repo.lab.place.write("suites/harness.lock", &forged);
                repo.check(1);
            }
        }
    }
}

#[test]
fn the_lock_file_cannot_be_dropped_or_forged() {
    let repo = Repo::locked();
    let text = fs_err::read_to_string(repo.lab.place.path("suites/harness.lock")).unwrap();
    repo.remove("suites/harness.lock");
    assert_eq!(repo.check(1)["lock"], "invalid");
    repo.lab.place.write(
        "suites/harness.lock",
        &text.replace("\"passed\": 1", "\"passed\": 0"),
    );
    repo.lab.expect(1, &["harness", "check", "git:HEAD", "suites"]);
    // A valid lock of a different harness.
    let mut forged = Lock::parse(&text).unwrap();
    forged.keys.approvers[0].public_key = "ab".repeat(32);
    forged.manifest.alpha = 1.0;
    repo.lab.place.write("suites/harness.lock", &forged.render());
    assert_eq!(repo.check(1)["lock"], "invalid");
    // If it were merged anyway, the tree of the base would be checked as well.
    repo.commit();
    let agent = KeyFile::generate("agent", PASSPHRASE).unwrap();
    repo.lab.settings(&[&agent], "");
    repo.remove_hard_cases();
    repo.check(1);
    // A different identity.
    let repo = Repo::locked();
    let mut other = Lock::parse(&text).unwrap();
    other.id = Some("harness-other".into());
    repo.lab.place.write("suites/harness.lock", &other.render());
    repo.check(1);
}

#[test]
fn a_signed_transition_allows_exactly_its_step() {
    for make in [Repo::new, Repo::locked] {
        let repo = make();
        repo.remove("suites/echoes/cases/c01.json");
        repo.check(1);
        let transition = repo.transition(&repo.lab.key, (0, 24));
        let checked = repo.check(0);
        assert_eq!(checked["transitions"], json!([transition.statement.id]));
        // More than was signed.
        repo.remove("suites/echoes/cases/c02.json");
        repo.check(1);
        repo.git(&["checkout", "-q", "HEAD", "--", "suites/echoes/cases/c02.json"]);
        repo.check(0);
        repo.commit();
        repo.check(0);
        // The case is added again; the same signature does not allow removing it again.
        let case = repo.git(&["show", "HEAD~1:suites/echoes/cases/c01.json"]);
        repo.lab.place.write("suites/echoes/cases/c01.json", &case);
        repo.lab
            .expect_one_of(&[0], &["harness", "check", "git:HEAD", "suites"]);
        if repo.lab.place.path("suites/harness.lock").exists() {
            repo.lab.expect(0, &["harness", "lock"]);
        }
        repo.commit();
        repo.remove("suites/echoes/cases/c01.json");
        repo.check(1);
        repo.remove(&format!(
            "suites/.harness/transitions/{}.json",
            transition.statement.id
        ));
        repo.check(1);
        repo.write_transition(&transition);
        repo.check(1);
    }
}

#[test]
fn expired_and_untrusted_signatures_are_rejected() {
    let agent = KeyFile::generate("agent", PASSPHRASE).unwrap();
    let named_anna = KeyFile::generate("anna", PASSPHRASE).unwrap();
    for (key, hours) in [(&agent, (0, 24)), (&named_anna, (0, 24))] {
        let repo = Repo::new();
        repo.remove_hard_cases();
        repo.transition(key, hours);
        repo.check(1);
        // A key in the new side's settings does not help either.
        repo.lab.settings(&[&repo.lab.key, key], "");
        repo.check(1);
        repo.lab.settings(&[key], "");
        repo.transition(key, hours);
        repo.check(1);
    }
    for hours in [(-48, -1), (1, 24), (0, 24 * 31)] {
        let repo = Repo::new();
        repo.remove_hard_cases();
        repo.transition(&repo.lab.key, hours);
        repo.check(1);
    }
}

#[test]
fn an_approved_retirement_does_not_allow_another() {
    let repo = Repo::new();
    let lab = &repo.lab;
    lab.cycles(1);
    let content = json!({"expansion_proposals": {"retirements": [{"suite": "echoes", "case_id": "c01",
        "reason": "its answer depends on the day", "audited_by": "anna",
        "replacement": {"case_id": "c01b", "input": {"goal": "c01b"}, "expected": {"mode": "exact", "value": "c01b"}}}]}});
    lab.place.write("p.json", &content.to_string());
    lab.expect(0, &["harness", "propose", "p.json"]);
    lab.approve(0, &lab.signed(&lab.key, 0, 24));
    lab.json(0, &["harness", "apply"]);
    repo.check(0);
    repo.commit();
    // A hard case with the retired case's name, removed with the same text.
    lab.place.write(
        "suites/echoes/cases/c01.json",
        r#"{"case_id": "c01", "input": {"goal": "hard"}, "expected": {"mode": "exact", "value": "harder"}}"#,
    );
    repo.check(0);
    repo.commit();
    lab.cycles(1);
    let manifest: Value = serde_json::from_str(&lab.expect(0, &["harness", "manifest"]).0).unwrap();
    let case = &manifest["suites"]["echoes"]["c01"];
    repo.remove("suites/echoes/cases/c01.json");
    let rules = fs_err::read_to_string(lab.place.path("suites/harness.toml")).unwrap();
    lab.place.write(
        "suites/harness.toml",
        &format!(
            "{rules}\n[retired.{}]\nsuite = \"echoes\"\ncase_id = \"c01\"\ninput_hash = {}\nreason = \"its answer depends on the day\"\naudited_by = \"anna\"\nreplacement = \"c01b\"\n",
            case["hash"].as_str().unwrap(),
            case["input_hash"]
        ),
    );
    repo.check(1);
    lab.expect(0, &["bench", "run", "suites/echoes", "--quiet"]);
    lab.expect(1, &["harness", "record"]);
}

#[test]
fn first_keys_must_be_accepted_explicitly() {
    let repo = Repo::new();
    repo.remove("satiety.toml");
    repo.git(&["add", "-A", "."]);
    repo.git(&["commit", "-qm", "no keys"]);
    repo.lab.settings(&[&repo.lab.key], "");
    let arguments = ["harness", "check", "git:HEAD", "suites"];
    let (out, _) = repo.lab.expect(1, &arguments);
    assert!(out.contains("first approver key: anna"), "{out}");
    let mut accepting = arguments.to_vec();
    accepting.push("--accept-first-keys");
    repo.lab.expect(0, &accepting);
    // Keys do not count for the change that adds them.
    repo.remove_hard_cases();
    repo.transition(&repo.lab.key, (0, 24));
    repo.lab.expect(1, &accepting);
}

#[test]
fn recording_applies_the_same_checks_as_the_lock() {
    for attack in [
        |repo: &Repo| repo.edit("suites/echoes/data/in/a.txt", "one", "easy"),
        |repo: &Repo| {
            repo.edit("suites/echoes/target.toml", "echo", "replay");
            repo.lab.place.write(
                "suites/echoes/target.toml",
                "type = \"chat\"\nmodel = \"openai:easy\"\n",
            );
        },
        |repo: &Repo| repo.remove("suites/echoes/baseline.json"),
        |repo: &Repo| {
            let text = fs_err::read_to_string(repo.lab.place.path("suites/harness.toml")).unwrap();
            repo.lab
                .place
                .write("suites/harness.toml", &format!("sandbox = \"off\"\n{text}"));
        },
    ] {
        let repo = Repo::new();
        repo.lab.cycles(1);
        repo.lab.expect(0, &["bench", "run", "suites/echoes", "--quiet"]);
        attack(&repo);
        let (_, err) = repo.lab.expect(1, &["harness", "record"]);
        assert!(err.contains("weaker than the recorded harness"), "{err}");
        repo.lab.propose(1, &[("n1", true)]);
        repo.lab.expect(1, &["harness", "verify"]);
    }
}

#[test]
fn signing_shows_the_complete_transition_escaped() {
    let repo = Repo::locked();
    repo.edit(
        "suites/echoes/cases/c01.json",
        "\"value\": \"c01\"",
        "\"value\": \"\\u001b[2J\\u202ec02\"",
    );
    repo.check(1);
    let arguments = [
        "harness",
        "transition",
        "--key",
        "anna.key",
        "--reason",
        "case 1 was\u{1b}[31m wrong",
    ];
    let (code, seen) = repo
        .lab
        .at_a_terminal(&[("hash to approve it: ", "00000000")], &arguments);
    assert_eq!(code, 2, "{seen}");
    for words in [
        "suites.echoes.c01",
        "case echoes/c01 changed",
        "expected old",
        "expected new",
        "can sign: a terminal proves neither presence nor identity",
        "case 1 was\\u{1b}[31m wrong",
    ] {
        assert!(seen.contains(words), "{words}: {seen}");
    }
    assert!(!seen.contains('\u{1b}') && !seen.contains('\u{202e}'), "{seen:?}");
    // The signed content changes with every call, so the first characters are read from the screen.
    let mut command = Command::new("python3");
    command
        .args(["-c", SIGN, PASSPHRASE, env!("CARGO_BIN_EXE_satiety")])
        .args(arguments)
        .current_dir(repo.lab.place.folder.path())
        .env_clear();
    for (name, value) in repo.lab.command(&[]).get_envs() {
        if let Some(value) = value {
            command.env(name, value);
        }
    }
    let done = command.output().unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stdout));
    let checked = repo.check(0);
    assert_eq!(checked["transitions"].as_array().unwrap().len(), 1);
    assert_eq!(checked["lock"], "current");
    // Without a terminal nothing is signed.
    repo.edit(
        "suites/echoes/cases/c02.json",
        "\"value\": \"c02\"",
        "\"value\": \"\"",
    );
    let (_, err) = repo.lab.expect(2, &arguments);
    assert!(err.contains("terminal"), "{err}");
}

#[test]
fn a_locked_gate_rejects_weaker_options() {
    let repo = Repo::locked();
    repo.lab
        .place
        .write("other.toml", "type = \"chat\"\nmodel = \"openai:easy\"\n");
    for (options, says) in [
        (&["--case", "c00"][..], "--case"),
        (&["--repeats", "1"][..], "--repeats"),
        (&["--timeout", "60"][..], "--timeout"),
        (&["--target", "other.toml"][..], "--target"),
        (&["--no-sandbox"][..], "--no-sandbox"),
        (&["--sequential"][..], "--sequential"),
        (
            &["--until-decided", "--baseline-target", "exec:false"][..],
            "--until-decided",
        ),
        (&["--on-inconclusive", "pass"][..], "--on-inconclusive"),
    ] {
        let mut arguments = vec!["bench", "run", "suites/echoes", "--gate"];
        arguments.extend(options);
        let (_, err) = repo.lab.expect(2, &arguments);
        assert!(err.contains("with weaker options") && err.contains(says), "{err}");
    }
    // The gate decides as usual: this baseline is of other contents.
    repo.lab.expect_one_of(
        &[0, 3],
        &["bench", "run", "suites/echoes", "--gate", "--target", "echo"],
    );
    repo.edit("suites/echoes/cases/c00.json", "\"exact\"", "\"contains\"");
    let (_, err) = repo.lab.expect(1, &["bench", "run", "suites/echoes", "--gate"]);
    assert!(
        err.contains("weaker than") && err.contains("suites.echoes.c00"),
        "{err}"
    );
    // Without a gate the same run has no verdict.
    repo.lab.expect(0, &["bench", "run", "suites/echoes", "--quiet"]);
}
