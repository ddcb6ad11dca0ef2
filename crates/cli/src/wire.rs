//! What the launcher and the agents say to each other.
//!
//! An agent is this same program on another host (or, for the ranks of this host, beside the launcher). It starts ranks,
//! carries their bytes and reports their ends; all decisions are the launcher's.

use std::path::PathBuf;

use barewire_core::boot::frame::{FrameError, Reader, Writer};

use crate::run::options::PortRange;

/// The protocol's version; launcher and agents must agree.
pub const VERSION: u32 = 2;
/// Longest body of a frame: environments and lists of ranks are long.
pub const BODY_BYTES_MAX: usize = 16 << 20;
/// Most bytes of output or input in one frame.
pub const PIECE_BYTES_MAX: usize = 64 * 1024;

/// From the launcher to an agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Down {
    /// What the agent must know about the job.
    Setup(Setup),
    /// A program; they are numbered as they come.
    Program(Program),
    /// Start these ranks, each with a program; nothing more will be started.
    Start(Vec<Start>),
    /// Bytes for a rank's boot connection.
    Boot { rank: u32, bytes: Vec<u8> },
    /// Bytes for a rank's standard input; none means the end.
    Input { rank: u32, bytes: Vec<u8> },
    /// A signal for every rank.
    Signal(i32),
    /// End all ranks: ask first, then kill.
    Stop,
    /// Kill all ranks now.
    Kill,
    /// Say what every rank is doing.
    Describe,
    /// Start agents on these hosts, and carry what is said between them and the launcher.
    Branch(Branch),
    /// Words for the agent of another host, behind this one: a whole frame.
    Pass { host: u32, bytes: Vec<u8> },
}

/// Hosts that are looked after through one agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Branch {
    /// Most agents that one process starts.
    pub fan_out: u32,
    /// The command that runs a command on another host.
    pub shell: String,
    /// Where this program is there.
    pub program: PathBuf,
    /// The interface to be called at.
    pub interface: Option<String>,
    /// The ports to be called at.
    pub ports: Option<PortRange>,
    /// The hosts' numbers and names.
    pub hosts: Vec<(u32, String)>,
}

/// What an agent must know about the job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Setup {
    /// Ranks in the job.
    pub size: u32,
    /// How long ranks may take to end once asked.
    pub grace_ms: u32,
    /// How ranks are bound to processors, as the option says it.
    pub bind: String,
    /// Whether to send a picture of the bindings.
    pub report_bindings: bool,
    /// The rank that reads the launcher's input, if it is here.
    pub input_rank: Option<u32>,
}

/// One program of the job.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Program {
    /// The program and its arguments.
    pub words: Vec<Vec<u8>>,
    /// Where it runs.
    pub directory: Vec<u8>,
    /// Its whole environment, if it is not the agent's own.
    pub base: Option<Vec<(Vec<u8>, Vec<u8>)>>,
    /// What is set on top.
    pub set: Vec<(Vec<u8>, Vec<u8>)>,
}

/// One rank to start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Start {
    /// The rank.
    pub rank: u32,
    /// The number of its program.
    pub program: u32,
}

/// One of a rank's outputs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Stream {
    /// Standard output.
    Out,
    /// Standard error.
    Err,
}

