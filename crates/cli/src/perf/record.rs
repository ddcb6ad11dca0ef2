//! A record: one figure with everything that belongs to it. What `--json` and `--csv` print, what tables and charts are made from.

use std::collections::BTreeMap;

use serde::Serialize;

use super::driver::Spec;
use super::figures::{Estimate, median};
use super::options::Common;
use super::trips::QUANTILES;
use super::worker::{Answer, WAITED};

/// One measured figure. `docs/perf.md` explains the fields; they are stable.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Record {
    pub bench: String,
    pub api: String,
    pub via: String,
    pub bytes: u64,
    pub ranks: u32,
    pub rounds: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub p50_ns: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub p99_ns: Option<f64>,
    pub mean_ns: f64,
    pub low_ns: f64,
    pub high_ns: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub msgs_per_s: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes_per_s: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ratio: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ratio_low: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ratio_high: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub peer: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub verdict: Option<String>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub noisy: bool,
    /// Whatever else a measurement has to say, by name.
    #[serde(flatten)]
    pub more: BTreeMap<String, f64>,
    /// The rounds themselves, for those who make ratios of them.
    #[serde(skip)]
    pub each_ns: Vec<f64>,
}

impl Record {
    /// What the rounds of a measurement say.
    pub fn new(bench: &str, spec: &Spec, answers: &[Answer]) -> Record {
        let each_ns: Vec<f64> = answers.iter().map(|answer| answer.each_ns).collect();
        let without_waits = |answer: &Answer| answer.each_ns * (1.0 - answer.get(WAITED).unwrap_or(0.0));
        let unhindered: Vec<f64> = answers.iter().map(without_waits).collect();
        let estimate = Estimate::of(&each_ns).down_to(&Estimate::of(&unhindered));
        Record {
            bench: bench.to_owned(),
            api: spec.api.clone(),
            via: spec.via.name().to_owned(),
            bytes: spec.bytes as u64,
            ranks: spec.ranks,
            rounds: answers.len() as u32,
            mean_ns: round(estimate.median),
            low_ns: round(estimate.low),
            high_ns: round(estimate.high),
            msgs_per_s: (estimate.median > 0.0).then(|| (1e9 / estimate.median).round()),
            bytes_per_s: (estimate.median > 0.0 && spec.bytes > 0)
                .then(|| (spec.bytes as f64 / estimate.median * 1e9).round()),
            noisy: estimate.is_noisy(),
            each_ns,
            ..Record::default()
        }
    }

    /// Adds the limit, measured in the same rounds, and how far above it this is.
    #[must_use]
    pub fn beside_limit(mut self, limit: &[f64]) -> Record {
        let ratios: Vec<f64> = self.each_ns.iter().zip(limit).map(|(own, limit)| own / limit).collect();
        let ratio = Estimate::of(&ratios);
        self.limit = Some(round(median(limit)));
        self.ratio = Some(round(ratio.median));
        self.ratio_low = Some(round(ratio.low));
        self.ratio_high = Some(round(ratio.high));
        self
    }

    /// Adds the distribution: of each quantile the median of the rounds.
    #[must_use]
    pub fn with_spread(mut self, answers: &[Answer]) -> Record {
        for (_, name) in QUANTILES {
            let values: Vec<f64> = answers.iter().filter_map(|answer| answer.get(name)).collect();
            if values.is_empty() {
                continue;
            }
            match name {
                "p50" => self.p50_ns = Some(round(median(&values))),
                "p99" => self.p99_ns = Some(round(median(&values))),
                _ => drop(self.more.insert(format!("{name}_ns"), round(median(&values)))),
            }
        }
        self
    }

    /// The figure that ratios and differences are made of.
    pub fn typical_ns(&self) -> f64 {
        median(&self.each_ns)
    }

    /// Adds a figure by name.
    #[must_use]
    pub fn with(mut self, name: &str, value: f64) -> Record {
        self.more.insert(name.to_owned(), round(value));
        self
    }

