//! Images as a picture in SVG: rows of images, one row for each epoch that is shown.

use super::data::PIXELS;
use std::fmt::Write as _;

/// Pixels of an image in a row, and their size in the picture.
const SIDE: usize = 8;
const PIXEL: usize = 10;
/// The distance between images, and from the border.
const GAP: usize = 14;
const MARGIN: usize = 24;
/// The column of the epochs, and the line of the title.
const LEFT: usize = 112;
const TOP: usize = 56;

/// The picture of rows: the epoch, and the darkness of each pixel of each image, from 0 to 1.
pub fn draw(rows: &[(u32, Vec<f32>)]) -> String {
    let step = SIDE * PIXEL + GAP;
    let n = rows.iter().map(|(_, pixels)| pixels.len() / PIXELS).max().unwrap_or(0);
    let (width, height) = (LEFT + n * step - GAP + MARGIN, TOP + rows.len() * step - GAP + MARGIN);
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" \
         width=\"{width}\" height=\"{height}\">\n\
         <style>text{{font:13px Inter,'Helvetica Neue',Arial,'DejaVu Sans',sans-serif;\
         fill:#52606d}}.t{{font-size:17px;font-weight:600;fill:#1f2933}}</style>\n\
         <rect width=\"100%\" height=\"100%\" rx=\"8\" fill=\"#fff\"/>\n\
         <text class=\"t\" x=\"{MARGIN}\" y=\"36\">Digits drawn from the same random codes while \
         the network learns</text>\n"
    );
    for (row, (epoch, pixels)) in rows.iter().enumerate() {
        let y = TOP + row * step;
        // Writing to a String cannot fail.
        let _ = writeln!(
            out,
            "<text x=\"{MARGIN}\" y=\"{}\">epoch {epoch}</text>",
            y + SIDE * PIXEL / 2 + 5
        );
        for (column, image) in pixels.chunks_exact(PIXELS).enumerate() {
            draw_image(&mut out, image, (LEFT + column * step, y));
        }
    }
    out.push_str("</svg>\n");
    out
}

/// Draws the pixels of an image, dark on light; neighbours of one shade are one rectangle.
fn draw_image(out: &mut String, image: &[f32], (left, top): (usize, usize)) {
    let side = SIDE * PIXEL;
    let _ = writeln!(
        out,
        "<g shape-rendering=\"crispEdges\" transform=\"translate({left} {top})\">\
         <rect width=\"{side}\" height=\"{side}\" fill=\"#eef2f6\"/>"
    );
    for (y, line) in image.chunks_exact(SIDE).enumerate() {
        let shades: Vec<usize> = line.iter().map(|&darkness| shade(darkness)).collect();
        let mut x = 0;
        for same in shades.chunk_by(|a, b| a == b) {
            if let Some(&level) = same.first().filter(|&&level| level > 0) {
                let _ = write!(
                    out,
                    "<path d=\"M{} {}h{}v{PIXEL}H{}z\" fill=\"{}\"/>",
                    x * PIXEL,
                    y * PIXEL,
                    same.len() * PIXEL,
                    x * PIXEL,
                    color(level)
                );
            }
            x += same.len();
        }
    }
    out.push_str("</g>\n");
}

/// The levels of darkness, of which 0 is the background.
const LEVELS: usize = 16;

fn shade(darkness: f32) -> usize {
    (darkness.clamp(0.0, 1.0) * (LEVELS - 1) as f32).round() as usize
}

/// A color between those of the background and of ink.
fn color(level: usize) -> String {
    let [light, dark] = [[0xee, 0xf2, 0xf6], [0x12, 0x2b, 0x4a]];
    let mix = |k: usize| light[k] + (dark[k] - light[k]) * level as i32 / (LEVELS - 1) as i32;
    format!("#{:02x}{:02x}{:02x}", mix(0), mix(1), mix(2))
}
