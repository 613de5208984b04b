//! A model as judge: what it is asked, how its answer is read, and how far it can be trusted.
//!
//! The answer under judgement is data. It stands between two lines with a mark that its author cannot have known, the
//! rubric stands before it, and the judge is told that nothing between the marks is an instruction. Whatever the judge
//! says that cannot be read is a *judge error*, never a failure of the target.
//!
//! Asking the model is somebody else's work.

mod agreement;
mod answer;
mod calibration;
mod prompt;

pub use agreement::agreement_of;
pub use answer::{CriterionAnswer, JudgeAnswer, JudgeError, combine, parse_answer};
pub use calibration::{Calibration, calibrate};
pub use prompt::{JudgePrompt, answer_schema, judge_prompt};
