//! Computes what expectations leave to the engine: transforms of the answer, checks that are programs, and
//! comparisons of meaning.

use std::collections::BTreeMap;
use std::sync::Arc;

use futures_util::future::{BoxFuture, try_join_all};
use satiety::bench::code_check::{language, parse_outcome};
use satiety::bench::contract::Response;
use satiety::bench::{
    Answers, BenchmarkCase, BenchmarkExpected, CheckOutcome, Mode, Observed, Transform, part_scores,
};
use satiety_models::Embedder;
use serde_json::{Map, Value, json};
use tokio::sync::OnceCell;

use super::code_host::{CodeHosts, Returned};
use crate::tenants::{SharedEmbedder, TenantMeter};
use crate::{Engine, EngineError, Settings};

/// Default of the least similarity, as in promptfoo.
const SIMILAR: f64 = 0.75;

/// Sentence model that compares answers with texts; opened by the first comparison.
#[derive(Debug)]
pub(super) struct SentenceModel {
    settings: Settings,
    /// Meter of the tenant that the run belongs to.
    meter: Option<Arc<TenantMeter>>,
    opened: OnceCell<Option<Box<dyn Embedder>>>,
}

impl SentenceModel {
    pub(super) fn new(engine: &Engine) -> Self {
        Self {
            settings: engine.settings().clone(),
            meter: engine.meter().cloned(),
            opened: OnceCell::new(),
        }
    }

    /// Compares an answer with the texts of an expectation; an error means that there is no verdict.
    async fn compare(&self, expected: &BenchmarkExpected, output: &Value) -> Result<CheckOutcome, String> {
        let open = || async {
            let model = crate::models::open(&self.settings).await?;
            Ok::<_, EngineError>(model.map(|model| {
                let meter = self.meter.clone();
                let model = Arc::from(model);
                Box::new(SharedEmbedder { model, meter }) as Box<dyn Embedder>
            }))
        };
        let opened = self.opened.get_or_try_init(open).await;
        let model = opened.map_err(|error| error.to_string())?.as_deref();
        let model = model.ok_or("`similar` needs a sentence model, and the settings say `none`")?;
        let answer = as_text(output);
        let mut texts = vec![answer.as_str()];
        match &expected.value {
            Some(Value::String(text)) => texts.push(text),
            Some(Value::Array(list)) => texts.extend(list.iter().filter_map(Value::as_str)),
            _ => {}
        }
        let vectors = model.embed(&texts).await.map_err(|error| error.to_string())?;
        let Some((answer, others)) = vectors.split_first() else {
            return Err("the sentence model returned no vector".into());
        };
        let cosine = |other: &Vec<f32>| -> f64 {
            let products = answer.iter().zip(other).map(|(a, b)| f64::from(a * b));
            products.sum::<f64>().clamp(-1.0, 1.0)
        };
        let best = others.iter().map(cosine).fold(f64::NEG_INFINITY, f64::max);
        if !best.is_finite() {
            return Err("the expectation has no text to compare with".into());
        }
        let least = expected.threshold.unwrap_or(SIMILAR);
        let passed = (best >= least) != expected.negate;
        let relation = if expected.negate { "not below" } else { "below" };
        Ok(CheckOutcome {
            passed,
            score: if expected.negate { 1.0 - best } else { best },
            reason: (!passed).then(|| format!("similarity {best:.2} is {relation} the threshold {least:.2}")),
            named: BTreeMap::new(),
        })
    }
}

/// Programs and the model that decide expectations.
#[derive(Debug, Clone, Copy)]
pub(super) struct Computation<'a> {
    pub(super) hosts: &'a CodeHosts,
    pub(super) model: &'a SentenceModel,
    /// What programs get to know besides the answer.
    pub(super) context: &'a Value,
}

type Found = Result<Answers, String>;

