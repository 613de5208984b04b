//! The index's life: read from its file only if that fits the database, in step with other processes without
//! reading everything again; imports that can be repeated; vectors in the background.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use satiety::memory::{Author, ImportFormat, Mode};
use satiety_engine::memory::{
    ImportRecordsRequest, ImportRequest, ImportSource, ImportedMemories, IndexActivity, LinkRequest,
    ListRequest, MemorySettings, SaveRequest, SearchRequest,
};
use satiety_engine::{Engine, Settings, StoreUrl};
use serde_json::{Value, json};

/// More memories than the limit below which no file is written.
const MANY: usize = 2200;

fn engine_on(store: StoreUrl, folder: &Path, embedder: &str) -> Engine {
    let settings = Settings {
        store,
        archive_folder: folder.join("archive"),
        embedder: embedder.into(),
        chat: None,
        api_key: None,
        anthropic_key: None,
    };
    Engine::new(settings).with_memory(MemorySettings {
        index_directory: Some(folder.join("cache")),
        ..MemorySettings::default()
    })
}

fn engine(folder: &Path) -> Engine {
    engine_on(StoreUrl::sqlite(folder.join("s.db")), folder, "none")
}

async fn fill(engine: &Engine, from: usize, to: usize) {
    let all: Vec<usize> = (from..to).collect();
    for batch in all.chunks(1000) {
        let records = batch
            .iter()
            .map(|number| json!({"id": number, "title": format!("note {number}"), "content": format!("word{number} and text{}", number % 50)}))
            .collect();
        let imported = import_values(engine, "fill", records).await;
        assert_eq!(
            (imported.added, imported.skipped),
            (batch.len(), 0),
            "{imported:?}"
        );
    }
}

async fn import_values(engine: &Engine, source: &str, records: Vec<Value>) -> ImportedMemories {
    let request = ImportRecordsRequest {
        source: source.into(),
        records,
        format: None,
        folder: None,
        dry_run: false,
        scope: None,
        author: Author::Agent,
    };
    engine.memory().import_records(request).await.unwrap()
}

async fn titles(engine: &Engine, query: &str) -> Vec<String> {
    let request = SearchRequest {
        query: query.into(),
        mode: Some(Mode::Quick),
        ..SearchRequest::default()
    };
    let found = engine.memory().search(request).await.unwrap();
    found.results.into_iter().map(|result| result.title).collect()
}

async fn activity(engine: &Engine) -> IndexActivity {
    engine.memory().health().await.unwrap().index
}

async fn save(engine: &Engine, title: &str, content: &str) -> String {
    let request = SaveRequest {
        title: title.into(),
        content: content.into(),
        ..SaveRequest::default()
    };
    engine.memory().save(request).await.unwrap().memory.id
}

/// Waits for the file of an index, which is written in the background.
async fn index_file(folder: &Path) -> PathBuf {
    for _ in 0..400 {
        let found = fs_err::read_dir(folder).unwrap().find_map(|entry| {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            let finished = path.extension().is_none_or(|end| end != "tmp");
            (name.contains(".index-") && finished).then_some(path)
        });
        if let Some(path) = found {
            return path;
        }
        tokio::time::sleep(Duration::from_millis(25)).await;
    }
    panic!("no index file in {}", folder.display());
}

fn remove_store(folder: &Path) {
    for entry in fs_err::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.file_name().unwrap().to_string_lossy().starts_with("s.db")
            && !path.to_string_lossy().contains(".index-")
        {
            fs_err::remove_file(path).unwrap();
        }
    }
}

