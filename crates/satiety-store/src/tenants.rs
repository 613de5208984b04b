//! Tenants: the registry in the main store, their daily usage, and the mark that says whose store a store is.
//!
//! A tenant has a database of its own, so that no query can reach the rows of another. This module creates and drops
//! such databases; the rows of a tenant are in its own [`Store`].

use crate::pool::in_transaction;
use crate::sql::{Row, columns, sql};
use crate::{Store, StoreError, StoreUrl};

/// A registered tenant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TenantRow {
    pub name: String,
    /// URL of its store without a password; `None` if it is derived from the main store.
    pub store_url: Option<String>,
    /// Directory that paths in its requests are confined to.
    pub root: Option<String>,
    pub requests_per_minute: Option<i64>,
    pub requests_per_day: Option<i64>,
    pub model_tokens_per_day: Option<i64>,
    pub storage_bytes: Option<i64>,
    /// Time in microseconds since the Unix epoch.
    pub created_at: i64,
    pub disabled_at: Option<i64>,
}

/// Usage of a tenant on one day.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UsageRow {
    pub tenant: String,
    /// Start of the day in microseconds since the Unix epoch.
    pub day: i64,
    pub requests: i64,
    pub model_tokens: i64,
    /// Size of the tenant's store when it was last measured on that day.
    pub storage_bytes: Option<i64>,
}

/// The registry of tenants: [`Store::tenants`].
#[derive(Debug, Clone, Copy)]
pub struct Tenants<'s>(pub(crate) &'s Store);

const COLUMNS: &str = "name, store_url, root, requests_per_minute, requests_per_day, model_tokens_per_day, \
                       storage_bytes, created_at, disabled_at";

