//! Benchmarks of agents and skills: did a change make the system better, worse, or can nobody tell?

pub mod contract;
