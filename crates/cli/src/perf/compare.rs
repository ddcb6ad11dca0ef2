//! Us and others: the same work, in alternating rounds, medians of per-round ratios.

use anyhow::{Result, bail};

use super::PerfOptions;
use super::figures::Estimate;
use super::peers::Peer;
use super::session::Session;

/// Us and other libraries, the same work in alternating rounds
#[derive(Debug, clap::Args)]
pub struct CompareOptions {
    /// Ranks; more than there are processors is a fair question too
    #[arg(long, short = 'n', default_value_t = 2)]
    ranks: u32,
    /// Which rung of ours: message, tagged, am, fm
    #[arg(long, default_value = "tagged")]
    api: String,
    /// What to measure: latency, rate, ring
    #[arg(long, value_delimiter = ',', default_value = "latency,rate")]
    what: Vec<String>,
    /// Message sizes
    #[arg(long, value_delimiter = ',', default_value = "8,1024,4096,65536,1048576")]
    bytes: Vec<usize>,
    /// Repetitions of the 8-byte measurement in one round; longer messages do fewer
    #[arg(long, default_value_t = 20_000)]
    count: u64,
}

/// Measures and shows the comparison.
pub fn run(options: &PerfOptions, compare: &CompareOptions) -> Result<()> {
    let peers: Vec<Peer> = Peer::ALL.into_iter().filter(|peer| peer.is_installed()).collect();
    for missing in Peer::ALL.into_iter().filter(|peer| !peers.contains(peer)) {
        eprintln!("{} is not installed: `barewire perf peers --install`", missing.name());
    }
    if peers.is_empty() {
        bail!("there is nobody to compare with");
    }
    let pin = !options.no_pin && compare.ranks <= 2;
    let quiet = PerfOptions { no_pin: !pin, what: None, ..*options };
    let mut ours = super::ours(&quiet, &compare.api, compare.ranks)?;
    let mut others = Vec::new();
    for peer in peers {
        others.push(Session::start(peer.name(), peer.command(compare.ranks, options.tcp)?, pin)?);
    }
    println!("ours ({}) beside others; below 1 we are faster", compare.api);
    for what in &compare.what {
        for &bytes in &compare.bytes {
            let count = (compare.count / (1 + bytes as u64 / 2048)).max(20);
            let mut times: Vec<Vec<f64>> = vec![Vec::new(); others.len() + 1];
            for _ in 0..options.rounds {
                times[0].push(ours.ask(&format!("{}/{what}", compare.api), bytes, count, 64)?);
                for (at, other) in others.iter_mut().enumerate() {
                    times[at + 1].push(other.ask(what, bytes, count, 64)?);
                }
            }
            show(options, what, bytes, &times, &others);
        }
    }
    Ok(())
}

fn show(options: &PerfOptions, what: &str, bytes: usize, times: &[Vec<f64>], others: &[Session]) {
    let ours = Estimate::of(&times[0]);
    if !options.json {
        println!("{what:<8} {bytes:>8} B   ours {:>10.1} ns", ours.median);
    }
    for (other, theirs) in others.iter().zip(&times[1..]) {
        let ratios: Vec<f64> = times[0].iter().zip(theirs).map(|(a, b)| a / b).collect();
        let (ratio, theirs) = (Estimate::of(&ratios), Estimate::of(theirs));
        let verdict = match () {
            () if ratio.is_surely_below(1.0) => "faster",
            () if ratio.is_surely_above(1.0) => "SLOWER",
            () => "a tie",
        };
        if options.json {
            println!(
                "{{\"bench\":\"{what}\",\"peer\":\"{}\",\"bytes\":{bytes},\"p50_ns\":{:.1},\"peer_p50_ns\":{:.1},\"ratio\":{:.3},\"low\":{:.3},\"high\":{:.3}}}",
                other.name, ours.median, theirs.median, ratio.median, ratio.low, ratio.high
            );
        } else {
            println!(
                "    {:<10} {:>10.1} ns   {:.2} x [{:.2}, {:.2}]  {verdict}",
                other.name, theirs.median, ratio.median, ratio.low, ratio.high
            );
        }
    }
}
