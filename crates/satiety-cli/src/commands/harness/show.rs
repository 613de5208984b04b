//! Rendering of the harness status.

use satiety_engine::harness::{HarnessStatus, RecordedCycle};
use satiety_report::{Block, Document, Tone};

use super::format::phase;
use crate::printer::Render;

impl Render for HarnessStatus {
    fn document(&self) -> Document {
        let mut document = self.document();
        if let Some(open) = &self.expansion {
            let told = format!("{}: {}", phase(open.phase), open.trigger_reason);
            let label = format!("expansion {}", open.expansion_id);
            let place = document.blocks.len().saturating_sub(1);
            document
                .blocks
                .insert(place, Block::Note(Tone::Unsure, label, told.into()));
        }
        document
    }
}

impl Render for RecordedCycle {
    fn document(&self) -> Document {
        self.document()
    }
}
