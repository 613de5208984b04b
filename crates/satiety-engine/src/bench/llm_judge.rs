//! LLM judges of responses: chat models, and command-line programs that ask one. An error of a judge never counts as a failure of the target.

use std::process::Stdio;
use std::time::Duration;

use satiety::bench::judge::{JudgePrompt, answer_schema, combine, judge_prompt, parse_answer};
use satiety::bench::{JudgeOpinion, Rubric};
use satiety_models::chat::{Chat, ChatMessage, ChatRequest, JsonSchema};

use tokio::io::AsyncWriteExt as _;

use super::target::pipes::{Capture, Overflow, Tail};
use crate::{Engine, EngineError};

/// Maximum length of a judgement in tokens.
const MAX_TOKENS: u32 = 2048;
/// Maximum duration of a command that judges.
const TIMEOUT: Duration = Duration::from_mins(5);
/// Maximum size of its answer in bytes.
const MAX_OUTPUT: u64 = 1 << 20;
/// Maximum number of calls until a judgement can be parsed.
const MAX_ATTEMPTS: u32 = 2;

/// Judges of the responses of a run.
#[derive(Debug)]
pub(super) struct Judges(Vec<Judge>);

/// A chat model, or a command that reads the question on stdin and writes the judgement to stdout.
#[derive(Debug)]
enum Judge {
    Chat(Box<dyn Chat>),
    Command(CommandJudge),
}

impl Judges {
    pub(super) fn open(models: &[String], engine: &Engine) -> Result<Self, EngineError> {
        let open = |model: &String| match model.strip_prefix("exec:") {
            Some(command) => CommandJudge::parse(model, command).map(Judge::Command),
            None => crate::extraction::open_chat(model, engine).map(Judge::Chat),
        };
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
            let answer = ask_judge(judge, goal, output, rubric, secret).await;
            let answer = answer.map_err(|problem| format!("{}: {problem}", judge.id()))?;
            answers.push((judge.id().to_owned(), answer));
        }
        combine(&answers).ok_or_else(|| "no judge configured".into())
    }
}

async fn ask_judge(
    judge: &Judge,
    goal: &str,
    output: &str,
    rubric: &Rubric,
    secret: &str,
) -> Result<satiety::bench::judge::JudgeAnswer, String> {
    let prompt = judge_prompt(goal, output, rubric, secret);
    let mut last = String::new();
    for _ in 0..MAX_ATTEMPTS {
        let reply = judge.complete(&prompt, rubric).await?;
        match parse_answer(&reply, rubric) {
            Ok(answer) => return Ok(answer),
            Err(problem) => last = problem.to_string(),
        }
    }
    Err(last)
}

impl Judge {
    /// Model or command, as reports name the judge.
    fn id(&self) -> &str {
        match self {
            Self::Chat(chat) => chat.id(),
            Self::Command(command) => &command.id,
        }
    }

    async fn complete(&self, prompt: &JudgePrompt, rubric: &Rubric) -> Result<String, String> {
        let schema = answer_schema(rubric);
        match self {
            Self::Chat(chat) => {
                let request = ChatRequest {
                    messages: vec![
                        ChatMessage::system(prompt.system.as_str()),
                        ChatMessage::user(prompt.user.as_str()),
                    ],
                    temperature: Some(0.0),
                    max_tokens: MAX_TOKENS,
                    schema: Some(JsonSchema {
                        name: "judgement",
                        schema,
                    }),
                };
                // The HTTP client retries by itself; its final error is returned.
                let reply = chat.complete(request).await;
                reply.map(|reply| reply.text).map_err(|error| error.to_string())
            }
            Self::Command(command) => {
                let question = format!(
                    "{}\n\n{}\n\nAnswer only with a JSON object that matches this schema:\n{schema}\n",
                    prompt.system, prompt.user
                );
                command.ask(&question).await
            }
        }
    }
}

/// Command-line program that judges, such as `claude -p`.
#[derive(Debug)]
struct CommandJudge {
    id: String,
    command: String,
    args: Vec<String>,
}

impl CommandJudge {
    fn parse(id: &str, command: &str) -> Result<Self, EngineError> {
        let mut words = command.split_whitespace().map(str::to_owned);
        let command = words.next().ok_or_else(|| EngineError::Invalid {
            message: format!("judge `{id}` has no command"),
            hint: "name a command that reads the question on stdin, such as `exec:claude -p`".into(),
        })?;
        Ok(Self {
            id: id.to_owned(),
            command,
            args: words.collect(),
        })
    }

    /// Runs the command in an empty directory with the question on stdin, and returns what it prints.
    async fn ask(&self, question: &str) -> Result<String, String> {
        let workdir = tempfile::tempdir().map_err(|error| format!("cannot create a directory: {error}"))?;
        let mut child = tokio::process::Command::new(&self.command)
            .args(&self.args)
            .current_dir(workdir.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .map_err(|error| format!("cannot start `{}`: {error}", self.command))?;
        let (Some(mut to), Some(from), Some(errors)) =
            (child.stdin.take(), child.stdout.take(), child.stderr.take())
        else {
            return Err("the process has no pipes".into());
        };
        let (mut stdout, mut stderr) = (Capture::new(MAX_OUTPUT), Tail::default());
        let talk = async {
            let feed = async {
                // A program may respond without reading its input to the end.
                let _ = to.write_all(question.as_bytes()).await;
                drop(to);
                Ok(())
            };
            let errors = async {
                stderr.fill(errors).await;
                Ok::<(), Overflow>(())
            };
            tokio::try_join!(feed, stdout.fill(from), errors)
                .map_err(|_| format!("the answer exceeds {} MB", MAX_OUTPUT >> 20))?;
            child
                .wait()
                .await
                .map_err(|error| format!("cannot wait for the process: {error}"))
        };
        let status = tokio::time::timeout(TIMEOUT, talk)
            .await
            .map_err(|_| format!("no answer within {} seconds", TIMEOUT.as_secs()))??;
        if !status.success() {
            let said = stderr.take();
            let last = said.lines().next_back().unwrap_or_default();
            return Err(format!("the command failed ({status}): {last}"));
        }
        Ok(String::from_utf8_lossy(&stdout.bytes).into_owned())
    }
}
