//! Tenants: groups of users that share a server and nothing else. A tenant has a store of its own, so that every query,
//! index, cache, export and retention rule sees only its rows, by construction.
//!
//! The main store has the registry: names, locations, quotas and tokens. [`Engine::tenant`] makes the engine of a tenant,
//! which shares the models, the settings and the CPU pool with the main engine and has everything else for itself.

mod meter;
mod model_usage;
mod registry;

use std::path::PathBuf;
use std::sync::Arc;

use satiety_store::tenants::TenantRow;
use satiety_store::{Store, StoreUrl};
use tokio::sync::OnceCell;

pub use meter::TenantMeter;
pub(crate) use model_usage::{CountingChat, SharedEmbedder};
pub use registry::{
    CreateTenantRequest, DailyUsage, DeletedTenant, Tenant, TenantList, TenantReport, TenantUsage,
    UpdateTenantRequest,
};

use crate::{Engine, EngineError, HookSettings, Settings};

/// What makes an engine the engine of a tenant.
#[derive(Debug)]
pub(crate) struct Tenancy {
    pub(crate) name: String,
    /// Engine of the registry.
    pub(crate) main: Arc<Engine>,
    pub(crate) meter: Arc<TenantMeter>,
    /// Directory that paths in requests are confined to.
    pub(crate) root: Option<PathBuf>,
}

/// A name is also a part of a file name, of a database name and of a label: lower-case letters, digits and hyphens.
pub(crate) fn check_name(name: &str) -> Result<(), EngineError> {
    let allowed = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    let is_valid = (1..=40).contains(&name.len())
        && name.bytes().all(allowed)
        && !name.starts_with('-')
        && !name.ends_with('-');
    if is_valid {
        return Ok(());
    }
    Err(EngineError::Unacceptable {
        what: format!("`{}` as the name of a tenant", name.escape_debug()),
        hint: "use 1 to 40 lower-case letters, digits and hyphens, such as `acme`".into(),
    })
}

/// Location of a tenant's store.
pub(crate) fn location(main: &StoreUrl, row: &TenantRow) -> Result<StoreUrl, EngineError> {
    Ok(match &row.store_url {
        Some(url) => main.read_for_tenant(url)?,
        None => main.for_tenant(&row.name)?,
    })
}

impl Engine {
    /// Returns the engine of a tenant. Its store is opened on first use.
    pub async fn tenant(self: &Arc<Self>, name: &str) -> Result<Self, EngineError> {
        if self.tenant.is_some() {
            return Err(EngineError::OnlyMain {
                what: "open the store of a tenant",
            });
        }
        let row = self.tenants().row(name).await?;
        let meter = Arc::new(TenantMeter::new(&row));
        self.tenants().synchronize(std::slice::from_ref(&meter)).await?;
        self.for_tenant(&row, meter)
    }

    /// Copies the settings, and shares what holds no rows of any tenant.
    fn for_tenant(self: &Arc<Self>, row: &TenantRow, meter: Arc<TenantMeter>) -> Result<Self, EngineError> {
        let settings = Settings {
            store: location(&self.settings.store, row)?,
            archive_folder: self.settings.archive_folder.join("tenants").join(&row.name),
            ..self.settings.clone()
        };
        let mut engine = Self::new(settings)
            .with_experiments(self.ab.settings)
            .with_sandbox(self.sandbox)
            // Alerts and the harness belong to the operator, not to the tenant.
            .with_hooks(HookSettings::default())
            .with_eviction(self.eviction.settings.clone())
            .with_memory(crate::memory::MemorySettings {
                // The tenant's store is its memory scope.
                project: None,
                ..self.memory_settings.clone()
            })
            .with_store_options(self.store_options.for_tenant());
        engine.model_pool = self.model_pool;
        engine.model = Arc::clone(&self.model);
        engine.compute = Arc::clone(&self.compute);
        engine.tenant = Some(Tenancy {
            name: row.name.clone(),
            main: Arc::clone(self),
            meter,
            root: row.root.as_ref().map(PathBuf::from),
        });
        Ok(engine)
    }

