//! Table of all operations that clients may call, each with name, request, response, scope, effect and
//! summary. HTTP routes, MCP tools and the OpenAPI document are bindings of these entries, so a request field
//! is documented once, on its type.

mod bench;
mod call;
mod check;
mod constraints;
mod conversations;
mod eviction;
mod experiment;
mod harness;
mod memory;
mod page;
mod progress;
mod retrieval;
mod tenants;
mod view;

use std::borrow::Cow;
use std::pin::Pin;
use std::sync::{LazyLock, OnceLock};

use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

pub use call::{Call, CallError, HarnessSettings, Observer, Reach};
pub use check::bound_numbers;
use check::{Checker, whole_numbers};
pub(crate) use constraints::MEASURE;
pub use constraints::constrain;
pub use page::PageRequest;
pub use view::View;

use crate::EngineError;
use crate::tokens::Scope;

/// Effect of an operation on stored data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Effect {
    /// Returns stored data.
    Read,
    /// Computes a result that is not stored.
    Compute,
    /// Creates or changes stored data.
    Write,
    /// Removes stored data permanently.
    Destructive,
}

/// JSON Schema of a request or a response, and the name of its type.
#[derive(Clone, Copy)]
pub struct Shape {
    /// Name of the type in the OpenAPI document.
    pub name: fn() -> Cow<'static, str>,
    /// Inline schema, with references to the types it contains.
    pub schema: fn(&mut SchemaGenerator) -> Schema,
    /// Reference to the schema, which the generator then defines.
    pub reference: fn(&mut SchemaGenerator) -> Schema,
}

impl Shape {
    /// Shape of the type `T`.
    pub fn for_type<T: JsonSchema>() -> Self {
        Self {
            name: T::schema_name,
            schema: T::json_schema,
            reference: SchemaGenerator::subschema_for::<T>,
        }
    }
}

/// Request without any fields.
#[derive(Debug, serde::Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NoFields {}

/// Request that selects an object by id.
#[derive(Debug, serde::Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct IdRequest {
    /// Id of the object.
    #[schemars(length(min = 1, max = 256))]
    pub id: String,
}

/// Future of a running operation; it resolves to the response as JSON.
pub type Work = Pin<Box<dyn Future<Output = Result<Vec<u8>, EngineError>> + Send>>;

type Start = Box<dyn Fn(Call, &Value) -> Result<Work, CallError> + Send + Sync>;

/// Operations that write to the registry in the main store, so that they work for a tenant without storage.
const IN_REGISTRY: [&str; 1] = ["create_token"];

/// Entry of the operation table.
pub struct Operation {
    /// Name that surfaces bind to; the operation id in OpenAPI.
    pub name: &'static str,
    /// One-line summary in the imperative.
    pub summary: &'static str,
    /// Scope that the caller's token must have.
    pub scope: Scope,
    pub effect: Effect,
    pub request: Shape,
    pub response: Shape,
    start: Start,
    checker: OnceLock<Checker>,
}

impl std::fmt::Debug for Operation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Operation")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

impl Operation {
    /// Creates an operation that is executed by `run`.
    pub fn new<R, T, F>(
        name: &'static str,
        summary: &'static str,
        scope: Scope,
        effect: Effect,
        run: impl Fn(Call, R) -> F + Send + Sync + 'static,
    ) -> Self
    where
        R: DeserializeOwned + JsonSchema,
        T: Serialize + JsonSchema,
        F: Future<Output = Result<T, EngineError>> + Send + 'static,
    {
        let start = move |call: Call, fields: &Value| -> Result<Work, CallError> {
            let request = serde_path_to_error::deserialize(fields).map_err(|error| CallError::Invalid {
                place: error.path().to_string(),
                message: error.inner().to_string(),
            })?;
            let work = run(call, request);
            Ok(Box::pin(async move {
                serde_json::to_vec(&work.await?).map_err(|cause| CallError::Response(cause).into())
            }))
        };
        Self {
            name,
            summary,
            scope,
            effect,
            request: Shape::for_type::<R>(),
            response: Shape::for_type::<T>(),
            start: Box::new(start),
            checker: OnceLock::new(),
        }
    }

    /// Whether the operation changes stored data.
    pub fn writes(&self) -> bool {
        matches!(self.effect, Effect::Write | Effect::Destructive)
    }

    /// Deserialises the fields of a request and validates them against its schema. Nothing runs before the
    /// result is awaited. A tenant without storage can read, compute and delete.
    pub fn start(&self, call: Call, fields: &Value) -> Result<Work, EngineError> {
        if self.effect == Effect::Write && !IN_REGISTRY.contains(&self.name) {
            call.engine.admit_storage()?;
        }
        let work = (self.start)(call.clone(), fields).or_else(|error| {
            // JSON has one number type: `3.0` is the integer 3.
            let mut whole = fields.clone();
            if whole_numbers(&mut whole) {
                (self.start)(call, &whole)
            } else {
                Err(error)
            }
        })?;
        let checker = self.checker.get_or_init(|| Checker::new(self.request_schema()));
        checker.check(fields)?;
        Ok(work)
    }

    /// Schema of the request, including all referenced definitions.
    pub fn request_schema(&self) -> Value {
        let mut generator = SchemaSettings::draft2020_12().for_deserialize().into_generator();
        let name = (self.request.name)();
        let schema = (self.request.schema)(&mut generator).to_value();
        let mut definitions = generator.take_definitions(true);
        definitions.insert(name.to_string(), schema);
        constrain(&mut definitions);
        let mut schema = definitions.remove(&*name).unwrap_or_default();
        // The published document describes the documented formats; the readers accept more.
        for (owner, pointer) in constraints::OPEN {
            if *owner == name
                && let Some(part) = schema.pointer_mut(pointer)
            {
                *part = Value::Bool(true);
            }
        }
        schema["$defs"] = definitions.into();
        schema
    }
}

pub fn all() -> &'static [Operation] {
    static TABLE: LazyLock<Vec<Operation>> = LazyLock::new(|| {
        let mut table = Vec::new();
        table.extend(conversations::operations());
        table.extend(progress::operations());
        table.extend(memory::operations());
        table.extend(retrieval::operations());
        table.extend(experiment::operations());
        table.extend(eviction::operations());
        table.extend(bench::operations());
        table.extend(harness::operations());
        table.extend(tenants::operations());
        table
    });
    &TABLE
}

/// Looks up an operation by name.
pub fn find(name: &str) -> Option<&'static Operation> {
    all().iter().find(|operation| operation.name == name)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn names_are_unique_and_requests_reject_unknown_fields() {
        let names: BTreeSet<&str> = all().iter().map(|operation| operation.name).collect();
        assert_eq!(names.len(), all().len());
        for operation in all() {
            let schema = operation.request_schema();
            assert_eq!(schema["type"], "object", "{}", operation.name);
            assert_eq!(schema["additionalProperties"], false, "{}", operation.name);
        }
    }
}
