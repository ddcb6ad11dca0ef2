//! Charts as SVG: narrow enough for a phone, with colours that the page sets for light and dark.

use std::fmt::Write;

/// Width of every chart in its own units; the page scales it.
const WIDTH: f64 = 440.0;
const LEFT: f64 = 58.0;
/// The same for curves, whose axis has longer words.
const LEFT_OF_CURVES: f64 = 80.0;
const RIGHT: f64 = 24.0;
const TOP: f64 = 12.0;
const BOTTOM: f64 = 40.0;

/// A named curve. The same colour means the same in every chart.
pub struct Series {
    pub name: String,
    pub colour: usize,
    pub points: Vec<(f64, f64)>,
}

/// How an axis turns values into places.
#[derive(Clone, Copy)]
pub enum Scale {
    Linear { from: f64, to: f64 },
    Log { from: f64, to: f64 },
}

impl Scale {
    /// A logarithmic scale that holds all of the values, with whole powers of ten at its ends.
    pub fn log_of(values: impl Iterator<Item = f64>) -> Scale {
        let (from, to) = ends(values);
        Scale::Log { from: 10f64.powf(from.log10().floor()), to: 10f64.powf(to.log10().ceil()) }
    }

    /// A logarithmic scale that ends where the values end.
    pub fn log_tight(values: impl Iterator<Item = f64>) -> Scale {
        let (from, to) = ends(values);
        Scale::Log { from: from * 0.8, to: to * 1.25 }
    }

    /// A value's place between 0 and 1.
    fn place(self, value: f64) -> f64 {
        match self {
            Scale::Linear { from, to } => (value - from) / (to - from),
            Scale::Log { from, to } => (value.max(1e-9) / from).ln() / (to / from).ln(),
        }
        .clamp(0.0, 1.0)
    }

    /// Where lines are drawn: at powers of ten, at one, two and five times those if they are few, or at round numbers.
    fn ticks(self) -> Vec<f64> {
        match self {
            Scale::Linear { from, to } => {
                let power = 10f64.powf(((to - from) / 5.0).log10().floor());
                let step = [1.0, 2.0, 2.5, 5.0, 10.0]
                    .map(|n| n * power)
                    .into_iter()
                    .find(|s| (to - from) / s <= 6.0);
                let step = step.unwrap_or(to - from);
                let most = ((to - from) / step + 1e-6) as u32;
                (0..=most).map(|n| from + step * f64::from(n)).collect()
            }
            Scale::Log { from, to } => {
                let powers = from.log10().floor() as i32..=to.log10().ceil() as i32;
                let steps: &[f64] = if to / from < 1e3 { &[1.0, 2.0, 5.0] } else { &[1.0] };
                let all = powers.flat_map(|power| steps.iter().map(move |step| step * 10f64.powi(power)));
                all.filter(|tick| (from * 0.999..=to * 1.001).contains(tick)).collect()
            }
        }
    }
}

fn ends(values: impl Iterator<Item = f64>) -> (f64, f64) {
    let (mut from, mut to) = (f64::INFINITY, 0.0f64);
    for value in values.filter(|value| value.is_finite() && *value > 0.0) {
        (from, to) = (from.min(value), to.max(value));
    }
    if from.is_finite() { (from, to.max(from * 1.01)) } else { (1.0, 10.0) }
}

/// What is written at an axis, and how its values are written.
pub struct Axis {
    pub title: &'static str,
    pub scale: Scale,
    pub write: fn(f64) -> String,
    /// Values that get a line instead of the scale's own choice.
    pub ticks: Option<Vec<f64>>,
}

