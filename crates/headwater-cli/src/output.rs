//! Standard output: buffered, and without an error when its reader goes away.

use std::fmt::Display;
use std::io::{BufWriter, IsTerminal, Stdout, Write};

use serde::Serialize;

use crate::failure::{Failure, output_failed};

pub(crate) struct Output {
    stdout: BufWriter<Stdout>,
}

impl Output {
    pub(crate) fn new() -> Self {
        Output { stdout: BufWriter::with_capacity(64 * 1024, std::io::stdout()) }
    }

    pub(crate) fn line(&mut self, text: impl Display) -> Result<(), Failure> {
        writeln!(self.stdout, "{text}").map_err(output_failed)
    }

    /// Writes one line of JSON.
    pub(crate) fn json(&mut self, value: &impl Serialize) -> Result<(), Failure> {
        serde_json::to_writer(&mut self.stdout, value).map_err(|error| output_failed(error.into()))?;
        self.stdout.write_all(b"\n").map_err(output_failed)
    }

    /// Writes one line of JSON: a value, with the namespace that it belongs to.
    ///
    /// The value goes to the output as it is. `json!` would parse the payloads in it, and fail for
    /// numbers that an f64 cannot hold.
    pub(crate) fn json_of(&mut self, namespace: &str, value: &impl Serialize) -> Result<(), Failure> {
        #[derive(Serialize)]
        struct Line<'l, T> {
            namespace: &'l str,
            #[serde(flatten)]
            value: &'l T,
        }
        self.json(&Line { namespace, value })
    }

    /// Writes rows with aligned columns. The first row is the heading.
    pub(crate) fn table<const N: usize>(&mut self, rows: &[[String; N]]) -> Result<(), Failure> {
        let widths: [usize; N] =
            std::array::from_fn(|column| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0));
        for row in rows {
            let cells = row.iter().zip(widths).map(|(cell, width)| format!("{cell:<width$}"));
            self.line(cells.collect::<Vec<_>>().join("  ").trim_end())?;
        }
        Ok(())
    }

    /// Flushes what was written so far.
    pub(crate) fn flush(&mut self) -> Result<(), Failure> {
        self.stdout.flush().map_err(output_failed)
    }

    /// Flushes what was written. Without this call, an error at the end would go unnoticed.
    pub(crate) fn finish(mut self) -> Result<(), Failure> {
        self.stdout.flush().map_err(output_failed)
    }
}

/// Returns the width of the terminal. Returns `None` if the output is not a terminal: then nothing
/// should be cut.
pub(crate) fn width() -> Option<usize> {
    let stdout = std::io::stdout();
    if !stdout.is_terminal() {
        return None;
    }
    terminal_size::terminal_size_of(stdout).map(|(width, _)| width.0.into())
}

/// Makes text from other people harmless in a terminal. JSON and names may contain control
/// characters, which could move the cursor or do worse.
pub(crate) fn printable(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { char::REPLACEMENT_CHARACTER } else { c }).collect()
}

/// Cuts a line of text to at most `room` characters.
pub(crate) fn shortened(text: &str, room: usize) -> String {
    match text.char_indices().nth(room) {
        Some(_) => text.chars().take(room.saturating_sub(1)).chain(['…']).collect(),
        None => text.into(),
    }
}

/// Formats a number with its noun, in the plural if needed.
pub(crate) fn plural(number: u64, one: &str) -> String {
    if number == 1 { format!("1 {one}") } else { format!("{} {one}s", grouped(number)) }
}

/// Formats a number with separators between the thousands.
pub(crate) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_grouped_by_thousands() {
        assert_eq!([0, 999, 1_000, 1_234_567].map(grouped), ["0", "999", "1,000", "1,234,567"]);
    }

    #[test]
    fn escapes_do_not_reach_the_terminal() {
        assert_eq!(printable("a\u{1b}[31mb\u{9b}é"), "a\u{fffd}[31mb\u{fffd}é");
    }
}
