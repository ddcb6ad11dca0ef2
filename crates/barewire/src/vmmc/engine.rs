//! What a node knows, and what it does with packets.

use std::collections::{HashMap, VecDeque};
use std::fmt;

use barewire_core::region::{Key, Memory, Op, Rights, Who};
use barewire_core::{Deliver, Endpoint, Flow, Incoming, Peer};

use super::bind::BindEntry;
use super::names::{
    Arrival, Export, Import, ImportError, Invalidated, Notify, RedirectError, Redirected, TransferError, Why,
};
use super::wire::{self, Kind};
use crate::registered::Registered;
use crate::slab::{Slab, Slot};

/// What a node counted.
///
/// ```
/// # use barewire::core::{Config, Endpoint, job::Job, region::{Memory, Who}};
/// # use barewire::vmmc::*;
/// # let mut node = Vmmc::new(Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap());
/// # let (me, buffer) = (node.core().me(), Memory::shared(100).unwrap());
/// # let export = node.export(&buffer, 1, Who::Anyone).unwrap();
/// # let proxy = node.import(me, 1, None).unwrap();
/// # let data = Memory::private(10);
/// # data.write(0, b"0123456789");
/// let transfer = node.send(proxy, 0, (&data, 0, 10), Notify::Tell).unwrap();
/// node.finish(transfer, None).unwrap();
/// let Counters { transfers, updates, dropped, .. } = node.counters();
/// assert_eq!((transfers, updates, dropped), (1, 0, 0));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Counters {
    /// Deliberate updates begun.
    pub transfers: u64,
    /// Pieces of memory that automatic updates found changed and sent, and their bytes.
    pub updates: u64,
    /// Bytes of those.
    pub update_bytes: u64,
    /// Pages (of 4096 bytes) that were looked at to find what was written behind a binding's back.
    pub compared: u64,
    /// Transfers that went to where they were re-aimed.
    pub early: u64,
    /// Transfers that had to be copied there.
    pub late: u64,
    /// Notification handlers run.
    pub notifications: u64,
    /// Notifications and arrivals that were not kept, because too many waited.
    pub dropped: u64,
    /// Packets that make no sense.
    pub strays: u64,
}

pub(super) type Handler = Box<dyn FnMut(&Arrival) + Send>;

pub(super) struct ExportEntry {
    pub memory: Memory,
    pub number: u32,
    pub who: Who,
    pub key: Key,
    pub redirectable: bool,
    pub importers: Vec<Importer>,
    pub handler: Option<Handler>,
}

/// Somebody who has imported a buffer of ours, or from whom we expect a transfer.
#[derive(Debug)]
pub(super) struct Importer {
    pub peer: Peer,
    /// The import's name there; `None` if it has not been imported yet.
    pub import: Option<u32>,
    /// The turn of the next redirection: transfers that were claimed, and redirections that wait.
    pub turn: u32,
    /// Redirections that wait for their transfer.
    pub waiting: VecDeque<Slot>,
    /// Transfers in the default buffer that nobody has claimed.
    pub unclaimed: VecDeque<Arrival>,
}

#[derive(Debug)]
pub(super) struct RedirectEntry {
    pub export: Slot,
    pub from: Peer,
    pub memory: Memory,
    pub at: u64,
    pub room: u64,
    pub turn: u32,
    /// The key under which the peer may write there; `None` if there was no room in the UTLB.
    pub key: Option<Key>,
    pub outcome: Option<Result<Redirected, RedirectError>>,
}

