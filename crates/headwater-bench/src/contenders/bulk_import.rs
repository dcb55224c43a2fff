//! `headwater append` of a file of JSON lines: the real program, from its start to its end.

use std::env;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Instant;

use anyhow::{Context, bail, ensure};
use async_trait::async_trait;
use tempfile::NamedTempFile;
use tokio::process::Command;

use super::{Contender, Turn};
use crate::payload::{EVENT_TYPE, Payloads};
use crate::server::NAMESPACE;
use crate::stats::Sample;

const EVENTS: u64 = 200_000;

/// The program and the file that it imports.
#[derive(Debug)]
pub(crate) struct BulkImport {
    program: PathBuf,
    file: NamedTempFile,
}

impl BulkImport {
    pub(crate) async fn prepare(payloads: &Payloads) -> anyhow::Result<Self> {
        let program = find_program().await?;
        let mut file = NamedTempFile::with_suffix(".jsonl")?;
        let mut lines = std::io::BufWriter::new(&mut file);
        for number in 0..EVENTS {
            writeln!(lines, r#"{{"type":"{EVENT_TYPE}","data":{}}}"#, payloads.text(number))?;
        }
        lines.flush()?;
        drop(lines);
        Ok(BulkImport { program, file })
    }
}

#[async_trait]
impl Contender for BulkImport {
    fn name(&self) -> &'static str {
        "headwater_bulk_import"
    }

    async fn run(&self, turn: Turn<'_>) -> anyhow::Result<Sample> {
        let head = turn.server.head().await?;
        let started = Instant::now();
        let output = Command::new(&self.program)
            .args(["--database-url", &turn.server.url, "append", "--namespace", NAMESPACE, "--file"])
            .arg(self.file.path())
            .stdin(Stdio::null())
            .output()
            .await
            .with_context(|| format!("failed to run {}", self.program.display()))?;
        let elapsed = started.elapsed();
        if !output.status.success() {
            bail!("{} failed: {}", self.program.display(), String::from_utf8_lossy(&output.stderr));
        }
        let stored = (turn.server.head().await? - head) as u64;
        ensure!(stored == EVENTS, "{EVENTS} events were imported, {stored} are stored");
        Ok(Sample::new(EVENTS, elapsed, Vec::new()))
    }
}

/// Finds `headwater` beside this program. If cargo runs this program, cargo builds `headwater`
/// first.
async fn find_program() -> anyhow::Result<PathBuf> {
    let here = env::current_exe()?;
    let folder = here.parent().context("this program is in no folder")?;
    if let Some(cargo) = env::var_os("CARGO") {
        let mut build = Command::new(cargo);
        build.args(["build", "--quiet", "--package", "headwater-cli"]);
        if let (Some(profile), Some(target)) = (folder.file_name(), folder.parent()) {
            let profile = if profile == "debug" { "dev".as_ref() } else { profile };
            build.arg("--profile").arg(profile).arg("--target-dir").arg(target);
        }
        // Cargo gives its programs a view of the workspace that depends on the caller's folder.
        let status = build.current_dir(Path::new(env!("CARGO_MANIFEST_DIR"))).stdout(Stdio::null()).status().await?;
        ensure!(status.success(), "cargo could not build headwater-cli");
    }
    let program = folder.join(format!("headwater{}", env::consts::EXE_SUFFIX));
    ensure!(
        program.is_file(),
        "there is no {}: build it with `cargo build --release -p headwater-cli`",
        program.display()
    );
    Ok(program)
}
