//! Command implementations: each calls the engine, prints the result and chooses the exit code.

mod bench;
mod completions;
mod config;
mod confirm;
mod db;
mod demo;
mod doctor;
mod eviction;
mod experiment;
mod gate;
mod harness;
mod hook;
#[cfg_attr(not(feature = "mcp"), path = "mcp_stub.rs")]
mod mcp;
mod memory;
mod models;
mod progress;
mod reference;
mod research;
mod retrieval;
mod score;
mod serve;
mod sweep;
mod tenant;
mod token;
mod trust;
mod watch;
mod worker;

pub(crate) use hook::{HookInvocation, run_event};

use std::future::Future;

use satiety_engine::Engine;
use satiety_engine::maintenance::PARTITIONS_EVERY;

use crate::args::Command;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::printer::Printer;
use crate::settings::Settings;

pub(crate) fn run(command: Command, settings: &Settings, printer: &Printer) -> Result<Exit, Failure> {
    match command {
        Command::Demo(arguments) => demo::run(arguments, settings, printer),
        Command::Score(arguments) => with_engine(settings, async |engine| {
            score::run(arguments, engine, settings, printer).await
        }),
        Command::Progress(arguments) => with_engine(settings, async |engine| {
            progress::run(arguments, engine, printer).await
        }),
        Command::Watch(arguments) => with_engine(settings, async |engine| {
            watch::run(arguments, engine, settings, printer).await
        }),
        Command::Sweep(arguments) => with_engine(settings, async |engine| {
            sweep::run(arguments, engine, settings, printer).await
        }),
        Command::Retrieval(command) => with_engine(settings, async |engine| {
            retrieval::run(command, engine, printer).await
        }),
        Command::Bench(command) => with_engine(settings, async |engine| {
            Box::pin(bench::run(command, engine, settings, printer)).await
        }),
        Command::Harness(command) => with_engine(settings, async |engine| {
            Box::pin(harness::run(command, engine, settings, printer)).await
        }),
        Command::Evict(command) => with_engine(settings, async |engine| {
            eviction::run(*command, engine, printer).await
        }),
        Command::Research(arguments) => with_engine(settings, async |engine| {
            Box::pin(research::run(arguments, engine, settings, printer)).await
        }),
        Command::Gate(arguments) => gate::run(&arguments, printer),
        Command::Memory(command) => with_engine(settings, async |engine| {
            Box::pin(memory::run(*command, engine, printer)).await
        }),
        Command::Hook(arguments) => hook::run(arguments, settings, printer),
        Command::Serve(arguments) => serve::run(*arguments, settings, printer),
        Command::Worker(arguments) => with_engine(settings, async |engine| {
            Box::pin(worker::run(arguments, engine, settings, printer)).await
        }),
        Command::Tenant(command) => block_on(async {
            let engine = std::sync::Arc::new(settings.open_engine(None).await?);
            let outcome = Box::pin(tenant::run(command, engine.clone(), printer)).await;
            engine.close_with_registry().await;
            outcome
        }),
        Command::Token(command) => with_engine(settings, async |engine| {
            token::run(command, engine, printer).await
        }),
        Command::Mcp(arguments) => mcp::run(&arguments, settings, printer),
        Command::Ab(command) => with_engine(settings, async |engine| {
            Box::pin(experiment::run(command, engine, printer)).await
        }),
        Command::Models(command) => with_engine(settings, async |engine| {
            models::run(command, engine, settings, printer).await
        }),
        Command::Calibrate(arguments) => with_engine(settings, async |engine| {
            models::calibrate(arguments, engine, printer).await
        }),
        Command::Db(command) => with_engine(settings, async |engine| db::run(command, engine, printer).await),
        Command::Config(command) => config::run(&command, settings, printer),
        Command::Doctor { fleet: true, .. } => {
            with_engine(settings, async |engine| doctor::run_fleet(engine, printer).await)
        }
        Command::Doctor { sandbox: true, .. } => with_engine(settings, async |engine| {
            doctor::run_sandbox(engine, printer).await
        }),
        Command::Doctor { .. } => with_engine(settings, async |engine| {
            doctor::run(engine, settings, printer).await
        }),
        Command::Trust(arguments) => trust::run(&arguments, printer),
        Command::Completions { shell } => completions::run(shell, printer),
        Command::Reference { folder } => reference::run(&folder),
    }
}

/// Runs `work` with an engine on a new runtime, then closes the engine.
fn with_engine(
    settings: &Settings,
    work: impl AsyncFnOnce(&Engine) -> Result<Exit, Failure>,
) -> Result<Exit, Failure> {
    block_on(async {
        let engine = settings.open_engine(None).await?;
        let outcome = work(&engine).await;
        engine.close_with_registry().await;
        outcome
    })
}

/// Runs shadow experiments in the background while a server runs.
fn spawn_shadow_runs(engine: &std::sync::Arc<Engine>) -> tokio::task::JoinHandle<()> {
    let engine = std::sync::Arc::clone(engine);
    tokio::spawn(async move { engine.experiments().run_shadows().await })
}

/// Makes vectors in the background while a server runs, so that saves do not wait for the model.
fn spawn_embedding(engine: &std::sync::Arc<Engine>) -> tokio::task::JoinHandle<()> {
    let engine = std::sync::Arc::clone(engine);
    tokio::spawn(async move { engine.memory().run_embedding().await })
}

/// Applies the retention rules periodically while a server runs; `None` disables it.
fn spawn_retention(
    engine: &std::sync::Arc<Engine>,
    every: Option<std::time::Duration>,
) -> Option<tokio::task::JoinHandle<()>> {
    let (engine, every) = (std::sync::Arc::clone(engine), every?);
    Some(tokio::spawn(async move {
        engine.database().run_retention(every).await;
    }))
}

/// Makes partitions ahead once a day while a server runs, also if retention is disabled.
fn spawn_partitions(engine: &std::sync::Arc<Engine>) -> tokio::task::JoinHandle<()> {
    let engine = std::sync::Arc::clone(engine);
    tokio::spawn(async move {
        let database = engine.database();
        database.keep_partitions_ahead(PARTITIONS_EVERY).await;
    })
}

fn block_on<T>(work: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    runtime()?.block_on(work)
}

fn runtime() -> Result<tokio::runtime::Runtime, Failure> {
    tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::environment(format!("cannot start the runtime: {error}"), None))
}
