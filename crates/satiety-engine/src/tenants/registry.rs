//! The registry of tenants: create, list, change and remove them, and keep their usage.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use satiety::Hint;
use satiety::quota::{Counts, Quotas};
use satiety_store::journal::Event;
use satiety_store::tenants::{TenantRow, UsageRow, create_database, drop_database};
use satiety_store::{Migrate, Store, StoreError, StoreUrl, now_micros};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::meter::{day_micros, quotas, today, today_micros};
use super::{TenantMeter, check_name, check_owner, location};
use crate::EngineError;
use crate::handles::TenantOperations;
use crate::tokens::Token;

/// Days of usage in a report.
const HISTORY_DAYS: i64 = 30;
const DAY: i64 = 24 * 60 * 60 * 1_000_000;

/// Request to create a tenant.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CreateTenantRequest {
    /// Name: 1 to 40 lower-case letters, digits and hyphens.
    #[schemars(length(min = 1, max = 40))]
    pub name: String,
    /// Limits of the tenant; by default none.
    #[serde(default)]
    pub quotas: Quotas,
    /// URL of its store, without a password; by default a database next to the main one.
    #[serde(default)]
    pub store_url: Option<String>,
    /// Directory that paths in its requests are confined to; by default its requests cannot name files.
    #[serde(default)]
    pub root: Option<PathBuf>,
    /// Whether the store exists already and becomes the tenant's, with everything in it.
    #[serde(default)]
    pub existing: bool,
}

/// Request to change a tenant; what is absent stays as it is.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct UpdateTenantRequest {
    /// Name of the tenant.
    #[schemars(length(min = 1, max = 256))]
    pub id: String,
    /// All limits of the tenant; an absent limit is removed.
    #[serde(default)]
    pub quotas: Option<Quotas>,
    /// Whether its tokens are accepted; a change takes effect within five seconds.
    #[serde(default)]
    pub enabled: Option<bool>,
    /// Directory that paths in its requests are confined to; an empty path removes it.
    #[serde(default)]
    pub root: Option<PathBuf>,
    /// URL of its store after it was moved, without a password.
    #[serde(default)]
    pub store_url: Option<String>,
}

/// A tenant with its limits and today's usage.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Tenant {
    /// Name of the tenant.
    pub name: String,
    /// Whether its tokens are accepted.
    pub enabled: bool,
    /// Time when the tenant was created.
    pub created_at: jiff::Timestamp,
    /// Time when the tenant was disabled, if it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disabled_at: Option<jiff::Timestamp>,
    /// Location of its store, without a password.
    pub store: String,
    /// Directory that paths in its requests are confined to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub root: Option<String>,
    /// Limits of the tenant; an absent one does not limit.
    pub quotas: Quotas,
    /// Usage of the current day.
    pub usage: TenantUsage,
}

/// Usage of a tenant on the current day (UTC).
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct TenantUsage {
    /// Number of requests today, up to a few seconds ago.
    pub requests: u64,
    /// Number of tokens that models processed today.
    pub model_tokens: u64,
    /// Size of its store in bytes when it was last measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub storage_bytes: Option<u64>,
}

/// Usage of a tenant on one day (UTC).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct DailyUsage {
    /// Start of the day.
    pub day: jiff::Timestamp,
    /// Usage on that day.
    #[serde(flatten)]
    pub usage: TenantUsage,
}

/// All tenants of a server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct TenantList {
    /// Tenants by name.
    pub tenants: Vec<Tenant>,
}

/// A tenant with its tokens and its usage of the last days.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct TenantReport {
    /// The tenant with today's usage.
    #[serde(flatten)]
    pub tenant: Tenant,
    /// Usage of the last 30 days, newest first; days without usage are left out.
    pub days: Vec<DailyUsage>,
    /// Its tokens, most recently created first.
    pub tokens: Vec<Token>,
}

/// A tenant that was removed from the registry.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct DeletedTenant {
    /// Name of the tenant.
    pub name: String,
    /// Location of its store, without a password.
    pub store: String,
    /// Whether the store was deleted, too; otherwise it can be registered again.
    pub store_deleted: bool,
}

