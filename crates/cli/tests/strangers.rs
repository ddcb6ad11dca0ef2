//! Strangers at the launcher's door and at the ranks' ports: they get no byte, and the job does not notice them.

mod common;

use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use barewire_core::boot::auth::Caller;
use barewire_core::job::JobKey;
use common::{BAREWIRE, Folder, Ran, start, wait_until};

/// A job of two "hosts" (both here) whose agents come late, so that the door stays open for a while.
fn slow_job(ports: (u16, u16)) -> (Child, u16) {
    let shell = "sh -c 'sleep 2; exec \"$@\"' sh env HOST={host}";
    let range = format!("{}-{}", ports.0, ports.1);
    let words = [
        "--hosts",
        "far1:2,far2:2",
        "--remote-shell",
        shell,
        "--port-range",
        &range,
        BAREWIRE,
        "hello",
        "--exchange",
    ];
    let child = start(&words);
    let mut port = None;
    wait_until("the door", || {
        port = (ports.0..=ports.1).find(|port| connect(*port).is_ok());
        port.is_some()
    });
    (child, port.unwrap())
}

fn connect(port: u16) -> std::io::Result<TcpStream> {
    let stream = TcpStream::connect(("127.0.0.1", port))?;
    stream.set_read_timeout(Some(Duration::from_secs(10)))?;
    Ok(stream)
}

#[track_caller]
fn all_is_well(child: Child) {
    let ran = Ran::from(child.wait_with_output().unwrap());
    ran.expect(0, "");
    assert_eq!(ran.lines().len(), 4, "{ran:#?}");
    assert_eq!(ran.err, "", "a stranger is not an event");
}

/// What the other end sends before it closes the connection.
fn answer(mut stream: TcpStream) -> Vec<u8> {
    let mut bytes = Vec::new();
    match stream.read_to_end(&mut bytes) {
        Ok(_) => bytes,
        Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => bytes,
        Err(error) => panic!("not closed: {error}"),
    }
}

