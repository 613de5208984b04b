//! Settings, merged from flags, the environment, configuration files and built-in defaults.
//!
//! Later code does not read clap types or the environment for settings.

pub(crate) mod catalogue;
pub(crate) mod file;
pub(crate) mod trust;

use std::collections::BTreeMap;
use std::fmt;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anstream::ColorChoice;
use clap::ValueEnum;
use etcetera::BaseStrategy;
use satiety::bench::SandboxRequirement;
use satiety::harness::Driver;
use satiety::memory::{AttributionRule, Scope};
use satiety_engine::agent_hooks::{FinishReaction, HookPolicy, ProgressReaction};
use satiety_engine::eviction::EvictionSettings;
use satiety_engine::experiment::ExperimentSettings;
use satiety_engine::memory::MemorySettings;
use satiety_engine::{Alert, Engine, HarnessCycle, HookSettings, StoreOptions, StoreUrl};
use schemars::JsonSchema;
use serde::Serialize;

use crate::args::{Cli, ColorWhen, Command, Global};
use crate::failure::{Failure, warn};
use crate::project::{current_project, scope_named};
use catalogue::{KEYS, Key, nearest};
use trust::{ConfigFile, TrustState, anchored, printable_path};

/// Output format.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// Text for a terminal.
    Human,
    /// A documented JSON object.
    Json,
    /// Markdown for a comment or a page.
    Markdown,
    /// Table for a spreadsheet, if the command prints one.
    Csv,
    /// Self-contained HTML page, if the command has one.
    Html,
    /// SARIF 2.1.0 with the findings of `harness check` and of a gated `bench run`.
    Sarif,
    /// The same findings as workflow commands of GitHub Actions, which become annotations.
    Github,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LogFormat {
    Text,
    /// One JSON object per line.
    Json,
}

/// Source of a value, in increasing precedence.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Origin {
    /// Built-in default.
    Default,
    /// Configuration file.
    File { path: PathBuf, line: usize },
    /// Environment variable with this name.
    Environment(String),
    /// Command-line option with this name.
    Flag(String),
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::File { path, line } => write!(f, "{}:{line}", path.display()),
            Self::Environment(variable) => f.write_str(variable),
            Self::Flag(flag) => f.write_str(flag),
        }
    }
}

#[derive(Debug, Clone)]
pub(crate) struct Value {
    pub(crate) text: String,
    pub(crate) origin: Origin,
}

/// All settings, validated.
pub(crate) struct Settings {
    pub(crate) store: StoreUrl,
    pub(crate) store_options: StoreOptions,
    pub(crate) archive_folder: PathBuf,
    pub(crate) embedder: String,
    pub(crate) chat: Option<String>,
    pub(crate) keys: Keys,
    pub(crate) profile: String,
    pub(crate) record: bool,
    pub(crate) alert: Alert,
    pub(crate) sandbox: SandboxSetting,
    pub(crate) harness: HarnessSettings,
    pub(crate) server: ServerSettings,
    pub(crate) eviction_provider: String,
    pub(crate) eviction_prices: Option<PathBuf>,
    pub(crate) research_source: String,
    pub(crate) research_base_url: Option<String>,
    pub(crate) ab: ExperimentSettings,
    /// Whether hooks of command-line agents do anything.
    pub(crate) hooks_enabled: bool,
    /// What these hooks may do.
    pub(crate) hooks: HookPolicy,
    pub(crate) format: Format,
    pub(crate) color: ColorChoice,
    pub(crate) log_level: String,
    pub(crate) log_format: LogFormat,
    /// OpenTelemetry collector for traces.
    pub(crate) traces: Option<String>,
    /// OpenTelemetry collector for metrics.
    pub(crate) metrics: Option<String>,
    /// Every setting by name, as text, with its origin.
    pub(crate) values: BTreeMap<&'static str, Value>,
    /// Tenant whose store commands work on; only from the flag or the environment.
    pub(crate) tenant: Option<String>,
    /// Configuration file in use.
    pub(crate) file: Option<PathBuf>,
    /// Settings of that file that are ignored because it is not trusted.
    pub(crate) ignored: Option<Ignored>,
    /// Maximum size of a memory query in bytes.
    pub(crate) max_query_bytes: usize,
    /// Rule by which a use of a memory is credited to a query.
    pub(crate) attribution: AttributionRule,
    /// Environment variables that start with `SATIETY_` but match no setting.
    unknown_variables: Vec<String>,
}

