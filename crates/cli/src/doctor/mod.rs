//! `barewire doctor`: looks for what hurts people, says what it means and what to type.

mod checks;
mod network;

use std::process::ExitCode;

pub use network::{ProbeOptions, probe};

/// Options of `barewire doctor`.
#[derive(Debug, clap::Args)]
pub struct DoctorOptions {
    /// Look at the way between these hosts, too
    #[arg(long, value_name = "HOST,…")]
    hosts: Option<String>,
    /// How to reach them, as for `run`
    #[arg(long, value_name = "COMMAND")]
    remote_shell: Option<String>,
    /// Show what is fine, too
    #[arg(short, long)]
    verbose: bool,
}

/// What a check found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// What was looked at.
    pub what: String,
    /// What is there.
    pub state: String,
    /// Whether that hurts.
    pub verdict: Verdict,
    /// What it means, and what to type.
    pub advice: String,
}

/// How a finding is to be taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// As it should be.
    Fine,
    /// Works, and could be better.
    Note,
    /// Will hurt.
    Problem,
}

impl Finding {
    fn fine(what: &str, state: impl Into<String>) -> Self {
        Self { what: what.into(), state: state.into(), verdict: Verdict::Fine, advice: String::new() }
    }

    fn note(what: &str, state: impl Into<String>, advice: impl Into<String>) -> Self {
        Self { what: what.into(), state: state.into(), verdict: Verdict::Note, advice: advice.into() }
    }

    fn problem(what: &str, state: impl Into<String>, advice: impl Into<String>) -> Self {
        Self { what: what.into(), state: state.into(), verdict: Verdict::Problem, advice: advice.into() }
    }
}

/// Looks at everything; the status is 1 if something will hurt.
pub fn run(options: &DoctorOptions) -> anyhow::Result<ExitCode> {
    let findings = checks::all();
    let mut problems = 0;
    let mut fine = 0;
    for finding in &findings {
        let mark = match finding.verdict {
            Verdict::Fine => {
                fine += 1;
                if !options.verbose {
                    continue;
                }
                "ok"
            }
            Verdict::Note => "note",
            Verdict::Problem => {
                problems += 1;
                "PROBLEM"
            }
        };
        println!("{mark:<8} {}: {}", finding.what, finding.state);
        if !finding.advice.is_empty() {
            println!("         {}", finding.advice);
        }
    }
    let hidden = if options.verbose { "" } else { " (shown by --verbose)" };
    println!("{fine} of {} checks are fine{hidden}", findings.len());
    if let Some(hosts) = &options.hosts {
        let reached = network::between(hosts, options.remote_shell.as_deref())?;
        problems += usize::from(!reached);
    }
    Ok(if problems == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
