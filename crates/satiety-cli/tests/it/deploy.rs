//! Deployment files in `contrib/`: the chart and the manifests follow the published schemas, use options and settings that
//! this program has, and alert on metrics that it exposes.

use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

/// Runs `tests/python/deploy.py`; `None` without the environment of the tests.
#[expect(clippy::print_stdout, reason = "says that a test is skipped")]
fn deploy(arguments: &[&str]) -> Option<Output> {
    let Some(python) = std::env::var_os("SATIETY_TEST_PYTHON") else {
        println!("skipped: SATIETY_TEST_PYTHON is not set; `cargo xtask test` makes the environment");
        return None;
    };
    let output = Command::new(python)
        .arg(format!("{ROOT}/tests/python/deploy.py"))
        .args([ROOT, env!("CARGO_BIN_EXE_satiety")])
        .args(arguments)
        .output()
        .unwrap();
    Some(output)
}

#[track_caller]
fn assert_success(output: &Output) {
    assert!(
        output.status.success(),
        "{}\n{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
}

/// The script lists the checks; it also shows that each schema refuses a wrong field.
#[test]
fn manifests_compose_containerfile_and_alerts_are_valid() {
    if let Some(output) = deploy(&[]) {
        assert_success(&output);
    }
}

/// Objects of KEDA and the Prometheus Operator, whose schemas Kubernetes does not publish.
#[test]
fn custom_resources_are_valid() {
    let Some(folder) = std::env::var_os("SATIETY_TEST_NODE").map(PathBuf::from) else {
        println!("skipped: SATIETY_TEST_NODE is not set; `cargo xtask test` installs the packages");
        return;
    };
    let Some(objects) = deploy(&["--custom"]) else {
        return;
    };
    assert_success(&objects);
    let directory = tempfile::tempdir().unwrap();
    let lines = directory.path().join("objects");
    fs_err::write(&lines, &objects.stdout).unwrap();
    // Node resolves packages from the directory of the script.
    let script = folder.join("custom_resources.mjs");
    fs_err::copy(format!("{ROOT}/tests/node/custom_resources.mjs"), &script).unwrap();
    let checked = Command::new("node")
        .arg(script)
        .stdin(Stdio::from(fs_err::File::open(lines).unwrap().into_file()))
        .output()
        .unwrap();
    assert_success(&checked);
}