impl<'a> Computation<'a> {
    /// Computes the answers of an expectation and its parts. An error means that there is no verdict.
    pub(super) fn compute(
        self,
        expected: &'a BenchmarkExpected,
        place: String,
        output: &'a Value,
    ) -> BoxFuture<'a, Found> {
        Box::pin(async move {
            let mut answers = Answers::default();
            if expected.transforms.is_empty() {
                answers = self.parts(expected, place, output).await?;
            } else {
                match self.transform(&expected.transforms, output).await? {
                    Ok(changed) => {
                        answers = self.transformed(expected, place.clone(), &changed).await?;
                        answers.transformed.insert(place, Ok(changed));
                    }
                    Err(reason) => {
                        answers.transformed.insert(place, Err(reason));
                    }
                }
            }
            Ok(answers)
        })
    }

    /// Applies transforms in order; the inner error says why there is no answer.
    pub(super) async fn transform(
        self,
        transforms: &[Transform],
        output: &Value,
    ) -> Result<Result<Value, String>, String> {
        let mut output = output.clone();
        for transform in transforms {
            match self.hosts.transform(transform, &output, self.context).await? {
                Ok(changed) => output = changed,
                Err(reason) => return Ok(Err(reason)),
            }
        }
        Ok(Ok(output))
    }

    /// As [`Self::parts`], for an answer that lives shorter than the expectation.
    async fn transformed(self, expected: &BenchmarkExpected, place: String, output: &Value) -> Found {
        let inner = Computation { ..self };
        inner.parts(expected, place, output).await
    }

    async fn parts(self, expected: &BenchmarkExpected, place: String, output: &Value) -> Found {
        let below = |index: usize| match place.as_str() {
            "" => index.to_string(),
            place => format!("{place}.{index}"),
        };
        let parts = expected.parts.iter().enumerate();
        let parts = parts.map(|(index, part)| Computation { ..self }.compute(part, below(index), output));
        let mut answers = Answers::default();
        for part in try_join_all(parts).await? {
            answers.checked.extend(part.checked);
            answers.transformed.extend(part.transformed);
        }
        let outcome = if language(expected.mode).is_some() {
            self.hosts.check(expected, output, self.context.clone()).await?
        } else if expected.mode == Mode::Similar {
            self.model.compare(expected, output).await?
        } else {
            return Ok(answers);
        };
        answers.checked.insert(place, outcome);
        Ok(answers)
    }

    /// Lets the scorer of an expectation decide, once its parts are decided.
    pub(super) async fn score(
        self,
        expected: &BenchmarkExpected,
        observed: &Observed,
        answers: &mut Answers,
    ) -> Result<(), String> {
        let Some(scorer) = &expected.scorer else {
            return Ok(());
        };
        let parts = part_scores(expected, observed, answers);
        let mut sums: BTreeMap<&str, (f64, f64)> = BTreeMap::new();
        for (part, weight) in parts.iter().zip(expected.parts.iter().map(|part| part.weight)) {
            if let (false, Some(value)) = (part.name.is_empty(), part.value) {
                let sum = sums.entry(&part.name).or_default();
                *sum = (sum.0 + value * weight, sum.1 + weight);
            }
        }
        let named: Map<String, Value> = sums
            .into_iter()
            .map(|(name, (sum, weight))| {
                let mean = if weight > 0.0 { sum / weight } else { 0.0 };
                (name.to_owned(), json!(mean))
            })
            .collect();
        let components: Vec<Value> = parts
            .iter()
            .map(|part| {
                let reason = part.reason.as_deref().unwrap_or("passed");
                json!({"pass": part.passed, "score": part.value, "reason": reason})
            })
            .collect();
        let context = json!({"threshold": expected.threshold, "componentResults": components});
        let returned = self
            .hosts
            .program(scorer, "get_score", json!([named, context]))
            .await?;
        let outcome = match returned {
            Returned::Value(value) => parse_outcome(&value, scorer.language, None, false),
            Returned::Thrown(message) => {
                CheckOutcome::failed(format!("the scorer threw an exception: {message}"))
            }
        };
        answers.checked.insert(String::new(), outcome);
        Ok(())
    }
}

/// What programs get to know besides the answer.
pub(super) fn check_context(case: &BenchmarkCase, response: &Response, provider: Option<&Value>) -> Value {
    let empty = || json!({});
    let vars = case.metadata.get("vars").cloned().unwrap_or_else(empty);
    let mut answer = json!({"output": response.output});
    if let Some(fields) = answer.as_object_mut() {
        fields.extend(response.cost_usd.map(|cost| ("cost".to_owned(), json!(cost))));
        fields.extend(response.usage.map(|usage| {
            let tokens = json!({
                "prompt": usage.input_tokens,
                "completion": usage.output_tokens,
                "total": usage.total_tokens(),
            });
            ("tokenUsage".to_owned(), tokens)
        }));
        if !response.metadata.is_empty() {
            fields.insert("metadata".into(), json!(response.metadata));
        }
    }
    let mut context = json!({
        "prompt": case.input.goal,
        "vars": vars,
        "test": {"description": case.case_id, "vars": vars, "metadata": case.metadata},
        "provider": provider,
        "providerResponse": answer,
    });
    if let (Some(fields), false) = (context.as_object_mut(), response.metadata.is_empty()) {
        fields.insert("metadata".into(), json!(response.metadata));
    }
    context
}

fn as_text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}
