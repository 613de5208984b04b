//! `satiety.Embedder`: the built-in sentence model, or one from a directory.

use std::path::PathBuf;

use numpy::{PyArray1, PyArray2, PyArrayMethods};
use pyo3::prelude::*;
use satiety_models::EmbedError;
use satiety_models::minilm::MiniLm;

use crate::error::{Failure, compute};

impl From<EmbedError> for Failure {
    fn from(error: EmbedError) -> Self {
        Self::new(error.to_string()).at("directory")
    }
}

/// A sentence model.
#[pyclass(frozen, module = "satiety._satiety")]
pub(crate) struct Embedder(pub(crate) MiniLm);

#[pymethods]
impl Embedder {
    #[new]
    #[pyo3(signature = (directory))]
    fn new(py: Python<'_>, directory: Option<PathBuf>) -> PyResult<Self> {
        compute(py, || {
            Ok(Self(match directory {
                Some(directory) => MiniLm::from_directory(&directory)?,
                None => MiniLm::builtin()?,
            }))
        })
    }

    /// Encodes texts into rows of unit length.
    #[pyo3(signature = (texts, threads))]
    fn encode<'py>(
        &self,
        py: Python<'py>,
        texts: Vec<String>,
        threads: Option<usize>,
    ) -> PyResult<Bound<'py, PyArray2<f32>>> {
        let dimension = self.0.dimension();
        let values = compute(py, || {
            let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
            let vectors = match threads {
                Some(threads) => self.0.encode_on(&texts, threads),
                None => self.0.encode(&texts),
            };
            Ok(vectors.concat())
        })?;
        PyArray1::from_vec(py, values).reshape([texts.len(), dimension])
    }

    #[getter]
    fn id(&self) -> String {
        self.0.id().to_string()
    }

    #[getter]
    fn dimension(&self) -> usize {
        self.0.dimension()
    }
}

/// The built-in model, loaded on first use.
pub(crate) fn builtin(wanted: bool) -> Result<Option<MiniLm>, Failure> {
    Ok(if wanted { Some(MiniLm::builtin()?) } else { None })
}
