//! Damaged files, failing servers, full disks: a clear error and no damage.

use std::io::{Seek, SeekFrom, Write};
use std::process::Command;

use satiety_store::journal::Event;
use satiety_store::{Migrate, Store, StoreError, StoreUrl};
use serde_json::json;
use xtask::postgres::{Cluster, Options};

use crate::support::Fixture;

async fn open_error(url: &str) -> StoreError {
    Store::open(&url.parse::<StoreUrl>().unwrap())
        .await
        .expect_err(url)
}

#[tokio::test]
async fn a_file_that_is_not_a_database_is_refused_and_not_changed() {
    let fixture = Fixture::sqlite();
    let path = fixture.folder.path().join("notes.txt");
    let content = "Dear diary, ".repeat(1000);
    fs_err::write(&path, &content).unwrap();
    let error = open_error(&format!("sqlite:{}", path.display())).await;
    assert!(matches!(error, StoreError::NotADatabase { .. }), "{error}");
    assert_eq!(fs_err::read_to_string(&path).unwrap(), content);
}

#[tokio::test]
async fn a_database_of_another_program_is_refused_and_not_changed() {
    let fixture = Fixture::sqlite();
    let path = fixture.folder.path().join("other.db");
    let url = format!("sqlite:{}", path.display());
    let pool = sqlx::SqlitePool::connect(&format!("{url}?mode=rwc"))
        .await
        .unwrap();
    sqlx::raw_sql("CREATE TABLE bookmarks (url TEXT)")
        .execute(&pool)
        .await
        .unwrap();
    pool.close().await;
    let error = open_error(&url).await;
    assert!(
        matches!(&error, StoreError::ForeignDatabase { tables, .. } if tables == "bookmarks"),
        "{error}"
    );
    let pool = sqlx::SqlitePool::connect(&url).await.unwrap();
    let (tables,): (i64,) = sqlx::query_as("SELECT COUNT(*) FROM sqlite_master")
        .fetch_one(&pool)
        .await
        .unwrap();
    assert_eq!(tables, 1);
}

#[tokio::test]
async fn damaged_files_are_reported_as_damaged() {
    let fixture = Fixture::sqlite();
    let store = fixture.open().await;
    let events = (0..5000).map(|number| {
        Event::now(
            "test.event",
            "s",
            json!({"filler": "x".repeat(200), "number": number}),
        )
    });
    store.journal().append_all(events.collect()).await.unwrap();
    store.close().await;
    let path = fixture.folder.path().join("store.db");
    let mut file = fs_err::OpenOptions::new().write(true).open(&path).unwrap();
    let length = file.seek(SeekFrom::End(0)).unwrap();
    file.seek(SeekFrom::Start(length / 4)).unwrap();
    file.write_all(&vec![0xA5; (length / 2) as usize]).unwrap();
    drop(file);
    let error = match Store::open(&fixture.url).await {
        Err(error) => error,
        Ok(store) => {
            store.journal().latest("test.event", i64::MAX).await.unwrap_err();
            store.check_integrity().await.unwrap_err()
        }
    };
    assert!(matches!(error, StoreError::Corrupt { .. }), "{error}");
}

#[tokio::test]
async fn inspecting_a_missing_database_does_not_create_it() {
    let fixture = Fixture::sqlite();
    let error = Store::open_with(&fixture.url, Migrate::Never).await.unwrap_err();
    assert!(matches!(error, StoreError::NoStore { .. }), "{error}");
    assert!(!fixture.folder.path().join("store.db").exists());
}

#[tokio::test]
async fn a_full_disk_is_reported_and_acknowledged_writes_stay() {
    let mount = SmallDisk::mount();
    let Some(mount) = mount else {
        println!("skipped: only root can mount a small file system");
        return;
    };
    let url: StoreUrl = format!("sqlite:{}", mount.folder.path().join("store.db").display())
        .parse()
        .unwrap();
    let store = Store::open(&url).await.unwrap();
    let mut acknowledged = 0;
    let error = loop {
        match store
            .journal()
            .append(Event::now("test.event", "s", json!("x".repeat(20_000))))
            .await
        {
            Ok(()) => acknowledged += 1,
            Err(error) => break error,
        }
        assert!(acknowledged < 1000, "the disk never filled up");
    };
    assert!(matches!(error, StoreError::DiskFull { .. }), "{error}");
    assert!(acknowledged > 10);
    let stored = store.journal().latest("test.event", 9999).await.unwrap();
    assert_eq!(stored.len(), acknowledged);
    store.check_integrity().await.unwrap();
    store.close().await;
}

/// A file system of four megabytes: an empty store takes half of it while it is created.
struct SmallDisk {
    folder: tempfile::TempDir,
}

impl SmallDisk {
    fn mount() -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o", "size=4m", "tmpfs"])
            .arg(folder.path())
            .output()
            .is_ok_and(|output| output.status.success());
        mounted.then_some(Self { folder })
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount")
            .arg("--lazy")
            .arg(self.folder.path())
            .status();
    }
}

#[tokio::test]
async fn unreachable_and_refusing_servers() {
    let Some(fixture) = Fixture::postgres().await else {
        return;
    };
    let wrong_password = fixture.url_text.replace("loopback-only", "guess");
    let error = open_error(&wrong_password).await;
    assert!(matches!(error, StoreError::LoginRefused { .. }), "{error}");
    assert!(!error.to_string().contains("guess"), "{error}");

    let (base, _) = fixture.url_text.rsplit_once('/').unwrap();
    let error = open_error(&format!("{base}/nowhere")).await;
    assert!(matches!(error, StoreError::NoSuchDatabase { .. }), "{error}");

    let free = std::net::TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
        .port();
    let error = open_error(&format!("postgres://u:secret@127.0.0.1:{free}/d")).await;
    assert!(matches!(error, StoreError::Unreachable { .. }), "{error}");
    assert!(!error.to_string().contains("secret"), "{error}");

    let error = open_error(&format!("{}?sslmode=require", fixture.url_text)).await;
    assert!(matches!(error, StoreError::Tls { .. }), "{error}");
}

#[tokio::test]
async fn tls_certificates_are_verified() {
    if std::env::var("SATIETY_TEST_POSTGRES").is_err() {
        println!("skipped: SATIETY_TEST_POSTGRES is not set");
        return;
    }
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned(), "127.0.0.1".to_owned()]).unwrap();
    let (certificate, key) = (made.cert.pem(), made.signing_key.serialize_pem());
    let cluster = Cluster::start(Options {
        tls: Some((&certificate, &key)),
    })
    .unwrap();
    let url = cluster.create_database("tls").unwrap();
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("root.crt");
    fs_err::write(&root, &certificate).unwrap();

    let trusted = format!("{url}?sslmode=verify-full&sslrootcert={}", root.display());
    let store = Store::open(&trusted.parse().unwrap()).await.unwrap();
    store
        .journal()
        .append(Event::now("test.event", "over tls", json!(1)))
        .await
        .unwrap();
    let encrypted = cluster.sql("tls", "SELECT bool_and(ssl) FROM pg_stat_ssl JOIN pg_stat_activity USING (pid) WHERE application_name = 'satiety'");
    assert_eq!(encrypted.unwrap(), "t");
    store.close().await;

    // An untrusted certificate is refused if the URL asks for verification.
    let error = open_error(&format!("{url}?sslmode=verify-full")).await;
    assert!(
        matches!(error, StoreError::Tls { .. } | StoreError::Unreachable { .. }),
        "{error}"
    );
}
