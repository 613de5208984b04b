//! Store URLs: engine and location, printed without the password.

use std::path::{Path, PathBuf};
use std::str::FromStr;

#[cfg(feature = "postgres")]
use sqlx::postgres::PgConnectOptions;

use crate::StoreError;
#[cfg(feature = "postgres")]
use crate::pool::postgres::Pooling;

/// Engine and location of a store.
#[derive(Clone)]
pub enum StoreUrl {
    /// A SQLite file: `sqlite:PATH`.
    Sqlite(PathBuf),
    /// A PostgreSQL database: `postgres://user:password@host:port/database?sslmode=…`.
    #[cfg(feature = "postgres")]
    Postgres {
        /// Connection options of the driver, including the password.
        options: Box<PgConnectOptions>,
        /// How a pooler in between assigns connections: `pooling=auto|session|transaction`.
        pooling: Pooling,
        /// URL with the password masked.
        shown: String,
    },
}

impl StoreUrl {
    /// Creates the URL of a SQLite file.
    pub fn sqlite(path: impl AsRef<Path>) -> Self {
        Self::Sqlite(path.as_ref().to_path_buf())
    }

    /// Returns the name of the engine: `sqlite` or `postgres`.
    pub fn engine(&self) -> &'static str {
        match self {
            Self::Sqlite(_) => "sqlite",
            #[cfg(feature = "postgres")]
            Self::Postgres { .. } => "postgres",
        }
    }
}

/// Maximum length of the name of a PostgreSQL database in bytes.
#[cfg(feature = "postgres")]
const MAX_DATABASE_NAME: usize = 63;

impl StoreUrl {
    /// Returns the location of a tenant's store next to this one: the file `NAME_t_TENANT.db`, or the database
    /// `NAME_t_TENANT` on the same server.
    pub fn for_tenant(&self, tenant: &str) -> Result<Self, StoreError> {
        match self {
            Self::Sqlite(path) => {
                let stem = path.file_stem().unwrap_or_default().to_string_lossy();
                // Always with an extension: `store_t_acme-wal` could be a tenant or the log of `store_t_acme`.
                let extension = path.extension().map(|extension| extension.to_string_lossy());
                let extension = extension.as_deref().unwrap_or("db");
                let name = format!("{stem}_t_{tenant}.{extension}");
                Ok(Self::Sqlite(path.with_file_name(name)))
            }
            #[cfg(feature = "postgres")]
            Self::Postgres {
                options,
                shown,
                pooling,
            } => {
                // Without a name, the server takes the database that is named like the user.
                let own = options.get_database().unwrap_or_else(|| options.get_username());
                let database = format!("{own}_t_{tenant}");
                if database.len() > MAX_DATABASE_NAME {
                    return Err(StoreError::InvalidUrl {
                        url: shown.clone(),
                        reason: format!("the database name `{database}` exceeds {MAX_DATABASE_NAME} bytes"),
                    });
                }
                Ok(Self::Postgres {
                    options: Box::new(options.as_ref().clone().database(&database)),
                    shown: with_database(shown, &database),
                    pooling: *pooling,
                })
            }
        }
    }

    /// Reads the URL of a tenant's store, which has no password: it has the one of this store if server and user are
    /// the same, otherwise the driver takes it from the environment or the password file.
    pub fn read_for_tenant(&self, text: &str) -> Result<Self, StoreError> {
        let url: Self = text.parse()?;
        if mask_password(text) != text {
            return Err(StoreError::InvalidUrl {
                url: mask_password(text),
                reason: "the URL of a tenant's store must not have a password".into(),
            });
        }
        #[cfg(feature = "postgres")]
        if let (
            Self::Postgres { options: main, .. },
            Self::Postgres {
                options,
                shown,
                pooling,
            },
        ) = (self, &url)
            && (main.get_host(), main.get_port(), main.get_username())
                == (options.get_host(), options.get_port(), options.get_username())
            && let Some(database) = options.get_database()
        {
            return Ok(Self::Postgres {
                options: Box::new(main.as_ref().clone().database(database)),
                shown: shown.clone(),
                pooling: *pooling,
            });
        }
        Ok(url)
    }
}

