//! SVG plots: the gates with their bounds, the reads of the growing store, the long mixed load over time. They show
//! only data of the tables.

use super::asked::net_micros;
use super::suites::growth_prefix;
use super::turns::{Bench, Round};
use crate::Outcome;
use crate::engine::Name;
use crate::gate::Gate;
use crate::stats::median;
use plotters::coord::combinators::LogCoord;
use plotters::coord::ranged1d::ValueFormatter;
use plotters::prelude::*;
use std::path::Path;

/// One line of a plot: its store and its points.
type Line = (Name, Vec<(f64, f64)>);

const FONT: (&str, u32) = ("sans-serif", 12);
const ROW: u32 = 18;

/// Writes all plots that have data.
pub(super) fn draw(dir: &Path, bench: &Bench, rounds: &[Round], gates: &[Gate]) -> Outcome<()> {
    let ratios: Vec<&Gate> = gates.iter().filter(|gate| bars(gate).is_some()).collect();
    if !ratios.is_empty() {
        draw_gates(&dir.join("gates.svg"), &ratios)?;
    }
    for step in ["readrandom", "seekrandom"] {
        let lines: Vec<Line> = peers(bench).map(|name| (name, grown(bench, rounds, name, step))).collect();
        let axes = Axes { title: &format!("{step}, net of the driver"), x: "records", y: "us", is_log: true };
        draw_lines(&dir.join(format!("growth_{step}.svg")), &axes, &lines)?;
    }
    let windows = |name: Name| rounds.iter().find_map(|round| round.windows.get(&name));
    let lines: Vec<Line> = peers(bench)
        .filter_map(|name| {
            let points = windows(name)?.iter().map(|window| (window.until_s, window.p999_us));
            Some((name, points.collect()))
        })
        .collect();
    let axes = Axes { title: "mixed load, p99.9 of each window", x: "seconds", y: "us", is_log: false };
    draw_lines(&dir.join("long_p999.svg"), &axes, &lines)
}

fn peers(bench: &Bench) -> impl Iterator<Item = Name> {
    bench.engines.iter().copied().filter(|name| *name != Name::Null)
}

/// Returns the median over rounds at each size.
fn grown(bench: &Bench, rounds: &[Round], name: Name, step: &str) -> Vec<(f64, f64)> {
    let at = |num: &u64| {
        let label = [format!("{}{step}", growth_prefix(*num))];
        let found: Vec<f64> = rounds.iter().filter_map(|round| net_micros(round, name, &label)).collect();
        (!found.is_empty()).then(|| (*num as f64, median(&found)))
    };
    bench.sizes.growth.iter().filter_map(at).collect()
}

/// Returns lower bound, value and upper bound of a gate that is a ratio.
fn bars(gate: &Gate) -> Option<[f64; 3]> {
    let bars = [gate.ci_low?, gate.value?, gate.ci_high?];
    (gate.unit == "x" && bars.iter().all(|bar| bar.is_finite() && *bar > 0.0)).then_some(bars)
}

fn draw_gates(path: &Path, gates: &[&Gate]) -> Outcome<()> {
    let rows = gates.len();
    let root = SVGBackend::new(path, (900, 80 + ROW * rows as u32)).into_drawing_area();
    root.fill(&WHITE)?;
    let mut chart = ChartBuilder::on(&root)
        .caption("ratios with 95 % bounds; | is what was asked", ("sans-serif", 15))
        .margin(10)
        .x_label_area_size(25)
        .y_label_area_size(230)
        .build_cartesian_2d((0.05..50f64).log_scale(), -0.5..rows as f64 - 0.5)?;
    let id = |at: &f64| gates.get(at.round() as usize).map_or(String::new(), |gate| gate.id.clone());
    chart.configure_mesh().disable_y_mesh().y_labels(rows).y_label_formatter(&id).label_style(FONT).draw()?;
    for (row, gate) in gates.iter().enumerate() {
        let Some(bars) = bars(gate) else { continue };
        let [low, value, high] = bars.map(|bar| bar.clamp(0.05, 50.0));
        let color = match gate.verdict {
            "PASS" => RGBColor(0, 130, 60),
            "FAIL" => RGBColor(190, 30, 30),
            _ => RGBColor(130, 130, 130),
        };
        let y = row as f64;
        let asked = gate.threshold.clamp(0.05, 50.0);
        chart.draw_series([
            PathElement::new(vec![(low, y), (high, y)], color.stroke_width(3)),
            PathElement::new(vec![(asked, y - 0.4), (asked, y + 0.4)], BLACK.stroke_width(1)),
        ])?;
        chart.draw_series([Circle::new((value, y), 4, color.filled())])?;
    }
    root.present()?;
    Ok(())
}

