//! Parquet exports: complete, incremental, and untouched by interruptions.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use satiety_engine::database::{ExportManifest, ParquetExport};
use satiety_engine::{Engine, EngineError, Settings, StoreUrl};
use satiety_store::Store;
use satiety_store::bench::{BenchResultRow, BenchRunRow, ResultKey};
use satiety_store::partitioned::DAY_MICROS;
use serde_json::{Value, json};

fn engine(folder: &Path) -> Engine {
    Engine::new(Settings {
        store: StoreUrl::sqlite(folder.join("s.db")),
        archive_folder: folder.join("archive"),
        embedder: "none".into(),
        chat: None,
        api_key: None,
        anthropic_key: None,
    })
}

async fn store(folder: &Path) -> Store {
    Store::open(&StoreUrl::sqlite(folder.join("s.db"))).await.unwrap()
}

fn run(id: &str, day: i64) -> BenchRunRow {
    BenchRunRow {
        run_id: id.into(),
        suite_id: "s".into(),
        suite_hash: "h".into(),
        target: "t".into(),
        started_at: day * DAY_MICROS + 5,
        completed_at: None,
        config_snapshot: json!({}),
        summary: None,
        pass_rate: None,
    }
}

fn result(case: &str) -> BenchResultRow {
    BenchResultRow {
        key: ResultKey {
            case_id: case.into(),
            variant: String::new(),
            repeat: 0,
        },
        status: "pass".into(),
        score: Some(1.0),
        latency_ms: 1.5,
        token_cost: 3,
        human_label: None,
        body: format!("{{\"case_id\": \"{case}\", \"repeat\": 0, \"status\": \"pass\"}}"),
    }
}

async fn add_run(store: &Store, id: &str, day: i64) {
    store.bench().begin_run(&run(id, day)).await.unwrap();
    store
        .bench()
        .put_results(id, &[result("a"), result("b")])
        .await
        .unwrap();
}

async fn export(engine: &Engine, directory: &Path) -> ParquetExport {
    engine
        .database()
        .export_parquet(directory, false, |_| {})
        .await
        .unwrap()
}

fn manifest(directory: &Path) -> ExportManifest {
    serde_json::from_slice(&fs_err::read(directory.join("manifest.json")).unwrap()).unwrap()
}

/// Contents of all Parquet files below a directory by relative path.
fn files(directory: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut folders = vec![directory.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs_err::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.to_string_lossy().contains(".parquet") {
                let name = path.strip_prefix(directory).unwrap().to_owned();
                found.insert(name, fs_err::read(path).unwrap());
            }
        }
    }
    found
}

/// The files are exactly those of the manifest, with its sizes and hashes.
fn check(directory: &Path) -> ExportManifest {
    let manifest = manifest(directory);
    let files = files(directory);
    let listed: BTreeMap<PathBuf, _> = manifest
        .tables
        .values()
        .flat_map(|table| &table.files)
        .map(|file| (PathBuf::from(&file.path), file))
        .collect();
    assert_eq!(
        files.keys().collect::<Vec<_>>(),
        listed.keys().collect::<Vec<_>>()
    );
    for (path, bytes) in &files {
        let file = listed[path];
        assert_eq!(file.bytes, bytes.len() as u64);
        assert_eq!(file.file_hash, blake3::hash(bytes).to_hex().to_string());
    }
    assert!(manifest.exported_at.is_some());
    manifest
}

