//! The one error of the package, `satiety.SatietyError`, with the place in the input and a suggested action.

use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyType};

/// An error that becomes a `satiety.SatietyError`.
#[derive(Debug)]
pub(crate) struct Failure {
    message: String,
    hint: Option<String>,
    /// Path of the field in the input, such as `messages[2].role`.
    place: Option<String>,
}

impl Failure {
    pub(crate) fn new(message: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            hint: None,
            place: None,
        }
    }

    /// Sets the field of the input that is wrong.
    pub(crate) fn at(mut self, place: impl Into<String>) -> Self {
        self.place = Some(place.into());
        self
    }

    /// Sets one action that fixes the problem.
    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}

impl From<Failure> for PyErr {
    fn from(failure: Failure) -> Self {
        Python::attach(|py| match error_type(py) {
            Ok(class) => {
                let details = PyDict::new(py);
                let set = details
                    .set_item("hint", failure.hint)
                    .and_then(|()| details.set_item("where", failure.place));
                match set.and_then(|()| class.call((failure.message,), Some(&details))) {
                    Ok(error) => PyErr::from_value(error),
                    Err(error) => error,
                }
            }
            Err(error) => error,
        })
    }
}

fn error_type(py: Python<'_>) -> PyResult<&Bound<'_, PyType>> {
    static CLASS: PyOnceLock<Py<PyType>> = PyOnceLock::new();
    CLASS.import(py, "satiety._errors", "SatietyError")
}

/// Runs a computation without the interpreter lock, so that other threads of the caller go on.
pub(crate) fn compute<T: Send>(
    py: Python<'_>,
    run: impl FnOnce() -> Result<T, Failure> + Send,
) -> PyResult<T> {
    py.detach(run).map_err(PyErr::from)
}