#[tokio::test]
async fn the_index_file_is_used_if_it_fits_and_replaced_if_not() {
    let folder = tempfile::tempdir().unwrap();
    let first = engine(folder.path());
    fill(&first, 0, MANY).await;
    assert_eq!(titles(&first, "word77").await, ["note 77"]);
    assert_eq!(activity(&first).await.loads_from_database, 1);
    let path = index_file(folder.path()).await;

    // The next process reads the file, and what has changed since.
    let id = save(&first, "fresh", "zebra").await;
    let gone = save(&first, "gone", "giraffe").await;
    first.memory().delete(&[gone], None, Author::Agent).await.unwrap();
    let second = engine(folder.path());
    assert_eq!(titles(&second, "zebra").await, ["fresh"]);
    assert_eq!(titles(&second, "word77").await, ["note 77"]);
    assert!(titles(&second, "giraffe").await.is_empty());
    let seen = activity(&second).await;
    assert_eq!(
        (seen.loads_from_file, seen.loads_from_database),
        (1, 0),
        "{seen:?}"
    );
    assert!((1..10).contains(&seen.changes_applied), "{seen:?}");
    first.memory().delete(&[id], None, Author::Agent).await.unwrap();
    assert!(titles(&second, "zebra").await.is_empty());
    second.close().await;
    first.close().await;

    // Damage: read from the database, and say so.
    let mut bytes = fs_err::read(&path).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 4;
    fs_err::write(&path, &bytes).unwrap();
    let third = engine(folder.path());
    assert_eq!(titles(&third, "word77").await, ["note 77"]);
    let seen = activity(&third).await;
    assert_eq!(
        (seen.loads_from_file, seen.loads_from_database),
        (0, 1),
        "{seen:?}"
    );
    assert!(seen.file_problem.is_some());
    third.close().await;
}

/// A restored backup has the numbers of changes again, for other memories.
#[tokio::test]
async fn the_index_file_of_another_history_is_not_used() {
    let folder = tempfile::tempdir().unwrap();
    let first = engine(folder.path());
    fill(&first, 0, MANY).await;
    first.close().await;
    let backup: Vec<(PathBuf, Vec<u8>)> = fs_err::read_dir(folder.path())
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.is_file() && !path.to_string_lossy().contains(".index-"))
        .map(|path| (path.clone(), fs_err::read(path).unwrap()))
        .collect();
    let second = engine(folder.path());
    save(&second, "lost", "zebra").await;
    second.close().await;
    // The file is written again when the index is read from the database, with the memory that will be lost.
    fs_err::remove_file(index_file(folder.path()).await).unwrap();
    let second = engine(folder.path());
    assert_eq!(titles(&second, "zebra").await, ["lost"]);
    index_file(folder.path()).await;
    second.close().await;

    remove_store(folder.path());
    for (path, bytes) in backup {
        fs_err::write(path, bytes).unwrap();
    }
    let third = engine(folder.path());
    save(&third, "restored", "giraffe").await;
    save(&third, "later", "walrus").await;
    assert!(titles(&third, "zebra").await.is_empty());
    assert_eq!(titles(&third, "giraffe").await, ["restored"]);
    let seen = activity(&third).await;
    assert_eq!(
        (seen.loads_from_file, seen.loads_from_database),
        (0, 1),
        "{seen:?}"
    );
    third.close().await;
}

/// Two engines on one database see each other's writes at once, and read only what changed.
async fn share(store: StoreUrl, folder: &Path) {
    let (one, other) = (
        engine_on(store.clone(), folder, "none"),
        engine_on(store, folder, "none"),
    );
    let unique = format!("u{}", unique_number());
    save(&one, "before", &format!("{unique} walrus")).await;
    assert_eq!(titles(&other, &unique).await, ["before"]);
    let loaded = activity(&other).await;
    for round in 0..5 {
        let word = format!("{unique}x{round}");
        let began = Instant::now();
        let id = save(&one, "note", &word).await;
        assert_eq!(titles(&other, &word).await, ["note"], "round {round}");
        one.memory()
            .delete(std::slice::from_ref(&id), None, Author::Agent)
            .await
            .unwrap();
        assert!(titles(&other, &word).await.is_empty(), "round {round}");
        assert!(began.elapsed() < Duration::from_secs(2), "{:?}", began.elapsed());
    }
    // Writers of both sides at once: what was acknowledged is found, whatever the order of commits.
    let (mut words, mut writers) = (Vec::new(), tokio::task::JoinSet::new());
    let both = [Arc::new(one), Arc::new(other)];
    for writer in 0..6 {
        let engine = Arc::clone(&both[writer % 2]);
        let unique = unique.clone();
        words.extend((0..8).map(|number| format!("{unique}w{writer}n{number}")));
        writers.spawn(async move {
            for number in 0..8 {
                let word = format!("{unique}w{writer}n{number}");
                save(&engine, &word, &word).await;
                assert_eq!(titles(&engine, &word).await, [word]);
            }
        });
    }
    while let Some(done) = writers.join_next().await {
        done.unwrap();
    }
    for word in &words {
        for engine in &both {
            assert_eq!(titles(engine, word).await, [word.as_str()]);
        }
    }
    let seen = activity(&both[1]).await;
    assert_eq!(
        seen.loads_from_database, loaded.loads_from_database,
        "nothing was read completely again"
    );
    for engine in both {
        engine.close().await;
    }
}

