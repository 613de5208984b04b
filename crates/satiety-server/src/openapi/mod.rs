//! OpenAPI 3.1 document, generated from the same table as the router. Its schemas are JSON Schema 2020-12, as
//! generated from the types, so nothing is translated.

mod page;

use std::collections::BTreeMap;

use satiety_engine::operations::{bound_numbers, constrain};
use schemars::generate::{SchemaGenerator, SchemaSettings};
use serde_json::{Map, Value, json};

use crate::http::Problem;
use crate::http::api;
use crate::http::route::{Kind, Route};

pub(crate) use page::{page, style};

const PREFIX: &str = "#/components/schemas/";

/// Generates the document.
pub fn document() -> Value {
    let routes = api::routes();
    let mut taken = Schemas::new(SchemaSettings::draft2020_12().for_deserialize());
    let mut given = Schemas::new(SchemaSettings::draft2020_12().for_serialize());
    let problem = given.0.subschema_for::<Problem>().to_value();
    let mut paths: BTreeMap<&str, Map<String, Value>> = BTreeMap::new();
    for route in &routes {
        let operation = operation(route, &mut taken, &mut given);
        let methods = paths.entry(route.about.path).or_default();
        methods.insert(route.about.method.as_str().to_ascii_lowercase(), operation);
    }
    let mut paths = json!(paths);
    let mut schemas = given.definitions();
    let mut inputs = taken.definitions();
    constrain(&mut inputs);
    join(&mut schemas, inputs, &mut paths);
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Satiety",
            "version": env!("CARGO_PKG_VERSION"),
            "summary": "Tells agents when another round, search, token, feature or benchmark is no longer worth it",
            "description": "Requests and responses are JSON. Errors are `application/problem+json` (RFC 9457). Writes may carry an \
                `Idempotency-Key`: a retry with the same key and body returns the first response. Responses to GET carry an `ETag`.",
            "license": {"name": "MIT OR Apache-2.0", "identifier": "MIT OR Apache-2.0"},
        },
        "servers": [{"url": "/"}],
        "security": [{"token": []}, {}],
        "paths": paths,
        "components": {
            "schemas": schemas,
            "parameters": {"IdempotencyKey": {
                "name": "Idempotency-Key", "in": "header", "required": false,
                "description": "Makes a write safe to retry: the same key and body return the first response, another body gets 422",
                "schema": {"type": "string", "minLength": 1, "maxLength": 255, "pattern": "^[!-~]+$"},
            }},
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer",
                "description": "A token from `satiety token create`. Not required on loopback unless the server is configured otherwise."}},
            "responses": {"Problem": {
                "description": "Error with an explanation and a hint",
                "content": {"application/problem+json": {"schema": problem}},
            }},
        },
    })
}

struct Schemas(SchemaGenerator);

impl Schemas {
    fn new(settings: SchemaSettings) -> Self {
        let settings = settings.with(|settings| {
            settings.definitions_path = "/components/schemas".into();
            settings.meta_schema = None;
        });
        Self(settings.into_generator())
    }

    fn definitions(mut self) -> Map<String, Value> {
        self.0.take_definitions(true)
    }
}