/// From an agent to the launcher.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Up {
    /// The agent is there.
    Ready {
        /// Its protocol version.
        version: u32,
        /// Its process.
        pid: u32,
        /// How many ranks its host can take, and what limits that.
        ranks_max: u32,
        /// The limit, in words.
        limit: String,
    },
    /// The ranks' processors, as a picture.
    Bindings(String),
    /// A program cannot be started here.
    NoProgram {
        /// The status a shell would give: 127 not found, 126 not executable.
        status: i32,
        /// Why, and what to do.
        reason: String,
    },
    /// A rank runs.
    Started { rank: u32, pid: u32 },
    /// Bytes of a rank.
    Output { rank: u32, stream: Stream, bytes: Vec<u8> },
    /// A rank took its input.
    InputTaken,
    /// Nobody reads the input any more.
    InputClosed,
    /// A unit of a rank's boot connection.
    Boot { rank: u32, bytes: Vec<u8> },
    /// A rank's boot connection carries nonsense and was closed.
    BootBroken { rank: u32, reason: String },
    /// A rank ended, with the status that wait(2) gave.
    Ended { rank: u32, status: i32 },
    /// What a rank is doing.
    Described { rank: u32, text: String },
    /// All ranks have ended and nothing of theirs is left.
    Done,
    /// Words of the agent of another host, behind this one: a whole frame.
    From { host: u32, bytes: Vec<u8> },
    /// The agent of another host, behind this one, cannot be started or is lost.
    Missing { host: u32, reason: String },
}

impl Down {
    /// The frame that says this.
    pub fn encode(&self) -> Vec<u8> {
        let w = Writer::new();
        match self {
            Self::Setup(setup) => w
                .u32(setup.size)
                .u32(setup.grace_ms)
                .bytes(setup.bind.as_bytes())
                .u8(setup.report_bindings.into())
                .u32(setup.input_rank.unwrap_or(u32::MAX))
                .frame(64),
            Self::Program(program) => {
                let pairs = |w: Writer, pairs: &[(Vec<u8>, Vec<u8>)]| {
                    w.list(pairs, |w, (name, value)| w.bytes(name).bytes(value))
                };
                let w = w.list(&program.words, |w, word| w.bytes(word)).bytes(&program.directory);
                let w =
                    pairs(w.u8(program.base.is_some().into()), program.base.as_deref().unwrap_or_default());
                pairs(w, &program.set).frame(65)
            }
            Self::Start(starts) => w.list(starts, |w, start| w.u32(start.rank).u32(start.program)).frame(66),
            Self::Boot { rank, bytes } => w.u32(*rank).bytes(bytes).frame(67),
            Self::Input { rank, bytes } => w.u32(*rank).bytes(bytes).frame(68),
            Self::Signal(signal) => w.i32(*signal).frame(69),
            Self::Stop => w.frame(70),
            Self::Kill => w.frame(71),
            Self::Describe => w.frame(72),
            Self::Branch(branch) => {
                let (first, last) = branch.ports.map_or((0, 0), |ports| (ports.first, ports.last));
                w.u32(branch.fan_out)
                    .bytes(branch.shell.as_bytes())
                    .bytes(branch.program.as_os_str().as_encoded_bytes())
                    .bytes(branch.interface.as_deref().unwrap_or_default().as_bytes())
                    .u32(first.into())
                    .u32(last.into())
                    .list(&branch.hosts, |w, (number, name)| w.u32(*number).bytes(name.as_bytes()))
                    .frame(73)
            }
            Self::Pass { host, bytes } => w.u32(*host).bytes(bytes).frame(74),
        }
    }

    /// Reads a frame's body.
    pub fn decode(kind: u8, body: &[u8]) -> Result<Self, FrameError> {
        let mut r = Reader::new(body, "order of the launcher");
        let down = match kind {
            64 => Self::Setup(Setup {
                size: r.u32()?,
                grace_ms: r.u32()?,
                bind: r.text()?,
                report_bindings: r.u8()? != 0,
                input_rank: Some(r.u32()?).filter(|&rank| rank != u32::MAX),
            }),
            65 => {
                let pairs = |r: &mut Reader<'_>| r.list(|r| Ok((r.bytes()?.to_vec(), r.bytes()?.to_vec())));
                let words = r.list(|r| r.bytes().map(<[u8]>::to_vec))?;
                let directory = r.bytes()?.to_vec();
                let has_base = r.u8()? != 0;
                let base = Some(pairs(&mut r)?).filter(|_| has_base);
                Self::Program(Program { words, directory, base, set: pairs(&mut r)? })
            }
            66 => Self::Start(r.list(|r| Ok(Start { rank: r.u32()?, program: r.u32()? }))?),
            67 => Self::Boot { rank: r.u32()?, bytes: r.bytes()?.to_vec() },
            68 => Self::Input { rank: r.u32()?, bytes: r.bytes()?.to_vec() },
            69 => Self::Signal(r.i32()?),
            70 => Self::Stop,
            71 => Self::Kill,
            72 => Self::Describe,
            73 => Self::Branch(branch(&mut r)?),
            74 => Self::Pass { host: r.u32()?, bytes: r.bytes()?.to_vec() },
            kind => return Err(FrameError::UnknownKind { kind }),
        };
        r.finish()?;
        Ok(down)
    }
}

