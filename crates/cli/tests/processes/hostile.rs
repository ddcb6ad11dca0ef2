//! A neighbour that scribbles over the memory it shares with us: we drop it or bear it, and the others notice nothing.
//!
//! The scribbler is a member of the job, connected in good order. It then writes straight into its memory files, whatever it
//! can open for writing: rings in both directions, the doorbells of both sides, its pool.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::time::{Duration, Instant};

use barewire_core::region::{Memory, Rights, Who};
use barewire_core::tagged::{Sink, Tagged, Want};
use barewire_core::{Config, Deliver, Endpoint, Flow, Incoming, Peer, PeerState, boot};

use crate::Case;
use crate::folder::{Board, Stage};
use crate::rank::{
    COMMAND, NOISE, PATIENCE, PING, PONG, POOLED_BYTES, Rank, SURVIVOR, THIRD, VICTIM, pattern,
};

/// Different enough to reach different checks.
const SEEDS: u64 = 16;
/// How long a scribbler scribbles.
const SCRIBBLE_FOR: Duration = Duration::from_millis(400);
/// Bytes before a ring's data: its control page.
const CONTROL: u64 = 4096;
/// Where in it the shuttle's line is.
const SHUTTLE: u64 = 1024;
const LINE: u64 = 64;

pub fn cases() -> Vec<Case> {
    let case = |seed: u64| {
        let name = format!("hostile::a_scribbler_harms_nobody_but_itself::{:?}::{seed}", Manner::of(seed));
        Case::new(name, move || scribbled(seed))
    };
    (0..SEEDS).map(case).collect()
}

fn scribbled(seed: u64) {
    let mut stage = Stage::start(3, &["hostile", &seed.to_string()], "");
    let end = stage.await_note("survived");
    println!("seed {seed}, {:?}: {end}", Manner::of(seed));
    stage.end();
}

/// What a scribbler is after.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Manner {
    /// Random words anywhere.
    Wild,
    /// Headers that look like packets, at the beginnings of lines.
    Forged,
    /// Counts and flags only; the packets are in order.
    Control,
    /// The doorbells' flags only, so that nobody is woken.
    Bells,
}

impl Manner {
    fn of(seed: u64) -> Manner {
        [Manner::Wild, Manner::Forged, Manner::Control, Manner::Bells][seed as usize % 4]
    }
}

pub fn rank(board: &Board, seed: u64) {
    let job = boot::from_environment().unwrap();
    // Without the watchdog, which would wake whoever was not woken.
    let config = Config { tcp: false, watchdog: Duration::ZERO, ..Config::default() };
    let me = Peer(job.rank);
    match me {
        SURVIVOR => bear(Endpoint::open(job, config).unwrap(), board),
        VICTIM => scribble(Rank::open(job, config, board.clone()), seed),
        _ => ping(Rank::open(job, config, board.clone()), board),
    }
}

/// Takes anything from anybody.
struct Stoic {
    tagged: Tagged,
    pings: u64,
    strange: u64,
}

impl Deliver for Stoic {
    fn deliver(&mut self, ep: &mut Endpoint, mut packet: Incoming<'_>) -> Flow {
        match (packet.from, packet.port) {
            (THIRD, PING) => {
                self.pings += 1;
                ep.reply(packet.from, PONG, packet.imm, &[]).unwrap();
            }
            (_, port) if Tagged::owns(port) => return self.tagged.deliver(ep, packet),
            _ => {
                self.strange += 1;
                assert!(packet.to_vec().len() <= 1 << 20);
            }
        }
        Flow::Continue
    }

    fn peer_lost(&mut self, ep: &mut Endpoint, peer: Peer) {
        self.tagged.peer_lost(ep, peer);
    }
}

/// The survivor: uses the scribbler in every way, wakes and sleeps, and serves the third rank all along.
fn bear(mut ep: Endpoint, board: &Board) {
    let mut layer = Stoic { tagged: Tagged::new(&ep), pings: 0, strange: 0 };
    let memory = Memory::private(1 << 16);
    ep.export(&memory, Rights::ALL, Who::Anyone).unwrap();
    let want = Want { context: 0, from: None, tag: None };
    let sink = Sink::Memory(memory, 0, 1 << 16);
    let _ = layer.tagged.receive(&mut ep, want, sink);
    let long = pattern(100_000);
    let mut sending = None;
    let mut step = 0u64;
    while !board.has("scribbled") {
        for _ in 0..200 {
            step += 1;
            let _ = ep.send(VICTIM, NOISE, step, &long[..(step % 2000) as usize]);
            let open = sending.take().or_else(|| ep.begin(VICTIM, NOISE, 0, long.len() as u64).ok());
            sending = open.filter(|_| step % 50 != 0);
            if let Some(open) = &mut sending {
                let rest = &long[open.sent() as usize..];
                let _ = ep.push(open, rest);
            }
            sending = sending.filter(|open| !open.is_done());
            ep.progress(&mut layer, 1 << 16);
        }
        // Asleep until the third rank rings.
        let pings = layer.pings;
        ep.wait(&mut layer, Some(PATIENCE), |_, layer| layer.pings > pings).unwrap();
    }
    // Its first ping may have come just now.
    ep.wait(&mut layer, Some(PATIENCE), |ep, _| ep.peer_state(THIRD) == PeerState::Connected).unwrap();
    board.note("survived", &format!("{:?}, {} strange messages", ep.peer_state(VICTIM), layer.strange));
    ep.wait(&mut layer, Some(PATIENCE), |ep, _| ep.send(THIRD, COMMAND, 1, b"").is_ok()).unwrap();
    ep.wait(&mut layer, Some(PATIENCE), |ep, _| ep.peer_state(THIRD) == PeerState::Left).unwrap();
}

