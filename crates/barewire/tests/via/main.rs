//! What holds for VIs, whatever the wire.

#[path = "../common/mod.rs"]
mod common;
#[macro_use]
#[path = "../../../core/tests/wires/mod.rs"]
mod wires;

mod connecting;
mod ending;
mod flow;
mod protection;
mod transfer;

use std::time::Duration;

use barewire::core::region::Memory;
use barewire::core::{Endpoint, Peer};
use barewire::via::{Cq, Cqs, Descriptor, MemAttributes, MemHandle, Nic, Ptag, Status, Vi, ViAttributes};
use common::{Meeting, pattern};
use connecting::*;
use ending::*;
use flow::*;
use protection::*;
use transfer::*;
use wires::{PATIENCE, Wires};

for_every_wire! {
    clients_find_their_servers_by_discriminator
    concurrent_discriminators_match
    who_asks_for_too_much_leaves_room_for_others
    two_vis_of_one_nic_connect_as_equals
    a_client_and_an_equal_are_not_taken_for_each_other
    an_answer_to_an_earlier_request_is_not_taken
    attributes_must_agree
    a_request_that_nobody_takes_is_withdrawn
    messages_of_every_length_go_through_any_segments
    the_immediate_has_64_bits_and_an_rdma_write_with_one_takes_a_receive
    rdma_reads_what_the_other_end_has
    a_message_never_overtakes_an_rdma_write
    several_descriptors_go_with_one_doorbell
    one_queue_serves_a_thousand_vis_and_costs_what_ended
    no_posted_receive_drops_or_breaks_by_level
    reliable_reception_ends_only_in_the_targets_memory
    a_receiver_that_is_not_ready_is_tried_again
    a_receiver_that_never_is_ready_breaks_the_connection
    no_pause_is_too_long
    a_message_that_is_half_in_is_acknowledged_when_it_is_whole
    a_receiver_that_is_not_ready_for_a_long_message_is_tried_again
    a_receiver_that_never_is_ready_for_a_long_message_breaks_the_connection
    credits_keep_the_sender_from_overrunning
    vis_share_a_receive_queue
    other_tags_set_a_status_and_touch_nothing
    rdma_is_checked_by_the_owner
    a_revoked_tag_opens_nothing
    an_answer_that_nobody_asked_for_is_not_kept
    a_refusal_may_be_reported_without_breaking
    a_message_too_long_for_its_descriptor_breaks_the_connection
    disconnecting_flushes_everything_at_both_ends
    a_wait_for_what_cannot_come_says_why
    a_peer_that_leaves_fails_what_needs_it_and_nothing_else
    a_vi_connects_again_after_it_broke
}

/// One end of a test: a NIC with memory, a tag and a completion queue.
struct Member {
    nic: Nic,
    tag: Ptag,
    cq: Cq,
    memory: Memory,
    handle: MemHandle,
}

const MEMORY: usize = 1 << 20;

impl Member {
    fn new(core: Endpoint) -> Member {
        let mut nic = Nic::new(core);
        let tag = nic.create_ptag().unwrap();
        let cq = nic.create_cq().unwrap();
        let memory = Memory::shared(MEMORY).unwrap();
        let open = MemAttributes { rdma_write: true, rdma_read: true };
        let handle = nic.register(&memory, tag, open).unwrap();
        Member { nic, tag, cq, memory, handle }
    }

    fn me(&self) -> u32 {
        self.nic.core().me().0
    }

    fn other(&self) -> Peer {
        Peer(1 - self.me())
    }

    fn vi(&mut self, attributes: ViAttributes) -> Vi {
        self.nic.create_vi(self.tag, attributes, self.cq).unwrap()
    }

    /// A VI whose queues have no completion queue.
    fn plain_vi(&mut self, attributes: ViAttributes) -> Vi {
        self.nic.create_vi(self.tag, attributes, Cqs::default()).unwrap()
    }

    /// Posts a receive of `len` bytes at `offset`.
    fn receive(&mut self, vi: Vi, offset: u64, len: u64) {
        let descriptor = Descriptor::receive().segment(self.handle, offset, len).cookie(offset);
        self.nic.post_receive(vi, descriptor).unwrap();
    }

    /// Posts a send of `len` bytes at `offset`.
    fn send(&mut self, vi: Vi, offset: u64, len: u64) {
        self.nic.post_send(vi, Descriptor::send().segment(self.handle, offset, len)).unwrap();
    }

    fn meet(&mut self, vi: Vi, discriminator: u64) {
        let other = self.other();
        self.nic.connect_peer(vi, other, discriminator, PATIENCE).unwrap();
    }

    fn sent(&mut self, vi: Vi) -> Status {
        self.nic.send_wait(vi, PATIENCE).unwrap().status
    }

    fn received(&mut self, vi: Vi) -> Box<Descriptor> {
        self.nic.receive_wait(vi, PATIENCE).unwrap()
    }

    fn read(&self, offset: usize, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        assert!(self.memory.read(offset, &mut bytes));
        bytes
    }

    fn write(&self, offset: usize, bytes: &[u8]) {
        assert!(self.memory.write(offset, bytes));
    }
}

/// Runs `body` on two threads, one NIC each. Neither leaves, nor stops polling, before both are done.
fn run(wires: &Wires, body: impl Fn(&mut Member, &Meeting) + Sync) {
    let meeting = Meeting::new(2);
    wires.run(2, |core| {
        let mut member = Member::new(core);
        body(&mut member, &meeting);
        meeting.meet(|| {
            member.nic.poll();
        });
    });
}

/// Waits a while, making progress.
fn idle(member: &mut Member) {
    let found: Result<(), _> = member.nic.wait("nothing", Some(Duration::from_millis(30)), |_| None);
    assert!(found.is_err());
}
