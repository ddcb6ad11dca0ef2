//! C programs written for BMI, compiled with our header and run on our library, started by nobody but themselves.

use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// A running server and its port.
struct Server {
    process: Child,
    url: String,
}

impl Server {
    fn start(home: &Home, listen: &str, open: bool) -> Server {
        let mut command = home.command("server", open);
        let mut process = command.arg(listen).stdout(Stdio::piped()).spawn().unwrap();
        let mut port = String::new();
        BufReader::new(process.stdout.as_mut().unwrap()).read_line(&mut port).unwrap();
        Server { process, url: format!("tcp://127.0.0.1:{}", port.trim()) }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// A folder with the programs, the library under its name, and a key.
struct Home(PathBuf);

impl Home {
    fn new(name: &str) -> Home {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        std::fs::create_dir_all(&folder).unwrap();
        let library = std::env::current_exe().unwrap().parent().unwrap().join("libbmi.so");
        let link = folder.join("libbmi.so");
        let _ = std::fs::remove_file(&link);
        std::os::unix::fs::symlink(library, link).unwrap();
        let home = Home(folder);
        ["server", "client"].iter().for_each(|program| home.compile(program));
        home
    }

    fn compile(&self, program: &str) {
        let here = Path::new(env!("CARGO_MANIFEST_DIR"));
        let mut compiler = Command::new(std::env::var_os("CC").unwrap_or_else(|| "cc".into()));
        compiler.args(["-std=gnu11", "-Wall", "-Wextra", "-Werror", "-O1", "-pthread"]);
        compiler
            .arg("-I")
            .arg(here.join("include"))
            .arg(here.join("tests/c").join(program).with_extension("c"));
        compiler.arg("-o").arg(self.0.join(program)).arg("-L").arg(&self.0).arg("-lbmi");
        let output = compiler.output().expect("a C compiler is installed");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }

    fn command(&self, program: &str, open: bool) -> Command {
        let mut command = Command::new(self.0.join(program));
        command.env("LD_LIBRARY_PATH", &self.0).env("BAREWIRE_KEY_FILE", self.0.join("key"));
        command.env("BAREWIRE_OPEN", if open { "1" } else { "0" }).env_remove("BAREWIRE_BLESS");
        command
    }

    fn client(&self, arguments: &[&str], open: bool) -> (bool, String) {
        let output = self.command("client", open).args(arguments).output().unwrap();
        let text =
            String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
        (output.status.success(), text)
    }
}

#[test]
fn a_client_and_a_server_in_c_talk() {
    let home = Home::new("talk");
    let mut server = Server::start(&home, "tcp://127.0.0.1:0", false);
    let (good, text) = home.client(&["talk", &server.url], false);
    assert!(good && text == "all good\n", "{text}");
    let (good, text) = home.client(&["threads", &server.url], false);
    assert!(good && text == "all good\n", "{text}");
    let (good, text) = home.client(&["errors", &server.url], false);
    assert!(good && text == "all good\n", "{text}");
    let (good, text) = home.client(&["quit", &server.url], false);
    assert!(good, "{text}");
    let status = server.process.wait().unwrap();
    let mut rest = String::new();
    server.process.stdout.as_mut().unwrap().read_to_string(&mut rest).unwrap();
    assert!(status.success() && rest == "good bye\n", "{status} {rest}");
}

#[test]
fn a_client_survives_the_death_of_its_server_and_finds_it_again() {
    let home = Home::new("again");
    let mut server = Server::start(&home, "tcp://127.0.0.1:0", false);
    let mut client = home.command("client", false);
    client.args(["patient", &server.url]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut client = client.spawn().unwrap();
    let mut words = BufReader::new(client.stdout.take().unwrap());
    let mut line = String::new();
    words.read_line(&mut line).unwrap();
    assert_eq!(line, "served\n");
    server.process.kill().unwrap();
    server.process.wait().unwrap();
    line.clear();
    words.read_line(&mut line).unwrap();
    assert_eq!(line, "lost\n");
    let _server = Server::start(&home, &server.url, false);
    line.clear();
    words.read_line(&mut line).unwrap();
    assert_eq!(line, "served again\n");
    assert!(client.wait().unwrap().success());
}

#[test]
fn without_the_key_nobody_is_served_unless_the_server_is_open() {
    let home = Home::new("keys");
    let closed = Server::start(&home, "tcp://127.0.0.1:0", false);
    let (good, text) = home.client(&["talk", &closed.url], true);
    assert!(!good && text.contains("refused"), "{text}");
    let open = Server::start(&home, "tcp://127.0.0.1:0", true);
    let (good, text) = home.client(&["talk", &open.url], true);
    assert!(good, "{text}");
    let mut misspelt = home.command("client", false);
    let output = misspelt.args(["talk", &closed.url]).env("BAREWIRE_OPNE", "1").output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && text.contains("did you mean BAREWIRE_OPEN?"), "{text}");
}
