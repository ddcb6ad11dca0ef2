//! The page: one file with everything in it, charts and figures, for a desk and for a phone, in light and in dark.

mod charts;
mod records;
mod scale;

use std::fmt::Write;
use std::path::Path;

use anyhow::{Context, Result};
use charts::{Axis, Bar, Scale, Series, Spread, escape};

use super::ladder::{BESIDE, CURVES, Ladder, RUNGS};
use super::options::Via;
use super::reading;
use super::record::{self, Record};

pub use records::page as records;
pub use scale::page as scale;

/// Fails if nothing can be written there, before anything is measured for it. What is there stays as it is.
pub fn check(path: &Path) -> Result<()> {
    let is_new = !path.exists();
    let opened = std::fs::File::options().append(true).create(true).open(path);
    opened.with_context(|| format!("{} cannot be written", path.display()))?;
    if is_new {
        std::fs::remove_file(path)?;
    }
    Ok(())
}

/// Writes a page.
pub fn write(path: &Path, page: &str) -> Result<()> {
    std::fs::write(path, page).with_context(|| format!("writing {}", path.display()))
}

/// The page of a ladder.
pub fn page(ladder: &Ladder) -> String {
    let mut body = String::new();
    let _ =
        write!(body, "<h1>Barewire on this machine</h1><p class='quiet'>{}</p>", escape(&machine(ladder)));
    body += "<section><h2>What the figures say</h2><ul>";
    for line in reading::sentences(ladder) {
        let _ = write!(body, "<li>{}</li>", escape(&line));
    }
    body += "</ul></section><div class='charts'>";
    let names: Vec<String> = RUNGS.iter().map(|rung| format!("{}: {}", rung.name, rung.what)).collect();
    let caption = format!("8 bytes, one way: what a rung stands on, and what it adds. {}.", names.join("; "));
    chart(&mut body, "The ladder", &caption, &rungs(ladder));
    chart(
        &mut body,
        "Latency",
        "8 bytes, one way. The line reaches from 1 % to 99 % of the messages, the bar holds the middle half; the figure is the median.",
        &latencies(ladder),
    );
    chart(&mut body, "Bandwidth", "A stream of messages, by their size.", &bandwidths(ladder));
    chart(
        &mut body,
        "Efficiency",
        "What a layer leaves of the bandwidth of the layer it stands on, by size; more than 125 % is drawn at the upper edge.",
        &efficiencies(ladder),
    );
    body += "</div>";
    figures(&mut body, ladder);
    body += METHOD;
    shell("barewire perf", &body)
}

/// A page around its body: nothing of it comes from elsewhere.
fn shell(title: &str, body: &str) -> String {
    format!(
        "<!doctype html><html lang='en'><head><meta charset='utf-8'><meta name='viewport' content='width=device-width, initial-scale=1'><title>{title}</title><style>{STYLE}</style></head><body><main>{body}</main></body></html>\n"
    )
}

fn chart(body: &mut String, title: &str, caption: &str, svg: &str) {
    let _ = write!(body, "<figure><h2>{title}</h2>{svg}<figcaption>{caption}</figcaption></figure>");
}

/// Where and when this was.
fn machine(ladder: &Ladder) -> String {
    let rounds = ladder.records.iter().map(|record| record.rounds).max().unwrap_or(0);
    format!(
        "{}. Measured in {:.0} seconds, medians of {rounds} rounds.",
        super::machine_line(),
        ladder.seconds
    )
}

fn rungs(ladder: &Ladder) -> String {
    let bars: Vec<Bar> = RUNGS
        .iter()
        .filter_map(|rung| {
            let own = ladder.find("latency", rung.name, Via::Shm, 8)?.typical_ns();
            let added = ladder.added(rung).map_or(0.0, |estimate| estimate.median);
            let label = match rung.name == rung.below {
                true => record::time(own),
                false => format!("{} ({added:+.0})", record::time(own)),
            };
            Some(Bar { name: rung.name.to_owned(), below: own - added, added, label })
        })
        .collect();
    charts::bars(&bars, "nanoseconds", |ns| format!("{ns:.0}"))
}

fn latencies(ladder: &Ladder) -> String {
    let own = RUNGS.iter().map(|rung| (rung.name.to_owned(), rung.name, Via::Shm));
    let others = BESIDE.into_iter().map(|way| (way.to_owned(), way, Via::Shm));
    let tcp = [("tcp", "message"), ("socket", "socket")].map(|(name, api)| (name.to_owned(), api, Via::Tcp));
    let spreads: Vec<Spread> = own
        .chain(others)
        .chain(tcp)
        .filter_map(|(name, api, via)| {
            let record = ladder.find("latency", api, via, 8)?;
            let more = |quantile: &str| record.more.get(quantile).copied();
            let (p50, p99) = (record.p50_ns?, record.p99_ns?);
            Some(Spread { name, p1: more("p1_ns")?, p25: more("p25_ns")?, p50, p75: more("p75_ns")?, p99 })
        })
        .collect();
    charts::spreads(&spreads, "one way", short_time)
}

