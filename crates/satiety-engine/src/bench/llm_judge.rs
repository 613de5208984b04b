//! Asking judges about answers. A judge that fails is the judge's error, never the target's failure.

use satiety::bench::judge::{answer_schema, combine, judge_prompt, parse_answer};
use satiety::bench::{JudgeOpinion, Rubric};
use satiety_models::chat::{Chat, ChatMessage, ChatRequest, JsonSchema};

use crate::{EngineError, Settings};

/// Longest judgement in tokens.
const MAX_TOKENS: u32 = 2048;
/// Questions until an answer can be read.
const TRIES: u32 = 2;

/// The judges of a run.
#[derive(Debug)]
pub(super) struct Judges(Vec<Box<dyn Chat>>);

impl Judges {
    /// Opens the models that judge.
    pub(super) fn open(models: &[String], settings: &Settings) -> Result<Self, EngineError> {
        let open = |model: &String| crate::extraction::open_chat(model, settings);
        Ok(Self(models.iter().map(open).collect::<Result<_, _>>()?))
    }

    /// Whether there is none.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The mean score of all judges, and what each said; why not, where one could not be understood.
    pub(super) async fn ask(
        &self,
        goal: &str,
        output: &str,
        rubric: &Rubric,
        secret: &str,
    ) -> Result<(f64, Vec<JudgeOpinion>), String> {
        let mut answers = Vec::with_capacity(self.0.len());
        for judge in &self.0 {
            let answer = one(judge.as_ref(), goal, output, rubric, secret).await;
            let answer = answer.map_err(|problem| format!("{}: {problem}", judge.id()))?;
            answers.push((judge.id().to_owned(), answer));
        }
        combine(&answers).ok_or_else(|| "there is no judge".into())
    }
}

async fn one(
    judge: &dyn Chat,
    goal: &str,
    output: &str,
    rubric: &Rubric,
    secret: &str,
) -> Result<satiety::bench::judge::JudgeAnswer, String> {
    let prompt = judge_prompt(goal, output, rubric, secret);
    let mut last = String::new();
    for _ in 0..TRIES {
        let request = ChatRequest {
            messages: vec![
                ChatMessage::system(prompt.system.as_str()),
                ChatMessage::user(prompt.user.as_str()),
            ],
            temperature: Some(0.0),
            max_tokens: MAX_TOKENS,
            schema: Some(JsonSchema {
                name: "judgement",
                schema: answer_schema(rubric),
            }),
        };
        // The transport tries again by itself; what it gives up on stays.
        let reply = judge.complete(request).await.map_err(|error| error.to_string())?;
        match parse_answer(&reply.text, rubric) {
            Ok(answer) => return Ok(answer),
            Err(problem) => last = problem.to_string(),
        }
    }
    Err(last)
}