impl Up {
    /// The frame that says this.
    pub fn encode(&self) -> Vec<u8> {
        let w = Writer::new();
        match self {
            Self::Ready { version, pid, ranks_max, limit } => {
                w.u32(*version).u32(*pid).u32(*ranks_max).bytes(limit.as_bytes()).frame(96)
            }
            Self::Bindings(text) => w.bytes(text.as_bytes()).frame(97),
            Self::NoProgram { status, reason } => w.i32(*status).bytes(reason.as_bytes()).frame(98),
            Self::Started { rank, pid } => w.u32(*rank).u32(*pid).frame(99),
            Self::Output { rank, stream, bytes } => {
                w.u32(*rank).u8((*stream == Stream::Err).into()).bytes(bytes).frame(100)
            }
            Self::InputTaken => w.frame(101),
            Self::InputClosed => w.frame(102),
            Self::Boot { rank, bytes } => w.u32(*rank).bytes(bytes).frame(103),
            Self::BootBroken { rank, reason } => w.u32(*rank).bytes(reason.as_bytes()).frame(104),
            Self::Ended { rank, status } => w.u32(*rank).i32(*status).frame(105),
            Self::Described { rank, text } => w.u32(*rank).bytes(text.as_bytes()).frame(106),
            Self::Done => w.frame(DONE),
            Self::From { host, bytes } => w.u32(*host).bytes(bytes).frame(FROM),
            Self::Missing { host, reason } => w.u32(*host).bytes(reason.as_bytes()).frame(MISSING),
        }
    }

    /// Whether a frame of this kind names the host it is about, behind the one that sends it.
    pub fn is_from_below(kind: u8) -> bool {
        matches!(kind, FROM | MISSING)
    }

    /// Whether a frame of this kind is an agent's last.
    pub fn is_done(kind: u8) -> bool {
        kind == DONE
    }

    /// Reads a frame's body.
    pub fn decode(kind: u8, body: &[u8]) -> Result<Self, FrameError> {
        let mut r = Reader::new(body, "report of an agent");
        let up = match kind {
            96 => Self::Ready { version: r.u32()?, pid: r.u32()?, ranks_max: r.u32()?, limit: r.text()? },
            97 => Self::Bindings(r.text()?),
            98 => Self::NoProgram { status: r.i32()?, reason: r.text()? },
            99 => Self::Started { rank: r.u32()?, pid: r.u32()? },
            100 => Self::Output {
                rank: r.u32()?,
                stream: if r.u8()? == 0 { Stream::Out } else { Stream::Err },
                bytes: r.bytes()?.to_vec(),
            },
            101 => Self::InputTaken,
            102 => Self::InputClosed,
            103 => Self::Boot { rank: r.u32()?, bytes: r.bytes()?.to_vec() },
            104 => Self::BootBroken { rank: r.u32()?, reason: r.text()? },
            105 => Self::Ended { rank: r.u32()?, status: r.i32()? },
            106 => Self::Described { rank: r.u32()?, text: r.text()? },
            DONE => Self::Done,
            FROM => Self::From { host: r.u32()?, bytes: r.bytes()?.to_vec() },
            MISSING => Self::Missing { host: r.u32()?, reason: r.text()? },
            kind => return Err(FrameError::UnknownKind { kind }),
        };
        r.finish()?;
        Ok(up)
    }
}

