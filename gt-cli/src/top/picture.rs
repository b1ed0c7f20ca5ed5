//! A screen of `gt-cli top` as a picture in SVG, for documents.

use crate::visualize::escaped;
use ratatui::buffer::{Buffer, Cell};
use ratatui::style::{Color, Modifier};
use std::fmt::Write as _;

/// The size of a character, and the space around the screen.
const CELL: (f64, f64) = (7.8, 17.0);
const AROUND: f64 = 16.0;
const PAPER: &str = "#11161d";
const INK: &str = "#d5dbe3";

/// The picture. Writing to a `String` cannot fail.
pub(super) fn svg(buffer: &Buffer, n_lines: usize) -> String {
    let n_columns = usize::from(buffer.area.width);
    let (width, height) =
        (n_columns as f64 * CELL.0 + 2.0 * AROUND, n_lines as f64 * CELL.1 + 2.0 * AROUND);
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width:.0} {height:.0}\" \
         width=\"{width:.0}\" height=\"{height:.0}\">\n<style>text{{font:13px 'DejaVu Sans Mono',\
         Menlo,Consolas,monospace;white-space:pre}}</style>\n\
         <rect width=\"100%\" height=\"100%\" rx=\"10\" fill=\"{PAPER}\"/>\n"
    );
    for (n, line) in buffer.content().chunks(n_columns).take(n_lines).enumerate() {
        let y = AROUND + n as f64 * CELL.1;
        let mut column = 0;
        for run in line.chunk_by(|a, b| look(a) == look(b)) {
            draw(&mut out, run, AROUND + column as f64 * CELL.0, y);
            column += run.len();
        }
    }
    out.push_str("</svg>\n");
    out
}

/// What cells have in common that are drawn together. Spaces are apart, because fonts differ.
fn look(cell: &Cell) -> (Color, Color, Modifier, bool) {
    (cell.fg, cell.bg, cell.modifier, cell.symbol() == " ")
}

/// Cells of one look, from a place on.
fn draw(out: &mut String, run: &[Cell], x: f64, y: f64) {
    let Some(first) = run.first() else { return };
    let (ink, paper) = (color(first.fg).unwrap_or(INK), color(first.bg));
    let (ink, paper) = match first.modifier.contains(Modifier::REVERSED) {
        true => (paper.unwrap_or(PAPER), Some(ink)),
        false => (ink, paper),
    };
    let width = run.len() as f64 * CELL.0;
    if let Some(paper) = paper {
        let height = CELL.1;
        let _ = writeln!(
            out,
            "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{height}\" \
             fill=\"{paper}\"/>"
        );
    }
    let text: String = run.iter().map(Cell::symbol).collect();
    if text.trim().is_empty() {
        return;
    }
    let bold = if first.modifier.contains(Modifier::BOLD) { " font-weight=\"700\"" } else { "" };
    let dim = if first.modifier.contains(Modifier::DIM) { " opacity=\".6\"" } else { "" };
    let _ = writeln!(
        out,
        "<text x=\"{x:.1}\" y=\"{:.1}\" textLength=\"{width:.1}\" fill=\"{ink}\"{bold}{dim}>{}\
         </text>",
        y + 13.0,
        escaped(&text)
    );
}

/// The color on a dark terminal. None for that of the terminal.
fn color(color: Color) -> Option<&'static str> {
    Some(match color {
        Color::Reset | Color::Indexed(_) | Color::Rgb(..) => return None,
        Color::Black => "#11161d",
        Color::Red | Color::LightRed => "#f47067",
        Color::Green | Color::LightGreen => "#57ab5a",
        Color::Yellow | Color::LightYellow => "#daaa3f",
        Color::Blue | Color::LightBlue => "#6cb6ff",
        Color::Magenta | Color::LightMagenta => "#dcbdfb",
        Color::Cyan | Color::LightCyan => "#56d4dd",
        Color::Gray | Color::White => "#d5dbe3",
        Color::DarkGray => "#768390",
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use ratatui::style::Style;

    #[test]
    fn runs_of_one_look_are_drawn_together_and_marked_up() {
        let mut buffer = Buffer::with_lines(["a<b  c", "dropped"]);
        buffer.set_style(ratatui::layout::Rect::new(0, 0, 3, 1), Style::new().fg(Color::Cyan));
        let picture = svg(&buffer, 1);
        assert_eq!(picture.matches("<text ").count(), 2, "{picture}");
        assert!(picture.contains("fill=\"#56d4dd\">a&lt;b</text>"), "{picture}");
        assert!(!picture.contains("dropped"));
    }
}
