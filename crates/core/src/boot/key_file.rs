//! The user's key file: the secret of programs that start by themselves, made on first use.

use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use super::{BootError, Environment, environment, hex};
use crate::job::JobKey;

/// The key of this user, from `BAREWIRE_KEY_FILE` or `~/.config/barewire/key`; made if there is none.
///
/// ```
/// use barewire_core::boot::{Environment, environment::KEY_FILE, user_key};
/// let file = std::env::temp_dir().join(format!("barewire-user-key-{}", std::process::id()));
/// let environment = Environment::from_pairs([(KEY_FILE.into(), file.display().to_string())])?;
/// let made = user_key(&environment)?;
/// assert_eq!(user_key(&environment)?, made, "the second time it is read");
/// # std::fs::remove_file(file).unwrap();
/// # Ok::<(), barewire_core::boot::BootError>(())
/// ```
pub fn user_key(environment: &Environment) -> Result<JobKey, BootError> {
    let path = path(environment)?;
    match read(&path) {
        Err(Problem::Missing) => make(&path).or_else(|_| read(&path)),
        other => other,
    }
    .map_err(|problem| problem.at(&path))
}

fn path(environment: &Environment) -> Result<PathBuf, BootError> {
    if let Some(path) = environment.get(environment::KEY_FILE) {
        return Ok(path.into());
    }
    let home = environment.get("XDG_CONFIG_HOME").map(PathBuf::from);
    let home = home.or_else(|| environment.get("HOME").map(|home| Path::new(home).join(".config")));
    home.map(|config| config.join("barewire/key")).ok_or_else(|| BootError::KeyFile {
        path: "~/.config/barewire/key".into(),
        reason: format!("HOME is not set; name a file with {}", environment::KEY_FILE),
    })
}

enum Problem {
    Missing,
    Other(String),
}

impl Problem {
    fn at(self, path: &Path) -> BootError {
        let reason = match self {
            Self::Missing => "it is not there and could not be made".into(),
            Self::Other(reason) => reason,
        };
        BootError::KeyFile { path: path.display().to_string(), reason }
    }
}

fn read(path: &Path) -> Result<JobKey, Problem> {
    let file = File::open(path).map_err(|error| match error.kind() {
        ErrorKind::NotFound => Problem::Missing,
        _ => Problem::Other(error.to_string()),
    })?;
    let metadata = file.metadata().map_err(|error| Problem::Other(error.to_string()))?;
    if metadata.mode() & 0o077 != 0 {
        let reason = format!("others may read it; run `chmod 600 {}`", path.display());
        return Err(Problem::Other(reason));
    }
    let mut text = String::new();
    file.take(1024).read_to_string(&mut text).map_err(|error| Problem::Other(error.to_string()))?;
    parse(text.trim()).ok_or_else(|| Problem::Other("it should hold 64 hexadecimal digits".into()))
}

fn make(path: &Path) -> Result<JobKey, Problem> {
    let other = |error: std::io::Error| Problem::Other(error.to_string());
    let key = JobKey::random().map_err(other)?;
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).map_err(other)?;
    }
    // Written beside and linked into place, so that nobody ever reads half a key.
    let fresh = path.with_extension(format!("new{}", std::process::id()));
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&fresh).map_err(other)?;
    let text = hex::encode(&key.0);
    let written = writeln!(file, "{text}").and_then(|()| fs::hard_link(&fresh, path));
    // Whether the link was made or another process was faster, the fresh name is of no further use.
    let _ = fs::remove_file(&fresh);
    written.map_err(other).map(|()| key)
}

fn parse(text: &str) -> Option<JobKey> {
    hex::decode(text)?.try_into().ok().map(JobKey)
}
