//! Facts about the machine and the commit, without which a measurement cannot be repeated. Linux only; what
//! cannot be read is called unknown.

use std::path::Path;
use std::process::Command;

/// Instruction sets that the programs choose between.
const FLAGS: [&str; 9] = [
    "sse4_2",
    "avx2",
    "fma",
    "avx_vnni",
    "avx512f",
    "avx512bw",
    "avx512_vnni",
    "asimd",
    "asimddp",
];

pub(super) fn describe() -> String {
    let info = fs_err::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let field = |name: &str| {
        info.lines()
            .find(|line| line.starts_with(name))
            .and_then(|line| line.split_once(':'))
            .map(|(_, value)| value.trim().to_owned())
    };
    let all = field("flags").or_else(|| field("Features")).unwrap_or_default();
    let flags: Vec<&str> = FLAGS
        .into_iter()
        .filter(|flag| all.split(' ').any(|own| own == *flag))
        .collect();
    let cores = std::thread::available_parallelism().map_or(0, std::num::NonZeroUsize::get);
    format!(
        "processor: {}, {cores} cores available; {}\nmemory: {}\nsystem: {}\nload: {}\ncommit: {}\ncompiler: {}\n",
        field("model name").unwrap_or_else(|| "unknown".to_owned()),
        if flags.is_empty() {
            "instruction sets unknown".to_owned()
        } else {
            flags.join(" ")
        },
        memory(),
        first_line("uname", &["-sr"]),
        load(),
        commit(),
        first_line("rustc", &["--version"]),
    )
}

/// Load average, which says whether other programs disturbed the measurement.
pub(super) fn load() -> String {
    let text = fs_err::read_to_string("/proc/loadavg").unwrap_or_default();
    let values: Vec<&str> = text.split_whitespace().take(3).collect();
    match values[..] {
        [one, five, fifteen] => format!("load average {one} {five} {fifteen} (1, 5, 15 minutes)"),
        _ => "load average unknown".to_owned(),
    }
}

fn memory() -> String {
    let text = fs_err::read_to_string("/proc/meminfo").unwrap_or_default();
    let kilobytes = text
        .lines()
        .find_map(|line| line.strip_prefix("MemTotal:"))
        .and_then(|value| value.trim().trim_end_matches(" kB").parse::<f64>().ok());
    kilobytes.map_or_else(|| "unknown".to_owned(), |size| format!("{:.1} GB", size / 1e6))
}

fn commit() -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let git = |arguments: &[&str]| {
        let output = Command::new("git")
            .arg("-C")
            .arg(root)
            .args(arguments)
            .output()
            .ok()?;
        let text = String::from_utf8_lossy(&output.stdout).trim().to_owned();
        output.status.success().then_some(text)
    };
    match git(&["rev-parse", "HEAD"]) {
        Some(commit) => match git(&["status", "--porcelain", "--untracked-files=no"]) {
            Some(changes) if changes.is_empty() => commit,
            _ => format!("{commit}, with changes"),
        },
        None => "unknown".to_owned(),
    }
}

fn first_line(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).output();
    output
        .ok()
        .and_then(|output| Some(String::from_utf8_lossy(&output.stdout).lines().next()?.to_owned()))
        .unwrap_or_else(|| "unknown".to_owned())
}
