//! A picture in SVG as pixels, by the crate `resvg`. Texts are drawn in a font of this system.

use anyhow::{Context, Result};
use resvg::tiny_skia::{Pixmap, Transform};
use resvg::usvg::{Options, Tree};

/// Pixels for one unit of the picture, so that texts are sharp.
const SCALE: f32 = 2.0;

/// The picture as PNG, and a note if there is no font.
pub(super) fn draw(svg: &str) -> Result<(Vec<u8>, Option<&'static str>)> {
    let mut options = Options { font_family: "DejaVu Sans".into(), ..Options::default() };
    options.fontdb_mut().load_system_fonts();
    let has_fonts = !options.fontdb.is_empty();
    let tree = Tree::from_str(svg, &options).context("the picture cannot be drawn")?;
    let size = tree.size();
    let (width, height) = ((size.width() * SCALE) as u32, (size.height() * SCALE) as u32);
    let mut pixels = Pixmap::new(width, height).context("the picture has no size")?;
    resvg::render(&tree, Transform::from_scale(SCALE, SCALE), &mut pixels.as_mut());
    let png = pixels.encode_png().context("the picture cannot be written")?;
    let note = "this system has no fonts, so the picture has no texts; .svg and .html have them";
    Ok((png, (!has_fonts).then_some(note)))
}