fn operation(route: &Route, taken: &mut Schemas, given: &mut Schemas) -> Value {
    let about = &route.about;
    let mut parameters = Vec::new();
    let mut body = None;
    let content = match &route.kind {
        Kind::Raw(kind, _) => {
            if about.path.contains("{id}") {
                let id = json!({"type": "string", "minLength": 1, "maxLength": 256, "description": "Id of the resource."});
                parameters = parameters_of("path", &json!({"properties": {"id": id}}));
            }
            json!({*kind: {"schema": {"type": "string"}}})
        }
        Kind::Operation(bound) => {
            let request = bound.operation.request;
            let divided = bound.binding.split((request.schema)(&mut taken.0).to_value());
            parameters.extend(parameters_of("path", &divided.path));
            parameters.extend(parameters_of("query", &divided.query));
            body = divided.body.map(|schema| {
                let name = (request.name)();
                taken.0.definitions_mut().insert(name.to_string(), schema);
                json!({"$ref": format!("{PREFIX}{name}")})
            });
            let response = (bound.operation.response.reference)(&mut given.0).to_value();
            json!({"application/json": {"schema": response}})
        }
    };
    let is_json = matches!(route.kind, Kind::Operation(_));
    let mut responses = Map::new();
    responses.insert(
        about.status.to_string(),
        json!({"description": "Result of the operation", "content": content}),
    );
    if about.method == axum::http::Method::GET && is_json {
        responses.insert(
            "304".into(),
            json!({"description": "Not modified: the `ETag` matches"}),
        );
    }
    if about.id == "compare_retrieval"
        && let Some(body) = &mut body
    {
        // Same type as for an evaluation, but a comparison needs at least two runs.
        *body = json!({"allOf": [body.take(), {"properties": {"runs": {"minItems": 2}}}]});
    }
    for status in statuses(route, body.is_some()) {
        responses.insert(
            status.to_string(),
            json!({"$ref": "#/components/responses/Problem"}),
        );
    }
    let mut operation = json!({
        "operationId": about.id,
        "summary": about.summary,
        "tags": [tag(about.path)],
        "parameters": parameters,
        "responses": responses,
    });
    if about.writes {
        // Not a parameter of the operation: a key that was used for another request is rejected by every
        // operation, and a fuzzer that tries all parameters would trigger that on every write.
        operation["x-idempotency-key"] = json!({"$ref": "#/components/parameters/IdempotencyKey"});
    }
    if let Some(schema) = body {
        operation["requestBody"] =
            json!({"required": true, "content": {"application/json": {"schema": schema}}});
    }
    match about.scope {
        Some(scope) => operation["x-scope"] = json!(scope),
        None => operation["security"] = json!([{}]),
    }
    operation
}

/// Problem statuses that a route may return.
fn statuses(route: &Route, has_body: bool) -> Vec<u16> {
    let mut statuses = vec![400, 421, 500, 503];
    if route.about.scope.is_some() {
        statuses.extend([401, 403, 429]);
    }
    if route.about.path.contains('{') || matches!(route.kind, Kind::Operation(_)) {
        statuses.extend([404, 422]);
    }
    if has_body {
        statuses.extend([408, 413, 415]);
    }
    if route.about.writes || has_body {
        statuses.extend([403, 409]);
    }
    statuses.sort_unstable();
    statuses.dedup();
    statuses
}

/// Tag of a path: `/v1/bench/runs` belongs to `bench`.
fn tag(path: &str) -> &str {
    let mut parts = path.split('/').filter(|part| !part.is_empty());
    match (parts.next(), parts.next()) {
        (Some("v1"), Some(second)) => second,
        _ => "operation",
    }
}

/// Each property of an object as a parameter.
fn parameters_of(place: &str, schema: &Value) -> Vec<Value> {
    let required: Vec<&str> = schema["required"]
        .as_array()
        .map(|names| names.iter().filter_map(Value::as_str).collect())
        .unwrap_or_default();
    let Some(properties) = schema["properties"].as_object() else {
        return Vec::new();
    };
    properties
        .iter()
        .map(|(name, property)| {
            let mut property = property.clone();
            bound_numbers(&mut property);
            let about = property
                .as_object_mut()
                .and_then(|property| property.remove("description"))
                .unwrap_or_default();
            json!({"name": name, "in": place, "description": about, "schema": without_null(property),
                "required": place == "path" || required.contains(&name.as_str())})
        })
        .collect()
}

/// An optional parameter is omitted; a query has no null.
fn without_null(mut schema: Value) -> Value {
    if let Some(kinds) = schema["type"].as_array() {
        let kinds: Vec<Value> = kinds.iter().filter(|kind| *kind != "null").cloned().collect();
        schema["type"] = match <[Value; 1]>::try_from(kinds) {
            Ok([only]) => only,
            Err(kinds) => Value::Array(kinds),
        };
    }
    if let Some(choices) = schema["anyOf"].as_array() {
        let others: Vec<Value> = choices
            .iter()
            .filter(|choice| choice["type"] != "null")
            .cloned()
            .collect();
        if let Ok([only]) = <[Value; 1]>::try_from(others) {
            return only;
        }
    }
    if let Some(object) = schema.as_object_mut()
        && object.get("default") == Some(&Value::Null)
    {
        object.remove("default");
    }
    schema
}

