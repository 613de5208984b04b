//! LLM judges of responses. An error of a judge never counts as a failure of the target.

use satiety::bench::judge::{answer_schema, combine, judge_prompt, parse_answer};
use satiety::bench::{JudgeOpinion, Rubric};
use satiety_models::chat::{Chat, ChatMessage, ChatRequest, JsonSchema};

use crate::{EngineError, Settings};

/// Maximum length of a judgement in tokens.
const MAX_TOKENS: u32 = 2048;
/// Maximum number of calls until a judgement can be parsed.
const MAX_ATTEMPTS: u32 = 2;

/// Chat models that judge the responses of a run.
#[derive(Debug)]
pub(super) struct Judges(Vec<Box<dyn Chat>>);

impl Judges {
    pub(super) fn open(models: &[String], settings: &Settings) -> Result<Self, EngineError> {
        let open = |model: &String| crate::extraction::open_chat(model, settings);
        Ok(Self(models.iter().map(open).collect::<Result<_, _>>()?))
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the mean score of all judges and each judgement; an error if one of them cannot be parsed.
    pub(super) async fn ask(
        &self,
        goal: &str,
        output: &str,
        rubric: &Rubric,
        secret: &str,
    ) -> Result<(f64, Vec<JudgeOpinion>), String> {
        let mut answers = Vec::with_capacity(self.0.len());
        for judge in &self.0 {
            let answer = ask_judge(judge.as_ref(), goal, output, rubric, secret).await;
            let answer = answer.map_err(|problem| format!("{}: {problem}", judge.id()))?;
            answers.push((judge.id().to_owned(), answer));
        }
        combine(&answers).ok_or_else(|| "no judge configured".into())
    }
}

async fn ask_judge(
    judge: &dyn Chat,
    goal: &str,
    output: &str,
    rubric: &Rubric,
    secret: &str,
) -> Result<satiety::bench::judge::JudgeAnswer, String> {
    let prompt = judge_prompt(goal, output, rubric, secret);
    let mut last = String::new();
    for _ in 0..MAX_ATTEMPTS {
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
        // The HTTP client retries by itself; its final error is returned.
        let reply = judge.complete(request).await.map_err(|error| error.to_string())?;
        match parse_answer(&reply.text, rubric) {
            Ok(answer) => return Ok(answer),
            Err(problem) => last = problem.to_string(),
        }
    }
    Err(last)
}
