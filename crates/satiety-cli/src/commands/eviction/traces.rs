//! `satiety evict generate`, `convert`, `simulate` and `target`.

use std::io::{BufRead, Write};

use satiety::eviction::ConvertOptions;
use satiety::eviction::simulation::{Budget, GeneratorSettings};
use satiety_engine::Engine;
use satiety_engine::eviction::{ConvertRequest, SimulateRequest, target_answer};
use serde_json::{Value, json};

use super::{name, read, read_bytes};
use crate::args::{EvictConvertArgs, EvictGenerateArgs, EvictSimulateArgs, EvictTargetArgs};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::printer::Printer;

pub(super) async fn simulate(
    arguments: EvictSimulateArgs,
    engine: &Engine,
    printer: &Printer,
) -> Result<Exit, Failure> {
    let learn_from = match &arguments.learn_from {
        Some(file) => Some((name(file), read(file)?)),
        None => None,
    };
    let simulated = engine
        .eviction()
        .simulate(SimulateRequest {
            trace: (name(&arguments.trace), read(&arguments.trace)?),
            policies: arguments.policy,
            budget: budget(&arguments.budget)?,
            headroom: arguments.headroom,
            learn_from,
            seed: arguments.seed,
            resamples: arguments.resamples,
            provider: arguments.provider,
        })
        .await?;
    printer.answer(&simulated)?;
    Ok(Exit::Done)
}

fn budget(text: &str) -> Result<Budget, Failure> {
    let wrong = || {
        Failure::bad_input(
            format!("cannot parse budget `{text}`"),
            "use tokens such as 24000, or a share of the session such as 25%",
        )
    };
    match text.strip_suffix('%') {
        Some(percent) => {
            let percent: f64 = percent.trim().parse().map_err(|_| wrong())?;
            if (0.0..=100.0).contains(&percent) {
                Ok(Budget::Share(percent / 100.0))
            } else {
                Err(wrong())
            }
        }
        None => text.parse().map(Budget::Tokens).map_err(|_| wrong()),
    }
}

pub(super) fn convert(
    arguments: &EvictConvertArgs,
    engine: &Engine,
    printer: &Printer,
) -> Result<Exit, Failure> {
    let session = arguments
        .log
        .file_stem()
        .map_or_else(|| "session".into(), |stem| stem.to_string_lossy().into_owned());
    let request = ConvertRequest {
        log: (name(&arguments.log), read_bytes(&arguments.log)?),
        format: arguments.input,
        options: ConvertOptions {
            session,
            overlap: arguments.overlap as usize,
            content: !arguments.without_content,
        },
    };
    let converted = engine.eviction().convert(&request)?;
    if converted.skipped.count > 0 {
        printer.note(&format!(
            "{} records were not understood",
            converted.skipped.count
        ));
    }
    printer.note(&format!(
        "{} sessions, {} turns, {} items; used again: {} items in {} uses (strict: path or id named again), \
         {} items in {} uses (broad: content reappears)",
        converted.sessions,
        converted.turns,
        converted.items,
        converted.strict.items,
        converted.strict.uses,
        converted.broad.items,
        converted.broad.uses
    ));
    printer.text(&converted.trace)?;
    Ok(Exit::Done)
}

pub(super) fn generate(
    arguments: &EvictGenerateArgs,
    engine: &Engine,
    printer: &Printer,
) -> Result<Exit, Failure> {
    let settings = GeneratorSettings {
        sessions: arguments.sessions,
        turns: arguments.turns,
        seed: arguments.seed,
        task_turns: arguments.task_turns,
        noise: arguments.noise,
    };
    printer.text(&engine.eviction().generate(&settings)?)?;
    Ok(Exit::Done)
}

/// Answers each JSON line with a JSON line, as a benchmark target.
pub(super) async fn target(arguments: &EvictTargetArgs, engine: &Engine) -> Result<Exit, Failure> {
    let scorer = engine.eviction().scorer_or_file(&arguments.scorer).await?;
    let trace = match &arguments.trace {
        Some(path) => engine.eviction().sessions_of(path)?,
        None => Vec::new(),
    };
    for line in std::io::stdin().lock().lines() {
        let line = line?;
        let request: Value = serde_json::from_str(&line).map_err(|error| {
            Failure::bad_input(
                format!("cannot parse a request: {error}"),
                "run this through `satiety bench ablation`",
            )
        })?;
        let answer = target_answer(&request, &scorer, &trace)?;
        let mut out = std::io::stdout().lock();
        let text =
            json!({"case_id": request.get("case_id"), "output": answer.output, "metrics": answer.metrics});
        writeln!(out, "{text}")?;
        out.flush()?;
    }
    Ok(Exit::Done)
}
