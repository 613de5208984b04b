//! Recording and replay of searches: results without keys, network access or randomness.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::pin::Pin;

use satiety::research::Hit;
use satiety::text::normalize;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tokio::io::AsyncWriteExt as _;
use tokio::sync::Mutex;

use super::{SearchError, SearchFuture, Source};

/// One recorded search: a line of JSON.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
struct Line {
    source: String,
    query: String,
    count: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    results: Option<Vec<Hit>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

/// A source whose answers are recorded.
#[derive(Debug)]
pub struct Recorder<'e> {
    inner: Box<dyn Source + 'e>,
    path: PathBuf,
    writing: Mutex<()>,
}

impl<'e> Recorder<'e> {
    /// Appends the answers of `inner` to a file.
    pub fn new(inner: Box<dyn Source + 'e>, path: &Path) -> Self {
        Self {
            inner,
            path: path.to_owned(),
            writing: Mutex::new(()),
        }
    }

    async fn write(&self, line: &Line) -> Result<(), SearchError> {
        let unwritable = |reason: String| SearchError::Unreadable {
            path: self.path.display().to_string(),
            reason,
        };
        let mut text = serde_json::to_string(line).map_err(|error| unwritable(error.to_string()))?;
        text.push('\n');
        let _turn = self.writing.lock().await;
        let mut file = fs_err::tokio::OpenOptions::new()
            .create(true)
            .append(true)
            .open(&self.path)
            .await
            .map_err(|error| unwritable(error.kind().to_string()))?;
        let written = async {
            file.write_all(text.as_bytes()).await?;
            file.flush().await
        };
        written
            .await
            .map_err(|error: std::io::Error| unwritable(error.kind().to_string()))
    }
}

impl Source for Recorder<'_> {
    fn id(&self) -> &str {
        self.inner.id()
    }

    fn search<'a>(&'a self, query: &'a str, count: u32) -> SearchFuture<'a> {
        Box::pin(async move {
            let answer = self.inner.search(query, count).await;
            let (results, error) = match &answer {
                Ok(results) => (Some(results.clone()), None),
                Err(error) => (None, Some(error.to_string())),
            };
            self.write(&Line {
                source: self.inner.id().to_owned(),
                query: query.to_owned(),
                count,
                results,
                error,
            })
            .await?;
            answer
        })
    }

    /// Answers from the cache would be missing from the recording.
    fn is_cacheable(&self) -> bool {
        false
    }

    fn notes(&self) -> &[String] {
        self.inner.notes()
    }

    fn close(&self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        self.inner.close()
    }
}

/// Replays a recording. A query that was not recorded is an error; so is one that failed.
#[derive(Debug)]
pub struct Replay {
    id: String,
    file: String,
    answers: BTreeMap<String, Result<Vec<Hit>, String>>,
}

impl Replay {
    /// Opens a recording.
    pub fn open(path: &Path) -> Result<Self, SearchError> {
        let file = path.display().to_string();
        let unreadable = |reason: String| SearchError::Unreadable {
            path: file.clone(),
            reason,
        };
        let text = fs_err::read_to_string(path).map_err(|error| unreadable(error.kind().to_string()))?;
        let mut answers = BTreeMap::new();
        let mut source = None;
        for (number, line) in (1..)
            .zip(text.lines())
            .filter(|(_, line)| !line.trim().is_empty())
        {
            let line: Line =
                serde_json::from_str(line).map_err(|error| unreadable(format!("line {number}: {error}")))?;
            let answer = match (line.results, line.error) {
                (Some(results), None) => Ok(results),
                (None, Some(error)) => Err(error),
                _ => {
                    return Err(unreadable(format!(
                        "line {number}: expected either `results` or `error`"
                    )));
                }
            };
            source.get_or_insert(line.source);
            // For repeated queries the last answer counts: a failure may have been retried.
            answers.insert(normalize(&line.query), answer);
        }
        Ok(Self {
            id: format!("replay:{}", source.unwrap_or_default()),
            file,
            answers,
        })
    }
}

impl Source for Replay {
    fn id(&self) -> &str {
        &self.id
    }

    fn search<'a>(&'a self, query: &'a str, count: u32) -> SearchFuture<'a> {
        let answer = match self.answers.get(&normalize(query)) {
            Some(Ok(results)) => Ok(results.iter().take(count as usize).cloned().collect()),
            Some(Err(error)) => Err(SearchError::Tool {
                name: "the recorded search".into(),
                reason: error.clone(),
            }),
            None => Err(SearchError::NotRecorded {
                file: self.file.clone(),
                query: query.to_owned(),
            }),
        };
        Box::pin(std::future::ready(answer))
    }

    fn is_cacheable(&self) -> bool {
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug)]
    struct Fixed;

    impl Source for Fixed {
        fn id(&self) -> &'static str {
            "fixed"
        }

        fn search<'a>(&'a self, query: &'a str, _count: u32) -> SearchFuture<'a> {
            let answer = match query {
                "bad" => Err(SearchError::Tool {
                    name: "fixed".into(),
                    reason: "no".into(),
                }),
                _ => Ok(vec![Hit::new(query, "u", "s"), Hit::new("two", "v", "t")]),
            };
            Box::pin(std::future::ready(answer))
        }
    }

    #[tokio::test]
    async fn recorded_searches_are_replayed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("searches.jsonl");
        let recorder = Recorder::new(Box::new(Fixed), &path);
        let live = recorder.search("Heated wings", 5).await.unwrap();
        assert!(recorder.search("bad", 5).await.is_err());
        let replay = Replay::open(&path).unwrap();
        assert_eq!(replay.id(), "replay:fixed");
        assert_eq!(replay.search("heated  WINGS", 5).await.unwrap(), live);
        assert_eq!(replay.search("heated wings", 1).await.unwrap().len(), 1);
        let error = replay.search("bad", 5).await.unwrap_err().to_string();
        assert!(error.contains("fixed failed: no"), "{error}");
        let error = replay.search("other", 5).await.unwrap_err();
        assert!(matches!(error, SearchError::NotRecorded { .. }), "{error}");
    }

    #[test]
    fn a_damaged_recording_is_refused_with_its_line() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("searches.jsonl");
        fs_err::write(
            &path,
            "{\"source\":\"x\",\"query\":\"q\",\"count\":1,\"results\":[]}\n{oops\n",
        )
        .unwrap();
        let error = Replay::open(&path).unwrap_err().to_string();
        assert!(error.contains("line 2"), "{error}");
    }
}