fn unique_number() -> u128 {
    std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .unwrap()
        .as_nanos()
}

#[tokio::test(flavor = "multi_thread")]
async fn two_engines_share_a_sqlite_file() {
    let folder = tempfile::tempdir().unwrap();
    share(StoreUrl::sqlite(folder.path().join("s.db")), folder.path()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn two_engines_share_a_postgresql_database() {
    let Ok(url) = std::env::var("SATIETY_TEST_POSTGRES") else {
        println!("skipped: SATIETY_TEST_POSTGRES is not set; `cargo xtask test` starts a server and sets it");
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    share(url.parse().unwrap(), folder.path()).await;
}

fn file_request(path: &Path) -> ImportRequest {
    ImportRequest {
        source: ImportSource::Path(path.to_path_buf()),
        format: None,
        name: None,
        folder: None,
        scope: None,
        author: Author::Agent,
        dry_run: false,
        embed: false,
    }
}

async fn import_file(engine: &Engine, path: &Path) -> ImportedMemories {
    engine
        .memory()
        .import(file_request(path), |_| true)
        .await
        .unwrap()
}

#[tokio::test]
async fn an_import_skips_bad_lines_resumes_and_stores_nothing_twice() {
    let folder = tempfile::tempdir().unwrap();
    let engine = engine(folder.path());
    let path = folder.path().join("notes.jsonl");
    let mut lines: Vec<String> = (0..1800)
        .map(|number| {
            json!({"content": format!("entry{number} of many"), "id": format!("r{number}")}).to_string()
        })
        .collect();
    lines[6] = "{\"content\": ".into();
    lines[8] = "{\"title\": \"no text\"}".into();
    lines.push(lines[0].clone());
    fs_err::write(&path, lines.join("\n")).unwrap();

    let dry = ImportRequest {
        dry_run: true,
        ..file_request(&path)
    };
    let dry = engine.memory().import(dry, |_| true).await.unwrap();
    assert_eq!((dry.added, dry.skipped, dry.dry_run), (1798, 2, true));
    assert_eq!(engine.memory().health().await.unwrap().memories, 0);

    let mut batches = 0;
    let stopped = engine
        .memory()
        .import(file_request(&path), |_| {
            batches += 1;
            batches < 2
        })
        .await
        .unwrap();
    assert!(
        stopped.interrupted && stopped.added > 0 && stopped.added < 1798,
        "{stopped:?}"
    );
    // Words are searchable at once.
    assert_eq!(titles(&engine, "entry3").await.len(), 1);
    let resumed = import_file(&engine, &path).await;
    assert_eq!(resumed.added + stopped.added, 1798);
    assert_eq!(resumed.unchanged, stopped.added + 1);
    let places: Vec<&str> = resumed
        .refused
        .iter()
        .map(|refused| refused.place.as_str())
        .collect();
    assert_eq!(
        places,
        [format!("{}:7", path.display()), format!("{}:9", path.display())]
    );
    assert_eq!(engine.memory().health().await.unwrap().memories, 1798);

    lines[1] = json!({"content": "changed entirely", "id": "r1"}).to_string();
    fs_err::write(&path, lines.join("\n")).unwrap();
    let again = import_file(&engine, &path).await;
    assert_eq!((again.added, again.changed, again.unchanged), (0, 1, 1798));
    assert!(titles(&engine, "entry1").await.is_empty());
    assert_eq!(titles(&engine, "changed entirely").await.len(), 1);
}

#[tokio::test]
async fn graphs_conversations_tables_notes_and_databases_are_imported() {
    let folder = tempfile::tempdir().unwrap();
    let engine = engine(folder.path());
    let write = |name: &str, text: String| {
        let path = folder.path().join(name);
        fs_err::create_dir_all(path.parent().unwrap()).unwrap();
        fs_err::write(&path, text).unwrap();
        path
    };
    let graph = [
        json!({"type": "entity", "name": "OldCache", "entityType": "component", "observations": ["redis based"]}),
        json!({"type": "relation", "from": "NewCache", "to": "OldCache", "relationType": "replaces"}),
        json!({"type": "entity", "name": "NewCache", "entityType": "component", "observations": ["in process", "lru"]}),
    ];
    let graph: Vec<String> = graph.iter().map(Value::to_string).collect();
    let imported = import_file(&engine, &write("memory.json", graph.join("\n"))).await;
    assert_eq!(
        (imported.added, imported.links, imported.format),
        (3, 1, Some(ImportFormat::ServerMemory))
    );

    let message = |role: &str, text: &str| json!({"role": role, "content": text}).to_string();
    let log = [
        message("user", "how to bake"),
        message("assistant", "slowly"),
        message("user", "why"),
        message("assistant", "crust"),
    ];
    let imported = import_file(&engine, &write("log.jsonl", log.join("\n"))).await;
    assert_eq!(
        (imported.added, imported.format),
        (2, Some(ImportFormat::Messages))
    );

    let imported = import_file(
        &engine,
        &write("table.csv", "title,text\nOne,uno\nTwo,dos\n".into()),
    )
    .await;
    assert_eq!((imported.added, imported.format), (2, Some(ImportFormat::Csv)));
    let mem0 = json!({"results": [{"id": "a", "memory": "likes tea", "user_id": "ann"}], "relations": []});
    let imported = import_file(&engine, &write("mem0.json", mem0.to_string())).await;
    assert_eq!((imported.added, imported.format), (1, Some(ImportFormat::Mem0)));
    write(
        "notes/deep/rule.md",
        "---\ntier: constitutional\n---\nNever do that.".into(),
    );
    let imported = import_file(&engine, &folder.path().join("notes")).await;
    assert_eq!((imported.added, imported.lowered), (1, 1));
    let unknown = write("other.json", "[{\"x\": 1}, {\"y\": 2}]".into());
    let error = engine
        .memory()
        .import(file_request(&unknown), |_| true)
        .await
        .unwrap_err();
    assert!(
        error.to_string().contains("no record has a known format"),
        "{error}"
    );

    // Another database: everything with its links, once.
    let target = tempfile::tempdir().unwrap();
    let copy = self::engine(target.path());
    let request = ImportRequest {
        source: ImportSource::Database(StoreUrl::sqlite(folder.path().join("s.db"))),
        ..file_request(folder.path())
    };
    let copied = copy.memory().import(request.clone(), |_| true).await.unwrap();
    assert_eq!((copied.added, copied.links), (9, 1));
    let again = copy.memory().import(request, |_| true).await.unwrap();
    assert_eq!((again.added, again.unchanged), (0, 9));
    assert_eq!(titles(&copy, "slowly").await, titles(&engine, "slowly").await);
    let list = copy.memory().list(&ListRequest::default()).await.unwrap();
    let id = |title: &str| {
        list.memories
            .iter()
            .find(|memory| memory.title == title)
            .unwrap()
            .id
            .clone()
    };
    let link = LinkRequest {
        from: id("NewCache"),
        kind: satiety::memory::LinkKind::Supersedes,
        to: id("OldCache"),
        remove: true,
        scope: None,
    };
    copy.memory().link(link).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn vectors_are_made_in_the_background_and_survive_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let bare = engine(folder.path());
    import_values(
        &bare,
        "x",
        vec![json!({"content": "The cat sleeps on the warm windowsill"})],
    )
    .await;
    bare.close().await;

    let engine = Arc::new(engine_on(
        StoreUrl::sqlite(folder.path().join("s.db")),
        folder.path(),
        "builtin",
    ));
    let before = engine.memory().health().await.unwrap();
    assert_eq!(
        (before.embedding.pending, before.embedding.active, before.embedded),
        (1, false, 0)
    );
    assert!(before.degraded.unwrap().contains("satiety memory embed"));
    let worker = tokio::spawn({
        let engine = Arc::clone(&engine);
        async move { engine.memory().run_embedding().await }
    });
    let waiting = async {
        loop {
            let health = engine.memory().health().await.unwrap();
            if health.embedding.active && health.embedded == health.chunks {
                return health;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let health = tokio::time::timeout(Duration::from_mins(1), waiting)
        .await
        .unwrap();
    assert_eq!(
        (health.embedding.pending, health.embedding.done, health.degraded),
        (0, 1, None)
    );

    let saved = engine
        .memory()
        .save(SaveRequest {
            title: "Deploys".into(),
            content: "We ship on Mondays only".into(),
            ..SaveRequest::default()
        })
        .await
        .unwrap();
    assert!(saved.pending && saved.embedder.is_none());
    assert_eq!(
        titles(&engine, "ship mondays").await,
        ["Deploys"],
        "words are searchable at once"
    );
    let finding = async {
        loop {
            let request = SearchRequest {
                query: "a feline resting in the sun".into(),
                mode: Some(Mode::Focused),
                ..SearchRequest::default()
            };
            let found = engine.memory().search(request).await.unwrap();
            let health = engine.memory().health().await.unwrap();
            if health.embedded == 2 && !found.results.is_empty() {
                return found;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let found = tokio::time::timeout(Duration::from_mins(1), finding)
        .await
        .unwrap();
    assert!(found.results[0].excerpt.contains("cat"), "{:?}", found.results);
    worker.abort();
}

#[tokio::test]
async fn embedding_everything_continues_where_it_stopped() {
    let folder = tempfile::tempdir().unwrap();
    let bare = engine(folder.path());
    let records = (0..300)
        .map(|number| json!({"content": format!("fact {}", number % 7), "id": number}))
        .collect();
    import_values(&bare, "x", records).await;
    bare.close().await;
    let engine = engine_on(
        StoreUrl::sqlite(folder.path().join("s.db")),
        folder.path(),
        "builtin",
    );
    let stopped = engine.memory().embed_all(|done, _| done == 0).await.unwrap();
    assert_eq!((stopped.embedded, stopped.pending), (256, 44));
    let rest = engine.memory().embed_all(|_, _| true).await.unwrap();
    assert_eq!((rest.embedded, rest.pending), (44, 0));
    let health = engine.memory().health().await.unwrap();
    assert_eq!((health.embedded, health.chunks), (300, 300));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_servers_embed_each_chunk_once() {
    let folder = tempfile::tempdir().unwrap();
    let store = || StoreUrl::sqlite(folder.path().join("s.db"));
    fill(&engine_on(store(), folder.path(), "none"), 0, 120).await;
    let servers: Vec<Arc<Engine>> = (0..2)
        .map(|number| {
            let own = folder.path().join(format!("server-{number}"));
            Arc::new(engine_on(store(), &own, "builtin"))
        })
        .collect();
    let workers: Vec<_> = servers
        .iter()
        .map(|engine| {
            let engine = Arc::clone(engine);
            tokio::spawn(async move { engine.memory().run_embedding().await })
        })
        .collect();
    let began = Instant::now();
    let done = loop {
        let mut done = 0;
        let mut is_complete = true;
        for engine in &servers {
            let health = engine.memory().health().await.unwrap();
            done += health.embedding.done;
            is_complete &= health.embedded == health.chunks && health.chunks == 120;
        }
        // Vectors are stored before a step counts.
        if is_complete && done >= 120 {
            break done;
        }
        assert!(began.elapsed() < Duration::from_mins(1), "{done} of 120");
        tokio::time::sleep(Duration::from_millis(50)).await;
    };
    for worker in &workers {
        worker.abort();
    }
    assert_eq!(done, 120, "some chunks were embedded twice");
}
