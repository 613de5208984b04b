//! The project's own commands, one module each, and the PostgreSQL server that tests and measurements run against.

pub mod book;
pub mod browser;
pub mod generate;
pub mod node;
pub mod picture;
pub mod postgres;
pub mod quantize;
pub mod style;
pub mod test;
