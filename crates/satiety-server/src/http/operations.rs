//! Operations as routes: method, path and status of each, and how its request is split into path, query and
//! body. One handler serves them all.

use std::sync::{Arc, LazyLock};

use axum::extract::{FromRequestParts as _, Query, RawPathParams, Request};
use axum::http::request::Parts;
use axum::http::{HeaderMap, Method, StatusCode};
use axum::response::Response;
use satiety_engine::operations::{self, Call, CallError, Effect, Operation};
use schemars::JsonSchema;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use super::api;
use super::app::App;
use super::body;
use super::problem::Problem;
use super::route::{RouteInfo, allow, finish, read_body};
use crate::auth::Scope;

/// Finds an operation of the engine or of the server by name.
pub(crate) fn find(name: &str) -> Option<&'static Operation> {
    static OWN: LazyLock<Vec<Operation>> = LazyLock::new(api::operations);
    operations::find(name).or_else(|| OWN.iter().find(|operation| operation.name == name))
}

/// Operation of the server itself: jobs, settings, health.
pub(crate) fn operation<R, T, F>(
    name: &'static str,
    summary: &'static str,
    (scope, effect): (Scope, Effect),
    run: fn(Arc<App>, R) -> F,
) -> Operation
where
    R: DeserializeOwned + JsonSchema + 'static,
    T: Serialize + JsonSchema,
    F: Future<Output = Result<T, Problem>> + Send + 'static,
{
    Operation::new(name, summary, scope, effect, move |call: Call, request: R| {
        let host = call.host.and_then(|host| host.downcast::<App>().ok());
        let work = host.map(|app| run(app, request));
        async move {
            let outcome = match work {
                Some(work) => work.await,
                None => Err(Problem::internal(
                    "a server operation was called outside of the server",
                )),
            };
            outcome.map_err(|problem| CallError::Host(Box::new(problem)).into())
        }
    })
}

/// HTTP binding of an operation.
#[derive(Debug, Clone)]
pub(crate) struct Binding {
    operation: &'static str,
    method: Method,
    path: &'static str,
    status: u16,
    is_public: bool,
    query: &'static [&'static str],
    hidden: &'static [&'static str],
    renamed: &'static [(&'static str, &'static str)],
    protobuf: bool,
    secret: bool,
}

/// Binds an operation to a method and a path. Fields that are not in the path come from the query for GET and
/// DELETE, and from the body otherwise.
pub(crate) fn bind(operation: &'static str, method: Method, path: &'static str) -> Binding {
    Binding {
        operation,
        method,
        path,
        status: 200,
        is_public: false,
        query: &[],
        hidden: &[],
        renamed: &[],
        protobuf: false,
        secret: false,
    }
}

impl Binding {
    /// Sets the status of success.
    pub(crate) fn status(mut self, status: u16) -> Self {
        self.status = status;
        self
    }

    /// Makes the route public.
    pub(crate) fn public(mut self) -> Self {
        self.is_public = true;
        self
    }

    /// Takes these fields from the query although there is a body.
    pub(crate) fn query(mut self, fields: &'static [&'static str]) -> Self {
        self.query = fields;
        self
    }

    /// Also takes the body as an OTLP export in protobuf.
    pub(crate) fn protobuf(mut self) -> Self {
        self.protobuf = true;
        self
    }

    /// Never stores the response, which has a secret: an `Idempotency-Key` is ignored.
    pub(crate) fn secret(mut self) -> Self {
        self.secret = true;
        self
    }

    /// Hides these fields.
    pub(crate) fn hide(mut self, fields: &'static [&'static str]) -> Self {
        self.hidden = fields;
        self
    }

    /// Renames fields in path or body, as (name, field). A list field gets one entry.
    pub(crate) fn rename(mut self, names: &'static [(&'static str, &'static str)]) -> Self {
        self.renamed = names;
        self
    }

    fn field(&self, name: &'static str) -> &'static str {
        let mut renamed = self.renamed.iter();
        renamed
            .find(|(own, _)| *own == name)
            .map_or(name, |(_, field)| field)
    }

    /// Splits the schema of a request into path parameters, query parameters and body.
    pub(crate) fn split(&self, mut schema: Value) -> SplitRequest {
        let mut properties = match schema["properties"].take() {
            Value::Object(properties) => properties,
            _ => Map::new(),
        };
        let required = schema["required"].take();
        let is_required = |field: &str| {
            required
                .as_array()
                .is_some_and(|all| all.iter().any(|one| one == field))
        };
        let mut parts = [Map::new(), Map::new(), Map::new()];
        let mut needed: [Vec<String>; 3] = Default::default();
        let mut put = |part: usize, name: &str, field: &str, property: Value| {
            if is_required(field) {
                needed[part].push(name.to_owned());
            }
            parts[part].insert(name.to_owned(), property);
        };
        for name in path_names(self.path) {
            let field = self.field(name);
            if let Some(mut property) = properties.remove(field) {
                if property["type"] == "array" {
                    let about = property["description"].take();
                    property = property["items"].take();
                    property["description"] = about;
                }
                put(0, name, field, property);
            }
        }
        let query_only = matches!(self.method, Method::GET | Method::DELETE);
        for (field, property) in properties {
            let field = field.as_str();
            if self.hidden.contains(&field) {
                continue;
            }
            if query_only || self.query.contains(&field) {
                put(1, field, field, property);
            } else {
                let mut renamed = self.renamed.iter();
                let name = renamed
                    .find(|(_, own)| *own == field)
                    .map_or(field, |(name, _)| name);
                put(2, name, field, property);
            }
        }
        let [path, query, body] = parts;
        let [_, query_needed, mut body_needed] = needed;
        // Keeps the field order of the type.
        body_needed.sort_by_key(|name| {
            let field = self
                .renamed
                .iter()
                .find(|(own, _)| own == name)
                .map_or(&**name, |(_, field)| field);
            required
                .as_array()
                .and_then(|all| all.iter().position(|one| one == field))
        });
        let body = (!body.is_empty()).then(|| {
            schema["properties"] = body.into();
            match schema.as_object_mut() {
                Some(object) if body_needed.is_empty() => drop(object.remove("required")),
                _ => schema["required"] = json!(body_needed),
            }
            schema
        });
        SplitRequest {
            path: json!({"properties": path}),
            query: json!({"properties": query, "required": query_needed}),
            body,
        }
    }
}