/// Value of `bench.sandbox`; `None` is `auto`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SandboxSetting(Option<SandboxRequirement>);

impl SandboxSetting {
    /// Requirement for gates, harness runs, servers and workers, whose verdicts must be reliable.
    pub(crate) fn for_gates(self) -> SandboxRequirement {
        self.0.unwrap_or(SandboxRequirement::Require)
    }

    /// Requirement for other runs; `None` follows the target's description.
    pub(crate) fn for_plain_runs(self) -> Option<SandboxRequirement> {
        self.0
    }
}

/// Ignored settings of a discovered configuration file.
#[derive(Debug, Clone)]
pub(crate) struct Ignored {
    pub(crate) path: PathBuf,
    /// Reason why they are ignored.
    pub(crate) trust_state: TrustState,
    pub(crate) settings: Vec<IgnoredSetting>,
}

/// A setting of an untrusted configuration file.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub(crate) struct IgnoredSetting {
    /// Name, such as `store.url`.
    pub(crate) name: &'static str,
    /// Value as text.
    pub(crate) value: String,
    /// Line in the file, from 1.
    pub(crate) line: usize,
}

/// Settings of `satiety harness`.
pub(crate) struct HarnessSettings {
    pub(crate) folder: PathBuf,
    pub(crate) record: bool,
    pub(crate) driver: Driver,
    pub(crate) notify: Alert,
}

/// Settings of `satiety serve`.
pub(crate) struct ServerSettings {
    pub(crate) listen: SocketAddr,
    pub(crate) root: Option<PathBuf>,
    pub(crate) research_sources: Option<String>,
    pub(crate) tls_cert: Option<PathBuf>,
    pub(crate) tls_key: Option<PathBuf>,
    /// Interval of retention; `None` disables it.
    pub(crate) retain_every: Option<Duration>,
    /// Maximum cost units per request; `None` is unlimited.
    pub(crate) request_cost: Option<u64>,
    /// Maximum cost units per caller and minute; `None` is unlimited.
    pub(crate) caller_cost: Option<u64>,
    /// Maximum concurrent calls of the sentence model.
    pub(crate) model_calls: usize,
    pub(crate) model_queue: usize,
    pub(crate) connections: usize,
    pub(crate) connections_per_address: usize,
    pub(crate) streams_per_caller: usize,
    pub(crate) mcp_sessions_per_caller: usize,
    /// Maximum number of tenants whose stores are open at the same time.
    pub(crate) open_tenants: usize,
}

/// API keys of providers. They come only from the environment and are never listed.
pub(crate) struct Keys {
    openai: Option<String>,
    anthropic: Option<String>,
}

/// Variables with our prefix that are not settings.
const OTHER_VARIABLES: &[&str] = &["SATIETY_CONFIG", "SATIETY_CPU", "SATIETY_TENANT"];

