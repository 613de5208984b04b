//! Reference page of the MCP tools.

use std::fmt::Write;

use satiety_server::mcp::{Effect, Profile, Registry, Tool};

use super::{GENERATED, schema};

pub(super) fn page() -> String {
    let mut text = format!(
        "# MCP tools\n\n{GENERATED}The tools of `satiety mcp` and of `/mcp` in `satiety serve`, by profile. Each profile includes \
         the previous one. A model pays for name, description and arguments of every offered tool in every request; the tokens \
         are counted with `o200k_base`, as `satiety mcp --list` prints them.\n\n\
         | profile | tools | tokens |\n|---|---|---|\n"
    );
    for profile in Profile::ALL {
        let cost = Registry::from_profile(profile).cost();
        let _ = writeln!(text, "| `{profile}` | {} | {} |", cost.tools.len(), cost.tokens);
    }
    let all = Registry::from_profile(Profile::Full);
    let remote = Registry::from_profile(Profile::Full).for_remote_callers();
    for profile in Profile::ALL {
        let _ = write!(text, "\n## Profile `{profile}`\n");
        for tool in all.tools().iter().filter(|tool| tool.profile() == profile) {
            describe(&mut text, tool, remote.get(tool.name()));
        }
    }
    text
}

fn describe(text: &mut String, tool: &Tool, remote: Option<&Tool>) {
    let effect = match tool.effect() {
        Effect::Reads => "reads",
        Effect::Adds => "adds data",
        Effect::Changes => "changes data",
        Effect::Deletes => "deletes data",
        Effect::Runs => "runs programs",
    };
    let _ = write!(
        text,
        "\n### {}\n\n{}\n\n{} tokens; {effect}.",
        tool.name(),
        tool.description(),
        tool.tokens()
    );
    let arguments = tool.full_schema();
    let offered = remote.and_then(|remote| remote.input_schema().get("properties"));
    let local: Vec<String> = arguments["properties"]
        .as_object()
        .into_iter()
        .flat_map(serde_json::Map::keys)
        .filter(|name| offered.is_none_or(|offered| offered.get(name.as_str()).is_none()))
        .map(|name| format!("`{name}`"))
        .collect();
    if !local.is_empty() {
        let _ = write!(text, " Not over HTTP: {}.", local.join(", "));
    }
    if !tool.data_fields().is_empty() {
        let fields: Vec<String> = tool
            .data_fields()
            .iter()
            .map(|field| format!("`{field}`"))
            .collect();
        let _ = write!(text, " Untrusted text in the answer: {}.", fields.join(", "));
    }
    let table = schema::field_table(&arguments, "objects.md");
    if table.is_empty() {
        text.push_str("\n\nNo arguments.\n");
    } else {
        let _ = write!(text, "\n\n{}", table.replacen("| field |", "| argument |", 1));
    }
}
