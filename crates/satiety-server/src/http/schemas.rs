//! Requests held against the document: what the OpenAPI document does not allow is refused, so that the two cannot disagree.
//! Types are read first, because their errors say more; this finds what they let through (lengths, ranges, lists for objects).

use std::collections::HashMap;
use std::sync::OnceLock;

use axum::extract::{FromRequestParts as _, RawPathParams};
use axum::http::request::Parts;
use jsonschema::Validator;
use serde_json::{Map, Value, json};

use super::problem::Problem;

/// The schemas of all operations.
#[derive(Debug)]
pub(crate) struct Schemas {
    components: Value,
    operations: HashMap<String, Operation>,
}

/// The schemas of one operation, compiled when they are first needed.
#[derive(Debug)]
struct Operation {
    parameters: Vec<Parameter>,
    body: Option<Value>,
    compiled_body: OnceLock<Option<Validator>>,
}

#[derive(Debug)]
struct Parameter {
    name: String,
    is_path: bool,
    schema: Value,
    compiled: OnceLock<Option<Validator>>,
}

/// The schemas of an operation with what they refer to.
pub(crate) struct OperationSchemas<'a> {
    components: &'a Value,
    operation: Option<&'a Operation>,
}

impl Schemas {
    /// The schemas of an OpenAPI document.
    pub(crate) fn new(mut document: Value) -> Self {
        let mut operations = HashMap::new();
        let paths = document["paths"].as_object().cloned().unwrap_or_default();
        for operation in paths.values().filter_map(Value::as_object).flat_map(Map::values) {
            let Some(id) = operation["operationId"].as_str() else {
                continue;
            };
            let parameters = operation["parameters"].as_array().into_iter().flatten();
            let parameters = parameters
                .map(|parameter| Parameter {
                    name: parameter["name"].as_str().unwrap_or_default().to_owned(),
                    is_path: parameter["in"] == "path",
                    schema: parameter["schema"].clone(),
                    compiled: OnceLock::new(),
                })
                .collect();
            let body = operation
                .pointer("/requestBody/content/application~1json/schema")
                .cloned();
            let operation = Operation {
                parameters,
                body,
                compiled_body: OnceLock::new(),
            };
            operations.insert(id.to_owned(), operation);
        }
        // The document describes the shapes that people write; traces and session logs are read as well.
        let schemas = &mut document["components"]["schemas"];
        schemas["ScoreBody"]["properties"]["conversation"] = Value::Bool(true);
        // So are items with more fields, which their type checks.
        schemas["UpdateScopeRequest"]["properties"]["add"]["items"] = Value::Bool(true);
        // So are rounds of other loops, whose keys have other names.
        schemas["GateBody"]["properties"]["rounds"]["items"] = Value::Bool(true);
        Self {
            components: document["components"].take(),
            operations,
        }
    }

    /// The schemas of an operation.
    pub(crate) fn of(&self, operation_id: &str) -> OperationSchemas<'_> {
        OperationSchemas {
            components: &self.components,
            operation: self.operations.get(operation_id),
        }
    }
}

impl OperationSchemas<'_> {
    /// Compiles a schema together with what it refers to. A schema that cannot be compiled is a bug, and holds nobody up.
    fn compile(&self, schema: &Value) -> Option<Validator> {
        let mut schema = schema.clone();
        if let Some(object) = schema.as_object_mut() {
            let schemas = self.components["schemas"].clone();
            object.insert("components".into(), json!({"schemas": schemas}));
        }
        let compiled = jsonschema::draft202012::new(&schema);
        if let Err(error) = &compiled {
            tracing::error!(%error, "a schema of the document cannot be used");
        }
        compiled.ok()
    }

    /// Refuses a body that the document does not allow.
    pub(crate) fn check_body(&self, bytes: &[u8]) -> Result<(), Problem> {
        let Some((operation, schema)) = self.operation.and_then(|own| Some((own, own.body.as_ref()?))) else {
            return Ok(());
        };
        let compiled = operation.compiled_body.get_or_init(|| self.compile(schema));
        let Some(validator) = compiled else {
            return Ok(());
        };
        // It was read as JSON already.
        let value: Value = serde_json::from_slice(bytes)
            .map_err(|error| Problem::bad_request(format!("the body is not JSON: {error}")))?;
        check(validator, &value, None)
    }

    /// Refuses parameters that the document does not allow.
    pub(crate) async fn check_parameters(&self, parts: &mut Parts) -> Result<(), Problem> {
        let Some(operation) = self.operation.filter(|own| !own.parameters.is_empty()) else {
            return Ok(());
        };
        let path = RawPathParams::from_request_parts(parts, &())
            .await
            .map_err(|rejection| Problem::bad_request(rejection.body_text()))?;
        let query: Vec<(String, String)> = serde_urlencoded_pairs(parts.uri.query().unwrap_or_default());
        for parameter in &operation.parameters {
            let value = if parameter.is_path {
                path.iter()
                    .find(|(name, _)| *name == parameter.name)
                    .map(|(_, value)| value.to_owned())
            } else {
                query
                    .iter()
                    .find(|(name, _)| *name == parameter.name)
                    .map(|(_, value)| value.clone())
            };
            let Some(value) = value else {
                continue;
            };
            let compiled = parameter.compiled.get_or_init(|| self.compile(&parameter.schema));
            if let Some(validator) = compiled {
                check(
                    validator,
                    &typed(&value, &parameter.schema),
                    Some(&parameter.name),
                )?;
            }
        }
        Ok(())
    }
}

/// The pairs of a query.
fn serde_urlencoded_pairs(query: &str) -> Vec<(String, String)> {
    let uri = format!("/?{query}").parse();
    uri.ok()
        .and_then(|uri| axum::extract::Query::<Vec<(String, String)>>::try_from_uri(&uri).ok())
        .map(|pairs| pairs.0)
        .unwrap_or_default()
}

/// A parameter as the value that its schema speaks of.
fn typed(text: &str, schema: &Value) -> Value {
    match schema["type"].as_str() {
        Some("integer" | "number") => text
            .parse::<serde_json::Number>()
            .map_or_else(|_| json!(text), Value::Number),
        Some("boolean") => text.parse::<bool>().map_or_else(|_| json!(text), Value::Bool),
        _ => json!(text),
    }
}

fn check(validator: &Validator, value: &Value, name: Option<&str>) -> Result<(), Problem> {
    let Err(error) = validator.validate(value) else {
        return Ok(());
    };
    let place = match name {
        Some(name) => name.to_owned(),
        None => error.instance_path().to_string(),
    };
    // A value may be long, and the caller has it.
    let said: String = error.to_string().chars().take(300).collect();
    Err(Problem::unprocessable(said).at(place))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_schema_of_the_document_can_be_compiled() {
        let schemas = Schemas::new(crate::openapi::document());
        assert!(schemas.operations.len() > 50);
        let mut operations: Vec<_> = schemas.operations.iter().collect();
        operations.sort_by_key(|(id, _)| *id);
        for (id, operation) in operations {
            let own = schemas.of(id);
            for schema in operation.parameters.iter().map(|parameter| &parameter.schema) {
                assert!(own.compile(schema).is_some(), "{id}: {schema}");
            }
            if let Some(schema) = &operation.body {
                assert!(own.compile(schema).is_some(), "{id}");
            }
        }
    }

    #[test]
    fn what_the_document_does_not_allow_is_refused() {
        let schemas = Schemas::new(crate::openapi::document());
        let status = |id: &str, body: Value| {
            schemas
                .of(id)
                .check_body(body.to_string().as_bytes())
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