/// Standard variables and the settings they map to; later entries win, and `SATIETY_*` variables win over
/// all.
const STANDARD_VARIABLES: &[(&str, &str)] = &[
    ("server.traces", "OTEL_EXPORTER_OTLP_ENDPOINT"),
    ("server.traces", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"),
    ("server.metrics", "OTEL_EXPORTER_OTLP_ENDPOINT"),
    ("server.metrics", "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT"),
];

/// Loads and merges all settings.
pub(crate) fn load(cli: &Cli) -> Result<Settings, Failure> {
    load_with(cli, true)
}

/// Loads the settings without a discovered file, for commands that must work in any directory.
pub(crate) fn load_without_project(cli: &Cli) -> Result<Settings, Failure> {
    load_with(cli, false)
}

fn load_with(cli: &Cli, discover: bool) -> Result<Settings, Failure> {
    let global = &cli.global;
    let environment: BTreeMap<String, String> = std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
        .collect();
    let mut values = defaults();
    let own = own_file();
    let (file, ignored) = read_files(global, &environment, discover, own.as_deref(), &mut values)?;
    for (name, variable) in STANDARD_VARIABLES {
        if let (Some(key), Some(text)) = (Key::named(name), environment.get(*variable))
            && !text.trim().is_empty()
        {
            set(&mut values, key, text, Origin::Environment((*variable).into()))?;
        }
    }
    for key in KEYS {
        if let Some(text) = environment.get(&key.variable()) {
            set(&mut values, key, text, Origin::Environment(key.variable()))?;
        }
    }
    for (name, text) in typed(cli) {
        if let Some(key) = Key::named(name) {
            set(
                &mut values,
                key,
                &text,
                Origin::Flag(key.flag.unwrap_or(name).into()),
            )?;
        }
    }
    let unknown_variables = environment
        .keys()
        .filter(|name| name.starts_with("SATIETY_") && !name.starts_with("SATIETY_TEST_"))
        .filter(|name| {
            !OTHER_VARIABLES.contains(&name.as_str()) && !KEYS.iter().any(|key| key.variable() == **name)
        })
        .cloned()
        .collect();
    // A setting that a variable or flag overrides is not missing.
    let ignored = ignored.and_then(|mut ignored| {
        let decided = |name: &str| {
            values
                .get(name)
                .is_some_and(|value| matches!(value.origin, Origin::Environment(_) | Origin::Flag(_)))
        };
        ignored.settings.retain(|setting| !decided(setting.name));
        (!ignored.settings.is_empty()).then_some(ignored)
    });
    let key = |name: &str| {
        environment
            .get(name)
            .filter(|key| !key.trim().is_empty())
            .cloned()
    };
    let keys = Keys {
        openai: key("OPENAI_API_KEY"),
        anthropic: key("ANTHROPIC_API_KEY"),
    };
    let mut settings = parse_settings(values, file, unknown_variables, keys)?;
    settings.ignored = ignored;
    settings.tenant = global.tenant.clone().or_else(|| key("SATIETY_TENANT"));
    Ok(settings)
}

/// Merges the user's configuration file and the given or discovered one over the defaults.
fn read_files(
    global: &Global,
    environment: &BTreeMap<String, String>,
    discover: bool,
    own: Option<&Path>,
    values: &mut BTreeMap<&'static str, Value>,
) -> Result<(Option<PathBuf>, Option<Ignored>), Failure> {
    let mut ignored = None;
    let mut used = None;
    if let Some(own) = own {
        let read = ConfigFile::read(own)?;
        let trust_state = read.own_trust_state();
        ignored = merge_file(values, &read, &trust_state, true)?;
        used = Some(read.path);
    }
    let found = find_file(global, environment)?.filter(|(_, given)| *given || discover);
    let Some((path, given)) = found else {
        return Ok((used, ignored));
    };
    let read = ConfigFile::read(&path)?;
    if Some(&read.path) == used.as_ref() && !given {
        return Ok((used, ignored));
    }
    let trust_state = if given {
        TrustState::Trusted
    } else {
        read.trust_state()
    };
    ignored = merge_file(values, &read, &trust_state, !given)?.or(ignored);
    Ok((Some(path), ignored))
}

/// Merges a file's effective settings into `values`; returns the ignored ones.
fn merge_file(
    values: &mut BTreeMap<&'static str, Value>,
    file: &ConfigFile,
    trust_state: &TrustState,
    found: bool,
) -> Result<Option<Ignored>, Failure> {
    let mut ignored = Vec::new();
    let directory = file.path.parent().unwrap_or(Path::new("/"));
    for (name, mut value) in file::parse(&file.path, &file.text)? {
        let Some(key) = Key::named(name) else { continue };
        let counts = match trust_state {
            TrustState::Trusted => true,
            TrustState::Untrusted { .. } => key.is_safe(&value.text, directory),
            TrustState::Foreign(_) => false,
        };
        if counts {
            if found {
                value.text = anchored(name, &value.text, directory);
            }
            values.insert(name, value);
            continue;
        }
        // An ignored value that equals the effective one is not missing.
        if values.get(name).is_some_and(|old| old.text == value.text) {
            continue;
        }
        let line = match value.origin {
            Origin::File { line, .. } => line,
            _ => 0,
        };
        ignored.push(IgnoredSetting {
            name,
            value: value.text,
            line,
        });
    }
    Ok((!ignored.is_empty()).then(|| Ignored {
        path: file.path.clone(),
        trust_state: trust_state.clone(),
        settings: ignored,
    }))
}

/// The user's configuration file, overridden by a given or discovered one.
fn own_file() -> Option<PathBuf> {
    let base = etcetera::choose_base_strategy().ok()?;
    let path = base.config_dir().join("satiety").join("satiety.toml");
    path.is_file().then_some(path)
}

/// Converts validated texts to typed settings.
fn parse_settings(
    values: BTreeMap<&'static str, Value>,
    file: Option<PathBuf>,
    unknown_variables: Vec<String>,
    keys: Keys,
) -> Result<Settings, Failure> {
    let text = |name: &str| values.get(name).map_or("", |value| value.text.as_str());
    let unless_none = |name: &str| Some(text(name)).filter(|value| *value != "none").map(Into::into);
    let url = |name: &str| {
        text(name).parse::<StoreUrl>().map_err(|error| {
            let origin = values
                .get(name)
                .map_or(Origin::Default, |value| value.origin.clone());
            Failure::BadInput {
                message: format!("{origin}: {error}"),
                hint: error.hint().map(|hint| hint.to_string()),
            }
        })
    };
    let store = url("store.url")?;
    let store_options = StoreOptions {
        max_connections: u32::try_from(count(&values, "store.max_connections", 2)?).unwrap_or(u32::MAX),
        statement_timeout: Some(span(&values, "store.statement_timeout_seconds", SECONDS)?),
        slow_query: Some(span(&values, "store.slow_query_ms", MILLISECONDS)?),
        read_url: match text("store.read_url") {
            "none" => None,
            _ => Some(url("store.read_url")?),
        },
        ..StoreOptions::default()
    };
    let listen = text("server.listen").parse().map_err(|_| {
        let origin = values
            .get("server.listen")
            .map_or(Origin::Default, |value| value.origin.clone());
        Failure::bad_input(
            format!("{origin}: invalid listen address `{}`", text("server.listen")),
            "use an IP address and a port, such as 127.0.0.1:8787 or [::1]:8787",
        )
    })?;
    let path_unless_none = |name: &str| {
        Some(text(name))
            .filter(|value| *value != "none")
            .map(PathBuf::from)
    };
    Ok(Settings {
        store,
        store_options,
        tenant: None,
        archive_folder: text("store.archive_folder").into(),
        embedder: text("models.embedder").into(),
        chat: unless_none("models.chat"),
        eviction_provider: text("eviction.provider").into(),
        eviction_prices: Some(text("eviction.prices"))
            .filter(|value| *value != "builtin")
            .map(PathBuf::from),
        keys,
        profile: text("dialogue.profile").into(),
        record: text("dialogue.record") == "true",
        // `auto` is not a requirement, so parsing it gives `None`.
        sandbox: SandboxSetting(text("bench.sandbox").parse().ok()),
        alert: Alert {
            command: unless_none("bench.alert_command"),
            webhook: unless_none("bench.alert_webhook"),
            limit: None,
        },
        harness: HarnessSettings {
            folder: text("harness.folder").into(),
            record: text("harness.record") == "true",
            driver: match text("harness.driver") {
                "signals" => Driver::Signals,
                _ => Driver::Measured,
            },
            notify: Alert {
                command: unless_none("harness.notify_command"),
                webhook: unless_none("harness.notify_webhook"),
                limit: None,
            },
        },
        server: ServerSettings {
            listen,
            root: path_unless_none("server.root"),
            research_sources: unless_none("server.research_sources"),
            tls_cert: path_unless_none("server.tls_cert"),
            tls_key: path_unless_none("server.tls_key"),
            retain_every: Some(span(&values, "server.retain_hours", HOURS)?).filter(|every| !every.is_zero()),
            request_cost: Some(count(&values, "server.request_cost", 0)?).filter(|units| *units > 0),
            caller_cost: match text("server.caller_cost") {
                "auto" => Some(satiety_server::http::default_caller_cost()),
                _ => Some(count(&values, "server.caller_cost", 0)?).filter(|units| *units > 0),
            },
            model_calls: match text("server.model_calls") {
                // The built-in model computes the texts of concurrent calls together, on one thread for each processor.
                "auto" => 4 * std::thread::available_parallelism().map_or(1, std::num::NonZero::get),
                _ => size(&values, "server.model_calls")?,
            },
            model_queue: size(&values, "server.model_queue")?,
            connections: size(&values, "server.connections")?,
            connections_per_address: size(&values, "server.connections_per_address")?,
            streams_per_caller: size(&values, "server.streams_per_caller")?,
            mcp_sessions_per_caller: size(&values, "server.mcp_sessions_per_caller")?,
            open_tenants: size(&values, "server.open_tenants")?,
        },
        research_source: text("research.source").into(),
        research_base_url: unless_none("research.base_url"),
        ab: ExperimentSettings {
            auto_graduate: text("ab.auto_graduate") == "true",
            settle: span(&values, "ab.settle_minutes", MINUTES)?,
            ..ExperimentSettings::default()
        },
        hooks_enabled: text("hooks.enabled") == "true",
        hooks: HookPolicy {
            progress: match text("hooks.progress") {
                "off" => ProgressReaction::Off,
                "report" => ProgressReaction::Report,
                "nudge" => ProgressReaction::Nudge,
                _ => ProgressReaction::Stop,
            },
            finish: match text("hooks.finish") {
                "off" => FinishReaction::Off,
                "block" => FinishReaction::Block,
                _ => FinishReaction::Report,
            },
            compaction: text("hooks.compaction") == "true",
            memory_tokens: usize::try_from(count(&values, "hooks.memory_tokens", 0)?).unwrap_or(usize::MAX),
        },
        format: match text("output.format") {
            "json" => Format::Json,
            "markdown" => Format::Markdown,
            "csv" => Format::Csv,
            "html" => Format::Html,
            "sarif" => Format::Sarif,
            "github" => Format::Github,
            _ => Format::Human,
        },
        color: match text("output.color") {
            "always" => ColorChoice::Always,
            "never" => ColorChoice::Never,
            _ => ColorChoice::Auto,
        },
        log_level: text("log.level").into(),
        log_format: if text("log.format") == "json" {
            LogFormat::Json
        } else {
            LogFormat::Text
        },
        traces: unless_none("server.traces"),
        metrics: unless_none("server.metrics"),
        max_query_bytes: max_query_bytes(&values)?,
        attribution: attribution(&values)?,
        values,
        file,
        ignored: None,
        unknown_variables,
    })
}

impl Settings {
    /// Settings that the engine needs.
    pub(crate) fn for_engine(&self) -> satiety_engine::Settings {
        satiety_engine::Settings {
            store: self.store.clone(),
            archive_folder: self.archive_folder.clone(),
            embedder: self.embedder.clone(),
            chat: self.chat.clone(),
            api_key: self.keys.openai.clone(),
            anthropic_key: self.keys.anthropic.clone(),
        }
    }

    /// Creates an engine with these settings, for the project of the working directory or a given one.
    pub(crate) fn engine(&self, project: Option<&str>) -> Result<Engine, Failure> {
        let project = match project.map(scope_named).transpose()? {
            None => Some(current_project()),
            Some(Scope::Project(project)) => Some(project),
            Some(Scope::All | Scope::Global) => {
                return Err(Failure::bad_input(
                    "--project: `all` and `global` are not allowed here",
                    "give a directory such as ./shop, or a project name",
                ));
            }
        };
        let memory = MemorySettings {
            project,
            max_query_bytes: self.max_query_bytes,
            attribution: self.attribution,
            index_directory: etcetera::choose_base_strategy()
                .ok()
                .map(|directories| directories.cache_dir().join("satiety")),
        };
        Ok(Engine::new(self.for_engine())
            .with_store_options(self.store_options.clone())
            .with_experiments(self.ab)
            .with_sandbox(self.sandbox.for_gates())
            .with_hooks(HookSettings {
                regression: self.alert.clone(),
                harness: self.harness.notify.clone(),
                cycle: self.harness.record.then(|| HarnessCycle {
                    folder: self.harness.folder.clone(),
                    driver: self.harness.driver,
                }),
            })
            .with_eviction(EvictionSettings::load(
                self.eviction_prices.as_deref(),
                &self.eviction_provider,
            )?)
            .with_memory(memory))
    }

    /// Builds the engine of the main store, or of the tenant that was named.
    pub(crate) async fn open_engine(&self, project: Option<&str>) -> Result<Engine, Failure> {
        let engine = self.engine(project)?;
        match &self.tenant {
            None => Ok(engine),
            Some(tenant) => Ok(std::sync::Arc::new(engine).tenant(tenant).await?),
        }
    }

    /// Warns about ignored settings of an untrusted file; fails if the command's result would depend on them.
    pub(crate) fn check_trust(&self, command: &Command) -> Result<(), Failure> {
        let Some(ignored) = &self.ignored else {
            return Ok(());
        };
        if matches!(
            command,
            Command::Trust(_) | Command::Config(_) | Command::Doctor { .. }
        ) {
            return Ok(());
        }
        let refused: Vec<&IgnoredSetting> = ignored
            .settings
            .iter()
            .filter(|setting| depends_on(command, setting.name))
            .collect();
        if refused.is_empty() {
            warn(&ignored.to_string());
            return Ok(());
        }
        let flags: Vec<String> = refused
            .iter()
            .filter_map(|setting| Key::named(setting.name))
            .map(|key| {
                let flag = key.flag.map_or_else(String::new, |flag| format!("{flag} or "));
                format!("{flag}{}", key.variable())
            })
            .collect();
        Err(Failure::bad_input(
            ignored.to_string(),
            format!(
                "this command depends on the ignored settings; review the file and run `satiety trust`, \
                 or set {}, or pass the file with --config",
                flags.join(", ")
            ),
        ))
    }

    /// Without this warning a mistyped variable would be silently ignored.
    pub(crate) fn warn_about_unknown_variables(&self) {
        for name in &self.unknown_variables {
            let known: Vec<String> = KEYS.iter().map(Key::variable).collect();
            let suggestion = nearest(name, known.iter().map(String::as_str))
                .map_or_else(String::new, |near| format!("; did you mean `{near}`?"));
            warn(&format!(
                "unknown setting in environment variable `{name}`{suggestion}"
            ));
        }
    }
}

/// Whether a command's result depends on a setting so much that a warning is not enough: another store,
/// another model for stored vectors, another harness, or a server that starts without parts of its
/// configuration.
fn depends_on(command: &Command, name: &str) -> bool {
    let store = name == "store.url";
    match command {
        Command::Demo(_)
        | Command::Gate(_)
        | Command::Config(_)
        | Command::Trust(_)
        | Command::Doctor { .. }
        | Command::Completions { .. }
        | Command::Reference { .. }
        | Command::Progress(_)
        | Command::Watch(_)
        | Command::Sweep(_) => false,
        Command::Score(arguments) => {
            store && arguments.record
                || name == "models.chat" && matches!(arguments.extract, crate::args::ExtractWith::Model)
        }
        Command::Hook(arguments) => {
            store && matches!(arguments.command, Some(crate::args::HookCommand::Status))
        }
        Command::Models(_) | Command::Calibrate(_) => name == "models.embedder",
        Command::Research(_) => store || matches!(name, "research.source" | "research.base_url"),
        Command::Harness(_) => {
            store || name == "harness.driver" || name == "harness.folder" && !harness_is_named()
        }
        Command::Memory(_) | Command::Mcp(_) => {
            store
                || name == "models.embedder"
                || name == "harness.folder" && matches!(command, Command::Mcp(_))
        }
        Command::Evict(_) => store || name == "eviction.prices",
        Command::Db(_) => matches!(name, "store.url" | "store.archive_folder"),
        Command::Retrieval(_)
        | Command::Bench(_)
        | Command::Token(_)
        | Command::Tenant(_)
        | Command::Ab(_) => store,
        // These run unattended, so a warning would go unread.
        Command::Serve(_) | Command::Worker(_) => true,
    }
}

/// Whether `--harness` was given, which overrides the file's setting.
fn harness_is_named() -> bool {
    std::env::args_os().skip(1).any(|argument| {
        argument
            .to_str()
            .is_some_and(|argument| argument == "--harness" || argument.starts_with("--harness="))
    })
}

impl fmt::Display for Ignored {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = printable_path(&self.path);
        match &self.trust_state {
            TrustState::Foreign(reason) => write!(f, "{path} is not trusted: {reason}")?,
            TrustState::Untrusted { changed: true } => write!(f, "{path} has changed since it was trusted")?,
            _ => write!(f, "{path} is not trusted")?,
        }
        f.write_str("; ignored: ")?;
        for (at, setting) in self.settings.iter().enumerate() {
            let comma = if at == 0 { "" } else { ", " };
            write!(f, "{comma}{} (line {})", setting.name, setting.line)?;
        }
        f.write_str(". `satiety trust --show` shows them, `satiety trust` trusts the file")
    }
}

