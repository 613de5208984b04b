//! Recorded responses: judging and reporting without calling a system.

use std::collections::HashMap;
use std::io::BufRead as _;
use std::time::Duration;

use satiety::bench::contract::parse::{from_object, is_answer};
use satiety::bench::contract::spec::ReplaySpec;
use satiety::bench::contract::{ErrorKind, Request, Response, TargetError};
use serde_json::{Map, Value};

use super::super::sandbox::layout::canonical;
use super::{Attempt, OpenError, TargetContext};

#[derive(Debug)]
pub struct Replay {
    answers: HashMap<(String, u32), Vec<Recorded>>,
}

#[derive(Debug)]
struct Recorded {
    /// `None` matches any variant.
    variant: Option<String>,
    latency: Duration,
    outcome: Result<Response, TargetError>,
}

impl Replay {
    pub(super) fn open(spec: &ReplaySpec, context: &TargetContext) -> Result<Self, OpenError> {
        let path = context.base.join(&spec.file);
        if context.sandbox.protected.resolved().is_outside(&canonical(&path)) {
            return Err(OpenError::outside(&path));
        }
        let bad = |reason: String| OpenError::description("file", reason);
        let file = fs_err::File::open(&path).map_err(|error| bad(error.to_string()))?;
        let mut answers: HashMap<_, Vec<Recorded>> = HashMap::new();
        for (index, line) in std::io::BufReader::new(file).lines().enumerate() {
            let at = |reason: &str| bad(format!("{}:{}: {reason}", path.display(), index + 1));
            let line = line.map_err(|error| at(&error.to_string()))?;
            if line.trim().is_empty() {
                continue;
            }
            let record: Map<String, Value> =
                serde_json::from_str(&line).map_err(|error| at(&format!("not a JSON object: {error}")))?;
            let (key, recorded) = read(record).map_err(at)?;
            let others = answers.entry(key).or_default();
            if others.iter().any(|other| other.variant == recorded.variant) {
                return Err(at("duplicate record of case, variant and repeat"));
            }
            others.push(recorded);
        }
        Ok(Self { answers })
    }

    pub(super) fn call(&self, request: &Request) -> Attempt {
        let key = (request.case_id.clone(), request.repeat);
        let recorded = self.answers.get(&key).map(Vec::as_slice).unwrap_or_default();
        let found = recorded
            .iter()
            .find(|recorded| recorded.variant.as_deref() == Some(&request.variant))
            .or_else(|| recorded.iter().find(|recorded| recorded.variant.is_none()));
        match found {
            Some(recorded) => Attempt::bare(recorded.outcome.clone(), recorded.latency),
            None => Attempt::bare(
                Err(TargetError::new(
                    ErrorKind::Target,
                    format!(
                        "no recorded response for case `{}`, repeat {}, variant `{}`",
                        request.case_id, request.repeat, request.variant
                    ),
                )),
                Duration::ZERO,
            ),
        }
    }
}

fn read(mut record: Map<String, Value>) -> Result<((String, u32), Recorded), &'static str> {
    let Some(Value::String(case)) = record.remove("case_id") else {
        return Err("`case_id` is missing or not a string");
    };
    // A record without a repeat counts as the first: one response must not be reused for several.
    let repeat = match record.remove("repeat") {
        None => 0,
        Some(repeat) => repeat
            .as_u64()
            .and_then(|repeat| u32::try_from(repeat).ok())
            .ok_or("`repeat` is not a non-negative integer")?,
    };
    let variant = match record.remove("variant") {
        None => None,
        Some(Value::String(variant)) => Some(variant),
        Some(_) => return Err("`variant` is not a string"),
    };
    if !is_answer(&record) {
        return Err("missing `output` or `error`");
    }
    let latency = record.get("latency_ms").and_then(Value::as_f64).unwrap_or(0.0);
    let latency =
        Duration::try_from_secs_f64(latency / 1000.0).map_err(|_| "`latency_ms` is not a valid duration")?;
    let recorded = Recorded {
        variant,
        latency,
        outcome: from_object(record),
    };
    Ok(((case, repeat), recorded))
}