#[derive(Debug)]
pub(super) struct ImportEntry {
    pub peer: Peer,
    pub state: ImportState,
    /// Transfers under way, in order.
    pub queue: VecDeque<Slot>,
    /// The number of the next transfer.
    pub turn: u32,
    /// Where transfers may go instead, by turn.
    pub aims: VecDeque<Aim>,
    pub listed: bool,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum ImportState {
    Asked,
    Valid(Valid),
    Invalid(Why),
    Refused(ImportError),
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Valid {
    pub key: Key,
    /// The export's name there.
    pub export: u32,
    pub redirectable: bool,
}

/// A place other than the default buffer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Aim {
    pub turn: u32,
    pub room: u64,
    pub at: u64,
    pub key: Key,
}

#[derive(Debug)]
pub(super) struct TransferEntry {
    pub source: Memory,
    pub at: u64,
    pub offset: u64,
    pub len: u64,
    pub notify: Notify,
    pub stage: Stage,
}

#[derive(Debug)]
pub(super) enum Stage {
    Queued,
    /// To go to the default buffer after all.
    Again,
    /// The operation, and the place it goes to if that is not the default buffer.
    Under(Op, Option<Aim>),
    /// In place; the owner is to be told.
    Placed {
        redirected: bool,
    },
    Done(Result<(), TransferError>),
}

pub(super) struct Engine {
    pub exports: Slab<ExportEntry>,
    pub numbers: HashMap<u32, Slot>,
    pub imports: Slab<ImportEntry>,
    pub transfers: Slab<TransferEntry>,
    pub redirections: Slab<RedirectEntry>,
    pub bindings: Slab<BindEntry>,
    /// Whether the kernel is asked what was written to a binding's memory.
    pub tracked: bool,
    /// Places to which transfers are re-aimed, each registered for one peer.
    pub utlb: Registered<Peer, Key>,
    /// Imports with transfers under way.
    pub busy: Vec<Slot>,
    /// Operations whose outcome nobody wants any more.
    pub orphans: Vec<Op>,
    pub events: VecDeque<Invalidated>,
    /// Notifications that wait for their handlers.
    pub due: VecDeque<Arrival>,
    pub counters: Counters,
    /// Counted up whenever something happens that somebody may wait for.
    pub news: u64,
}

impl fmt::Debug for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Engine").field("counters", &self.counters).finish_non_exhaustive()
    }
}

/// Arrivals that nobody claims, kept for each importer.
const UNCLAIMED_MAX: usize = 1024;
/// Notifications that are kept while they are blocked.
const DUE_MAX: usize = 1 << 14;
/// Imports of one buffer.
const IMPORTERS_MAX: usize = 1 << 20;
/// Imports of one buffer by one peer.
const IMPORTS_OF_PEER_MAX: usize = 1 << 12;

impl Deliver for Engine {
    fn deliver(&mut self, core: &mut Endpoint, packet: Incoming<'_>) -> Flow {
        self.news += 1;
        let handled = match Kind::of(packet.port).filter(|_| packet.stream.is_none()) {
            Some(kind) => self.on_packet(core, kind, packet),
            None => None,
        };
        self.counters.strays += u64::from(handled.is_none());
        Flow::Continue
    }

    #[cold]
    fn peer_lost(&mut self, _: &mut Endpoint, peer: Peer) {
        self.news += 1;
        let lost: Vec<Slot> =
            self.imports.iter().filter(|(_, import)| import.peer == peer).map(|(id, _)| id).collect();
        for id in lost {
            self.invalidate(id, Why::PeerLost);
        }
        let mut failed = Vec::new();
        for (_, export) in self.exports.iter_mut() {
            for importer in export.importers.iter_mut().filter(|importer| importer.peer == peer) {
                failed.extend(importer.waiting.drain(..));
            }
            export.importers.retain(|importer| importer.peer != peer);
        }
        for id in failed {
            self.end_redirection(id, Err(RedirectError::PeerLost));
        }
    }
}

impl Engine {
    pub fn new(utlb: usize) -> Engine {
        Engine {
            exports: Slab::default(),
            numbers: HashMap::new(),
            imports: Slab::default(),
            transfers: Slab::default(),
            redirections: Slab::default(),
            bindings: Slab::default(),
            tracked: true,
            utlb: Registered::new(utlb),
            busy: Vec::new(),
            orphans: Vec::new(),
            events: VecDeque::new(),
            due: VecDeque::new(),
            counters: Counters::default(),
            news: 0,
        }
    }