/// Curves over a common axis, with a legend above.
pub fn lines(series: &[Series], x: &Axis, y: &Axis) -> String {
    let left = LEFT_OF_CURVES;
    let rows = series.len().div_ceil(4) as f64;
    let (top, height) = (TOP + rows * 20.0, 270.0 + rows * 20.0);
    let across = |value: f64| left + x.scale.place(value) * (WIDTH - left - RIGHT);
    let up = |value: f64| height - BOTTOM - y.scale.place(value) * (height - BOTTOM - top);
    let mut svg = open(height);
    for tick in y.ticks.clone().unwrap_or_else(|| y.scale.ticks()) {
        let at = up(tick);
        write_line(&mut svg, "grid", (left, at), (WIDTH - RIGHT, at));
        write_text(&mut svg, "end", (left - 6.0, at + 4.0), &(y.write)(tick));
    }
    for tick in x.ticks.clone().unwrap_or_else(|| x.scale.ticks()) {
        let at = across(tick);
        write_line(&mut svg, "grid", (at, top), (at, height - BOTTOM));
        write_text(&mut svg, "middle", (at, height - BOTTOM + 18.0), &(x.write)(tick));
    }
    write_text(&mut svg, "middle", ((left + WIDTH - RIGHT) / 2.0, height - 6.0), x.title);
    for (at, one) in series.iter().enumerate() {
        let colour = one.colour;
        let place = (left + (at % 4) as f64 * 86.0, TOP + 4.0 + (at / 4) as f64 * 20.0);
        let _ = write!(
            svg,
            "<rect class='s{colour} fill' x='{:.0}' y='{:.0}' width='12' height='4' rx='2'/>",
            place.0,
            place.1 - 2.0
        );
        write_text(&mut svg, "start", (place.0 + 17.0, place.1 + 4.0), &one.name);
        let path: Vec<String> =
            one.points.iter().map(|&(x, y)| format!("{:.1},{:.1}", across(x), up(y))).collect();
        let _ = write!(svg, "<polyline class='s{colour} line' points='{}'/>", path.join(" "));
        for &(vx, vy) in &one.points {
            let _ = write!(
                svg,
                "<circle class='s{colour} fill' cx='{:.1}' cy='{:.1}' r='2.6'><title>{}: {} at {}</title></circle>",
                across(vx),
                up(vy),
                escape(&one.name),
                escape(&(y.write)(vy)),
                escape(&(x.write)(vx))
            );
        }
    }
    svg + "</svg>"
}

/// A distribution: its quantiles, from one per cent to 99.9.
pub struct Spread {
    pub name: String,
    pub p1: f64,
    pub p25: f64,
    pub p50: f64,
    pub p75: f64,
    pub p99: f64,
}

/// Distributions above each other: a line from 1 % to 99 %, a bar for the middle half, a mark at the median.
pub fn spreads(spreads: &[Spread], title: &str, write: fn(f64) -> String) -> String {
    let step = 24.0;
    let height = TOP + spreads.len() as f64 * step + BOTTOM;
    let scale = Scale::log_tight(spreads.iter().flat_map(|s| [s.p1.max(1.0), s.p99]));
    let across = |value: f64| LEFT + 10.0 + scale.place(value) * (WIDTH - LEFT - RIGHT - 66.0);
    let mut svg = open(height);
    for tick in sparse(scale.ticks(), 5) {
        let at = across(tick);
        write_line(&mut svg, "grid", (at, TOP), (at, height - BOTTOM));
        write_text(&mut svg, "middle", (at, height - BOTTOM + 15.0), &write(tick));
    }
    for (at, s) in spreads.iter().enumerate() {
        let middle = TOP + (at as f64 + 0.5) * step;
        write_text(&mut svg, "end", (LEFT + 2.0, middle + 4.0), &s.name);
        write_line(&mut svg, "s0 line", (across(s.p1), middle), (across(s.p99), middle));
        let (left, right) = (across(s.p25), across(s.p75));
        let _ = write!(
            svg,
            "<rect class='s0 fill' x='{left:.1}' y='{:.1}' width='{:.1}' height='12' rx='2'><title>{}: 1 % {}, half {}, 99 % {}</title></rect>",
            middle - 6.0,
            (right - left).max(1.5),
            escape(&s.name),
            write(s.p1),
            write(s.p50),
            write(s.p99)
        );
        let median = across(s.p50);
        write_line(&mut svg, "mark", (median, middle - 8.0), (median, middle + 8.0));
        write_text(&mut svg, "end", (WIDTH - 2.0, middle + 4.0), &write(s.p50));
    }
    write_text(&mut svg, "middle", ((LEFT + WIDTH) / 2.0, height - 6.0), title);
    svg + "</svg>"
}

/// A bar: what stands below it, and what it adds.
pub struct Bar {
    pub name: String,
    pub below: f64,
    pub added: f64,
    pub label: String,
}

