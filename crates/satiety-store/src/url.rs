//! Store URLs: engine and location, printed without the password.

use std::path::{Path, PathBuf};
use std::str::FromStr;

#[cfg(feature = "postgres")]
use sqlx::postgres::PgConnectOptions;

use crate::StoreError;

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
            let options = PgConnectOptions::from_str(text)
                // Drop the driver's message: it may quote the URL with the password.
                .map_err(|_| invalid("not a valid PostgreSQL connection URL".into()))?;
            #[cfg(feature = "postgres")]
            return Ok(Self::Postgres {
                options: Box::new(options),
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
