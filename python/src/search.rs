//! `satiety.SearchGate`: is another search worth it?

use std::sync::{Mutex, PoisonError};

use pyo3::prelude::*;
use pyo3::types::PyDict;
use satiety::research::{Gate, GateSettings, Hit, RoundInput};
use satiety_models::minilm::MiniLm;
use serde_json::json;

use crate::convert::{from_python, settings, to_python};
use crate::embedder::builtin;
use crate::error::{Failure, compute};

/// Gate of one search loop, behind a lock so that threads may share it.
#[pyclass(frozen, module = "satiety._satiety")]
pub(crate) struct SearchGate {
    gate: Mutex<Gate>,
    model: Option<MiniLm>,
}

#[pymethods]
impl SearchGate {
    #[new]
    fn new(py: Python<'_>, task: &str, options: &Bound<'_, PyDict>, meaning: bool) -> PyResult<Self> {
        let options: GateSettings = settings(options, "options")?;
        compute(py, || {
            let gate =
                Gate::new(options, task).map_err(|error| Failure::new(error.to_string()).at("options"))?;
            Ok(Self {
                gate: Mutex::new(gate),
                model: builtin(meaning)?,
            })
        })
    }

    fn observe<'py>(
        &self,
        py: Python<'py>,
        results: &Bound<'py, PyAny>,
        failed: bool,
    ) -> PyResult<Bound<'py, PyAny>> {
        let hits: Vec<Hit> = from_python(results, "results")?;
        let observed = compute(py, || {
            let claims = Gate::claims(&hits);
            let texts: Vec<&str> = claims.iter().map(|claim| claim.text.as_str()).collect();
            let vectors = self.model.as_ref().map(|model| model.encode(&texts));
            let mut gate = self.gate.lock().unwrap_or_else(PoisonError::into_inner);
            let (verdict, novelty) = gate.observe(&RoundInput {
                results: &hits,
                failed,
                vectors: vectors.as_deref(),
                ..RoundInput::default()
            });
            Ok(
                json!({"verdict": verdict, "novelty": novelty, "words": verdict.words(), "summary": gate.summary()}),
            )
        })?;
        to_python(py, &observed)
    }
}
