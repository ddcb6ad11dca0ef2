//! zenoh: a publisher and a subscriber each way, between two sessions that find each other on loopback.

use std::path::PathBuf;

use anyhow::{Result, anyhow};
use zenoh::handlers::FifoChannelHandler;
use zenoh::pubsub::{Publisher, Subscriber};
use zenoh::sample::Sample;
use zenoh::{Session, Wait};

use crate::Side;

pub struct Zen {
    publisher: Publisher<'static>,
    subscriber: Subscriber<FifoChannelHandler<Sample>>,
    payload: Vec<u8>,
    _session: Session,
}

impl Zen {
    pub fn open(name: &str, rank: usize) -> Result<Zen> {
        let failed = |error: zenoh::Error| anyhow!("zenoh: {error}");
        let socket = PathBuf::from(std::env::temp_dir()).join(format!("{name}.zenoh"));
        let endpoint = format!("[\"unixsock-stream/{}\"]", socket.display());
        let mut config = zenoh::Config::default();
        config.insert_json5("scouting/multicast/enabled", "false").map_err(failed)?;
        config.insert_json5("mode", "\"peer\"").map_err(failed)?;
        let way = if rank == 0 { "listen/endpoints" } else { "connect/endpoints" };
        config.insert_json5(way, &endpoint).map_err(failed)?;
        if rank == 1 {
            config.insert_json5("listen/endpoints", "[]").map_err(failed)?;
        }
        let session = zenoh::open(config).wait().map_err(failed)?;
        let key = |way: usize| format!("barewire/{name}/{way}");
        let publisher = session
            .declare_publisher(key(rank))
            .congestion_control(zenoh::qos::CongestionControl::Block)
            .express(true)
            .wait()
            .map_err(failed)?;
        let subscriber = session.declare_subscriber(key(1 - rank)).wait().map_err(failed)?;
        let mut side = Zen { publisher, subscriber, payload: vec![1; 8 << 20], _session: session };
        side.find_other()?;
        Ok(side)
    }

    /// What is published before anybody has subscribed is lost: both say hello until both have heard it.
    fn find_other(&mut self) -> Result<()> {
        loop {
            self.send(1)?;
            std::thread::sleep(std::time::Duration::from_millis(20));
            if self.subscriber.try_recv().map_err(|e| anyhow!("{e}"))?.is_some() {
                break;
            }
        }
        self.send(1)?;
        std::thread::sleep(std::time::Duration::from_millis(300));
        while self.subscriber.try_recv().map_err(|e| anyhow!("{e}"))?.is_some() {}
        Ok(())
    }
}

impl Side for Zen {
    fn send(&mut self, bytes: usize) -> Result<()> {
        self.publisher.put(&self.payload[..bytes]).wait().map_err(|e| anyhow!("{e}"))
    }

    fn receive(&mut self) -> Result<()> {
        self.subscriber.recv().map(|_| ()).map_err(|e| anyhow!("{e}"))
    }
}
