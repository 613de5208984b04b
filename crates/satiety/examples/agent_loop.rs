//! An agent loop that checks after every round whether another round is worth it.
//! `cargo run -p satiety --example agent_loop`

#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use satiety::dialogue::{Conversation, ConversationError, Outputs, Profile, Round, Signal};

fn main() -> Result<(), ConversationError> {
    let mut conversation = Conversation::new(Profile::default())?;
    for number in 1..=10 {
        let verdict = conversation.observe(&Round::new(number, ask_the_agent(number)), None)?;
        println!(
            "round {number}: {} ({})",
            verdict.signal,
            verdict.reasons.join(" ")
        );
        if verdict.signal != Signal::Continue {
            print!("\n{}", verdict.explanation);
            break;
        }
    }
    Ok(())
}

/// Stands in for a model: two rounds with something to say, then only echoes.
fn ask_the_agent(round: u32) -> Outputs {
    let (claims, questions, actions): (&[&str], &[&str], &[&str]) = match round {
        1 => (
            &[
                "Deploys fail on Mondays.",
                "The weekly certificate job runs at nine.",
            ],
            &["Does the job restart the proxy?"],
            &[],
        ),
        2 => (
            &["The job restarts the proxy, which drops deploys."],
            &["Can the job run at night?"],
            &["Look at the schedule."],
        ),
        _ => (
            &["The job restarts the proxy, which drops deploys."],
            &[],
            &["Move the certificate job to three in the morning."],
        ),
    };
    let strings = |list: &[&str]| list.iter().map(|&text| text.to_owned()).collect();
    Outputs {
        claims: claims.iter().map(|&text| text.into()).collect(),
        open_questions: strings(questions),
        next_actions: strings(actions),
        ..Outputs::default()
    }
}