/// Bars above each other, the part that a rung adds in another colour.
pub fn bars(bars: &[Bar], title: &str, write: fn(f64) -> String) -> String {
    let step = 27.0;
    let height = TOP + bars.len() as f64 * step + BOTTOM;
    let most = bars.iter().map(|bar| bar.below + bar.added.max(0.0)).fold(1.0, f64::max);
    let scale = Scale::Linear { from: 0.0, to: most };
    let room = WIDTH - LEFT - RIGHT - 104.0;
    let mut svg = open(height);
    for tick in scale.ticks() {
        let at = LEFT + 8.0 + scale.place(tick) * room;
        write_line(&mut svg, "grid", (at, TOP), (at, height - BOTTOM));
        write_text(&mut svg, "middle", (at, height - BOTTOM + 15.0), &write(tick));
    }
    for (at, bar) in bars.iter().enumerate() {
        let top = TOP + at as f64 * step + 5.0;
        let (left, below) = (LEFT + 8.0, scale.place(bar.below + bar.added.min(0.0)) * room);
        let added = scale.place(bar.added.max(0.0)) * room;
        write_text(&mut svg, "end", (LEFT + 2.0, top + 13.0), &bar.name);
        let _ = write!(
            svg,
            "<rect class='base' x='{left:.1}' y='{top:.1}' width='{below:.1}' height='17'/><rect class='s0 fill' x='{:.1}' y='{top:.1}' width='{added:.1}' height='17'><title>{}: {}</title></rect>",
            left + below,
            escape(&bar.name),
            escape(&bar.label)
        );
        write_text(&mut svg, "start", (left + below + added + 6.0, top + 13.0), &bar.label);
    }
    write_text(&mut svg, "middle", ((LEFT + WIDTH) / 2.0, height - 6.0), title);
    svg + "</svg>"
}

/// At most `most` of the ticks, evenly chosen.
fn sparse(ticks: Vec<f64>, most: usize) -> Vec<f64> {
    let step = ticks.len().div_ceil(most).max(1);
    ticks.into_iter().step_by(step).collect()
}

fn open(height: f64) -> String {
    format!("<svg viewBox='0 0 {WIDTH:.0} {height:.0}' role='img' xmlns='http://www.w3.org/2000/svg'>")
}

fn write_line(svg: &mut String, class: &str, from: (f64, f64), to: (f64, f64)) {
    let ((x1, y1), (x2, y2)) = (from, to);
    let _ = write!(svg, "<line class='{class}' x1='{x1:.1}' y1='{y1:.1}' x2='{x2:.1}' y2='{y2:.1}'/>");
}

fn write_text(svg: &mut String, anchor: &str, at: (f64, f64), text: &str) {
    let _ =
        write!(svg, "<text text-anchor='{anchor}' x='{:.1}' y='{:.1}'>{}</text>", at.0, at.1, escape(text));
}

/// Text that cannot be taken for markup.
pub fn escape(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('\'', "&#39;")
        .replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(svg: &str) -> Vec<f64> {
        let parts = svg.split(['\'', ' ', ',']);
        parts.filter_map(|part| part.parse().ok()).collect()
    }

    #[test]
    fn every_point_lies_on_the_chart() {
        let points = vec![(8.0, 1e6), (4096.0, 3e9), (1e6, 1.5e10)];
        let series = [Series { name: "a<b".into(), colour: 0, points }];
        let write = |value: f64| format!("{value:.0}");
        let axis = |title, values: [f64; 2]| Axis {
            title,
            scale: Scale::log_of(values.into_iter()),
            write,
            ticks: None,
        };
        let svg = lines(&series, &axis("bytes", [8.0, 1e6]), &axis("speed", [1e6, 1.5e10]));
        assert!(svg.contains("a&lt;b") && !svg.contains("a<b"), "names are not markup");
        assert!(numbers(&svg).iter().all(|n| (0.0..=WIDTH).contains(n) || *n > 1e5), "{svg}");
        assert_eq!(svg.matches("<circle").count(), 3);
    }

    #[test]
    fn a_chart_of_nothing_is_still_a_chart() {
        let svg = spreads(&[], "ns", |value| value.to_string());
        assert!(svg.starts_with("<svg") && svg.ends_with("</svg>") && !svg.contains("NaN"));
        assert!(!bars(&[], "ns", |value| value.to_string()).contains("NaN"));
    }
}
