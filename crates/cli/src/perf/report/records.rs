//! The page of any measurement: a chart for each thing that was measured, and every figure.

use std::fmt::Write;

use super::charts::{self, Axis, Bar, Scale, Series};
use super::{chart, escape, shell, short_bandwidth, short_time};
use crate::perf::record::{self, Record};

/// How many colours the page has.
const COLOURS: usize = 7;

/// The page.
pub fn page(records: &[Record]) -> String {
    let mut body = String::new();
    let rounds = records.iter().map(|record| record.rounds).max().unwrap_or(0);
    let machine = escape(&crate::perf::machine_line());
    let _ = write!(body, "<h1>Barewire on this machine</h1><p class='quiet'>{machine}.");
    let _ = write!(body, " Medians of {rounds} rounds.</p><div class='charts'>");
    let mut benches: Vec<&str> = Vec::new();
    for record in records {
        if !benches.contains(&record.bench.as_str()) {
            benches.push(&record.bench);
        }
    }
    for bench in benches {
        let own: Vec<&Record> = records.iter().filter(|record| record.bench == bench).collect();
        draw(&mut body, bench, &own);
    }
    body += "</div>";
    figures(&mut body, records);
    shell("barewire perf", &body)
}

/// What a measurement is drawn over.
type Over = (&'static str, fn(&Record) -> f64, fn(f64) -> String);

const OVERS: [Over; 2] = [
    ("bytes of a message", |r| r.bytes as f64, |bytes| record::size(bytes.round() as u64)),
    ("ranks", |r| f64::from(r.ranks), |ranks| format!("{ranks:.0}")),
];

/// Curves over whatever was varied; bars if nothing was.
fn draw(body: &mut String, bench: &str, records: &[&Record]) {
    let is_varied = |(_, value, _): &&Over| records.iter().any(|r| value(r) != value(records[0]));
    let speeds = matches!(bench, "bandwidth" | "efficiency" | "posted");
    let what = if speeds { "Bytes a second" } else { "The time of one operation" };
    let svg = match OVERS.iter().find(is_varied) {
        Some(over) => curves(records, over, speeds),
        None => bars(records),
    };
    chart(body, &escape(bench), &format!("{what}."), &svg);
}

/// Whose figure this is: a layer, and what tells its records apart.
fn name(record: &Record, records: &[&Record]) -> String {
    let mut name = record.api.clone();
    if records.iter().any(|other| other.via != record.via) {
        let _ = write!(name, " {}", record.via);
    }
    if record.more.get("registered") == Some(&1.0) {
        name += " mapped";
    }
    name
}

/// A curve for each layer, and for each peer that it is compared with.
fn curves(records: &[&Record], (title, at, write): &Over, speeds: bool) -> String {
    let mut series: Vec<Series> = Vec::new();
    let mut add = |name: String, x: f64, y: Option<f64>| {
        let Some(y) = y else { return };
        let colour = series.len() % COLOURS;
        if !series.iter().any(|one| one.name == name) {
            series.push(Series { name: name.clone(), colour, points: Vec::new() });
        }
        let one = series.iter_mut().find(|one| one.name == name).expect("added above");
        // Beside several peers a layer has the same figure several times.
        if one.points.iter().all(|point| point.0 != x) {
            one.points.push((x, y));
        }
    };
    for r in records {
        let own = if speeds { r.bytes_per_s } else { Some(r.mean_ns) };
        add(name(r, records), at(r), own);
        if let Some(peer) = &r.peer {
            add(peer.clone(), at(r), r.more.get("peer_ns").copied());
        }
    }
    let points = || series.iter().flat_map(|series| series.points.iter().copied());
    let ticks = ticks(points().map(|(x, _)| x).collect());
    let x = Axis { title, scale: Scale::log_tight(points().map(|(x, _)| x)), write: *write, ticks };
    let scale = Scale::log_of(points().map(|(_, y)| y));
    let write = if speeds { short_bandwidth } else { short_time };
    charts::lines(&series, &x, &Axis { title: "", scale, write, ticks: None })
}

/// The values themselves, or some of them if there are many.
fn ticks(mut values: Vec<f64>) -> Option<Vec<f64>> {
    const MOST: usize = 6;
    values.sort_by(f64::total_cmp);
    values.dedup();
    let step = values.len().div_ceil(MOST).max(1);
    Some(values.into_iter().step_by(step).collect())
}

fn bars(records: &[&Record]) -> String {
    let mut bars: Vec<Bar> = Vec::new();
    let mut add = |name: String, ns: f64| {
        if ns.is_finite() && !bars.iter().any(|bar| bar.name == name && bar.added == ns) {
            bars.push(Bar { name, below: 0.0, added: ns, label: record::time(ns) });
        }
    };
    for r in records {
        add(name(r, records), r.mean_ns);
        if let (Some(peer), Some(&ns)) = (&r.peer, r.more.get("peer_ns")) {
            add(peer.clone(), ns);
        }
    }
    charts::bars(&bars, "", short_time)
}

/// Every figure, by the names that docs/perf.md explains.
fn figures(body: &mut String, records: &[Record]) {
    let (columns, rows) = record::grid(records);
    let cells = |tag: &str, words: &[String]| -> String {
        words.iter().map(|word| format!("<{tag}>{}</{tag}>", escape(word))).collect()
    };
    *body += "<section><h2>All figures</h2><div class='wide'><table><thead><tr>";
    *body += &cells("th", &columns);
    *body += "</tr></thead><tbody>";
    for (row, r) in rows.iter().zip(records) {
        let class = if r.noisy { " class='noisy'" } else { "" };
        let _ = write!(body, "<tr{class}>{}</tr>", cells("td", row));
    }
    *body += "</tbody></table></div><p class='quiet'>Times are in nanoseconds. Rows in italics varied by more than 20 %.</p></section>";
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::perf::driver::Spec;
    use crate::perf::options::Via;
    use crate::perf::worker::Answer;

    fn record(bench: &str, api: &str, bytes: usize, ns: f64) -> Record {
        Record::new(bench, &Spec::new(api, "latency", Via::Shm, bytes), &[Answer::of(ns)])
    }

    #[test]
    fn every_bench_has_a_chart_and_every_record_a_row() {
        let mut beside = record("latency", "mpi", 8, 100.0).with("peer_ns", 200.0);
        beside.peer = Some("A <b>".to_owned());
        let mut further = record("latency", "mpi", 64, 110.0).with("peer_ns", 210.0);
        further.peer.clone_from(&beside.peer);
        let one_size = ["am", "fm"].map(|api| record("rate", api, 8, 50.0));
        let records = [vec![beside, further], one_size.to_vec()].concat();
        let page = page(&records);
        assert_eq!(page.matches("<svg").count(), 2);
        assert_eq!(page.matches("<circle").count(), 4, "two sizes of ours and of theirs");
        assert_eq!(page.matches("<tr").count(), 1 + records.len());
        assert!(page.contains("A &lt;b&gt;") && !page.contains("A <b>") && !page.contains("NaN"));
    }

    #[test]
    fn a_page_of_nothing_is_still_a_page() {
        assert!(page(&[]).contains("All figures"));
    }
}
