//! `satiety tenant`: creates, lists, changes and deletes tenants.

use std::fmt::Write as _;
use std::path::Path;
use std::sync::Arc;

use satiety::quota::Quotas;
use satiety_engine::tenants::{
    CreateTenantRequest, DeletedTenant, Tenant, TenantList, TenantReport, UpdateTenantRequest,
};
use satiety_engine::{Engine, EngineError};

use super::confirm::confirm_on_terminal;
use crate::args::{QuotaArgs, TenantCommand};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::printer::{Printer, Render};
use crate::table::{bytes, table};

pub(super) async fn run(
    command: TenantCommand,
    engine: Arc<Engine>,
    printer: &Printer,
) -> Result<Exit, Failure> {
    match command {
        TenantCommand::Create {
            name,
            quotas,
            store_url,
            root,
            existing,
        } => {
            let request = CreateTenantRequest {
                quotas: changed(Quotas::default(), quotas),
                name,
                store_url,
                root,
                existing,
            };
            let created = engine.tenants().create(request).await?;
            printer.answer(&created)?;
            printer.note(&format!(
                "Create a token for it with `satiety --tenant {} token create NAME`.",
                created.name
            ));
        }
        TenantCommand::List => printer.answer(&engine.tenants().list().await?)?,
        TenantCommand::Show { name } => printer.answer(&engine.tenants().report(&name).await?)?,
        TenantCommand::Set {
            name,
            quotas,
            store_url,
            root,
            enable,
        } => {
            let now = engine.tenants().report(&name).await?.tenant.quotas;
            let request = UpdateTenantRequest {
                id: name,
                quotas: Some(changed(now, quotas)),
                enabled: enable.then_some(true),
                root,
                store_url,
            };
            printer.answer(&engine.tenants().update(request).await?)?;
        }
        TenantCommand::Disable { name } => {
            let request = UpdateTenantRequest {
                id: name,
                enabled: Some(false),
                ..UpdateTenantRequest::default()
            };
            printer.answer(&engine.tenants().update(request).await?)?;
        }
        TenantCommand::Delete {
            name,
            export,
            delete_store,
            yes,
        } => {
            let tenant = engine.tenants().report(&name).await?.tenant;
            if !yes {
                confirm(&tenant, delete_store)?;
            }
            if let Some(file) = export {
                export_store(&engine, &name, &file).await?;
                printer.note(&format!("Exported the store to {}.", file.display()));
            }
            printer.answer(&engine.tenants().delete(&name, delete_store).await?)?;
        }
    }
    Ok(Exit::Done)
}

fn confirm(tenant: &Tenant, delete_store: bool) -> Result<(), Failure> {
    let refusal = EngineError::Conflict {
        message: format!("cannot delete tenant `{}` without confirmation", tenant.name),
        hint: satiety::Hint::with_command("run it on a terminal, or confirm it", "--yes"),
    };
    let fate = if delete_store {
        "deleted permanently"
    } else {
        "kept"
    };
    confirm_on_terminal(
        refusal,
        &[("tenant", &tenant.name), ("store", &tenant.store), ("data", fate)],
    )
}

async fn export_store(engine: &Arc<Engine>, name: &str, file: &Path) -> Result<(), Failure> {
    let tenant = engine.tenant(name).await?;
    let exported = tenant.database().export_file(file).await;
    tenant.close().await;
    exported?;
    Ok(())
}

/// The quotas with those that were given.
fn changed(mut quotas: Quotas, given: QuotaArgs) -> Quotas {
    if let Some(limit) = given.requests_per_minute {
        quotas.requests_per_minute = limit.0;
    }
    if let Some(limit) = given.requests_per_day {
        quotas.requests_per_day = limit.0;
    }
    if let Some(limit) = given.model_tokens_per_day {
        quotas.model_tokens_per_day = limit.0;
    }
    if let Some(size) = given.storage {
        quotas.storage_bytes = size.0;
    }
    quotas
}

