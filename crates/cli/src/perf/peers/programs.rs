//! Peers that are libraries without a tool of their own: small programs over them answer the same commands as our ranks do.

use std::process::Command;

use anyhow::{Context, Result};

use super::mpi::compile;
use super::{Peer, Running, home, rust};
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
    let program = |name, word, tcp| Box::new(Program { name, word, tcp }) as Box<dyn Peer>;
    vec![
        program("ZeroMQ", "", true),
        program("iceoryx2", "iceoryx2", false),
        program("zenoh", "zenoh", true),
        program("crossbeam", "crossbeam", false),
    ]
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
        rust::missing()
    }

    fn install(&self) -> Result<bool> {
        if self.word.is_empty() {
            return Ok(false);
        }
        rust::install(self.name)?;
        Ok(true)
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
        rust::program().map_or(String::new(), |program| {
            super::first_line(Command::new(program).args(["version", self.word]))
        })
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
            let mut command = Command::new(rust::program()?);
            command.arg(self.word);
            command
        };
        command.env("BENCH_VIA", via.name());
        Ok(Box::new(Session::start(self.name, command, pin)?))
    }
}
