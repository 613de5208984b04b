//! Requests held against the document: what the OpenAPI document does not allow is refused, so that the two cannot disagree.
//! Types are read first, because their errors say more; this finds what they let through (lengths, ranges, lists for objects).

use std::collections::HashMap;

use axum::extract::{FromRequestParts as _, RawPathParams};
use axum::http::request::Parts;
use satiety_engine::operations::{CallError, Checker};
use serde_json::{Value, json};

use super::problem::Problem;

/// The schemas of the routes that are not bound to operations, which check their requests themselves.
#[derive(Debug)]
pub(crate) struct Schemas {
    checker: Checker,
    routes: HashMap<String, RouteSchemas>,
}

/// The schemas of one route, as JSON pointers into the document.
#[derive(Debug, Default)]
struct RouteSchemas {
    parameters: Vec<Parameter>,
    body: Option<String>,
}

#[derive(Debug)]
struct Parameter {
    name: String,
    is_path: bool,
    kind: String,
    pointer: String,
}

impl Schemas {
    /// The schemas of an OpenAPI document.
    pub(crate) fn new(mut document: Value) -> Self {
        let mut routes = HashMap::new();
        for (path, methods) in document["paths"].as_object().into_iter().flatten() {
            for (method, route) in methods.as_object().into_iter().flatten() {
                let at = format!("/paths/{}/{method}", path.replace('/', "~1"));
                let parameters = route["parameters"].as_array().into_iter().flatten().enumerate();
                let parameters = parameters.map(|(number, parameter)| Parameter {
                    name: parameter["name"].as_str().unwrap_or_default().to_owned(),
                    is_path: parameter["in"] == "path",
                    kind: parameter["schema"]["type"]
                        .as_str()
                        .unwrap_or_default()
                        .to_owned(),
                    pointer: format!("{at}/parameters/{number}/schema"),
                });
                let schemas = RouteSchemas {
                    parameters: parameters.collect(),
                    body: (!route["requestBody"].is_null())
                        .then(|| format!("{at}/requestBody/content/application~1json/schema")),
                };
                routes.insert(
                    route["operationId"].as_str().unwrap_or_default().to_owned(),
                    schemas,
                );
            }
        }
        // The document describes the shapes that people write; traces and session logs are read as well.
        let schemas = &mut document["components"]["schemas"];
        schemas["ScoreBody"]["properties"]["conversation"] = Value::Bool(true);
        // So are items with more fields, which their type checks.
        schemas["UpdateScopeRequest"]["properties"]["add"]["items"] = Value::Bool(true);
        // So are rounds of other loops, whose keys have other names.
        schemas["GateBody"]["properties"]["rounds"]["items"] = Value::Bool(true);
        Self {
            checker: Checker::new(document),
            routes,
        }
    }

    /// Refuses a body that the document does not allow.
    pub(crate) fn check_body(&self, id: &str, bytes: &[u8]) -> Result<(), Problem> {
        let Some(pointer) = self.routes.get(id).and_then(|route| route.body.as_ref()) else {
            return Ok(());
        };
        // It was read as JSON already.
        let value: Value = serde_json::from_slice(bytes)
            .map_err(|error| Problem::bad_request(format!("the body is not JSON: {error}")))?;
        Ok(self.checker.check_at(pointer, &value, "")?)
    }

    /// Refuses parameters that the document does not allow.
    pub(crate) async fn check_parameters(&self, id: &str, parts: &mut Parts) -> Result<(), Problem> {
        let Some(route) = self.routes.get(id).filter(|own| !own.parameters.is_empty()) else {
            return Ok(());
        };
        let path = RawPathParams::from_request_parts(parts, &())
            .await
            .map_err(|rejection| Problem::bad_request(rejection.body_text()))?;
        let query = axum::extract::Query::<Vec<(String, String)>>::try_from_uri(&parts.uri);
        let query = query.map(|pairs| pairs.0).unwrap_or_default();
        for parameter in &route.parameters {
            let value = if parameter.is_path {
                path.iter()
                    .find(|(name, _)| *name == parameter.name)
                    .map(|(_, value)| value)
            } else {
                query
                    .iter()
                    .find(|(name, _)| *name == parameter.name)
                    .map(|(_, value)| value.as_str())
            };
            if let Some(value) = value {
                let value = typed(value, &parameter.kind);
                self.checker
                    .check_at(&parameter.pointer, &value, &parameter.name)?;
            }
        }
        Ok(())
    }
}

impl From<CallError> for Problem {
    fn from(error: CallError) -> Self {
        Self::from(satiety_engine::EngineError::from(error))
    }
}

/// A parameter as the value that its schema speaks of.
fn typed(text: &str, kind: &str) -> Value {
    match kind {
        "integer" | "number" => text
            .parse::<serde_json::Number>()
            .map_or_else(|_| json!(text), Value::Number),
        "boolean" => text.parse::<bool>().map_or_else(|_| json!(text), Value::Bool),
        _ => json!(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_document_does_not_allow_is_refused() {
        let schemas = Schemas::new(crate::openapi::document());
        assert!(schemas.routes.len() > 50);
        let status = |id: &str, body: Value| {
            schemas
                .check_body(id, body.to_string().as_bytes())
                .map_err(|problem| problem.status)
        };
        assert_eq!(status("begin_conversation", json!([])), Err(422));
        assert_eq!(status("begin_conversation", json!({})), Ok(()));
        assert_eq!(
            status("match_triggers", json!({"text": "x", "limit": 0})),
            Err(422)
        );
    }
}
