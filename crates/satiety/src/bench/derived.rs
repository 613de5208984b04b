//! Metrics that are derived from the named scores of a run by expressions, as `derivedMetrics` of promptfoo:
//! `accuracy / __count`, `2 * p * r / (p + r)`.
//!
//! A name stands for the weighted sum of that score over the results of one system and one prompt, `__count` for
//! their number, and an earlier derived metric for its value.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::run::{BenchmarkResult, Status};

/// Key of a run's configuration with its [`DerivedMetrics`].
pub const DERIVED_METRICS: &str = "derived_metrics";

/// Maximum depth of an expression, and its maximum number of numbers, names and operators.
const MAX_DEPTH: usize = 64;
const MAX_TOKENS: usize = 1_000;

/// Derived metrics of a suite.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DerivedMetrics {
    /// Names and expressions, in the order of their computation.
    pub metrics: Vec<(String, String)>,
    /// Number of the prompt of each case, if there are several prompts.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub prompts: BTreeMap<String, u32>,
}

/// Value of a derived metric.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DerivedMetric {
    /// Name of the metric.
    pub name: String,
    /// Number of the prompt, from 1; absent when the suite has one prompt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompt: Option<u32>,
    /// Value of the expression; absent when it cannot be computed.
    pub value: Option<f64>,
    /// Reason why there is no value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}

impl DerivedMetrics {
    /// Reads the metrics of a run's configuration.
    pub fn of_snapshot(snapshot: &BTreeMap<String, Value>) -> Option<Self> {
        serde_json::from_value(snapshot.get(DERIVED_METRICS)?.clone()).ok()
    }

    /// Computes the metrics over the results of one system, for each prompt.
    pub fn compute<'a>(&self, results: impl IntoIterator<Item = &'a BenchmarkResult>) -> Vec<DerivedMetric> {
        let mut groups: BTreeMap<Option<u32>, BTreeMap<String, f64>> = BTreeMap::new();
        for result in results {
            if matches!(result.status, Status::Skipped | Status::Pending) {
                continue;
            }
            let sums = groups
                .entry(self.prompts.get(&result.case_id).copied())
                .or_default();
            *sums.entry("__count".to_owned()).or_default() += 1.0;
            for score in &result.scores {
                if let Some(value) = score.value.filter(|value| value.is_finite()) {
                    *sums.entry(score.name.clone()).or_default() += value * score.weight.unwrap_or(1.0);
                }
            }
        }
        let mut found = Vec::new();
        for (prompt, mut names) in groups {
            for (name, text) in &self.metrics {
                let value = evaluate(text, &names).and_then(|value| {
                    let is_finite = value.is_finite();
                    is_finite
                        .then_some(value)
                        .ok_or_else(|| format!("the value is {value}"))
                });
                if let Ok(value) = value {
                    names.insert(name.clone(), value);
                }
                found.push(DerivedMetric {
                    name: name.clone(),
                    prompt,
                    value: value.as_ref().ok().copied(),
                    problem: value.err(),
                });
            }
        }
        found
    }
}

/// Checks that an expression can be parsed; the error says what is wrong.
pub(super) fn check_expression(text: &str) -> Result<(), String> {
    Parser::new(text)?.parse().map(drop)
}

/// Evaluates an expression with these names.
fn evaluate(text: &str, names: &BTreeMap<String, f64>) -> Result<f64, String> {
    Parser::new(text)?.parse()?.value(names)
}

