//! How the driver of a case and its ranks talk beside the wires they test: small files in a folder of the case's own.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant, SystemTime};

use crate::common::{BAREWIRE, FOREVER, Ran, processes};

/// A case's folder, as its ranks see it.
#[derive(Clone, Debug)]
pub struct Board(PathBuf);

impl Board {
    pub fn at(path: &str) -> Board {
        Board(PathBuf::from(path))
    }

    /// Writes a note that everybody sees whole or not at all.
    pub fn note(&self, name: &str, text: &str) {
        let draft = self.0.join(format!("{name}.draft-{}", std::process::id()));
        fs::write(&draft, text).unwrap();
        fs::rename(draft, self.0.join(name)).unwrap();
    }

    pub fn read(&self, name: &str) -> Option<String> {
        fs::read_to_string(self.0.join(name)).ok()
    }

    pub fn has(&self, name: &str) -> bool {
        self.0.join(name).exists()
    }

    /// Waits for a note, doing nothing else.
    #[track_caller]
    pub fn await_note(&self, name: &str) {
        let since = Instant::now();
        while !self.has(name) {
            assert!(since.elapsed() < FOREVER, "no note {name:?} came");
            std::thread::sleep(Duration::from_millis(2));
        }
    }
}

/// A job of ranks of this program, and the folder they share with us. Nothing of either is left when it is dropped.
pub struct Stage {
    path: PathBuf,
    pub board: Board,
    launcher: Option<Child>,
}

impl Stage {
    /// Starts `ranks` ranks with these words behind the folder's name; `wrapper` is a shell's words before the program.
    pub fn start(ranks: u32, words: &[&str], wrapper: &str) -> Stage {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("processes-{}-{number}", std::process::id());
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        fs::create_dir_all(path.join("tmp")).unwrap();
        let us = std::env::current_exe().unwrap();
        let script = format!("exec {wrapper} \"$0\" rank \"$@\"");
        let launcher = Command::new(BAREWIRE)
            .args(["run", "--keep-going", "-n", &ranks.to_string(), "sh", "-c", &script])
            .args([us.as_os_str(), path.as_os_str()])
            .args(words)
            .env("TMPDIR", path.join("tmp"))
            .env("FOLDER", &path)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("barewire starts");
        Stage { board: Board(path.clone()), path, launcher: Some(launcher) }
    }

    /// Waits for a note of a rank, as long as the job runs.
    #[track_caller]
    pub fn await_note(&mut self, name: &str) -> String {
        let since = Instant::now();
        loop {
            if let Some(text) = self.board.read(name) {
                return text;
            }
            let launcher = self.launcher.as_mut().expect("it has not been ended");
            let ended = launcher.try_wait().unwrap().filter(|_| !self.board.has(name));
            assert!(ended.is_none(), "the job has ended without a note {name:?}");
            assert!(since.elapsed() < FOREVER, "no note {name:?} came");
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// Waits for the number in a note of a rank.
    #[track_caller]
    pub fn number(&mut self, name: &str) -> u64 {
        self.await_note(name).trim().parse().unwrap()
    }

    /// Waits for the job to end well, and sees that it has left nothing.
    #[track_caller]
    pub fn end(mut self) {
        let mut launcher = self.launcher.take().expect("it ends once");
        let since = Instant::now();
        while launcher.try_wait().unwrap().is_none() {
            if since.elapsed() > FOREVER {
                let _ = launcher.kill();
                let ran = Ran::from(launcher.wait_with_output().unwrap());
                panic!("the job hangs: {ran:#?}");
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        let ran = Ran::from(launcher.wait_with_output().unwrap());
        assert_eq!(ran.code, Some(0), "{ran:#?}");
        let mark = self.path.to_str().unwrap();
        crate::common::wait_until("its processes to end", || processes(mark).is_empty());
        let left: Vec<_> = fs::read_dir(self.path.join("tmp")).unwrap().flatten().collect();
        assert!(left.is_empty(), "left in the temporary directory: {left:?}");
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        if let Some(mut launcher) = self.launcher.take() {
            let _ = launcher.kill();
            match launcher.wait_with_output() {
                Ok(output) => eprintln!("the job when it was given up: {:#?}", Ran::from(output)),
                Err(error) => eprintln!("the job cannot be waited for: {error}"),
            }
        }
        let _ = fs::remove_dir_all(&self.path);
    }
}

/// What a process has open that has a name in `/dev/shm` or in the system's temporary directory.
pub fn named_files_of(pid: u32) -> Vec<PathBuf> {
    let links = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
    let open = links.filter_map(|link| fs::read_link(link.path()).ok());
    open.filter(|path| path.starts_with("/dev/shm") || path.starts_with("/tmp")).collect()
}

/// Entries of a directory that carry our name.
pub fn named_after_us(directory: &str) -> Vec<String> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
    names.filter(|name| name.contains("barewire")).collect()
}

/// Nanoseconds by a clock that all processes share.
pub fn now_ns() -> u64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_nanos() as u64
}