    fn fields(&self) -> serde_json::Map<String, serde_json::Value> {
        match serde_json::to_value(self) {
            Ok(serde_json::Value::Object(fields)) => fields,
            _ => serde_json::Map::new(),
        }
    }
}

/// Three digits after the point: more are noise.
fn round(value: f64) -> f64 {
    (value * 1e3).round() / 1e3
}

/// Prints records as the options say; people get the table that `table` makes.
pub fn print(common: &Common, records: &[Record], table: impl FnOnce(&[Record])) {
    if common.json {
        for record in records {
            println!("{}", serde_json::Value::Object(record.fields()));
        }
    } else if common.csv {
        print!("{}", csv(records));
    } else {
        table(records);
    }
}

/// All records under one head line; what a record does not have stays empty.
fn csv(records: &[Record]) -> String {
    let (columns, rows) = grid(records);
    let line = |row: &Vec<String>| row.join(",") + "\n";
    [&columns].into_iter().chain(&rows).map(line).collect()
}

/// The names of all fields, and a row for each record; what it does not have stays empty. No cell holds a comma.
pub fn grid(records: &[Record]) -> (Vec<String>, Vec<Vec<String>>) {
    let rows: Vec<_> = records.iter().map(Record::fields).collect();
    let mut columns: Vec<&String> = Vec::new();
    for name in rows.iter().flat_map(|row| row.keys()) {
        if !columns.contains(&name) {
            columns.push(name);
        }
    }
    let cell = |row: &serde_json::Map<String, serde_json::Value>, name: &String| match row.get(name) {
        Some(serde_json::Value::String(text)) => text.replace([',', '"', '\n'], " "),
        Some(value) => value.to_string(),
        None => String::new(),
    };
    let cells = rows.iter().map(|row| columns.iter().map(|name| cell(row, name)).collect()).collect();
    (columns.into_iter().cloned().collect(), cells)
}

/// A time for people.
pub fn time(ns: f64) -> String {
    match ns {
        _ if !ns.is_finite() => "-".into(),
        _ if ns < 1e3 => format!("{ns:.1} ns"),
        _ if ns < 1e6 => format!("{:.2} µs", ns / 1e3),
        _ if ns < 1e9 => format!("{:.2} ms", ns / 1e6),
        _ => format!("{:.2} s", ns / 1e9),
    }
}

/// A bandwidth for people.
pub fn bandwidth(bytes_per_s: f64) -> String {
    match bytes_per_s {
        _ if bytes_per_s < 1e6 => format!("{:.1} KB/s", bytes_per_s / 1e3),
        _ if bytes_per_s < 1e9 => format!("{:.1} MB/s", bytes_per_s / 1e6),
        _ => format!("{:.2} GB/s", bytes_per_s / 1e9),
    }
}

/// A rate for people.
pub fn rate(msgs_per_s: f64) -> String {
    match msgs_per_s {
        _ if msgs_per_s < 1e6 => format!("{:.1} K/s", msgs_per_s / 1e3),
        _ => format!("{:.2} M/s", msgs_per_s / 1e6),
    }
}

/// A size for people.
pub fn size(bytes: u64) -> String {
    match bytes {
        _ if bytes >= 1 << 20 && bytes % (1 << 20) == 0 => format!("{} MiB", bytes >> 20),
        _ if bytes >= 1 << 10 && bytes % (1 << 10) == 0 => format!("{} KiB", bytes >> 10),
        _ => format!("{bytes} B"),
    }
}

