//! Assertions as JavaScript: those that promptfoo evaluates in JavaScript itself.

use serde_json::{Value, json};

/// Openings of refusals, one per line in lower case.
const REFUSALS: &str = include_str!("refusals.txt");

/// A program that checks an answer.
pub(super) struct Code {
    /// Function body; the error says what is wrong with the value of the assertion.
    pub(super) source: Result<String, String>,
    /// Least score to pass; 0 if the program returns whether the answer passes.
    pub(super) threshold: f64,
}

/// First line of every program: the answer as text.
const TEXT: &str = "const text = typeof output === 'string' ? output : JSON.stringify(output);";

/// Program of an assertion; `None` if it has none.
pub(super) fn program(kind: &str, value: Option<&Value>, threshold: Option<f64>) -> Option<Code> {
    let value = value.cloned().unwrap_or(Value::Null);
    let list = || match &value {
        Value::Array(_) => value.clone(),
        one => json!([one]),
    };
    let mut least = 0.0;
    let body = match kind {
        "regex" => format!("return new RegExp({value}).test(text);"),
        "levenshtein" => format!(
            "const other = {value};\n{LEVENSHTEIN}\nreturn row[other.length] <= {};",
            threshold.unwrap_or(5.0)
        ),
        "word-count" => match word_bounds(&value) {
            Some((low, high)) => format!(
                "const words = text.split(/\\s+/).filter((word) => word).length;\nreturn words >= {low} && words <= {high};"
            ),
            None => {
                return Some(Code {
                    source: Err("`value` must be a number, or an object with `min` or `max`".to_owned()),
                    threshold: 0.0,
                });
            }
        },
        "rouge-n" | "bleu" | "gleu" => {
            least = threshold.unwrap_or(if kind == "rouge-n" { 0.75 } else { 0.5 });
            let score = match kind {
                "rouge-n" => ROUGE,
                "bleu" => BLEU,
                _ => GLEU,
            };
            format!("const references = {};\n{GRAMS}\n{score}", list())
        }
        "is-refusal" => {
            let openings: Vec<&str> = REFUSALS.lines().filter(|line| !line.is_empty()).collect();
            format!(
                "const plain = text.trim().toLowerCase().replaceAll('\\u2019', \"'\");\nreturn {}.some((opening) => plain.startsWith(opening));",
                json!(openings)
            )
        }
        "is-xml" | "contains-xml" => {
            let wanted = match &value {
                Value::Object(fields) => fields.get("requiredElements").cloned().unwrap_or_default(),
                other => other.clone(),
            };
            let wanted = match wanted {
                Value::String(list) => json!(list.split(',').map(str::trim).collect::<Vec<_>>()),
                Value::Array(list) => Value::Array(list),
                _ => json!([]),
            };
            let documents = if kind == "is-xml" {
                "[text.trim()]"
            } else {
                "text.match(/<\\?xml[^]*?>[^]*<\\/[\\w:.-]+>|<([\\w:.-]+)[^]*?<\\/\\1\\s*>/g) ?? []"
            };
            format!("const wanted = {wanted};\nconst documents = {documents};\n{XML}")
        }
        "contains-html" => format!("return ({HTML}).test(text);"),
        "is-html" => format!(
            "const plain = text.trim();\nreturn plain.startsWith('<') && plain.endsWith('>') && !/^<\\?xml/.test(plain) && ({HTML}).test(plain);"
        ),
        "finish-reason" => {
            format!("return context.providerResponse.finishReason === {value};")
        }
        _ => return None,
    };
    let needs_value = !matches!(
        kind,
        "is-refusal" | "is-xml" | "contains-xml" | "is-html" | "contains-html"
    );
    Some(Code {
        source: if needs_value && value.is_null() {
            Err("`value` is missing".to_owned())
        } else {
            Ok(format!("{TEXT}\n{body}"))
        },
        threshold: least,
    })
}

/// Transform of an answer to the list of the JSON objects in its text. Objects that the text cuts off count.
pub(super) fn extracted_objects() -> String {
    format!("{TEXT}\n{OBJECTS}")
}

const OBJECTS: &str = "const found = [];
for (let start = 0; start < text.length; start += 1) {
  if (text[start] !== '{') continue;
  let depth = 0;
  let quoted = false;
  let end = start;
  for (; end < text.length; end += 1) {
    const letter = text[end];
    if (quoted) {
      if (letter === '\\\\') end += 1;
      else if (letter === '\"') quoted = false;
    } else if (letter === '\"') quoted = true;
    else if (letter === '{') depth += 1;
    else if (letter === '}') {
      depth -= 1;
      if (depth === 0) break;
    }
  }
  try {
    found.push(JSON.parse(text.slice(start, end + 1) + '}'.repeat(depth)));
    start = end;
  } catch {}
}
return found;";

/// Edit distance between `text` and `other`, in the last element of `row`.
const LEVENSHTEIN: &str = "let row = Array.from({ length: other.length + 1 }, (_, index) => index);
for (let at = 1; at <= text.length; at += 1) {
  const next = [at];
  for (let to = 1; to <= other.length; to += 1) {
    const same = text[at - 1] === other[to - 1] ? 0 : 1;
    next.push(Math.min(row[to] + 1, next[to - 1] + 1, row[to - 1] + same));
  }
  row = next;
}";

