//! What holds for active messages, whatever the wire and whatever carries them. To run the suite over another wire, add a line at
//! `suites!` below.
//!
//! Over virtual interfaces a few things do not apply: the short form has no such carrier, nonsense looks different there, and a
//! transfer does not ask its target before every part of it. `over_via` has their places.

#[macro_use]
#[path = "../../../core/tests/wires/mod.rs"]
#[allow(unused_macros, reason = "what carries the messages counts too, so the wires are listed here")]
mod wires;
#[path = "../common/mod.rs"]
mod common;

mod bulk;
mod bundles;
mod messages;
mod over_via;
mod returned;
mod simple;

use std::sync::atomic::Ordering;
use std::thread;
use std::time::Duration;

use barewire::am::{Bundle, Ep, Name, Node, Returned, Tag, ViaConfig};
use barewire::core::{Endpoint, Ignore, Peer, Port, SendError};
use common::{Meeting, pattern};
use wires::{PATIENCE, Wires};

/// What to run the suite over.
struct Wire {
    wires: Wires,
    /// Whether a sleeper is woken by a ring of its doorbell.
    rings: bool,
    /// Carried by virtual interfaces.
    via: Option<ViaConfig>,
}

impl Wire {
    fn over_via(self) -> Wire {
        Wire { via: Some(ViaConfig::default()), ..self }
    }
}

fn shm() -> Wire {
    Wire { wires: Wires::shm(), rings: true, via: None }
}

/// Little room: messages wait, replies go through the outbox, transfers come in small pieces.
fn narrow_shm() -> Wire {
    let narrow =
        Wires::shm().with(|config| (config.ring_bytes, config.pool_bytes) = (Some(4096), Some(1 << 16)));
    Wire { wires: narrow, ..shm() }
}

fn tcp() -> Wire {
    Wire { wires: Wires::tcp(), rings: false, via: None }
}

fn sim_awful() -> Wire {
    Wire { wires: Wires::sim_awful(), ..tcp() }
}

fn via_shm() -> Wire {
    shm().over_via()
}

fn via_narrow_shm() -> Wire {
    narrow_shm().over_via()
}

/// One request at a time.
fn via_one_credit() -> Wire {
    Wire { via: Some(ViaConfig { credits: 1, ..ViaConfig::default() }), ..narrow_shm() }
}

fn via_tcp() -> Wire {
    tcp().over_via()
}

fn via_sim_poor() -> Wire {
    Wire { wires: Wires::sim_poor(), ..sim_awful() }.over_via()
}

/// Makes the tests of some groups for each wire.
macro_rules! suites {
    ($($wire:ident: $($group:ident)*;)*) => { $(mod $wire { $(mod $group { crate::$group!($wire); })* })* };
}

/// Tests that pass over every wire.
macro_rules! always {
    ($wire:ident) => {
        crate::tests! { $wire,
            messages {
                each_message_runs_its_handler_once_and_in_order
                eight_arguments_arrive_and_nine_are_refused
                medium_messages_carry_from_nothing_to_a_packet
                a_handler_knows_source_tag_and_endpoint
                a_reply_handler_may_neither_request_nor_reply
                a_request_is_replied_to_once
                a_storm_both_ways_ends_at_any_credit
                changing_a_tag_revokes_old_senders
                a_new_endpoint_accepts_nothing_and_all_accepts_everything
                all_handlers_and_translations_can_be_used
            }
            bulk {
                data_is_in_place_before_the_handler_runs
                replies_put_data_into_the_requesters_segment
                an_asynchronous_transfer_refuses_instead_of_waiting
                nothing_overtakes_a_transfer
                bulk_both_ways_ends_at_credit_one
            }
            bundles {
                an_endpoint_moves_with_its_messages
                wait_sema_sleeps_wakes_and_runs_nothing
                a_shared_node_is_polled_by_several_threads
                threads_wait_for_different_bundles_of_a_shared_node
            }
            returned {
                bad_tag
                bad_handler
                bad_segment_offset
                bad_length
                bad_endpoint
                unreachable_after_the_peer_left
                an_unwanted_reply_comes_back_to_the_replier
                unwanted_replies_give_their_credit_back
                returned_messages_give_their_credit_back
                messages_that_wait_for_a_freed_endpoint_come_back
            }
        }
    };
}
use always;

/// Tests in which several requests are on their way and nobody takes them.
macro_rules! with_credits {
    ($wire:ident) => {
        crate::tests! { $wire,
            messages { a_request_handler_may_request_but_never_waits }
            bundles { only_the_polled_bundle_runs }
            returned { congestion unreachable_while_requests_are_outstanding }
        }
    };
}
use with_credits;

/// Tests of messages that the core carries.
macro_rules! over_core {
    ($wire:ident) => {
        crate::tests! { $wire,
            messages { nonsense_from_a_peer_is_dropped }
            bulk {
                changing_the_tag_stops_a_transfer_in_the_middle
                a_transfer_that_ends_early_runs_nothing_and_costs_its_sender_the_link
            }
            simple {
                each_message_runs_its_handler_once_and_in_order
                a_storm_both_ways_ends
                the_rules_of_reply_and_request_hold
            }
        }
    };
}
use over_core;

