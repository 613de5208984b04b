//! The project's own commands, and the PostgreSQL server that tests and measurements run against.

pub mod generate;
pub mod postgres;
pub mod test;