fn branch(r: &mut Reader<'_>) -> Result<Branch, FrameError> {
    use std::os::unix::ffi::OsStringExt;
    let fan_out = r.u32()?;
    let shell = r.text()?;
    let program = PathBuf::from(std::ffi::OsString::from_vec(r.bytes()?.to_vec()));
    let interface = Some(r.text()?).filter(|name| !name.is_empty());
    let ports = match (u16::try_from(r.u32()?), u16::try_from(r.u32()?)) {
        (Ok(0), Ok(0)) => None,
        (Ok(first), Ok(last)) => Some(PortRange { first, last }),
        _ => return Err(r.malformed()),
    };
    let hosts = r.list(|r| Ok((r.u32()?, r.text()?)))?;
    Ok(Branch { fan_out, shell, program, interface, ports, hosts })
}

const DONE: u8 = 107;
const FROM: u8 = 108;
const MISSING: u8 = 109;

#[cfg(test)]
mod tests {
    use super::*;
    use barewire_core::boot::frame::{Unit, split};

    fn parts(bytes: &[u8]) -> (u8, &[u8]) {
        match split(bytes, BODY_BYTES_MAX) {
            Ok(Some((Unit::Frame { kind, body }, used))) if used == bytes.len() => (kind, body),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn every_order_survives_the_wire() {
        let setup =
            Setup { size: 4, grace_ms: 5, bind: "core".into(), report_bindings: true, input_rank: None };
        let pair = (b"A".to_vec(), b"b".to_vec());
        let program = Program {
            words: vec![b"sh".to_vec(), b"".to_vec()],
            directory: b"/".to_vec(),
            base: Some(vec![pair.clone()]),
            set: vec![pair],
        };
        for down in [
            Down::Setup(setup),
            Down::Program(program),
            Down::Start(vec![Start { rank: 1, program: 0 }]),
            Down::Boot { rank: 1, bytes: b"x".to_vec() },
            Down::Input { rank: 1, bytes: vec![] },
            Down::Signal(10),
            Down::Stop,
            Down::Kill,
            Down::Describe,
            Down::Branch(Branch {
                fan_out: 3,
                shell: "ssh".into(),
                program: "/bin/barewire".into(),
                interface: Some("eth0".into()),
                ports: Some(PortRange { first: 1, last: 2 }),
                hosts: vec![(7, "node7".into())],
            }),
            Down::Pass { host: 7, bytes: Down::Stop.encode() },
        ] {
            let bytes = down.encode();
            let (kind, body) = parts(&bytes);
            assert_eq!(Down::decode(kind, body).unwrap(), down);
        }
    }

    #[test]
    fn every_report_survives_the_wire() {
        for up in [
            Up::Ready { version: 1, pid: 2, ranks_max: 3, limit: "files".into() },
            Up::Bindings("[x .]".into()),
            Up::NoProgram { status: 127, reason: "none".into() },
            Up::Started { rank: 1, pid: 2 },
            Up::Output { rank: 1, stream: Stream::Err, bytes: b"x".to_vec() },
            Up::InputTaken,
            Up::InputClosed,
            Up::Boot { rank: 1, bytes: b"x".to_vec() },
            Up::BootBroken { rank: 1, reason: "why".into() },
            Up::Ended { rank: 1, status: 9 },
            Up::Described { rank: 1, text: "asleep".into() },
            Up::Done,
            Up::From { host: 3, bytes: Up::Done.encode() },
            Up::Missing { host: 3, reason: "gone".into() },
        ] {
            let bytes = up.encode();
            let (kind, body) = parts(&bytes);
            assert_eq!(Up::decode(kind, body).unwrap(), up);
        }
    }
}
