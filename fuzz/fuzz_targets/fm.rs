//! Fast Messages from a peer that lies: to handlers of whole messages and of streams, as long as they said or shorter.
#![no_main]

mod liar;

use barewire::fm::{Flow, Fm, Handler, Stream};
use barewire_core::Endpoint;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| liar::lie::<Victim>(bytes));

struct Victim(Fm);

impl liar::Layer for Victim {
    const MARK: u16 = 0;
    const IMM: u64 = u64::MAX;

    fn over(core: Endpoint) -> Victim {
        let mut fm = Fm::new(core).expect("a doorbell");
        fm.register(Handler(0), |context, message| {
            let (from, bytes) = (message.from(), message.to_vec());
            assert_eq!(bytes.len() as u64, message.len());
            // There may be no room for an answer.
            let _ = context.send(from, Handler(1), &bytes[..bytes.len().min(100)]);
            Flow::Continue
        });
        fm.register(Handler(1), |_, message| {
            message.words();
            Flow::Continue
        });
        fm.register_stream(Handler(2), in_pieces);
        fm.register_stream(Handler(3), |_: Stream| async { Flow::Continue });
        Victim(fm)
    }

    fn poll(&mut self) {
        self.0.extract(usize::MAX);
    }

    fn into_core(self) -> Endpoint {
        self.0.into_endpoint()
    }
}

async fn in_pieces(mut stream: Stream) -> Flow {
    let (mut piece, mut got) = ([0; 7], 0);
    loop {
        let n = stream.receive(&mut piece).await;
        got += n as u64;
        if n < piece.len() {
            assert_eq!(got, stream.received());
            return Flow::Continue;
        }
    }
}
