//! The README's picture: what `satiety score` prints for a bundled example, as SVG for light and dark pages.

use std::fmt::Write;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};

/// The command of the picture, as a reader would type it.
const ARGUMENTS: [&str; 2] = ["score", "examples/calibration/two-agents-converge.json"];
const LINE_HEIGHT: usize = 20;
/// Width of a character in tenths of a pixel.
const CHARACTER_WIDTH: usize = 84;
const MARGIN: usize = 20;

/// Colours of a page: background, text, dimmed, good, warning, bad.
struct Theme {
    name: &'static str,
    colours: [&'static str; 6],
}

const THEMES: [Theme; 2] = [
    Theme {
        name: "light",
        colours: ["#f6f8fa", "#1f2328", "#59636e", "#1a7f37", "#9a6700", "#cf222e"],
    },
    Theme {
        name: "dark",
        colours: ["#151b23", "#f0f6fc", "#9198a1", "#3fb950", "#d29922", "#f85149"],
    },
];

/// Runs the program and returns the pictures by file name.
pub fn pictures(program: &Path, root: &Path) -> Result<Vec<(String, String)>> {
    let output = Command::new(program)
        .args(ARGUMENTS)
        .args(["--color", "always"])
        .current_dir(root)
        // The picture shows the program as it comes, whatever is configured on this machine.
        .env_clear()
        .envs(std::env::var_os("PATH").map(|path| ("PATH", path)))
        .env("HOME", root.join("target"))
        .output()
        .with_context(|| format!("cannot start {}", program.display()))?;
    if !output.status.success() {
        bail!(
            "satiety score failed: {}",
            String::from_utf8_lossy(&output.stderr)
        );
    }
    let printed = String::from_utf8(output.stdout)?;
    Ok(THEMES
        .iter()
        .map(|theme| (format!("score-{}.svg", theme.name), svg(&printed, theme)))
        .collect())
}

fn svg(printed: &str, theme: &Theme) -> String {
    let prompt = format!("$ satiety {}", ARGUMENTS.join(" "));
    let lines: Vec<&str> = std::iter::once(prompt.as_str())
        .chain(printed.trim_end().lines())
        .collect();
    let columns = lines.iter().map(|line| plain_length(line)).max().unwrap_or(0);
    let width = columns * CHARACTER_WIDTH / 10 + 2 * MARGIN;
    let height = lines.len() * LINE_HEIGHT + 2 * MARGIN;
    let [background, text, ..] = theme.colours;
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" viewBox=\"0 0 {width} {height}\" \
         role=\"img\" aria-label=\"Output of satiety score\">\n\
         <rect width=\"100%\" height=\"100%\" rx=\"8\" fill=\"{background}\"/>\n\
         <g font-family=\"ui-monospace, SFMono-Regular, Menlo, Consolas, monospace\" font-size=\"14\" fill=\"{text}\">\n"
    );
    for (index, line) in lines.iter().enumerate() {
        let y = MARGIN + index * LINE_HEIGHT + 14;
        let _ = writeln!(
            out,
            "<text x=\"{MARGIN}\" y=\"{y}\">{}</text>",
            spans(line, theme)
        );
    }
    out.push_str("</g>\n</svg>\n");
    out
}

/// A line with terminal colours as SVG text.
fn spans(line: &str, theme: &Theme) -> String {
    let [_, _, dimmed, good, warning, bad] = theme.colours;
    let (mut bold, mut colour) = (false, None);
    let mut out = String::new();
    for (index, part) in line.split("\u{1b}[").enumerate() {
        let text = match (index, part.split_once('m')) {
            (0, _) | (_, None) => part,
            (_, Some((code, text))) => {
                match code {
                    "1" => bold = true,
                    "2" => colour = Some(dimmed),
                    "31" => colour = Some(bad),
                    "32" => colour = Some(good),
                    "33" => colour = Some(warning),
                    "39" => colour = None,
                    _ => (bold, colour) = (false, None),
                }
                text
            }
        };
        if text.is_empty() {
            continue;
        }
        let escaped = text
            .replace('&', "&amp;")
            .replace('<', "&lt;")
            .replace('>', "&gt;");
        // Browsers collapse ordinary spaces in SVG text.
        let escaped = escaped.replace(' ', "\u{a0}");
        let weight = if bold { " font-weight=\"bold\"" } else { "" };
        let fill = colour
            .map(|colour| format!(" fill=\"{colour}\""))
            .unwrap_or_default();
        let _ = write!(out, "<tspan{weight}{fill}>{escaped}</tspan>");
    }
    out
}

fn plain_length(line: &str) -> usize {
    line.split("\u{1b}[")
        .enumerate()
        .map(|(index, part)| match part.split_once('m') {
            Some((_, text)) if index > 0 => text.chars().count(),
            _ => part.chars().count(),
        })
        .sum()
}
