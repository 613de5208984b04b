//! The conversations of `examples/conversations` as a judged collection: each turn is a memory, as a chat import saves it.

use std::collections::HashMap;
use std::path::Path;

use anyhow::Result;
use jiff::civil::DateTime;
use serde::Deserialize;

use crate::quality::{Collection, Document, Judgments};

#[derive(Deserialize)]
struct Conversation {
    id: String,
    sessions: Vec<Session>,
    questions: Vec<Question>,
}

#[derive(Deserialize)]
struct Session {
    date: DateTime,
    turns: Vec<Turn>,
}

#[derive(Deserialize)]
struct Turn {
    speaker: String,
    text: String,
}

#[derive(Deserialize)]
struct Question {
    kind: String,
    #[serde(rename = "question")]
    text: String,
    evidence: Vec<String>,
}

/// Reads all conversations, in the order of their names.
pub(crate) fn read(directory: &Path) -> Result<Collection> {
    let entries = fs_err::read_dir(directory)?.filter_map(|entry| Some(entry.ok()?.path()));
    let mut files: Vec<_> = entries
        .filter(|path| path.extension().is_some_and(|extension| extension == "json"))
        .collect();
    files.sort();
    let mut collection = Collection {
        name: "conversations".into(),
        ..Collection::default()
    };
    for file in files {
        let conversation: Conversation = serde_json::from_str(&fs_err::read_to_string(&file)?)?;
        let id = &conversation.id;
        for (session, at) in conversation.sessions.iter().zip(1..) {
            for (turn, number) in session.turns.iter().zip(1..) {
                collection.documents.push(Document {
                    id: format!("{id}:{at}:{number}"),
                    title: session.date.strftime("%-d %B %Y").to_string(),
                    text: format!("{}: {}", turn.speaker, turn.text),
                });
            }
        }
        for question in conversation.questions {
            let query = format!("{id}-{}", collection.queries.len());
            let grades: HashMap<String, f64> = question
                .evidence
                .iter()
                .map(|turn| (format!("{id}:{turn}"), 1.0))
                .collect();
            if !grades.is_empty() {
                collection.judgments.insert(query.clone(), grades);
            }
            collection.kinds.insert(query.clone(), question.kind);
            collection.queries.push(Document {
                id: query,
                title: String::new(),
                text: question.text,
            });
        }
    }
    Ok(collection)
}

/// Judgments of the questions of one kind.
pub(crate) fn of_kind(collection: &Collection, kind: &str) -> Judgments {
    let judged = collection.judgments.iter();
    judged
        .filter(|(query, _)| collection.kinds.get(*query).is_some_and(|own| own == kind))
        .map(|(query, grades)| (query.clone(), grades.clone()))
        .collect()
}
