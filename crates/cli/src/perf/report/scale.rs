//! The page of `perf scale`: what an end costs, by how much is under way.

use std::fmt::Write;

use super::charts::{self, Axis, Scale, Series};
use super::{chart, escape, shell, short_time};
use crate::perf::record::Record;

/// The page.
pub fn page(records: &[Record]) -> String {
    let mut body = String::new();
    let machine = escape(&crate::perf::machine_line());
    let _ = write!(body, "<h1>An end, by how much is under way</h1><p class='quiet'>{machine}.</p>");
    body += "<div class='charts'>";
    let ends = "The time of BMI's testcontext for each operation that it tells, with so many posted; ten end at a time.";
    chart(&mut body, "Operations posted", ends, &curves(records, "posted", "operations posted"));
    let queue =
        "One way of a message through one of so many VIs in turn, taken from the queue that they share.";
    chart(&mut body, "One completion queue", queue, &curves(records, "vis", "virtual interfaces"));
    body += "</div>";
    shell("barewire perf scale", &body)
}

/// A curve for each wire, over one of the records' figures.
fn curves(records: &[Record], over: &str, title: &'static str) -> String {
    let series: Vec<Series> = ["shm", "tcp"]
        .into_iter()
        .enumerate()
        .map(|(colour, wire)| {
            let point = |r: &Record| Some((*r.more.get(over)?, r.mean_ns));
            let points = records.iter().filter(|r| r.via == wire).filter_map(point).collect();
            Series { name: wire.to_owned(), colour, points }
        })
        .filter(|series| !series.points.is_empty())
        .collect();
    let points = || series.iter().flat_map(|series| series.points.iter().copied());
    let write = |count: f64| format!("{count:.0}");
    let x = Axis { title, scale: Scale::log_of(points().map(|(count, _)| count)), write, ticks: None };
    let y =
        Axis { title: "", scale: Scale::log_of(points().map(|(_, ns)| ns)), write: short_time, ticks: None };
    charts::lines(&series, &x, &y)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::perf::driver::Spec;
    use crate::perf::options::Via;
    use crate::perf::worker::Answer;

    #[test]
    fn both_charts_have_every_point() {
        let one = |over: &str, count: f64| {
            let spec = Spec::new("bmi", "testcontext", Via::Shm, 8);
            Record::new("testcontext", &spec, &[Answer::of(100.0)]).with(over, count)
        };
        let page = page(&[one("posted", 10.0), one("posted", 10_000.0), one("vis", 1.0), one("vis", 1000.0)]);
        assert_eq!((page.matches("<svg").count(), page.matches("<circle").count()), (2, 4));
        assert!(!page.contains("NaN"));
    }
}
