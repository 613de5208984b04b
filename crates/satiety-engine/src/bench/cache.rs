//! Cache of target responses, and the keys that identify equal requests.
//!
//! A key is a content hash: the target's description with the files it names, the input, the variant, the
//! repeat and the seed. So another suite with the same case reuses the response, a changed agent does not,
//! and no repeat is ever answered with the output of another repeat.

use std::fmt;
use std::path::Path;
use std::pin::Pin;

use satiety::bench::contract::spec::{ExecSpec, McpSpec, ReplaySpec, WorkerSpec};
use satiety::bench::contract::{Request, Response, TargetSpec};
use serde_json::json;

/// Future returned by a [`ResponseCache`].
pub type CacheFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Stores responses by key. Errors count as cache misses: a cache never fails a run.
pub trait ResponseCache: fmt::Debug + Send + Sync {
    fn get<'a>(&'a self, key: &'a str) -> CacheFuture<'a, Option<Response>>;
    fn put<'a>(&'a self, key: &'a str, response: &'a Response) -> CacheFuture<'a, ()>;
}

/// Hash of a target's configuration: the description and the content of the files it names.
pub fn target_hash(spec: &TargetSpec, base: &Path) -> String {
    let mut hasher = blake3::Hasher::new();
    hasher.update(b"satiety target v1\n");
    // Serialisation cannot fail: the maps of a description have string keys.
    hasher.update(&serde_json::to_vec(spec).unwrap_or_default());
    for file in named_files(spec) {
        hash_path(&mut hasher, base, &file.replace("{{base}}/", ""));
    }
    hasher.finalize().to_hex().to_string()
}

/// Key of a response. `suite` is the directory of the case's files; their content is part of the key.
pub fn cache_key(target_hash: &str, request: &Request, suite: &Path) -> String {
    let question = json!({
        "target": target_hash,
        "input": request.input,
        "variant": request.variant,
        "skill_dir": request.skill_dir,
        "repeat": request.repeat,
        "seed": request.seed,
    });
    let mut hasher = blake3::Hasher::new();
    hasher.update(b"satiety answer v1\n");
    hasher.update(question.to_string().as_bytes());
    for file in &request.input.files {
        hash_path(&mut hasher, suite, file);
    }
    if let Some(skill) = &request.skill_dir {
        hash_path(&mut hasher, Path::new(""), skill);
    }
    hasher.finalize().to_hex().to_string()
}

/// Files named in a description, which may change while the description does not.
fn named_files(spec: &TargetSpec) -> Vec<&str> {
    fn all<'a>(command: &'a str, args: &'a [String], files: &'a [String]) -> Vec<&'a str> {
        let script = Some(command).filter(|command| command.contains('/'));
        script
            .into_iter()
            .chain(args.iter().map(String::as_str))
            .chain(files.iter().map(String::as_str))
            .collect()
    }
    match spec {
        TargetSpec::Exec(ExecSpec {
            command, args, files, ..
        })
        | TargetSpec::Worker(WorkerSpec {
            command, args, files, ..
        }) => all(command, args, files),
        TargetSpec::Mcp(McpSpec { command, args, .. }) => {
            all(command.as_deref().unwrap_or_default(), args, &[])
        }
        TargetSpec::Replay(ReplaySpec { file }) => vec![file],
        TargetSpec::Http(_) | TargetSpec::Chat(_) | TargetSpec::Echo(_) => Vec::new(),
    }
}

/// Hashes a file, or the files of a directory in name order; a missing file contributes its name only.
fn hash_path(hasher: &mut blake3::Hasher, base: &Path, name: &str) {
    let path = base.join(name);
    if path.is_dir() {
        let mut names: Vec<_> = fs_err::read_dir(&path)
            .into_iter()
            .flatten()
            .filter_map(|entry| Some(entry.ok()?.file_name().to_string_lossy().into_owned()))
            .collect();
        names.sort();
        for name in names {
            hash_path(hasher, &path, &name);
        }
    } else if let Ok(content) = fs_err::read(&path) {
        for part in [name.as_bytes(), &content] {
            // Length-prefixed, so that different lists of parts cannot collide.
            hasher.update(&(part.len() as u64).to_le_bytes());
            hasher.update(part);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_part_of_the_request_changes_the_key() {
        let folder = tempfile::tempdir().unwrap();
        fs_err::write(folder.path().join("in.txt"), "one").unwrap();
        let mut first = Request {
            suite_id: "a".into(),
            case_id: "x".into(),
            variant: "control".into(),
            ..Request::default()
        };
        first.input.goal = "goal".into();
        first.input.files = vec!["in.txt".into()];
        let key = |request: &Request| cache_key("hash", request, folder.path());
        let same = Request {
            suite_id: "b".into(),
            case_id: "y".into(),
            run_id: "other".into(),
            attempt: 3,
            deadline_ms: 9,
            ..first.clone()
        };
        assert_eq!(key(&first), key(&same));
        let mut other_goal = first.clone();
        other_goal.input.goal = "goal ".into();
        let others = [
            Request {
                repeat: 1,
                ..first.clone()
            },
            Request {
                seed: 1,
                ..first.clone()
            },
            Request {
                variant: "b".into(),
                ..first.clone()
            },
            Request {
                skill_dir: Some("s".into()),
                ..first.clone()
            },
            other_goal,
        ];
        let mut keys: Vec<String> = others.iter().map(key).collect();
        keys.push(key(&first));
        keys.push(cache_key("hash2", &first, folder.path()));
        fs_err::write(folder.path().join("in.txt"), "two").unwrap();
        keys.push(key(&first));
        let count = keys.len();
        keys.sort();
        keys.dedup();
        assert_eq!(keys.len(), count);
    }

    #[test]
    fn a_changed_program_changes_the_target_hash() {
        let folder = tempfile::tempdir().unwrap();
        let spec: TargetSpec = serde_json::from_value(json!({
            "type": "exec", "command": "python3", "args": ["{{base}}/agent.py"]
        }))
        .unwrap();
        let hash = || target_hash(&spec, folder.path());
        let none = hash();
        fs_err::write(folder.path().join("agent.py"), "print(1)").unwrap();
        let one = hash();
        assert_eq!(one, hash());
        fs_err::write(folder.path().join("agent.py"), "print(2)").unwrap();
        assert!(none != one && one != hash());
    }
}
