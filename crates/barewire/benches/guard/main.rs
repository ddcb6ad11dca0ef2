//! The guard: instructions of the hot paths, counted by callgrind, beside the counts recorded in `guard.txt`.
//!
//! Instructions do not depend on who else uses the machine, so a path that grew by more than 3 % is a regression, in an automatic
//! check too. `cargo bench --bench guard` compares; `-- --record` records what is counted now, `-- --record-new` only paths that were
//! never recorded; both, and `-- --document` alone, write `docs/layers.md` from the record. `-- --seeded` counts a handler that
//! allocates once too often, which has to be caught. `./test guard` sets what valgrind needs.

mod classic;
mod layers;

use std::collections::BTreeMap;
use std::fmt::Write;
use std::hint::black_box;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use barewire::am::{Name, Node, Simple, Tag};
use barewire::core::job::Job;
use barewire::core::region::{Memory, Rights};
use barewire::core::tagged::{Envelope, Mode, Received, Sink, Source, Tagged, Want};
use barewire::core::{Config, Endpoint, Flow, Incoming, Peer, Port};
use barewire::fm::{self, Fm, Handler};
use barewire::mpi::{self, Comm};
use classic::Access;

/// More than this is a regression.
const TOLERANCE: f64 = 0.03;
/// Messages that are sent, then taken, before the next.
const BATCH: usize = 16;
/// How often.
const BATCHES: usize = 40;
/// Batches before, which find everything in place.
const WARM_UP: usize = 4;

/// A path: its name, and what runs it with one of its halves counted, the seeded way or as it is.
type Counted = (&'static str, fn(bool));

const PATHS: [Counted; 29] = [
    ("message send", |_| message(Half::Send)),
    ("message take", |_| message(Half::Take)),
    ("am send", |seeded| am(Half::Send, seeded)),
    ("am take", |seeded| am(Half::Take, seeded)),
    ("am2 send", |_| am2(Half::Send)),
    ("am2 take", |_| am2(Half::Take)),
    ("amvia send", |_| classic::am_over_via(Half::Send)),
    ("amvia take", |_| classic::am_over_via(Half::Take)),
    ("fm send", |_| fm(Half::Send)),
    ("fm take", |_| fm(Half::Take)),
    ("tagged send", |_| tagged(Half::Send)),
    ("tagged take", |_| tagged(Half::Take)),
    ("reach write", |_| classic::reach(Rights::WRITE)),
    ("reach read", |_| classic::reach(Rights::READ)),
    ("region put", |_| classic::put()),
    ("via send", |_| classic::via(Half::Send)),
    ("via take", |_| classic::via(Half::Take)),
    ("via rdma write", |_| classic::rdma_write()),
    ("vmmc send", |_| classic::vmmc()),
    ("splitc read", |_| classic::splitc(Access::Read)),
    ("splitc put", |_| classic::splitc(Access::Put)),
    ("splitc store", |_| classic::splitc(Access::Store)),
    ("shmem put", |_| classic::shmem(true)),
    ("shmem get", |_| classic::shmem(false)),
    ("ga put", |_| classic::ga()),
    ("bmi send", |_| classic::bmi(Half::Send)),
    ("bmi take", |_| classic::bmi(Half::Take)),
    ("mpi send", |_| mpi(Half::Send)),
    ("mpi take", |_| mpi(Half::Take)),
];

#[derive(Clone, Copy, PartialEq, Eq)]
enum Half {
    Send,
    Take,
}

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let has = |word: &str| words.iter().any(|w| w == word);
    if let Some(at) = words.iter().position(|word| word == "--path") {
        let name = words.get(at + 1).map_or("", String::as_str);
        let (_, run) =
            PATHS.iter().find(|(path, _)| *path == name).expect("the driver names paths that exist");
        run(has("--seeded"));
        return ExitCode::SUCCESS;
    }
    let (compiler, known) = recorded(&std::fs::read_to_string(file()).unwrap_or_default());
    if has("--document") {
        return document(&known, &compiler);
    }
    let counts = |path: &str| !has("--record-new") || !known.contains_key(path);
    let counted = match count_all(has("--seeded"), counts) {
        Ok(counted) => counted,
        Err(error) => {
            eprintln!("guard: {error}");
            return ExitCode::FAILURE;
        }
    };
    if has("--record") || has("--record-new") {
        let mut all = if has("--record") { BTreeMap::new() } else { known.clone() };
        all.extend(counted.into_iter().map(|(path, count)| (path.to_owned(), count)));
        return record(&all);
    }
    compare(&counted)
}

fn record(counts: &BTreeMap<String, f64>) -> ExitCode {
    std::fs::write(file(), table(counts)).expect("the counts can be written");
    println!("recorded in {}", file().display());
    document(counts, &compiler())
}

fn document(counts: &BTreeMap<String, f64>, compiler: &str) -> ExitCode {
    let written = layers::document(counts, compiler).expect("the document can be written");
    println!("wrote {}", written.display());
    ExitCode::SUCCESS
}