fn attribution(values: &BTreeMap<&'static str, Value>) -> Result<AttributionRule, Failure> {
    let Some(value) = values.get("memory.attribution") else {
        return Ok(AttributionRule::default());
    };
    AttributionRule::named(value.text.trim()).ok_or_else(|| {
        Failure::bad_input(
            format!(
                "{}: memory.attribution: unknown rule `{}` (expected one of: fit, latest)",
                value.origin, value.text
            ),
            "give `fit` or `latest`",
        )
    })
}

fn max_query_bytes(values: &BTreeMap<&'static str, Value>) -> Result<usize, Failure> {
    let Some(value) = values.get("memory.max_query_bytes") else {
        return Ok(0);
    };
    let bytes = value.text.trim().parse::<usize>().ok();
    bytes
        .filter(|bytes| (1..=1 << 20).contains(bytes))
        .ok_or_else(|| {
            Failure::bad_input(
                format!(
                    "{}: memory.max_query_bytes: `{}` is not a number of bytes from 1 to 1048576",
                    value.origin, value.text
                ),
                "give a number such as 16384",
            )
        })
}

/// Unit of time: name, seconds, and the hint for an invalid value.
type Unit = (&'static str, f64, &'static str);
const MINUTES: Unit = ("minutes", 60.0, "give minutes such as 30; 0 does not wait");
const SECONDS: Unit = ("seconds", 1.0, "give seconds such as 60; 0 sets no limit");
const MILLISECONDS: Unit = (
    "milliseconds",
    0.001,
    "give milliseconds such as 1000; 0 disables it",
);
const HOURS: Unit = ("hours", 3600.0, "give hours such as 1 or 0.5; 0 disables it");