/// Tests of messages that virtual interfaces carry.
macro_rules! over_vis {
    ($wire:ident) => {
        crate::tests! { $wire,
            over_via {
                bulk_data_is_written_by_rdma_and_sources_stay_registered
                changing_the_tag_closes_the_segment
                one_interface_serves_all_translations_of_a_pair
                nonsense_from_a_peer_is_dropped
            }
        }
    };
}
use over_vis;

macro_rules! tests {
    ($wire:ident, $($part:ident { $($test:ident)* })*) => {
        $(mod $part { $(#[test] fn $test() { crate::$part::$test(&crate::$wire()); })* })*
    };
}
use tests;

suites! {
    shm: always with_credits over_core;
    narrow_shm: always with_credits over_core;
    tcp: always with_credits over_core;
    sim_awful: always with_credits over_core;
    via_shm: always with_credits over_vis;
    via_narrow_shm: always with_credits over_vis;
    via_one_credit: always over_vis;
    via_tcp: always with_credits over_vis;
    via_sim_poor: always with_credits over_vis;
}

const TAG: Tag = Tag(0x7a9);

/// What the handlers of most tests work on.
#[derive(Debug, Default)]
struct Log {
    got: Vec<Vec<u64>>,
    data: Vec<Vec<u8>>,
    returned: Vec<(Returned, Vec<u64>, Vec<u8>)>,
    count: u64,
}

/// A node with one endpoint, whose translation `p` stands for the same endpoint at peer `p`.
struct Member {
    node: Node<Log>,
    bundle: Bundle,
    ep: Ep,
    me: u32,
    size: u32,
}

impl Member {
    fn new(core: Endpoint, wire: &Wire) -> Member {
        let (me, size) = (core.me().0, core.size());
        let mut node = match wire.via {
            None => Node::new(core, Log::default()),
            Some(via) => Node::over_via(core, via, Log::default()),
        };
        let bundle = node.allocate_bundle().unwrap();
        let ep = node.allocate_endpoint(bundle).unwrap();
        node.set_tag(ep, TAG).unwrap();
        for peer in 0..size {
            node.map(ep, peer as u8, Name { peer: Peer(peer), ..node.name(ep) }, TAG).unwrap();
        }
        let mut member = Member { node, bundle, ep, me, size };
        member.log_returned(member.ep);
        member
    }

    /// Handler 0 of `ep` writes down what comes back.
    fn log_returned(&mut self, ep: Ep) {
        self.node
            .set_handler(ep, 0, |ctx, args| {
                let mut data = vec![0; ctx.remaining()];
                ctx.read(&mut data);
                let returned = ctx.returned().unwrap();
                ctx.state.returned.push((returned, args.to_vec(), data));
            })
            .unwrap();
    }

    /// Handler `index` writes down arguments and data.
    fn log_messages(&mut self, index: u8) {
        self.node
            .set_handler(self.ep, index, |ctx, args| {
                let mut data = vec![0; ctx.remaining()];
                ctx.read(&mut data);
                ctx.state.data.push(data);
                ctx.state.got.push(args.to_vec());
                ctx.state.count += 1;
            })
            .unwrap();
    }

    fn other(&self) -> u8 {
        assert_eq!(self.size, 2);
        1 - self.me as u8
    }

    fn request(&mut self, to: u8, handler: u8, args: &[u64]) {
        self.node.request(self.ep, to, handler, args).unwrap();
    }

    fn wait(&mut self, done: impl FnMut(&mut Log) -> bool) {
        self.node.wait(self.bundle, PATIENCE, done).unwrap();
    }
}

/// Runs `body` on `size` threads, one endpoint each. None leaves, nor stops polling, before all are done.
fn run(size: u32, wire: &Wire, body: impl Fn(&mut Member) + Sync) {
    let done = Meeting::new(size);
    run_cores(size, wire, |core| {
        let mut member = Member::new(core, wire);
        body(&mut member);
        done.meet(|| {
            member.node.poll(member.bundle);
        });
    });
}

/// Runs `body` on `size` threads, each with an endpoint of the core.
fn run_cores(size: u32, wire: &Wire, body: impl Fn(Endpoint) + Sync) {
    wire.wires.run(size, body);
}

/// Numbers that look random and are the same every time.
fn numbers() -> impl FnMut() -> u64 {
    let mut seed = 88172645463325252u64;
    move || {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        seed
    }
}

/// Sends peer 1 something that the layers above never would, as a long message or in one packet.
fn shove(core: &mut Endpoint, port: Port, imm: u64, bytes: &[u8], long: bool) {
    let mut sending = long.then(|| core.begin(Peer(1), port, imm, bytes.len() as u64).unwrap());
    loop {
        let sent = match &mut sending {
            Some(sending) => core.push(sending, bytes).map(drop),
            None => core.send(Peer(1), port, imm, bytes),
        };
        match sent {
            Ok(()) => break,
            Err(SendError::Full) => core.progress(&mut Ignore, usize::MAX),
            Err(error) => panic!("{error}"),
        };
        thread::yield_now();
    }
}
