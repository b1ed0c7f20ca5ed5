//! Curves as a picture, in SVG, by the crate `plotters`.

use std::error::Error;
use std::io::Write;
use std::path::Path;

use plotters::coord::Shift;
use plotters::prelude::*;

use super::Row;
use super::panels::{Panel, panels};
use crate::error::Result;
use crate::io::{InFile, atomic};

/// Width of the picture, and height of one panel of several and of a single one, in pixels of the
/// picture's own coordinates. SVG scales to any size.
const WIDTH: u32 = 960;
const HEIGHTS: (u32, u32) = (320, 540);
/// The height above each panel, for its legend.
const LEGEND: u32 = 44;
/// Sizes of texts, in pixels; legible when a page shows the picture at half its width.
const TEXT: u32 = 17;
const GREY: RGBColor = RGBColor(0xe4, 0xe7, 0xeb);
const INK: RGBColor = RGBColor(0x52, 0x60, 0x6d);
/// Colors that people who see few colors can tell apart (Okabe and Ito 2008).
const COLORS: [RGBColor; 6] = [
    RGBColor(0x00, 0x72, 0xb2),
    RGBColor(0xd5, 0x5e, 0x00),
    RGBColor(0x00, 0x9e, 0x73),
    RGBColor(0xcc, 0x79, 0xa7),
    RGBColor(0xe6, 0x9f, 0x00),
    RGBColor(0x56, 0xb4, 0xe9),
];

/// Writes the picture, unless there is no point to draw.
#[track_caller]
pub(super) fn save(path: &Path, curves: &[String], rows: &[Row]) -> Result<()> {
    let panels = panels(curves, rows);
    if panels.is_empty() {
        return Ok(());
    }
    let svg = draw(curves, rows, &panels).in_file(path)?;
    atomic::write(path, |file| file.write_all(svg.as_bytes()))
}

/// The picture as text: a panel below the other, each with its own axis of values and a legend
/// above it, where no curve can be. A value that is not finite is left out, and the line goes on to
/// the next one.
fn draw(
    curves: &[String],
    rows: &[Row],
    panels: &[Panel],
) -> std::result::Result<String, Box<dyn Error>> {
    let mut svg = String::new();
    let height = if panels.len() == 1 { HEIGHTS.1 } else { HEIGHTS.0 * panels.len() as u32 };
    {
        let area = SVGBackend::with_string(&mut svg, (WIDTH, height)).into_drawing_area();
        area.fill(&WHITE)?;
        for (part, panel) in area.split_evenly((panels.len(), 1)).iter().zip(panels) {
            draw_panel(part, curves, rows, panel)?;
        }
        area.present()?;
    }
    Ok(svg)
}

fn draw_panel(
    area: &DrawingArea<SVGBackend<'_>, Shift>,
    curves: &[String],
    rows: &[Row],
    panel: &Panel,
) -> std::result::Result<(), Box<dyn Error>> {
    let Panel { low, high, .. } = *panel;
    let step = |row: Option<&Row>| row.and_then(|row| row.first()).copied().unwrap_or(0.0);
    let (first, last) = (step(rows.first()), step(rows.last()));
    // A single point, or values all alike, still need room.
    let size = high.abs().max(low.abs());
    let margin = ((high - low) * 0.05).max(if size > 0.0 { size * 1e-3 } else { 1e-3 });
    let (head, plot) = area.split_vertically(LEGEND);
    draw_legend(&head, curves, rows, panel)?;
    let mut chart = ChartBuilder::on(&plot)
        .margin(8)
        .margin_right(28)
        .x_label_area_size(48)
        .y_label_area_size(84)
        .build_cartesian_2d(first..last.max(first + 1.0), low - margin..high + margin)?;
    let whole = |step: &f64| format!("{step}");
    let text = ("sans-serif", TEXT).into_font().color(&INK);
    chart
        .configure_mesh()
        .x_desc("step")
        .x_label_formatter(&whole)
        .label_style(text.clone())
        .axis_desc_style(text)
        .axis_style(INK)
        .bold_line_style(GREY)
        .light_line_style(WHITE)
        .draw()?;
    for &i in &panel.curves {
        let points = rows.iter().filter_map(|row| Some((*row.first()?, *row.get(i + 1)?)));
        let points = points.filter(|(_, value)| value.is_finite());
        chart.draw_series(LineSeries::new(points, color(i).stroke_width(3)))?;
    }
    Ok(())
}

/// The color of a curve, by its number.
fn color(curve: usize) -> RGBColor {
    COLORS[curve % COLORS.len()]
}

/// A line of the names of a panel's curves, each with its color and its last value.
fn draw_legend(
    area: &DrawingArea<SVGBackend<'_>, Shift>,
    curves: &[String],
    rows: &[Row],
    panel: &Panel,
) -> std::result::Result<(), Box<dyn Error>> {
    let style = ("sans-serif", TEXT).into_font().color(&INK);
    let (mut x, y) = (92, 26);
    for &i in &panel.curves {
        let last = rows.iter().rev().filter_map(|row| row.get(i + 1)).find(|v| v.is_finite());
        let value = last.map_or(String::new(), |value| format!(" {value:.4}"));
        let text = format!("{}{value}", curves.get(i).map_or("", String::as_str));
        area.draw(&PathElement::new([(x, y), (x + 24, y)], color(i).stroke_width(4)))?;
        area.draw(&Text::new(text.clone(), (x + 32, y - 7), style.clone()))?;
        // Texts of this size are about nine pixels wide for each character.
        x += 32 + 28 + 9 * text.chars().count() as i32;
    }
    Ok(())
}