/// Replaces the database of a masked URL.
#[cfg(feature = "postgres")]
fn with_database(shown: &str, database: &str) -> String {
    let (base, query) = shown
        .split_once('?')
        .map_or((shown, None), |(base, query)| (base, Some(query)));
    let (scheme, rest) = base.split_once("://").unwrap_or(("postgres", base));
    let authority = rest.split('/').next().unwrap_or_default();
    let query: Vec<&str> = query
        .into_iter()
        .flat_map(|query| query.split('&'))
        .filter(|parameter| !parameter.starts_with("dbname="))
        .collect();
    let query = if query.is_empty() {
        String::new()
    } else {
        format!("?{}", query.join("&"))
    };
    format!("{scheme}://{authority}/{database}{query}")
}

impl FromStr for StoreUrl {
    type Err = StoreError;

    fn from_str(text: &str) -> Result<Self, StoreError> {
        let invalid = |reason: String| StoreError::InvalidUrl {
            url: mask_password(text),
            reason,
        };
        if let Some(path) = text.strip_prefix("sqlite:") {
            let path = path.strip_prefix("//").unwrap_or(path);
            if path.is_empty() {
                return Err(invalid("missing file path".into()));
            }
            if path == ":memory:" {
                return Err(invalid(
                    "an in-memory store would lose all data when the command ends".into(),
                ));
            }
            return Ok(Self::Sqlite(PathBuf::from(path)));
        }
        if text.starts_with("postgres://") || text.starts_with("postgresql://") {
            #[cfg(not(feature = "postgres"))]
            return Err(StoreError::UnsupportedEngine {
                url: mask_password(text),
            });
            #[cfg(feature = "postgres")]
            let (driver_url, pooling) = split_pooling(text);
            #[cfg(feature = "postgres")]
            let pooling = pooling.map_or(Ok(Pooling::Auto), |value| value.parse().map_err(invalid))?;
            #[cfg(feature = "postgres")]
            let options = PgConnectOptions::from_str(&driver_url)
                // Drop the driver's message: it may quote the URL with the password.
                .map_err(|_| invalid("not a valid PostgreSQL connection URL".into()))?;
            #[cfg(feature = "postgres")]
            return Ok(Self::Postgres {
                options: Box::new(options),
                pooling,
                shown: mask_password(text),
            });
        }
        Err(invalid(match text.split_once(':') {
            Some((scheme, _)) if scheme.chars().all(|c| c.is_ascii_alphanumeric()) && scheme.len() > 1 => {
                format!("unknown engine `{scheme}` (expected one of: sqlite, postgres)")
            }
            _ => "missing engine (expected sqlite: or postgres://)".into(),
        }))
    }
}

/// Returns the URL without the parameter `pooling`, which the driver does not know, and its value.
#[cfg(feature = "postgres")]
fn split_pooling(url: &str) -> (String, Option<&str>) {
    let Some((base, query)) = url.split_once('?') else {
        return (url.to_owned(), None);
    };
    let own = |parameter: &&str| parameter.starts_with("pooling=");
    let pooling = query
        .split('&')
        .find(own)
        .and_then(|parameter| parameter.strip_prefix("pooling="));
    let rest: Vec<&str> = query.split('&').filter(|parameter| !own(parameter)).collect();
    let separator = if rest.is_empty() { "" } else { "?" };
    (format!("{base}{separator}{}", rest.join("&")), pooling)
}

impl std::fmt::Display for StoreUrl {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Sqlite(path) => write!(f, "sqlite:{}", path.display()),
            #[cfg(feature = "postgres")]
            Self::Postgres { shown, .. } => f.write_str(shown),
        }
    }
}

impl std::fmt::Debug for StoreUrl {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Display::fmt(self, f)
    }
}