/// Where the counts are kept.
fn file() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("benches/guard.txt")
}

/// The counts as a file, with the compiler they are of.
fn table(counted: &BTreeMap<String, f64>) -> String {
    let mut text = format!("# instructions a message; {}\n", compiler());
    for (path, count) in counted {
        let _ = writeln!(text, "{path:<14} {count:.1}");
    }
    text
}

fn compiler() -> String {
    let output = Command::new("rustc").arg("--version").output();
    output.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned()).unwrap_or_default()
}

/// What was recorded: the compiler, and the counts.
fn recorded(text: &str) -> (String, BTreeMap<String, f64>) {
    let compiler = text.lines().next().and_then(|line| line.split_once("; ")).map_or("", |(_, name)| name);
    let count = |line: &str| {
        let (path, count) = line.trim().rsplit_once(' ')?;
        Some((path.trim().to_owned(), count.parse().ok()?))
    };
    (compiler.to_owned(), text.lines().filter(|line| !line.starts_with('#')).filter_map(count).collect())
}

fn compare(counted: &BTreeMap<&str, f64>) -> ExitCode {
    let text = std::fs::read_to_string(file()).unwrap_or_default();
    let (recorded_with, recorded) = recorded(&text);
    let mut worse = Vec::new();
    for (path, &now) in counted {
        let Some(&before) = recorded.get(*path) else {
            worse.push(format!("{path} was never recorded"));
            continue;
        };
        let grown = now / before - 1.0;
        println!("{path:<14} {now:>8.1} instructions, recorded {before:>8.1} ({:+.1} %)", grown * 100.0);
        if grown > TOLERANCE {
            worse.push(format!(
                "{path} grew by {:.1} %, from {before:.1} to {now:.1} instructions",
                grown * 100.0
            ));
        }
    }
    if worse.is_empty() {
        return ExitCode::SUCCESS;
    }
    eprintln!("guard: {}", worse.join("\nguard: "));
    if recorded_with != compiler() {
        eprintln!("guard: recorded with {recorded_with}, this is {}", compiler());
    }
    eprintln!("guard: if that is meant, record it with: ./test guard --record");
    ExitCode::FAILURE
}

/// Counts every path that is wanted under callgrind.
fn count_all(seeded: bool, counts: impl Fn(&str) -> bool) -> Result<BTreeMap<&'static str, f64>, String> {
    let me = std::env::current_exe().map_err(|error| error.to_string())?;
    let paths = PATHS.iter().filter(|(path, _)| counts(path));
    paths.map(|&(path, _)| Ok((path, count(&me, path, seeded)?))).collect()
}

fn count(me: &Path, path: &str, seeded: bool) -> Result<f64, String> {
    let mut command = Command::new("valgrind");
    command.args(["--tool=callgrind", "--callgrind-out-file=/dev/null", "--toggle-collect=*guard_measured*"]);
    command.arg(me).args(["--path", path]);
    if seeded {
        command.arg("--seeded");
    }
    let output = command.output().map_err(|error| format!("valgrind: {error}; apt-get install valgrind"))?;
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    let collected = text.lines().find_map(|line| line.split_once("Collected :"));
    let collected = collected.and_then(|(_, number)| number.trim().parse::<f64>().ok());
    match collected.filter(|count| output.status.success() && *count > 0.0) {
        Some(count) => Ok(count / (BATCH * BATCHES) as f64),
        None => Err(format!("{path} could not be counted:\n{text}")),
    }
}

/// What callgrind counts: everything between entering and leaving this function.
#[inline(never)]
fn guard_measured(what: &mut dyn FnMut()) {
    what();
    black_box(());
}

/// Sends and takes batches, and has one of the halves counted.
fn play<S>(half: Half, state: &mut S, mut send: impl FnMut(&mut S), mut take: impl FnMut(&mut S)) {
    for batch in 0..BATCHES + WARM_UP {
        let half = (batch >= WARM_UP).then_some(half);
        let mut sends = || (0..BATCH).for_each(|_| send(state));
        if half == Some(Half::Send) {
            guard_measured(&mut sends)
        } else {
            sends()
        }
        let mut takes = || take(state);
        if half == Some(Half::Take) { guard_measured(&mut takes) } else { takes() }
    }
}

/// Two endpoints of this thread that know each other, over shared memory.
fn pair() -> [Endpoint; 2] {
    let mut jobs = Job::threads(2).expect("a job of threads").into_iter();
    let config = || Config { tcp: false, ..Config::default() };
    let mut ends = [(); 2].map(|()| {
        Endpoint::open(jobs.next().expect("two of them"), config()).expect("shared memory is there")
    });
    // Each tells the other something, and has heard the other: then the wire is there in both directions.
    let (mut told, mut heard) = ([false; 2], [false; 2]);
    while told.iter().chain(&heard).any(|done| !done) {
        for (me, end) in ends.iter_mut().enumerate() {
            told[me] = told[me] || end.send(Peer(1 - me as u32), Port(1), 0, &[]).is_ok();
            let mut hear = |_: &mut Endpoint, _: Incoming<'_>| {
                heard[me] = true;
                Flow::Continue
            };
            end.progress(&mut hear, usize::MAX);
        }
    }
    ends
}