/// Parses a setting that is a duration.
fn span(values: &BTreeMap<&'static str, Value>, name: &str, unit: Unit) -> Result<Duration, Failure> {
    let (unit, seconds, hint) = unit;
    let Some(value) = values.get(name) else {
        return Ok(Duration::ZERO);
    };
    let count = value.text.trim().parse::<f64>().ok();
    let count = count.filter(|count| (0.0..=1e6).contains(count)).ok_or_else(|| {
        Failure::bad_input(
            format!(
                "{}: {name}: `{}` is not a number of {unit}",
                value.origin, value.text
            ),
            hint,
        )
    })?;
    Ok(Duration::from_secs_f64(seconds * count))
}

/// Parses a setting that is a whole number of at least `least`.
fn count(values: &BTreeMap<&'static str, Value>, name: &str, least: u64) -> Result<u64, Failure> {
    let Some(value) = values.get(name) else {
        return Ok(least);
    };
    let number = value.text.trim().parse::<u64>().ok();
    number.filter(|number| *number >= least).ok_or_else(|| {
        Failure::bad_input(
            format!(
                "{}: {name}: `{}` is not a whole number of at least {least}",
                value.origin, value.text
            ),
            "run `satiety config show --default` to see the valid values",
        )
    })
}

/// Parses a setting that is a count of at least 1.
fn size(values: &BTreeMap<&'static str, Value>, name: &str) -> Result<usize, Failure> {
    Ok(usize::try_from(count(values, name, 1)?).unwrap_or(usize::MAX))
}

