//! Development commands of the project, one module each, and the PostgreSQL server for tests and
//! measurements.

pub mod book;
pub mod browser;
pub mod dist;
pub mod generate;
pub mod node;
pub mod npm;
pub mod pgbouncer;
pub mod picture;
pub mod postgres;
pub mod python;
pub mod quantize;
pub mod style;
pub mod test;
pub mod wheel;
