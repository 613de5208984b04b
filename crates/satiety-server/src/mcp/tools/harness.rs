//! Harness tools. There is none to approve, reject, apply or roll back: an agent must not decide about
//! changes to its own evals.

use std::io::Write as _;
use std::path::PathBuf;

use satiety::harness::Author;
use satiety_engine::harness::{ExpandRequest, ProposeExpansionResponse, ProposeRequest};
use schemars::JsonSchema;
use serde::Deserialize;

use super::super::call::{Call, Problem};
use super::super::registry::{Effect, Profile, Spec, Tool, ToolProfile};

pub(super) fn tools() -> Vec<Option<Tool>> {
    vec![
        Tool::of_operation(
            "harness_status",
            Spec {
                name: "harness_status",
                title: "Harness status",
                about: "Get the state of the eval harness: saturation, discriminating cases, pending approvals. Call it before you trust a high score.",
                profile: Profile::Full,
                effect: Effect::Reads,
                data: &["next"],
            },
            ToolProfile::default(),
        ),
        Tool::of_operation(
            "record_cycle",
            Spec {
                name: "harness_record",
                title: "Record a cycle",
                about: "Record a harness cycle from the runs since the last one. Call it once after each evaluation.",
                profile: Profile::Full,
                effect: Effect::Adds,
                data: &["notes"],
            },
            ToolProfile::default(),
        ),
        Some(Tool::new(
            Spec {
                name: "harness_propose",
                title: "Propose a harder harness",
                about: "Propose changes that make the harness harder, by rules or your own (expansion_proposals in YAML). Nothing changes: a person must approve with a signature, elsewhere.",
                profile: Profile::Full,
                effect: Effect::Adds,
                data: &["ideas", "refused"],
            },
            |call: Call, asked: ProposeArgs| async move { propose(&call, asked).await },
        )),
    ]
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ProposeArgs {
    /// Harness directory on this machine; default from the settings.
    folder: Option<PathBuf>,
    /// `expansion_proposals` in YAML; default by rules.
    proposals: Option<String>,
    /// Preview the proposals by rules without storing.
    #[serde(default)]
    dry_run: bool,
}

async fn propose(call: &Call, asked: ProposeArgs) -> Result<ProposeExpansionResponse, Problem> {
    let folder = asked
        .folder
        .unwrap_or_else(|| call.context.harness_folder.clone());
    // Stored with the proposal, so that the approver sees that an agent wrote it.
    let author = Author::Agent(call.caller.clone());
    let Some(text) = asked.proposals else {
        let request = ExpandRequest {
            folder,
            dry_run: asked.dry_run,
            by: author.words(),
            ..ExpandRequest::default()
        };
        return Ok(call.engine().harness().expand(request).await?);
    };
    if asked.dry_run {
        return Err(Problem::new(
            "`dry_run` is not supported with `proposals`",
            "omit `proposals` or `dry_run`",
        ));
    }
    let written = || -> std::io::Result<tempfile::NamedTempFile> {
        let mut file = tempfile::Builder::new()
            .prefix("proposals-")
            .suffix(".yaml")
            .tempfile()?;
        file.write_all(text.as_bytes())?;
        file.flush()?;
        Ok(file)
    };
    let file = written().map_err(|error| {
        Problem::new(
            format!("cannot write a temporary file for the proposals: {error}"),
            "check that the temporary directory is writable",
        )
    })?;
    let request = ProposeRequest {
        folder,
        expansion: None,
        file: file.path().to_path_buf(),
        author,
    };
    Ok(call.engine().harness().propose(request).await?)
}