/// Validates a value and stores it, replacing the previous one.
fn set(
    values: &mut BTreeMap<&'static str, Value>,
    key: &'static Key,
    text: &str,
    origin: Origin,
) -> Result<(), Failure> {
    if let Some(objection) = key.objection(text) {
        return Err(Failure::BadInput {
            message: format!("{origin}: {}: {objection}", key.name),
            hint: Some(format!("{} See `satiety config show --default`.", key.about)),
        });
    }
    values.insert(
        key.name,
        Value {
            text: text.to_owned(),
            origin,
        },
    );
    Ok(())
}

fn defaults() -> BTreeMap<&'static str, Value> {
    // Without a home directory everything still works, in the working directory.
    let data = etcetera::choose_base_strategy()
        .map(|directories| directories.data_dir().join("satiety"))
        .unwrap_or_default();
    let mut values = BTreeMap::new();
    for key in KEYS {
        let text = match key.name {
            "store.url" => format!("sqlite:{}", data.join("satiety.db").display()),
            "store.archive_folder" => data.join("archive").display().to_string(),
            _ => key.default.to_owned(),
        };
        values.insert(
            key.name,
            Value {
                text,
                origin: Origin::Default,
            },
        );
    }
    values
}

/// Settings given as flags.
fn typed(cli: &Cli) -> Vec<(&'static str, String)> {
    let global = &cli.global;
    let mut typed = Vec::new();
    let (judging, embedder) = match &cli.command {
        Command::Score(arguments) => {
            if arguments.record {
                typed.push(("dialogue.record", "true".to_owned()));
            }
            (Some(&arguments.judging), None)
        }
        Command::Watch(arguments) => (Some(&arguments.judging), None),
        Command::Sweep(arguments) => (Some(&arguments.judging), None),
        Command::Progress(arguments) => (None, arguments.embedder.clone()),
        Command::Calibrate(arguments) => (None, arguments.embedder.clone()),
        Command::Research(arguments) => {
            if let Some(source) = &arguments.source {
                typed.push(("research.source", source.clone()));
            }
            (None, arguments.embedder.clone())
        }
        Command::Serve(arguments) => {
            typed.extend(
                arguments
                    .listen
                    .map(|address| ("server.listen", address.to_string())),
            );
            let sources = arguments.research_sources.clone();
            typed.extend(sources.map(|sources| ("server.research_sources", sources)));
            for (name, path) in [
                ("server.root", &arguments.root),
                ("server.tls_cert", &arguments.tls_cert),
                ("server.tls_key", &arguments.tls_key),
            ] {
                typed.extend(path.as_ref().map(|path| (name, path.display().to_string())));
            }
            (None, arguments.embedder.clone())
        }
        _ => (None, None),
    };
    if let Some(profile) = judging.and_then(|judging| judging.profile.clone()) {
        typed.push(("dialogue.profile", profile));
    }
    if let Some(embedder) = embedder.or_else(|| judging.and_then(|judging| judging.embedder.clone())) {
        typed.push(("models.embedder", embedder));
    }
    if let Some(url) = &global.db {
        typed.push(("store.url", url.clone()));
    }
    if let Some(format) = global.format.and_then(|format| format.to_possible_value()) {
        typed.push(("output.format", format.get_name().to_owned()));
    }
    if let Some(color) = global.color {
        let word = match color {
            ColorWhen::Auto => "auto",
            ColorWhen::Always => "always",
            ColorWhen::Never => "never",
        };
        typed.push(("output.color", word.to_owned()));
    }
    match global.verbose {
        0 => {}
        1 => typed.push(("log.level", "info".into())),
        2 => typed.push(("log.level", "debug".into())),
        _ => typed.push(("log.level", "trace".into())),
    }
    typed
}

/// Configuration file and whether it was named explicitly: the named one, or the nearest `satiety.toml` in or
/// above the working directory.
fn find_file(
    global: &Global,
    environment: &BTreeMap<String, String>,
) -> Result<Option<(PathBuf, bool)>, Failure> {
    let named = global
        .config
        .clone()
        .or_else(|| environment.get("SATIETY_CONFIG").map(PathBuf::from));
    if let Some(path) = named {
        if !path.is_file() {
            let message = format!("configuration file not found: {}", path.display());
            return Err(Failure::bad_input(
                message,
                "create one with `satiety config show --default > satiety.toml`",
            ));
        }
        return Ok(Some((path, true)));
    }
    Ok(nearest_file().map(|path| (path, false)))
}

/// Nearest `satiety.toml` in or above the working directory.
pub(crate) fn nearest_file() -> Option<PathBuf> {
    let here = std::env::current_dir().unwrap_or_else(|_| Path::new(".").to_path_buf());
    here.ancestors()
        .map(|directory| directory.join("satiety.toml"))
        .find(|path| path.is_file())
}
