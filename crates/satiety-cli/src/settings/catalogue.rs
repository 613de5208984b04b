//! Catalogue of all settings: source of the default file, the environment variables and the reference page.

use std::fmt::Write;
use std::path::{Component, Path};

/// Type of a setting's value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ValueType {
    /// Any text.
    Text,
    /// One of these words.
    OneOf(&'static [&'static str]),
    /// `true` or `false`.
    Boolean,
}

/// Whether an untrusted settings file, one that was discovered and not named by the user, may set a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Trust {
    /// Cannot send data, run, read or write anything, or disable a protection.
    Safe,
    /// These values are safe; others need trust.
    SafeValues(&'static [&'static str]),
    /// These values are safe, and so is a path below the directory of the settings file.
    Below(&'static [&'static str]),
    /// Names an address, a command, a file or a store, or weakens a protection: ignored in a discovered file
    /// until `satiety trust`. Choose this when in doubt.
    Sensitive,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Key {
    /// Section and name: `store.url`.
    pub(crate) name: &'static str,
    pub(crate) takes: ValueType,
    /// Built-in value; empty when it depends on the machine.
    pub(crate) default: &'static str,
    /// Command-line flag that overrides it.
    pub(crate) flag: Option<&'static str>,
    pub(crate) trust: Trust,
    /// Description for the default file and the reference, in a sentence or two.
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
        about: "Database URL: `sqlite:PATH` or `postgres://user:password@host/database`. By default, a \
                SQLite file in your data directory.",
    },
    Key {
        name: "store.read_url",
        takes: ValueType::Text,
        default: "none",
        flag: None,
        trust: Trust::Sensitive,
        about: "URL of a PostgreSQL read replica that answers lists, dashboard pages and exports, or `none`. \
                While it is unreachable, the primary answers.",
    },
    Key {
        name: "store.max_connections",
        takes: ValueType::Text,
        default: "10",
        flag: None,
        trust: Trust::Sensitive,
        about: "Maximum number of connections of one process to PostgreSQL, at least 2.",
    },
    Key {
        name: "store.statement_timeout_seconds",
        takes: ValueType::Text,
        default: "0",
        flag: None,
        trust: Trust::Sensitive,
        about: "Time in seconds after which PostgreSQL cancels a statement; 0 for the server's own limit.",
    },
    Key {
        name: "store.slow_query_ms",
        takes: ValueType::Text,
        default: "1000",
        flag: None,
        trust: Trust::Sensitive,
        about: "Time in milliseconds from which a database statement is logged as slow, without its values; 0 \
                logs none.",
    },
    Key {
        name: "store.archive_folder",
        takes: ValueType::Text,
        default: "",
        flag: None,
        trust: Trust::Sensitive,
        about: "Directory for rows archived by `satiety db retain`. By default, a directory next to the \
                default store.",
    },
    Key {
        name: "models.embedder",
        takes: ValueType::Text,
        default: "builtin",
        flag: Some("--embedder"),
        trust: Trust::SafeValues(&["builtin", "none"]),
        about: "Sentence model for semantic similarity: `builtin`, `dir:PATH`, `ollama:MODEL`, \
                `openai:MODEL`, or `none` to compare words only.",
    },
    Key {
        name: "models.chat",
        takes: ValueType::Text,
        default: "none",
        flag: None,
        trust: Trust::SafeValues(&["none"]),
        about: "Chat model for `--extract model` and `satiety research`: `ollama:MODEL`, `openai:MODEL`, \
                `anthropic:MODEL`, each optionally with `@URL`, or `none`.",
    },
    Key {
        name: "dialogue.profile",
        takes: ValueType::Text,
        default: "default",
        flag: Some("--profile"),
        trust: Trust::Below(&["default", "spec"]),
        about: "Scoring profile for conversations: `default`, `spec` (exactly as specified), or the path of \
                a TOML file.",
    },
    Key {
        name: "dialogue.record",
        takes: ValueType::Boolean,
        default: "false",
        flag: Some("--record"),
        trust: Trust::Safe,
        about: "Whether `satiety score` stores conversations and verdicts.",
    },
    Key {
        name: "bench.sandbox",
        trust: Trust::SafeValues(&["auto", "require"]),
        takes: ValueType::OneOf(&["auto", "require", "prefer", "off"]),
        default: "auto",
        flag: Some("--sandbox"),
        about: "Whether target processes run in a sandbox. `require` refuses to run on machines without \
                namespaces, `prefer` uses the strongest isolation available and records it in the result, \
                `off` disables the sandbox. With `auto`, gates, harness runs, servers and workers require \
                it, and other runs follow the target's description.",
    },
    Key {
        name: "bench.alert_command",
        takes: ValueType::Text,
        default: "none",
        flag: None,
        trust: Trust::Sensitive,
        about: "Shell command to run when `bench run --gate` or `bench compare` finds a regression, or \
                `none`. It gets the gate's report as JSON on standard input and has a timeout of ten \
                seconds.",
    },
    Key {
        name: "bench.alert_webhook",
        takes: ValueType::Text,
        default: "none",
        flag: None,
        trust: Trust::Sensitive,
        about: "URL to post the same report to, or `none`. A failing hook is a warning; the verdict does not \
                change.",
    },
    Key {
        name: "harness.folder",
        takes: ValueType::Text,
        default: ".",
        flag: Some("--harness"),
        trust: Trust::Below(&["."]),
        about: "Directory with the suites of the eval harness and `harness.toml`.",
    },
    Key {
        name: "harness.record",
        takes: ValueType::Boolean,
        default: "false",
        flag: None,
        trust: Trust::Sensitive,
        about: "Whether `bench run --gate` records a harness cycle when it finishes.",
    },
    Key {
        name: "harness.driver",
        takes: ValueType::OneOf(&["measured", "signals"]),
        default: "measured",
        flag: None,
        trust: Trust::Sensitive,
        about: "Score that the cycle window follows: the measured probability of missing an improvement \
                (`measured`), or the specification's five signals (`signals`).",
    },
    Key {
        name: "harness.notify_command",
        takes: ValueType::Text,
        default: "none",
        flag: None,
        trust: Trust::Sensitive,
        about: "Shell command to run when a cycle requests a review or opens an expansion, or `none`. It \
                gets the event as JSON on standard input.",
    },
    Key {
        name: "harness.notify_webhook",
        takes: ValueType::Text,
        default: "none",
        flag: None,
        trust: Trust::Sensitive,
        about: "URL to post the same event to, or `none`.",
    },
    Key {
        name: "eviction.provider",
        takes: ValueType::Text,
        default: "anthropic",
        flag: Some("--provider"),
        trust: Trust::SafeValues(&["anthropic", "anthropic-1h", "openai", "gemini"]),
        about: "Provider whose prompt-cache prices decide whether an eviction pays: `anthropic`, \
                `anthropic-1h`, `openai`, `gemini`, `uncached`, or one of your price list.",
    },
    Key {
        name: "eviction.prices",
        takes: ValueType::Text,
        default: "builtin",
        flag: None,
        trust: Trust::SafeValues(&["builtin"]),
        about: "Price list of prompt caches: `builtin`, or the path of a TOML file of the same form.",
    },
    Key {
        name: "research.source",
        takes: ValueType::Text,
        default: "local:.",
        flag: Some("--in"),
        trust: Trust::Sensitive,
        about: "Source that `satiety research` searches: a directory (`local:PATH`), `searxng:URL`, `brave`, \
                `tavily`, `wikipedia`, `arxiv`, `mcp:FILE`, `command:PROGRAM` or `replay:FILE`.",
    },
    Key {
        name: "research.base_url",
        takes: ValueType::Text,
        default: "none",
        flag: None,
        trust: Trust::Sensitive,
        about: "Base URL that replaces the fixed one of brave, tavily, wikipedia and arxiv, such as a proxy, \
                or `none`.",
    },
    Key {
        name: "server.listen",
        takes: ValueType::Text,
        default: "127.0.0.1:8787",
        flag: Some("--listen"),
        trust: Trust::Sensitive,
        about: "Address that `satiety serve` listens on. Addresses other than loopback need tokens and a TLS \
                certificate.",
    },
    Key {
        name: "server.root",
        takes: ValueType::Text,
        default: "none",
        flag: Some("--root"),
        trust: Trust::Sensitive,
        about: "Directory that paths of suites and notes in requests are confined to, or `none` to refuse \
                them.",
    },
    Key {
        name: "server.research_sources",
        takes: ValueType::Text,
        default: "none",
        flag: Some("--research-sources"),
        trust: Trust::Sensitive,
        about: "Sources that requests may search, as comma-separated `NAME=SOURCE`, or `none`. A source \
                without a name is named after its kind. Requests refer to a name; the first one is the \
                default.",
    },
    Key {
        name: "server.tls_cert",
        takes: ValueType::Text,
        default: "none",
        flag: Some("--tls-cert"),
        trust: Trust::Sensitive,
        about: "TLS certificate chain, a PEM file, or `none`.",
    },
    Key {
        name: "server.tls_key",
        takes: ValueType::Text,
        default: "none",
        flag: Some("--tls-key"),
        trust: Trust::Sensitive,
        about: "TLS private key, a PEM file, or `none`.",
    },
    Key {
        name: "server.traces",
        takes: ValueType::Text,
        default: "none",
        flag: None,
        trust: Trust::Sensitive,
        about: "OpenTelemetry collector (OTLP over HTTP) for traces of `serve`, `mcp` and `worker`, such as \
                `http://127.0.0.1:4318`, or `none`. `OTEL_EXPORTER_OTLP_ENDPOINT` is an alternative.",
    },
    Key {
        name: "server.metrics",
        takes: ValueType::Text,
        default: "none",
        flag: None,
        trust: Trust::Sensitive,
        about: "OpenTelemetry collector (OTLP over HTTP) to which `serve` pushes its metrics, such as \
                `http://127.0.0.1:4318`, or `none`. `OTEL_EXPORTER_OTLP_ENDPOINT` is an alternative. `/metrics` \
                has the same metrics.",
    },
    Key {
        name: "server.retain_hours",
        takes: ValueType::Text,
        default: "1",
        flag: None,
        trust: Trust::Sensitive,
        about: "Interval in hours at which `satiety serve` applies the retention rules (`satiety db retain \
                --list`); 0 disables it. With several servers on one store only one applies them, and \
                archives to its own `store.archive_folder`.",
    },
    Key {
        name: "server.request_cost",
        trust: Trust::Sensitive,
        takes: ValueType::Text,
        default: "30000",
        flag: None,
        about: "Maximum cost of one request, estimated from its size before anything is computed, in units \
                of about one millisecond of one processor. More expensive requests get 413. 0 for no limit.",
    },
    Key {
        name: "server.caller_cost",
        trust: Trust::Sensitive,
        takes: ValueType::Text,
        default: "auto",
        flag: None,
        about: "Maximum cost per minute of one client (a token, or an address without one), in the same \
                units; beyond it requests get 429. `auto` is 60000 per processor; 0 for no limit.",
    },
    Key {
        name: "server.model_calls",
        trust: Trust::Sensitive,
        takes: ValueType::Text,
        default: "auto",
        flag: None,
        about: "Maximum concurrent calls of the sentence model; `auto` is four per processor. The built-in model \
                computes them together on one thread per processor.",
    },
    Key {
        name: "server.model_queue",
        trust: Trust::Sensitive,
        takes: ValueType::Text,
        default: "64",
        flag: None,
        about: "Maximum requests waiting for the sentence model; further ones get 503 with `Retry-After`.",
    },
    Key {
        name: "server.connections",
        trust: Trust::Sensitive,
        takes: ValueType::Text,
        default: "2048",
        flag: None,
        about: "Maximum open connections; on further ones only `/healthz` and `/readyz` answer. Never more \
                than the limit of open files of the process.",
    },
    Key {
        name: "server.connections_per_address",
        trust: Trust::Sensitive,
        takes: ValueType::Text,
        default: "1024",
        flag: None,
        about: "Maximum open connections per address; behind a proxy all clients share one address.",
    },
    Key {
        name: "server.streams_per_caller",
        trust: Trust::Sensitive,
        takes: ValueType::Text,
        default: "256",
        flag: None,
        about: "Maximum open event streams per client; further ones get 429.",
    },
    Key {
        name: "server.mcp_sessions_per_caller",
        trust: Trust::Sensitive,
        takes: ValueType::Text,
        default: "64",
        flag: None,
        about: "Maximum open MCP sessions over HTTP per client; further ones get 429. Idle sessions end \
                after five minutes.",
    },
    Key {
        name: "server.open_tenants",
        trust: Trust::Sensitive,
        takes: ValueType::Text,
        default: "20",
        flag: None,
        about: "Maximum number of tenants whose databases are open at the same time. On PostgreSQL, each has up to \
                four connections while it is used.",
    },
    Key {
        name: "ab.auto_graduate",
        takes: ValueType::Boolean,
        default: "false",
        flag: None,
        trust: Trust::Sensitive,
        about: "Whether a feature that passes the whole checklist becomes the default automatically. \
                Otherwise, use `satiety ab graduate`.",
    },
    Key {
        name: "ab.settle_minutes",
        takes: ValueType::Text,
        default: "30",
        flag: None,
        trust: Trust::Safe,
        about: "Minutes to wait for feedback on the results of a search before `satiety ab` counts it.",
    },
    Key {
        name: "memory.max_query_bytes",
        takes: ValueType::Text,
        default: "16384",
        flag: None,
        trust: Trust::Sensitive,
        about: "Maximum size of a memory query in bytes, from 1 to 1048576. Longer queries are rejected; the \
                log keeps the first 512 characters of a query.",
    },
    Key {
        name: "memory.attribution",
        takes: ValueType::Text,
        default: "fit",
        flag: None,
        trust: Trust::SafeValues(&["fit"]),
        about: "Query that a read, a quotation or a validation of a memory is credited to: `fit` is the query \
                that the memory fits by meaning, words, rank and time, or none; `latest` is the session's \
                latest query that returned it.",
    },
    Key {
        name: "hooks.enabled",
        takes: ValueType::Boolean,
        default: "true",
        flag: None,
        trust: Trust::Sensitive,
        about: "Whether `satiety hook EVENT` does anything when an agent calls it.",
    },
    Key {
        name: "hooks.progress",
        takes: ValueType::OneOf(&["off", "report", "nudge", "stop"]),
        default: "stop",
        flag: None,
        trust: Trust::Sensitive,
        about: "Reaction to an agent that repeats itself: `stop` adds a sentence to its context and later ends \
                the turn, `nudge` only adds sentences, `report` only counts, `off` does not judge.",
    },
    Key {
        name: "hooks.finish",
        takes: ValueType::OneOf(&["off", "report", "block"]),
        default: "report",
        flag: None,
        trust: Trust::Sensitive,
        about: "Reaction to an agent that stops while items of its plan are open or a check fails: `report` \
                shows a message to you, `block` keeps the agent working once per prompt, `off` does nothing.",
    },
    Key {
        name: "hooks.compaction",
        takes: ValueType::Boolean,
        default: "true",
        flag: None,
        trust: Trust::Sensitive,
        about: "Whether hooks record what a compaction drops and restore open items after it.",
    },
    Key {
        name: "hooks.memory_tokens",
        takes: ValueType::Text,
        default: "600",
        flag: None,
        trust: Trust::Sensitive,
        about: "Maximum number of tokens of memories that hooks add to a prompt; 0 adds none.",
    },
    Key {
        name: "output.format",
        takes: ValueType::OneOf(&["human", "json", "markdown", "csv", "html", "sarif", "github"]),
        default: "human",
        flag: Some("--format"),
        trust: Trust::Safe,
        about: "Output format; csv and html only for commands that print tables or pages.",
    },
    Key {
        name: "output.color",
        takes: ValueType::OneOf(&["auto", "always", "never"]),
        default: "auto",
        flag: Some("--color"),
        trust: Trust::Safe,
        about: "When to use colors; `NO_COLOR` is respected.",
    },
    Key {
        name: "log.level",
        takes: ValueType::OneOf(&["error", "warn", "info", "debug", "trace"]),
        default: "warn",
        flag: Some("--verbose"),
        trust: Trust::Safe,
        about: "Minimum level of messages logged to stderr.",
    },
    Key {
        name: "log.format",
        takes: ValueType::OneOf(&["text", "json"]),
        default: "text",
        flag: None,
        trust: Trust::Safe,
        about: "Log format: text, or one JSON object per line.",
    },
];

