//! Operations on tenants and tokens. A tenant sees itself and administers its own tokens; the registry is for admin
//! tokens of the main store. A caller on loopback without a token may be any program, so that it changes nothing here.

use satiety::memory::Author;
use schemars::JsonSchema;
use serde::Deserialize;

use super::{Call, Effect, IdRequest, NoFields, Operation};
use crate::tenants::{CreateTenantRequest, TenantReport, UpdateTenantRequest};
use crate::tokens::{CreateTokenRequest, Scope};
use crate::{Engine, EngineError};

/// Refuses callers that no person gave an admin token to.
fn needs_admin_token(call: &Call, what: &'static str) -> Result<(), EngineError> {
    match call.author {
        Author::Person => Ok(()),
        Author::Agent => Err(EngineError::NeedsAdminToken { what }),
    }
}

/// Returns a tenant as a caller of this engine may see it: only the operator knows where its store and its files are.
async fn visible_report(engine: &Engine, name: &str) -> Result<TenantReport, EngineError> {
    let mut report = engine.tenants().report(name).await?;
    if engine.tenant_name().is_some() {
        report.tenant.store.clear();
        report.tenant.root = None;
    }
    Ok(report)
}

/// Request for the usage of the caller's tenant, or of a named one.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct UsageRequest {
    /// Name of the tenant; by default the caller's.
    #[serde(default)]
    #[schemars(length(max = 256))]
    tenant: Option<String>,
}

pub(super) fn operations() -> Vec<Operation> {
    let mut operations = registry();
    operations.extend(tokens());
    operations
}

fn registry() -> Vec<Operation> {
    vec![
        Operation::new(
            "list_tenants",
            "List the tenants with their quotas and today's usage",
            Scope::Admin,
            Effect::Read,
            |call: Call, _: NoFields| async move { call.engine.tenants().list().await },
        ),
        Operation::new(
            "create_tenant",
            "Create a tenant with a store of its own next to the main one",
            Scope::Admin,
            Effect::Write,
            |call: Call, request: CreateTenantRequest| async move {
                needs_admin_token(&call, "create a tenant")?;
                call.engine.tenants().create(request).await
            },
        ),
        Operation::new(
            "get_tenant",
            "Get a tenant: quotas, usage of the last 30 days, tokens",
            Scope::Admin,
            Effect::Read,
            |call: Call, request: IdRequest| async move { visible_report(&call.engine, &request.id).await },
        ),
        Operation::new(
            "update_tenant",
            "Change the quotas of a tenant, or disable and enable it",
            Scope::Admin,
            Effect::Write,
            |call: Call, request: UpdateTenantRequest| async move {
                needs_admin_token(&call, "change a tenant")?;
                call.engine.tenants().update(request).await
            },
        ),
        Operation::new(
            "delete_tenant",
            "Remove a tenant and its tokens; its store is kept and can be registered again",
            Scope::Admin,
            Effect::Destructive,
            |call: Call, request: IdRequest| async move {
                needs_admin_token(&call, "delete a tenant")?;
                call.engine.tenants().delete(&request.id, false).await
            },
        ),
        Operation::new(
            "get_usage",
            "Get the quotas and the usage of the caller's tenant",
            Scope::Read,
            Effect::Read,
            |call: Call, request: UsageRequest| async move {
                let own = call.engine.tenant_name().map(str::to_owned);
                let name = match (request.tenant, own) {
                    (Some(name), _) if call.scope == Scope::Admin => name,
                    (Some(name), Some(own)) if name == own => name,
                    (Some(_), _) => {
                        return Err(EngineError::NeedsAdminToken {
                            what: "see another tenant",
                        });
                    }
                    (None, Some(own)) => own,
                    (None, None) => {
                        return Err(EngineError::NotFound {
                            what: "tenant of the caller".into(),
                            hint: "the main store has no quotas; name a tenant".into(),
                        });
                    }
                };
                let mut report = visible_report(&call.engine, &name).await?;
                // Tokens are listed for admins.
                report.tokens.clear();
                Ok(report)
            },
        ),
    ]
}

fn tokens() -> Vec<Operation> {
    vec![
        Operation::new(
            "list_tokens",
            "List the tokens without their secrets; a tenant sees its own",
            Scope::Admin,
            Effect::Read,
            |call: Call, _: NoFields| async move { call.engine.tokens().list().await },
        ),
        Operation::new(
            "create_token",
            "Create a token for the caller's tenant, or the main store; its secret is shown once",
            Scope::Admin,
            Effect::Write,
            |call: Call, request: CreateTokenRequest| async move {
                needs_admin_token(&call, "create a token")?;
                call.engine.tokens().create(request).await
            },
        ),
        Operation::new(
            "revoke_token",
            "Revoke a token by id, or by name if only one valid token has it",
            Scope::Admin,
            Effect::Destructive,
            |call: Call, request: IdRequest| async move {
                needs_admin_token(&call, "revoke a token")?;
                call.engine.tokens().revoke(&request.id).await
            },
        ),
    ]
}
