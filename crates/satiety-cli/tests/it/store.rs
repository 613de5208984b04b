//! `satiety db` and `satiety doctor`, with valid and invalid databases.

use std::fmt::Write;

use insta::assert_snapshot;

use crate::support::Place;

/// Sizes, engine versions and sandbox backends differ between machines.
fn stable(shown: &str) -> String {
    let mut text = String::new();
    for line in shown.lines() {
        if line.contains("fix: install bubblewrap") {
            continue;
        }
        let line = if line.contains("  sandbox  ") {
            "[state]  sandbox  [means]"
        } else {
            line
        };
        let line = match line.split_once("sqlite 3.") {
            Some((before, after)) => {
                let rest = after.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.');
                format!("{before}sqlite [version]{rest}")
            }
            None => line.to_owned(),
        };
        let line = match line.find(" kB,") {
            Some(end) => {
                let start = line[..end].rfind(' ').map_or(0, |at| at + 1);
                format!("{}[size]{}", &line[..start], &line[end + 3..])
            }
            None => line,
        };
        text.push_str(&line);
        text.push('\n');
    }
    text
}

#[test]
fn status_does_not_create_a_database() {
    let place = Place::new();
    assert_snapshot!(place.run(&["db", "status"]));
    assert!(!place.path(".local").exists());
}

#[test]
fn a_database_is_created_inspected_moved_and_backed_up() {
    let place = Place::new();
    let mut story = String::new();
    for arguments in [
        &["db", "migrate"][..],
        &["db", "migrate"],
        &["db", "status", "--check"],
        &[
            "db",
            "retain",
            "--set",
            "journal=30d:archive",
            "--set",
            "conversations=365d",
            "--list",
        ],
        &["db", "retain", "--dry-run"],
        &["db", "export", "all.jsonl"],
        &["--db", "sqlite:other.db", "db", "import", "all.jsonl"],
        &[
            "--db",
            "sqlite:other.db",
            "db",
            "retain",
            "--list",
            "--format",
            "json",
        ],
        &["db", "backup", "copy.db", "--quiet"],
        &["--db", "sqlite:copy.db", "db", "status"],
        &["db", "backup", "copy.db"],
        &["doctor"],
    ] {
        writeln!(
            story,
            "$ satiety {}\n{}\n",
            arguments.join(" "),
            place.run(arguments)
        )
        .unwrap();
    }
    assert_snapshot!(stable(&story));
}

#[test]
fn an_export_can_be_piped() {
    let place = Place::new();
    place.run(&["db", "migrate"]);
    let export = place.command(&["db", "export", "-"]).output().unwrap();
    assert!(export.stderr.is_empty());
    let mut import = place.command(&["--db", "sqlite:piped.db", "db", "import", "-"]);
    let file = place.write("pipe", &String::from_utf8(export.stdout).unwrap());
    import.stdin(fs_err::File::open(file).unwrap().into_parts().0);
    assert!(place.show(&mut import).contains("23 rows imported"));
}

#[test]
fn a_file_that_is_not_a_database() {
    let place = Place::new();
    place.write(
        "notes.txt",
        &"These are my notes, and not a database. ".repeat(50),
    );
    assert_snapshot!(place.run(&["--db", "sqlite:notes.txt", "db", "migrate"]));
}

#[test]
fn a_damaged_database() {
    let place = Place::new();
    place.run(&["--db", "sqlite:a.db", "db", "migrate"]);
    let mut bytes = fs_err::read(place.path("a.db")).unwrap();
    let page = 4096;
    for byte in &mut bytes[page..] {
        *byte = 0xA5;
    }
    fs_err::write(place.path("a.db"), bytes).unwrap();
    let shown = place.run(&["--db", "sqlite:a.db", "db", "status", "--check"]);
    assert_snapshot!(shown);
}

#[test]
fn a_database_of_a_newer_version() {
    let place = Place::new();
    place.run(&["--db", "sqlite:a.db", "db", "migrate"]);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let pool = sqlx::SqlitePool::connect(&format!("sqlite:{}", place.path("a.db").display()))
            .await
            .unwrap();
        let insert = "INSERT INTO satiety_schema VALUES (99, 'future', 'x', 0)";
        sqlx::query(insert).execute(&pool).await.unwrap();
        pool.close().await;
    });
    assert_snapshot!(place.run(&["--db", "sqlite:a.db", "db", "status"]));
}