impl TenantOperations<'_> {
    /// Refuses to do this for a tenant.
    fn main(self, what: &'static str) -> Result<(), EngineError> {
        match self.engine.tenant {
            None => Ok(()),
            Some(_) => Err(EngineError::OnlyMain { what }),
        }
    }

    pub(crate) async fn row(self, name: &str) -> Result<TenantRow, EngineError> {
        let row = self.engine.store().await?.tenants().get(name).await?;
        row.ok_or_else(|| EngineError::NotFound {
            what: format!("tenant `{name}`"),
            hint: Hint::with_command("list the tenants to see their names", "satiety tenant list"),
        })
    }

    /// Creates a tenant and its store.
    pub async fn create(self, request: CreateTenantRequest) -> Result<Tenant, EngineError> {
        self.main("create a tenant")?;
        check_name(&request.name)?;
        let mut row = TenantRow {
            name: request.name,
            store_url: request.store_url,
            root: None,
            requests_per_minute: None,
            requests_per_day: None,
            model_tokens_per_day: None,
            storage_bytes: None,
            created_at: now_micros(),
            disabled_at: None,
        };
        set_quotas(&mut row, &request.quotas);
        let place = location(&self.engine.settings.store, &row)?;
        let store = self.engine.store().await?;
        row.root = self.checked_root(&row.name, request.root.as_deref()).await?;
        if !store.tenants().add(&row).await? {
            return Err(EngineError::AlreadyExists {
                what: format!("a tenant `{}`", row.name),
                hint: "choose another name".into(),
            });
        }
        if let Err(error) = self.prepare_store(&row, &place, request.existing).await {
            store.tenants().remove(&row.name).await?;
            return Err(error);
        }
        let body = json!({"store": place.to_string(), "existing": request.existing});
        store
            .journal()
            .append(Event::now("tenant.created", &row.name, body))
            .await?;
        self.describe(row, None)
    }

    /// Creates the database if it is missing, migrates it and marks it as the tenant's.
    async fn prepare_store(
        self,
        row: &TenantRow,
        place: &StoreUrl,
        existing: bool,
    ) -> Result<(), EngineError> {
        if row.store_url.is_none() && !existing {
            create_database(&self.engine.settings.store, place).await?;
        }
        let is_empty = is_empty(place).await?;
        if is_empty && existing {
            return Err(EngineError::Conflict {
                message: format!(
                    "cannot register {place} for tenant `{}`: there is no store",
                    row.name
                ),
                hint: "correct the location, or create the tenant with a new store".into(),
            });
        }
        if !is_empty && !existing {
            return Err(EngineError::AlreadyExists {
                what: format!("the store {place}"),
                hint: Hint::with_command(
                    "if it shall become the tenant's, with everything in it, say so",
                    "--existing",
                ),
            });
        }
        let store =
            Store::open_configured(place, Migrate::ToLatest, &self.engine.store_options.for_tenant()).await?;
        let claimed = self.claim(&store, &row.name, existing).await;
        store.close().await;
        claimed
    }

    async fn claim(self, store: &Store, name: &str, existing: bool) -> Result<(), EngineError> {
        if existing && let Some(owner) = store.owner().await? {
            let registry = self.engine.store().await?.tenants();
            // The store of a tenant that is no longer registered may change hands.
            if owner != name && registry.get(&owner).await?.is_none() {
                store.transfer_ownership(name).await?;
            }
        }
        check_owner(store, name).await
    }

    /// Checks that a root is a directory that no other tenant can reach.
    async fn checked_root(self, name: &str, root: Option<&Path>) -> Result<Option<String>, EngineError> {
        let Some(root) = root.filter(|root| !root.as_os_str().is_empty()) else {
            return Ok(None);
        };
        let unacceptable = |reason: String| EngineError::Unacceptable {
            what: format!(
                "`{}` as the directory of tenant `{name}`: {reason}",
                root.display()
            ),
            hint: "give each tenant a directory of its own".into(),
        };
        let real = fs_err::canonicalize(root).map_err(|cause| unacceptable(cause.to_string()))?;
        if !real.is_dir() {
            return Err(unacceptable("it is not a directory".into()));
        }
        for other in self.engine.store().await?.tenants().list().await? {
            let Some(taken) = other.root.filter(|_| other.name != name) else {
                continue;
            };
            if real.starts_with(&taken) || Path::new(&taken).starts_with(&real) {
                return Err(unacceptable(format!("tenant `{}` has `{taken}`", other.name)));
            }
        }
        Ok(Some(real.display().to_string()))
    }

    /// Lists the tenants with today's usage.
    pub async fn list(self) -> Result<TenantList, EngineError> {
        self.main("list the tenants")?;
        let store = self.engine.store().await?;
        let used = store.tenants().usage_on(today_micros()).await?;
        let rows = store.tenants().list().await?;
        let tenants = rows.into_iter().map(|row| {
            let used = used.iter().find(|used| used.tenant == row.name);
            self.describe(row, used)
        });
        Ok(TenantList {
            tenants: tenants.collect::<Result<_, _>>()?,
        })
    }

    /// Returns a tenant with its tokens and its usage of the last days. A tenant may see itself.
    pub async fn report(self, name: &str) -> Result<TenantReport, EngineError> {
        if self.engine.tenant_name().is_some_and(|own| own != name) {
            return Err(EngineError::OnlyMain {
                what: "see another tenant",
            });
        }
        let registry = self.engine.registry();
        let row = registry.tenants().row(name).await?;
        let store = registry.store().await?;
        let today = today_micros();
        let rows = store.tenants().usage(name, today - HISTORY_DAYS * DAY).await?;
        let tokens = registry.tokens().list().await?.tokens;
        Ok(TenantReport {
            tenant: registry
                .tenants()
                .describe(row, rows.first().filter(|row| row.day == today))?,
            days: rows
                .iter()
                .map(|row| DailyUsage {
                    day: crate::time(row.day),
                    usage: usage(row),
                })
                .collect(),
            tokens: tokens
                .into_iter()
                .filter(|token| token.tenant.as_deref() == Some(name))
                .collect(),
        })
    }

    /// Changes quotas, state, directory or location of a tenant.
    pub async fn update(self, request: UpdateTenantRequest) -> Result<Tenant, EngineError> {
        self.main("change a tenant")?;
        let mut row = self.row(&request.id).await?;
        if let Some(quotas) = &request.quotas {
            set_quotas(&mut row, quotas);
        }
        if let Some(enabled) = request.enabled
            && enabled == row.disabled_at.is_some()
        {
            row.disabled_at = (!enabled).then(now_micros);
        }
        if let Some(root) = &request.root {
            row.root = self.checked_root(&row.name, Some(root)).await?;
        }
        if let Some(url) = request.store_url {
            row.store_url = Some(url);
            let place = location(&self.engine.settings.store, &row)?;
            // A mistyped location must not become an empty store.
            if is_empty(&place).await? {
                return Err(EngineError::Conflict {
                    message: format!("cannot move tenant `{}` to {place}: there is no store", row.name),
                    hint: "move the database there first".into(),
                });
            }
            let store =
                Store::open_configured(&place, Migrate::ToLatest, &self.engine.store_options.for_tenant())
                    .await?;
            let owner = check_owner(&store, &row.name).await;
            store.close().await;
            owner?;
        }
        let store = self.engine.store().await?;
        store.tenants().update(&row).await?;
        let body = json!({"enabled": row.disabled_at.is_none(), "quotas": quotas(&row), "root": row.root});
        store
            .journal()
            .append(Event::now("tenant.changed", &row.name, body))
            .await?;
        let used = store.tenants().usage(&row.name, today_micros()).await?;
        self.describe(row, used.first())
    }

    /// Removes a tenant and its tokens from the registry. Its store stays, unless `delete_store` is set and the store is
    /// next to the main one.
    pub async fn delete(self, name: &str, delete_store: bool) -> Result<DeletedTenant, EngineError> {
        self.main("delete a tenant")?;
        let row = self.row(name).await?;
        let place = location(&self.engine.settings.store, &row)?;
        if delete_store && row.store_url.is_some() {
            return Err(EngineError::Conflict {
                message: format!("cannot delete {place}: satiety did not create it"),
                hint: "delete the tenant and keep the store, then drop the database yourself".into(),
            });
        }
        let store = self.engine.store().await?;
        // First out of the registry, so that no server opens the store again.
        store.tenants().remove(name).await?;
        let store_deleted = delete_store && drop_database(&self.engine.settings.store, &place).await?;
        let body = json!({"store": place.to_string(), "store_deleted": store_deleted});
        store
            .journal()
            .append(Event::now("tenant.deleted", name, body))
            .await?;
        Ok(DeletedTenant {
            name: name.to_owned(),
            store: place.to_string(),
            store_deleted,
        })
    }

    /// Sends what these meters counted to the registry, and takes over totals and quotas. Returns the names of the
    /// tenants whose engines are to be closed: they are disabled, no longer registered, or have another store or
    /// directory than they were opened with.
    pub async fn synchronize(self, meters: &[Arc<TenantMeter>]) -> Result<Vec<String>, EngineError> {
        self.main("synchronize the usage of tenants")?;
        let registry = self.engine.store().await?.tenants();
        let rows = registry.list().await?;
        let number = |count| i64::try_from(count).unwrap_or(i64::MAX);
        let mut gone = Vec::new();
        for meter in meters {
            let Some(row) = rows.iter().find(|row| meter.is_of(row)) else {
                gone.push(meter.name().to_owned());
                continue;
            };
            if row.disabled_at.is_some() || !meter.is_in_place(row) {
                gone.push(row.name.clone());
            }
            meter.set_quotas(row);
            let _sending = meter.sending().await;
            for (day, counts) in meter.unsent() {
                let (requests, tokens) = (number(counts.requests), number(counts.tokens));
                let day_of_row = day_micros(day);
                registry
                    .add_usage(meter.name(), day_of_row, requests, tokens)
                    .await?;
                meter.settle(day, counts);
            }
        }
        let day = today();
        let used = registry.usage_on(day_micros(day)).await?;
        for meter in meters {
            let row = used.iter().find(|row| row.tenant == meter.name());
            let used = row.map(usage).unwrap_or_default();
            meter.set_total(
                day,
                Counts {
                    requests: used.requests,
                    tokens: used.model_tokens,
                },
            );
        }
        Ok(gone)
    }

    fn describe(self, row: TenantRow, used: Option<&UsageRow>) -> Result<Tenant, EngineError> {
        let place = location(&self.engine.settings.store, &row)?;
        Ok(Tenant {
            enabled: row.disabled_at.is_none(),
            created_at: crate::time(row.created_at),
            disabled_at: row.disabled_at.map(crate::time),
            store: place.to_string(),
            quotas: quotas(&row),
            usage: used.map(usage).unwrap_or_default(),
            name: row.name,
            root: row.root,
        })
    }
}

/// Whether there is no store at a location yet.
async fn is_empty(place: &StoreUrl) -> Result<bool, EngineError> {
    match Store::open_with(place, Migrate::Never).await {
        Err(StoreError::NoStore { .. }) => Ok(true),
        Err(error) => Err(error.into()),
        Ok(store) => {
            let version = store.status().await.map(|status| status.schema_version);
            store.close().await;
            Ok(version? == 0)
        }
    }
}

fn usage(row: &UsageRow) -> TenantUsage {
    let number = |value: i64| u64::try_from(value).unwrap_or(0);
    TenantUsage {
        requests: number(row.requests),
        model_tokens: number(row.model_tokens),
        storage_bytes: row.storage_bytes.map(number),
    }
}

fn set_quotas(row: &mut TenantRow, quotas: &Quotas) {
    let number = |value: Option<u64>| value.map(|value| i64::try_from(value).unwrap_or(i64::MAX));
    row.requests_per_minute = number(quotas.requests_per_minute);
    row.requests_per_day = number(quotas.requests_per_day);
    row.model_tokens_per_day = number(quotas.model_tokens_per_day);
    row.storage_bytes = number(quotas.storage_bytes);
}
