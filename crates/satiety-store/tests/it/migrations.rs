//! Migrations from every earlier version to the newest, and refusals.

use satiety_store::journal::Event;
use satiety_store::{Migrate, SCHEMA_VERSION, Store, StoreError, migrations};
use serde_json::json;

use crate::support::on_both_engines;

on_both_engines! {
    async fn every_earlier_version_is_migrated_with_its_rows(fixture: Fixture) {
        // One database per start version: a fixture has one, so it goes through the versions in turn.
        for version in migrations().iter().map(|migration| migration.version) {
            let fixture = if fixture.url_text.starts_with("sqlite:") {
                crate::support::Fixture::sqlite()
            } else {
                crate::support::Fixture::postgres().await.unwrap()
            };
            let old = Store::open_with(&fixture.url, Migrate::UpTo(version)).await.unwrap();
            assert_eq!(old.status().await.unwrap().schema_version, version);
            old.journal().append(Event::now("test.event", "old", json!(version))).await.unwrap();
            old.records().put("old", "1", &json!({"from": version}), None).await.unwrap();
            old.close().await;
            let new = fixture.open().await;
            let status = new.status().await.unwrap();
            assert_eq!(status.schema_version, SCHEMA_VERSION);
            assert_eq!(status.tables.len(), satiety_store::TABLES.len());
            assert_eq!(new.journal().latest("test.event", 9).await.unwrap().len(), 1);
            assert_eq!(new.records().get("old").await.unwrap().unwrap().body, json!({"from": version}));
        }
    }
}

on_both_engines! {
    async fn a_newer_schema_is_refused_and_unchanged(fixture: Fixture) {
        fixture.open().await.close().await;
        let future = SCHEMA_VERSION + 7;
        let insert = format!("INSERT INTO satiety_schema VALUES ({future}, 'future', 'x', 0)");
        raw(&fixture.url_text, &insert).await;
        for migrate in [Migrate::ToLatest, Migrate::Never] {
            let error = Store::open_with(&fixture.url, migrate).await.unwrap_err();
            assert!(
                matches!(error, StoreError::NewerSchema { found, known, .. } if found == future && known == SCHEMA_VERSION),
                "{error}"
            );
        }
    }
}

on_both_engines! {
    async fn a_migration_that_differs_from_the_applied_one_is_refused(fixture: Fixture) {
        fixture.open().await.close().await;
        raw(&fixture.url_text, "UPDATE satiety_schema SET checksum = 'other' WHERE version = 1").await;
        let error = Store::open(&fixture.url).await.unwrap_err();
        assert!(matches!(error, StoreError::ForeignMigration { version: 1, .. }), "{error}");
    }
}

on_both_engines! {
    async fn ten_concurrent_openers_migrate_once(fixture: Fixture) {
        let openers: Vec<_> = (0..10)
            .map(|_| {
                let url = fixture.url.clone();
                tokio::spawn(async move { Store::open(&url).await.unwrap().status().await.unwrap().schema_version })
            })
            .collect();
        for opener in openers {
            assert_eq!(opener.await.unwrap(), SCHEMA_VERSION);
        }
        assert_eq!(fixture.open().await.retention().rules().await.unwrap().len(), 23);
    }
}

#[test]
fn there_is_a_migration_for_every_version() {
    assert_eq!(
        migrations().last().map(|migration| migration.version),
        Some(SCHEMA_VERSION)
    );
}

/// Runs SQL directly.
pub(crate) async fn raw(url: &str, sql: &str) {
    let sql = sqlx::AssertSqlSafe(sql.to_owned());
    if url.starts_with("sqlite:") {
        let pool = sqlx::SqlitePool::connect(url).await.unwrap();
        sqlx::raw_sql(sql).execute(&pool).await.unwrap();
        pool.close().await;
    } else {
        let pool = sqlx::PgPool::connect(url).await.unwrap();
        sqlx::raw_sql(sql).execute(&pool).await.unwrap();
        pool.close().await;
    }
}