    /// Name of the tenant that this engine belongs to; `None` for the main engine.
    pub fn tenant_name(&self) -> Option<&str> {
        self.tenant.as_ref().map(|tenant| tenant.name.as_str())
    }

    /// Usage and quotas of this engine's tenant.
    pub fn meter(&self) -> Option<&Arc<TenantMeter>> {
        self.tenant.as_ref().map(|tenant| &tenant.meter)
    }

    /// Directory of this engine's tenant for suites and notes.
    pub fn tenant_root(&self) -> Option<&PathBuf> {
        self.tenant.as_ref()?.root.as_ref()
    }

    /// Engine of the registry: this one, or the main engine of a tenant's.
    pub(crate) fn registry(&self) -> &Self {
        self.tenant.as_ref().map_or(self, |tenant| &tenant.main)
    }

    /// Checks that the tenant may store more; the main store has no quota.
    pub fn admit_storage(&self) -> Result<(), EngineError> {
        self.meter().map_or(Ok(()), |meter| meter.admit_storage())
    }

    /// Checks that models may still work for the tenant.
    pub(crate) fn admit_model_work(&self) -> Result<(), EngineError> {
        self.meter().map_or(Ok(()), |meter| meter.admit_model_work())
    }

    /// Measures the tenant's store and records its size.
    pub async fn measure_storage(&self) -> Result<(), EngineError> {
        let Some(tenant) = &self.tenant else {
            return Ok(());
        };
        let bytes = self.store().await?.used_bytes().await?;
        tenant.meter.set_storage(u64::try_from(bytes).unwrap_or(0));
        let registry = tenant.main.store().await?;
        registry
            .tenants()
            .set_storage(&tenant.name, meter::today_micros(), bytes)
            .await?;
        Ok(())
    }

    /// Closes the database if it was opened, and that of the registry.
    pub async fn close_with_registry(&self) {
        self.close().await;
        if let Some(tenant) = &self.tenant {
            Box::pin(tenant.main.close()).await;
        }
    }
}

impl Tenancy {
    /// Checks that an opened store is the tenant's; closes it otherwise.
    pub(crate) async fn check_store(&self, store: Store) -> Result<Store, EngineError> {
        let checked = check_owner(&store, &self.name).await;
        if let Err(error) = checked {
            store.close().await;
            return Err(error);
        }
        let bytes = store.used_bytes().await?;
        self.meter.set_storage(u64::try_from(bytes).unwrap_or(0));
        Ok(store)
    }
}

/// Fails if the store belongs to another tenant or is a main store: a mistyped URL, or a backup restored to the wrong
/// place, must not show the rows of somebody else.
pub(crate) async fn check_owner(store: &Store, name: &str) -> Result<(), EngineError> {
    if !store.tenants().list().await?.is_empty() {
        return Err(EngineError::Conflict {
            message: format!(
                "cannot use {} for tenant `{name}`: it is a main store with tenants",
                store.place()
            ),
            hint: "give the tenant a store of its own".into(),
        });
    }
    let owner = store.claim(name).await?;
    if owner == name {
        return Ok(());
    }
    Err(EngineError::Conflict {
        message: format!(
            "cannot use {} for tenant `{name}`: it is the store of tenant `{owner}`",
            store.place()
        ),
        hint: satiety::Hint::with_command(
            "correct the location; if the store shall change hands, register it as an existing one",
            format!("satiety tenant create {name} --existing"),
        ),
    })
}

/// The model of a process, opened once for all engines.
pub(crate) type SharedModel = Arc<OnceCell<Option<Arc<dyn satiety_models::Embedder>>>>;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_safe_everywhere() {
        for good in ["a", "acme", "team-7", &"x".repeat(40)] {
            assert!(check_name(good).is_ok(), "{good}");
        }
        for bad in [
            "",
            "-a",
            "a-",
            "A",
            "a_t_b",
            "a.b",
            "a/b",
            "../x",
            "a b",
            "ä",
            "a\"b",
            &"x".repeat(41),
        ] {
            assert!(check_name(bad).is_err(), "{bad}");
        }
    }
}
