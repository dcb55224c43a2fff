//! Runs a command beside a disposable PostgreSQL server: `headwater-test-server -- CMD ARGS…`.
//!
//! The command finds the server in `HEADWATER_TEST_URL`, its data folder in `HEADWATER_TEST_DATA`
//! and its binaries in `HEADWATER_PG_BIN`. When the command ends, the server is removed, and this
//! program ends with the same status. Ctrl-C, SIGTERM and SIGHUP are passed on to the command, and
//! this program waits for it.

use std::env;
use std::error::Error;
use std::ffi::OsString;
use std::io::{IsTerminal, stdin};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, ExitCode, ExitStatus};
use std::time::Instant;

use headwater_embedded::Server;
use rustix::process::{Pid, Signal, kill_process};
use signal_hook::consts::{SIGCHLD, SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

const USAGE: &str = "usage: headwater-test-server -- CMD ARGS…";
const USAGE_ERROR: u8 = 2;
const FAILED: u8 = 125;

fn main() -> ExitCode {
    let mut args = env::args_os().skip(1);
    let (Some(dashes), Some(program)) = (args.next(), args.next()) else {
        eprintln!("{USAGE}");
        return ExitCode::from(USAGE_ERROR);
    };
    if dashes != "--" {
        eprintln!("{USAGE}");
        return ExitCode::from(USAGE_ERROR);
    }
    match run(program, args.collect()) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("headwater-test-server: {error}");
            ExitCode::from(FAILED)
        }
    }
}

fn run(program: OsString, args: Vec<OsString>) -> Result<ExitCode, Box<dyn Error>> {
    let mut signals = Signals::new([SIGCHLD, SIGHUP, SIGINT, SIGTERM])?;
    let before = Instant::now();
    let mut server = Server::builder()
        .setting("max_connections", "400")
        .setting("max_prepared_transactions", "64")
        .setting("shared_buffers", "256MB")
        .start()?;
    eprintln!(
        "headwater-test-server: PostgreSQL {} on port {}, started in {:.1} s",
        server.version(),
        server.port(),
        before.elapsed().as_secs_f32()
    );
    if let Some(signal) = signals.pending().find(|signal| *signal != SIGCHLD) {
        return Ok(ExitCode::from(128 + u8::try_from(signal)?));
    }
    let mut command = Command::new(&program)
        .args(args)
        .env("HEADWATER_TEST_URL", server.url("postgres"))
        .env("HEADWATER_TEST_DATA", server.data_dir())
        .env("HEADWATER_PG_BIN", server.bin_dir())
        .spawn()
        .map_err(|error| format!("failed to run {}: {error}", program.display()))?;
    let status = wait(&mut command, &mut signals)?;
    if !server.is_running() {
        eprintln!("headwater-test-server: the server died; its log ends with:\n{}", server.log_tail(30));
    }
    Ok(ExitCode::from(code_of(status)))
}

fn wait(command: &mut Child, signals: &mut Signals) -> Result<ExitStatus, Box<dyn Error>> {
    // The command may have ended before its SIGCHLD could be told from the others.
    if let Some(status) = command.try_wait()? {
        return Ok(status);
    }
    for signal in signals.forever() {
        if let Some(status) = command.try_wait()? {
            return Ok(status);
        }
        let signal = match signal {
            SIGTERM => Signal::TERM,
            SIGHUP => Signal::HUP,
            // The terminal has sent Ctrl-C to the command as well. To many programs a second one
            // means "now!".
            SIGINT if !stdin().is_terminal() => Signal::INT,
            _ => continue,
        };
        kill_process(Pid::from_child(command), signal)?;
    }
    Err("the signals ended".into())
}

/// Returns the exit code as a shell reports it.
fn code_of(status: ExitStatus) -> u8 {
    let code = status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or_default());
    u8::try_from(code).unwrap_or(u8::MAX)
}
