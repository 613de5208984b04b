//! Report about the calls of hooks.

use std::fmt::Write as _;

use satiety_engine::agent_hooks::HookStatus;

use crate::printer::Render;
use crate::table::table;

impl Render for HookStatus {
    fn human(&self) -> String {
        if self.calls.is_empty() {
            return "no hook has fired yet; install them with `satiety hook install --for AGENT`".into();
        }
        let rows = self.calls.iter().map(|count| {
            vec![
                count.host.clone(),
                count.event.clone(),
                count.decision.clone(),
                count.calls.to_string(),
                format!("{:.1}", count.mean_ms),
                format!("{:.1}", count.max_ms),
                count.last_at.strftime("%F %T").to_string(),
            ]
        });
        let header = [
            "agent",
            "event",
            "decision",
            "calls",
            "mean ms",
            "max ms",
            "last (UTC)",
        ];
        let mut text = table(&header, &[3, 4, 5], rows);
        let reasons = self
            .calls
            .iter()
            .filter(|count| !count.last_reason.is_empty() && count.decision != "pass");
        for count in reasons {
            let _ = write!(
                text,
                "\nlatest {} of {}: {}",
                count.decision, count.event, count.last_reason
            );
        }
        for session in &self.sessions {
            for compaction in &session.compactions {
                let _ = write!(
                    text,
                    "\ncompaction of {} at {}: {} files kept, {} dropped, about {} tokens before",
                    session.id,
                    compaction.at.strftime("%F %T"),
                    compaction.kept.len(),
                    compaction.dropped.len(),
                    compaction.tokens
                );
            }
        }
        text
    }
}
