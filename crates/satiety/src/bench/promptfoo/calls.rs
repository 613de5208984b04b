//! Code that an import has to run: prompts, tests and variables that are functions. The importer names the
//! calls, the caller makes them and imports again with their results.

use serde::Serialize;
use serde_json::Value;

use super::Importer;
use super::test_files::file_extension;
use crate::bench::code_check::Language;

/// A call of code in a file, or of inline code, whose result an import needs.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CodeCall {
    /// Language of the code.
    pub language: Language,
    /// Expression or function body with the parameter `vars`; absent if `file` is given.
    pub code: Option<String>,
    /// File with the function, relative to the directory of the configuration.
    pub file: Option<String>,
    /// Name of the function; the default export of a JavaScript file if `None`.
    pub function: Option<String>,
    /// Arguments of the function.
    pub arguments: Vec<Value>,
}

impl CodeCall {
    /// Text that identifies the call and its arguments.
    pub fn key(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }
}

/// A reference to code: its language, its file and the named function.
#[derive(Debug, Clone)]
pub(super) struct CodeReference {
    pub(super) language: Language,
    pub(super) file: String,
    pub(super) function: Option<String>,
}

/// Whether a reference names a program, with or without a function (`file://grade.py:check`).
pub(super) fn is_code(reference: &str) -> bool {
    let (file, _) = split_function(reference);
    matches!(
        file_extension(file).as_str(),
        "py" | "js" | "ts" | "mjs" | "cjs" | "mts" | "cts" | "tsx" | "jsx" | "rb"
    )
}

fn split_function(reference: &str) -> (&str, Option<&str>) {
    let name = reference.strip_prefix("file://").unwrap_or(reference);
    match name.rsplit_once(':') {
        Some((file, function)) if !function.contains('/') => (file, Some(function)),
        _ => (name, None),
    }
}

impl Importer<'_> {
    /// Resolves a reference to code; the error says why it cannot run.
    pub(super) fn code_reference(&mut self, reference: &str) -> Result<CodeReference, String> {
        let (file, function) = split_function(reference);
        let language = match file_extension(file).as_str() {
            "py" => Language::Python,
            "js" | "mjs" | "cjs" => Language::Javascript,
            "ts" | "mts" | "cts" => {
                if !self.files.runs_typescript() {
                    return Err(format!("{file} is TypeScript, which needs Node.js 22.6 or later"));
                }
                Language::Javascript
            }
            _ => {
                return Err(format!(
                    "cannot run {file} (expected a file in .js, .mjs, .cjs, .ts or .py)"
                ));
            }
        };
        let (file, _) = self.file(file).ok_or_else(|| format!("file not found: {file}"))?;
        Ok(CodeReference {
            language,
            file: self.files.path(&file),
            function: function.map(str::to_owned),
        })
    }

    /// Returns the result of a call. The error is `None` if the call has not been made yet, and otherwise
    /// says why it failed.
    pub(super) fn call(&mut self, call: CodeCall) -> Result<Value, Option<String>> {
        match self.files.returned(&call) {
            Some(Ok(value)) => Ok(value),
            Some(Err(reason)) => Err(Some(reason)),
            None => {
                self.calls.push(call);
                Err(None)
            }
        }
    }

    /// Calls a function in a file. Python functions need a name; `default` is used if the reference has none.
    pub(super) fn call_file(
        &mut self,
        reference: &str,
        default: &str,
        arguments: Vec<Value>,
    ) -> Result<Value, Option<String>> {
        let found = self.code_reference(reference).map_err(Some)?;
        let function = match found.language {
            Language::Python => found.function.or_else(|| Some(default.to_owned())),
            Language::Javascript => found.function,
        };
        self.call(CodeCall {
            language: found.language,
            code: None,
            file: Some(found.file),
            function,
            arguments,
        })
    }
}
