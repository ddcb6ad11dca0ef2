//! A rank of a case: an endpoint, what arrives at it, and waits that end with the peer they need.

use std::collections::VecDeque;
use std::time::Duration;

use barewire_core::job::Job;
use barewire_core::region::{FinishError, Key, Op, RegionError};
use barewire_core::tagged::{Failure, Request, Tagged};
use barewire_core::wait::Waiting;
use barewire_core::{Config, Deliver, Endpoint, Flow, Incoming, Peer, Port, SendError, WaitError, boot};

use crate::folder::Board;
use crate::{calls, crowd, hostile, quiet, survivor, victim};

/// Who is who: the one that must not suffer, the one that is struck, and one who works with the first all along.
pub const SURVIVOR: Peer = Peer(0);
pub const VICTIM: Peer = Peer(1);
pub const THIRD: Peer = Peer(2);

pub const COMMAND: Port = Port(1);
pub const SHORT: Port = Port(2);
pub const LONG: Port = Port(3);
pub const KEY: Port = Port(4);
pub const PING: Port = Port(5);
pub const PONG: Port = Port(6);
/// Where nobody minds what comes.
pub const NOISE: Port = Port(9);

/// Far more than anything takes on a loaded machine.
pub const PATIENCE: Duration = Duration::from_secs(20);

/// Runs one rank; the words say of what.
pub fn main(words: &[String]) {
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words[..] {
        [folder, "crowd"] => crowd::rank(&Board::at(folder)),
        [folder, "calls", what, count] => calls::rank(&Board::at(folder), what, count.parse().unwrap()),
        [folder, "hostile", seed] => hostile::rank(&Board::at(folder), seed.parse().unwrap()),
        [folder, "quiet", wire] => quiet::rank(&Board::at(folder), wire),
        [folder, wire, step, side] => {
            let job = boot::from_environment().unwrap();
            let board = Board::at(folder);
            let step = crate::matrix::Step::named(step, side);
            let config = Config { shm: wire == "shm", ..Config::default() };
            match Peer(job.rank) {
                SURVIVOR => survivor::rank(Rank::open(job, config, board), step),
                VICTIM => victim::rank(job, config, board, step),
                _ => third(Rank::open(job, config, board)),
            }
        }
        _ => panic!("a rank of nothing: {words:?}"),
    }
}

