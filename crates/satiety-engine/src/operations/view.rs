//! Projections of responses for clients with limited space, such as agents. A projection is declared next to
//! the response and applied to both its JSON and its schema.

use serde_json::{Map, Value, json};

/// Fields of an object to keep, and their names in the projection.
#[derive(Debug)]
pub struct View(pub &'static [Field]);

/// A field of a projection.
#[derive(Debug, Clone, Copy)]
pub struct Field {
    name: &'static str,
    /// Dot-separated path in the response.
    path: &'static str,
    /// Projection of a nested object.
    inside: Option<&'static View>,
    /// Projection of each entry of a list or a map.
    each: Option<&'static View>,
    /// Path of the single value to take from each entry.
    pick: Option<&'static str>,
    /// Omitted when null or empty.
    optional: bool,
    /// Included only if this field of the request is true.
    when: Option<&'static str>,
    /// Text to use instead of null.
    otherwise: Option<&'static str>,
    /// Number of digits after the decimal point.
    decimals: Option<i32>,
}

/// Keeps a field unchanged.
pub(crate) const fn keep(name: &'static str) -> Field {
    Field {
        name,
        path: name,
        inside: None,
        each: None,
        pick: None,
        optional: false,
        when: None,
        otherwise: None,
        decimals: None,
    }
}

impl Field {
    pub(crate) const fn at(mut self, path: &'static str) -> Self {
        self.path = path;
        self
    }

    pub(crate) const fn inside(mut self, view: &'static View) -> Self {
        self.inside = Some(view);
        self
    }

    pub(crate) const fn each(mut self, view: &'static View) -> Self {
        self.each = Some(view);
        self
    }

    pub(crate) const fn pick(mut self, path: &'static str) -> Self {
        self.pick = Some(path);
        self
    }

    pub(crate) const fn optional(mut self) -> Self {
        self.optional = true;
        self
    }

    pub(crate) const fn when(mut self, field: &'static str) -> Self {
        self.when = Some(field);
        self.optional()
    }

    pub(crate) const fn otherwise(mut self, text: &'static str) -> Self {
        self.otherwise = Some(text);
        self
    }

    pub(crate) const fn decimals(mut self, digits: i32) -> Self {
        self.decimals = Some(digits);
        self
    }

    fn entry(&self, entry: Value, request: &Value) -> Value {
        match (self.each, self.pick) {
            (Some(view), _) => view.apply(&entry, request),
            (None, Some(path)) => find(&entry, path).cloned().unwrap_or_default(),
            (None, None) => entry,
        }
    }

    fn value(&self, response: &Value, request: &Value) -> Option<Value> {
        if self
            .when
            .is_some_and(|field| request.get(field) != Some(&Value::Bool(true)))
        {
            return None;
        }
        let value = match find(response, self.path).cloned().unwrap_or_default() {
            Value::Null => self.otherwise.map_or(Value::Null, Value::from),
            Value::Array(list) => list.into_iter().map(|item| self.entry(item, request)).collect(),
            Value::Object(map) if self.each.is_some() || self.pick.is_some() => map
                .into_iter()
                .map(|(name, one)| (name, self.entry(one, request)))
                .collect(),
            Value::Number(number) => match (self.decimals, number.as_f64()) {
                (Some(digits), Some(float)) => {
                    let scale = 10_f64.powi(digits);
                    json!((float * scale).round() / scale)
                }
                _ => Value::Number(number),
            },
            value => value,
        };
        let value = match self.inside {
            Some(view) => view.apply(&value, request),
            None => value,
        };
        let empty = [Value::Null, json!(""), json!([])];
        (!self.optional || !empty.contains(&value)).then_some(value)
    }

    fn entry_schema(&self, schema: &Value, root: &Value) -> Value {
        match (self.each, self.pick) {
            (Some(view), _) => view.schema(resolve(schema, root), root),
            (None, Some(path)) => find_schema(schema, path, root).cloned().unwrap_or_default(),
            (None, None) => schema.clone(),
        }
    }

    fn schema(&self, response: &Value, root: &Value) -> Value {
        let found = find_schema(response, self.path, root)
            .cloned()
            .unwrap_or_default();
        if self.otherwise.is_some() {
            return json!({"type": "string", "description": found["description"]});
        }
        if let Some(view) = self.inside {
            return view.schema(resolve(&found, root), root);
        }
        let mut schema = found;
        if self.each.is_some() || self.pick.is_some() {
            for part in ["items", "additionalProperties"] {
                if let Some(entry) = schema.get(part).cloned() {
                    schema[part] = self.entry_schema(&entry, root);
                }
            }
        }
        if self.when.is_some() {
            return json!({"anyOf": [schema, {"type": "null"}]});
        }
        schema
    }
}

impl View {
    /// Applies the projection to a response.
    pub fn apply(&self, response: &Value, request: &Value) -> Value {
        let fields = self.0.iter();
        fields
            .filter_map(|field| Some((field.name.to_owned(), field.value(response, request)?)))
            .collect()
    }

    /// Returns the schema of the projection; references point into `root`, the schema of the complete
    /// response.
    pub fn schema(&self, response: &Value, root: &Value) -> Value {
        let properties: Map<String, Value> = self
            .0
            .iter()
            .map(|field| (field.name.to_owned(), field.schema(response, root)))
            .collect();
        let required: Vec<&str> = self
            .0
            .iter()
            .filter(|field| !field.optional)
            .map(|field| field.name)
            .collect();
        json!({"type": "object", "properties": properties, "required": required})
    }
}

fn find<'a>(value: &'a Value, path: &str) -> Option<&'a Value> {
    path.split('.').try_fold(value, |value, name| value.get(name))
}

/// Follows a reference, or picks the alternative that is not null.
fn resolve<'a>(schema: &'a Value, root: &'a Value) -> &'a Value {
    if let Some(target) = schema["$ref"].as_str() {
        return root.pointer(target.trim_start_matches('#')).unwrap_or(schema);
    }
    let mut choices = schema["anyOf"].as_array().into_iter().flatten();
    match choices.find(|choice| choice["type"] != "null") {
        Some(choice) => resolve(choice, root),
        None => schema,
    }
}

fn find_schema<'a>(schema: &'a Value, path: &str, root: &'a Value) -> Option<&'a Value> {
    path.split('.').try_fold(schema, |schema, name| {
        resolve(schema, root).get("properties")?.get(name)
    })
}
