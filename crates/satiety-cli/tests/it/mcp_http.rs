//! `/mcp` of a server that requires tokens, tested with the official clients.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::serve::start;
use crate::support::{Place, example, json_of};

/// Starts a server with a research run in its database, and runs a client against it.
fn drive(client: &mut Command) {
    let place = Place::new();
    place.write("satiety.toml", "[models]\nembedder = \"none\"\n");
    let json = ["--format", "json"];
    let heat = example("research/heat-pumps");
    let research = json_of(
        &place,
        &[
            &[
                "research",
                "how do heat pumps cope with cold climates",
                "--in",
                &heat,
            ],
            &json[..],
        ]
        .concat(),
    );
    let token = |name, scope| {
        let made = json_of(
            &place,
            &[&["token", "create", name, "--scope", scope], &json[..]].concat(),
        );
        made["token"].as_str().unwrap().to_owned()
    };
    let (token, admin) = (token("agent", "write"), token("keeper", "admin"));
    let server = start(&place, &["--require-token", "--root", &example("bench")]);
    let output = client
        .arg(format!("http://{}/mcp", server.address))
        .arg(token)
        .arg(research["run_id"].as_str().unwrap())
        .arg(admin)
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{}\n{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
}

fn script(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../tests")
        .join(name)
}

/// Both lifecycles, a session, tokens, foreign hosts and origins.
#[test]
fn the_official_python_client_works() {
    let Some(python) = std::env::var_os("SATIETY_TEST_PYTHON") else {
        eprintln!("skipped: SATIETY_TEST_PYTHON is not set; `cargo xtask test` makes the environment");
        return;
    };
    drive(Command::new(python).arg(script("python/mcp_http.py")));
}

#[test]
fn the_official_typescript_client_works() {
    let Some(folder) = std::env::var_os("SATIETY_TEST_NODE").map(PathBuf::from) else {
        eprintln!("skipped: SATIETY_TEST_NODE is not set; `cargo xtask test` installs the client");
        return;
    };
    // Node resolves packages from the directory of the script.
    let copy = folder.join("mcp_client.mjs");
    fs_err::copy(script("node/mcp_client.mjs"), &copy).unwrap();
    drive(Command::new("node").arg(copy));
}
