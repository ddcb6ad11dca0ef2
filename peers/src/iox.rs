//! iceoryx2: loans of shared memory, published and polled for; a service each way.

use anyhow::{Result, anyhow};
use iceoryx2::port::publisher::Publisher;
use iceoryx2::port::subscriber::Subscriber;
use iceoryx2::prelude::*;

use crate::Side;

/// The most bytes of a message.
const BYTES_MAX: usize = 8 << 20;

pub struct Iox {
    publisher: Publisher<ipc::Service, [u8], ()>,
    subscriber: Subscriber<ipc::Service, [u8], ()>,
    _node: Node<ipc::Service>,
}

impl Iox {
    pub fn open(name: &str, rank: usize) -> Result<Iox> {
        let failed = |what: &'static str| move |error: &dyn std::fmt::Debug| anyhow!("{what}: {error:?}");
        let node = NodeBuilder::new().create::<ipc::Service>().map_err(|e| failed("a node")(&e))?;
        let service = |way: usize| {
            let name = ServiceName::new(&format!("{name}/{way}")).map_err(|e| failed("a name")(&e))?;
            node.service_builder(&name)
                .publish_subscribe::<[u8]>()
                .subscriber_max_buffer_size(128)
                .enable_safe_overflow(false)
                .open_or_create()
                .map_err(|e| failed("a service")(&e))
        };
        let (out, into) = (service(rank)?, service(1 - rank)?);
        let publisher = out
            .publisher_builder()
            .initial_max_slice_len(BYTES_MAX)
            .unable_to_deliver_strategy(UnableToDeliverStrategy::Block)
            .create()
            .map_err(|e| failed("a publisher")(&e))?;
        let subscriber =
            into.subscriber_builder().buffer_size(128).create().map_err(|e| failed("a subscriber")(&e))?;
        let mut side = Iox { publisher, subscriber, _node: node };
        side.find_other()?;
        Ok(side)
    }

    /// What is published before anybody has subscribed is lost: both say hello until both have heard it.
    fn find_other(&mut self) -> Result<()> {
        loop {
            self.send(1)?;
            std::thread::sleep(std::time::Duration::from_millis(20));
            if self.subscriber.receive().map_err(|e| anyhow!("{e:?}"))?.is_some() {
                break;
            }
        }
        self.send(1)?;
        std::thread::sleep(std::time::Duration::from_millis(300));
        while self.subscriber.receive().map_err(|e| anyhow!("{e:?}"))?.is_some() {}
        Ok(())
    }
}

impl Side for Iox {
    fn send(&mut self, bytes: usize) -> Result<()> {
        let sample = self.publisher.loan_slice_uninit(bytes.max(1)).map_err(|e| anyhow!("a loan: {e:?}"))?;
        // The bytes are written, as a user's would be.
        let sample = sample.write_from_fn(|_| 1);
        sample.send().map_err(|e| anyhow!("sending: {e:?}"))?;
        Ok(())
    }

    fn receive(&mut self) -> Result<()> {
        loop {
            if let Some(sample) = self.subscriber.receive().map_err(|e| anyhow!("receiving: {e:?}"))? {
                std::hint::black_box(sample.payload().last());
                return Ok(());
            }
            std::hint::spin_loop();
        }
    }
}
