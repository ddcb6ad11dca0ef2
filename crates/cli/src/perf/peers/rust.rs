//! The Rust libraries: one program over all of them, from a package of its own, which nobody has to compile who does not compare.
//!
//! Its source is part of this program, so that an installed `barewire` can build it too.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, bail};

use super::{home, in_path};

/// The package, file by file.
const FILES: [(&str, &str); 7] = [
    ("Cargo.toml", include_str!("../../../../../peers/Cargo.toml")),
    ("Cargo.lock", include_str!("../../../../../peers/Cargo.lock")),
    ("src/main.rs", include_str!("../../../../../peers/src/main.rs")),
    ("src/processes.rs", include_str!("../../../../../peers/src/processes.rs")),
    ("src/threads.rs", include_str!("../../../../../peers/src/threads.rs")),
    ("src/iceoryx.rs", include_str!("../../../../../peers/src/iceoryx.rs")),
    ("src/zenohs.rs", include_str!("../../../../../peers/src/zenohs.rs")),
];

fn folder() -> Result<PathBuf> {
    Ok(home()?.join("rust"))
}

/// The program, built or not.
pub fn program() -> Result<PathBuf> {
    Ok(folder()?.join("target/release/barewire-peers"))
}

/// What to type if the program is not there, or was built from another source.
pub fn missing() -> Option<String> {
    let is_this = |folder: PathBuf| {
        FILES
            .iter()
            .all(|(name, text)| std::fs::read_to_string(folder.join(name)).is_ok_and(|own| own == *text))
    };
    let is_built = program().is_ok_and(|program| program.exists()) && folder().is_ok_and(is_this);
    let command = match in_path("cargo") {
        true => "barewire perf peers --install   # built by cargo, which takes some minutes",
        false => "barewire perf peers --install   # needs cargo, from https://rustup.rs",
    };
    (!is_built).then(|| command.to_owned())
}

/// Builds the program; cargo shows how far it is.
pub fn install(name: &str) -> Result<()> {
    println!("{name:<12} building it, and the other Rust libraries with it …");
    let folder = folder()?;
    // Whatever was built from another source is not taken for this one if the build fails.
    let _ = std::fs::remove_file(program()?);
    for (name, text) in FILES {
        let file = folder.join(name);
        std::fs::create_dir_all(file.parent().expect("it is in a folder"))?;
        // Left alone if it is the same: cargo builds anew what has been written.
        if !std::fs::read_to_string(&file).is_ok_and(|own| own == text) {
            std::fs::write(&file, text).with_context(|| format!("writing {}", file.display()))?;
        }
    }
    let mut command = Command::new("cargo");
    command.args(["build", "--release", "--locked", "--target-dir", "target"]).current_dir(&folder);
    let status = command.status().context("running cargo, which builds the Rust libraries")?;
    if !status.success() {
        bail!("{command:?} failed in {}", folder.display());
    }
    Ok(())
}
