//! iceoryx2 by its fastest way: publish and subscribe between two processes, polling, without its events.
//!
//! The sender writes into memory that it has on loan, the receiver looks at it where it lies: one copy for each message.

use std::path::Path;

use anyhow::{Context, Result, ensure};
use iceoryx2::config::Config;
use iceoryx2::node::Node;
use iceoryx2::port::publisher::Publisher;
use iceoryx2::port::subscriber::Subscriber;
use iceoryx2::port::update_connections::UpdateConnections;
use iceoryx2::prelude::*;
use iceoryx2::service::port_factory::PortFactory as _;
use iceoryx2::service::port_factory::publish_subscribe::PortFactory;

use crate::Side;

/// The longest message.
const BYTES_MAX: usize = 8 << 20;
/// How many may be under way. Fewer stay in the cache, and more were not faster at any size.
const QUEUE: usize = 16;

pub struct Ends {
    publisher: Publisher<ipc::Service, [u8], ()>,
    subscriber: Subscriber<ipc::Service, [u8], ()>,
    bytes: Vec<u8>,
    _services: [PortFactory<ipc::Service, [u8], ()>; 2],
    _node: Node<ipc::Service>,
}

/// Side `rank`, once the other is there.
pub fn open(rank: usize, folder: &Path) -> Result<Ends> {
    set_log_level(LogLevel::Error);
    let mut config = Config::global_config().clone();
    let root = folder.join("iceoryx2");
    std::fs::create_dir_all(&root)?;
    let root = root.to_str().context("the folder's name is not text")?;
    config.global.set_root_path(&root.try_into().map_err(|why| anyhow::anyhow!("{root}: {why:?}"))?);
    let node = NodeBuilder::new()
        .config(&config)
        .signal_handling_mode(SignalHandlingMode::Disabled)
        .create::<ipc::Service>()?;
    let service = |to: usize| -> Result<_> {
        Ok(node
            .service_builder(&format!("to-{to}").as_str().try_into()?)
            .publish_subscribe::<[u8]>()
            .enable_safe_overflow(false)
            .history_size(0)
            .max_publishers(1)
            .max_subscribers(1)
            .subscriber_max_buffer_size(QUEUE)
            .subscriber_max_borrowed_samples(2)
            .open_or_create()?)
    };
    let (here, there) = (service(rank)?, service(1 - rank)?);
    let subscriber = here.subscriber_builder().buffer_size(QUEUE).create()?;
    let publisher = there
        .publisher_builder()
        .initial_max_slice_len(64)
        .allocation_strategy(AllocationStrategy::PowerOfTwo)
        .max_loaned_samples(1)
        .backpressure_strategy(BackpressureStrategy::RetryUntilDelivered)
        .create()?;
    while there.dynamic_config().number_of_subscribers() == 0
        || here.dynamic_config().number_of_publishers() == 0
    {
        std::thread::yield_now();
    }
    publisher.update_connections()?;
    subscriber.update_connections()?;
    Ok(Ends { publisher, subscriber, bytes: vec![1; BYTES_MAX], _services: [here, there], _node: node })
}

impl Side for Ends {
    fn send(&mut self, bytes: usize, _: bool) -> Result<()> {
        let sample = self.publisher.loan_slice_uninit(bytes)?;
        let reached = sample.write_from_slice(&self.bytes[..bytes]).send()?;
        ensure!(reached == 1, "nobody took it");
        Ok(())
    }

    fn receive(&mut self) -> Result<()> {
        while self.subscriber.receive()?.is_none() {
            std::hint::spin_loop();
        }
        Ok(())
    }
}