#[tokio::test]
async fn a_second_export_writes_only_what_has_changed() {
    let folder = tempfile::tempdir().unwrap();
    let (engine, store) = (engine(folder.path()), store(folder.path()).await);
    for (number, day) in [10, 11, 12].into_iter().enumerate() {
        add_run(&store, &format!("run-{number}"), day).await;
    }
    let directory = folder.path().join("export");
    let first = export(&engine, &directory).await;
    assert_eq!(first.written_files, first.files);
    let manifest = check(&directory);
    let results = &manifest.tables["bench_results"];
    assert_eq!((results.rows, results.files.len()), (6, 3));
    assert_eq!(results.day_of.as_deref(), Some("bench_runs.started_at"));
    // Tables without rows have their columns in a file, too.
    assert_eq!(
        (
            manifest.tables["memories"].rows,
            manifest.tables["memories"].files.len()
        ),
        (0, 1)
    );
    let runs = &manifest.tables["bench_runs"];
    assert_eq!(runs.files[0].day.unwrap().to_string(), "1970-01-11");
    assert_eq!(runs.watermark.unwrap().as_microsecond(), 12 * DAY_MICROS + 5);

    let again = export(&engine, &directory).await;
    assert_eq!(
        (again.written_files, again.removed_files, again.rows),
        (0, 0, first.rows)
    );

    // A label that comes later replaces the file of its day and no other.
    let labelled = BenchResultRow {
        human_label: Some("fail".into()),
        ..result("b")
    };
    assert!(store.bench().replace_result("run-1", &labelled).await.unwrap());
    let before = files(&directory);
    let changed = export(&engine, &directory).await;
    assert_eq!(
        (changed.written_files, changed.removed_files, changed.rows),
        (1, 1, first.rows)
    );
    check(&directory);
    let after = files(&directory);
    let new: Vec<_> = after.keys().filter(|path| !before.contains_key(*path)).collect();
    assert_eq!(new.len(), 1);
    assert!(new[0].starts_with("bench_results/day=1970-01-12"), "{new:?}");

    // A new day adds files; deleted rows disappear.
    add_run(&store, "run-3", 13).await;
    let grown = export(&engine, &directory).await;
    assert_eq!((grown.written_files, grown.removed_files), (2, 0));
    store
        .retention()
        .set_rule(&"bench_runs=1d:delete".parse().unwrap())
        .await
        .unwrap();
    engine.database().retain(false).await.unwrap();
    export(&engine, &directory).await;
    let manifest = check(&directory);
    assert_eq!(manifest.tables["bench_runs"].rows, 0);
    assert_eq!(manifest.tables["bench_results"].rows, 0);
}

#[tokio::test]
async fn past_days_that_only_grow_are_not_read_again() {
    let folder = tempfile::tempdir().unwrap();
    let (engine, store) = (engine(folder.path()), store(folder.path()).await);
    let old = |number: i64| satiety_store::journal::Event {
        id: format!("evt-{number}"),
        at: 20_000 * DAY_MICROS + number,
        kind: "test".into(),
        subject: "s".into(),
        body: json!({}),
    };
    for number in 0..3 {
        store.journal().append(old(number)).await.unwrap();
    }
    let directory = folder.path().join("export");
    assert_eq!(export(&engine, &directory).await.unread_rows, 0);
    let second = export(&engine, &directory).await;
    assert_eq!((second.unread_rows, second.written_files), (3, 0));
    let full = engine
        .database()
        .export_parquet(&directory, true, |_| {})
        .await
        .unwrap();
    assert_eq!((full.unread_rows, full.written_files), (0, 0));
    // After a migration everything is read: it may have changed rows of any day.
    let mut older = manifest(&directory);
    older.schema_version -= 1;
    fs_err::write(
        directory.join("manifest.json"),
        serde_json::to_vec(&older).unwrap(),
    )
    .unwrap();
    let migrated = export(&engine, &directory).await;
    assert_eq!((migrated.unread_rows, migrated.written_files), (0, 0));
    assert_eq!(manifest(&directory).schema_version, older.schema_version + 1);
    // An event of a past day that arrives late is found by the number of rows.
    store.journal().append(old(9)).await.unwrap();
    let late = export(&engine, &directory).await;
    assert_eq!(
        (late.unread_rows, late.written_rows, late.removed_files),
        (0, 4, 1)
    );
    assert_eq!(check(&directory).tables["journal"].rows, 4);
    // A file that somebody removed is written again.
    let file = check(&directory).tables["journal"].files[0].path.clone();
    fs_err::remove_file(directory.join(file)).unwrap();
    assert_eq!(export(&engine, &directory).await.written_files, 1);
    check(&directory);
}

