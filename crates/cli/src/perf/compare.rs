//! Us and others: the same work, in alternating rounds, medians of per-round ratios.

use anyhow::{Result, bail};
use clap::builder::PossibleValuesParser;

use super::driver::{Driver, Spec};
use super::figures::{Estimate, median};
use super::layers;
use super::options::{Common, Via};
use super::peers::{self, Ourselves, Running};
use super::record::{self, Record};
use super::report;
use super::worker::{Answer, Command};

/// Us and other libraries, the same work in alternating rounds
#[derive(Debug, clap::Args)]
pub struct CompareOptions {
    /// What to measure: latency, rate, turn (a token round all ranks); between MPIs also stream (the rate of blocking calls),
    /// exchange (both ways at once), anybody (latency, received from any source), probe (latency, probed for first),
    /// put, get and accumulate (each with a flush), locked (an accumulate in a lock of its own), halo (both neighbours at once),
    /// and collectives by their names
    #[arg(long, value_delimiter = ',', default_value = "latency,rate", value_parser = PossibleValuesParser::new(COMPARISONS.map(|(verb, _)| verb)))]
    what: Vec<String>,
    /// Whom to compare with, by names as `perf peers` shows them, or parts of them; `pipe`, `fifo`, `sysv` and `unix` are
    /// the system's own ways; `ourselves` must end in a tie [default: whoever is installed]
    #[arg(long, value_delimiter = ',', value_name = "PEER,…")]
    peers: Vec<String>,
}

impl CompareOptions {
    /// These beside whoever is installed.
    pub fn everybody(what: &[&str]) -> CompareOptions {
        CompareOptions { what: what.iter().map(|&what| what.to_owned()).collect(), peers: Vec::new() }
    }
}

/// Ways that our own ranks can go in the place of a peer, and the layers that they are: the system's, and, to test the
/// comparison itself, our own.
const WAYS: [(&str, &str); 5] =
    [("pipe", "pipe"), ("fifo", "fifo"), ("sysv", "sysv"), ("unix", "unix"), (OURSELVES, "message")];
const OURSELVES: &str = "ourselves";

/// What can be compared, and at which sizes where none are asked for.
const COMPARISONS: [(&str, &[usize]); 23] = [
    ("latency", MESSAGES),
    ("rate", MESSAGES),
    ("stream", MESSAGES),
    ("exchange", MESSAGES),
    ("anybody", &[8, 1024]),
    ("probe", &[8, 1024]),
    ("put", ONE_SIDED),
    ("get", ONE_SIDED),
    ("accumulate", ONE_SIDED),
    ("locked", ONE_SIDED),
    ("turn", MESSAGES),
    ("halo", &[624]),
    ("barrier", &[0]),
    ("bcast", COLLECTIVES),
    ("ibcast", COLLECTIVES),
    ("reduce", COLLECTIVES),
    ("allreduce", COLLECTIVES),
    ("gather", COLLECTIVES),
    ("scatter", COLLECTIVES),
    ("allgather", COLLECTIVES),
    ("alltoall", COLLECTIVES),
    ("reduce-scatter", COLLECTIVES),
    ("scan", COLLECTIVES),
];
const MESSAGES: &[usize] = &[8, 1024, 4096, 64 << 10, 1 << 20];
const ONE_SIDED: &[usize] = &[8, 1024, 64 << 10];
const COLLECTIVES: &[usize] = &[8, 1024, 64 << 10, 1 << 20];

/// Whether a peer can do something with so many bytes.
type Ability = Box<dyn Fn(&str, usize) -> bool>;
/// With fewer rounds there is no telling who is faster.
const ROUNDS_MIN: u32 = 5;

/// A peer in a comparison, and the layer of ours that it is compared with.
struct Rival {
    name: String,
    version: String,
    beside: String,
    running: Box<dyn Running>,
    can: Ability,
    /// It did not answer: it is left out, and the others go on.
    failed: bool,
}

/// Measures and shows the comparison.
pub fn run(common: &Common, compare: &CompareOptions) -> Result<()> {
    if let Some(path) = &common.html {
        report::check(path)?;
    }
    let records = records(common, compare)?;
    record::print(common, &records, table);
    match &common.html {
        Some(path) => report::write(path, &report::records(&records)),
        None => Ok(()),
    }
}

