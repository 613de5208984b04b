//! Checks the dependencies between crates that ARCHITECTURE.md describes.

use std::process::Command;

use serde_json::Value;

/// Each crate and its permitted workspace dependencies; the reason is the message of a failing test.
const MAY_USE: &[(&str, &[&str], &str)] = &[
    (
        "satiety",
        &[],
        "the library decides and must not be able to act: it uses none of the others",
    ),
    (
        "satiety-models",
        &["satiety"],
        "models answer texts; they know neither the store nor the use cases",
    ),
    (
        "satiety-store",
        &["satiety"],
        "the store remembers; it knows neither models nor use cases",
    ),
    (
        "satiety-report",
        &["satiety"],
        "a report knows what was decided, and neither where it came from nor where it goes",
    ),
    (
        "satiety-engine",
        &["satiety", "satiety-models", "satiety-report", "satiety-store"],
        "the engine acts; surfaces are above it",
    ),
    (
        "satiety-server",
        &["satiety", "satiety-engine", "satiety-report"],
        "a surface calls use cases and never touches store or models",
    ),
    (
        "satiety-cli",
        &["satiety", "satiety-engine", "satiety-report", "satiety-server"],
        "a surface calls use cases and never touches store or models",
    ),
    (
        "satiety-python",
        &["satiety", "satiety-models"],
        "the extension module decides and embeds; a program that acts is the command in the same wheel",
    ),
];

#[test]
fn dependencies_point_one_way() {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version", "1", "--no-deps", "--offline"])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .unwrap();
    let metadata: Value = serde_json::from_slice(&output.stdout).unwrap();
    let packages = metadata["packages"].as_array().unwrap();
    for (name, allowed, reason) in MAY_USE {
        let package = packages.iter().find(|package| package["name"] == **name).unwrap();
        for dependency in package["dependencies"].as_array().unwrap() {
            let used = dependency["name"].as_str().unwrap();
            let ours = used == "satiety" || used.starts_with("satiety-");
            // Dev-dependencies are not restricted.
            if ours && dependency["kind"].is_null() {
                assert!(allowed.contains(&used), "{name} uses {used}: {reason}");
            }
        }
    }
    let crates = packages.iter().filter(|package| {
        let manifest = package["manifest_path"].as_str().unwrap();
        manifest.contains("/crates/") || manifest.contains("/python/")
    });
    assert_eq!(crates.count(), MAY_USE.len(), "this list lacks a crate");
}

#[test]
fn the_library_and_its_python_module_have_no_heavy_dependencies() {
    for package in ["satiety", "satiety-python"] {
        let output = Command::new(env!("CARGO"))
            .args(["tree", "--package", package])
            .args(["--edges", "normal", "--prefix", "none", "--offline"])
            .current_dir(env!("CARGO_MANIFEST_DIR"))
            .output()
            .unwrap();
        let tree = String::from_utf8(output.stdout).unwrap();
        assert!(tree.starts_with(package), "{tree}");
        for heavy in ["tokio", "sqlx", "reqwest", "rustls", "clap"] {
            assert!(
                !tree
                    .lines()
                    .any(|line| line.split_whitespace().next() == Some(heavy)),
                "{package} depends on {heavy}; it must not do I/O and must build quickly"
            );
        }
    }
}