/// The peer that an operation needs is gone; where that showed.
#[derive(Debug)]
pub struct Lost(pub &'static str);

pub struct Rank {
    pub ep: Endpoint,
    pub mail: Mail,
    pub board: Board,
}

/// What has arrived and was not asked for yet.
pub struct Mail {
    pub tagged: Tagged,
    pub commands: VecDeque<(Peer, u64)>,
    pub keys: VecDeque<Key>,
    /// Short messages of a stream; each says which it is.
    pub shorts: u64,
    /// Bytes of long messages.
    pub long_bytes: u64,
    pub pings: u64,
    pub pongs: u64,
    pub lost: Vec<Peer>,
    pattern: Vec<u8>,
}

impl Deliver for Mail {
    fn deliver(&mut self, ep: &mut Endpoint, mut packet: Incoming<'_>) -> Flow {
        match packet.port {
            COMMAND => self.commands.push_back((packet.from, packet.imm)),
            SHORT => {
                assert_eq!(packet.imm, self.shorts, "short messages come in order and once");
                self.shorts += 1;
            }
            LONG => {
                let at = packet.offset as usize;
                let bytes = packet.to_vec();
                assert!(bytes == self.pattern[at..at + bytes.len()], "a long message arrives as it was sent");
                self.long_bytes += bytes.len() as u64;
            }
            KEY => self.keys.push_back(Key::from_bytes(packet.to_vec().try_into().unwrap())),
            PING => {
                self.pings += 1;
                ep.reply(packet.from, PONG, packet.imm, &[]).unwrap();
            }
            PONG => self.pongs += 1,
            NOISE => {}
            port => {
                assert!(Tagged::owns(port), "{port:?}");
                return self.tagged.deliver(ep, packet);
            }
        }
        Flow::Continue
    }

    fn peer_lost(&mut self, ep: &mut Endpoint, peer: Peer) {
        self.lost.push(peer);
        self.tagged.peer_lost(ep, peer);
    }
}

/// The longest message of all.
pub const LONG_BYTES: usize = 8 << 20;
/// So many go through the pool of whoever sends them, and not by the shuttle.
pub const POOLED_BYTES: usize = 400_000;

/// Bytes that repeat only after a prime number of them, so that no packet looks like the next.
pub fn pattern(len: usize) -> Vec<u8> {
    let block: Vec<u8> = (0..65_521u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    let mut bytes = block.repeat(len.div_ceil(block.len()));
    bytes.truncate(len);
    bytes
}

impl Rank {
    pub fn open(job: Job, config: Config, board: Board) -> Rank {
        let ep = Endpoint::open(job, config).unwrap();
        let mail = Mail {
            tagged: Tagged::new(&ep),
            commands: VecDeque::new(),
            keys: VecDeque::new(),
            shorts: 0,
            long_bytes: 0,
            pings: 0,
            pongs: 0,
            lost: Vec::new(),
            pattern: pattern(LONG_BYTES),
        };
        Rank { ep, mail, board }
    }

    /// Writes down that this rank is where it should be, and its process.
    pub fn ready(&self) {
        self.board.note(&format!("ready.{}", self.ep.me()), &std::process::id().to_string());
    }

    /// Makes progress until `done`, or until the peer it takes is gone.
    #[track_caller]
    pub fn wait(&mut self, on: Peer, done: impl FnMut(&mut Endpoint, &mut Mail) -> bool) -> Result<(), Lost> {
        let waiting = Waiting { what: "a step of the case", on: Some(on) };
        match self.ep.wait_for(waiting, &mut self.mail, Some(PATIENCE), done) {
            Ok(()) => Ok(()),
            Err(WaitError::Lost(peer)) if peer == on => Err(Lost("a wait")),
            Err(error) => panic!("rank {}: a wait on {on}: {error}", self.ep.me()),
        }
    }

    /// Sends one short message, waiting for room.
    #[track_caller]
    pub fn send(&mut self, to: Peer, port: Port, imm: u64, bytes: &[u8]) -> Result<(), Lost> {
        let mut sent = Err(SendError::Full);
        let waited = self.wait(to, |ep, _| {
            sent = ep.send(to, port, imm, bytes);
            sent != Err(SendError::Full)
        });
        match sent {
            Ok(()) => Ok(()),
            Err(SendError::Full) => waited,
            Err(SendError::Lost(peer)) if peer == to => Err(Lost("a send")),
            Err(error) => panic!("a send to {to}: {error}"),
        }
    }

    pub fn command(&mut self, to: Peer, code: u64) -> Result<(), Lost> {
        self.send(to, COMMAND, code, &[])?;
        self.ep.flush();
        Ok(())
    }

    /// The next command of a peer.
    #[track_caller]
    pub fn next_command(&mut self, from: Peer) -> Result<u64, Lost> {
        let is_from = move |&(peer, _): &(Peer, u64)| peer == from;
        self.wait(from, |_, mail| mail.commands.iter().any(is_from))?;
        let at = self.mail.commands.iter().position(is_from).expect("waited for");
        Ok(self.mail.commands.remove(at).expect("found just now").1)
    }

    /// Sends so many short messages.
    pub fn send_shorts(&mut self, to: Peer, count: u64, bytes: &[u8]) -> Result<(), Lost> {
        (0..count).try_for_each(|i| self.send(to, SHORT, i, bytes))
    }

    pub fn receive_shorts(&mut self, from: Peer, count: u64) -> Result<(), Lost> {
        self.wait(from, |_, mail| mail.shorts == count)?;
        self.mail.shorts = 0;
        Ok(())
    }

    /// Sends one long message, piece by piece.
    pub fn send_long(&mut self, to: Peer, bytes: &[u8]) -> Result<(), Lost> {
        let begun = self.ep.begin(to, LONG, 0, bytes.len() as u64);
        let mut sending = begun.map_err(|_| Lost("the beginning of a long message"))?;
        let mut outcome = Ok(0);
        self.wait(to, |ep, _| {
            let rest = &bytes[sending.sent() as usize..];
            outcome = ep.push(&mut sending, rest);
            sending.is_done() || matches!(outcome, Err(SendError::Lost(_)))
        })?;
        match outcome {
            Err(SendError::Lost(_)) => Err(Lost("a piece of a long message")),
            _ => Ok(()),
        }
    }

    pub fn receive_long(&mut self, from: Peer, len: usize) -> Result<(), Lost> {
        self.wait(from, |_, mail| mail.long_bytes == len as u64)?;
        self.mail.long_bytes = 0;
        Ok(())
    }

    /// Starts a region operation as soon as there is room, and waits for its end.
    #[track_caller]
    pub fn operate(
        &mut self,
        with: Peer,
        mut start: impl FnMut(&mut Endpoint) -> Result<Op, RegionError>,
    ) -> Result<u64, Lost> {
        let mut started = Err(RegionError::Send(SendError::Full));
        let waited = self.wait(with, |ep, _| {
            started = start(ep);
            started != Err(RegionError::Send(SendError::Full))
        });
        let op = match started {
            Ok(op) => op,
            Err(RegionError::Send(SendError::Full)) => return Err(waited.expect_err("there was no room")),
            Err(RegionError::Send(SendError::Lost(_))) => return Err(Lost("the start of an operation")),
            Err(error) => panic!("an operation: {error}"),
        };
        match self.ep.finish(&mut self.mail, op, Some(PATIENCE)) {
            Ok(value) => Ok(value),
            Err(FinishError::Region(RegionError::Send(SendError::Lost(peer)))) if peer == with => {
                Err(Lost("an operation"))
            }
            Err(FinishError::Wait(WaitError::Lost(peer))) if peer == with => {
                Err(Lost("the wait for an operation"))
            }
            Err(error) => panic!("an operation: {error}"),
        }
    }

    /// Waits for the end of a tagged message that needs `with`.
    #[track_caller]
    pub fn finish_tagged(&mut self, with: Peer, request: Request) -> Result<(), Lost> {
        let done =
            |ep: &mut Endpoint, mail: &mut Mail| mail.tagged.advance(ep) && mail.tagged.is_done(request);
        let ended = self.ep.wait(&mut self.mail, Some(PATIENCE), done);
        ended.unwrap_or_else(|error| panic!("a tagged message with {with}: {error}"));
        match self.mail.tagged.take(request).expect("it has ended").failure {
            None => Ok(()),
            Some(Failure::Lost(peer)) if peer == with => Err(Lost("a tagged message")),
            Some(failure) => panic!("a tagged message: {failure}"),
        }
    }
}

/// Commands of the survivor to the third rank.
pub const THIRD_TAGGED: u64 = 1;
pub const THIRD_END: u64 = 2;

/// The rank that works with the survivor all along and knows nothing of the victim.
fn third(mut me: Rank) {
    me.send_long(SURVIVOR, &pattern(POOLED_BYTES)).unwrap();
    me.receive_long(SURVIVOR, POOLED_BYTES).unwrap();
    me.ready();
    for round in 1.. {
        me.send(SURVIVOR, PING, round, &[]).unwrap();
        me.ep.flush();
        me.wait(SURVIVOR, |_, mail| mail.pongs == round).unwrap();
        // Long enough for the survivor to fall asleep.
        std::thread::sleep(Duration::from_millis(10));
        match me.mail.commands.pop_front() {
            None => {}
            Some((SURVIVOR, THIRD_TAGGED)) => survivor::send_word(&mut me, SURVIVOR),
            Some((SURVIVOR, THIRD_END)) => return,
            Some(other) => panic!("{other:?}"),
        }
    }
}