#[tokio::test]
async fn an_interrupted_export_is_completed_or_ignored() {
    let folder = tempfile::tempdir().unwrap();
    let (engine, store) = (engine(folder.path()), store(folder.path()).await);
    add_run(&store, "run-0", 10).await;
    let directory = folder.path().join("export");
    export(&engine, &directory).await;
    let old = fs_err::read(directory.join("manifest.json")).unwrap();
    let old_files = files(&directory);
    store
        .bench()
        .replace_result(
            "run-0",
            &BenchResultRow {
                status: "fail".into(),
                ..result("a")
            },
        )
        .await
        .unwrap();
    let target = folder.path().join("complete");
    fs_err::create_dir_all(&target).unwrap();
    export(&engine, &directory).await;
    let new = fs_err::read(directory.join("manifest.json")).unwrap();
    let new_files = files(&directory);

    // Decided, and killed before the files were replaced: new files under their temporary names beside old ones.
    let restore = |decided: bool| {
        fs_err::remove_dir_all(&directory).unwrap();
        let write = |path: &Path, bytes: &[u8]| {
            fs_err::create_dir_all(path.parent().unwrap()).unwrap();
            fs_err::write(path, bytes).unwrap();
        };
        write(&directory.join("manifest.json"), &old);
        for (path, bytes) in &old_files {
            write(&directory.join(path), bytes);
        }
        for (path, bytes) in new_files
            .iter()
            .filter(|(path, _)| !old_files.contains_key(*path))
        {
            write(&directory.join(format!("{}.new", path.display())), bytes);
        }
        if decided {
            write(&directory.join("manifest.next.json"), &new);
        }
    };
    for decided in [true, false] {
        restore(decided);
        let resumed = export(&engine, &directory).await;
        let manifest = check(&directory);
        assert_eq!(manifest.tables["bench_results"].rows, 2);
        assert_eq!(files(&directory), new_files, "decided: {decided}");
        assert_eq!(resumed.written_files, u64::from(!decided));
    }
}

#[tokio::test]
async fn other_directories_and_databases_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let engine = engine(folder.path());
    let message = |result: Result<ParquetExport, EngineError>| result.unwrap_err().to_string();
    let foreign = folder.path().join("foreign");
    fs_err::create_dir_all(&foreign).unwrap();
    fs_err::write(foreign.join("notes.txt"), "mine").unwrap();
    let refused = message(engine.database().export_parquet(&foreign, false, |_| {}).await);
    assert!(refused.contains("no manifest.json"), "{refused}");
    let directory = folder.path().join("export");
    // A process that was killed while it wrote the first manifest.
    fs_err::create_dir_all(&directory).unwrap();
    fs_err::write(directory.join("manifest.partial"), "{").unwrap();
    export(&engine, &directory).await;
    let path = directory.join("manifest.json");
    let good: Value = serde_json::from_slice(&fs_err::read(&path).unwrap()).unwrap();
    for (key, value, reason) in [
        (
            "database",
            json!("sqlite:/elsewhere.db"),
            "the export of another database",
        ),
        ("satiety_parquet_export", json!(99), "unsupported format 99"),
        (
            "tables",
            json!({"journal": {"columns": [], "day_of": null, "watermark": null, "rows": 1, "files": [
                {"path": "../../victim", "day": null, "rows": 1, "bytes": 1, "rows_hash": "", "file_hash": ""}]}}),
            "not a path inside the directory",
        ),
    ] {
        let mut changed = good.clone();
        changed[key] = value;
        fs_err::write(&path, changed.to_string()).unwrap();
        let refused = message(engine.database().export_parquet(&directory, false, |_| {}).await);
        assert!(refused.contains(reason), "{refused}");
    }
}
