//! Every setting there is: the source of the default file, the environment variables and the reference page.

use std::fmt::Write;
use std::path::{Component, Path};

/// What values a setting takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ValueType {
    /// Any text.
    Text,
    /// One of these words.
    OneOf(&'static [&'static str]),
    /// `true` or `false`.
    Boolean,
}

/// Whether a settings file that was found, not given, may decide on a setting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Trust {
    /// It cannot send anything anywhere, run, read or write anything, or switch a protection off.
    Safe,
    /// These values are safe; any other needs trust.
    SafeValues(&'static [&'static str]),
    /// These values are safe, and so is a path below the file's own directory: it names what came with the file.
    Below(&'static [&'static str]),
    /// It names an address, a command, a file or a store, or weakens a protection: from a file that was found it counts
    /// only after `satiety trust`. Choose this where in doubt.
    Sensitive,
}

/// A setting.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Key {
    /// Section and name: `store.url`.
    pub(crate) name: &'static str,
    /// What values it takes.
    pub(crate) takes: ValueType,
    /// The built-in value; empty when it depends on the machine.
    pub(crate) default: &'static str,
    /// The flag that overrides it.
    pub(crate) flag: Option<&'static str>,
    /// Whether a `satiety.toml` that was found may decide on it without being trusted.
    pub(crate) trust: Trust,
    /// What it is for, in a sentence or two.
    pub(crate) about: &'static str,
}

