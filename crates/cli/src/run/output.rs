//! Output: whole lines, never mixed, tagged or filed as the user likes.

use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::io::{ErrorKind, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context;

use super::outcome::Failure;
use super::printer::Printer;
use crate::wire::Stream;

/// Where the bytes of all ranks become lines.
pub struct Output {
    printer: Printer,
    partial: BTreeMap<(u32, Stream), Vec<u8>>,
    tags: Tags,
    files: Option<Files>,
    last_words: HashMap<u32, String>,
    /// A line without its end that was shown already, so that a prompt can be read.
    open_prompt: Option<(u32, Stream)>,
    terminal: bool,
}

/// What each line begins with.
pub struct Tags {
    /// Whether to tag at all.
    pub on: bool,
    /// The host of each rank, if there are several.
    pub hosts: Option<Vec<String>>,
    /// Digits of the highest rank.
    pub width: usize,
}

impl Output {
    /// Output to this process's streams, or to files in `directory`.
    pub fn new(tags: Tags, directory: Option<&Path>) -> anyhow::Result<Self> {
        let files = directory.map(|directory| Files::in_directory(directory, tags.width)).transpose()?;
        Ok(Self {
            printer: Printer::start().context("starting the printer")?,
            partial: BTreeMap::new(),
            tags,
            files,
            last_words: HashMap::new(),
            open_prompt: None,
            terminal: std::io::stdout().is_terminal(),
        })
    }

    /// Takes bytes of a rank and prints the lines they complete.
    pub fn take(&mut self, rank: u32, stream: Stream, bytes: &[u8]) {
        if let Some(files) = &mut self.files {
            if stream == Stream::Err {
                note_last_words(&mut self.last_words, rank, bytes);
            }
            return files.append(rank, stream, bytes);
        }
        let partial = self.partial.entry((rank, stream)).or_default();
        partial.extend_from_slice(bytes);
        let whole = match partial.iter().rposition(|&byte| byte == b'\n') {
            Some(end) => end + 1,
            None if partial.len() > LINE_BYTES_MAX => partial.len(),
            None => return,
        };
        let rest = partial.split_off(whole);
        let lines = std::mem::replace(partial, rest);
        if partial.is_empty() {
            self.partial.remove(&(rank, stream));
        }
        self.print(rank, stream, &lines);
    }

    /// Prints what a rank wrote without ending the line, now that it has ended.
    pub fn end_of(&mut self, rank: u32) {
        for stream in [Stream::Out, Stream::Err] {
            if let Some(mut bytes) = self.partial.remove(&(rank, stream)) {
                if self.tags.on || self.terminal {
                    bytes.push(b'\n');
                }
                self.print(rank, stream, &bytes);
            }
        }
    }

    /// Whether a half line waits that a person may be meant to answer.
    pub fn has_prompt(&self) -> bool {
        self.terminal && !self.tags.on && !self.partial.is_empty()
    }

    /// Shows half a line that has waited for a moment.
    pub fn show_prompt(&mut self) {
        if !self.has_prompt() {
            return;
        }
        if let Some(((rank, stream), bytes)) = self.partial.pop_first() {
            self.print(rank, stream, &bytes);
            self.open_prompt = Some((rank, stream));
        }
    }

    /// A line of the launcher's own.
    pub fn say(&mut self, text: &str) {
        self.close_prompt(None);
        let lines: String = text.lines().map(|line| format!("barewire: {line}\n")).collect();
        self.printer.print(Stream::Err, lines.into_bytes());
    }

    /// The last thing a rank wrote to its standard error.
    pub fn last_words(&self, rank: u32) -> Option<&str> {
        self.last_words.get(&rank).map(String::as_str)
    }

    /// The printer, to ask how it is.
    pub fn printer(&self) -> &Printer {
        &self.printer
    }

    /// What could not be written, if anything.
    pub fn trouble(&self) -> Option<Failure> {
        match self.printer.trouble() {
            Some((_, error)) if error.kind() == ErrorKind::BrokenPipe => Some(Failure::NobodyReads),
            Some((stream, error)) => {
                let name = if *stream == Stream::Out { "output" } else { "error" };
                Some(Failure::Unwritten(format!("standard {name} cannot be written: {error}")))
            }
            None => self.files.as_ref().and_then(|files| files.problem.clone()).map(Failure::Unwritten),
        }
    }

    /// Writes out all that ranks have printed; false if that takes longer than `timeout`.
    pub fn settle(&mut self, timeout: Duration) -> bool {
        let waiting: Vec<u32> = self.partial.keys().map(|(rank, _)| *rank).collect();
        waiting.into_iter().for_each(|rank| self.end_of(rank));
        self.printer.settle(timeout)
    }

    /// Writes out everything, if it can be done in `timeout`.
    pub fn finish(self, timeout: Duration) {
        self.printer.finish(timeout);
    }

    fn print(&mut self, rank: u32, stream: Stream, lines: &[u8]) {
        if stream == Stream::Err {
            note_last_words(&mut self.last_words, rank, lines);
        }
        self.close_prompt(Some((rank, stream)));
        let bytes = if self.tags.on { self.tagged(rank, lines) } else { lines.to_vec() };
        self.printer.print(stream, bytes);
    }

    /// Ends a prompt's line before another rank's begins.
    fn close_prompt(&mut self, next: Option<(u32, Stream)>) {
        if self.open_prompt.take().is_some_and(|open| Some(open) != next) {
            self.printer.print(Stream::Out, b"\n".to_vec());
        }
    }

    fn tagged(&self, rank: u32, lines: &[u8]) -> Vec<u8> {
        let width = self.tags.width;
        let host = self.tags.hosts.as_ref().and_then(|hosts| hosts.get(rank as usize));
        let host = host.map(|host| format!("@{host}")).unwrap_or_default();
        let colour = self.terminal && std::env::var_os("NO_COLOR").is_none();
        let tag = match colour {
            true => format!("\x1b[{}m[{rank:>width$}{host}]\x1b[0m ", 31 + rank % 6),
            false => format!("[{rank:>width$}{host}] "),
        };
        lines
            .split_inclusive(|&byte| byte == b'\n')
            .flat_map(|line| [tag.as_bytes(), line].concat())
            .collect()
    }
}

fn note_last_words(last_words: &mut HashMap<u32, String>, rank: u32, bytes: &[u8]) {
    let mut lines = bytes.split(|&byte| byte == b'\n').rev();
    let Some(line) = lines.find(|line| !line.trim_ascii().is_empty()) else { return };
    let text = String::from_utf8_lossy(line.trim_ascii());
    let printable = text.chars().map(|c| if c.is_control() { ' ' } else { c });
    last_words.insert(rank, printable.take(WORDS_MAX).collect());
}

/// A file for each stream of each rank.
struct Files {
    directory: PathBuf,
    width: usize,
    open: HashMap<(u32, Stream), File>,
    /// The first thing that could not be written, in words.
    problem: Option<String>,
}

impl Files {
    fn in_directory(directory: &Path, width: usize) -> anyhow::Result<Self> {
        std::fs::create_dir_all(directory)
            .with_context(|| format!("--output-dir {}: cannot make it", directory.display()))?;
        Ok(Self { directory: directory.to_owned(), width, open: HashMap::new(), problem: None })
    }

    fn append(&mut self, rank: u32, stream: Stream, bytes: &[u8]) {
        if let Err(error) = self.try_append(rank, stream, bytes) {
            let path = self.path(rank, stream);
            self.problem.get_or_insert_with(|| {
                format!("--output-dir: {} cannot be written: {error}", path.display())
            });
        }
    }

    fn try_append(&mut self, rank: u32, stream: Stream, bytes: &[u8]) -> std::io::Result<()> {
        if let Some(file) = self.open.get_mut(&(rank, stream)) {
            return file.write_all(bytes);
        }
        let mut file = File::create(self.path(rank, stream))?;
        file.write_all(bytes)?;
        self.open.insert((rank, stream), file);
        Ok(())
    }

    fn path(&self, rank: u32, stream: Stream) -> PathBuf {
        let end = if stream == Stream::Out { "out" } else { "err" };
        self.directory.join(format!("rank.{rank:0width$}.{end}", width = self.width))
    }
}

/// A line longer than this is printed in pieces.
const LINE_BYTES_MAX: usize = 1 << 20;
/// Most characters of a rank's last words.
const WORDS_MAX: usize = 200;
