//! Traces: what came into a context in each turn and what the turn really used. JSON Lines, a line a turn:
//!
//! ```json
//! {"session": "s1", "turn": 3, "goal": "fix the build", "add": [{"ctx_id": "log", "zone": "workspace", "kind": "tool_result",
//!  "token_count": 812}], "use": ["readme"]}
//! ```
//!
//! Turns of a session rise; a turn may use only what came before it or with it.

use std::collections::{BTreeMap, BTreeSet};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::super::error::EvictionError;
use super::super::item::ContextItem;

/// One turn of one session.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TraceTurn {
    /// The session; lines without one belong to a session of their own.
    #[serde(default)]
    pub session: String,
    /// The turn, rising within a session.
    pub turn: u64,
    /// What the agent is after from now on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub goal: Option<String>,
    /// What comes into the context.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub add: Vec<ContextItem>,
    /// Ids of what the turn uses.
    #[serde(default, rename = "use", skip_serializing_if = "Vec::is_empty")]
    pub uses: Vec<String>,
}

/// One session.
#[derive(Debug, Clone, PartialEq)]
pub struct Session {
    /// Its name.
    pub id: String,
    /// Its turns, in order.
    pub turns: Vec<TraceTurn>,
}

impl Session {
    /// Tokens of everything that ever comes in.
    pub fn tokens(&self) -> u64 {
        self.turns
            .iter()
            .flat_map(|turn| &turn.add)
            .map(|item| item.token_count)
            .sum()
    }
}

/// Reads a trace. Sessions come in the order of their names.
pub fn read_trace(text: &str) -> Result<Vec<Session>, EvictionError> {
    let mut sessions: BTreeMap<String, (Session, BTreeSet<String>)> = BTreeMap::new();
    for (number, line) in (1..).zip(text.lines()) {
        if line.trim().is_empty() {
            continue;
        }
        let wrong = |reason: String| EvictionError::Trace { line: number, reason };
        let mut reader = serde_json::Deserializer::from_str(line);
        let mut turn: TraceTurn =
            serde_path_to_error::deserialize(&mut reader).map_err(|error| wrong(error.to_string()))?;
        let (session, known) = sessions.entry(turn.session.clone()).or_insert_with(|| {
            let session = Session {
                id: turn.session.clone(),
                turns: Vec::new(),
            };
            (session, BTreeSet::new())
        });
        if let Some(last) = session.turns.last().filter(|last| last.turn >= turn.turn) {
            return Err(wrong(format!(
                "turn {} comes after turn {}",
                turn.turn, last.turn
            )));
        }
        for item in &mut turn.add {
            (item.created_turn, item.last_referenced_turn) = (turn.turn, turn.turn);
            item.check().map_err(|error| wrong(error.to_string()))?;
            if !known.insert(item.ctx_id.clone()) {
                return Err(wrong(format!("`{}` came before", item.ctx_id)));
            }
        }
        if let Some(id) = turn.uses.iter().find(|id| !known.contains(*id)) {
            return Err(wrong(format!("`{id}` is used before it came")));
        }
        session.turns.push(turn);
    }
    if sessions.is_empty() {
        return Err(EvictionError::Trace {
            line: 1,
            reason: "there is no turn".into(),
        });
    }
    Ok(sessions.into_values().map(|(session, _)| session).collect())
}

/// Writes a trace that [`read_trace`] reads.
pub fn write_trace(sessions: &[Session]) -> String {
    let mut text = String::new();
    for turn in sessions.iter().flat_map(|session| &session.turns) {
        // Strings, numbers and lists of them: nothing that JSON cannot hold.
        text.push_str(&serde_json::to_string(turn).unwrap_or_default());
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trace_is_read_and_written() {
        let text = concat!(
            r#"{"session":"b","turn":0,"add":[{"ctx_id":"x","zone":"memory","token_count":5}]}"#,
            "\n\n",
            r#"{"session":"a","turn":4,"goal":"go","add":[{"ctx_id":"x","zone":"chronicle","token_count":7}],"use":["x"]}"#,
            "\n",
            r#"{"session":"b","turn":2,"use":["x"]}"#,
        );
        let sessions = read_trace(text).unwrap();
        assert_eq!(
            sessions
                .iter()
                .map(|s| (s.id.as_str(), s.turns.len()))
                .collect::<Vec<_>>(),
            [("a", 1), ("b", 2)]
        );
        assert_eq!(sessions[0].turns[0].add[0].created_turn, 4);
        assert_eq!(sessions[0].tokens(), 7);
        assert_eq!(read_trace(&write_trace(&sessions)).unwrap(), sessions);
    }

    #[test]
    fn wrong_lines_are_named() {
        for (text, part) in [
            ("", "no turn"),
            ("{\"turn\":0}\n{\"turn\":0}", "line 2: turn 0 comes after turn 0"),
            ("{\"turn\":0,\"use\":[\"x\"]}", "`x` is used before it came"),
            (
                "{\"turn\":0,\"add\":[{\"ctx_id\":\"x\",\"zone\":\"m\",\"token_count\":-1}]}",
                "add[0].token_count",
            ),
            (
                "{\"turn\":0,\"add\":[{\"ctx_id\":\"\",\"zone\":\"m\",\"token_count\":1}]}",
                "ctx_id",
            ),
            ("{\"turn\":0,\"used\":[]}", "unknown field `used`"),
            (
                "{\"turn\":0,\"add\":[{\"ctx_id\":\"x\",\"zone\":\"m\",\"token_count\":1},{\"ctx_id\":\"x\",\"zone\":\"m\",\"token_count\":1}]}",
                "`x` came before",
            ),
        ] {
            let error = read_trace(text).unwrap_err().to_string();
            assert!(error.contains(part), "{error}");
        }
    }
}
