//! LLM judge: builds the prompt, parses the reply, and measures how reliable the judge is.
//!
//! The answer under judgement is untrusted data. It is enclosed by two lines with a marker that its author
//! cannot know, the rubric precedes it, and the prompt states that nothing between the markers is an
//! instruction. An unusable reply is a *judge error*, never a failure of the target.
//!
//! The caller sends the prompt to the model.

mod agreement;
mod answer;
mod calibration;
mod prompt;

pub(crate) use agreement::agreement_of;
pub use answer::{CriterionAnswer, JudgeAnswer, JudgeError, combine, criterion_scores, parse_answer};
pub use calibration::{Calibration, calibrate};
pub use prompt::{JudgePrompt, answer_schema, judge_prompt};
