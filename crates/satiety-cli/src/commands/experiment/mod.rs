//! `satiety ab`: experiments with the memory search pipeline.

mod show;

use satiety::experiment::{Feature, GraduationVerdict, Method, ProposalVerdict};
use satiety_engine::Engine;
use satiety_engine::experiment::{ProposeRequest, StartRequest};

use crate::args::{Ab, AbStartArgs, AbTest};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::printer::Printer;

pub(super) async fn run(command: Ab, engine: &Engine, printer: &Printer) -> Result<Exit, Failure> {
    let changed = match command {
        Ab::Start(arguments) => engine.experiments().start(request(arguments)?).await?,
        Ab::Pause(named) => engine.experiments().pause(&named.feature, named.reason).await?,
        Ab::Resume(named) => engine.experiments().resume(&named.feature, named.reason).await?,
        Ab::Reject(named) => engine.experiments().reject(&named.feature, named.reason).await?,
        Ab::Rollback(named) => {
            engine
                .experiments()
                .rollback(&named.feature, named.reason)
                .await?
        }
        Ab::Rollout {
            feature,
            percent,
            shadow,
        } => engine.experiments().rollout(&feature, percent, shadow).await?,
        Ab::Propose { start } => {
            let proposal = engine.experiments().propose(ProposeRequest { start }).await?;
            printer.answer(&proposal)?;
            return Ok(match proposal.proposed.verdict {
                ProposalVerdict::Propose => Exit::Done,
                ProposalVerdict::Keep => Exit::CheckFailed,
                ProposalVerdict::NotEnoughEvidence => Exit::Inconclusive,
            });
        }
        Ab::Status { feature } => {
            let status = engine.experiments().status(&feature).await?;
            printer.answer(&status)?;
            return Ok(exit(status.checklist.verdict));
        }
        Ab::Check { feature } => {
            let checked = engine.experiments().check(&feature).await?;
            printer.answer(&checked)?;
            return Ok(exit(checked.verdict));
        }
        Ab::Graduate(named) => {
            let checked = engine
                .experiments()
                .graduate(&named.feature, named.reason)
                .await?;
            printer.answer(&checked)?;
            return Ok(exit(checked.verdict));
        }
        Ab::List => {
            printer.answer(&engine.experiments().list().await?)?;
            return Ok(Exit::Done);
        }
    };
    printer.answer(&changed)?;
    Ok(Exit::Done)
}

fn exit(verdict: GraduationVerdict) -> Exit {
    match verdict {
        GraduationVerdict::Graduate => Exit::Done,
        GraduationVerdict::Refuse => Exit::CheckFailed,
        GraduationVerdict::Undecided => Exit::Inconclusive,
    }
}

fn request(arguments: AbStartArgs) -> Result<StartRequest, Failure> {
    if let Some(file) = &arguments.file {
        return Ok(StartRequest::file(file)?);
    }
    let change = StartRequest::change(&arguments.pipeline.unwrap_or_default())?;
    let feature = Feature {
        description: arguments.description.unwrap_or_default(),
        rollout_percent: arguments.rollout,
        shadow_enabled: arguments.shadow > 0.0,
        shadow_percent: arguments.shadow,
        min_samples: arguments.min_samples,
        graduation_threshold: arguments.threshold,
        method: match arguments.test {
            AbTest::Betting => Method::Betting,
            AbTest::Sprt => Method::Sprt,
        },
        alpha: arguments.alpha,
        beta: arguments.beta,
        effect: arguments.effect,
        ..Feature::new(arguments.feature.unwrap_or_default(), change)
    };
    Ok(StartRequest { feature })
}
