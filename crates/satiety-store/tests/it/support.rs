//! New databases for tests, on either engine.

use satiety_store::{Store, StoreUrl};
use xtask::postgres::{PASSWORD, USER};

/// A separate database for one test, removed on drop.
pub(crate) struct Fixture {
    pub(crate) url: StoreUrl,
    pub(crate) url_text: String,
    pub(crate) folder: tempfile::TempDir,
}

impl Fixture {
    pub(crate) fn sqlite() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let url_text = format!("sqlite:{}", folder.path().join("store.db").display());
        Self {
            url: url_text.parse().unwrap(),
            url_text,
            folder,
        }
    }

    /// A new database on the server that `cargo xtask test` started; `None` without one.
    pub(crate) async fn postgres() -> Option<Self> {
        let Ok(server) = std::env::var("SATIETY_TEST_POSTGRES") else {
            println!(
                "skipped: SATIETY_TEST_POSTGRES is not set; `cargo xtask test` starts a server and sets it"
            );
            return None;
        };
        let name = format!("t{}", uuid::Uuid::now_v7().simple());
        let pool = sqlx::PgPool::connect(&server).await.unwrap();
        // Without a prepared statement: the server may be behind a pooler.
        sqlx::raw_sql(sqlx::AssertSqlSafe(format!("CREATE DATABASE {name}")))
            .execute(&pool)
            .await
            .unwrap();
        pool.close().await;
        let (base, _) = server.rsplit_once('/').unwrap();
        assert!(base.contains(&format!("{USER}:{PASSWORD}@")));
        let url_text = format!("{base}/{name}");
        Some(Self {
            url: url_text.parse().unwrap(),
            url_text,
            folder: tempfile::tempdir().unwrap(),
        })
    }

    pub(crate) async fn open(&self) -> Store {
        Store::open(&self.url).await.unwrap()
    }
}

/// Defines a test that runs on SQLite and on PostgreSQL with the same body.
macro_rules! on_both_engines {
    ($(#[$attribute:meta])* async fn $name:ident($fixture:ident: Fixture) $body:block) => {
        mod $name {
            use super::*;

            async fn check($fixture: crate::support::Fixture) $body

            $(#[$attribute])*
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn on_sqlite() {
                check(crate::support::Fixture::sqlite()).await;
            }

            $(#[$attribute])*
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn on_postgres() {
                if let Some(fixture) = crate::support::Fixture::postgres().await {
                    check(fixture).await;
                }
            }
        }
    };
}
pub(crate) use on_both_engines;
