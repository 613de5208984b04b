//! Use of the chat model in research: planning queries, scoring novelty, writing the summary. Each has a
//! rule-based fallback, so a failed call costs quality but never the run.

use satiety::research::assess::{ModelScore, model_score};
use satiety::research::prompts::{self, Prompt};
use satiety::research::{AnswerTask, Hit, ModelCalls, Spent};
use satiety_models::chat::{Chat, ChatMessage, ChatRequest, Usage};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Estimated characters per token, if a server reports no usage.
const CHARS_PER_TOKEN: u64 = 4;

/// Prices of a model per million tokens.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Prices {
    /// Price per million input tokens.
    pub input: f64,
    /// Price per million output tokens.
    pub output: f64,
}

/// A chat model that tracks its cost.
pub(super) struct ResearchModel<'a> {
    pub(super) chat: Option<&'a dyn Chat>,
    pub(super) prices: Prices,
    /// Calls of the current round, for its record.
    pub(super) calls: ModelCalls,
    pub(super) spent: Spent,
    /// Error of the last failed call.
    pub(super) failure: Option<String>,
}

impl<'a> ResearchModel<'a> {
    pub(super) fn new(chat: Option<&'a dyn Chat>, prices: Prices) -> Self {
        Self {
            chat,
            prices,
            calls: ModelCalls::default(),
            spent: Spent::default(),
            failure: None,
        }
    }

    /// Resets the counters for a new round.
    pub(super) fn begin(&mut self) {
        self.calls = ModelCalls::default();
        self.spent = Spent::default();
    }

    /// Plans a query for the largest gap.
    pub(super) async fn plan(&mut self, task: &str, summary: &str, asked: &[String]) -> Option<String> {
        self.chat?;
        self.calls.plan += 1;
        let answer = self.ask(prompts::plan(task, summary, asked), 0.3).await?;
        prompts::parse_query(&answer)
    }

    /// Scores the novelty of results.
    pub(super) async fn novelty(&mut self, summary: &str, results: &[Hit]) -> Option<ModelScore> {
        self.chat?;
        self.calls.novelty += 1;
        let answer = self.ask(prompts::novelty(summary, results), 0.0).await?;
        Some(model_score(&answer))
    }

    /// Writes the next summary.
    pub(super) async fn compress(
        &mut self,
        summary: &str,
        results: &[Hit],
        max_chars: usize,
        shown_chars: usize,
    ) -> Option<String> {
        self.chat?;
        self.calls.compress += 1;
        let prompt = prompts::compress(summary, results, max_chars, shown_chars);
        let answer = self.ask(prompt, 0.1).await?;
        prompts::parse_summary(&answer, max_chars)
    }

    /// Answers a question from its passages.
    pub(super) async fn answer(&mut self, task: &AnswerTask) -> Option<String> {
        self.chat?;
        self.calls.answer += 1;
        self.ask(task.prompt(), 0.0).await
    }

    async fn ask(&mut self, prompt: Prompt, temperature: f64) -> Option<String> {
        let chat = self.chat?;
        let sent = prompt.system.chars().count() + prompt.user.chars().count();
        let request = ChatRequest {
            messages: vec![ChatMessage::system(prompt.system), ChatMessage::user(prompt.user)],
            temperature: Some(temperature),
            max_tokens: prompt.max_tokens,
            schema: None,
        };
        match chat.complete(request).await {
            Ok(answer) => {
                self.pay(answer.usage, sent, answer.text.chars().count());
                Some(answer.text)
            }
            Err(error) => {
                self.calls.failed += 1;
                tracing::warn!(%error, "the chat model failed; falling back to rules");
                self.failure = Some(error.to_string());
                None
            }
        }
    }

    fn pay(&mut self, usage: Usage, sent_chars: usize, written_chars: usize) {
        let estimate = |chars: usize| (chars as u64).div_ceil(CHARS_PER_TOKEN);
        let input = usage.input_tokens.unwrap_or_else(|| estimate(sent_chars));
        let output = usage.output_tokens.unwrap_or_else(|| estimate(written_chars));
        self.spent += Spent {
            seconds: 0.0,
            tokens: input.saturating_add(output),
            money: (input as f64 * self.prices.input + output as f64 * self.prices.output) / 1e6,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_reported_or_estimated() {
        let mut model = ResearchModel::new(
            None,
            Prices {
                input: 1.0,
                output: 10.0,
            },
        );
        model.pay(
            Usage {
                input_tokens: Some(1000),
                output_tokens: Some(100),
            },
            9,
            9,
        );
        assert_eq!(model.spent.tokens, 1100);
        assert!((model.spent.money - 0.002).abs() < 1e-12);
        model.begin();
        model.pay(Usage::default(), 9, 4);
        assert_eq!(model.spent.tokens, 4);
    }
}