    /// `None` if the packet makes no sense.
    fn on_packet(&mut self, core: &mut Endpoint, kind: Kind, mut packet: Incoming<'_>) -> Option<()> {
        let (from, imm) = (packet.from, packet.imm);
        match kind {
            Kind::Import => {
                let import = packet.read_u64()? as u32;
                self.on_import(core, from, imm as u32, import);
                Some(())
            }
            Kind::Imported => self.on_imported(core, &mut packet),
            Kind::Unimport => {
                let import = packet.read_u64()? as u32;
                let (_, export) = self.exports.find(imm as u32)?;
                let of = |importer: &Importer| (importer.peer, importer.import) == (from, Some(import));
                let at = export.importers.iter().position(of)?;
                let gone = export.importers.remove(at);
                for id in gone.waiting {
                    self.end_redirection(id, Err(RedirectError::PeerLost));
                }
                Some(())
            }
            Kind::Invalid => {
                let (id, _) = self.imports.find(imm as u32).filter(|(_, import)| import.peer == from)?;
                self.invalidate(id, Why::Unexported);
                Some(())
            }
            Kind::Arrived => self.on_arrived(&mut packet),
            Kind::Redirect => {
                let (turn, room) = (packet.read_u64()? as u32, packet.read_u64()?);
                let at = packet.read_u64()?;
                let mut key = [0; Key::BYTES];
                let whole = packet.read(&mut key) == Key::BYTES;
                let key = Key::from_bytes(key);
                let (_, import) = self.imports.find(imm as u32).filter(|(_, import)| import.peer == from)?;
                // An aim for a transfer that is under way already came too late: the owner will copy.
                let ahead = turn.wrapping_sub(import.turn) as i32 >= 0;
                if !whole || key.owner != from || import.aims.len() >= UNCLAIMED_MAX {
                    return None;
                }
                if ahead {
                    import.aims.push_back(Aim { turn, room, at, key });
                }
                Some(())
            }
        }
    }

    /// Somebody wants to import a buffer of ours.
    fn on_import(&mut self, core: &mut Endpoint, from: Peer, number: u32, import: u32) {
        let found = self.numbers.get(&number).copied();
        let export = found.and_then(|id| Some((id, self.exports.get_mut(id)?)));
        let verdict = match &export {
            None => wire::NOT_EXPORTED,
            Some((_, export)) if matches!(&export.who, Who::Only(peers) if !peers.contains(&from)) => {
                wire::DENIED
            }
            Some((_, export)) if export.is_full_for(from) => wire::TOO_MANY,
            Some((_, export)) if !export.redirectable => wire::GRANTED,
            Some((_, export)) => {
                let here = |importer: &Importer| importer.peer == from && importer.import.is_some();
                if export.importers.iter().any(here) { wire::TWICE } else { wire::GRANTED_REDIRECTABLE }
            }
        };
        let granted = export.filter(|_| verdict <= wire::GRANTED_REDIRECTABLE);
        let (name, key) = granted.as_ref().map_or((0, None), |(id, export)| (id.short(), Some(export.key)));
        let len = 16 + if key.is_some() { Key::BYTES } else { 0 };
        // If the peer is gone, it wants nothing.
        let _ = core.reply_with(from, Kind::Imported.port(), u64::from(import), len, |wire| {
            wire.write_u64(verdict);
            wire.write_u64(u64::from(name));
            if let Some(key) = key {
                wire.write(&key.to_bytes());
            }
        });
        let Some((id, export)) = granted else { return };
        match export.importers.iter_mut().find(|importer| importer.peer == from && importer.import.is_none())
        {
            Some(expected) => expected.import = Some(import),
            None => export.importers.push(Importer::new(from, Some(import))),
        }
        self.send_aims(core, id, from);
    }

    fn on_imported(&mut self, core: &mut Endpoint, packet: &mut Incoming<'_>) -> Option<()> {
        let (verdict, export) = (packet.read_u64()?, packet.read_u64()? as u32);
        let mut key = [0; Key::BYTES];
        let whole = packet.read(&mut key) == Key::BYTES;
        let key = Key::from_bytes(key);
        let (from, name) = (packet.from, packet.imm as u32);
        let Some((_, import)) = self.imports.find(name).filter(|(_, import)| import.peer == from) else {
            // Nobody waits for it any more, and its owner is not to think so.
            if verdict <= wire::GRANTED_REDIRECTABLE {
                unimport(core, from, export, name);
            }
            return Some(());
        };
        if !matches!(import.state, ImportState::Asked) {
            return None;
        }
        import.state = match verdict {
            wire::GRANTED | wire::GRANTED_REDIRECTABLE if whole && key.owner == packet.from => {
                let redirectable = verdict == wire::GRANTED_REDIRECTABLE;
                ImportState::Valid(Valid { key, export, redirectable })
            }
            wire::NOT_EXPORTED => ImportState::Refused(ImportError::NotExported),
            wire::TWICE => ImportState::Refused(ImportError::Twice),
            wire::TOO_MANY => ImportState::Refused(ImportError::TooMany),
            _ => ImportState::Refused(ImportError::Denied),
        };
        Some(())
    }

