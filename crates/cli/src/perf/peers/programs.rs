//! Peers that are libraries without a tool of their own: small programs over them answer the same commands as our ranks do.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result};

use super::mpi::compile;
use super::{Peer, Running, home};
use crate::perf::options::Via;
use crate::perf::session::Session;

/// Two processes, or two threads, over one library.
struct Program {
    name: &'static str,
    /// What the program calls it; empty for a program of its own.
    word: &'static str,
    tcp: bool,
}

/// The programs.
pub fn all() -> Vec<Box<dyn Peer>> {
    let rust = |name, word| Box::new(Program { name, word, tcp: false }) as Box<dyn Peer>;
    vec![
        Box::new(Program { name: "ZeroMQ", word: "", tcp: true }),
        rust("iceoryx2", "iceoryx2"),
        rust("zenoh", "zenoh"),
        rust("crossbeam", "crossbeam"),
    ]
}

impl Program {
    /// Where the Rust peers are built to: a package of their own, which nobody else has to compile.
    fn rust_peers() -> Result<PathBuf> {
        Ok(home()?.join("bin/barewire-peers"))
    }
}

impl Peer for Program {
    fn name(&self) -> &'static str {
        self.name
    }

    fn beside(&self) -> &'static str {
        "message"
    }

    fn missing(&self) -> Option<String> {
        if self.word.is_empty() {
            let header = std::path::Path::new("/usr/include/zmq.h");
            return (!header.exists()).then(|| "apt-get install libzmq3-dev".to_owned());
        }
        let built = Self::rust_peers();
        (!built.as_ref().is_ok_and(|program| program.exists())).then(|| {
            let root = home().map_or("DIR".into(), |home| home.display().to_string());
            format!("cargo install --path peers --root {root}   # in the source of barewire")
        })
    }

    fn version(&self) -> String {
        if self.word.is_empty() {
            let header = std::fs::read_to_string("/usr/include/zmq.h").unwrap_or_default();
            let part = |name: &str| {
                let line = header.lines().find(|line| line.contains(name))?;
                Some(line.split_whitespace().last()?.to_owned())
            };
            return ["ZMQ_VERSION_MAJOR", "ZMQ_VERSION_MINOR", "ZMQ_VERSION_PATCH"]
                .map(|name| part(name).unwrap_or_default())
                .join(".");
        }
        let program = Self::rust_peers().unwrap_or_default();
        super::first_line(Command::new(program).args(["version", self.word]))
    }

    fn can(&self, what: &str, via: Via, ranks: u32, _: usize) -> bool {
        matches!(what, "latency" | "rate") && ranks == 2 && (via == Via::Shm || (via == Via::Tcp && self.tcp))
    }

    fn start(&self, _: u32, via: Via, pin: bool) -> Result<Box<dyn Running>> {
        let mut command = if self.word.is_empty() {
            let words = ["-lzmq".to_owned(), "-lpthread".to_owned()];
            let source = include_str!("zmq_bench.c");
            let program =
                compile(&home()?.join("bench"), "zmq_bench", source, &mut Command::new("cc"), &words)
                    .context("compiling the benchmark for ZeroMQ")?;
            let mut command = Command::new(program);
            command.arg(via.name());
            command
        } else {
            let mut command = Command::new(Self::rust_peers()?);
            command.arg(self.word);
            command
        };
        command.env("BENCH_VIA", via.name());
        Ok(Box::new(Session::start(self.name, command, pin)?))
    }
}
