//! What holds for active messages, whatever the wire. To run the suite over another wire, add a line at `suites!` below.
//!
//! Over virtual interfaces three things do not apply: the simple form has no such carrier, nonsense looks different there, and a one-sided
//! transfer does not ask its target before every part of it. `over_via` has their places.

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
use barewire::core::job::Job;
use barewire::core::{Config, Endpoint, Peer};
use common::{Meeting, pattern};

/// A wire to run the suite over.
struct Wire {
    config: Config,
    /// Whether a sleeper is woken by a ring of its doorbell.
    rings: bool,
    /// Carried by virtual interfaces.
    via: Option<ViaConfig>,
}

fn shm() -> Wire {
    Wire { config: Config::default(), rings: true, via: None }
}

/// Little room: messages wait, replies go through the outbox, transfers come in small pieces.
fn narrow_shm() -> Wire {
    Wire {
        config: Config { ring_bytes: 4096, pool_bytes: 1 << 16, ..Config::default() },
        rings: true,
        via: None,
    }
}

fn via_shm() -> Wire {
    Wire { via: Some(ViaConfig::default()), ..shm() }
}

/// One request at a time, and little room.
fn via_narrow_shm() -> Wire {
    Wire { via: Some(ViaConfig { credits: 1, ..ViaConfig::default() }), ..narrow_shm() }
}

fn via_tcp() -> Wire {
    let config = Config { shm: false, ..Config::default() };
    Wire { config, rings: false, via: Some(ViaConfig::default()) }
}

macro_rules! suites {
    ($($wire:ident)*) => { $(mod $wire { crate::suite!($wire); })* };
}

macro_rules! via_suites {
    ($($wire:ident)*) => { $(mod $wire { crate::via_suite!($wire); })* };
}

/// Every test of the suite, for one wire.
macro_rules! suite {
    ($wire:ident) => {
        crate::suite! { $wire,
            messages {
                each_message_runs_its_handler_once_and_in_order
                eight_arguments_arrive_and_nine_are_refused
                medium_messages_carry_from_nothing_to_a_packet
                a_handler_knows_source_tag_and_endpoint
                a_reply_handler_may_neither_request_nor_reply
                a_request_is_replied_to_once
                a_storm_both_ways_ends_at_any_credit
                a_request_handler_may_request_but_never_waits
                changing_a_tag_revokes_old_senders
                a_new_endpoint_accepts_nothing_and_all_accepts_everything
                all_handlers_and_translations_can_be_used
                nonsense_from_a_peer_is_dropped
            }
            bulk {
                data_is_in_place_before_the_handler_runs
                replies_put_data_into_the_requesters_segment
                an_asynchronous_transfer_refuses_instead_of_waiting
                nothing_overtakes_a_transfer
                bulk_both_ways_ends_at_credit_one
                changing_the_tag_stops_a_transfer_in_the_middle
            }
            bundles {
                only_the_polled_bundle_runs
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
                congestion
                unreachable_after_the_peer_left
                unreachable_while_requests_are_outstanding
                an_unwanted_reply_comes_back_to_the_replier
                returned_messages_give_their_credit_back
            }
            simple {
                each_message_runs_its_handler_once_and_in_order
                a_storm_both_ways_ends
                the_rules_of_reply_and_request_hold
            }
        }
    };
    ($wire:ident, $($part:ident { $($test:ident)* })*) => {
        $(mod $part { $(#[test] fn $test() { crate::$part::$test(&crate::$wire()); })* })*
    };
}
use suite;

/// What of the suite applies to virtual interfaces, and what holds for them alone.
macro_rules! via_suite {
    ($wire:ident) => {
        crate::suite! { $wire,
            messages {
                each_message_runs_its_handler_once_and_in_order
                eight_arguments_arrive_and_nine_are_refused
                medium_messages_carry_from_nothing_to_a_packet
                a_handler_knows_source_tag_and_endpoint
                a_reply_handler_may_neither_request_nor_reply
                a_request_is_replied_to_once
                a_storm_both_ways_ends_at_any_credit
                a_request_handler_may_request_but_never_waits
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
                only_the_polled_bundle_runs
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
                congestion
                unreachable_after_the_peer_left
                unreachable_while_requests_are_outstanding
                an_unwanted_reply_comes_back_to_the_replier
                returned_messages_give_their_credit_back
            }
            over_via {
                bulk_data_is_written_by_rdma_and_sources_stay_registered
                changing_the_tag_closes_the_segment
                one_interface_serves_all_translations_of_a_pair
                nonsense_from_a_peer_is_dropped
            }
        }
    };
}
use via_suite;

suites! { shm narrow_shm }
via_suites! { via_shm via_narrow_shm via_tcp }

const PATIENCE: Option<Duration> = Some(Duration::from_secs(60));
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
    thread::scope(|scope| {
        for job in Job::threads(size).unwrap() {
            let (body, config) = (&body, wire.config.clone());
            scope.spawn(move || body(Endpoint::open(job, config).unwrap()));
        }
    });
}