/// Measures the comparison.
pub fn records(common: &Common, compare: &CompareOptions) -> Result<Vec<Record>> {
    let wanted = wanted(common, compare)?;
    let names: Vec<&str> = peers::all().iter().map(|peer| peer.name()).collect();
    peers::check(&compare.peers, &[names, WAYS.map(|(word, _)| word).to_vec()].concat())?;
    let mut driver = Driver::new(common)?;
    if driver.in_job() {
        bail!("other libraries start their own ranks; run this outside of a job");
    }
    let via = driver.via();
    let mut rivals = rivals(common, compare, &wanted, via)?;
    rivals.retain_mut(|rival| rival.is_up(&driver, via));
    if rivals.is_empty() {
        bail!("there is nobody to compare with: of those asked for, none is installed and does this here");
    }
    if common.for_people() {
        for rival in &rivals {
            println!("{:<12} {}", rival.name, rival.version);
        }
    }
    let mut records = Vec::new();
    for (verb, bytes) in wanted {
        records.extend(one_size(&mut driver, &mut rivals, verb, via, bytes)?);
        rivals.retain(|rival| !rival.failed);
    }
    Ok(records)
}

/// Something to compare, at a size.
type Wanted = (&'static str, usize);

/// All that was asked for.
fn wanted(common: &Common, compare: &CompareOptions) -> Result<Vec<Wanted>> {
    let mut wanted = Vec::new();
    let asked = COMPARISONS.into_iter().filter(|(verb, _)| compare.what.iter().any(|what| what == verb));
    for (verb, sizes) in asked {
        // Only the first is compared.
        layers::check(common.api.get(..1).unwrap_or_default(), &[verb])?;
        // A barrier has no size.
        let sizes = if verb == "barrier" { sizes.to_vec() } else { common.sizes(sizes) };
        wanted.extend(sizes.into_iter().map(|bytes| (verb, bytes)));
    }
    Ok(wanted)
}

/// Those who were asked for, are here, and can do something of what is wanted.
fn rivals(common: &Common, compare: &CompareOptions, wanted: &[Wanted], via: Via) -> Result<Vec<Rival>> {
    let ranks = common.ranks;
    let asked = |name: &str| peers::is_asked(&compare.peers, name);
    let mut rivals = Vec::new();
    for peer in peers::all() {
        let able = wanted.iter().any(|&(verb, bytes)| peer.can(verb, via, ranks, bytes));
        if !able || (!compare.peers.is_empty() && !asked(peer.name())) {
            continue;
        }
        if let Some(command) = peer.missing() {
            eprintln!("{} is not installed: {command}", peer.name());
            continue;
        }
        let running = match peer.start(ranks, via, common.pins(ranks)) {
            Ok(running) => running,
            Err(error) => {
                eprintln!("{} does not start: {error:#}", peer.name());
                continue;
            }
        };
        let beside = common.api.first().cloned().unwrap_or_else(|| peer.beside().to_owned());
        let (name, version) = (peer.name().to_owned(), peer.version());
        let can = Box::new(move |what: &str, bytes| peer.can(what, via, ranks, bytes));
        rivals.push(Rival { name, version, beside, running, can, failed: false });
    }
    let able = |verb: &str| matches!(verb, "latency" | "rate");
    for (word, api) in WAYS.into_iter().filter(|_| wanted.iter().any(|(verb, _)| able(verb))) {
        let is_default = word != OURSELVES && compare.peers.is_empty() && via == Via::Shm && ranks == 2;
        if !is_default && !asked(word) {
            continue;
        }
        let beside = common.api.first().cloned().unwrap_or_else(|| "message".to_owned());
        let api = if word == OURSELVES { beside.clone() } else { api.to_owned() };
        layers::wire(std::slice::from_ref(&api), Some(via), via)?;
        let running = Box::new(Ourselves::new(Driver::new(common)?, &api, via, ranks));
        let version = if word == OURSELVES { env!("CARGO_PKG_VERSION") } else { "of this kernel" };
        let can = Box::new(move |what: &str, _| able(what));
        let (name, version) = (word.to_owned(), version.to_owned());
        rivals.push(Rival { name, version, beside, running, can, failed: false });
    }
    Ok(rivals)
}

impl Rival {
    /// Whether it does anything at all on this wire. Some find out late that they cannot.
    fn is_up(&mut self, driver: &Driver, via: Via) -> bool {
        const BYTES: usize = 8;
        if !(self.can)("latency", BYTES) {
            return true;
        }
        let trial = Spec::new(&self.beside, "latency", via, BYTES).ranks(driver.common.ranks);
        let command = Command { count: 1, ..trial.command(&driver.common) };
        match self.running.ask(&command) {
            Ok(_) => true,
            Err(error) => {
                eprintln!("{} is left out: {error:#}", self.name);
                false
            }
        }
    }
}

/// One measurement at one size: us, then everybody else, round after round.
fn one_size(
    driver: &mut Driver,
    rivals: &mut [Rival],
    verb: &'static str,
    via: Via,
    bytes: usize,
) -> Result<Vec<Record>> {
    let (rounds, ranks) = (driver.common.rounds, driver.common.ranks);
    let able: Vec<usize> = (0..rivals.len()).filter(|&at| (rivals[at].can)(verb, bytes)).collect();
    let mut ours: Vec<Spec> = Vec::new();
    for &at in &able {
        if !ours.iter().any(|spec| spec.api == rivals[at].beside) {
            ours.push(Spec::new(&rivals[at].beside, verb, via, bytes).ranks(ranks));
        }
    }
    let mut own: Vec<Vec<f64>> = vec![Vec::new(); ours.len()];
    let mut theirs: Vec<Vec<f64>> = vec![Vec::new(); able.len()];
    for round in 0..rounds {
        for (spec, own) in ours.iter().zip(&mut own) {
            driver.progress(&format!("{verb} at {bytes} B: round {} of {rounds}, ours", round + 1));
            own.push(driver.ask(spec)?.each_ns);
        }
        for (&at, theirs) in able.iter().zip(&mut theirs) {
            let rival = &mut rivals[at];
            if rival.failed {
                continue;
            }
            driver.progress(&format!("{verb} at {bytes} B: round {} of {rounds}, {}", round + 1, rival.name));
            let same = ours.iter().find(|spec| spec.api == rival.beside).expect("listed above");
            // The same command, but for how many: slow peers would take minutes.
            let mut command = same.command(&driver.common);
            if theirs
                .first()
                .is_some_and(|&first: &f64| first > 20.0 * own_median(&ours, &own, &rival.beside))
            {
                command.count = (command.count / 10).max(10);
            }
            match rival.running.ask(&command) {
                Ok(answer) => theirs.push(answer.each_ns),
                Err(error) => {
                    eprintln!("{} is left out from here on: {error:#}", rival.name);
                    rival.failed = true;
                }
            }
        }
    }
    driver.progress("");
    let mut records = Vec::new();
    for (&at, theirs) in able.iter().zip(&theirs) {
        let rival = &rivals[at];
        if rival.failed {
            continue;
        }
        let which = ours.iter().position(|spec| spec.api == rival.beside).expect("listed above");
        let answers: Vec<Answer> = own[which].iter().map(|&ns| Answer::of(ns)).collect();
        let ratio = Estimate::of_ratio(&own[which], theirs);
        let mut record = Record::new(verb, &ours[which], &answers).beside_limit(theirs);
        record.limit = None;
        record.peer = Some(rival.name.clone());
        let verdict = if rounds < ROUNDS_MIN { "too few rounds" } else { ratio.verdict().name() };
        record.verdict = Some(verdict.to_owned());
        records.push(record.with("peer_ns", median(theirs)));
    }
    Ok(records)
}

fn own_median(ours: &[Spec], own: &[Vec<f64>], api: &str) -> f64 {
    ours.iter().position(|spec| spec.api == api).map_or(f64::NAN, |at| median(&own[at]))
}

fn table(records: &[Record]) {
    println!("below 1 we are faster; in brackets where the ratio lies with 95 % confidence");
    let mut head = String::new();
    for r in records {
        let line = format!("{} at {}", r.bench, record::size(r.bytes));
        if line != head {
            println!("{line}");
            head = line;
        }
        println!(
            "  {:<8} {:>11}   {:<12} {:>11}   {:.2} x [{:.2}, {:.2}]  {}{}",
            r.api,
            record::time(r.mean_ns),
            r.peer.as_deref().unwrap_or("-"),
            record::time(r.more.get("peer_ns").copied().unwrap_or(f64::NAN)),
            r.ratio.unwrap_or(f64::NAN),
            r.ratio_low.unwrap_or(f64::NAN),
            r.ratio_high.unwrap_or(f64::NAN),
            r.verdict.as_deref().unwrap_or("-"),
            if r.noisy { "  noisy" } else { "" }
        );
    }
    record::warn_of_noise(records);
}
