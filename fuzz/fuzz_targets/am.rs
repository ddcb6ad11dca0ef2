//! Active messages from a peer that lies: requests, replies, acknowledgements, what comes back, and bulk data in any pieces.
#![no_main]

mod liar;

use barewire::am::{Bundle, Ctx, Memory, Name, Node, Tag};
use barewire_core::{Endpoint, Peer};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| liar::lie::<Victim>(bytes));

const SEGMENT_BYTES: u64 = 4096;

/// A node with an endpoint that is polled and one that is not.
struct Victim {
    node: Node<()>,
    bundle: Bundle,
}

impl liar::Layer for Victim {
    const MARK: u16 = 0xA000;
    /// To one of two endpoints, and one of its first four handlers.
    const IMM: u64 = 0x0001_ffff_03ff_ffff;

    fn over(core: Endpoint) -> Victim {
        let mut node = Node::new(core, ());
        let [bundle, unpolled] = [(); 2].map(|()| node.allocate_bundle().expect("a number"));
        for (bundle, tag) in [(bundle, Tag::ALL), (unpolled, Tag(7))] {
            let ep = node.allocate_endpoint(bundle).expect("a number");
            node.set_tag(ep, tag).expect("it is there");
            node.set_seg(ep, Memory::private(SEGMENT_BYTES as usize)).expect("it is there");
            node.map(ep, 0, Name { peer: Peer(1), index: 0 }, Tag(7)).expect("it is there");
            (0..4).for_each(|index| node.set_handler(ep, index, answer).expect("it is there"));
            for _ in 0..3 {
                node.request(ep, 0, 1, &[1, 2]).expect("there is room for three");
            }
        }
        Victim { node, bundle }
    }

    fn poll(&mut self) {
        self.node.poll(self.bundle);
    }

    fn into_core(self) -> Endpoint {
        self.node.into_core()
    }
}

/// Looks at all that a handler may look at, and answers in every way. Where an answer is not allowed, none is sent.
fn answer(ctx: &mut Ctx<'_, ()>, args: &[u64]) {
    let place = ctx.place().filter(|_| ctx.returned().is_none());
    if let Some(end) = place.map(|place| place.offset.checked_add(place.len)) {
        assert!(end.is_some_and(|end| end <= SEGMENT_BYTES), "data outside the segment: {place:?}");
    }
    let mut data = vec![0; ctx.remaining()];
    assert_eq!(ctx.read(&mut data), data.len());
    let _ = match args.len() % 3 {
        0 => ctx.reply(1, args),
        1 => ctx.reply_medium(2, args, &data),
        _ => ctx.reply_xfer(3, args, 0, &[1; 100]),
    };
}