/// The third rank: is answered, whatever happens elsewhere.
fn ping(mut me: Rank, board: &Board) {
    for round in 1.. {
        me.send(SURVIVOR, PING, round, &[]).unwrap();
        me.wait(SURVIVOR, |_, mail| mail.pongs == round).unwrap();
        // Long enough for the survivor to fall asleep.
        std::thread::sleep(Duration::from_millis(if board.has("scribbled") { 0 } else { 20 }));
        if !me.mail.commands.is_empty() {
            return;
        }
    }
}

/// Connects in good order, uses every part of the wire once, and then scribbles.
fn scribble(mut me: Rank, seed: u64) {
    for round in 0..200 {
        me.send(SURVIVOR, NOISE, round, b"in good order").unwrap();
    }
    me.send_long(SURVIVOR, &pattern(POOLED_BYTES)).unwrap();
    me.send_long(SURVIVOR, &pattern(100_000)).unwrap();
    let since = Instant::now();
    let files = loop {
        me.ep.progress(&mut me.mail, usize::MAX);
        let files = writable_memory();
        let count = |what: &str| files.iter().filter(|(name, _)| name.contains(what)).count();
        // The survivor's ring comes with its first message to us.
        if count("ring") >= 2 && count("bell") >= 2 && count("pool") >= 1 {
            break files;
        }
        assert!(since.elapsed() < PATIENCE, "{files:?}");
    };
    let (mut dice, manner, since) = (Dice(seed + 1), Manner::of(seed), Instant::now());
    while since.elapsed() < SCRIBBLE_FOR {
        for _ in 0..64 {
            let (name, file) = &files[dice.below(files.len() as u64) as usize];
            scrawl(&mut dice, manner, name, file);
        }
        if manner == Manner::Control {
            let _ = me.ep.send(SURVIVOR, NOISE, 0, b"in good order");
        }
    }
    me.board.note("scribbled", "");
    me.board.await_note("survived");
    // No good order any more.
    std::process::exit(0);
}

fn scrawl(dice: &mut Dice, manner: Manner, name: &str, file: &File) {
    let len = file.metadata().unwrap().len();
    let (at, word) = match manner {
        Manner::Wild => (dice.below(len / 8) * 8, dice.word()),
        Manner::Forged if name.contains("ring") => {
            let by_shuttle = dice.below(8) == 0;
            let at = if by_shuttle { SHUTTLE } else { CONTROL + dice.below((len - CONTROL) / LINE) * LINE };
            let chunk = if dice.below(4) == 0 { dice.below(1 << 22) } else { dice.word() };
            let _ = file.write_all_at(&dice.word().to_le_bytes(), at + 8);
            let _ = file.write_all_at(&chunk.to_le_bytes(), at + 16);
            if by_shuttle {
                let written = if dice.below(2) == 0 { dice.below(1 << 18) } else { dice.word() };
                let _ = file.write_all_at(&written.to_le_bytes(), at + LINE);
            }
            (at, forged_header(dice) | if by_shuttle { dice.below(4) << 62 } else { 0 })
        }
        Manner::Control if name.contains("ring") => ([0, 256][dice.below(2) as usize], dice.word()),
        Manner::Forged | Manner::Control if name.contains("pool") => (dice.below(len / 8) * 8, dice.word()),
        Manner::Bells if name.contains("bell") => (0, 0),
        _ => return,
    };
    // Whether the write is taken is the system's affair; that nothing comes of it is ours.
    let _ = file.write_all_at(&word.to_le_bytes(), at);
}

/// A first word such as a packet has: length, port, flags, kind.
fn forged_header(dice: &mut Dice) -> u64 {
    let len =
        [dice.below(200), dice.below(5000), dice.below(40_000), dice.below(1 << 32)][dice.below(4) as usize];
    let port = [9, 0xfff0 + dice.below(8), dice.below(1 << 16)][dice.below(3) as usize];
    len | port << 32 | dice.below(16) << 48 | (dice.below(14) + 1) << 56
}

/// How a descriptor's flags say that it may be both read and written.
const READ_WRITE: u32 = 2;

/// Our memory files that may be written, with their names.
fn writable_memory() -> Vec<(String, File)> {
    let mut files = Vec::new();
    for link in std::fs::read_dir("/proc/self/fd").unwrap().flatten() {
        let name = std::fs::read_link(link.path()).unwrap_or_default().to_string_lossy().into_owned();
        let number = link.file_name().into_string().unwrap();
        let info = std::fs::read_to_string(format!("/proc/self/fdinfo/{number}")).unwrap_or_default();
        let flags = info.lines().find_map(|line| line.strip_prefix("flags:")).unwrap_or("0");
        let access = u32::from_str_radix(flags.trim(), 8).unwrap() & 3;
        if name.starts_with("/memfd:") && access == READ_WRITE {
            files.push((name, OpenOptions::new().write(true).open(link.path()).unwrap()));
        }
    }
    files
}

/// Numbers that look random and are the same for the same seed.
struct Dice(u64);

impl Dice {
    fn word(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        // Every so often a number that means something.
        match mixed % 8 {
            0 => 0,
            1 => u64::MAX,
            2 => mixed >> 50,
            _ => mixed ^ mixed >> 31,
        }
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.word() % limit
    }
}
