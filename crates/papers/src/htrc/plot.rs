//! Plots of a figure as one SVG: panels in two columns, each with lines of its own.

use std::path::Path;

use plotters::prelude::*;
use waxseal_bench::Outcome;

/// The points of one line.
pub(super) type Points = Vec<(f64, f64)>;

/// One panel. Lines with fewer than two points are left out.
pub(super) struct Panel {
    pub(super) title: String,
    pub(super) x: &'static str,
    pub(super) y: &'static str,
    pub(super) lines: Vec<(String, Points)>,
}

const FONT: (&str, u32) = ("sans-serif", 12);
const PANEL: (u32, u32) = (560, 300);

/// Draws the panels into a file. A panel without a line stays empty.
pub(super) fn draw(path: &Path, panels: &[Panel]) -> Outcome<()> {
    let columns = panels.len().clamp(1, 2);
    let rows = panels.len().div_ceil(columns);
    let root = SVGBackend::new(path, (PANEL.0 * columns as u32, PANEL.1 * rows as u32)).into_drawing_area();
    root.fill(&WHITE)?;
    for (area, panel) in root.split_evenly((rows, columns)).iter().zip(panels) {
        let lines: Vec<_> = panel.lines.iter().filter(|(_, points)| points.len() > 1).collect();
        let points = || lines.iter().flat_map(|(_, points)| points);
        let (left, right) = points().fold((f64::MAX, 0f64), |(low, high), at| (low.min(at.0), high.max(at.0)));
        let high = points().fold(0f64, |high, at| high.max(at.1));
        if left >= right {
            continue;
        }
        let mut chart = ChartBuilder::on(area)
            .caption(&panel.title, ("sans-serif", 14))
            .margin(10)
            .x_label_area_size(32)
            .y_label_area_size(56)
            .build_cartesian_2d(left..right, 0.0..(high * 1.1).max(1e-6))?;
        chart.configure_mesh().x_desc(panel.x).y_desc(panel.y).label_style(FONT).axis_desc_style(FONT).draw()?;
        for (place, (name, points)) in lines.iter().enumerate() {
            let color = Palette99::pick(place).to_rgba();
            chart
                .draw_series(LineSeries::new(points.iter().copied(), color.stroke_width(2)))?
                .label(name)
                .legend(move |(x, y)| PathElement::new([(x, y), (x + 15, y)], color.stroke_width(2)));
        }
        if lines.len() > 1 {
            let mut labels = chart.configure_series_labels();
            labels
                .position(SeriesLabelPosition::UpperRight)
                .background_style(WHITE.mix(0.8))
                .label_font(FONT)
                .draw()?;
        }
    }
    root.present()?;
    Ok(())
}

/// Replaces each value by the mean of itself and of two neighbors on each side: the paper's window of five.
pub(super) fn smooth(points: &[(f64, f64)]) -> Points {
    let mean = |at: usize| {
        let window = &points[at.saturating_sub(2)..points.len().min(at + 3)];
        window.iter().map(|point| point.1).sum::<f64>() / window.len() as f64
    };
    (0..points.len()).map(|at| (points[at].0, mean(at))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_smoothed_by_two_neighbors_on_each_side() {
        let points: Points = [0.0, 0.0, 10.0, 0.0, 0.0, 5.0].iter().enumerate().map(|(x, y)| (x as f64, *y)).collect();
        let values: Vec<f64> = smooth(&points).iter().map(|point| point.1).collect();
        assert_eq!(values, [10.0 / 3.0, 2.5, 2.0, 3.0, 3.75, 5.0 / 3.0]);
    }

    #[test]
    fn each_line_is_drawn_and_an_empty_panel_is_not() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("figure.svg");
        let panel = |title: &str, lines| Panel { title: title.to_owned(), x: "s", y: "ms", lines };
        let line = |name: &str| (name.to_owned(), vec![(0.0, 1.0), (1.0, 2.0)]);
        let dot = ("dot".to_owned(), vec![(0.0, 1.0)]);
        draw(&path, &[panel("first", vec![line("read"), line("write")]), panel("second", vec![dot])]).unwrap();
        let text = String::from_utf8(std::fs::read(&path).unwrap()).unwrap();
        assert!(["first", "read", "write"].iter().all(|name| text.contains(name)), "{text}");
        assert!(!text.contains("second"));
    }
}
