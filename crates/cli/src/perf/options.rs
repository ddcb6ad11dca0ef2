//! What every measurement can be told.

use std::path::PathBuf;

use clap::builder::PossibleValuesParser;

use super::layers;

/// Options that all measurements share
#[derive(Clone, Debug, clap::Args)]
pub struct Common {
    /// Layers to measure; docs/perf.md says what they are
    #[arg(long, global = true, value_delimiter = ',', value_name = "LAYER,…", value_parser = PossibleValuesParser::new(layers::names()))]
    pub api: Vec<String>,
    /// The wire [default: shared memory on one host, TCP between hosts]
    #[arg(long, global = true, value_name = "WIRE")]
    pub via: Option<Via>,
    /// Bytes of a message: numbers, with K or M for KiB and MiB
    #[arg(long, global = true, value_delimiter = ',', value_name = "BYTES,…", value_parser = parse_bytes)]
    pub bytes: Vec<usize>,
    /// Ranks; more than there are processors is a fair question too
    #[arg(long, short = 'n', global = true, default_value_t = 2, value_parser = clap::value_parser!(u32).range(2..=4096))]
    pub ranks: u32,
    /// Measure between these hosts, as `barewire run --hosts` does
    #[arg(long, global = true, value_name = "HOST,…")]
    pub hosts: Option<String>,
    /// Command that runs a command on another host, as for `barewire run`
    #[arg(long, global = true, value_name = "COMMAND", requires = "hosts")]
    pub remote_shell: Option<String>,
    /// Keep each rank on a processor of its own, or leave it where the system puts it
    #[arg(long, global = true, default_value = "each", value_name = "HOW")]
    pub pin: Pin,
    /// Rounds; every figure is the median of as many
    #[arg(long, global = true, default_value_t = 9, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub rounds: u32,
    /// Messages before the measured ones, in each round [default: a tenth]
    #[arg(long, global = true, value_name = "N")]
    pub warmup: Option<u64>,
    /// Messages in each round [default: as many as take some 20 ms]
    #[arg(long, global = true, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub count: Option<u64>,
    /// Print one JSON object a line (docs/perf.md explains the fields)
    #[arg(long, global = true, conflicts_with = "csv")]
    pub json: bool,
    /// Print comma-separated values
    #[arg(long, global = true)]
    pub csv: bool,
    /// Write a page with charts and all figures here [the ladder's default: report.html]
    #[arg(long, global = true, value_name = "FILE")]
    pub html: Option<PathBuf>,
    /// With `--via sim`: how much longer the fault filter makes every datagram take
    #[arg(long, global = true, hide = true, default_value_t = 0, value_name = "NS")]
    pub slow_ns: u64,
}

/// Which wire messages take.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, clap::ValueEnum)]
pub enum Via {
    /// Shared memory
    Shm,
    /// TCP, even on one host
    Tcp,
    /// A simulated network, in its own time: the same figures on any machine
    Sim,
}

impl Via {
    pub fn name(self) -> &'static str {
        match self {
            Via::Shm => "shm",
            Via::Tcp => "tcp",
            Via::Sim => "sim",
        }
    }
}

/// Where ranks run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Pin {
    /// Rank r on the r-th processor that this process may use
    Each,
    /// Wherever the system puts them
    None,
}

impl Common {
    /// Whether rank and processor belong together; with more ranks than processors they never do.
    pub fn pins(&self, ranks: u32) -> bool {
        self.pin == Pin::Each && ranks as usize <= barewire_sys::cpu::allowed_cpus().len()
    }

    /// The layers asked for, or `usual`.
    pub fn apis(&self, usual: &[&str]) -> Vec<String> {
        if self.api.is_empty() { usual.iter().map(|&api| api.to_owned()).collect() } else { self.api.clone() }
    }

    /// The sizes asked for, or `usual`.
    pub fn sizes(&self, usual: &[usize]) -> Vec<usize> {
        if self.bytes.is_empty() { usual.to_vec() } else { self.bytes.clone() }
    }

    /// Whether people read the output.
    pub fn for_people(&self) -> bool {
        !self.json && !self.csv
    }
}

/// A size: `8`, `64K`, `4M`.
fn parse_bytes(text: &str) -> Result<usize, String> {
    let (number, unit) = match text.as_bytes().last() {
        Some(b'k' | b'K') => (&text[..text.len() - 1], 1 << 10),
        Some(b'm' | b'M') => (&text[..text.len() - 1], 1 << 20),
        _ => (text, 1),
    };
    let bytes = number.parse::<usize>().ok().and_then(|n| n.checked_mul(unit));
    bytes.filter(|&n| n <= 8 << 20).ok_or_else(|| "expected bytes up to 8M, such as 8, 64K or 4M".into())
}

#[cfg(test)]
mod tests {
    use super::parse_bytes;

    #[test]
    fn sizes_have_units_and_an_end() {
        assert_eq!(
            (parse_bytes("8"), parse_bytes("64K"), parse_bytes("4m")),
            (Ok(8), Ok(65536), Ok(4 << 20))
        );
        for wrong in ["", "K", "-1", "9M", "1T", "99999999999999999999M"] {
            assert!(parse_bytes(wrong).is_err(), "{wrong}");
        }
    }
}