#[test]
fn an_export_of_a_newer_version() {
    let place = Place::new();
    place.run(&["--db", "sqlite:a.db", "db", "migrate"]);
    let export = place
        .command(&["--db", "sqlite:a.db", "db", "export", "-"])
        .output()
        .unwrap();
    let future =
        String::from_utf8(export.stdout)
            .unwrap()
            .replacen("\"schema_version\":", "\"schema_version\":99", 1);
    place.write("future.jsonl", &future);
    assert_snapshot!(place.run(&["--db", "sqlite:b.db", "db", "import", "future.jsonl"]));
}

#[test]
fn a_directory_without_write_permission() {
    let place = Place::new();
    fs_err::create_dir(place.path("locked")).unwrap();
    let mode = |mode| std::os::unix::fs::PermissionsExt::from_mode(mode);
    fs_err::set_permissions(place.path("locked"), mode(0o555)).unwrap();
    let shown = place.run_unprivileged(&["--db", "sqlite:locked/store.db", "db", "migrate"]);
    fs_err::set_permissions(place.path("locked"), mode(0o755)).unwrap();
    assert_snapshot!(shown);
}

#[test]
fn a_file_without_write_permission() {
    let place = Place::new();
    place.run(&["--db", "sqlite:data/store.db", "db", "migrate"]);
    let mode = |mode| std::os::unix::fs::PermissionsExt::from_mode(mode);
    fs_err::set_permissions(place.path("data/store.db"), mode(0o444)).unwrap();
    fs_err::set_permissions(place.path("data"), mode(0o555)).unwrap();
    let shown = place.run_unprivileged(&[
        "--db",
        "sqlite:data/store.db",
        "db",
        "retain",
        "--set",
        "journal=1d",
    ]);
    fs_err::set_permissions(place.path("data"), mode(0o755)).unwrap();
    assert_snapshot!(shown);
}

#[test]
fn an_unreachable_server() {
    let place = Place::new();
    // Port 1 on loopback: no process listens there.
    assert_snapshot!(place.run(&["--db", "postgres://me:secret@127.0.0.1:1/satiety", "db", "status"]));
}

#[test]
fn a_wrong_password() {
    let place = Place::new();
    let Ok(server) = std::env::var("SATIETY_TEST_POSTGRES") else {
        return;
    };
    let wrong = server.replace("loopback-only", "guess");
    let shown = place.run(&["--db", &wrong, "db", "status"]);
    let port = server.rsplit(':').next().unwrap().split('/').next().unwrap();
    assert_snapshot!(shown.replace(port, "[port]"));
}

#[test]
fn an_invalid_retention_rule() {
    let place = Place::new();
    assert_snapshot!(place.run(&["db", "retain", "--set", "journal=soon"]));
}

#[test]
fn an_invalid_database_url() {
    let place = Place::new();
    assert_snapshot!(place.run(&["--db", "mongodb://me:secret@host/db", "db", "status"]));
}

#[test]
fn the_fleet_is_examined_on_the_command_line_and_over_http() {
    let place = Place::new();
    let missing = place.run(&["doctor", "--fleet"]);
    assert!(
        missing.starts_with("exit 1\n") && missing.contains("FAILED   store"),
        "{missing}"
    );
    let server = crate::serve::start(&place, &[]);
    let shown = place.run(&["doctor", "--fleet"]);
    assert!(shown.starts_with("exit 0\n"), "{shown}");
    for line in [
        "1 server connected",
        "(latest)",
        "0 cases waiting",
        "this machine is",
    ] {
        assert!(shown.contains(line), "{line} is missing in {shown}");
    }
    let answer = crate::serve::get(&server.address, "/v1/fleet", None);
    assert!(
        answer.starts_with("HTTP/1.1 200") && answer.contains("1 server connected"),
        "{answer}"
    );
    assert_eq!(crate::serve::end(server), Some(0));
}