/// Merges request schemas into response schemas. A type that deserializes differently gets a separate name.
fn join(schemas: &mut Map<String, Value>, inputs: Map<String, Value>, paths: &mut Value) {
    let mut renamed: BTreeMap<String, String> = BTreeMap::new();
    // Renaming one changes those that refer to it, so this repeats until nothing changes.
    loop {
        let before = renamed.len();
        for (name, schema) in &inputs {
            let mut schema = schema.clone();
            refer(&mut schema, &renamed);
            if !renamed.contains_key(name) && schemas.get(name).is_some_and(|other| *other != schema) {
                renamed.insert(name.clone(), format!("{name}Input"));
            }
        }
        if renamed.len() == before {
            break;
        }
    }
    for (name, mut schema) in inputs {
        refer(&mut schema, &renamed);
        schemas.insert(renamed.get(&name).cloned().unwrap_or(name), schema);
    }
    if let Some(paths) = paths.as_object_mut() {
        for operation in paths
            .values_mut()
            .filter_map(Value::as_object_mut)
            .flat_map(|all| all.values_mut())
        {
            refer(&mut operation["requestBody"], &renamed);
            refer(&mut operation["parameters"], &renamed);
            if operation["requestBody"].is_null()
                && let Some(operation) = operation.as_object_mut()
            {
                operation.remove("requestBody");
            }
        }
    }
}

/// Updates references to renamed schemas.
fn refer(value: &mut Value, renamed: &BTreeMap<String, String>) {
    match value {
        Value::Object(object) => {
            if let Some(Value::String(target)) = object.get_mut("$ref")
                && let Some(new) = target.strip_prefix(PREFIX).and_then(|name| renamed.get(name))
            {
                *target = format!("{PREFIX}{new}");
            }
            object.values_mut().for_each(|value| refer(value, renamed));
        }
        Value::Array(list) => list.iter_mut().for_each(|value| refer(value, renamed)),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn references<'a>(value: &'a Value, found: &mut BTreeSet<&'a str>) {
        match value {
            Value::Object(object) => {
                found.extend(object.get("$ref").and_then(Value::as_str));
                object.values().for_each(|value| references(value, found));
            }
            Value::Array(list) => list.iter().for_each(|value| references(value, found)),
            _ => {}
        }
    }

    #[test]
    fn every_reference_resolves() {
        let document = document();
        let mut found = BTreeSet::new();
        references(&document, &mut found);
        assert!(found.len() > 20, "{found:?}");
        for reference in found {
            let pointer = reference.strip_prefix('#').unwrap();
            assert!(document.pointer(pointer).is_some(), "{reference} leads nowhere");
        }
    }

    #[test]
    fn the_document_lists_every_route_once() {
        let document = document();
        let mut routes: Vec<(String, String)> = api::routes()
            .iter()
            .map(|route| {
                (
                    route.about.path.to_owned(),
                    route.about.method.as_str().to_ascii_lowercase(),
                )
            })
            .collect();
        routes.sort();
        let mut documented: Vec<(String, String)> = document["paths"]
            .as_object()
            .unwrap()
            .iter()
            .flat_map(|(path, methods)| {
                methods
                    .as_object()
                    .unwrap()
                    .keys()
                    .map(|method| (path.clone(), method.clone()))
            })
            .collect();
        documented.sort();
        assert_eq!(routes, documented);
        let ids: BTreeSet<&str> = api::routes().iter().map(|route| route.about.id).collect();
        assert_eq!(ids.len(), routes.len(), "two routes share a name");
    }

    #[test]
    fn path_parameters_match_the_template() {
        let document = document();
        for (path, methods) in document["paths"].as_object().unwrap() {
            let braced: BTreeSet<&str> = path
                .split('/')
                .filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'))
                .collect();
            for (method, operation) in methods.as_object().unwrap() {
                let named: BTreeSet<&str> = operation["parameters"]
                    .as_array()
                    .unwrap()
                    .iter()
                    .filter(|parameter| parameter["in"] == "path")
                    .filter_map(|parameter| parameter["name"].as_str())
                    .collect();
                assert_eq!(braced, named, "{method} {path}");
            }
        }
    }
}