impl Tenants<'_> {
    /// Registers a tenant; returns false if the name is taken. Tokens and usage of an earlier tenant with the name, such
    /// as a token that was created while it was removed, do not become those of the new one.
    pub async fn add(self, tenant: &TenantRow) -> Result<bool, StoreError> {
        in_transaction!(&self.0.pool, |connection| {
            let insert = format!(
                "INSERT INTO tenants ({COLUMNS}) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)
                 ON CONFLICT (name) DO NOTHING"
            );
            let insert = sql!(
                insert; &tenant.name, &tenant.store_url, &tenant.root, tenant.requests_per_minute,
                tenant.requests_per_day, tenant.model_tokens_per_day, tenant.storage_bytes, tenant.created_at,
                tenant.disabled_at
            );
            let is_new = connection.execute(insert).await? > 0;
            if is_new {
                let tokens = sql!("DELETE FROM api_tokens WHERE tenant = $1"; &tenant.name);
                connection.execute(tokens).await?;
                let usage = sql!("DELETE FROM tenant_usage WHERE tenant = $1"; &tenant.name);
                connection.execute(usage).await?;
            }
            is_new
        })
    }

    /// Replaces a tenant's location, root, quotas and state; returns false if it is not registered.
    pub async fn update(self, tenant: &TenantRow) -> Result<bool, StoreError> {
        let update = sql!(
            "UPDATE tenants SET store_url = $2, root = $3, requests_per_minute = $4, requests_per_day = $5,
                 model_tokens_per_day = $6, storage_bytes = $7, disabled_at = $8
             WHERE name = $1";
            &tenant.name, &tenant.store_url, &tenant.root, tenant.requests_per_minute, tenant.requests_per_day,
            tenant.model_tokens_per_day, tenant.storage_bytes, tenant.disabled_at
        );
        Ok(self.0.pool.execute(update).await? > 0)
    }

    /// Removes a tenant from the registry, with its tokens and its usage; its store stays.
    pub async fn remove(self, name: &str) -> Result<bool, StoreError> {
        in_transaction!(&self.0.pool, |connection| {
            let tokens = sql!("DELETE FROM api_tokens WHERE tenant = $1"; name);
            connection.execute(tokens).await?;
            let usage = sql!("DELETE FROM tenant_usage WHERE tenant = $1"; name);
            connection.execute(usage).await?;
            let tenant = sql!("DELETE FROM tenants WHERE name = $1"; name);
            connection.execute(tenant).await? > 0
        })
    }

    pub async fn get(self, name: &str) -> Result<Option<TenantRow>, StoreError> {
        let select = format!("SELECT {COLUMNS} FROM tenants WHERE name = $1");
        let row = self.0.pool.row(sql!(select; name)).await?;
        row.as_ref().map(tenant).transpose()
    }

    /// Lists all tenants by name.
    pub async fn list(self) -> Result<Vec<TenantRow>, StoreError> {
        let select = format!("SELECT {COLUMNS} FROM tenants ORDER BY name");
        let rows = self.0.pool.rows(sql!(select)).await?;
        rows.iter().map(tenant).collect()
    }

    /// Adds to the usage of a day.
    pub async fn add_usage(
        self,
        tenant: &str,
        day: i64,
        requests: i64,
        model_tokens: i64,
    ) -> Result<(), StoreError> {
        let insert = sql!(
            "INSERT INTO tenant_usage (tenant, day, requests, model_tokens, storage_bytes)
             VALUES ($1, $2, $3, $4, NULL)
             ON CONFLICT (tenant, day) DO UPDATE SET requests = tenant_usage.requests + excluded.requests,
                 model_tokens = tenant_usage.model_tokens + excluded.model_tokens";
            tenant, day, requests, model_tokens
        );
        self.0.pool.execute(insert).await?;
        Ok(())
    }

    /// Sets the measured size of a tenant's store.
    pub async fn set_storage(self, tenant: &str, day: i64, bytes: i64) -> Result<(), StoreError> {
        let insert = sql!(
            "INSERT INTO tenant_usage (tenant, day, requests, model_tokens, storage_bytes)
             VALUES ($1, $2, 0, 0, $3)
             ON CONFLICT (tenant, day) DO UPDATE SET storage_bytes = excluded.storage_bytes";
            tenant, day, bytes
        );
        self.0.pool.execute(insert).await?;
        Ok(())
    }

    /// Returns the usage of a tenant since a day, newest day first.
    pub async fn usage(self, tenant: &str, since: i64) -> Result<Vec<UsageRow>, StoreError> {
        let select = sql!(
            "SELECT tenant, day, requests, model_tokens, storage_bytes FROM tenant_usage
             WHERE tenant = $1 AND day >= $2 ORDER BY day DESC LIMIT 1000";
            tenant, since
        );
        let rows = self.0.pool.rows(select).await?;
        rows.iter().map(usage).collect()
    }

    /// Returns the usage of all tenants on a day.
    pub async fn usage_on(self, day: i64) -> Result<Vec<UsageRow>, StoreError> {
        let select = sql!(
            "SELECT tenant, day, requests, model_tokens, storage_bytes FROM tenant_usage
             WHERE day = $1 ORDER BY tenant";
            day
        );
        let rows = self.0.pool.rows(select).await?;
        rows.iter().map(usage).collect()
    }
}

fn tenant(row: &Row) -> Result<TenantRow, StoreError> {
    Ok(columns!(row => TenantRow {
        name, store_url, root, requests_per_minute, requests_per_day, model_tokens_per_day, storage_bytes, created_at,
        disabled_at
    }))
}

fn usage(row: &Row) -> Result<UsageRow, StoreError> {
    Ok(columns!(row => UsageRow { tenant, day, requests, model_tokens, storage_bytes }))
}

impl Store {
    /// Tenant that this store belongs to; `None` for a main store.
    pub async fn owner(&self) -> Result<Option<String>, StoreError> {
        let row = self
            .pool
            .row(sql!("SELECT tenant FROM satiety_owner WHERE id = 1"))
            .await?;
        row.map(|row| row.get(0)).transpose()
    }

    /// Marks this store as the store of a tenant, unless it already belongs to one; returns the owner.
    pub async fn claim(&self, tenant: &str) -> Result<String, StoreError> {
        let insert = sql!(
            "INSERT INTO satiety_owner (id, tenant) VALUES (1, $1) ON CONFLICT (id) DO NOTHING";
            tenant
        );
        self.pool.execute(insert).await?;
        Ok(self.owner().await?.unwrap_or_else(|| tenant.to_owned()))
    }

    /// Marks this store as the store of a tenant, even if it is owned by another.
    pub async fn transfer_ownership(&self, tenant: &str) -> Result<(), StoreError> {
        let update = sql!("UPDATE satiety_owner SET tenant = $1 WHERE id = 1"; tenant);
        if self.pool.execute(update).await? == 0 {
            self.claim(tenant).await?;
        }
        Ok(())
    }

