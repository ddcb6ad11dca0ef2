//! Programs that start by themselves and meet at a rendezvous.

mod common;

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use common::{BAREWIRE, Folder, Ran, signal, wait_until};

struct Place {
    server: Child,
    variable: (String, String),
    key_file: String,
    _folder: Folder,
}

impl Place {
    fn new(name: &str, ranks: &str) -> Self {
        let folder = Folder::new(name);
        let key_file = folder.path().join("key").to_str().unwrap().to_owned();
        let mut server = Command::new(BAREWIRE);
        server.args(["rendezvous", "-n", ranks]).env("BAREWIRE_KEY_FILE", &key_file).stdout(Stdio::piped());
        let mut server = server.spawn().unwrap();
        let mut line = String::new();
        BufReader::new(server.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let (name, value) = line.trim().split_once('=').unwrap();
        Self { server, variable: (name.into(), value.into()), key_file, _folder: folder }
    }

    fn join(&self, words: &[&str]) -> Child {
        let (name, value) = &self.variable;
        let mut member = Command::new(BAREWIRE);
        member.arg("hello").args(words).env(name, value).env("BAREWIRE_KEY_FILE", &self.key_file);
        member.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        signal(self.server.id(), "TERM");
        assert!(self.server.wait().unwrap().success());
    }
}

#[test]
fn programs_that_start_by_themselves_meet() {
    let place = Place::new("meet", "3");
    let members: Vec<_> = (0..3).map(|_| place.join(&["--exchange"])).collect();
    let mut lines: Vec<_> =
        members.into_iter().map(|child| Ran::from(child.wait_with_output().unwrap())).collect();
    lines.sort_by(|a, b| a.out.cmp(&b.out));
    for (rank, ran) in lines.iter().enumerate() {
        ran.expect(0, &format!("hello from rank {rank} of 3"));
    }
}

#[test]
fn a_rank_that_leaves_is_free_for_the_next() {
    let place = Place::new("leave", "2");
    for _ in 0..3 {
        let first = place.join(&["--exchange"]);
        let second = place.join(&["--exchange"]);
        for child in [first, second] {
            Ran::from(child.wait_with_output().unwrap()).expect(0, "of 2");
        }
    }
    let mut killed = place.join(&["--linger-ms", "100000"]);
    wait_until("it to join", || {
        std::fs::read_to_string(format!("/proc/{}/wchan", killed.id())).is_ok_and(|w| w.contains("nanosleep"))
    });
    killed.kill().unwrap();
    killed.wait().unwrap();
    let pair = [place.join(&["--exchange"]), place.join(&["--exchange"])];
    for child in pair {
        Ran::from(child.wait_with_output().unwrap()).expect(0, "of 2");
    }
}

#[test]
fn another_users_key_does_not_open_the_door() {
    let place = Place::new("wrong", "1");
    let other = Folder::new("wrong-key");
    let (name, value) = &place.variable;
    let key = other.file("key", &"ab".repeat(32));
    let mode = <std::fs::Permissions as std::os::unix::fs::PermissionsExt>::from_mode(0o600);
    std::fs::set_permissions(&key, mode).unwrap();
    // It keeps trying for a while, since a rendezvous may come up late; a second is enough to see that it is not let in.
    let ran = Command::new("timeout")
        .args(["1", BAREWIRE, "hello"])
        .env(name, value)
        .env("BAREWIRE_KEY_FILE", &key)
        .output()
        .unwrap();
    assert_eq!((ran.status.code(), ran.stdout.as_slice()), (Some(124), &[][..]));
}
