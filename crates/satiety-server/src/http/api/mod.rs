//! The table of routes: everything that `/v1` offers, each once. The router and the OpenAPI document are made from it.

mod ab;
mod bench;
mod conversations;
mod eviction;
mod gate;
mod harness;
mod memory;
mod operation;
mod research;
mod retrieval;
mod retrieval_runs;

use schemars::JsonSchema;
use serde::Deserialize;

use super::problem::Problem;
use super::route::{Parameters, Route};

pub use research::ResearchJobProgress;
pub use retrieval_runs::RetrievalJobProgress;

/// Results on a page, unless said otherwise.
const PAGE: u32 = 50;

/// All routes.
pub(crate) fn routes() -> Vec<Route> {
    let bindings = [memory::bindings()];
    let mut routes: Vec<Route> = bindings
        .into_iter()
        .flatten()
        .filter_map(Route::of_operation)
        .collect();
    routes.extend(conversations::routes());
    routes.extend(gate::routes());
    routes.extend(research::routes());
    routes.extend(retrieval::routes());
    routes.extend(retrieval_runs::routes());
    routes.extend(ab::routes());
    routes.extend(eviction::routes());
    routes.extend(bench::routes());
    routes.extend(harness::routes());
    routes.extend(operation::routes());
    routes
}

/// Something by its id.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
pub(crate) struct ById {
    /// The id.
    #[schemars(length(min = 1, max = 256))]
    id: String,
}

impl Parameters for ById {}

/// A page of a list.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
pub(crate) struct PageOf {
    /// Where the page begins: `next_cursor` of the page before.
    #[serde(default)]
    #[schemars(regex(pattern = "^[0-9]{1,9}\\.[!-~]{1,256}$"))]
    cursor: Option<String>,
    /// How many at most; 50 where absent.
    #[serde(default)]
    #[schemars(range(min = 1, max = 500))]
    limit: Option<u32>,
}

impl Parameters for PageOf {}

impl PageOf {
    fn limit(&self) -> Result<u32, Problem> {
        limit(self.limit)
    }
}

fn limit(wanted: Option<u32>) -> Result<u32, Problem> {
    match wanted.unwrap_or(PAGE) {
        limit @ 1..=500 => Ok(limit),
        _ => Err(Problem::unprocessable("`limit` must be from 1 to 500").at("limit")),
    }
}

fn no_cursor() -> Problem {
    Problem::unprocessable("`cursor` is not one that this list gave out").at("cursor")
}

/// The part of a list that a cursor points to, and the cursor of the next part. A cursor has the place and the key of the last item
/// before: where that item is gone by now, the place is good enough, and nobody has to begin anew.
fn page_of<T>(
    all: Vec<T>,
    key: impl Fn(&T) -> &str,
    cursor: Option<&str>,
    limit: u32,
) -> Result<(Vec<T>, Option<String>), Problem> {
    let begin = match cursor {
        None => 0,
        Some(cursor) => {
            let (place, last) = cursor.split_once('.').ok_or_else(no_cursor)?;
            let place: usize = place.parse().map_err(|_| no_cursor())?;
            all.iter()
                .position(|item| key(item) == last)
                .map_or(place, |position| position + 1)
        }
    };
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    let more = all.len() > begin.saturating_add(limit);
    let items: Vec<T> = all.into_iter().skip(begin).take(limit).collect();
    let next = items
        .last()
        .filter(|_| more)
        .map(|item| format!("{}.{}", begin + items.len(), key(item)));
    Ok((items, next))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_follow_each_other_without_gaps() {
        let all: Vec<String> = (0..7).map(|number| format!("k{number}")).collect();
        let mut seen = Vec::new();
        let mut cursor = None;
        loop {
            let (items, next) = page_of(all.clone(), |item| item, cursor.as_deref(), 3).unwrap();
            seen.extend(items);
            cursor = next;
            if cursor.is_none() {
                break;
            }
        }
        assert_eq!(seen, all);
        let (rest, _) = page_of(all.clone(), |item| item, Some("3.gone"), 2).unwrap();
        assert_eq!(rest, ["k3", "k4"], "an item that is gone leaves its place");
        assert_eq!(
            page_of(all, |item| item, Some("elsewhere"), 3)
                .unwrap_err()
                .status,
            422
        );
    }
}