    /// Bytes that this store takes. On SQLite without the free pages, which the next rows reuse.
    pub async fn used_bytes(&self) -> Result<i64, StoreError> {
        let select = if self.pool.is_postgres() {
            "SELECT pg_database_size(current_database())"
        } else {
            "SELECT (page_count - freelist_count) * page_size
             FROM pragma_page_count(), pragma_freelist_count(), pragma_page_size()"
        };
        self.pool.one(sql!(select)).await?.get(0)
    }
}

/// Creates the database of a tenant. Returns false if it already exists. A SQLite file is created when it is opened.
pub async fn create_database(main: &StoreUrl, tenant: &StoreUrl) -> Result<bool, StoreError> {
    match tenant {
        StoreUrl::Sqlite(path) => Ok(!path.exists()),
        #[cfg(feature = "postgres")]
        StoreUrl::Postgres { options, .. } => {
            let name = postgres::quoted(options);
            postgres::run(main, &format!("CREATE DATABASE {name}"), "42P04").await
        }
    }
}

/// Drops the database of a tenant, or removes its files. Returns false if it does not exist.
pub async fn drop_database(main: &StoreUrl, tenant: &StoreUrl) -> Result<bool, StoreError> {
    match tenant {
        StoreUrl::Sqlite(path) => {
            let Some(name) = path.file_name().map(std::ffi::OsStr::to_owned) else {
                return Ok(false);
            };
            let failed = |cause: std::io::Error| StoreError::File {
                action: "cannot remove",
                path: path.clone(),
                cause: std::sync::Arc::new(cause),
            };
            let existed = path.exists();
            let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
            let folder = folder.unwrap_or(std::path::Path::new("."));
            // Next to the file are its write-ahead log and what is derived from it: `NAME-wal`, `NAME.index-…`.
            for entry in fs_err::read_dir(folder).map_err(failed)? {
                let entry = entry.map_err(failed)?;
                let own = entry.file_name();
                let rest = own
                    .as_encoded_bytes()
                    .strip_prefix(name.as_encoded_bytes())
                    .map(<[u8]>::to_vec);
                if rest.is_some_and(|rest| rest.is_empty() || matches!(rest[0], b'-' | b'.')) {
                    fs_err::remove_file(entry.path()).map_err(failed)?;
                }
            }
            Ok(existed)
        }
        #[cfg(feature = "postgres")]
        StoreUrl::Postgres { options, .. } => {
            let name = postgres::quoted(options);
            // FORCE ends the connections of servers that have not noticed yet.
            postgres::run(main, &format!("DROP DATABASE {name} WITH (FORCE)"), "3D000").await
        }
    }
}

#[cfg(feature = "postgres")]
mod postgres {
    use sqlx::postgres::PgConnectOptions;
    use sqlx::{Connection as _, PgConnection};

    use crate::error::classify;
    use crate::{StoreError, StoreUrl};

    /// Name of the database as an identifier.
    pub(super) fn quoted(options: &PgConnectOptions) -> String {
        let name = options.get_database().unwrap_or_default();
        format!("\"{}\"", name.replace('"', "\"\""))
    }

    /// Runs a statement outside of a transaction; false if it fails with the code for "already done".
    pub(super) async fn run(main: &StoreUrl, statement: &str, done: &str) -> Result<bool, StoreError> {
        let StoreUrl::Postgres { options, .. } = main else {
            return Err(StoreError::InvalidUrl {
                url: main.to_string(),
                reason: "the main store is not on PostgreSQL, so that it cannot create a database there"
                    .into(),
            });
        };
        let place = main.to_string();
        let failed = |error| classify(&place, error);
        let mut connection = PgConnection::connect_with(options).await.map_err(failed)?;
        let outcome = sqlx::raw_sql(sqlx::AssertSqlSafe(statement))
            .execute(&mut connection)
            .await;
        let _ = connection.close().await;
        match outcome {
            Ok(_) => Ok(true),
            Err(sqlx::Error::Database(error)) if error.code().as_deref() == Some(done) => Ok(false),
            Err(error) => Err(classify(&place, error)),
        }
    }
}