#[derive(Debug, Clone, PartialEq)]
enum Token {
    Number(f64),
    Name(String),
    Sign(&'static str),
}

/// Operators and punctuation, longest first.
const SIGNS: [&str; 19] = [
    "==", "!=", "<=", ">=", "<", ">", "+", "-", "*", "/", "^", "%", "(", ")", ",", "?", ":", "!", "=",
];

#[derive(Debug)]
enum Expression {
    Number(f64),
    Name(String),
    Unary(&'static str, Box<Expression>),
    Binary(&'static str, Box<Expression>, Box<Expression>),
    Choice(Box<[Expression; 3]>),
    Call(String, Vec<Expression>),
}

/// Recursive descent over the operators of mathjs, from the weakest: `?:`, `or`, `and`, comparison, sum, product,
/// sign, power.
struct Parser {
    tokens: Vec<Token>,
    at: usize,
    depth: usize,
}

impl Parser {
    fn new(text: &str) -> Result<Self, String> {
        let mut tokens = Vec::new();
        let mut rest = text.trim_start();
        while let Some(first) = rest.chars().next() {
            let length =
                |accept: &dyn Fn(char) -> bool| rest.find(|letter| !accept(letter)).unwrap_or(rest.len());
            let used = if first.is_ascii_digit() || first == '.' {
                let mut end = length(&|letter| letter.is_ascii_digit() || letter == '.');
                let after = rest.get(end..).unwrap_or_default();
                if let Some(exponent) = after.strip_prefix(['e', 'E']) {
                    let digits = exponent.strip_prefix(['+', '-']).unwrap_or(exponent);
                    let count = digits
                        .find(|letter: char| !letter.is_ascii_digit())
                        .unwrap_or(digits.len());
                    if count > 0 {
                        end += 1 + (exponent.len() - digits.len()) + count;
                    }
                }
                let digits = rest.get(..end).unwrap_or_default();
                let number = digits
                    .parse()
                    .map_err(|_| format!("`{digits}` is not a number"))?;
                tokens.push(Token::Number(number));
                end
            } else if first.is_alphabetic() || first == '_' || first == '$' {
                let end = length(&|letter| letter.is_alphanumeric() || letter == '_' || letter == '$');
                tokens.push(Token::Name(rest.get(..end).unwrap_or_default().to_owned()));
                end
            } else {
                let sign = SIGNS.iter().find(|sign| rest.starts_with(**sign));
                let sign = sign.ok_or_else(|| format!("`{first}` is not supported in an expression"))?;
                tokens.push(Token::Sign(sign));
                sign.len()
            };
            rest = rest.get(used..).unwrap_or_default().trim_start();
            if tokens.len() > MAX_TOKENS {
                return Err("the expression is too long".to_owned());
            }
        }
        Ok(Self {
            tokens,
            at: 0,
            depth: 0,
        })
    }

    fn parse(mut self) -> Result<Expression, String> {
        let found = self.choice()?;
        match self.tokens.get(self.at) {
            None => Ok(found),
            Some(token) => Err(format!("unexpected {}", describe(token))),
        }
    }

    /// Takes the next token if it is one of these signs or words.
    fn take(&mut self, signs: &[&'static str]) -> Option<&'static str> {
        let found = match self.tokens.get(self.at)? {
            Token::Sign(sign) => signs.iter().find(|wanted| *wanted == sign),
            Token::Name(name) => signs.iter().find(|wanted| *wanted == name),
            Token::Number(_) => None,
        };
        self.at += usize::from(found.is_some());
        found.copied()
    }

    fn expect(&mut self, sign: &'static str) -> Result<(), String> {
        self.take(&[sign])
            .map(drop)
            .ok_or_else(|| format!("`{sign}` is missing"))
    }

    fn choice(&mut self) -> Result<Expression, String> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err("the expression is nested too deeply".to_owned());
        }
        let condition = self.binary(0)?;
        let found = if self.take(&["?"]).is_some() {
            let yes = self.choice()?;
            self.expect(":")?;
            Expression::Choice(Box::new([condition, yes, self.choice()?]))
        } else {
            condition
        };
        self.depth -= 1;
        Ok(found)
    }

    fn binary(&mut self, level: usize) -> Result<Expression, String> {
        const LEVELS: [&[&str]; 5] = [
            &["or"],
            &["and"],
            &["==", "!=", "<=", ">=", "<", ">"],
            &["+", "-"],
            &["*", "/", "%", "mod"],
        ];
        let Some(signs) = LEVELS.get(level) else {
            return self.unary();
        };
        let mut left = self.binary(level + 1)?;
        while let Some(sign) = self.take(signs) {
            left = Expression::Binary(sign, Box::new(left), Box::new(self.binary(level + 1)?));
        }
        Ok(left)
    }

    fn unary(&mut self) -> Result<Expression, String> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err("the expression is nested too deeply".to_owned());
        }
        let found = if let Some(sign) = self.take(&["-", "+", "not"]) {
            Expression::Unary(sign, Box::new(self.unary()?))
        } else {
            let base = self.primary()?;
            // A power binds stronger than a sign before it, and from right to left.
            match self.take(&["^"]) {
                Some(sign) => Expression::Binary(sign, Box::new(base), Box::new(self.unary()?)),
                None => base,
            }
        };
        self.depth -= 1;
        Ok(found)
    }

