//! Curves as a picture, in SVG, by the crate `plotters`.

use std::error::Error;
use std::io::Write;
use std::path::Path;

use plotters::prelude::*;

use super::Row;
use super::chart::bounds;
use crate::error::Result;
use crate::io::{InFile, atomic};

/// Width and height in pixels of the picture's own coordinates; SVG scales to any size.
const SIZE: (u32, u32) = (960, 540);

/// Writes the picture, unless there is no point to draw.
#[track_caller]
pub(super) fn save(path: &Path, curves: &[String], rows: &[Row]) -> Result<()> {
    let Some(bounds) = bounds(rows) else { return Ok(()) };
    let svg = draw(curves, rows, bounds).in_file(path)?;
    atomic::write(path, |file| file.write_all(svg.as_bytes()))
}

/// The picture as text: one line for each curve, in the order of the table, and a legend. A value
/// that is not finite is left out, and the line goes on to the next one.
fn draw(
    curves: &[String],
    rows: &[Row],
    (low, high): (f64, f64),
) -> std::result::Result<String, Box<dyn Error>> {
    let mut svg = String::new();
    {
        let area = SVGBackend::with_string(&mut svg, SIZE).into_drawing_area();
        area.fill(&WHITE)?;
        let step = |row: Option<&Row>| row.and_then(|row| row.first()).copied().unwrap_or(0.0);
        let (first, last) = (step(rows.first()), step(rows.last()));
        // A single point, or values all alike, still need room.
        let margin = ((high - low) * 0.05).max(high.abs().max(1.0) * 1e-3);
        let mut chart = ChartBuilder::on(&area)
            .margin(16)
            .x_label_area_size(36)
            .y_label_area_size(64)
            .build_cartesian_2d(first..last.max(first + 1.0), low - margin..high + margin)?;
        let whole = |step: &f64| format!("{step}");
        chart
            .configure_mesh()
            .x_desc("step")
            .x_label_formatter(&whole)
            .light_line_style(WHITE)
            .draw()?;
        for (i, curve) in curves.iter().enumerate() {
            let color = Palette99::pick(i).to_rgba();
            let points = rows.iter().filter_map(|row| Some((*row.first()?, *row.get(i + 1)?)));
            let points = points.filter(|(_, value)| value.is_finite());
            chart
                .draw_series(LineSeries::new(points, color.stroke_width(2)))?
                .label(curve.as_str())
                .legend(move |(x, y)| {
                    PathElement::new([(x, y), (x + 18, y)], color.stroke_width(2))
                });
        }
        chart.configure_series_labels().background_style(WHITE).border_style(BLACK).draw()?;
        area.present()?;
    }
    Ok(svg)
}