/// The labels around a line plot.
struct Axes<'a> {
    title: &'a str,
    x: &'a str,
    y: &'a str,
    /// True if the x axis is logarithmic.
    is_log: bool,
}

/// A range beyond the axes' limits gives no plot, and neither does a single point.
fn draw_lines(path: &Path, axes: &Axes<'_>, lines: &[Line]) -> Outcome<()> {
    let points = || lines.iter().flat_map(|(_, points)| points);
    let ends = |of: fn(&(f64, f64)) -> f64| {
        points().map(of).fold((f64::INFINITY, 0f64), |(low, high), at| (low.min(at), high.max(at)))
    };
    let ((left, right), (low, high)) = (ends(|point| point.0), ends(|point| point.1));
    if left >= right || low <= 0.0 {
        return Ok(());
    }
    let root = SVGBackend::new(path, (900, 420)).into_drawing_area();
    root.fill(&WHITE)?;
    let mut builder = ChartBuilder::on(&root);
    builder.caption(axes.title, ("sans-serif", 15)).margin(10).x_label_area_size(35).y_label_area_size(60);
    let y = (low / 1.3..high * 1.3).log_scale();
    if axes.is_log {
        series(builder.build_cartesian_2d((left..right).log_scale(), y)?, axes, lines)?;
    } else {
        series(builder.build_cartesian_2d(left..right, y)?, axes, lines)?;
    }
    root.present()?;
    Ok(())
}

type Chart<'a, X> = ChartContext<'a, SVGBackend<'a>, Cartesian2d<X, LogCoord<f64>>>;

fn series<X>(mut chart: Chart<'_, X>, axes: &Axes<'_>, lines: &[Line]) -> Outcome<()>
where
    X: Ranged<ValueType = f64> + ValueFormatter<f64>,
{
    chart.configure_mesh().x_desc(axes.x).y_desc(axes.y).label_style(FONT).axis_desc_style(FONT).draw()?;
    for (place, (name, points)) in lines.iter().enumerate() {
        let color = Palette99::pick(place).to_rgba();
        chart
            .draw_series(LineSeries::new(points.iter().copied(), color.stroke_width(2)))?
            .label(name.text())
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 15, y)], color.stroke_width(2)));
        chart.draw_series(points.iter().map(|point| Circle::new(*point, 2, color.filled())))?;
    }
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::UpperLeft)
        .background_style(WHITE.mix(0.8))
        .label_font(FONT)
        .draw()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::{Interval, Wanted};

    fn text(path: &Path) -> String {
        String::from_utf8_lossy(&std::fs::read(path).expect("drawn")).into_owned()
    }

    #[test]
    fn a_gate_is_drawn_with_its_name_and_one_without_bounds_is_not() {
        let dir = tempfile::tempdir().expect("a directory");
        let gate = |id, interval| Gate::judged(id, "ratio", "x", interval, Wanted::AtLeast, 3.0, 1, 1.0);
        let drawn = gate("fillrandom", Some(Interval { mean: 3.2, low: 3.0, high: 3.4, n: 5 }));
        let endless = gate("space", Some(Interval { mean: 1.0, low: f64::NEG_INFINITY, high: f64::INFINITY, n: 5 }));
        assert!(bars(&gate("nothing", None)).is_none() && bars(&endless).is_none());
        let path = dir.path().join("gates.svg");
        draw_gates(&path, &[&drawn]).expect("drawn");
        assert!(text(&path).contains("fillrandom"));
    }

    #[test]
    fn lines_are_drawn_with_their_names_and_nothing_is_no_plot() {
        let dir = tempfile::tempdir().expect("a directory");
        for is_log in [true, false] {
            let axes = Axes { title: "a title", x: "records", y: "us", is_log };
            let path = dir.path().join("lines.svg");
            let lines = [(Name::Waxseal, vec![(1e4, 0.2), (1e5, 0.4)]), (Name::Fjall, vec![(1e4, 1.2), (1e5, 1.4)])];
            draw_lines(&path, &axes, &lines).expect("drawn");
            let text = text(&path);
            assert!(text.contains("waxseal") && text.contains("fjall") && text.contains("a title"));
            let none = dir.path().join("none.svg");
            for lines in
                [vec![], vec![(Name::Waxseal, vec![(1e4, 0.2)])], vec![(Name::Waxseal, vec![(1.0, 0.0), (2.0, 1.0)])]]
            {
                draw_lines(&none, &axes, &lines).expect("left out");
                assert!(!none.exists());
            }
        }
    }
}
