//! What `barewire run` can be told. Help, man page and completions come from here.

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;

use clap::builder::{EnumValueParser, PossibleValue, TypedValueParser};
use clap::error::ErrorKind;

use crate::agent::Bind;

/// Options of `barewire run`, and of `mpirun` and `mpiexec`.
#[derive(Debug, Clone, clap::Args)]
#[command(after_long_help = EXAMPLES)]
pub struct RunOptions {
    /// Number of ranks [default: one a slot]
    #[arg(short = 'n', long = "ranks", aliases = ["np", "n", "c"], short_alias = 'c', value_name = "N", value_parser = parse_ranks, allow_negative_numbers = true)]
    pub ranks: Option<u32>,

    /// Hosts and their slots: a:4,b:4 (a host without a number has one slot)
    #[arg(long, aliases = ["host", "H"], short_alias = 'H', value_name = "HOST[:SLOTS],…", help_heading = HOSTS)]
    pub hosts: Option<String>,
    /// File of hosts: one a line, `name`, `name:4` or `name slots=4`; # starts a comment
    #[arg(long, aliases = ["machinefile", "f"], short = 'f', value_name = "FILE", conflicts_with = "hosts", help_heading = HOSTS)]
    pub hostfile: Option<PathBuf>,
    /// Ranks on each host, whatever its slots
    #[arg(long, aliases = ["ppn", "perhost", "npernode", "N"], short_alias = 'N', value_name = "K", help_heading = HOSTS)]
    pub per_host: Option<u32>,
    /// How ranks are dealt out: fill a host's slots first, or one host after the other
    #[arg(long, value_name = "HOW", default_value = "slot", help_heading = HOSTS)]
    pub map_by: MapBy,
    /// Command that runs a command on another host; {host} is replaced, or the host is appended
    #[arg(long, aliases = ["launcher-exec", "rsh"], value_name = "COMMAND", default_value = SSH, help_heading = HOSTS)]
    pub remote_shell: String,
    /// Where this program is on the other hosts [default: where it is here]
    #[arg(long, value_name = "PATH", help_heading = HOSTS)]
    pub remote_program: Option<PathBuf>,
    /// Most agents that one process starts: with more hosts, agents start others
    #[arg(long, value_name = "K", default_value = "32", value_parser = clap::value_parser!(u32).range(1..), help_heading = HOSTS)]
    pub fan_out: u32,
    /// Network interface to use between hosts
    #[arg(long, aliases = ["iface"], value_name = "NAME", help_heading = HOSTS)]
    pub interface: Option<String>,
    /// Ports to listen on
    #[arg(long, value_name = "FIRST-LAST", help_heading = HOSTS)]
    pub port_range: Option<PortRange>,

    /// Set a variable, or pass this process's value on (repeatable)
    #[arg(short = 'x', value_name = "NAME[=VALUE]", help_heading = PROGRAM)]
    pub export: Vec<String>,
    /// Set a variable for this program (repeatable)
    #[arg(long, num_args = 2, value_names = ["NAME", "VALUE"], help_heading = PROGRAM)]
    pub env: Vec<String>,
    /// Set a variable for all programs (repeatable)
    #[arg(long, num_args = 2, value_names = ["NAME", "VALUE"], help_heading = PROGRAM)]
    pub genv: Vec<String>,
    /// Give programs these variables only
    #[arg(long, aliases = ["envlist"], value_delimiter = ',', value_name = "NAME,…", help_heading = PROGRAM)]
    pub genvlist: Option<Vec<String>>,
    /// Give programs no variables but those set here
    #[arg(long, aliases = ["envnone"], help_heading = PROGRAM)]
    pub genvnone: bool,
    /// Directory the ranks run in [default: this one]
    #[arg(long, aliases = ["wd", "dir", "chdir"], value_name = "DIR", help_heading = PROGRAM)]
    pub wdir: Option<PathBuf>,
    /// Rank that reads standard input, or `none`
    #[arg(long, value_name = "RANK", default_value = "0", help_heading = PROGRAM)]
    pub stdin: InputTo,

    /// Bind ranks to processors
    #[arg(long, value_name = "WHAT", default_value = "none", ignore_case = true, value_parser = BindParser, help_heading = PLACEMENT)]
    pub bind_to: Bind,
    /// Draw which rank may run on which processor
    #[arg(long, help_heading = PLACEMENT)]
    pub report_bindings: bool,
    /// Say which rank runs where and over which wire each pair talks, then start
    #[arg(long, help_heading = PLACEMENT)]
    pub explain: bool,

    /// Begin each line with its rank
    #[arg(long, aliases = ["prepend-rank", "l"], short_alias = 'l', help_heading = OUTPUT)]
    pub tag_output: bool,
    /// Write output to DIR/rank.N.out and DIR/rank.N.err instead
    #[arg(long, aliases = ["output-filename", "outfile-pattern"], value_name = "DIR", help_heading = OUTPUT)]
    pub output_dir: Option<PathBuf>,
    /// No summary, no progress: only what the ranks print
    #[arg(short, long, help_heading = OUTPUT)]
    pub quiet: bool,

    /// End the job after so many seconds, and say what every rank was doing
    #[arg(long, value_name = "SECONDS", value_parser = parse_timeout, help_heading = ENDING)]
    pub timeout: Option<std::time::Duration>,
    /// Let the other ranks go on when one fails
    #[arg(long, aliases = ["disable-auto-cleanup", "continuous", "enable-recovery"], help_heading = ENDING)]
    pub keep_going: bool,
    /// Seconds between asking ranks to end and killing them
    #[arg(long, value_name = "SECONDS", default_value = "2", value_parser = parse_seconds, help_heading = ENDING)]
    pub kill_after: std::time::Duration,

