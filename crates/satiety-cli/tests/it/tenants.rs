//! `satiety tenant`, and commands on the store of a tenant.

use std::process::Output;

use serde_json::Value;

use crate::support::Place;

struct Tenants {
    place: Place,
    store: String,
}

impl Tenants {
    fn output(&self, arguments: &[&str]) -> Output {
        let mut all = vec!["--db", &self.store, "--format", "json"];
        all.extend(arguments);
        self.place
            .command(&all)
            .env("SATIETY_MODELS_EMBEDDER", "none")
            .output()
            .unwrap()
    }

    fn json(&self, arguments: &[&str]) -> Value {
        let output = self.output(arguments);
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{arguments:?}: {text}{errors}");
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{arguments:?}: {error}: {text}"))
    }

    fn refused(&self, arguments: &[&str]) -> String {
        let output = self.output(arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {output:?}");
        String::from_utf8_lossy(&output.stderr).into_owned()
    }
}

fn life(store: String) {
    let tenants = Tenants {
        place: Place::new(),
        store,
    };
    let created = tenants.json(&["tenant", "create", "acme", "--storage", "2GiB"]);
    assert_eq!(created["quotas"]["storage_bytes"], 2_u64 << 30);
    tenants.json(&["project", "create", "umbrella"]);
    let refused = tenants.refused(&["tenant", "create", "acme"]);
    assert!(refused.contains("already exists"), "{refused}");
    let save = |tenant: &str, word: &str| tenants.json(&["--tenant", tenant, "memory", "save", word, word]);
    let saved = save("acme", "anvil");
    save("umbrella", "virus");
    let id = saved["memory"]["id"].as_str().unwrap();
    let of_acme = tenants.json(&["--tenant", "acme", "memory", "list"]).to_string();
    assert!(
        of_acme.contains("anvil") && !of_acme.contains("virus"),
        "{of_acme}"
    );
    let main = tenants.json(&["memory", "list", "--project", "all"]).to_string();
    assert!(!main.contains("anvil") && !main.contains("virus"), "{main}");
    tenants.refused(&["--tenant", "umbrella", "memory", "get", id]);
    let token = tenants.json(&["--tenant", "acme", "token", "create", "ci", "--scope", "read"]);
    assert_eq!(token["tenant"], "acme");
    let other = tenants.json(&["--tenant", "umbrella", "token", "list"]);
    assert_eq!(other["tokens"].as_array().unwrap().len(), 0);
    tenants.refused(&[
        "--tenant",
        "umbrella",
        "token",
        "revoke",
        token["token_id"].as_str().unwrap(),
    ]);
    let changed = tenants.json(&[
        "tenant",
        "set",
        "acme",
        "--requests-per-day",
        "5",
        "--storage",
        "none",
    ]);
    assert_eq!(changed["quotas"], serde_json::json!({"requests_per_day": 5}));
    assert_eq!(tenants.json(&["tenant", "disable", "acme"])["enabled"], false);
    assert_eq!(
        tenants.json(&["tenant", "set", "acme", "--enable"])["enabled"],
        true
    );
    let report = tenants.json(&["tenant", "show", "acme"]);
    assert_eq!(report["tokens"].as_array().unwrap().len(), 1, "{report}");
    assert!(
        !report.to_string().contains("loopback-only"),
        "no password is shown"
    );
    // A tenant's own retention rules.
    tenants.json(&[
        "--tenant",
        "acme",
        "db",
        "retain",
        "--set",
        "eval_queries=30d",
        "--dry-run",
    ]);
    let rules = tenants
        .json(&["--tenant", "umbrella", "db", "retain", "--list"])
        .to_string();
    let own = tenants
        .json(&["--tenant", "acme", "db", "retain", "--list"])
        .to_string();
    assert_ne!(rules, own);
    tenants.refused(&["--tenant", "unknown", "memory", "list"]);
    tenants.refused(&["--tenant", "acme", "tenant", "list"]);
    let serve = tenants.refused(&["--tenant", "acme", "serve"]);
    assert!(serve.contains("all tenants"), "{serve}");
    let unconfirmed = tenants.refused(&["tenant", "delete", "acme"]);
    assert!(unconfirmed.contains("without confirmation"), "{unconfirmed}");
    // Deleted and kept, then registered again with its rows.
    let kept = tenants.json(&["tenant", "delete", "acme", "--yes", "--export", "acme.jsonl"]);
    assert_eq!(kept["store_deleted"], false);
    let export = fs_err::read_to_string(tenants.place.path("acme.jsonl")).unwrap();
    assert!(export.contains("anvil") && !export.contains("virus"));
    let again = tenants.refused(&["tenant", "create", "acme"]);
    assert!(again.contains("--existing"), "{again}");
    tenants.json(&["tenant", "create", "acme", "--existing"]);
    let rows = tenants.json(&["--tenant", "acme", "memory", "list"]).to_string();
    assert!(rows.contains("anvil"), "{rows}");
    for name in ["acme", "umbrella"] {
        let gone = tenants.json(&["tenant", "delete", name, "--yes", "--delete-store"]);
        assert_eq!(gone["store_deleted"], true);
    }
    tenants.json(&["tenant", "create", "acme"]);
    let fresh = tenants.json(&["--tenant", "acme", "memory", "list"]).to_string();
    assert!(!fresh.contains("anvil"), "{fresh}");
    tenants.json(&["tenant", "delete", "acme", "--yes", "--delete-store"]);
}

#[test]
fn tenants_from_creation_to_deletion() {
    let folder = tempfile::tempdir().unwrap();
    life(format!("sqlite:{}", folder.path().join("main.db").display()));
    let left: Vec<_> = fs_err::read_dir(folder.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .filter(|name| name.to_string_lossy().contains("_t_"))
        .collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn tenants_from_creation_to_deletion_on_postgres() {
    let Ok(server) = std::env::var("SATIETY_TEST_POSTGRES") else {
        println!("skipped: SATIETY_TEST_POSTGRES is not set; `cargo xtask test` starts a server and sets it");
        return;
    };
    // The names of the tenants' databases follow from the name of the main one.
    let name = format!("c{}", std::process::id());
    crate::dashboard::sql(&server, &format!("CREATE DATABASE {name}"));
    let (base, _) = server.rsplit_once('/').unwrap();
    life(format!("{base}/{name}"));
    crate::dashboard::sql(&server, &format!("DROP DATABASE {name}"));
}
