//! `satiety.eviction`: which items of a context to drop.

use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard, PoisonError};

use jiff::Timestamp;
use pyo3::prelude::*;
use satiety::eviction::{
    self, ContextItem, EvictionError, EvictionProposal, Exclude, Need, PriceList, ProposeRequest, QUOTA,
    Resolution, ResolvedBy, Scope, SessionState, Signals, Weights,
};
use serde_json::json;

use crate::convert::{from_python, to_python};
use crate::error::{Failure, compute};

impl From<EvictionError> for Failure {
    fn from(error: EvictionError) -> Self {
        let place = match &error {
            EvictionError::Item { field, .. } => Some((*field).to_owned()),
            EvictionError::NoItem { .. } => Some("id".to_owned()),
            EvictionError::Setting { what, .. } => Some((*what).to_owned()),
            EvictionError::Provider { .. } => Some("provider".to_owned()),
            EvictionError::UnknownIds { .. } | EvictionError::DuplicateIds { .. } => {
                Some("exclude".to_owned())
            }
            _ => None,
        };
        let failure = Self::new(error.to_string()).hint(error.hint().action().to_owned());
        match place {
            Some(place) => failure.at(place),
            None => failure,
        }
    }
}

/// A proposal is resolved by the same process, so it stays open for as long as the process may live: a year.
const TIMEOUT_MS: u64 = 365 * 24 * 3600 * 1000;

/// The context of one agent, behind a lock so that threads may share it.
#[pyclass(frozen, module = "satiety._satiety")]
pub(crate) struct Context(Mutex<State>);

struct State {
    scope: Scope,
    proposal: Option<EvictionProposal>,
    proposals: u64,
}

impl Context {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[pymethods]
impl Context {
    #[new]
    fn new() -> PyResult<Self> {
        Ok(Self(Mutex::new(State {
            scope: Scope::new(Weights::heuristic()).map_err(Failure::from)?,
            proposal: None,
            proposals: 0,
        })))
    }

    fn add(&self, py: Python<'_>, item: &Bound<'_, PyAny>) -> PyResult<()> {
        let item: ContextItem = from_python(item, "item")?;
        compute(py, || Ok(self.lock().scope.add(item)?))
    }

    /// Records a use of an item in the current turn.
    fn touch(&self, py: Python<'_>, id: &str) -> PyResult<()> {
        compute(py, || {
            let mut state = self.lock();
            let turn = state.scope.turn();
            Ok(state.scope.touch(id, turn)?)
        })
    }

    fn pin(&self, py: Python<'_>, id: &str, pinned: bool) -> PyResult<()> {
        compute(py, || Ok(self.lock().scope.pin(id, pinned)?))
    }

    fn inform(&self, py: Python<'_>, id: &str, signals: &Bound<'_, PyAny>) -> PyResult<()> {
        let signals: Signals = from_python(signals, "signals")?;
        compute(py, || Ok(self.lock().scope.inform(id, signals)?))
    }

    fn remove(&self, py: Python<'_>, id: &str) -> bool {
        py.detach(|| self.lock().scope.remove(id).is_some())
    }

    fn set_goal(&self, py: Python<'_>, goal: &str) {
        py.detach(|| self.lock().scope.set_goal(goal));
    }

    fn advance(&self, py: Python<'_>) -> u64 {
        py.detach(|| {
            let mut state = self.lock();
            let turn = state.scope.turn() + 1;
            state.scope.advance(turn);
            turn
        })
    }

    fn items<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let items = py.detach(|| {
            let state = self.lock();
            let ranked: Vec<&str> = state.scope.ranked().collect();
            let droppable: BTreeSet<&str> = ranked.iter().copied().collect();
            // Pinned and proposed items are not ranked.
            let others = state.scope.items().map(|item| item.ctx_id.as_str());
            let others = others.filter(|id| !droppable.contains(id));
            let items: Vec<_> = ranked
                .iter()
                .copied()
                .chain(others)
                .filter_map(|id| {
                    let item = state.scope.item(id)?;
                    let score = state.scope.score(id).map(|score| score.relevance_score);
                    Some(json!({
                        "id": item.ctx_id,
                        "zone": item.zone,
                        "kind": item.kind,
                        "tokens": item.token_count,
                        "age_turns": state.scope.age(item),
                        "uses": item.reference_count,
                        "pinned": item.pinned,
                        "relevance": score,
                        "snippet": item.line(),
                    }))
                })
                .collect();
            items
        });
        to_python(py, &items)
    }

