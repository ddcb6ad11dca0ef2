//! A striped file server on BMI: four servers with real files, three clients, and a server that is killed and started again
//! while they work. Every byte is checked, through the servers and on the disk.
//!
//! A file lies in stripes of 64 KiB on the servers in turn. One message carries up to four stripes of one server, which are apart in the
//! client's memory: a list. BMI never repeats a request; the client does, because only it knows that these may be repeated.

use std::collections::HashMap;
use std::fs::{self, File, OpenOptions};
use std::io::{BufRead, BufReader};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use barewire::bmi::{Addr, Bmi, Buffer, ContextId, Error, Options, Posted, Result, Unexpected};
use barewire::core::boot::{Environment, environment::KEY_FILE, user_key};

const SERVERS: usize = 4;
const CLIENTS: usize = 3;
const STRIPE: usize = 64 << 10;
const STRIPES_A_MESSAGE: usize = 4;
/// Messages of stripes a server gets for one file.
const ROWS: usize = 6;
const FILE_BYTES: usize = ROWS * SERVERS * STRIPES_A_MESSAGE * STRIPE;
const READ: u64 = 1;
const WRITE: u64 = 2;
/// A request that takes longer is given up and made again.
const PATIENCE: Duration = Duration::from_secs(2);

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match &arguments[..] {
        [] => run(),
        [folder, url] => serve(Path::new(folder), url),
        _ => panic!("usage: bmi_stripes [FOLDER URL]"),
    }
}