fn used_of_limit(used: u64, limit: Option<u64>, show: impl Fn(u64) -> String) -> String {
    match limit {
        Some(limit) => format!("{} of {}", show(used), show(limit)),
        None => show(used),
    }
}

fn storage(tenant: &Tenant) -> String {
    let limit = tenant.quotas.storage_bytes;
    match (tenant.usage.storage_bytes, limit) {
        (Some(used), limit) => used_of_limit(used, limit, bytes),
        (None, Some(limit)) => format!("- of {}", bytes(limit)),
        (None, None) => "-".into(),
    }
}

fn state(tenant: &Tenant) -> &'static str {
    if tenant.enabled { "enabled" } else { "disabled" }
}

impl Render for Tenant {
    fn human(&self) -> String {
        format!("tenant {} is {}: {}", self.name, state(self), self.store)
    }
}

impl Render for TenantList {
    fn human(&self) -> String {
        if self.tenants.is_empty() {
            return "No tenants. Create one with `satiety tenant create NAME`.".into();
        }
        let rows = self.tenants.iter().map(|tenant| {
            vec![
                tenant.name.clone(),
                state(tenant).into(),
                used_of_limit(tenant.usage.requests, tenant.quotas.requests_per_day, |count| {
                    count.to_string()
                }),
                used_of_limit(
                    tenant.usage.model_tokens,
                    tenant.quotas.model_tokens_per_day,
                    |count| count.to_string(),
                ),
                storage(tenant),
            ]
        });
        table(
            &[
                "tenant",
                "state",
                "requests today",
                "model tokens today",
                "storage",
            ],
            &[],
            rows,
        )
    }
}

impl Render for TenantReport {
    fn human(&self) -> String {
        let tenant = &self.tenant;
        let mut text = format!("{}\ncreated {}\n\n", tenant.human(), tenant.created_at);
        if let Some(root) = &tenant.root {
            let _ = writeln!(text, "directory  {root}");
        }
        let minute = tenant.quotas.requests_per_minute;
        let rows = [
            (
                "requests per minute",
                minute.map_or_else(|| "no limit".into(), |limit| format!("at most {limit}")),
            ),
            (
                "requests today",
                used_of_limit(tenant.usage.requests, tenant.quotas.requests_per_day, |count| {
                    count.to_string()
                }),
            ),
            (
                "model tokens today",
                used_of_limit(
                    tenant.usage.model_tokens,
                    tenant.quotas.model_tokens_per_day,
                    |count| count.to_string(),
                ),
            ),
            ("storage", storage(tenant)),
        ];
        let rows = rows.into_iter().map(|(name, value)| vec![name.to_owned(), value]);
        text.push_str(&table(&["quota", "used"], &[], rows));
        if !self.days.is_empty() {
            let rows = self.days.iter().map(|day| {
                vec![
                    day.day.strftime("%Y-%m-%d").to_string(),
                    day.usage.requests.to_string(),
                    day.usage.model_tokens.to_string(),
                    day.usage.storage_bytes.map_or_else(|| "-".into(), bytes),
                ]
            });
            text.push_str("\n\n");
            text.push_str(&table(
                &["day", "requests", "model tokens", "storage"],
                &[1, 2, 3],
                rows,
            ));
        }
        if !self.tokens.is_empty() {
            let rows = self.tokens.iter().map(super::token::row);
            text.push_str("\n\n");
            text.push_str(&table(&["id", "name", "scope", "state", "last used"], &[], rows));
        }
        text
    }
}

impl Render for DeletedTenant {
    fn human(&self) -> String {
        if self.store_deleted {
            return format!("deleted tenant {} and its store {}", self.name, self.store);
        }
        format!(
            "deleted tenant {}; its store {} was kept (register it again with `satiety tenant create {} --existing`)",
            self.name, self.store, self.name
        )
    }
}
