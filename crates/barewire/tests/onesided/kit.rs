//! What the tests share: ranks on threads over a wire of choice.

use std::thread;
use std::time::Duration;

use barewire::core::filter::fault::FaultConfig;
use barewire::core::filter::reliable::ReliableConfig;
use barewire::core::job::Job;
use barewire::core::sim::{Clock, Network, SimConfig};
use barewire::core::time::Nanos;
use barewire::core::{Config, Endpoint};

pub const PATIENCE: Option<Duration> = Some(Duration::from_secs(60));

/// A wire to run the suite over.
pub struct Wire {
    config: Config,
    faults: Option<FaultConfig>,
}

pub fn shm() -> Wire {
    Wire { config: Config { tcp: false, ..Config::default() }, faults: None }
}

/// Little room: messages wait, letters come in small pieces.
pub fn narrow_shm() -> Wire {
    let config =
        Config { tcp: false, ring_bytes: Some(4096), pool_bytes: Some(1 << 16), ..Config::default() };
    Wire { config, faults: None }
}

pub fn tcp() -> Wire {
    Wire { config: Config { shm: false, ..Config::default() }, faults: None }
}

/// The reliable filter over a network that loses, repeats and reorders.
pub fn sim() -> Wire {
    let faults = FaultConfig {
        loss: 0.05,
        duplicate: 0.05,
        reorder: 0.1,
        jitter: Nanos::from_micros(100),
        ..FaultConfig::default()
    };
    Wire { config: Config::default(), faults: Some(faults) }
}

impl Wire {
    /// How often to do something that is done `count` times on a good wire.
    pub fn times(&self, count: u64) -> u64 {
        if self.faults.is_some() { count.div_ceil(20) } else { count }
    }

    /// Runs `body` once for each of `size` ranks, each on a thread of its own.
    pub fn run(&self, size: u32, body: impl Fn(Endpoint) + Sync) {
        let opens = self.opens(size);
        thread::scope(|scope| {
            for open in opens {
                let body = &body;
                scope.spawn(move || body(open()));
            }
        });
    }

    fn opens(&self, size: u32) -> Vec<Box<dyn FnOnce() -> Endpoint + Send>> {
        let Some(faults) = &self.faults else {
            let open = |job| {
                let config = self.config.clone();
                Box::new(move || Endpoint::open(job, config).unwrap()) as Box<dyn FnOnce() -> Endpoint + Send>
            };
            return Job::threads(size).unwrap().into_iter().map(open).collect();
        };
        let config = SimConfig {
            seed: 0x51f2,
            clock: Clock::Real,
            faults: faults.clone(),
            endpoint: self.config.clone(),
            pulse: Nanos::from_millis(100),
            // Long enough that a rank that waits for a processor does not look dead.
            reliable: ReliableConfig { dead_after: Nanos::from_secs(10), ..ReliableConfig::default() },
            ..SimConfig::default()
        };
        // All are there before the first one speaks: an endpoint that is not counts as dead.
        let endpoints = Network::new(size, config).unwrap().endpoints().unwrap();
        endpoints
            .into_iter()
            .map(|endpoint| Box::new(|| endpoint) as Box<dyn FnOnce() -> Endpoint + Send>)
            .collect()
    }
}

/// A number that looks random and follows from another.
pub fn scramble(n: u64) -> u64 {
    let mut x = n.wrapping_add(0x9e37_79b9_7f4a_7c15);
    x = (x ^ x >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ x >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ x >> 31
}
