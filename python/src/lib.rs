//! Extension module `satiety._satiety`: the library and the built-in sentence model for Python.
//!
//! Functions take plain Python objects, release the interpreter lock while they compute, and return plain
//! objects, which the Python package turns into frozen dataclasses. Errors are `satiety.SatietyError`.

#![expect(
    clippy::needless_pass_by_value,
    reason = "arguments of functions for Python are owned"
)]

mod bench;
mod convert;
mod dialogue;
mod embedder;
mod error;
mod eviction;
mod progress;
mod retrieval;
mod search;
mod stats;

#[pyo3::pymodule]
mod _satiety {
    #[pymodule_export]
    use crate::bench::{Results, Sequential, bench_compare, bench_power, bench_saturation};
    #[pymodule_export]
    use crate::dialogue::{Conversation, score};
    #[pymodule_export]
    use crate::embedder::Embedder;
    #[pymodule_export]
    use crate::eviction::Context;
    #[pymodule_export]
    use crate::progress::Progress;
    #[pymodule_export]
    use crate::retrieval::{Qrels, Run, retrieval_compare, retrieval_evaluate, retrieval_evaluate_dicts};
    #[pymodule_export]
    use crate::search::SearchGate;
    #[pymodule_export]
    use crate::stats::{
        ConfidenceSequence, Sprt, bootstrap, pass_at_k, permutation, rank_correlation, sign_test, t_test,
        unseen, wilson,
    };
    use pyo3::prelude::*;

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        // The running program is the interpreter, which may be installed elsewhere.
        #[cfg(feature = "external-weights")]
        satiety_models::minilm::search_near(module.getattr("__spec__")?.getattr("origin")?.extract()?);
        module.add("__version__", env!("CARGO_PKG_VERSION"))
    }
}