#[test]
fn random_bytes_and_scanners_get_no_answer() {
    let (child, port) = slow_job((42100, 42110));
    for round in 0..100u32 {
        let Ok(mut stream) = connect(port) else { break };
        if round % 2 == 0 {
            continue;
        }
        let noise: Vec<u8> =
            (0..500).map(|i: u32| (i.wrapping_mul(2_654_435_761) >> (round % 24)) as u8).collect();
        let _ = stream.write_all(&noise);
        assert_eq!(answer(stream), []);
    }
    let mut web = connect(port).unwrap();
    web.write_all(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
    assert_eq!(answer(web), []);
    all_is_well(child);
}

#[test]
fn a_wrong_key_and_a_torn_call_get_no_answer() {
    let (child, port) = slow_job((42120, 42130));
    let caller = Caller::new(JobKey([1; 32]), 0, [2; 32]);
    let mut wrong = connect(port).unwrap();
    wrong.write_all(&caller.call()).unwrap();
    assert_eq!(answer(wrong), []);
    let mut torn = connect(port).unwrap();
    torn.write_all(&caller.call()[..40]).unwrap();
    torn.shutdown(std::net::Shutdown::Write).unwrap();
    assert_eq!(answer(torn), []);
    all_is_well(child);
}

#[test]
fn slow_callers_do_not_keep_agents_out() {
    let (child, port) = slow_job((42140, 42150));
    // More than the door holds, each saying a correct first byte and then nothing.
    let mut crowd: Vec<TcpStream> = (0..400).filter_map(|_| connect(port).ok()).collect();
    for caller in &mut crowd {
        let _ = caller.write_all(b"b");
    }
    let files = std::fs::read_dir(format!("/proc/{}/fd", child.id())).unwrap().count();
    assert!(files < 300, "{files} descriptors are open");
    all_is_well(child);
}

/// Passes bytes between an agent and the launcher's door, and keeps what the agent said first.
fn overhear(agent: TcpStream, door: TcpStream, bytes: usize) -> Vec<u8> {
    let (mut from_agent, mut to_door) = (agent.try_clone().unwrap(), door.try_clone().unwrap());
    let (mut from_door, mut to_agent) = (door, agent);
    std::thread::spawn(move || std::io::copy(&mut from_door, &mut to_agent));
    let mut heard = vec![0; bytes];
    for at in 0..bytes {
        from_agent.read_exact(&mut heard[at..=at]).unwrap();
        to_door.write_all(&heard[at..=at]).unwrap();
    }
    std::thread::spawn(move || std::io::copy(&mut from_agent, &mut to_door));
    heard
}

#[test]
fn an_agents_hello_said_again_opens_no_door() {
    use barewire_core::boot::auth::{CALL_BYTES, ENTRY_BYTES, GREETING_BYTES};
    let folder = Folder::new("overheard");
    let recorder = std::net::TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let port = recorder.local_addr().unwrap().port();
    let place = folder.path().join("door");
    // The first host's agent comes through the recorder, the second one when it is let.
    let shell = format!(
        "env HOST={{host}} sh -c 'if [ $HOST = far2 ]; then while [ ! -e {0}.go ]; do sleep 0.1; done; exec \"$@\"; fi; echo \"$4\" > {0}.new; \
         mv {0}.new {0}; exec \"$1\" \"$2\" \"$3\" 127.0.0.1:{port} \"$5\" \"$6\"' sh",
        place.display()
    );
    let words = ["-q", "--hosts", "far1:2,far2:2", "--remote-shell", &shell, BAREWIRE, "hello", "--exchange"];
    let child = start(&words);
    let (agent, _) = recorder.accept().unwrap();
    let mut addresses = String::new();
    wait_until("the door's address", || {
        addresses = std::fs::read_to_string(&place).unwrap_or_default();
        !addresses.is_empty()
    });
    let door = addresses.trim().rsplit_once(':').unwrap().1.parse().unwrap();
    let heard = overhear(agent, connect(door).unwrap(), CALL_BYTES + ENTRY_BYTES);
    for _ in 0..20 {
        let mut replay = connect(door).unwrap();
        replay.write_all(&heard[..CALL_BYTES]).unwrap();
        let mut greeting = [0; GREETING_BYTES];
        replay.read_exact(&mut greeting).unwrap();
        replay.write_all(&heard[CALL_BYTES..]).unwrap();
        assert_eq!(answer(replay), []);
    }
    folder.file("door.go", "");
    all_is_well(child);
}

/// What strangers have done so far, and whether they should stop.
#[derive(Default)]
struct Crowd {
    connections: AtomicU64,
    stop: AtomicBool,
}

impl Crowd {
    fn goes_on(&self) -> bool {
        !self.stop.load(Ordering::Relaxed)
    }

    fn call(&self, port: u16) -> Option<TcpStream> {
        let stream = TcpStream::connect(("127.0.0.1", port)).ok()?;
        stream.set_read_timeout(Some(Duration::from_millis(200))).ok()?;
        self.connections.fetch_add(1, Ordering::Relaxed);
        Some(stream)
    }

    /// Noise, a port scan and another protocol: nobody gets a byte.
    fn noise(&self, port: u16) {
        let mut word = u64::from(port);
        while self.goes_on() {
            drop(self.call(port));
            for length in [1, 3, 40, 700] {
                let Some(mut stream) = self.call(port) else { return };
                let noise: Vec<u8> = std::iter::repeat_with(|| {
                    word =
                        word.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                    (word >> 56) as u8
                })
                .take(length)
                .collect();
                let _ = stream.write_all(&noise);
                let mut answer = [0; 16];
                assert!(!matches!(stream.read(&mut answer), Ok(1..)), "noise was answered");
            }
            if let Some(mut web) = self.call(port) {
                let _ = web.write_all(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n");
            }
        }
    }

    /// Many that say a correct byte now and then.
    fn slow(&self, port: u16) {
        let mut crowd: Vec<TcpStream> = (0..100).filter_map(|_| self.call(port)).collect();
        let hello = b"bw-";
        for at in 0.. {
            if !self.goes_on() {
                return;
            }
            for stream in &mut crowd {
                if stream.write_all(&hello[at % 3..=at % 3]).is_err() {
                    self.call(port).into_iter().for_each(|fresh| *stream = fresh);
                }
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// A member's hello, said again; and with a bit changed, as by one who has another key.
    fn replay(&self, port: u16, hello: &[u8]) {
        while self.goes_on() {
            for change in [None, Some(hello.len() - 1), Some(hello.len() / 2)] {
                let mut said = hello.to_vec();
                change.into_iter().for_each(|at| said[at] ^= 1);
                let Some(mut stream) = self.call(port) else { return };
                let _ = stream.write_all(&said);
                let mut answer = [0; 256];
                let _ = stream.read(&mut answer);
                // Whatever was asked, the same again is no proof.
                let _ = stream.write_all(&said);
            }
        }
    }
}

/// The ports on which these processes listen.
fn ports_of(pids: &[u32]) -> Vec<u16> {
    let listed = Command::new("ss").args(["-Hltnp"]).output().expect("ss starts");
    let text = String::from_utf8_lossy(&listed.stdout).into_owned();
    let ours = |line: &&str| pids.iter().any(|pid| line.contains(&format!("pid={pid},")));
    let port = |line: &str| line.split_whitespace().nth(3)?.rsplit_once(':')?.1.parse().ok();
    let mut ports: Vec<u16> = text.lines().filter(ours).filter_map(port).collect();
    ports.sort_unstable();
    ports.dedup();
    ports
}

/// A launcher and everything under it.
fn family(root: u32) -> Vec<u32> {
    let listed = Command::new("ps").args(["-e", "-o", "pid=,ppid="]).output().unwrap();
    let text = String::from_utf8_lossy(&listed.stdout).into_owned();
    let pairs: Vec<(u32, u32)> = text
        .lines()
        .filter_map(|line| line.trim().split_once(' '))
        .filter_map(|(pid, parent)| Some((pid.parse().ok()?, parent.trim().parse().ok()?)))
        .collect();
    let mut family = vec![root];
    let mut at = 0;
    while at < family.len() {
        let parent = family[at];
        family.extend(pairs.iter().filter(|(_, of)| *of == parent).map(|(pid, _)| *pid));
        at += 1;
    }
    family
}

/// The first bytes that a traced process sent over a TCP connection it had made: its hello.
fn hello_in(trace: &str) -> Option<Vec<u8>> {
    let call = |line: &str, name: &str| -> Option<(u32, String)> {
        let (fd, rest) = line.split_once(name)?.1.split_once(',')?;
        Some((fd.parse().ok()?, rest.to_owned()))
    };
    let dialled: Vec<u32> = trace
        .lines()
        .filter_map(|line| call(line, "connect("))
        .filter(|(_, rest)| rest.contains("AF_INET"))
        .map(|(fd, _)| fd)
        .collect();
    let sends = ["sendto(", "sendmsg(", "write("];
    let sent = trace.lines().filter_map(|line| sends.iter().find_map(|name| call(line, name)));
    let mut hellos = sent.filter(|(fd, _)| dialled.contains(fd)).filter_map(|(_, rest)| {
        let text = rest.split_once('"')?.1.split_once('"')?.0.to_owned();
        text.split("\\x").skip(1).map(|byte| u8::from_str_radix(byte, 16).ok()).collect::<Option<Vec<u8>>>()
    });
    hellos.find(|bytes| bytes.len() > 32)
}

/// Three ranks that talk over TCP for some seconds, with or without strangers at every port; the round trips of each.
fn talk(folder: &Folder, strangers: bool) -> (Vec<u64>, u64) {
    let trace = folder.path().join(format!("trace.{strangers}"));
    let traced = ["strace", "-qq", "-xx", "-s", "600", "-e", "trace=connect,sendto,sendmsg,write", "-o"];
    let hello = [BAREWIRE, "hello", "--tcp", "--seconds", "3"];
    let traced = [&["-n", "1"], &traced[..], &[trace.to_str().unwrap()], &hello].concat();
    let job = start(&[&["-n", "2"], &hello[..], &[":"], &traced].concat());
    let crowd = Crowd::default();
    let ran = std::thread::scope(|scope| {
        if strangers {
            let mut ports = Vec::new();
            wait_until("the ranks to listen", || {
                ports = ports_of(&family(job.id()));
                ports.len() == 3
            });
            let mut hello = None;
            wait_until("a hello to be overheard", || {
                hello = std::fs::read_to_string(&trace).ok().and_then(|text| hello_in(&text));
                hello.is_some()
            });
            for port in ports {
                let (crowd, hello) = (&crowd, hello.clone().unwrap());
                scope.spawn(move || crowd.noise(port));
                scope.spawn(move || crowd.slow(port));
                scope.spawn(move || crowd.replay(port, &hello));
            }
        }
        let ran = Ran::from(job.wait_with_output().unwrap());
        crowd.stop.store(true, Ordering::Relaxed);
        ran
    });
    ran.expect(0, "");
    let trips = |line: &&str| line.split(" round trips").next()?.rsplit(' ').next()?.parse().ok();
    let trips: Vec<u64> =
        ran.lines().iter().filter(|line| line.contains("all correct")).filter_map(trips).collect();
    assert_eq!(trips.len(), 3, "{ran:#?}");
    assert_eq!(ran.err, "", "a stranger is not an event");
    (trips, crowd.connections.load(Ordering::Relaxed))
}

#[test]
fn strangers_at_every_port_of_a_running_job_do_not_disturb_it() {
    let folder = Folder::new("strangers");
    let (quiet, _) = talk(&folder, false);
    let (disturbed, connections) = talk(&folder, true);
    println!(
        "round trips without strangers {quiet:?}, with {connections} connections of strangers {disturbed:?}"
    );
    assert!(connections > 300, "{connections}");
    // Strangers cost processor time, of which there may be little; they stop nothing.
    assert!(
        disturbed.iter().zip(&quiet).all(|(with, without)| with * 100 > *without),
        "{quiet:?} {disturbed:?}"
    );
}