    /// A transfer to a buffer of ours is in place, and its sender has something to say about it.
    fn on_arrived(&mut self, packet: &mut Incoming<'_>) -> Option<()> {
        let word = packet.read_u64()?;
        let (offset, len) = (packet.read_u64()?, packet.read_u64()?);
        let from = packet.from;
        let (id, export) = self.exports.find(packet.imm as u32)?;
        let of = |importer: &&mut Importer| (importer.peer, importer.import) == (from, Some(word as u32));
        let importer = export.importers.iter_mut().find(of)?;
        if offset.checked_add(len).is_none_or(|end| end > export.memory.len() as u64) {
            return None;
        }
        let arrival = Arrival { export: Export(id), from, offset, len };
        if export.redirectable {
            match importer.waiting.pop_front() {
                Some(claim) => self.claimed(claim, arrival, word & wire::REDIRECTED != 0),
                None => {
                    importer.turn = importer.turn.wrapping_add(1);
                    if importer.unclaimed.len() >= UNCLAIMED_MAX {
                        importer.unclaimed.pop_front();
                        self.counters.dropped += 1;
                    }
                    importer.unclaimed.push_back(arrival);
                }
            }
        }
        if word & wire::TELL != 0 {
            if self.due.len() < DUE_MAX {
                self.due.push_back(arrival);
            } else {
                self.counters.dropped += 1;
            }
        }
        Some(())
    }

    /// An import is of no use any more.
    pub fn invalidate(&mut self, id: Slot, why: Why) {
        let Some(import) = self.imports.get_mut(id) else { return };
        let was = std::mem::replace(&mut import.state, ImportState::Invalid(why));
        match was {
            ImportState::Invalid(first) => import.state = ImportState::Invalid(first),
            ImportState::Refused(_) => import.state = was,
            ImportState::Asked => {}
            ImportState::Valid(_) => {
                let (peer, queue) = (import.peer, std::mem::take(&mut import.queue));
                import.aims.clear();
                for transfer in queue {
                    if let Some(transfer) = self.transfers.get_mut(transfer) {
                        if let Stage::Under(op, _) = transfer.stage {
                            self.orphans.push(op);
                        }
                        transfer.stage = Stage::Done(Err(TransferError::Invalid(why)));
                    }
                }
                self.events.push_back(Invalidated { import: Import(id), peer, why });
            }
        }
    }

    /// Makes a buffer importable.
    pub fn export(
        &mut self,
        core: &mut Endpoint,
        memory: &Memory,
        number: u32,
        who: Who,
        redirectable: bool,
    ) -> Result<Export, super::names::ExportError> {
        use super::names::ExportError;
        if self.numbers.contains_key(&number) {
            return Err(ExportError::NumberTaken(number));
        }
        let key = core.export(memory, Rights::WRITE, who.clone())?;
        let entry = ExportEntry {
            memory: memory.clone(),
            number,
            who,
            key,
            redirectable,
            importers: Vec::new(),
            handler: None,
        };
        let Some(id) = self.exports.insert(entry) else {
            core.revoke(key);
            return Err(ExportError::TooMany);
        };
        self.numbers.insert(number, id);
        Ok(Export(id))
    }
}

impl ExportEntry {
    /// Whether a peer may not import it once more, so that one that does so without end leaves room for the others.
    fn is_full_for(&self, peer: Peer) -> bool {
        let of_peer = || self.importers.iter().filter(|importer| importer.peer == peer).count();
        self.importers.len() >= IMPORTERS_MAX
            || (self.importers.len() >= IMPORTS_OF_PEER_MAX && of_peer() >= IMPORTS_OF_PEER_MAX)
    }
}

/// Tells the owner of a buffer that an import of ours is no more. If it is gone, so is what it knew of us.
pub(super) fn unimport(core: &mut Endpoint, owner: Peer, export: u32, import: u32) {
    let _ = core.reply_with(owner, Kind::Unimport.port(), u64::from(export), 8, |wire| {
        wire.write_u64(u64::from(import));
    });
}

impl Importer {
    pub fn new(peer: Peer, import: Option<u32>) -> Importer {
        Importer { peer, import, turn: 0, waiting: VecDeque::new(), unclaimed: VecDeque::new() }
    }
}