    /// Accepted and not needed: more ranks than cores are always allowed
    #[arg(long, hide = true)]
    pub oversubscribe: bool,
    /// Accepted and not needed: root is always allowed
    #[arg(long, hide = true)]
    pub allow_run_as_root: bool,
    /// Accepted and not needed: programs get this process's variables
    #[arg(long, aliases = ["envall"], hide = true)]
    pub genvall: bool,
    /// Accepted and ignored: a setting of another MPI
    #[arg(long, aliases = ["gmca"], num_args = 2, hide = true)]
    pub mca: Vec<String>,

    /// The program and its arguments; `: [-n N] program …` adds further programs
    #[arg(required = true, trailing_var_arg = true, value_name = "PROGRAM")]
    pub program: Vec<OsString>,
}

/// Options that belong to one program of several.
pub const OF_ONE_PROGRAM: &[&str] = &["ranks", "export", "env", "wdir", "program"];

/// How ranks are dealt out to hosts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum MapBy {
    /// Fill a host's slots, then go to the next
    #[value(alias = "core")]
    Slot,
    /// One rank a host, round and round
    #[value(alias = "host")]
    Node,
}

/// Which rank reads the launcher's input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InputTo(pub Option<u32>);

impl std::str::FromStr for InputTo {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "none" => Ok(Self(None)),
            rank => rank.parse().map(|rank| Self(Some(rank))).map_err(|_| "expected a rank or `none`".into()),
        }
    }
}

/// A range of ports, both ends included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PortRange {
    /// The lowest.
    pub first: u16,
    /// The highest.
    pub last: u16,
}

impl std::str::FromStr for PortRange {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let (first, last) = text.split_once(['-', ':']).unwrap_or((text, text));
        match (first.parse(), last.parse()) {
            (Ok(first), Ok(last)) if 0 < first && first <= last => Ok(Self { first, last }),
            _ => Err("expected two ports, such as 40000-40100".into()),
        }
    }
}

impl std::fmt::Display for PortRange {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}-{}", self.first, self.last)
    }
}

/// A number of ranks; nought is refused later, with the other numbers that make no sense together.
fn parse_ranks(text: &str) -> Result<u32, String> {
    text.parse().map_err(|_| "expected a number of ranks from 1 up, such as -n 4".into())
}

/// A number of seconds, with or without a fraction or a trailing `s`.
fn parse_seconds(text: &str) -> Result<std::time::Duration, String> {
    let seconds: f64 =
        text.trim_end_matches('s').parse().map_err(|_| "expected seconds, such as 30 or 0.5")?;
    std::time::Duration::try_from_secs_f64(seconds)
        .ok()
        .filter(|duration| *duration <= SECONDS_MAX)
        .ok_or_else(|| format!("expected a number of seconds from 0 to {}", SECONDS_MAX.as_secs()))
}

/// Seconds for a whole job, which needs some.
fn parse_timeout(text: &str) -> Result<std::time::Duration, String> {
    match parse_seconds(text)? {
        std::time::Duration::ZERO => {
            Err("no job ends in no time; without --timeout there is no limit".into())
        }
        some => Ok(some),
    }
}

/// Reads what ranks are bound to, and after colons what other launchers would have to be told, and holds here anyway.
#[derive(Debug, Clone)]
struct BindParser;

impl TypedValueParser for BindParser {
    type Value = Bind;

    fn parse_ref(
        &self,
        command: &clap::Command,
        arg: Option<&clap::Arg>,
        value: &OsStr,
    ) -> Result<Bind, clap::Error> {
        let text = value.to_string_lossy();
        let mut words = text.split(':');
        let what = words.next().unwrap_or_default();
        if let Some(word) = words.find(|word| !["overload-allowed", "if-supported"].contains(word)) {
            let message = format!("--bind-to {text}: `:{word}` is not known; write --bind-to {what}\n");
            return Err(clap::Error::raw(ErrorKind::InvalidValue, message).with_cmd(command));
        }
        EnumValueParser::new().parse_ref(command, arg, what.as_ref())
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        let values = <Bind as clap::ValueEnum>::value_variants().iter();
        Some(Box::new(values.filter_map(clap::ValueEnum::to_possible_value)))
    }
}

/// Thirty years: more than anybody waits, and no clock overflows.
const SECONDS_MAX: std::time::Duration = std::time::Duration::from_secs(1_000_000_000);

const HOSTS: &str = "Hosts";
const PROGRAM: &str = "Program";
const PLACEMENT: &str = "Placement";
const OUTPUT: &str = "Output";
const ENDING: &str = "Ending";
const SSH: &str = "ssh -o BatchMode=yes -o ConnectTimeout=10 {host}";

const EXAMPLES: &str = "\
Examples:
  barewire run -n 4 ./simulate input.dat
  barewire run --hosts node1:8,node2:8 ./simulate input.dat
  barewire run -n 4 --tag-output --timeout 60 ./simulate
  barewire run -n 1 ./server : -n 7 ./worker
  barewire run -n 4 --hosts a:2,b:2 --remote-shell 'ip netns exec {host}' ./simulate

The exit status is that of the first rank that failed (128 + signal if a signal killed it), 124 after a time-out.";
