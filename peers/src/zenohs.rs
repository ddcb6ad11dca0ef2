//! zenoh, peer to peer between two processes: over a Unix socket with large messages in shared memory, or over TCP.
//!
//! Single messages are sent at once (`express`), those of a stream in batches, as its own measurements do.

use std::net::TcpListener;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::{Result, anyhow};
use zenoh::pubsub::{Publisher, Subscriber};
use zenoh::qos::CongestionControl;
use zenoh::{Config, Session, Wait};

use crate::Side;

pub struct Ends {
    /// One that sends at once, and one that gathers.
    express: Publisher<'static>,
    gathering: Publisher<'static>,
    bytes: Vec<u8>,
    /// How many have come, and how many of them were taken.
    arrived: Arc<AtomicU64>,
    taken: u64,
    _subscriber: Subscriber<()>,
    _session: Session,
}

/// Side `rank`, once the other is there.
pub fn open(rank: usize, folder: &Path) -> Result<Ends> {
    let session = zenoh::open(config(rank, &place(rank, folder)?)?).wait().map_err(said)?;
    let arrived = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&arrived);
    let subscriber = session
        .declare_subscriber(format!("to/{rank}"))
        // SYNC arrival: pairs with the Acquire in receive().
        .callback(move |sample| {
            std::hint::black_box(sample.payload().len());
            counted.fetch_add(1, Ordering::Release);
        })
        .wait()
        .map_err(said)?;
    let publisher = |express: bool| {
        session
            .declare_publisher(format!("to/{}", 1 - rank))
            .congestion_control(CongestionControl::Block)
            .express(express)
            .wait()
            .map_err(said)
    };
    let (express, gathering) = (publisher(true)?, publisher(false)?);
    for publisher in [&express, &gathering] {
        while !publisher.matching_status().wait().map_err(said)?.matching() {
            std::thread::yield_now();
        }
    }
    let bytes = vec![1; 8 << 20];
    Ok(Ends { express, gathering, bytes, arrived, taken: 0, _subscriber: subscriber, _session: session })
}

/// Where the first side listens; it decides, the second learns it.
fn place(rank: usize, folder: &Path) -> Result<String> {
    if std::env::var("BENCH_VIA").is_ok_and(|via| via == "shm") {
        return Ok(format!("unixsock-stream/{}", folder.join("zenoh").display()));
    }
    let told = folder.join("zenoh-port");
    if rank == 0 {
        let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        std::fs::write(folder.join("zenoh-port.new"), port.to_string())?;
        std::fs::rename(folder.join("zenoh-port.new"), &told)?;
        return Ok(format!("tcp/127.0.0.1:{port}"));
    }
    loop {
        match std::fs::read_to_string(&told) {
            Ok(port) => return Ok(format!("tcp/127.0.0.1:{port}")),
            Err(_) => std::thread::yield_now(),
        }
    }
}

fn config(rank: usize, place: &str) -> Result<Config> {
    let mut config = Config::default();
    let (listen, connect) = if rank == 0 { (place, "") } else { ("", place) };
    let list = |place: &str| if place.is_empty() { "[]".to_owned() } else { format!("[{place:?}]") };
    let shared = !place.starts_with("tcp");
    for (name, value) in [
        ("mode", "\"peer\"".to_owned()),
        ("listen/endpoints", list(listen)),
        ("connect/endpoints", list(connect)),
        // The second may look before the first listens.
        ("connect/timeout_ms", "10000".to_owned()),
        ("scouting/multicast/enabled", "false".to_owned()),
        ("transport/shared_memory/enabled", shared.to_string()),
    ] {
        config.insert_json5(name, &value).map_err(said)?;
    }
    Ok(config)
}

fn said(error: zenoh::Error) -> anyhow::Error {
    anyhow!("zenoh: {error}")
}

impl Side for Ends {
    fn send(&mut self, bytes: usize, last: bool) -> Result<()> {
        let publisher = if last { &self.express } else { &self.gathering };
        publisher.put(&self.bytes[..bytes]).wait().map_err(said)
    }

    fn receive(&mut self) -> Result<()> {
        // Its threads share this processor, so they are given way.
        while self.arrived.load(Ordering::Acquire) == self.taken {
            std::thread::yield_now();
        }
        self.taken += 1;
        Ok(())
    }
}