    /// Number of items, tokens and the current turn.
    fn size(&self, py: Python<'_>) -> (usize, u64, u64) {
        py.detach(|| {
            let scope = &self.lock().scope;
            (scope.len(), scope.tokens(), scope.turn())
        })
    }

    /// Proposes items to drop. `prices` are the provider, the expected number of further requests and the seconds
    /// since the last one; with them, items are proposed below the budget if dropping them pays.
    #[pyo3(signature = (free, budget, now_ms, exploration, seed, prices))]
    #[expect(clippy::too_many_arguments, reason = "called by name from Python only")]
    fn propose<'py>(
        &self,
        py: Python<'py>,
        free: Option<u64>,
        budget: u64,
        now_ms: i64,
        exploration: f64,
        seed: u64,
        prices: Option<(String, Option<f64>, u64)>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let proposal = compute(py, || {
            let mut state = self.lock();
            let pricing = prices
                .map(|(provider, remaining_turns, idle_seconds)| {
                    let session = SessionState {
                        turn: state.scope.turn(),
                        remaining_turns,
                        idle_seconds,
                        window_tokens: Some(budget),
                    };
                    PriceList::built_in().pricing(&provider, &session)
                })
                .transpose()?;
            let need = match free {
                Some(free) => Need::Free(free),
                None if pricing.is_some() && state.scope.tokens() <= budget => Need::Pays,
                None => Need::Budget(budget),
            };
            // A proposal that was not resolved is withdrawn.
            state.release()?;
            state.proposals += 1;
            let request = ProposeRequest {
                proposal_id: state.proposals.to_string(),
                scope_id: "context".to_owned(),
                need,
                proposed_at: timestamp(now_ms)?,
                timeout_ms: TIMEOUT_MS,
                exploration,
                seed,
                pricing,
            };
            let proposal = eviction::propose(&state.scope, &request)?;
            for candidate in &proposal.candidates {
                state.scope.hold(&candidate.ctx_id, true)?;
            }
            state.proposal = Some(proposal.clone());
            Ok(proposal)
        })?;
        to_python(py, &proposal)
    }

    fn resolve<'py>(
        &self,
        py: Python<'py>,
        exclude: Vec<(String, Option<String>)>,
        now_ms: i64,
    ) -> PyResult<Bound<'py, PyAny>> {
        let feedback = compute(py, || {
            let mut state = self.lock();
            let Some(proposal) = state.proposal.clone() else {
                return Err(Failure::new("no proposal is open")
                    .at("proposal")
                    .hint("call propose() first"));
            };
            let resolution = Resolution {
                resolved_by: if exclude.is_empty() {
                    ResolvedBy::AutoAccepted
                } else {
                    ResolvedBy::Llm
                },
                exclude: exclude
                    .into_iter()
                    .map(|(ctx_id, exclude_reason)| Exclude {
                        ctx_id,
                        exclude_reason,
                    })
                    .collect(),
                resolved_at: timestamp(now_ms)?,
                quota: QUOTA,
            };
            let feedback = eviction::resolve(&state.scope, &proposal, &resolution)?;
            eviction::apply_resolution(&mut state.scope, &proposal, &feedback);
            state.proposal = None;
            Ok(feedback)
        })?;
        to_python(py, &feedback)
    }
}

impl State {
    /// Makes the candidates of an open proposal available again.
    fn release(&mut self) -> Result<(), Failure> {
        for candidate in self
            .proposal
            .take()
            .iter()
            .flat_map(|proposal| &proposal.candidates)
        {
            if self.scope.item(&candidate.ctx_id).is_some() {
                self.scope.hold(&candidate.ctx_id, false)?;
            }
        }
        Ok(())
    }
}

fn timestamp(milliseconds: i64) -> Result<Timestamp, Failure> {
    Timestamp::from_millisecond(milliseconds).map_err(|error| Failure::new(error.to_string()).at("now"))
}