impl Key {
    /// Environment variable, such as `SATIETY_STORE_URL`.
    pub(crate) fn variable(&self) -> String {
        format!("SATIETY_{}", self.name.to_ascii_uppercase().replace('.', "_"))
    }

    pub(crate) fn named(name: &str) -> Option<&'static Key> {
        KEYS.iter().find(|key| key.name == name)
    }

    /// Whether a value from an untrusted, discovered file may be used.
    pub(crate) fn is_safe(&self, value: &str, directory: &Path) -> bool {
        match self.trust {
            Trust::Safe => true,
            Trust::SafeValues(values) => values.contains(&value),
            Trust::Below(values) => values.contains(&value) || stays_below(directory, value),
            Trust::Sensitive => false,
        }
    }

    /// Returns the reason why a value is invalid, or `None`.
    pub(crate) fn objection(&self, value: &str) -> Option<String> {
        match self.takes {
            ValueType::Text => value.trim().is_empty().then(|| "value is empty".into()),
            ValueType::OneOf(words) if words.contains(&value) => None,
            ValueType::OneOf(words) => Some(format!(
                "unknown value `{value}` (expected one of: {})",
                words.join(", ")
            )),
            ValueType::Boolean if ["true", "false"].contains(&value) => None,
            ValueType::Boolean => Some(format!("unknown value `{value}` (expected true or false)")),
        }
    }
}

