//! Runs that arrive as OpenTelemetry spans.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use satiety::trajectory::read::split_export;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::runs::AppendMessagesRequest;
use crate::EngineError;
use crate::handles::ProgressOperations;

/// Number of traces whose conversation is remembered.
const MAX_TRACES: usize = 10_000;

/// Spans as OTLP exporters send them.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "TracesBody")]
pub struct ReceiveTracesRequest {
    /// Spans by resource and scope, as in OTLP's `ExportTraceServiceRequest`.
    #[serde(rename = "resourceSpans", default)]
    pub resource_spans: Vec<Map<String, Value>>,
}

/// Answer to an exporter, as in OTLP's `ExportTraceServiceResponse`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ReceivedTraces {
    /// What was not accepted; absent if everything was.
    #[serde(rename = "partialSuccess", skip_serializing_if = "Option::is_none")]
    pub partial_success: Option<PartialSuccess>,
}

/// Spans that were not accepted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct PartialSuccess {
    /// Number of rejected spans.
    #[serde(rename = "rejectedSpans")]
    pub rejected_spans: usize,
    /// Why the first of them was rejected.
    #[serde(rename = "errorMessage")]
    pub error_message: String,
}

/// Conversations of recent traces. Exporters send the spans of a trace in several batches, and only some spans
/// name their conversation.
#[derive(Debug, Default)]
pub(crate) struct TraceConversations {
    known: Mutex<HashMap<String, String>>,
}

impl TraceConversations {
    /// The run that spans of a trace belong to: their conversation, or else the trace itself.
    fn resolve(&self, trace: &str, conversation: Option<String>) -> String {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        match conversation {
            Some(conversation) => {
                if known.len() >= MAX_TRACES && !known.contains_key(trace) {
                    known.clear();
                }
                known.insert(trace.to_owned(), conversation.clone());
                conversation
            }
            None => known.get(trace).cloned().unwrap_or_else(|| trace.to_owned()),
        }
    }
}

impl ProgressOperations<'_> {
    /// Appends spans of agents to the runs of their conversations. Spans of other programs are ignored.
    #[tracing::instrument(name = "receive traces", skip_all)]
    pub async fn receive_traces(self, request: ReceiveTracesRequest) -> Result<ReceivedTraces, EngineError> {
        let spans = request.resource_spans.into_iter().map(Value::Object).collect();
        let export = Value::Object(Map::from_iter([(
            "resourceSpans".to_owned(),
            Value::Array(spans),
        )]));
        let mut rejected: Option<PartialSuccess> = None;
        for group in split_export(&export).unwrap_or_default() {
            let count = group.spans.len();
            let appended = self
                .append_messages(AppendMessagesRequest {
                    conversation_id: self.engine.traces.resolve(&group.trace, group.conversation),
                    messages: group.spans,
                })
                .await;
            match appended {
                Ok(_) => {}
                Err(error @ EngineError::Unacceptable { .. }) => {
                    let first = || PartialSuccess {
                        rejected_spans: 0,
                        error_message: error.to_string(),
                    };
                    rejected.get_or_insert_with(first).rejected_spans += count;
                }
                // The exporter repeats the whole request; spans that are known by then are skipped.
                Err(error) => return Err(error),
            }
        }
        Ok(ReceivedTraces {
            partial_success: rejected,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn later_batches_of_a_trace_find_its_conversation() {
        let traces = TraceConversations::default();
        assert_eq!(traces.resolve("t1", None), "t1");
        assert_eq!(traces.resolve("t1", Some("c".into())), "c");
        assert_eq!(traces.resolve("t1", None), "c");
        assert_eq!(traces.resolve("t2", None), "t2");
    }
}
