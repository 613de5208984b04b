//! Extension module `satiety._satiety`: the library and the built-in sentence model for Python.
//!
//! Functions take plain Python objects, release the interpreter lock while they compute, and return plain
//! objects, which the Python package turns into frozen dataclasses. Errors are `satiety.SatietyError`.

mod convert;
mod error;
mod progress;

use pyo3::prelude::*;

#[pymodule]
mod _satiety {
    #[pymodule_export]
    use crate::progress::Progress;
    use pyo3::prelude::*;

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        module.add("__version__", env!("CARGO_PKG_VERSION"))
    }
}