/// All settings, by section.
pub(crate) const KEYS: &[Key] = &[
    Key {
        name: "store.url",
        takes: ValueType::Text,
        default: "",
        flag: Some("--db"),
        trust: Trust::Sensitive,
        about: "Where everything is remembered: `sqlite:PATH` or `postgres://user:password@host/database`. \
                Without it, a SQLite file in your data folder.",
    },
    Key {
        name: "store.archive_folder",
        takes: ValueType::Text,
        default: "",
        flag: None,
        trust: Trust::Sensitive,
        about: "Where `satiety db retain` puts what it archives. Without it, a folder beside the default store.",
    },
    Key {
        name: "models.embedder",
        takes: ValueType::Text,
        default: "builtin",
        flag: Some("--embedder"),
        trust: Trust::SafeValues(&["builtin", "none"]),
        about: "The sentence model that tells whether two texts mean the same: `builtin`, `dir:FOLDER`, \
                `ollama:MODEL`, `openai:MODEL`, or `none` to compare words only.",
    },
    Key {
        name: "models.chat",
        takes: ValueType::Text,
        default: "none",
        flag: None,
        trust: Trust::SafeValues(&["none"]),
        about: "The chat model that sorts messages for `--extract model`: `ollama:MODEL`, `openai:MODEL`, \
                `anthropic:MODEL`, each with `@URL` for another address, or `none`.",
    },
    Key {
        name: "dialogue.profile",
        takes: ValueType::Text,
        default: "default",
        flag: Some("--profile"),
        trust: Trust::Below(&["default", "spec"]),
        about: "How conversations are judged: `default`, `spec` (the written specification to the letter), or the \
                path of a TOML file of your own.",
    },
    Key {
        name: "dialogue.record",
        takes: ValueType::Boolean,
        default: "false",
        flag: Some("--record"),
        trust: Trust::Safe,
        about: "Whether `satiety score` keeps conversations and verdicts in the store.",
    },
    Key {
        name: "bench.sandbox",
        trust: Trust::SafeValues(&["auto", "require"]),
        takes: ValueType::OneOf(&["auto", "require", "prefer", "off"]),
        default: "auto",
        flag: Some("--sandbox"),
        about: "Whether the processes of targets are sandboxed. `require` refuses to run where the machine has no \
                namespaces, `prefer` uses the strongest isolation there is and names it in the result, `off` runs without. \
                With `auto`, gates, harness runs, servers and workers require it, and other runs follow the target's \
                description.",
    },
    Key {
        name: "bench.alert_command",
        takes: ValueType::Text,
        default: "none",
        flag: None,
        trust: Trust::Sensitive,
        about: "A shell command that is run when `bench run --gate` or `bench compare` finds a regression, with the \
                gate's report as JSON on its standard input; or `none`. It may take ten seconds.",
    },
    Key {
        name: "bench.alert_webhook",
        takes: ValueType::Text,
        default: "none",
        flag: None,
        trust: Trust::Sensitive,
        about: "An address that the same report is posted to; or `none`. A hook that fails is a warning: the verdict \
                stays what it was.",
    },
    Key {
        name: "harness.folder",
        takes: ValueType::Text,
        default: ".",
        flag: Some("--harness"),
        trust: Trust::Below(&["."]),
        about: "The folder with the suites of the eval harness and `harness.toml`.",
    },
    Key {
        name: "harness.record",
        takes: ValueType::Boolean,
        default: "false",
        flag: None,
        trust: Trust::Sensitive,
        about: "Whether `bench run --gate` records a cycle of the harness when it is done.",
    },
    Key {
        name: "harness.driver",
        takes: ValueType::OneOf(&["measured", "signals"]),
        default: "measured",
        flag: None,
        trust: Trust::Sensitive,
        about: "Which score the window of cycles follows: the measured probability that an improvement would go \
                unseen, or the specification's five signals.",
    },
    Key {
        name: "harness.notify_command",
        takes: ValueType::Text,
        default: "none",
        flag: None,
        trust: Trust::Sensitive,
        about: "A shell command that is run when a cycle asks for a review or opens an expansion, with what happened \
                as JSON on its standard input; or `none`.",
    },
    Key {
        name: "harness.notify_webhook",
        takes: ValueType::Text,
        default: "none",
        flag: None,
        trust: Trust::Sensitive,
        about: "An address that the same is posted to; or `none`.",
    },
    Key {
        name: "research.source",
        takes: ValueType::Text,
        default: "local:.",
        flag: Some("--in"),
        trust: Trust::Sensitive,
        about: "Where `satiety research` searches: a folder (`local:FOLDER`), `searxng:URL`, `brave`, `tavily`, \
                `wikipedia`, `arxiv`, `mcp:FILE`, `command:PROGRAM` or `replay:FILE`.",
    },
    Key {
        name: "research.base_url",
        takes: ValueType::Text,
        default: "none",
        flag: None,
        trust: Trust::Sensitive,
        about: "Another address for the engines that have a fixed one (brave, tavily, wikipedia, arxiv), such as a \
                proxy of yours; or `none`.",
    },
    Key {
        name: "server.listen",
        takes: ValueType::Text,
        default: "127.0.0.1:8787",
        flag: Some("--listen"),
        trust: Trust::Sensitive,
        about: "Where `satiety serve` listens. Any other address than loopback needs tokens and a certificate.",
    },
    Key {
        name: "server.root",
        takes: ValueType::Text,
        default: "none",
        flag: Some("--root"),
        trust: Trust::Sensitive,
        about: "The folder below which requests to the server may name suites and notes, or `none`.",
    },
    Key {
        name: "server.research_sources",
        takes: ValueType::Text,
        default: "none",
        flag: Some("--research-sources"),
        trust: Trust::Sensitive,
        about: "What requests to the server may have searched, as `NAME=SOURCE` with commas between, or `none`; a source \
                without a name goes by its kind. Requests say a name, and the first one is the usual one.",
    },
    Key {
        name: "server.tls_cert",
        takes: ValueType::Text,
        default: "none",
        flag: Some("--tls-cert"),
        trust: Trust::Sensitive,
        about: "The server's certificate with its chain, a PEM file, or `none`.",
    },
    Key {
        name: "server.tls_key",
        takes: ValueType::Text,
        default: "none",
        flag: Some("--tls-key"),
        trust: Trust::Sensitive,
        about: "The certificate's key, a PEM file, or `none`.",
    },
    Key {
        name: "server.traces",
        takes: ValueType::Text,
        default: "none",
        flag: None,
        trust: Trust::Sensitive,
        about: "Where `serve`, `mcp` and `worker` send OpenTelemetry traces: a collector that speaks OTLP over HTTP, such as \
                `http://127.0.0.1:4318`, or `none`. `OTEL_EXPORTER_OTLP_ENDPOINT` says the same.",
    },
    Key {
        name: "server.retain_hours",
        takes: ValueType::Text,
        default: "1",
        flag: None,
        trust: Trust::Sensitive,
        about: "How often `satiety serve` carries out the retention rules (`satiety db retain --list`); 0 for never. Of \
                all servers on a store one does it, and its `store.archive_folder` gets what is archived.",
    },
    Key {
        name: "server.request_cost",
        trust: Trust::Sensitive,
        takes: ValueType::Text,
        default: "30000",
        flag: None,
        about: "What one request may cost, estimated from its size before anything is computed; a unit is about a millisecond of \
                one processor. Requests that would cost more get 413. 0 for no limit.",
    },
    Key {
        name: "server.caller_cost",
        trust: Trust::Sensitive,
        takes: ValueType::Text,
        default: "auto",
        flag: None,
        about: "What one caller (a token, or an address without one) may spend a minute, in the same units; more gets 429. `auto` \
                is 60000 for each processor; 0 for no limit.",
    },
    Key {
        name: "server.model_calls",
        trust: Trust::Sensitive,
        takes: ValueType::Text,
        default: "auto",
        flag: None,
        about: "Calls of the sentence model that a server makes at the same time; `auto` is the number of processors.",
    },
    Key {
        name: "server.model_queue",
        trust: Trust::Sensitive,
        takes: ValueType::Text,
        default: "64",
        flag: None,
        about: "Requests that may wait for the sentence model; more get 503 with `Retry-After`.",
    },
    Key {
        name: "server.connections",
        trust: Trust::Sensitive,
        takes: ValueType::Text,
        default: "2048",
        flag: None,
        about: "Connections that a server serves; on further ones only `/healthz` and `/readyz` answer. Never more than the system \
                lets a process have open files.",
    },
    Key {
        name: "server.connections_per_address",
        trust: Trust::Sensitive,
        takes: ValueType::Text,
        default: "1024",
        flag: None,
        about: "Connections from one address; behind a proxy all come from one.",
    },
    Key {
        name: "server.streams_per_caller",
        trust: Trust::Sensitive,
        takes: ValueType::Text,
        default: "256",
        flag: None,
        about: "Event streams that one caller may have open; more get 429.",
    },
    Key {
        name: "server.mcp_sessions_per_caller",
        trust: Trust::Sensitive,
        takes: ValueType::Text,
        default: "64",
        flag: None,
        about: "MCP sessions over HTTP that one caller may have open; more get 429. Idle ones end after five minutes.",
    },
    Key {
        name: "ab.auto_graduate",
        takes: ValueType::Boolean,
        default: "false",
        flag: None,
        trust: Trust::Sensitive,
        about: "Whether a change of the memory's search that passes the whole checklist becomes the default by itself. \
                Otherwise `satiety ab graduate` does it.",
    },
    Key {
        name: "ab.settle_minutes",
        takes: ValueType::Text,
        default: "30",
        flag: None,
        trust: Trust::Safe,
        about: "How long `satiety ab` waits for what the asker does with the results of a search before it counts.",
    },
    Key {
        name: "memory.max_query_bytes",
        takes: ValueType::Text,
        default: "16384",
        flag: None,
        trust: Trust::Sensitive,
        about: "The largest question that the memory is asked, in bytes, from 1 to 1048576. Longer ones are refused; of a \
                long one the first 512 characters are logged.",
    },
    Key {
        name: "output.format",
        takes: ValueType::OneOf(&["human", "json", "markdown", "csv", "html"]),
        default: "human",
        flag: Some("--format"),
        trust: Trust::Safe,
        about: "How answers are printed; csv and html by the commands that have tables or pages.",
    },
    Key {
        name: "output.color",
        takes: ValueType::OneOf(&["auto", "always", "never"]),
        default: "auto",
        flag: Some("--color"),
        trust: Trust::Safe,
        about: "When to use colours; `NO_COLOR` is respected.",
    },
    Key {
        name: "log.level",
        takes: ValueType::OneOf(&["error", "warn", "info", "debug", "trace"]),
        default: "warn",
        flag: Some("--verbose"),
        trust: Trust::Safe,
        about: "How much to log to stderr.",
    },
    Key {
        name: "log.format",
        takes: ValueType::OneOf(&["text", "json"]),
        default: "text",
        flag: None,
        trust: Trust::Safe,
        about: "How logs are written: for people, or a JSON object a line.",
    },
];