fn bandwidths(ladder: &Ladder) -> String {
    let series: Vec<Series> = CURVES
        .iter()
        .enumerate()
        .map(|(colour, &api)| Series {
            colour,
            name: api.to_owned(),
            points: curve(ladder, |r| (r.api == api).then_some(r.bytes_per_s)?),
        })
        .filter(|series| !series.points.is_empty())
        .collect();
    let speeds = series.iter().flat_map(|series| series.points.iter().map(|point| point.1));
    let y = Axis { title: "", scale: Scale::log_of(speeds), write: short_bandwidth, ticks: None };
    charts::lines(&series, &sizes(), &y)
}

fn efficiencies(ladder: &Ladder) -> String {
    let series: Vec<Series> = RUNGS
        .iter()
        .filter(|rung| CURVES.contains(&rung.name) && !matches!(rung.name, "limit" | "message"))
        .map(|rung| {
            let left = |r: &Record| {
                let (part, _) = (r.api == rung.name).then(|| ladder.efficiency(rung, r.bytes as usize))??;
                Some(part.min(1.5) * 100.0)
            };
            let colour = CURVES.iter().position(|&api| api == rung.name).unwrap_or(0);
            Series { name: rung.name.to_owned(), colour, points: curve(ladder, left) }
        })
        .filter(|series| !series.points.is_empty())
        .collect();
    let write = |part: f64| format!("{part:.0} %");
    let y = Axis { title: "", scale: Scale::Linear { from: 0.0, to: 125.0 }, write, ticks: None };
    charts::lines(&series, &sizes(), &y)
}

/// The sizes of the curves, from 8 bytes to 4 MiB.
fn sizes() -> Axis {
    let ticks = [8.0, 64.0, 1024.0, 16384.0, 262_144.0, 4_194_304.0].to_vec();
    let write = |bytes: f64| record::size(bytes.round() as u64);
    Axis {
        title: "bytes of a message",
        scale: Scale::Log { from: 8.0, to: 4_194_304.0 },
        write,
        ticks: Some(ticks),
    }
}

/// Points by size from the bandwidth records over shared memory.
fn curve(ladder: &Ladder, value: impl Fn(&Record) -> Option<f64>) -> Vec<(f64, f64)> {
    let of_curves =
        ladder.records.iter().filter(|r| r.bench == "bandwidth" && r.via == "shm" && r.bytes >= 8);
    let mut points: Vec<(f64, f64)> =
        of_curves.filter_map(|record| Some((record.bytes as f64, value(record)?))).collect();
    points.sort_by(|a, b| a.0.total_cmp(&b.0));
    points
}

/// Every figure, for those who want to know exactly.
fn figures(body: &mut String, ladder: &Ladder) {
    *body += "<section><h2>All figures</h2><div class='wide'><table><thead><tr><th>what</th><th>layer</th><th>wire</th><th>size</th><th>time</th><th>p50</th><th>p99</th><th>a second</th><th>× limit</th></tr></thead><tbody>";
    for r in &ladder.records {
        let optional = |value: Option<f64>| value.map_or(String::new(), record::time);
        let speed = match r.bench.as_str() {
            "bandwidth" => r.bytes_per_s.map_or(String::new(), record::bandwidth),
            _ => r.msgs_per_s.map_or(String::new(), record::rate),
        };
        let _ = write!(
            body,
            "<tr{}><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{speed}</td><td>{}</td></tr>",
            if r.noisy { " class='noisy'" } else { "" },
            escape(&r.bench),
            escape(&r.api),
            escape(&r.via),
            record::size(r.bytes),
            record::time(r.mean_ns),
            optional(r.p50_ns),
            optional(r.p99_ns),
            r.ratio.map_or(String::new(), |ratio| format!("{ratio:.2}")),
        );
    }
    *body += "</tbody></table></div><p class='quiet'>Rows in italics varied by more than 20 %, from round to round or for want of a processor.</p></section>";
}

fn short_time(ns: f64) -> String {
    match ns {
        _ if ns < 1e3 => format!("{ns:.0} ns"),
        _ if ns < 1e4 => format!("{:.1} µs", ns / 1e3),
        _ if ns < 1e6 => format!("{:.0} µs", ns / 1e3),
        _ => format!("{:.0} ms", ns / 1e6),
    }
}

fn short_bandwidth(bytes: f64) -> String {
    match bytes {
        _ if bytes < 1e6 => format!("{:.0} KB/s", bytes / 1e3),
        _ if bytes < 1e9 => format!("{:.0} MB/s", bytes / 1e6),
        _ if bytes < 1e10 && bytes % 1e9 > 1e6 => format!("{:.1} GB/s", bytes / 1e9),
        _ => format!("{:.0} GB/s", bytes / 1e9),
    }
}

const METHOD: &str = "<section><h2>Method</h2><p>Two processes, each on a processor of its own. Every round measures everything once, one thing after the other, so that what disturbs the machine disturbs all alike; figures are medians of the rounds, ratios and differences are taken within a round. One way is half of many round trips. The limit of latency is one cache line passed between the two processors, that of bandwidth one copy of the bytes by one processor, both in the same rounds.</p></section>";

