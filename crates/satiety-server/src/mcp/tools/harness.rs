//! Tools about the eval harness. There is none to approve, reject, apply or roll back: an agent whose harness is too easy is
//! the last one to be asked whether it may change.

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
                title: "Is the harness still hard enough?",
                about: "Where the eval harness stands: saturation, what discriminates, what waits for a person. Call it before you trust a high score.",
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
                about: "Record a cycle of the harness from the runs since the last one. Call it once after each evaluation.",
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
                about: "Propose changes that make the harness harder, by rule or as you write them (expansion_proposals in YAML). Nothing changes: a person must approve with a signature, elsewhere.",
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
    /// The harness' folder on this machine; that of the settings where absent.
    folder: Option<PathBuf>,
    /// `expansion_proposals` in YAML; by rule where absent.
    proposals: Option<String>,
    /// Only show what would be proposed by rule.
    #[serde(default)]
    dry_run: bool,
}

async fn propose(call: &Call, asked: ProposeArgs) -> Result<ProposeExpansionResponse, Problem> {
    let folder = asked
        .folder
        .unwrap_or_else(|| call.context.harness_folder.clone());
    // Kept with the proposal, so that the person who is asked to sign it sees that no person wrote it.
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
            "a dry run is for proposals by rule",
            "leave out `proposals`, or `dry_run`",
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
            format!("cannot write the proposals for reading: {error}"),
            "look at the folder for temporary files",
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