/// Words, and counts of n-grams.
const GRAMS: &str = "const words = (line) => line.toLowerCase().trim().split(/\\s+/).filter((word) => word);
const grams = (list, n) => {
  const counts = new Map();
  for (let at = 0; at + n <= list.length; at += 1) {
    const gram = list.slice(at, at + n).join(' ');
    counts.set(gram, (counts.get(gram) ?? 0) + 1);
  }
  return counts;
};
const total = (counts) => [...counts.values()].reduce((sum, count) => sum + count, 0);
const common = (one, two) => [...one].reduce((sum, [gram, count]) => sum + Math.min(count, two.get(gram) ?? 0), 0);";

/// ROUGE-1: the share of the reference's words that the answer has.
const ROUGE: &str = "const tokens = (line) => line.toLowerCase().match(/[\\p{L}\\p{N}_']+/gu) ?? [];
const reference = grams(tokens(references[0]), 1);
const found = grams(tokens(text), 1);
return common(reference, found) / Math.max(1, total(reference));";

/// BLEU with n-grams up to 4 (Papineni et al., 2002); orders longer than the answer are left out.
const BLEU: &str = "const answer = words(text);
if (answer.length === 0) return 0;
const others = references.map(words);
const logs = [];
for (let n = 1; n <= Math.min(4, answer.length); n += 1) {
  const own = grams(answer, n);
  const clipped = Math.max(...others.map((other) => common(own, grams(other, n))));
  logs.push(Math.log(clipped === 0 ? 1e-7 : clipped / total(own)));
}
const far = (length) => Math.abs(length - answer.length);
const closest = others.map((other) => other.length).reduce((best, length) =>
  far(length) < far(best) || (far(length) === far(best) && length < best) ? length : best);
const brevity = answer.length > closest ? 1 : Math.exp(1 - closest / answer.length);
return brevity * Math.exp(logs.reduce((sum, log) => sum + log, 0) / logs.length);";

/// GLEU: the smaller of precision and recall of all n-grams up to 4 (Wu et al., 2016).
const GLEU: &str = "const plain = (line) => words(line).map((word) => word.replace(/\\.+$/, ''));
const answer = plain(text);
const score = (other) => {
  if (answer.join(' ') === other.join(' ')) return 1;
  let [same, mine, theirs] = [0, 0, 0];
  for (let n = 1; n <= 4; n += 1) {
    const [one, two] = [grams(answer, n), grams(other, n)];
    same += common(one, two);
    mine += total(one);
    theirs += total(two);
  }
  return mine === 0 || theirs === 0 ? 0 : same / Math.max(mine, theirs);
};
return Math.max(...references.map((reference) => score(plain(reference))));";

/// Whether one of `documents` is well-formed XML with all `wanted` paths (`a.b`).
const XML: &str = "const paths = (document) => {
  const open = [];
  const seen = new Set();
  let rest = document.replace(/<\\?[^]*?\\?>|<!--[^]*?-->|<!DOCTYPE[^>]*>/g, '').replace(/<!\\[CDATA\\[[^]*?\\]\\]>/g, 'x').trim();
  if (!rest.startsWith('<')) return null;
  let roots = 0;
  while (rest) {
    const tag = /^<(\\/?)([A-Za-z_:][\\w:.-]*)((?:\\s+[\\w:.-]+\\s*=\\s*(?:\"[^\"<]*\"|'[^'<]*'))*)\\s*(\\/?)>/.exec(rest);
    if (tag) {
      const [all, closes, name, , empty] = tag;
      if (closes) {
        if (open.pop() !== name) return null;
      } else {
        if (open.length === 0 && (roots += 1) > 1) return null;
        seen.add([...open, name].join('.'));
        if (!empty) open.push(name);
      }
      rest = rest.slice(all.length);
    } else {
      const content = /^[^<]+/.exec(rest);
      if (!content || (open.length === 0 && content[0].trim())) return null;
      rest = rest.slice(content[0].length);
    }
  }
  return open.length === 0 && roots === 1 ? seen : null;
};
return documents.some((document) => {
  const seen = paths(document);
  return seen !== null && wanted.every((path) => seen.has(path));
});";

/// A regular expression for an element of HTML.
const HTML: &str = "/<!doctype html|<(a|abbr|article|aside|b|blockquote|body|br|button|code|div|dl|em|footer|form|h[1-6]|head|header|hr|html|i|img|input|label|li|link|main|meta|nav|ol|option|p|pre|script|section|select|small|span|strong|style|sub|sup|table|tbody|td|textarea|th|thead|title|tr|u|ul|video)(\\s[^<>]*)?\\/?>/i";

fn word_bounds(value: &Value) -> Option<(f64, String)> {
    let infinite = || "Infinity".to_owned();
    match value {
        Value::Object(bounds) => {
            let bound = |key: &str| bounds.get(key).and_then(Value::as_f64);
            let (low, high) = (bound("min"), bound("max"));
            (low.is_some() || high.is_some()).then(|| {
                (
                    low.unwrap_or(0.0),
                    high.map_or_else(infinite, |high| high.to_string()),
                )
            })
        }
        Value::Number(count) => count.as_f64().map(|count| (count, count.to_string())),
        Value::String(text) => {
            let count: f64 = text.trim().parse().ok()?;
            Some((count, count.to_string()))
        }
        _ => None,
    }
}
