//! A peer that says what the fuzzer's bytes tell it to say, by calls that anybody can make: so a layer gets whatever its wire can carry,
//! in one packet or in many, begun and not ended, ended and not complete.

use std::cell::RefCell;

use barewire_core::{Config, Endpoint, Ignore, Peer, PeerState, Port, SendError, Sending, job::Job};

/// What is lied to.
pub trait Layer {
    /// How its ports begin.
    const MARK: u16;
    /// The bits of an immediate that matter where it makes sense.
    const IMM: u64;

    /// On an endpoint that is connected to the liar, which is peer 1.
    fn over(core: Endpoint) -> Self;
    fn poll(&mut self);
    fn into_core(self) -> Endpoint;
}

/// Says everything that `bytes` tell to a new layer of this kind.
pub fn lie<L: Layer>(bytes: &[u8]) {
    let (core, mut liar) = PAIR.take().unwrap_or_else(meet);
    let (mut layer, mut script, mut open) = (L::over(core), Script(bytes), Vec::new());
    while let Some(said) = say::<L>(&mut liar, &mut script, &mut open) {
        match said {
            Ok(()) => {}
            Err(SendError::Full) => {
                layer.poll();
                liar.progress(&mut Ignore, usize::MAX);
            }
            Err(_) => break,
        }
    }
    for _ in 0..4 {
        layer.poll();
        liar.progress(&mut Ignore, usize::MAX);
    }
    let mut core = layer.into_core();
    let connected = |end: &Endpoint, peer| end.peer_state(peer) == PeerState::Connected;
    while connected(&core, LIAR) && connected(&liar, VICTIM) {
        // The next layer is to begin with nothing on the way to it.
        open.retain_mut(|sending| liar.end(sending).is_err());
        let taken = core.progress(&mut Ignore, usize::MAX) + liar.progress(&mut Ignore, usize::MAX);
        if taken == 0 && open.is_empty() {
            return PAIR.set(Some((core, liar)));
        }
    }
}

const VICTIM: Peer = Peer(0);
const LIAR: Peer = Peer(1);
const HELLO: Port = Port(1);

thread_local! {
    /// Kept while nobody has lost its trust, because meeting takes longer than lying.
    static PAIR: RefCell<Option<(Endpoint, Endpoint)>> = const { RefCell::new(None) };
}

fn meet() -> (Endpoint, Endpoint) {
    let config = || Config { ring_bytes: Some(8192), pool_bytes: Some(1 << 18), ..Config::default() };
    let mut jobs = Job::threads(2).expect("random bytes").into_iter();
    let mut open = || Endpoint::open(jobs.next().expect("two"), config()).expect("an endpoint of our own");
    let (mut core, mut liar) = (open(), open());
    liar.send(VICTIM, HELLO, 0, &[]).expect("the first message");
    core.send(LIAR, HELLO, 0, &[]).expect("the first message");
    while core.stats().received == 0 || liar.stats().received == 0 {
        core.progress(&mut Ignore, usize::MAX);
        liar.progress(&mut Ignore, usize::MAX);
    }
    (core, liar)
}

/// The next thing that the script tells; `None` at its end.
fn say<L: Layer>(
    liar: &mut Endpoint,
    script: &mut Script<'_>,
    open: &mut Vec<Sending>,
) -> Option<Result<(), SendError>> {
    let [what, which] = script.take()?;
    let number = usize::from(which) % open.len().max(1);
    Some(match what % 4 {
        0 => {
            let (port, imm) = (script.port(L::MARK)?, script.imm(what, L::IMM)?);
            liar.send(VICTIM, port, imm, &script.data(which))
        }
        1 => {
            let (port, imm) = (script.port(L::MARK)?, script.imm(what, L::IMM)?);
            let [low, high] = script.take()?;
            let begun = liar.begin(VICTIM, port, imm, u64::from(u16::from_le_bytes([low, high])));
            begun.map(|sending| open.push(sending))
        }
        2 => match open.get_mut(number) {
            Some(sending) => liar.push(sending, &script.data(which)).map(drop),
            None => Ok(()),
        },
        _ if open.is_empty() => Ok(()),
        _ => match liar.end(&mut open[number]) {
            Ok(()) => {
                drop(open.swap_remove(number));
                Ok(())
            }
            Err(error) => Err(error),
        },
    })
}

/// The fuzzer's bytes that were not used yet.
struct Script<'a>(&'a [u8]);

impl Script<'_> {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (taken, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*taken)
    }

    /// Any immediate, or one that may make sense.
    fn imm(&mut self, any: u8, mask: u64) -> Option<u64> {
        self.take().map(u64::from_le_bytes).map(|imm| if any >= 0x80 { imm } else { imm & mask })
    }

    fn port(&mut self, mark: u16) -> Option<Port> {
        self.take().map(|bytes| Port(mark | u16::from_le_bytes(bytes) & 0xfff))
    }

    /// A length, and as many bytes as it says or as there are, or zeros; many times, if `how` says so.
    fn data(&mut self, how: u8) -> Vec<u8> {
        let [len] = self.take().unwrap_or([0]);
        let times = if how & 0x80 == 0 { 1 } else { 32 };
        if how & 0x40 != 0 {
            return vec![0; usize::from(len) * times];
        }
        let (data, rest) = self.0.split_at(usize::from(len).min(self.0.len()));
        self.0 = rest;
        data.repeat(times)
    }
}