    fn primary(&mut self) -> Result<Expression, String> {
        let token = self.tokens.get(self.at).cloned();
        self.at += 1;
        match token {
            Some(Token::Number(number)) => Ok(Expression::Number(number)),
            Some(Token::Name(name)) => {
                if self.take(&["("]).is_none() {
                    return Ok(Expression::Name(name));
                }
                let mut arguments = Vec::new();
                while self.take(&[")"]).is_none() {
                    if !arguments.is_empty() {
                        self.expect(",")?;
                    }
                    arguments.push(self.choice()?);
                }
                Ok(Expression::Call(name, arguments))
            }
            Some(Token::Sign("(")) => {
                let inner = self.choice()?;
                self.expect(")")?;
                Ok(inner)
            }
            Some(token) => Err(format!("unexpected {}", describe(&token))),
            None => Err("the expression is not complete".to_owned()),
        }
    }
}

fn describe(token: &Token) -> String {
    match token {
        Token::Number(number) => format!("`{number}`"),
        Token::Name(name) => format!("`{name}`"),
        Token::Sign(sign) => format!("`{sign}`"),
    }
}

impl Expression {
    fn value(&self, names: &BTreeMap<String, f64>) -> Result<f64, String> {
        let truth = |truth: bool| f64::from(u8::from(truth));
        Ok(match self {
            Self::Number(number) => *number,
            Self::Name(name) => match (names.get(name), name.as_str()) {
                (Some(value), _) => *value,
                (None, "pi") => std::f64::consts::PI,
                (None, "e") => std::f64::consts::E,
                (None, "tau") => std::f64::consts::TAU,
                (None, "true") => 1.0,
                (None, "false") => 0.0,
                _ => return Err(format!("no score is named `{name}`")),
            },
            Self::Unary(sign, inner) => {
                let value = inner.value(names)?;
                match *sign {
                    "-" => -value,
                    "not" => truth(value == 0.0),
                    _ => value,
                }
            }
            Self::Binary(sign, left, right) => {
                let (a, b) = (left.value(names)?, right.value(names)?);
                match *sign {
                    "+" => a + b,
                    "-" => a - b,
                    "*" => a * b,
                    "/" => a / b,
                    "^" => libm::pow(a, b),
                    "%" | "mod" if b == 0.0 => a,
                    "%" | "mod" => a - b * (a / b).floor(),
                    "==" => truth(a == b),
                    "!=" => truth(a != b),
                    "<" => truth(a < b),
                    ">" => truth(a > b),
                    "<=" => truth(a <= b),
                    ">=" => truth(a >= b),
                    "and" => truth(a != 0.0 && b != 0.0),
                    "or" => truth(a != 0.0 || b != 0.0),
                    other => return Err(format!("`{other}` is not supported in an expression")),
                }
            }
            Self::Choice(parts) => {
                let [condition, yes, no] = parts.as_ref();
                if condition.value(names)? == 0.0 { no } else { yes }.value(names)?
            }
            Self::Call(name, arguments) => {
                let values = arguments.iter().map(|argument| argument.value(names));
                call(name, &values.collect::<Result<Vec<f64>, String>>()?)?
            }
        })
    }
}

/// Functions of mathjs that metrics use.
fn call(name: &str, values: &[f64]) -> Result<f64, String> {
    let wrong = || Err(format!("`{name}` does not take {} arguments", values.len()));
    if matches!(name, "min" | "max" | "sum" | "mean" | "hypot") && !values.is_empty() {
        let sum: f64 = values.iter().sum();
        return Ok(match name {
            "min" => values.iter().copied().fold(f64::INFINITY, f64::min),
            "max" => values.iter().copied().fold(f64::NEG_INFINITY, f64::max),
            "sum" => sum,
            "mean" => sum / values.len() as f64,
            _ => values.iter().map(|value| value * value).sum::<f64>().sqrt(),
        });
    }
    Ok(match (name, values) {
        ("abs", [x]) => x.abs(),
        ("ceil", [x]) => x.ceil(),
        ("floor", [x]) => x.floor(),
        ("fix", [x]) => x.trunc(),
        ("sign", [x]) if *x == 0.0 => 0.0,
        ("sign", [x]) => x.signum(),
        ("round", [x]) => x.round(),
        ("round", [x, digits]) => {
            let scale = libm::pow(10.0, digits.trunc().clamp(0.0, 15.0));
            (x * scale).round() / scale
        }
        ("sqrt", [x]) => x.sqrt(),
        ("cbrt", [x]) => libm::cbrt(*x),
        ("square", [x]) => x * x,
        ("cube", [x]) => x * x * x,
        ("exp", [x]) => libm::exp(*x),
        ("log", [x]) => libm::log(*x),
        ("log", [x, base]) => libm::log(*x) / libm::log(*base),
        ("log2", [x]) => libm::log2(*x),
        ("log10", [x]) => libm::log10(*x),
        ("log1p", [x]) => libm::log1p(*x),
        ("pow", [x, y]) => libm::pow(*x, *y),
        ("add", [x, y]) => x + y,
        ("subtract", [x, y]) => x - y,
        ("multiply", [x, y]) => x * y,
        ("divide", [x, y]) => x / y,
        ("mod", [x, y]) if *y != 0.0 => x - y * (x / y).floor(),
        (
            "abs" | "ceil" | "floor" | "fix" | "sign" | "round" | "sqrt" | "cbrt" | "square" | "cube" | "exp"
            | "log" | "log2" | "log10" | "log1p" | "pow" | "add" | "subtract" | "multiply" | "divide" | "mod",
            _,
        ) => return wrong(),
        _ => return Err(format!("the function `{name}` is not supported")),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::run::NamedScore;

    fn value(text: &str) -> Result<f64, String> {
        let names = [("p", 3.0), ("r", 1.0), ("__count", 4.0)];
        evaluate(text, &names.map(|(name, value)| (name.to_owned(), value)).into())
    }

    /// Values of mathjs 15 (`npm exec -- mathjs`, with p = 3, r = 1, __count = 4).
    #[test]
    fn expressions_have_the_values_of_mathjs() {
        for (text, expected) in [
            ("p / __count", 0.75),
            ("2 * p * r / (p + r)", 1.5),
            ("-2^2", -4.0),
            ("2^3^2", 512.0),
            ("2^-1", 0.5),
            ("7 % 4", 3.0),
            ("-7 % 4", 1.0),
            ("5 mod 3", 2.0),
            ("p > r ? 10 : 20", 10.0),
            ("p > r and r > p", 0.0),
            ("not (p == 3) or r >= 1", 1.0),
            ("sqrt(p + 1) + abs(-2) + min(4, p, r) + max(1, 2)", 7.0),
            ("round(2 / 3, 2)", 0.67),
            ("log(8, 2) + log10(100) + exp(0)", 6.0),
            ("mean(p, r) + sum(1, 2)", 5.0),
            ("1e2 + .5 - 1.5E+1", 85.5),
            ("+p - -r", 4.0),
        ] {
            let found = value(text).unwrap();
            assert!((found - expected).abs() < 1e-12, "{text}: {found}");
        }
    }

    #[test]
    fn invalid_expressions_say_what_is_wrong() {
        for (text, expected) in [
            ("missing / 2", "no score is named `missing`"),
            ("p +", "not complete"),
            ("(p", "`)` is missing"),
            ("p q", "unexpected `q`"),
            ("p & q", "`&` is not supported"),
            ("sqrt(1, 2)", "does not take 2 arguments"),
            ("gamma(2)", "function `gamma` is not supported"),
            ("1.2.3", "not a number"),
            ("", "not complete"),
            ("x = 3", "unexpected `=`"),
            (&"1+".repeat(600), "too long"),
        ] {
            let message = value(text).unwrap_err();
            assert!(message.contains(expected), "{text}: {message}");
        }
        for deep in [
            "(".repeat(5_000),
            "-".repeat(5_000),
            "a?".repeat(5_000),
            "2^".repeat(5_000),
        ] {
            assert!(value(&deep).is_err());
        }
    }

    #[test]
    fn sums_are_weighted_and_separate_for_each_prompt() {
        let result = |case: &str, status, tone: f64| {
            let mut result = BenchmarkResult::new(case, 0, status);
            result.scores = vec![
                NamedScore {
                    weight: Some(2.0),
                    ..NamedScore::new("tone", Some(tone))
                },
                NamedScore::new("empty", None),
            ];
            result
        };
        let derived = DerivedMetrics {
            metrics: vec![
                ("mean tone".into(), "tone / __count".into()),
                ("half".into(), "tone / 2".into()),
                ("quarter".into(), "half / 2".into()),
                ("nothing".into(), "empty + 1".into()),
                ("endless".into(), "1 / 0".into()),
            ],
            prompts: [("a / prompt 2".to_owned(), 2)].into(),
        };
        let results = [
            result("a", Status::Pass, 0.5),
            result("b", Status::Error, 1.0),
            result("c", Status::Skipped, 1.0),
            result("a / prompt 2", Status::Fail, 0.25),
        ];
        let found = derived.compute(&results);
        let value = |name: &str, prompt: Option<u32>| {
            let metric = found
                .iter()
                .find(|metric| metric.name == name && metric.prompt == prompt);
            metric.unwrap().value
        };
        assert_eq!(value("mean tone", None), Some(1.5));
        assert_eq!(value("mean tone", Some(2)), Some(0.5));
        assert_eq!(
            (value("half", None), value("quarter", None)),
            (Some(1.5), Some(0.75))
        );
        let problems: Vec<&str> = found
            .iter()
            .filter_map(|metric| metric.problem.as_deref())
            .collect();
        assert_eq!(problems[..2], ["no score is named `empty`", "the value is inf"]);
    }
}