impl Key {
    /// The environment variable: `SATIETY_STORE_URL`.
    pub(crate) fn variable(&self) -> String {
        format!("SATIETY_{}", self.name.to_ascii_uppercase().replace('.', "_"))
    }

    pub(crate) fn named(name: &str) -> Option<&'static Key> {
        KEYS.iter().find(|key| key.name == name)
    }

    /// Whether a value from a file that was found, and that nobody trusts, may be used.
    pub(crate) fn is_safe(&self, value: &str, directory: &Path) -> bool {
        match self.trust {
            Trust::Safe => true,
            Trust::SafeValues(values) => values.contains(&value),
            Trust::Below(values) => values.contains(&value) || stays_below(directory, value),
            Trust::Sensitive => false,
        }
    }

    /// Says what is wrong with a value, if anything is.
    pub(crate) fn objection(&self, value: &str) -> Option<String> {
        match self.takes {
            ValueType::Text => value.trim().is_empty().then(|| "it is empty".into()),
            ValueType::OneOf(words) if words.contains(&value) => None,
            ValueType::OneOf(words) => Some(format!("`{value}` is not one of {}", words.join(", "))),
            ValueType::Boolean if ["true", "false"].contains(&value) => None,
            ValueType::Boolean => Some(format!("`{value}` is neither true nor false")),
        }
    }
}

