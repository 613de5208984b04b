//! Input of the regression and its translation to weights.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::super::features::Term;
use super::super::resolve::Label;
use super::super::weights::{Weights, ZoneWeights};
use crate::stats::LogisticModel;

/// Input of the regression: the terms of the scorer, an offset and an ageing for each zone, and an offset for
/// each kind.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub(super) struct Space {
    zones: Vec<String>,
    kinds: Vec<String>,
}

impl Space {
    pub(super) fn from_labels(labels: &[Label]) -> Self {
        let distinct = |field: fn(&Label) -> &String| -> Vec<String> {
            labels
                .iter()
                .map(field)
                .collect::<std::collections::BTreeSet<_>>()
                .into_iter()
                .cloned()
                .collect()
        };
        Self {
            zones: distinct(|label| &label.zone),
            kinds: distinct(|label| &label.kind),
        }
    }

    pub(super) fn row(&self, label: &Label) -> Vec<f64> {
        let mut row = label.features.to_vec();
        let recency = label.features[Term::Recency as usize];
        for zone in &self.zones {
            let here = f64::from(u8::from(*zone == label.zone));
            row.extend([here, here * recency]);
        }
        row.extend(
            self.kinds
                .iter()
                .map(|kind| f64::from(u8::from(*kind == label.kind))),
        );
        row
    }

    pub(super) fn model(&self, weights: &Weights) -> LogisticModel {
        let mut values: Vec<f64> = Term::ALL.iter().map(|term| weights.term(term.name())).collect();
        for zone in &self.zones {
            let zone = weights.zone(zone);
            values.extend([zone.offset, zone.ageing]);
        }
        values.extend(
            self.kinds
                .iter()
                .map(|kind| weights.kinds.get(kind).copied().unwrap_or(0.0)),
        );
        LogisticModel {
            intercept: weights.term("bias"),
            weights: values,
        }
    }

    /// Converts a correction of the prior weights to weights: every prior weight times `slope`, plus the
    /// weights of the model. Zones and kinds without labels are only multiplied.
    pub(super) fn corrected(
        &self,
        prior: &Weights,
        slope: f64,
        correction: &LogisticModel,
        version: &str,
    ) -> Weights {
        let mut scaled = prior.clone();
        for weight in scaled.terms.values_mut().chain(scaled.kinds.values_mut()) {
            *weight *= slope;
        }
        for zone in scaled.zones.values_mut() {
            zone.offset *= slope;
            zone.ageing *= slope;
        }
        let mut model = self.model(&scaled);
        model.intercept += correction.intercept;
        for (weight, more) in model.weights.iter_mut().zip(&correction.weights) {
            *weight += more;
        }
        self.weights(&model, &scaled, version)
    }

    /// Converts the model to weights; zones and kinds without labels keep their prior weights.
    pub(super) fn weights(&self, model: &LogisticModel, prior: &Weights, version: &str) -> Weights {
        let mut values = model.weights.iter().copied();
        let mut next = || values.next().unwrap_or(0.0);
        let mut weights = prior.clone();
        version.clone_into(&mut weights.version);
        weights.isotonic = None;
        weights.floor = 0.0;
        weights.terms.insert("bias".to_owned(), model.intercept);
        for term in Term::ALL {
            weights.terms.insert(term.name().to_owned(), next());
        }
        for zone in &self.zones {
            let (offset, ageing) = (next(), next());
            weights.zones.insert(zone.clone(), ZoneWeights { offset, ageing });
        }
        for kind in &self.kinds {
            weights.kinds.insert(kind.clone(), next());
        }
        weights
    }
}
