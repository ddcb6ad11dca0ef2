//! Two processes: this one starts a second of the same program, and neither outlives the other.

use std::os::unix::process::parent_id;
use std::path::Path;
use std::process::{Child, Command};
use std::time::Duration;

use anyhow::{Result, ensure};

use crate::{Side, pin, serve};

/// How long the death of the other process may go unseen.
const LOOK: Duration = Duration::from_millis(200);

/// Starts the second process and is the first, until the commands end.
pub fn both<S: Side>(folder: &str, open: impl Fn(usize, &Path) -> Result<S>) -> Result<()> {
    let words: Vec<String> = std::env::args().skip(1).chain(["second".to_owned()]).collect();
    let child = Command::new(std::env::current_exe()?).args(words).spawn()?;
    let watch = std::thread::spawn(move || wait_for(child));
    pin(0);
    let folder = Path::new(folder);
    serve(&mut open(0, folder)?, 0, folder)?;
    ensure!(watch.join().is_ok_and(|well| well), "the second process failed");
    Ok(())
}

/// The second process.
pub fn second<S: Side>(folder: &str, open: impl Fn(usize, &Path) -> Result<S>) -> Result<()> {
    let parent = parent_id();
    std::thread::spawn(move || {
        while parent_id() == parent {
            std::thread::sleep(LOOK);
        }
        std::process::exit(1);
    });
    pin(1);
    let folder = Path::new(folder);
    serve(&mut open(1, folder)?, 1, folder)
}

/// Waits until the second process has ended. If that was no good end, the first would wait for ever for its messages, so it ends too.
fn wait_for(mut child: Child) -> bool {
    if child.wait().is_ok_and(|status| status.success()) {
        return true;
    }
    eprintln!("the second process failed");
    std::process::exit(1);
}
