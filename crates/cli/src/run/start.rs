//! Starting agents: beside us for this host, through a remote shell for the others.

use std::ffi::{OsStr, OsString};
use std::io::Write;
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, bail};
use barewire_core::boot::{Link, hex};
use barewire_core::job::JobKey;
use barewire_sys::spawn::{Setup, prepare};
use rustix::process::Signal;

use crate::shell;
use crate::wire::BODY_BYTES_MAX;

/// Starts the agent of this host; returns its process and the line to it.
pub fn local() -> anyhow::Result<(u32, Link)> {
    let (ours, theirs) = UnixStream::pair().context("making a socket")?;
    let theirs = OwnedFd::from(theirs);
    let mut command = Command::new("/proc/self/exe");
    command.arg0("barewire").arg("agent").arg("--fd").arg(theirs.as_raw_fd().to_string());
    command.stdin(Stdio::null()).stdout(Stdio::null()).process_group(0);
    // Terminated, not killed: an agent that is asked to end still sees to its ranks.
    prepare(&mut command, Setup { death_signal: Some(Signal::TERM), keep: vec![theirs], cpus: None });
    let child = command.spawn().context("starting the agent of this host")?;
    Ok((child.id(), Link::new(ours.into(), BODY_BYTES_MAX)))
}

/// How to start agents on other hosts.
pub struct Remote {
    shell: Vec<String>,
    program: PathBuf,
    connect: String,
    key: JobKey,
}

/// An agent that was started and has not called yet.
pub struct Called {
    /// The remote shell's process.
    pub pid: u32,
    /// What it complains about.
    pub complaints: OwnedFd,
    /// What was typed, for people.
    pub line: String,
}

impl Remote {
    /// Agents started by `shell`, which call back at one of `addresses`.
    pub fn new(
        shell: &str,
        program: Option<&Path>,
        addresses: &[SocketAddr],
        key: JobKey,
    ) -> anyhow::Result<Self> {
        let mut words = split_words(shell).with_context(|| format!("--remote-shell {shell:?}"))?;
        if words.is_empty() {
            bail!("--remote-shell is empty; write a command such as `ssh` or `ip netns exec {{host}}`");
        }
        if !words.iter().any(|word| word.contains("{host}")) {
            words.push("{host}".into());
        }
        let here = std::env::current_exe().context("where this program is")?;
        let program = program.map_or(here, Path::to_owned);
        let connect = addresses.iter().map(ToString::to_string).collect::<Vec<_>>().join(",");
        Ok(Self { shell: words, program, connect, key })
    }

    /// Where the agent's program is there.
    pub fn program(&self) -> &Path {
        &self.program
    }

    /// Starts the agent of one host.
    pub fn start(&self, index: u32, host: &str) -> anyhow::Result<Called> {
        let mut words: Vec<OsString> =
            self.shell.iter().map(|word| word.replace("{host}", host).into()).collect();
        let agent: [OsString; 6] = [
            self.program.clone().into(),
            "agent".into(),
            "--connect".into(),
            self.connect.clone().into(),
            "--host".into(),
            index.to_string().into(),
        ];
        let joins = self.joins_words();
        words.extend(agent.into_iter().map(|word| if joins { shell::quoted(&word) } else { word }));
        let line = shell::line(&words);
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
        command.process_group(0);
        prepare(&mut command, Setup { death_signal: Some(Signal::TERM), ..Setup::default() });
        let mut child = command.spawn().with_context(|| format!("cannot run the remote shell: {line}"))?;
        let mut stdin = child.stdin.take().context("the remote shell's input")?;
        // A shell that ends before it reads says why on its standard error.
        let _ = writeln!(stdin, "{}", hex::encode(&self.key.0));
        let complaints = OwnedFd::from(child.stderr.take().context("the remote shell's output")?);
        rustix::io::ioctl_fionbio(&complaints, true).context("the remote shell's output")?;
        Ok(Called { pid: child.id(), complaints, line })
    }

    /// Whether it joins its words and hands them to a shell on the other side, as ssh does.
    fn joins_words(&self) -> bool {
        let name = |word: &String| Path::new(word).file_name().and_then(OsStr::to_str).map(str::to_owned);
        self.shell.iter().filter_map(name).any(|name| ["ssh", "rsh", "autossh"].contains(&name.as_str()))
    }
}

/// Words as a shell separates them: quotes and backslashes keep blanks.
fn split_words(text: &str) -> anyhow::Result<Vec<String>> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote = None;
    let mut letters = text.chars();
    while let Some(letter) = letters.next() {
        match (quote, letter) {
            (Some(open), letter) if letter == open => quote = None,
            (None, '\'' | '"') => {
                quote = Some(letter);
                word.get_or_insert_default();
            }
            (None | Some('"'), '\\') => match letters.next() {
                Some(escaped) => word.get_or_insert_default().push(escaped),
                None => bail!("it ends with a backslash"),
            },
            (None, blank) if blank.is_whitespace() => words.extend(word.take()),
            (_, letter) => word.get_or_insert_default().push(letter),
        }
    }
    if quote.is_some() {
        bail!("a quote is not closed");
    }
    words.extend(word);
    Ok(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_split_as_a_shell_does() {
        assert_eq!(
            split_words(r#"ssh  -o 'A B' "c\"d" e\ f ''"#).unwrap(),
            ["ssh", "-o", "A B", "c\"d", "e f", ""]
        );
        assert!(split_words("a 'b").is_err());
        assert!(split_words("a\\").is_err());
    }

    #[test]
    fn what_hands_its_words_to_a_shell_is_known_wherever_it_stands() {
        let joins = |shell: &str| Remote::new(shell, None, &[], JobKey([0; 32])).unwrap().joins_words();
        assert!(joins("ssh") && joins("/usr/bin/ssh -p 22 {host}") && joins("sshpass -f file ssh {host}"));
        assert!(!joins("ip netns exec {host}") && !joins("docker exec -i {host}"));
    }
}
