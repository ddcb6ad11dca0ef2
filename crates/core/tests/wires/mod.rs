//! The wires that every suite runs over: one source of tests, one test for each wire.

use std::thread;
use std::time::Duration;

use barewire_core::filter::fault::FaultConfig;
use barewire_core::filter::reliable::ReliableConfig;
use barewire_core::job::Job;
use barewire_core::sim::{Clock, Network, SimConfig};
use barewire_core::time::Nanos;
use barewire_core::{Config, Endpoint};

pub const PATIENCE: Option<Duration> = Some(Duration::from_secs(300));

/// What joins the endpoints of a test, and how they behave.
#[derive(Clone, Debug)]
pub struct Wires {
    pub config: Config,
    faults: Option<FaultConfig>,
}

#[allow(dead_code, reason = "not every suite uses all of it")]
impl Wires {
    pub fn shm() -> Wires {
        Wires { config: Config { tcp: false, ..Config::default() }, faults: None }
    }

    pub fn tcp() -> Wires {
        Wires { config: Config { shm: false, ..Config::default() }, faults: None }
    }

    fn sim(faults: FaultConfig) -> Wires {
        Wires { config: Config::default(), faults: Some(faults) }
    }

    pub fn sim_good() -> Wires {
        Wires::sim(FaultConfig::default())
    }

    pub fn sim_poor() -> Wires {
        Wires::sim(FaultConfig {
            loss: 0.05,
            duplicate: 0.05,
            reorder: 0.1,
            jitter: Nanos::from_micros(100),
            ..FaultConfig::default()
        })
    }

    pub fn sim_awful() -> Wires {
        Wires::sim(FaultConfig {
            loss: 0.2,
            duplicate: 0.1,
            reorder: 0.3,
            corrupt: 0.02,
            truncate: 0.02,
            jitter: Nanos::from_micros(300),
            ..FaultConfig::default()
        })
    }

    /// The same wires with another setting.
    pub fn with(&self, change: impl FnOnce(&mut Config)) -> Wires {
        let mut wires = self.clone();
        change(&mut wires.config);
        wires
    }

    /// How often to do something that is done `count` times on a good wire: less on one where each time may take a timeout.
    pub fn times(&self, count: u64) -> u64 {
        match &self.faults {
            Some(faults) if faults.loss > 0.1 => count / 20,
            Some(faults) if faults.loss > 0.0 => count / 5,
            _ => count,
        }
    }

    /// Runs `body` once for each of `size` endpoints, each on a thread of its own.
    pub fn run(&self, size: u32, body: impl Fn(Endpoint) + Sync) {
        let opens = self.opens(size);
        thread::scope(|scope| {
            for open in opens {
                let body = &body;
                scope.spawn(move || body(open()));
            }
        });
    }

    /// What opens each of `size` endpoints.
    pub fn opens(&self, size: u32) -> Vec<Box<dyn FnOnce() -> Endpoint + Send>> {
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

/// Makes a test of each property for each wire.
#[macro_export]
macro_rules! for_every_wire {
    ($($property:ident)*) => {
        for_every_wire!(@ shm: $($property)*);
        for_every_wire!(@ tcp: $($property)*);
        for_every_wire!(@ sim_good: $($property)*);
        for_every_wire!(@ sim_poor: $($property)*);
        for_every_wire!(@ sim_awful: $($property)*);
    };
    (@ $wire:ident: $($property:ident)*) => {
        mod $wire {
            $(#[test] fn $property() { super::$property(&super::wires::Wires::$wire()) })*
        }
    };
}