/// The table that fits most measurements.
pub fn usual_table(records: &[Record]) {
    let mut bench = "";
    for record in records {
        if record.bench != bench {
            bench = &record.bench;
            println!("{bench}");
        }
        let figure = match (record.bench.as_str(), record.bytes_per_s) {
            ("bandwidth" | "posted" | "cpu", Some(bytes)) => bandwidth(bytes),
            ("rate", _) => rate(record.msgs_per_s.unwrap_or(f64::NAN)),
            _ => time(record.mean_ns),
        };
        let spread = match (record.p50_ns, record.p99_ns) {
            (Some(p50), Some(p99)) => format!("  p50 {:>9}  p99 {:>9}", time(p50), time(p99)),
            _ => String::new(),
        };
        let limit = record.ratio.map_or(String::new(), |ratio| format!("  {ratio:6.2} x the limit"));
        let more: String = record
            .more
            .iter()
            .filter(|(name, _)| !is_quantile(name))
            .map(|(name, value)| format!("  {name} {value}"))
            .collect();
        let ranks = if record.ranks == 2 { String::new() } else { format!("  {:>2} ranks", record.ranks) };
        let noisy = if record.noisy { "  noisy" } else { "" };
        println!(
            "  {:<8} {:>8}{ranks}  {figure:>11}{spread}{limit}{more}{noisy}",
            record.api,
            size(record.bytes)
        );
    }
    warn_of_noise(records);
}

/// Says so if the machine was not quiet.
pub fn warn_of_noise(records: &[Record]) {
    let noisy = records.iter().filter(|record| record.noisy).count();
    if noisy > 0 {
        println!("{}", noise(noisy, records.len()));
    }
}

/// What is said about figures that vary from round to round.
pub fn noise(noisy: usize, all: usize) -> String {
    format!(
        "{noisy} of {all} figures varied by more than 20 %, from round to round or for want of a processor: something else runs here, so believe the ratios more than the times"
    )
}

fn is_quantile(name: &str) -> bool {
    QUANTILES.iter().any(|(_, quantile)| name.strip_suffix("_ns") == Some(quantile))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::perf::options::Via;

    fn record(rounds: &[f64]) -> Record {
        let spec = Spec::new("am", "latency", Via::Shm, 8);
        let answers: Vec<Answer> = rounds.iter().map(|&ns| Answer::of(ns)).collect();
        Record::new("latency", &spec, &answers)
    }

    #[test]
    fn ratios_are_taken_round_by_round() {
        // Everything slows down together, as on a machine that somebody else uses: the ratio does not care.
        let record = record(&[100.0, 200.0, 400.0]).beside_limit(&[50.0, 100.0, 200.0]);
        assert_eq!((record.ratio, record.ratio_low, record.ratio_high), (Some(2.0), Some(2.0), Some(2.0)));
        assert_eq!(record.limit, Some(100.0));
        assert!(record.noisy, "and it is said that the rounds varied");
    }

    #[test]
    fn calm_rounds_are_not_called_noisy() {
        assert!(!record(&[100.0, 101.0, 99.5, 100.2, 100.1]).noisy);
    }

    #[test]
    fn rounds_that_all_waited_for_a_processor_are_not_steady() {
        let spec = Spec::new("am", "latency", Via::Shm, 8);
        let waited = |part| Answer { each_ns: 100.0, more: vec![(WAITED.to_owned(), part)] };
        let record = |part| Record::new("latency", &spec, &vec![waited(part); 9]);
        assert!(!record(0.01).noisy && record(0.5).noisy);
        assert_eq!((record(0.5).low_ns, record(0.5).mean_ns, record(0.5).high_ns), (50.0, 100.0, 100.0));
    }

    #[test]
    fn comma_separated_values_have_every_field_of_every_record() {
        let text = csv(&[record(&[100.0]), record(&[50.0]).with("delta_ns", 5.0)]);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 3);
        let columns = lines[0].split(',').count();
        assert!(lines[0].contains("delta_ns") && lines.iter().all(|line| line.split(',').count() == columns));
    }

    #[test]
    fn figures_are_shown_in_fitting_units() {
        assert_eq!((time(61.25).as_str(), time(2500.0).as_str()), ("61.2 ns", "2.50 µs"));
        assert_eq!(
            (size(8).as_str(), size(65536).as_str(), size(1 << 20).as_str()),
            ("8 B", "64 KiB", "1 MiB")
        );
        assert_eq!(bandwidth(2.5e9), "2.50 GB/s");
    }
}
