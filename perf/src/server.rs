//! A server that a measurement starts and stops.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};

use anyhow::{Context as _, Result, bail};
use serde_json::Value;

/// Process that is killed on drop.
#[derive(Debug)]
pub struct Server {
    pub child: Child,
    pub url: String,
}

impl Server {
    /// Starts `satiety --format json serve` with more options, and waits for its address.
    pub fn start(mut command: Command) -> Result<Self> {
        let mut child = command.stdout(Stdio::piped()).spawn().with_context(|| {
            format!(
                "cannot start {}; build it with `cargo build --release`",
                command.get_program().display()
            )
        })?;
        let stdout = child.stdout.take().context("no stdout")?;
        let mut text = String::new();
        for line in BufReader::new(stdout).lines() {
            text.push_str(&line?);
            if let Ok(started) = serde_json::from_str::<Value>(&text) {
                let url = started["url"].as_str().context("no url")?.to_owned();
                return Ok(Self { child, url });
            }
        }
        bail!("the server did not report its address: {text}")
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