/// Whether a path leads to something below a directory, without `..` and without symbolic links.
fn stays_below(directory: &Path, path: &str) -> bool {
    let mut place = directory.to_path_buf();
    Path::new(path).components().all(|component| {
        place.push(component);
        match component {
            Component::CurDir => true,
            Component::Normal(_) => {
                !fs_err::symlink_metadata(&place).is_ok_and(|about| about.file_type().is_symlink())
            }
            Component::Prefix(_) | Component::RootDir | Component::ParentDir => false,
        }
    })
}

/// The known name that is nearest to a mistyped one.
pub(crate) fn nearest<'a>(typed: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    known
        .into_iter()
        .map(|name| (strsim::damerau_levenshtein(typed, name), name))
        .min()
        .filter(|(distance, name)| *distance <= (name.len() / 3).max(2))
        .map(|(_, name)| name)
}

/// The commented default file, which is also the documentation of every setting.
pub(crate) fn default_file() -> String {
    let mut text = String::from(
        "# Satiety's settings. This file is found upwards from the working directory, as `satiety.toml`.\n\
         # Stronger than it: environment variables (SATIETY_SECTION_NAME) and flags.\n\
         # Settings marked with (trust) count only after `satiety trust` has recorded this file.\n",
    );
    let mut section = "";
    for key in KEYS {
        let (its_section, name) = key.name.split_once('.').unwrap_or(("", key.name));
        if its_section != section {
            section = its_section;
            let _ = writeln!(text, "\n[{section}]");
        }
        let mark = match key.trust {
            Trust::Safe => "",
            Trust::SafeValues(_) | Trust::Below(_) | Trust::Sensitive => " (trust)",
        };
        for line in wrap(&format!("{}{mark}", key.about), 96) {
            let _ = writeln!(text, "# {line}");
        }
        let choices = match key.takes {
            ValueType::OneOf(words) => format!("  # {}", words.join(" | ")),
            _ => String::new(),
        };
        let value = match key.takes {
            ValueType::Boolean => key.default.to_owned(),
            _ => format!("\"{}\"", key.default),
        };
        let _ = writeln!(text, "# {name} = {value}{choices}");
    }
    text
}

