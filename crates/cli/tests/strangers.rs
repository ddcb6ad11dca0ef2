//! Strangers at the launcher's door: they get no byte, and the job does not notice them.

mod common;

use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::Child;
use std::time::Duration;

use barewire_core::boot::auth::Caller;
use barewire_core::job::JobKey;
use common::{BAREWIRE, Ran, start, wait_until};

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