const STYLE: &str = "
:root{--ink:#1c2733;--quiet:#5b6773;--paper:#fdfdfb;--card:#fff;--edge:#dfe3e6;--grid:#e6eaec;--base:#b9c3cb;--mark:#0b1520;
--c0:#0a7ea4;--c1:#c4572a;--c2:#4f8a3c;--c3:#8a4fa3;--c4:#b0891a;--c5:#b8346b;--c6:#4a5cc0}
@media (prefers-color-scheme:dark){:root{--ink:#e3e8ec;--quiet:#97a3ad;--paper:#12171c;--card:#1a2128;--edge:#2c353e;--grid:#2a333b;--base:#4b5761;--mark:#fff;
--c0:#3db4dc;--c1:#ee8a5c;--c2:#85c46f;--c3:#c58fe0;--c4:#dfbb4d;--c5:#f07ba8;--c6:#8f9ff5}}
*{box-sizing:border-box}
body{margin:0;background:var(--paper);color:var(--ink);font:16px/1.5 system-ui,-apple-system,'Segoe UI',Roboto,'DejaVu Sans',sans-serif}
main{max-width:1120px;margin:0 auto;padding:1.2rem 1rem 3rem}
h1{font-size:1.6rem;margin:.2rem 0}h2{font-size:1.1rem;margin:0 0 .5rem}
.quiet,figcaption{color:var(--quiet);font-size:.9rem}
section{margin:1.4rem 0}ul{padding-left:1.2rem;margin:.3rem 0}li{margin:.25rem 0}
.charts{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,430px),1fr));gap:1rem}
figure{margin:0;background:var(--card);border:1px solid var(--edge);border-radius:10px;padding:.9rem .8rem}
svg{width:100%;height:auto;display:block}svg text{fill:var(--ink);font-size:11.5px;font-family:inherit}
.grid{stroke:var(--grid)}.line{fill:none;stroke-width:2}.mark{stroke:var(--mark);stroke-width:2}.base{fill:var(--base)}
.s0.line{stroke:var(--c0)}.s0.fill{fill:var(--c0)}.s1.line{stroke:var(--c1)}.s1.fill{fill:var(--c1)}
.s2.line{stroke:var(--c2)}.s2.fill{fill:var(--c2)}.s3.line{stroke:var(--c3)}.s3.fill{fill:var(--c3)}
.s4.line{stroke:var(--c4)}.s4.fill{fill:var(--c4)}.s5.line{stroke:var(--c5)}.s5.fill{fill:var(--c5)}
.s6.line{stroke:var(--c6)}.s6.fill{fill:var(--c6)}
@media (max-width:600px){svg text{font-size:13.5px}}
.wide{overflow-x:auto}table{border-collapse:collapse;font-size:.85rem;white-space:nowrap}
th,td{text-align:right;padding:.2rem .6rem;border-bottom:1px solid var(--edge)}
th:nth-child(-n+3),td:nth-child(-n+3){text-align:left}.noisy td{font-style:italic;color:var(--quiet)}";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::perf::driver::Spec;
    use crate::perf::worker::Answer;

    fn ladder() -> Ladder {
        let mut records = Vec::new();
        for (at, rung) in RUNGS.iter().enumerate() {
            let quantiles =
                ["p1", "p25", "p50", "p75", "p99"].map(|name| (name.to_owned(), 60.0 + at as f64));
            let answer = Answer { each_ns: 60.0 + 10.0 * at as f64, more: quantiles.into() };
            let answers = vec![answer; 5];
            let spec = Spec::new(rung.name, "latency", Via::Shm, 8);
            records
                .push(Record::new("latency", &spec, &answers).beside_limit(&[60.0; 5]).with_spread(&answers));
            for bytes in [8, 4096, 1 << 20] {
                let spec = Spec::new(rung.name, "rate", Via::Shm, bytes);
                records.push(Record::new(
                    "bandwidth",
                    &spec,
                    &vec![Answer::of(20.0 + bytes as f64 / 10.0); 3],
                ));
            }
        }
        Ladder { records, missing: vec![("x".into(), "<script>".into())], seconds: 3.0, cpus: Vec::new() }
    }

    #[test]
    fn the_page_stands_alone_and_has_every_chart() {
        let page = page(&ladder());
        for title in ["The ladder", "Latency", "Bandwidth", "Efficiency", "All figures", "Method"] {
            assert!(page.contains(&format!("<h2>{title}</h2>")), "{title}");
        }
        assert_eq!(page.matches("<svg").count(), 4);
        for elsewhere in ["src=", "href=", "url(", "@import", "<script"] {
            assert!(!page.contains(elsewhere), "{elsewhere} would be fetched or run");
        }
        assert!(page.contains("prefers-color-scheme:dark") && page.contains("name='viewport'"));
        assert!(!page.contains("NaN") && !page.contains("inf"), "every figure is a number");
    }

    #[test]
    fn a_page_of_nothing_is_still_a_page() {
        let empty = Ladder { records: Vec::new(), missing: Vec::new(), seconds: 0.0, cpus: Vec::new() };
        assert!(!page(&empty).contains("NaN"));
    }
}
