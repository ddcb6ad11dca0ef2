//! A tree of files below a prefix: first all of it is looked at, then all of it is written.
//!
//! What belongs to somebody else is not replaced unasked. Ours is what the list of an earlier installation names, and what
//! is there already, byte for byte.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};

/// What is to be below a prefix.
pub struct Layout {
    prefix: PathBuf,
    entries: Vec<Entry>,
}

struct Entry {
    /// Below the prefix.
    to: String,
    what: What,
}

enum What {
    File { bytes: Vec<u8>, mode: u32 },
    Link(String),
}

impl Layout {
    /// Nothing yet, below `prefix`.
    pub fn new(prefix: PathBuf) -> Self {
        Self { prefix, entries: Vec::new() }
    }

    /// A file that is read.
    pub fn file(&mut self, to: impl Into<String>, bytes: impl Into<Vec<u8>>) {
        self.entries.push(Entry { to: to.into(), what: What::File { bytes: bytes.into(), mode: 0o644 } });
    }

    /// A file that is executed, or loaded.
    pub fn program(&mut self, to: impl Into<String>, bytes: impl Into<Vec<u8>>) {
        self.entries.push(Entry { to: to.into(), what: What::File { bytes: bytes.into(), mode: 0o755 } });
    }

    /// Another name for `target`, a file beside it.
    pub fn link(&mut self, to: impl Into<String>, target: &str) {
        self.entries.push(Entry { to: to.into(), what: What::Link(target.to_owned()) });
    }

    /// Refuses if something is in the way; `force` replaces files, but no folders.
    pub fn check(&self, force: bool) -> anyhow::Result<()> {
        let ours = self.listed();
        let mut theirs = Vec::new();
        for Entry { to, what } in &self.entries {
            let path = self.prefix.join(to);
            if let Some(file) =
                path.ancestors().skip(1).find(|folder| folder.exists()).filter(|f| !f.is_dir())
            {
                bail!("{} is a file, and a folder is needed there: move it away", file.display());
            }
            let Ok(found) = path.symlink_metadata() else { continue };
            if found.is_dir() {
                bail!("{} is a folder, and a file is to be written there: move it away", path.display());
            }
            if !force && !ours.contains(to) && !what.is_at(&path) {
                theirs.push(path.display().to_string());
            }
        }
        if theirs.is_empty() {
            return Ok(());
        }
        let (files, belong, them) = if theirs.len() == 1 {
            ("this file", "belongs", "it")
        } else {
            ("these files", "belong", "them")
        };
        bail!(
            "nothing was installed: {files} {belong} to something else\n  {}\n  --force replaces {them}; \
             --no-mpi-names leaves mpirun, mpicc and the like; another --prefix leaves everything",
            theirs.join("\n  ")
        );
    }

    /// Writes everything, and first the list of it, so that what an interrupted installation left is known to be ours.
    pub fn write(&self) -> anyhow::Result<()> {
        let mut names = self.listed();
        names.retain(|name| self.prefix.join(name).symlink_metadata().is_ok());
        names.extend(self.entries.iter().map(|entry| entry.to.clone()));
        names.insert(LIST.to_owned());
        let list: String = names.iter().map(|name| format!("{name}\n")).collect();
        let list = Entry { to: LIST.to_owned(), what: What::File { bytes: list.into(), mode: 0o644 } };
        std::iter::once(&list).chain(&self.entries).try_for_each(|entry| self.put(entry))
    }

    /// Writes beside and renames into place, so that a running program or library is never half replaced.
    fn put(&self, entry: &Entry) -> anyhow::Result<()> {
        let path = self.prefix.join(&entry.to);
        let folder = path.parent().context("a file is in a folder")?;
        fs::create_dir_all(folder).with_context(|| format!("making {}", folder.display()))?;
        let fresh = folder.join(format!(".barewire-install-{}", std::process::id()));
        let done = entry.what.make(&fresh).and_then(|()| fs::rename(&fresh, &path));
        if done.is_err() {
            // Nothing is left behind, if there was anything.
            let _ = fs::remove_file(&fresh);
        }
        done.with_context(|| format!("writing {}", path.display()))
    }

    /// What an earlier installation wrote here.
    fn listed(&self) -> BTreeSet<String> {
        let list = fs::read_to_string(self.prefix.join(LIST)).unwrap_or_default();
        list.lines().map(str::to_owned).collect()
    }
}

impl What {
    fn make(&self, path: &Path) -> io::Result<()> {
        match self {
            Self::File { bytes, mode } => {
                fs::write(path, bytes)?;
                fs::set_permissions(path, fs::Permissions::from_mode(*mode))
            }
            Self::Link(target) => symlink(target, path),
        }
    }

    /// Whether this is what is there already.
    fn is_at(&self, path: &Path) -> bool {
        match (self, fs::read_link(path)) {
            (Self::File { bytes, .. }, Err(_)) => fs::read(path).is_ok_and(|found| found == *bytes),
            (Self::Link(target), Ok(found)) => found == Path::new(target),
            _ => false,
        }
    }
}

/// The list of what was installed, below the prefix.
const LIST: &str = "share/barewire/files";
