//! The satiety command.
fn main() {}