fn message(half: Half) {
    let send = |[a, _]: &mut [Endpoint; 2]| a.send(Peer(1), Port(2), 0, &[1; 8]).expect("there is room");
    let take = |[_, b]: &mut [Endpoint; 2]| {
        let mut into = [0; 8];
        let mut deliver = |_: &mut Endpoint, mut packet: Incoming<'_>| {
            packet.read(&mut into);
            Flow::Continue
        };
        while b.progress(&mut deliver, usize::MAX) > 0 {}
    };
    play(half, &mut pair(), send, take);
}

fn am(half: Half, seeded: bool) {
    let mut ends = pair().map(|end| {
        let mut am = Simple::new(end, 0u64);
        am.set_handler(1, move |call, args| {
            *call.state += args[0];
            if seeded {
                drop(black_box(Box::new(args[0])));
            }
        });
        am
    });
    let send = |[a, _]: &mut [Simple<u64>; 2]| a.request(Peer(1), 1, &[1]).expect("there is room");
    let take = |[_, b]: &mut [Simple<u64>; 2]| while b.poll() > 0 {};
    play(half, &mut ends, send, take);
}

fn am2(half: Half) {
    let mut nodes = pair().map(|end| {
        let mut node = Node::new(end, 0u64);
        let bundle = node.allocate_bundle().expect("the first");
        let ep = node.allocate_endpoint(bundle).expect("the first");
        node.set_tag(ep, Tag(3)).expect("it is there");
        node.set_handler(ep, 1, |ctx, args| *ctx.state += args[0]).expect("it is there");
        let other = Name { peer: Peer(1 - node.name(ep).peer.0), ..node.name(ep) };
        node.map(ep, 0, other, Tag(3)).expect("the first");
        (node, bundle, ep)
    });
    let send = |nodes: &mut [_; 2]| {
        let (node, _, ep): &mut (Node<u64>, _, _) = &mut nodes[0];
        node.try_request(*ep, 0, 1, &[1]).expect("a batch is less than the credits");
    };
    // Both poll: the sender's credits come back by messages.
    let take = |nodes: &mut [_; 2]| {
        for (node, bundle, _) in nodes.iter_mut().rev() {
            let node: &mut Node<u64> = node;
            while node.poll(*bundle) > 0 {}
        }
    };
    play(half, &mut nodes, send, take);
}

fn fm(half: Half) {
    let mut ends = pair().map(|end| {
        let mut fm = Fm::new(end).expect("a doorbell");
        let mut into = [0; 8];
        fm.register(Handler(1), move |_, message| {
            message.read(&mut into);
            fm::Flow::Continue
        });
        fm
    });
    let send = |[a, _]: &mut [Fm; 2]| a.send(Peer(1), Handler(1), &[1; 8]).expect("there is room");
    let take = |[_, b]: &mut [Fm; 2]| while b.extract_all() > 0 {};
    play(half, &mut ends, send, take);
}

fn tagged(half: Half) {
    const ENVELOPE: Envelope = Envelope { context: 7, tag: 1 };
    let ends = pair();
    let tagged = [Tagged::new(&ends[0]), Tagged::new(&ends[1])];
    let memory = Memory::private(8);
    let mut state = (ends, tagged);
    let send = |([a, _], [ta, _]): &mut ([Endpoint; 2], [Tagged; 2])| {
        let source = Source::Memory(memory.clone(), 0);
        ta.send(a, Peer(1), ENVELOPE, Mode::Standard, 8, source).expect("the peer is there");
    };
    let take = |([a, b], [ta, tb]): &mut ([Endpoint; 2], [Tagged; 2])| {
        let want = Want { context: ENVELOPE.context, from: Some(Peer(0)), tag: Some(ENVELOPE.tag) };
        let posted = [(); BATCH].map(|()| tb.receive(b, want, Sink::Memory(memory.clone(), 0, 8)));
        while b.progress(tb, usize::MAX) > 0 {}
        for received in posted {
            if let Received::Pending(request) = received {
                tb.take(request).expect("all of a batch is there");
            }
        }
        while a.progress(ta, usize::MAX) > 0 {}
    };
    play(half, &mut state, send, take);
}

fn mpi(half: Half) {
    let send = |[a, _]: &mut [Comm; 2]| a.send(&[1u64], 1, 1).expect("there is room");
    let take = |[_, b]: &mut [Comm; 2]| {
        let mut into = [0u64];
        for _ in 0..BATCH {
            b.receive(&mut into, 0, 1).expect("all of a batch is there");
        }
    };
    play(half, &mut pair().map(mpi::over), send, take);
}
