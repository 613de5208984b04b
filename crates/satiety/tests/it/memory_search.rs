//! Memory search by words alone, on the conversations and languages of `examples`: no model is needed, so these run
//! everywhere. With the built-in model, `perf --bin memory -- --section quality` measures the same sets.
#![expect(clippy::unwrap_used, reason = "a panic fails the test")]

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use satiety::memory::{
    Action, IndexedChunk, IndexedMemory, MemoryFilter, MemoryIndex, MemorySearch, Mode, Observation,
    Pipeline, Provenance, Scope, SearchMachine, SearchOutcome, SearchQuery, SessionHistory,
};
use satiety::retrieval::Tier;
use serde_json::{Value, json};

fn examples() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples")
}

/// An index by words, and the texts of its memories.
#[derive(Default)]
struct Memory {
    index: MemoryIndex,
    texts: Vec<String>,
}

impl Memory {
    fn save(&mut self, id: &str, title: &str, text: &str) {
        self.index.put(IndexedMemory {
            id: id.into(),
            title: title.into(),
            tier: Tier::Normal,
            kind: String::new(),
            confidence: 0.5,
            expires_at: None,
            bytes: text.len(),
            folder: String::new(),
            project: None,
            phrases: Vec::new(),
            provenance: Provenance::default(),
        });
        let doc = i64::try_from(self.texts.len()).unwrap();
        let chunk = IndexedChunk {
            doc,
            title,
            phrases: "",
            body: text,
            vector: None,
        };
        self.index.set_chunks(id, &[chunk]);
        self.texts.push(text.into());
    }

    fn search(&self, query: &str, changes: &Value) -> MemorySearch {
        let mut machine = SearchMachine::new(
            Arc::new(Pipeline::with(changes).unwrap()),
            SearchQuery {
                text: query.into(),
                mode: Some(Mode::Focused),
                limit: Some(10),
                token_budget: None,
                token_usage: None,
                folder: String::new(),
                scope: Scope::All,
                skip_shown: false,
                filter: MemoryFilter::default(),
                as_of: None,
                below_floor: false,
            },
        );
        let index = Arc::new(self.index.clone());
        loop {
            match machine.next() {
                Action::EmbedQuery => machine.observe(Observation::QueryVector {
                    vector: None,
                    took_ms: 0.0,
                }),
                Action::OpenIndex => machine.observe(Observation::Index {
                    index: Arc::clone(&index),
                    history: SessionHistory::default(),
                    now: 0,
                }),
                Action::Compute { .. } => machine.compute(&|| 0.0),
                Action::ReadLinks(_) => machine.observe(Observation::Links(Vec::new())),
                Action::ReadTexts(docs) => {
                    let text = |doc: i64| Some((doc, self.texts.get(usize::try_from(doc).ok()?)?.clone()));
                    machine.observe(Observation::Texts(docs.into_iter().filter_map(text).collect()));
                }
                Action::Done => return machine.finish("q".into(), "t".into(), None, 1.0),
            }
        }
    }
}

struct Question {
    text: String,
    evidence: BTreeSet<String>,
}