/// Whether a path stays below a directory, without `..` and without symbolic links.
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

/// Known name with the smallest edit distance to a mistyped one.
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
        "# Satiety settings. The nearest `satiety.toml` in or above the working directory is used.\n\
         # Environment variables (SATIETY_SECTION_NAME) and flags take precedence.\n\
         # Settings marked with (trust) apply only after `satiety trust` has recorded this file.\n",
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

    /// The compiler makes every key state its trust; this test makes a change of it deliberate. A key belongs
    /// here only if a hostile file can do nothing with it.
    #[test]
    fn untrusted_files_may_set_only_listed_settings() {
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
                ("harness.folder", &["."]),
                (
                    "eviction.provider",
                    &["anthropic", "anthropic-1h", "openai", "gemini"]
                ),
                ("eviction.prices", &["builtin"]),
                ("memory.attribution", &["fit"])
            ]
        );
        let below = |key: &&Key| matches!(key.trust, Trust::Below(_));
        let below: Vec<&str> = KEYS.iter().filter(below).map(|key| key.name).collect();
        assert_eq!(below, ["dialogue.profile", "harness.folder"]);
    }

    #[test]
    fn safe_paths_contain_neither_parent_directories_nor_links() {
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
    fn misspelled_settings_get_a_suggestion() {
        let names = || KEYS.iter().map(|key| key.name);
        assert_eq!(nearest("store.ulr", names()), Some("store.url"));
        assert_eq!(nearest("output.colour", names()), Some("output.color"));
        assert_eq!(nearest("weather", names()), None);
    }

    /// Uncommenting any line of the default file gives a valid file.
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