/// Starts everything, kills a server twice under load, and checks what came of it.
fn run() {
    let folder = std::env::temp_dir().join(format!("barewire-stripes-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    let mut servers: Vec<Server> =
        (0..SERVERS).map(|n| Server::start(&folder, n, "tcp://127.0.0.1:0")).collect();
    let urls: Vec<String> = servers.iter().map(|server| server.url.clone()).collect();
    let (done, failed) = (AtomicU64::new(0), AtomicU64::new(0));
    let all = (CLIENTS * SERVERS * ROWS * 2) as u64;
    thread::scope(|scope| {
        for number in 0..CLIENTS {
            let (folder, urls, done, failed) = (&folder, &urls, &done, &failed);
            scope.spawn(move || Client::new(folder, urls, number as u64).work(done, failed));
        }
        for (part, victim) in [(4, 1), (2, 2)] {
            while done.load(Ordering::Relaxed) < all / part {
                thread::sleep(Duration::from_millis(1));
            }
            servers[victim].process.kill().unwrap();
            servers[victim].process.wait().unwrap();
            let seen = failed.load(Ordering::Relaxed);
            while failed.load(Ordering::Relaxed) == seen {
                thread::sleep(Duration::from_millis(1));
            }
            servers[victim] = Server::start(&folder, victim, &urls[victim]);
        }
    });
    for number in 0..CLIENTS {
        assert!(
            on_disk(&folder, number as u64) == contents(number as u64),
            "file {number} is right on the disk"
        );
    }
    println!(
        "{CLIENTS} files of {} KiB in stripes on {SERVERS} servers, two of them killed on the way; {} requests were repeated",
        FILE_BYTES >> 10,
        failed.load(Ordering::Relaxed)
    );
    drop(servers);
    fs::remove_dir_all(folder).unwrap();
}

/// What a file should hold.
fn contents(file: u64) -> Vec<u8> {
    let mut state = file + 1;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as u8
    };
    (0..FILE_BYTES).map(|_| next()).collect()
}

/// Where stripe `which` of message `row` of server `server` lies in the file.
fn stripe_at(server: usize, row: usize, which: usize) -> usize {
    ((row * STRIPES_A_MESSAGE + which) * SERVERS + server) * STRIPE
}

/// A file as the servers have it.
fn on_disk(folder: &Path, file: u64) -> Vec<u8> {
    let mut whole = vec![0; FILE_BYTES];
    for server in 0..SERVERS {
        let part = fs::read(folder.join(format!("{server}")).join(format!("{file}"))).unwrap();
        for (n, stripe) in part.chunks(STRIPE).enumerate() {
            let at = stripe_at(server, n / STRIPES_A_MESSAGE, n % STRIPES_A_MESSAGE);
            whole[at..at + stripe.len()].copy_from_slice(stripe);
        }
    }
    whole
}

/// A server in a process of its own.
struct Server {
    process: Child,
    url: String,
}

impl Server {
    fn start(folder: &Path, number: usize, url: &str) -> Server {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.arg(folder.join(number.to_string())).arg(url).env(KEY_FILE, folder.join("key"));
        let mut process = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut url = String::new();
        BufReader::new(process.stdout.as_mut().unwrap()).read_line(&mut url).unwrap();
        Server { process, url: url.trim().to_owned() }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// One request: what to do with which bytes of which file.
#[derive(Clone, Copy)]
struct Request {
    what: u64,
    file: u64,
    at: u64,
    len: u64,
}

impl Request {
    fn encode(self) -> Buffer {
        let words = [self.what, self.file, self.at, self.len].map(u64::to_le_bytes);
        Buffer::from(words.as_flattened())
    }

    /// From bytes that anybody may have sent.
    fn decode(bytes: &[u8]) -> Option<Request> {
        let words: [u8; 32] = bytes.try_into().ok()?;
        let word = |n: usize| u64::from_le_bytes(words[8 * n..][..8].try_into().expect("eight bytes"));
        let (what, file, at, len) = (word(0), word(1), word(2), word(3));
        let fits =
            (what == READ || what == WRITE) && at <= 1 << 40 && len <= (STRIPE * STRIPES_A_MESSAGE) as u64;
        fits.then_some(Request { what, file, at, len })
    }
}

/// What a server does for a client: a write whose bytes are on their way, or an answer that is leaving.
enum Job {
    Write { request: Request, from: Addr, tag: i32, bytes: Buffer },
    Answer,
}

/// Serves until it is killed.
fn serve(folder: &Path, url: &str) {
    fs::create_dir_all(folder).unwrap();
    let bmi = Bmi::initialize(Options::default().listen(url)).unwrap();
    println!("tcp://127.0.0.1:{}", bmi.port().unwrap());
    let context = bmi.open_context().unwrap();
    let mut shop = Shop { bmi, context, folder: folder.to_owned(), jobs: HashMap::new(), next: 0 };
    loop {
        for message in shop.bmi.testunexpected(16, 0, Duration::ZERO).unwrap() {
            shop.begin(message);
        }
        for ended in shop.bmi.testcontext(16, Duration::from_millis(200), context).unwrap() {
            let job = shop.jobs.remove(&ended.user);
            // A client that died, or gave up, will ask again if it wants to.
            if let (Some(Job::Write { request, from, tag, bytes }), Ok(len)) = (job, ended.outcome) {
                shop.written(request, from, tag, &bytes.slice(0, len as usize));
            }
        }
    }
}

/// A server at work.
struct Shop {
    bmi: Bmi,
    context: ContextId,
    folder: PathBuf,
    jobs: HashMap<u64, Job>,
    next: u64,
}

impl Shop {
    fn begin(&mut self, message: Unexpected) {
        let Some(request) = Request::decode(&message.bytes) else { return };
        let (from, tag) = (message.from, message.tag);
        self.next += 1;
        if request.what == WRITE {
            let bytes = self.bmi.memalloc(request.len as usize);
            match self.bmi.post_recv(from, &bytes, tag, self.next, self.context) {
                Ok(Posted::Done(_)) => self.written(request, from, tag, &bytes),
                Ok(Posted::Pending(_)) => {
                    drop(self.jobs.insert(self.next, Job::Write { request, from, tag, bytes }))
                }
                Err(_) => {}
            }
        } else {
            let mut bytes = vec![0; request.len as usize];
            let _ = self.open(request.file).read_exact_at(&mut bytes, request.at);
            self.answer(from, tag, Buffer::from(&bytes[..]));
        }
    }

    fn written(&mut self, request: Request, from: Addr, tag: i32, bytes: &Buffer) {
        self.open(request.file).write_all_at(&bytes.to_vec(), request.at).unwrap();
        self.answer(from, tag, Buffer::from(b"written"));
    }

    fn answer(&mut self, to: Addr, tag: i32, bytes: Buffer) {
        self.next += 1;
        if let Ok(Posted::Pending(_)) = self.bmi.post_send(to, bytes, tag, self.next, self.context) {
            self.jobs.insert(self.next, Job::Answer);
        }
    }

    fn open(&self, file: u64) -> File {
        let path = self.folder.join(file.to_string());
        OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path).unwrap()
    }
}

/// A client at work on a file of its own.
struct Client {
    bmi: Bmi,
    context: ContextId,
    servers: Vec<Addr>,
    file: u64,
    tag: i32,
}

impl Client {
    fn new(folder: &Path, urls: &[String], file: u64) -> Client {
        let key_file = [(KEY_FILE.to_owned(), folder.join("key").display().to_string())];
        let key = user_key(&Environment::from_pairs(key_file).unwrap()).unwrap();
        let bmi = Bmi::initialize(Options::default().key(key)).unwrap();
        let context = bmi.open_context().unwrap();
        let servers = urls.iter().map(|url| bmi.addr_lookup(url).unwrap()).collect();
        Client { bmi, context, servers, file, tag: 0 }
    }

    /// Writes the file and reads it back.
    fn work(mut self, done: &AtomicU64, failed: &AtomicU64) {
        let (out, into) = (Buffer::from(&contents(self.file)[..]), Buffer::new(FILE_BYTES));
        for (what, memory) in [(WRITE, &out), (READ, &into)] {
            for (row, server) in (0..ROWS).flat_map(|row| (0..SERVERS).map(move |server| (row, server))) {
                let stripes: Vec<Buffer> = (0..STRIPES_A_MESSAGE)
                    .map(|which| memory.slice(stripe_at(server, row, which), STRIPE))
                    .collect();
                let len = STRIPES_A_MESSAGE * STRIPE;
                let request = Request { what, file: self.file, at: (row * len) as u64, len: len as u64 };
                while self.transfer(server, request, &stripes).is_err() {
                    failed.fetch_add(1, Ordering::Relaxed);
                    thread::sleep(Duration::from_millis(5));
                }
                done.fetch_add(1, Ordering::Relaxed);
            }
        }
        assert!(into.to_vec() == out.to_vec(), "what was read is what was written");
    }

    /// One request and what belongs to it.
    fn transfer(&mut self, server: usize, request: Request, stripes: &[Buffer]) -> Result<()> {
        let (to, context) = (self.servers[server], self.context);
        // A new tag each time: an answer that comes too late is nobody's.
        self.tag += 1;
        let answer = Buffer::new(7);
        let mut posted = vec![match request.what {
            READ => self.bmi.post_recv_list(to, stripes, self.tag, 0, context)?,
            _ => self.bmi.post_recv(to, &answer, self.tag, 0, context)?,
        }];
        let mut outcome = Ok(());
        match self.bmi.post_sendunexpected(to, request.encode(), self.tag, 0, 0, context) {
            Ok(sent) => posted.push(sent),
            Err(error) => outcome = Err(error),
        }
        if request.what == WRITE && outcome.is_ok() {
            match self.bmi.post_send_list(to, stripes, self.tag, 0, context) {
                Ok(sent) => posted.push(sent),
                Err(error) => outcome = Err(error),
            }
        }
        let until = Instant::now() + PATIENCE;
        for posted in posted {
            let Posted::Pending(op) = posted else { continue };
            loop {
                if outcome.is_err() || Instant::now() > until {
                    self.bmi.cancel(op, context)?;
                }
                if let Some(ended) = self.bmi.test(op, Duration::from_millis(50), context)? {
                    outcome = outcome.and(ended.outcome.map(drop).map_err(Error::from));
                    break;
                }
            }
        }
        outcome
    }
}