fn conversations() -> (Memory, Vec<Question>) {
    let (mut memory, mut questions) = (Memory::default(), Vec::new());
    let files = std::fs::read_dir(examples().join("conversations")).unwrap();
    let mut files: Vec<PathBuf> = files.map(|file| file.unwrap().path()).collect();
    files.sort();
    for file in files
        .iter()
        .filter(|file| file.extension().is_some_and(|end| end == "json"))
    {
        let conversation: Value = serde_json::from_str(&std::fs::read_to_string(file).unwrap()).unwrap();
        let name = conversation["id"].as_str().unwrap();
        for (session, at) in conversation["sessions"].as_array().unwrap().iter().zip(1..) {
            for (turn, number) in session["turns"].as_array().unwrap().iter().zip(1..) {
                let text = format!(
                    "{}: {}",
                    turn["speaker"].as_str().unwrap(),
                    turn["text"].as_str().unwrap()
                );
                memory.save(
                    &format!("{name}:{at}:{number}"),
                    session["date"].as_str().unwrap(),
                    &text,
                );
            }
        }
        for question in conversation["questions"].as_array().unwrap() {
            let turns = question["evidence"].as_array().unwrap().iter();
            let evidence: BTreeSet<String> = turns
                .map(|turn| format!("{name}:{}", turn.as_str().unwrap()))
                .collect();
            assert_eq!(
                evidence.is_empty(),
                question["kind"] == "unanswerable",
                "{question}"
            );
            questions.push(Question {
                text: question["question"].as_str().unwrap().into(),
                evidence,
            });
        }
    }
    (memory, questions)
}

/// Mean share of the evidence among the first ten results.
fn recall(memory: &Memory, questions: &[Question], changes: &Value) -> f64 {
    let answerable: Vec<&Question> = questions.iter().filter(|one| !one.evidence.is_empty()).collect();
    let found: f64 = answerable
        .iter()
        .map(|question| {
            let results = memory.search(&question.text, changes).results;
            let hits = results
                .iter()
                .filter(|result| question.evidence.contains(&result.id))
                .count();
            hits as f64 / question.evidence.len() as f64
        })
        .sum();
    found / answerable.len() as f64
}

#[test]
fn neighboring_turns_help_to_find_what_was_said() {
    let (memory, questions) = conversations();
    assert_eq!((memory.texts.len(), questions.len()), (670, 200));
    let ids: BTreeSet<String> = memory.index.ids().map(str::to_owned).collect();
    assert!(questions.iter().all(|question| question.evidence.is_subset(&ids)));
    let alone = recall(
        &memory,
        &questions,
        &json!({"turns": {"before": 0.0, "after": 0.0, "second": 0.0}}),
    );
    let together = recall(&memory, &questions, &json!({}));
    assert!(together > 0.57, "{together}");
    assert!(together > alone + 0.02, "{together} {alone}");
}

#[test]
fn nonsense_finds_nothing() {
    let (memory, _) = conversations();
    for query in ["xkqj vbnm plrt", "florble grimpish wazoo"] {
        let found = memory.search(query, &json!({}));
        assert_eq!(found.outcome, SearchOutcome::NothingRelevant, "{query}");
        assert!(found.results.is_empty(), "{query}");
    }
    let found = memory.search("What did Tobias find under the brambles?", &json!({}));
    assert_eq!(found.outcome, SearchOutcome::Relevant);
    assert!(found.results[0].confidence > found.results[9].confidence);
}

/// Questions and notes in one language each, all in one index: words find the note of the same language.
#[test]
fn notes_in_nine_languages_are_found_by_their_words() {
    let text = std::fs::read_to_string(examples().join("languages.jsonl")).unwrap();
    let notes: Vec<Value> = text
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let mut memory = Memory::default();
    for note in &notes {
        memory.save(note["id"].as_str().unwrap(), "", note["text"].as_str().unwrap());
    }
    let mut first: BTreeMap<&str, usize> = BTreeMap::new();
    let mut missed: HashMap<&str, Vec<&str>> = HashMap::new();
    for note in &notes {
        let (language, query) = (
            note["language"].as_str().unwrap(),
            note["query"].as_str().unwrap(),
        );
        let found = memory.search(query, &json!({}));
        let is_first = found
            .results
            .first()
            .is_some_and(|result| note["id"] == json!(result.id));
        *first.entry(language).or_default() += usize::from(is_first);
        if !is_first {
            missed.entry(language).or_default().push(query);
        }
    }
    assert_eq!(first.len(), 9);
    for (language, count) in first {
        assert!(
            count >= 9,
            "{language}: {count} of 12, missed {:?}",
            missed.get(language)
        );
    }
}
