//! The registry of tenants, their usage, and the owner of a store.

use satiety_store::tenants::{TenantRow, Tenants, create_database, drop_database};
use satiety_store::tokens::TokenRow;
use satiety_store::{Migrate, Store, StoreOptions};

use crate::support::on_both_engines;

fn tenant(name: &str) -> TenantRow {
    TenantRow {
        name: name.into(),
        store_url: None,
        root: Some("/srv/\u{1F9A8}".into()),
        requests_per_minute: Some(1),
        requests_per_day: None,
        model_tokens_per_day: Some(i64::MAX),
        storage_bytes: Some(0),
        created_at: 7,
        disabled_at: None,
    }
}

/// Adds rows to the tables of this module.
pub(crate) async fn fill(store: &Store) {
    store.tenants().add(&tenant("acme")).await.unwrap();
    store
        .tenants()
        .add_usage("acme", 5, 2, i64::MAX / 2)
        .await
        .unwrap();
    store.tenants().set_storage("acme", 5, 100).await.unwrap();
}

on_both_engines! {
    async fn tenants_are_registered_changed_and_removed(fixture: Fixture) {
        let store = fixture.open().await;
        let registry = store.tenants();
        assert!(registry.add(&tenant("b")).await.unwrap());
        assert!(registry.add(&tenant("a")).await.unwrap());
        assert!(!registry.add(&tenant("a")).await.unwrap(), "the name is taken");
        let names: Vec<String> = registry.list().await.unwrap().into_iter().map(|row| row.name).collect();
        assert_eq!(names, ["a", "b"]);
        assert_eq!(registry.get("a").await.unwrap(), Some(tenant("a")));
        let changed = TenantRow { disabled_at: Some(9), requests_per_day: Some(3), ..tenant("a") };
        assert!(registry.update(&changed).await.unwrap());
        assert_eq!(registry.get("a").await.unwrap(), Some(changed));
        assert!(!registry.update(&tenant("none")).await.unwrap());
        let token = |id: &str, tenant: Option<&str>| TokenRow {
            token_id: id.into(), name: "x".into(), hash: "00".into(), scope: "read".into(), created_at: 1,
            expires_at: None, revoked_at: None, last_used_at: None, tenant: tenant.map(str::to_owned),
        };
        for (id, owner) in [("of-a", Some("a")), ("of-b", Some("b")), ("of-main", None), ("lost", Some("gone"))] {
            store.tokens().put(&token(id, owner)).await.unwrap();
        }
        let mut accepted = Vec::new();
        for id in ["of-a", "of-b", "of-main", "lost"] {
            if store.tokens().get_enabled(id).await.unwrap().is_some() {
                accepted.push(id);
            }
        }
        assert_eq!(accepted, ["of-b", "of-main"], "not of disabled and of removed tenants");
        registry.add_usage("b", 0, 1, 1).await.unwrap();
        assert!(registry.remove("b").await.unwrap());
        assert!(!registry.remove("b").await.unwrap());
        assert!(registry.usage("b", 0).await.unwrap().is_empty());
        assert!(store.tokens().get("of-b").await.unwrap().is_none());
        assert!(store.tokens().get("of-a").await.unwrap().is_some());
        assert!(registry.add(&tenant("gone")).await.unwrap());
        assert!(store.tokens().get("lost").await.unwrap().is_none(), "a new tenant has no tokens of an earlier one");
    }
}

on_both_engines! {
    async fn usage_adds_up_by_day(fixture: Fixture) {
        let store = fixture.open().await;
        let registry: Tenants<'_> = store.tenants();
        let adding = (0..20).map(|_| registry.add_usage("a", 5, 2, 3));
        for outcome in futures_util::future::join_all(adding).await {
            outcome.unwrap();
        }
        registry.set_storage("a", 5, 100).await.unwrap();
        registry.set_storage("a", 5, 90).await.unwrap();
        registry.add_usage("a", 6, 1, 0).await.unwrap();
        registry.add_usage("b", 5, 1, 0).await.unwrap();
        let of_a = registry.usage("a", 5).await.unwrap();
        assert_eq!(of_a.iter().map(|row| (row.day, row.requests, row.model_tokens, row.storage_bytes)).collect::<Vec<_>>(),
            [(6, 1, 0, None), (5, 40, 60, Some(90))]);
        let on_five: Vec<String> = registry.usage_on(5).await.unwrap().into_iter().map(|row| row.tenant).collect();
        assert_eq!(on_five, ["a", "b"]);
    }
}

on_both_engines! {
    async fn a_tenant_gets_a_database_that_knows_its_owner(fixture: Fixture) {
        let main = fixture.open().await;
        assert_eq!(main.owner().await.unwrap(), None);
        let place = fixture.url.for_tenant("acme").unwrap();
        assert!(create_database(&fixture.url, &place).await.unwrap());
        let store = Store::open_configured(&place, Migrate::ToLatest, &StoreOptions::default().for_tenant()).await.unwrap();
        assert!(!create_database(&fixture.url, &place).await.unwrap(), "it exists");
        assert_eq!(store.claim("acme").await.unwrap(), "acme");
        assert_eq!(store.claim("other").await.unwrap(), "acme");
        store.transfer_ownership("other").await.unwrap();
        assert_eq!(store.owner().await.unwrap().as_deref(), Some("other"));
        assert!(store.used_bytes().await.unwrap() > 10_000);
        // The owner is not part of an export.
        let mut export = Vec::new();
        store.export(&mut export).await.unwrap();
        assert!(!String::from_utf8(export).unwrap().contains("satiety_owner"));
        store.close().await;
        assert!(drop_database(&fixture.url, &place).await.unwrap());
        assert!(!drop_database(&fixture.url, &place).await.unwrap());
        let names: Vec<String> = fs_err::read_dir(fixture.folder.path()).unwrap()
            .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned()).collect();
        assert!(names.iter().all(|name| !name.contains("_t_")), "{names:?}");
    }
}
