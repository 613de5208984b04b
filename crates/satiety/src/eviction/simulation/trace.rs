//! Traces: the items that each turn added to a context, and the items that it used. JSON Lines, one turn per
//! line:
//!
//! ```json
//! {"session": "s1", "turn": 3, "goal": "fix the build", "add": [{"ctx_id": "log", "zone": "workspace", "kind": "tool_result",
//!  "token_count": 812}], "use": ["readme"]}
//! ```
//!
//! `use_broad` lists uses by a broader definition: `use` are items whose path or id is used again, `use_broad`
//! those whose content reappears.
//!
//! Turn numbers rise within a session; a turn may use only items that were added in it or before it.

use std::collections::{BTreeMap, BTreeSet};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::super::error::EvictionError;
use super::super::item::ContextItem;

/// One turn of a session, as one line of a trace.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TraceTurn {
    /// Name of the session; lines without a name form one session.
    #[serde(default)]
    pub session: String,
    /// Number of the turn, rising within a session.
    pub turn: u64,
    /// New goal of the agent, from this turn on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub goal: Option<String>,
    /// Items added to the context in this turn.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub add: Vec<ContextItem>,
    /// Ids of the items used in this turn.
    #[serde(default, rename = "use", skip_serializing_if = "Vec::is_empty")]
    pub uses: Vec<String>,
    /// Ids of items that the turn used by a broader definition only: their content reappears.
    #[serde(default, rename = "use_broad", skip_serializing_if = "Vec::is_empty")]
    pub broad_uses: Vec<String>,
}

/// Session of a trace.
#[derive(Debug, Clone, PartialEq)]
pub struct Session {
    /// Name of the session.
    pub id: String,
    /// Turns of the session, in order.
    pub turns: Vec<TraceTurn>,
}

impl Session {
    /// Returns the total size in tokens of all items that the session adds.
    pub fn tokens(&self) -> u64 {
        self.turns
            .iter()
            .flat_map(|turn| &turn.add)
            .map(|item| item.token_count)
            .sum()
    }

    /// Whether the session has uses by the broader definition.
    pub fn has_broad_uses(&self) -> bool {
        self.turns.iter().any(|turn| !turn.broad_uses.is_empty())
    }

    /// Returns the session with the uses of both definitions.
    #[must_use]
    pub fn with_broad_uses(mut self) -> Self {
        for turn in &mut self.turns {
            let more = std::mem::take(&mut turn.broad_uses);
            turn.uses.extend(more);
        }
        self
    }
}

/// Parses a trace; the sessions are sorted by name.
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
                "turn {} follows turn {}; turn numbers must rise",
                turn.turn, last.turn
            )));
        }
        for item in &mut turn.add {
            (item.created_turn, item.last_referenced_turn) = (turn.turn, turn.turn);
            item.check().map_err(|error| wrong(error.to_string()))?;
            if !known.insert(item.ctx_id.clone()) {
                return Err(wrong(format!("duplicate item `{}`", item.ctx_id)));
            }
        }
        let mut uses = turn.uses.iter().chain(&turn.broad_uses);
        if let Some(id) = uses.find(|id| !known.contains(*id)) {
            return Err(wrong(format!("item `{id}` is used before it is added")));
        }
        session.turns.push(turn);
    }
    if sessions.is_empty() {
        return Err(EvictionError::Trace {
            line: 1,
            reason: "no turns found".into(),
        });
    }
    Ok(sessions.into_values().map(|(session, _)| session).collect())
}

/// Serializes sessions to a trace that [`read_trace`] parses.
pub fn write_trace(sessions: &[Session]) -> String {
    let mut text = String::new();
    for turn in sessions.iter().flat_map(|session| &session.turns) {
        // Strings, numbers and lists of them always serialize.
        text.push_str(&serde_json::to_string(turn).unwrap_or_default());
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trace_round_trips() {
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
    fn invalid_lines_are_reported() {
        for (text, part) in [
            ("", "no turns found"),
            ("{\"turn\":0}\n{\"turn\":0}", "line 2: turn 0 follows turn 0"),
            (
                "{\"turn\":0,\"use\":[\"x\"]}",
                "item `x` is used before it is added",
            ),
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
                "duplicate item `x`",
            ),
        ] {
            let error = read_trace(text).unwrap_err().to_string();
            assert!(error.contains(part), "{error}");
        }
    }
}
