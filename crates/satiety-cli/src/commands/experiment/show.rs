//! Rendering of experiments.

use std::fmt::Write;

use owo_colors::OwoColorize;
use satiety_engine::experiment::{
    ExperimentChange, ExperimentCheck, ExperimentList, ExperimentStatus, WeightProposal,
};
use satiety_report::document::strong;
use satiety_report::{Block, Document};

use crate::printer::Render;

impl Render for ExperimentChange {
    fn human(&self) -> String {
        let feature = &self.feature;
        let mut text = format!("{} is {}", feature.feature_id.bold(), self.status.bold());
        if let Some(reason) = &self.reason {
            let _ = write!(text, ": {reason}");
        }
        if self.status == "running" {
            let _ = write!(
                text,
                "\nrollout: {} % of sessions; shadow: {} % of queries run with both pipelines",
                feature.rollout_percent,
                if feature.shadow_enabled {
                    feature.shadow_percent
                } else {
                    0.0
                }
            );
        }
        text
    }
}

impl Render for ExperimentList {
    fn document(&self) -> Document {
        self.document(None)
    }
}

impl Render for ExperimentStatus {
    fn document(&self) -> Document {
        self.document()
    }
}

impl Render for ExperimentCheck {
    fn document(&self) -> Document {
        let mut document = self.status.document();
        if self.graduated {
            let feature = strong(&*self.status.feature.feature_id);
            let told = feature.then(" is now the default for all searches");
            document.blocks.push(Block::Text(told));
        }
        document
    }
}

impl Render for WeightProposal {
    fn document(&self) -> Document {
        self.document()
    }
}