/// Masks the password of a URL, both in `user:password@host` and in a `password=` parameter.
fn mask_password(url: &str) -> String {
    let (base, query) = url
        .split_once('?')
        .map_or((url, None), |(base, query)| (base, Some(query)));
    let mut masked = match base.split_once("://") {
        Some((scheme, rest)) => {
            // Use the last `@`: an unescaped one may be part of the password.
            let authority_end = rest.find('/').unwrap_or(rest.len());
            match rest[..authority_end].rfind('@').or_else(|| rest.rfind('@')) {
                Some(at) => match rest[..at].split_once(':') {
                    Some((user, _)) => format!("{scheme}://{user}:***{}", &rest[at..]),
                    None => base.to_owned(),
                },
                None => base.to_owned(),
            }
        }
        None => base.to_owned(),
    };
    if let Some(query) = query {
        let parameters: Vec<String> = query
            .split('&')
            .map(|parameter| match parameter.split_once('=') {
                Some((name, _)) if name.eq_ignore_ascii_case("password") => format!("{name}=***"),
                _ => parameter.to_owned(),
            })
            .collect();
        masked.push('?');
        masked.push_str(&parameters.join("&"));
    }
    masked
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(feature = "postgres")]
    fn engines_by_scheme() {
        for (text, engine, shown) in [
            ("sqlite:a.db", "sqlite", "sqlite:a.db"),
            ("sqlite:///var/lib/a.db", "sqlite", "sqlite:/var/lib/a.db"),
            (
                "postgres://u:secret@h:5432/d",
                "postgres",
                "postgres://u:***@h:5432/d",
            ),
            (
                "postgresql://u@h/d?password=secret&sslmode=require",
                "postgres",
                "postgresql://u@h/d?password=***&sslmode=require",
            ),
            ("postgres://u:p%40ss@h/d", "postgres", "postgres://u:***@h/d"),
        ] {
            let url: StoreUrl = text.parse().unwrap();
            assert_eq!(
                (url.engine(), url.to_string().as_str()),
                (engine, shown),
                "{text}"
            );
            assert!(!format!("{url:?}").contains("secret"), "{text}");
        }
    }

    #[test]
    #[cfg(not(feature = "postgres"))]
    fn a_build_without_postgres_says_so() {
        let error = "postgres://u:secret@h/d".parse::<StoreUrl>().unwrap_err();
        assert_eq!(
            error.to_string(),
            "cannot open postgres://u:***@h/d: this build has no PostgreSQL support"
        );
        assert!(error.hint().unwrap().action().contains("--features postgres"));
    }

    #[test]
    fn a_tenant_has_a_file_next_to_the_main_one() {
        let main: StoreUrl = "sqlite:/var/lib/satiety.db".parse().unwrap();
        let tenant = main.for_tenant("acme").unwrap();
        assert_eq!(tenant.to_string(), "sqlite:/var/lib/satiety_t_acme.db");
        let bare: StoreUrl = "sqlite:store".parse().unwrap();
        assert_eq!(
            bare.for_tenant("acme").unwrap().to_string(),
            "sqlite:store_t_acme.db"
        );
    }

    #[test]
    #[cfg(feature = "postgres")]
    fn a_tenant_has_a_database_on_the_same_server() {
        for (main, shown) in [
            (
                "postgres://u:secret@h:5432/d?sslmode=disable",
                "postgres://u:***@h:5432/d_t_acme?sslmode=disable",
            ),
            ("postgres://u@h?dbname=d", "postgres://u@h/d_t_acme"),
            ("postgres://u@h", "postgres://u@h/u_t_acme"),
        ] {
            let main: StoreUrl = main.parse().unwrap();
            assert_eq!(main.for_tenant("acme").unwrap().to_string(), shown);
        }
        let long: StoreUrl = format!("postgres://u@h/{}", "d".repeat(60)).parse().unwrap();
        assert!(long.for_tenant("acme").is_err());
    }

    #[test]
    #[cfg(feature = "postgres")]
    fn the_url_of_a_tenant_has_no_password() {
        let main: StoreUrl = "postgres://u:secret@h:5432/d".parse().unwrap();
        let error = main
            .read_for_tenant("postgres://u:other@h/t")
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("must not have a password") && !error.contains("other"),
            "{error}"
        );
        assert!(main.read_for_tenant("postgres://u@h:5432/t").is_ok());
        assert!(main.read_for_tenant("sqlite:t.db").is_ok());
    }

    #[test]
    #[cfg(feature = "postgres")]
    fn invalid_urls_are_rejected_without_the_password() {
        for (text, reason) in [
            ("", "missing engine (expected sqlite: or postgres://)"),
            ("notes.db", "missing engine (expected sqlite: or postgres://)"),
            ("sqlite:", "missing file path"),
            (
                "sqlite::memory:",
                "an in-memory store would lose all data when the command ends",
            ),
            (
                "mysql://u:secret@h/d",
                "unknown engine `mysql` (expected one of: sqlite, postgres)",
            ),
            (
                "postgres://u:secret@h:notaport/d",
                "not a valid PostgreSQL connection URL",
            ),
        ] {
            let error = text.parse::<StoreUrl>().unwrap_err();
            assert!(error.to_string().contains(reason), "{text}: {error}");
            assert!(!error.to_string().contains("secret"), "{text}: {error}");
        }
    }
}