/// Breaks text into lines of at most `width` characters.
pub(crate) fn wrap(text: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        let last = lines.len() - 1;
        if !lines[last].is_empty() && lines[last].len() + 1 + word.len() > width {
            lines.push(word.to_owned());
        } else {
            if !lines[last].is_empty() {
                lines[last].push(' ');
            }
            lines[last].push_str(word);
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn built_in_values_are_accepted() {
        for key in KEYS.iter().filter(|key| !key.default.is_empty()) {
            assert_eq!(key.objection(key.default), None, "{}", key.name);
        }
    }

    /// The compiler makes every key state its trust; this test makes a change of it deliberate. A key belongs here only if
    /// a hostile file can do nothing with it.
    #[test]
    fn what_a_found_file_may_decide_is_a_short_list() {
        let safe: Vec<&str> = KEYS
            .iter()
            .filter(|key| key.trust == Trust::Safe)
            .map(|key| key.name)
            .collect();
        assert_eq!(
            safe,
            [
                "dialogue.record",
                "ab.settle_minutes",
                "output.format",
                "output.color",
                "log.level",
                "log.format"
            ]
        );
        let in_part: Vec<(&str, &[&str])> = KEYS
            .iter()
            .filter_map(|key| match key.trust {
                Trust::SafeValues(values) | Trust::Below(values) => Some((key.name, values)),
                _ => None,
            })
            .collect();
        assert_eq!(
            in_part,
            [
                ("models.embedder", &["builtin", "none"][..]),
                ("models.chat", &["none"]),
                ("dialogue.profile", &["default", "spec"]),
                ("bench.sandbox", &["auto", "require"]),
                ("harness.folder", &["."])
            ]
        );
        let below = |key: &&Key| matches!(key.trust, Trust::Below(_));
        let below: Vec<&str> = KEYS.iter().filter(below).map(|key| key.name).collect();
        assert_eq!(below, ["dialogue.profile", "harness.folder"]);
    }

    #[test]
    fn a_path_below_neither_climbs_nor_follows_links() {
        let directory = tempfile::tempdir().unwrap();
        fs_err::create_dir(directory.path().join("suites")).unwrap();
        #[cfg(unix)]
        std::os::unix::fs::symlink("/etc", directory.path().join("link")).unwrap();
        for (path, fine) in [
            ("suites", true),
            ("./suites/deep", true),
            ("not/there/yet", true),
            ("..", false),
            ("suites/../..", false),
            ("/etc", false),
            ("link", false),
            ("link/ssl", false),
        ] {
            assert_eq!(stays_below(directory.path(), path), fine, "{path}");
        }
    }

    #[test]
    fn typing_errors_find_their_way() {
        let names = || KEYS.iter().map(|key| key.name);
        assert_eq!(nearest("store.ulr", names()), Some("store.url"));
        assert_eq!(nearest("output.colour", names()), Some("output.color"));
        assert_eq!(nearest("weather", names()), None);
    }

    /// Who uncomments a line of the default file gets a file that works.
    #[test]
    fn the_default_file_is_valid_when_uncommented() {
        let uncommented: String = default_file()
            .lines()
            .map(|line| match line.strip_prefix("# ") {
                Some(rest) if rest.contains(" = ") => format!("{rest}\n"),
                _ => format!("{line}\n"),
            })
            .collect();
        let table: toml::Table = uncommented.parse().unwrap();
        for key in KEYS {
            let (section, name) = key.name.split_once('.').unwrap();
            assert!(table[section].get(name).is_some(), "{} is missing", key.name);
        }
    }
}
