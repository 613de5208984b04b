//! Conversations for measurements of scoring.

use serde_json::{Value, json};

/// Request to score 40 rounds of 8 claims, with words drawn from a Zipf distribution. Every fourth claim
/// repeats an earlier one.
pub fn long() -> Value {
    const ROUNDS: usize = 40;
    const CLAIMS: usize = 8;
    let mut state = 7_u64;
    let mut draw = move |below: usize| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        ((state >> 33) as usize) % below.max(1)
    };
    let mut said: Vec<String> = Vec::new();
    let rounds: Vec<Value> = (1..=ROUNDS)
        .map(|round| {
            let claims: Vec<String> = (0..CLAIMS)
                .map(|number| {
                    if number % 4 == 3 && !said.is_empty() {
                        return said[draw(said.len())].clone();
                    }
                    let words: Vec<String> = (0..12)
                        .map(|_| {
                            let below = 1 + draw(2000);
                            format!("word{}", draw(below))
                        })
                        .collect();
                    said.push(format!("{}.", words.join(" ")));
                    said[said.len() - 1].clone()
                })
                .collect();
            json!({"round": round, "agent": "a", "outputs": {"claims": claims,
                "next_actions": ["Write db/0007_jobs.sql", "Run the load test again"],
                "open_questions": if round % 6 < 5 { vec!["Who owns the table?"] } else { vec![] }}})
        })
        .collect();
    json!({"conversation": {"rounds": rounds}})
}
