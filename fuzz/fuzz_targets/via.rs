//! Packets between NICs from one that lies: connections, messages, acknowledgements, credit, names of memory.
#![no_main]

mod liar;

use barewire::core::region::Memory;
use barewire::via::{Cq, Descriptor, MemAttributes, Nic, ViAttributes};
use barewire_core::{Endpoint, Peer};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| liar::lie::<Victim>(bytes));

const DISCRIMINATOR: u64 = 7;

/// A NIC with a VI that calls the liar, one that waits for it to call, and one for whoever meets it.
struct Victim {
    nic: Nic,
    cq: Cq,
}

impl liar::Layer for Victim {
    const MARK: u16 = 0xB000;
    /// Small numbers, as those of VIs are.
    const IMM: u64 = 0x0000_000f_0000_000f;

    fn over(core: Endpoint) -> Victim {
        let mut nic = Nic::new(core);
        let tag = nic.create_ptag().expect("a number");
        let memory = nic.register(&Memory::private(4096), tag, MemAttributes::default()).expect("a number");
        let cq = nic.create_cq().expect("a number");
        let vis = [(); 3].map(|()| nic.create_vi(tag, ViAttributes::default(), cq).expect("a number"));
        for vi in vis {
            for at in [0, 100] {
                nic.post_receive(vi, Descriptor::receive().segment(memory, at, 100)).expect("it is idle");
            }
        }
        nic.connect_request(vis[0], Peer(1), DISCRIMINATOR).expect("it is idle");
        nic.connect_peer_request(vis[1], Peer(1), DISCRIMINATOR + 1).expect("it is idle");
        Victim { nic, cq }
    }

    fn poll(&mut self) {
        self.nic.poll();
        while let Some(done) = self.nic.cq_done(self.cq) {
            // What was received goes out again, as far as the connection stands.
            let _ = self.nic.post_send(done.vi, done.descriptor);
        }
        while self.nic.next_fault().is_some() {}
        if let Some(request) = self.nic.connect_request_done(DISCRIMINATOR) {
            let _ = self.nic.reject(request);
        }
    }

    fn into_core(self) -> Endpoint {
        self.nic.into_core()
    }
}
