//! Measures how reliably and how soon the harness detects suites that have become too easy, its false triggers and its cost.
//!
//! `cargo run --release --manifest-path studies/Cargo.toml --bin harness [HISTORIES]`

#![expect(clippy::print_stdout, reason = "prints the measurements")]

mod archetypes;
mod histories;
mod scenarios;
mod speed;

fn main() -> anyhow::Result<()> {
    let histories: u64 = std::env::args().nth(1).map_or(Ok(1_000), |text| text.parse())?;
    archetypes::print()?;
    scenarios::print_detection(histories)?;
    scenarios::print_false_triggers(histories)?;
    speed::print()
}