/// Schema of a request, split by location.
pub(crate) struct SplitRequest {
    pub(crate) path: Value,
    pub(crate) query: Value,
    pub(crate) body: Option<Value>,
}

fn path_names(path: &'static str) -> impl Iterator<Item = &'static str> {
    path.split('/')
        .filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'))
}

/// Operation with its binding.
pub(crate) struct Bound {
    pub(crate) operation: &'static Operation,
    pub(crate) binding: Binding,
    /// Schema of the request, for parameter types.
    schema: Value,
    query: Vec<String>,
    body: Option<Vec<String>>,
}

impl Bound {
    /// Finds the operation; `None` if there is none with that name.
    pub(crate) fn new(binding: Binding) -> Option<Self> {
        let operation = find(binding.operation)?;
        let schema = operation.request_schema();
        let divided = binding.split(schema.clone());
        let names = |part: &Value| -> Vec<String> {
            let properties = part["properties"].as_object();
            properties.into_iter().flat_map(Map::keys).cloned().collect()
        };
        Some(Self {
            query: names(&divided.query),
            body: divided.body.as_ref().map(names),
            operation,
            binding,
            schema,
        })
    }

    /// Description of the route.
    pub(crate) fn about(&self) -> RouteInfo {
        RouteInfo {
            method: self.binding.method.clone(),
            path: self.binding.path,
            id: self.operation.name,
            summary: self.operation.summary,
            scope: self.scope(),
            status: self.binding.status,
            writes: self.operation.writes(),
        }
    }

    fn scope(&self) -> Option<Scope> {
        (!self.binding.is_public).then_some(self.operation.scope)
    }

    /// Fields from the path and the query.
    async fn parameters(&self, parts: &mut Parts) -> Result<Map<String, Value>, Problem> {
        let mut fields = Map::new();
        let path = RawPathParams::from_request_parts(parts, &())
            .await
            .map_err(|rejection| Problem::bad_request(format!("invalid path: {}", rejection.body_text())))?;
        for name in path_names(self.binding.path) {
            let value = path.iter().find(|(own, _)| *own == name);
            let value = json!(value.map(|(_, value)| value).unwrap_or_default());
            let field = self.binding.field(name);
            let is_list = self.schema["properties"][field]["type"] == "array";
            fields.insert(field.into(), if is_list { json!([value]) } else { value });
        }
        let Query(query) = Query::<Vec<(String, String)>>::try_from_uri(&parts.uri)
            .map_err(|rejection| Problem::bad_request(format!("invalid query: {}", rejection.body_text())))?;
        for (name, text) in query.into_iter().filter(|(name, _)| self.query.contains(name)) {
            let value = parse_parameter(&text, &self.schema["properties"][&name], &self.schema);
            let value = value.ok_or_else(|| {
                Problem::bad_request(format!("invalid value of query parameter `{name}`")).at(&*name)
            })?;
            if fields.insert(name.clone(), value).is_some() {
                return Err(Problem::bad_request(format!("duplicate query parameter `{name}`")).at(name));
            }
        }
        Ok(fields)
    }

    /// Adds the fields of the body.
    fn merge(
        &self,
        fields: &mut Map<String, Value>,
        headers: &HeaderMap,
        bytes: &[u8],
    ) -> Result<(), Problem> {
        let Some(names) = &self.body else {
            return Ok(());
        };
        let object = if self.binding.protobuf && body::is_protobuf(headers) {
            body::read_export(bytes)?
        } else {
            body::read_object(headers, bytes)?
        };
        for (name, value) in object {
            if !names.contains(&name) {
                let known = names.join("`, `");
                let said = format!("unknown field `{name}`, expected one of `{known}`");
                return Err(Problem::unprocessable(said).at(name));
            }
            let mut renamed = self.binding.renamed.iter();
            let field = renamed
                .find(|(own, _)| *own == name)
                .map(|(_, field)| (*field).to_owned());
            fields.insert(field.unwrap_or(name), value);
        }
        Ok(())
    }

    /// Handles a request.
    pub(crate) async fn answer(&self, app: Arc<App>, request: Request) -> Result<Response, Problem> {
        let (mut parts, body) = request.into_parts();
        let caller = allow(&parts, self.scope())?;
        if self.binding.secret {
            parts.headers.remove(super::route::KEY);
        }
        let mut fields = self.parameters(&mut parts).await?;
        let bytes = read_body(&app, body).await?;
        self.merge(&mut fields, &parts.headers, &bytes)?;
        let work = self
            .operation
            .start(app.call(caller.as_ref()), &Value::Object(fields))
            .map_err(|error| app.redact(error))?;
        let shared = app.clone();
        let work = Box::pin(async move { work.await.map_err(|error| shared.redact(error)) });
        let status = StatusCode::from_u16(self.binding.status).unwrap_or(StatusCode::OK);
        finish(
            app,
            parts,
            caller,
            (status, self.operation.writes()),
            &bytes,
            work,
        )
        .await
    }
}

/// Parses a parameter according to its schema; `None` if the type does not match.
fn parse_parameter(text: &str, schema: &Value, root: &Value) -> Option<Value> {
    if let Some(target) = schema["$ref"].as_str() {
        return parse_parameter(text, root.pointer(target.trim_start_matches('#'))?, root);
    }
    if let Some(choices) = schema["anyOf"].as_array() {
        return choices
            .iter()
            .find_map(|choice| parse_parameter(text, choice, root));
    }
    if let Some(choices) = schema["oneOf"].as_array() {
        return choices
            .iter()
            .any(|choice| choice["const"] == text)
            .then(|| json!(text));
    }
    let is = |kind: &str| match &schema["type"] {
        Value::Array(kinds) => kinds.iter().any(|one| one == kind),
        own => own == kind,
    };
    if is("integer") {
        return match schema["format"].as_str() {
            Some(format) if format.starts_with("uint") => text.parse::<u64>().ok().map(Value::from),
            _ => text.parse::<i64>().ok().map(Value::from),
        };
    }
    if is("number") {
        return text.parse::<f64>().ok().map(Value::from);
    }
    if is("boolean") {
        return text.parse::<bool>().ok().map(Value::Bool);
    }
    match schema["enum"].as_array() {
        Some(choices) if !choices.iter().any(|choice| choice == text) => None,
        _ => is("string").then(|| json!(text)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_split_into_path_query_and_body() {
        let binding = bind("update_memory", Method::PATCH, "/v1/memories/{id}")
            .query(&["project"])
            .hide(&["session"])
            .rename(&[("id", "ids"), ("project", "move_to")]);
        let divided = binding.split(json!({
            "type": "object",
            "properties": {
                "ids": {"type": "array", "items": {"type": "string"}},
                "project": {"type": "string"}, "move_to": {"type": "integer"}, "session": {},
            },
            "required": ["ids", "move_to"],
        }));
        assert_eq!(divided.path["properties"]["id"]["type"], "string");
        assert_eq!(
            divided.query,
            json!({"properties": {"project": {"type": "string"}}, "required": []})
        );
        assert_eq!(
            divided.body,
            Some(
                json!({"type": "object", "properties": {"project": {"type": "integer"}}, "required": ["project"]})
            )
        );
    }

    #[test]
    fn parameters_have_the_type_of_their_schema() {
        let root = json!({"$defs": {"Tier": {"oneOf": [{"const": "low"}]}}});
        let read = |text: &str, schema: Value| parse_parameter(text, &schema, &root);
        let count = json!({"type": ["integer", "null"], "format": "uint32"});
        assert_eq!(read("7", count.clone()), Some(json!(7)));
        assert_eq!(read("-7", count.clone()), None);
        assert_eq!(read("x", count), None);
        let tier = json!({"anyOf": [{"$ref": "#/$defs/Tier"}, {"type": "null"}]});
        assert_eq!(read("low", tier.clone()), Some(json!("low")));
        assert_eq!(read("vital", tier), None);
        assert_eq!(read("true", json!({"type": "boolean"})), Some(json!(true)));
        assert_eq!(read("7", json!({"type": ["string", "null"]})), Some(json!("7")));
    }
}
