//! The project's own commands, one module each; `main` only dispatches.
pub mod quantize;
