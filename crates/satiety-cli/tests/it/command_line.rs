//! Settings, help, errors and completions, which all commands share.

use insta::assert_snapshot;

use crate::support::Place;

#[test]
fn flags_override_environment_and_environment_overrides_the_file() {
    let place = Place::new();
    place.write(
        "satiety.toml",
        "[output]\nformat = \"markdown\"\ncolor = \"never\"\n\n[log]\nlevel = \"info\"\n",
    );
    let mut command = place.command(&[
        "config",
        "show",
        "--format",
        "human",
        "--db",
        "postgres://me:secret@host/db",
    ]);
    command
        .env("SATIETY_OUTPUT_COLOR", "always")
        .env("SATIETY_LOG_FORMAT", "json")
        .env("NO_COLOR", "1");
    assert_snapshot!(place.show(&mut command));
}

#[test]
fn settings_are_found_in_parent_directories() {
    let place = Place::new();
    place.write("satiety.toml", "[output]\nformat = \"json\"\n");
    place.write("deep/down/here", "");
    let mut command = place.command(&["config", "show"]);
    command.current_dir(place.path("deep/down"));
    assert!(
        place
            .show(&mut command)
            .contains("\"path\": \"[folder]/satiety.toml\"")
    );
}

#[test]
fn an_unknown_setting() {
    let place = Place::new();
    place.write(
        "satiety.toml",
        "[store]\nurl = \"sqlite:a.db\"\n\n[output]\nformt = \"json\"\n",
    );
    assert_snapshot!(place.run(&["db", "status"]));
}

#[test]
fn an_invalid_value() {
    let place = Place::new();
    place.write("satiety.toml", "[output]\nformat = \"xml\"\n");
    assert_snapshot!(place.run(&["db", "status"]));
}

#[test]
fn an_invalid_toml_file() {
    let place = Place::new();
    place.write("satiety.toml", "[output\nformat = 1\n");
    assert_snapshot!(place.run(&["doctor"]));
}

#[test]
fn a_missing_configuration_file() {
    let place = Place::new();
    assert_snapshot!(place.run(&["--config", "elsewhere.toml", "doctor"]));
}

#[test]
fn a_misspelled_variable_is_reported() {
    let place = Place::new();
    let mut command = place.command(&["db", "migrate", "--quiet"]);
    command.env("SATIETY_STORE_ULR", "sqlite:other.db");
    assert_snapshot!(place.show(&mut command));
}

#[test]
fn a_misspelled_command_gets_a_suggestion() {
    let place = Place::new();
    assert_snapshot!(place.run(&["db", "stauts"]));
}

#[test]
fn the_generated_file_is_valid() {
    let place = Place::new();
    let shown = place.run(&["config", "show", "--default"]);
    let file = shown
        .split("----- stdout\n")
        .nth(1)
        .unwrap()
        .split("\n----- stderr")
        .next()
        .unwrap();
    place.write("satiety.toml", file);
    assert!(place.run(&["config", "show"]).starts_with("exit 0"), "{shown}");
    assert_snapshot!(shown);
}

#[test]
fn help_fits_a_screen() {
    let place = Place::new();
    let shown = place.run(&["-h"]);
    assert!(shown.lines().count() <= 50, "{shown}");
    assert!(shown.lines().all(|line| line.chars().count() <= 100), "{shown}");
}

#[test]
fn a_closed_pipe_is_not_an_error() {
    let place = Place::new();
    let mut child = place
        .command(&["completions", "bash"])
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!(
        (
            output.status.code(),
            String::from_utf8_lossy(&output.stderr).as_ref()
        ),
        (Some(0), "")
    );
}

#[test]
fn every_shell_has_completions() {
    let place = Place::new();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let shown = place.run(&["completions", shell]);
        assert!(
            shown.starts_with("exit 0") && shown.contains("satiety"),
            "{shell}"
        );
    }
}

#[test]
fn logs_are_json_on_request_and_go_to_stderr() {
    let place = Place::new();
    let mut command = place.command(&["db", "migrate", "-vv"]);
    command.env("SATIETY_LOG_FORMAT", "json");
    let output = command.output().unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert!(!stderr.is_empty());
    for line in stderr.lines() {
        let value: serde_json::Value = serde_json::from_str(line).unwrap();
        assert!(value["level"].is_string(), "{line}");
    }
    assert!(String::from_utf8(output.stdout).unwrap().contains("sqlite:"));
}
