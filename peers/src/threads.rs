//! Crossbeam's bounded channel between two threads of one process: buffers change hands, nothing is copied.

use std::path::Path;

use anyhow::Result;
use crossbeam_channel::{Receiver, Sender, bounded};

use crate::{Side, pin, serve};

struct Ends {
    to: Sender<Vec<u8>>,
    from: Receiver<Vec<u8>>,
    /// Buffers that came, to be sent back: a steady state allocates nothing that it can keep.
    spare: Vec<Vec<u8>>,
}

impl Side for Ends {
    fn send(&mut self, bytes: usize, _: bool) -> Result<()> {
        let mut buffer = self.spare.pop().unwrap_or_default();
        buffer.resize(bytes, 1);
        Ok(self.to.send(buffer)?)
    }

    fn receive(&mut self) -> Result<()> {
        // Polling, as the others do.
        let buffer = loop {
            if let Ok(buffer) = self.from.try_recv() {
                break buffer;
            }
            std::hint::spin_loop();
        };
        if self.spare.len() < 64 {
            self.spare.push(buffer);
        }
        Ok(())
    }
}

/// Both sides, until the commands end.
pub fn run(folder: &Path) -> Result<()> {
    let ((to, there), (back, from)) = (bounded(512), bounded(512));
    let mut ends = [Ends { to, from, spare: Vec::new() }, Ends { to: back, from: there, spare: Vec::new() }];
    let [here, other] = &mut ends;
    std::thread::scope(|scope| {
        let other = scope.spawn(|| {
            pin(1);
            serve(other, 1, folder)
        });
        pin(0);
        let served = serve(here, 0, folder);
        served.and(other.join().unwrap_or_else(|_| Err(anyhow::anyhow!("the other thread failed"))))
    })
}
