//! UCX and libfabric, by the measuring tools that come with them: started anew for every figure, on the same processors.

use std::net::TcpListener;
use std::process::{Child, Command as Process, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail};

use super::{Peer, Running, first_line, in_path};
use crate::perf::keeper;
use crate::perf::options::Via;
use crate::perf::worker::{Answer, Command};

/// The tools.
pub fn all() -> Vec<Box<dyn Peer>> {
    vec![Box::new(Tool::Ucx), Box::new(Tool::Fabric)]
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Tool {
    Ucx,
    Fabric,
}

impl Tool {
    fn program(self) -> &'static str {
        match self {
            Tool::Ucx => "ucx_perftest",
            Tool::Fabric => "fi_pingpong",
        }
    }

    fn package(self) -> &'static str {
        match self {
            Tool::Ucx => "ucx-utils",
            Tool::Fabric => "libfabric-bin",
        }
    }
}

impl Peer for Tool {
    fn name(&self) -> &'static str {
        match self {
            Tool::Ucx => "UCX",
            Tool::Fabric => "libfabric",
        }
    }

    fn beside(&self) -> &'static str {
        "tagged"
    }

    fn missing(&self) -> Option<String> {
        (!in_path(self.program())).then(|| format!("apt-get install {}", self.package()))
    }

    fn version(&self) -> String {
        match self {
            Tool::Ucx => first_line(Process::new("ucx_info").arg("-v")).trim_start_matches("# ").to_owned(),
            Tool::Fabric => first_line(Process::new("fi_info").arg("--version")),
        }
    }

    fn can(&self, what: &str, via: Via, ranks: u32, _: usize) -> bool {
        let verb = what == "latency" || (what == "rate" && *self == Tool::Ucx);
        verb && ranks == 2 && via != Via::Sim
    }

    fn start(&self, _: u32, via: Via, pin: bool) -> Result<Box<dyn Running>> {
        Ok(Box::new(Runs { tool: *self, via, pin }))
    }
}

/// A tool that is run for every figure.
struct Runs {
    tool: Tool,
    via: Via,
    pin: bool,
}

impl Running for Runs {
    fn ask(&mut self, command: &Command) -> Result<Answer> {
        // Another program may take the port in between: then the next is tried.
        let mut last = None;
        for _ in 0..3 {
            match self.once(command) {
                Ok(answer) => return Ok(answer),
                Err(error) => last = Some(error),
            }
        }
        Err(last.expect("three attempts failed")).context(self.tool.name())
    }
}

impl Runs {
    fn once(&self, command: &Command) -> Result<Answer> {
        let port = TcpListener::bind(("127.0.0.1", 0))?.local_addr()?.port();
        let mut server = Server(self.process(0).args(self.words(command, port, false)).spawn()?);
        let mut client = self.process(1);
        client.args(self.words(command, port, true));
        // The server needs a moment before it listens; whoever comes too early is sent away.
        for attempt in 1.. {
            std::thread::sleep(Duration::from_millis(100 * attempt));
            let output = client.output()?;
            let text = String::from_utf8_lossy(&output.stdout).into_owned();
            if let Some(each_ns) = output.status.success().then(|| self.read(command, &text)).flatten() {
                return Ok(Answer::of(each_ns));
            }
            if attempt == 5 || server.0.try_wait()?.is_some() {
                bail!("{:?} said: {text}{}", client, String::from_utf8_lossy(&output.stderr));
            }
        }
        bail!("it was never tried")
    }

    /// One side, on the processor of that rank, and never for ever.
    fn process(&self, rank: usize) -> Process {
        let mut process = Process::new("timeout");
        process.args(["-k", "1", "60"]);
        let cpus = barewire_sys::cpu::allowed_cpus();
        if self.pin {
            process.args(["taskset", "-c", &cpus[rank % cpus.len()].0.to_string()]);
        }
        process.arg(self.tool.program());
        if self.tool == Tool::Ucx {
            process.env("UCX_TLS", if self.via == Via::Tcp { "tcp,self" } else { "shm,self" });
            process.env("UCX_WARN_UNUSED_ENV_VARS", "n");
        }
        process.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        keeper::ends_with_us(&mut process);
        process
    }

    fn words(&self, command: &Command, port: u16, client: bool) -> Vec<String> {
        let (count, bytes) = (command.count.max(10), command.bytes);
        let text = match self.tool {
            Tool::Ucx => {
                let test = if command.parts().1 == "latency" { "tag_lat" } else { "tag_bw" };
                let asked = format!("127.0.0.1 -t {test} -s {bytes} -n {count} -w {} -f -v", command.warm_up);
                format!("{} -p {port}", if client { asked } else { String::new() })
            }
            Tool::Fabric => {
                let provider = if self.via == Via::Tcp { "tcp;ofi_rxm" } else { "shm" };
                let way = if client { format!("-P {port} 127.0.0.1") } else { format!("-B {port}") };
                format!("-p {provider} -e rdm -m tagged -I {count} -S {} {way}", bytes.max(1))
            }
        };
        text.split_whitespace().map(str::to_owned).collect()
    }

    /// Nanoseconds an operation, out of what the tool printed.
    fn read(&self, command: &Command, text: &str) -> Option<f64> {
        let line = text.lines().rfind(|line| !line.trim().is_empty())?;
        match self.tool {
            // iterations, median, average, overall latency in µs, …, message rate: average, overall
            Tool::Ucx => {
                let cells: Vec<f64> =
                    line.split(',').map(|cell| cell.trim().parse().ok()).collect::<Option<_>>()?;
                match command.parts().1 {
                    "latency" => cells.get(3).map(|us| us * 1e3),
                    _ => cells.get(7).map(|rate| 1e9 / rate),
                }
            }
            // bytes, sent, acknowledged, total, time, MB/s, µs a transfer, transfers
            Tool::Fabric => line.split_whitespace().nth(6)?.parse::<f64>().ok().map(|us| us * 1e3),
        }
    }
}

/// The side that waits; ended when nobody needs it any more.
struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tools_figures_are_found_in_what_they_print() {
        let command = |verb: &str| Command::parse(&format!("1 x/{verb} 8 1 1")).unwrap();
        let runs = |tool| Runs { tool, via: Via::Shm, pin: false };
        let ucx = "iterations,p,avg,overall\n20000,0.317,0.4,0.350,0.80,0.80,104648,2000000\n";
        assert_eq!(runs(Tool::Ucx).read(&command("latency"), ucx), Some(350.0));
        assert_eq!(runs(Tool::Ucx).read(&command("rate"), ucx), Some(500.0));
        let fabric = "bytes   #sent   #ack     total       time     MB/sec    usec/xfer   Mxfers/sec\n8       20k     =20k     312k        2.05s      0.16      0.51       0.02\n";
        assert_eq!(runs(Tool::Fabric).read(&command("latency"), fabric), Some(510.0));
        assert_eq!(runs(Tool::Ucx).read(&command("latency"), "nonsense"), None);
    }
}
