//! Pictures in PNG and JPEG files, by the crate `image`. Feature `images`.
//!
//! Guarantees: the file's contents decide its format, whatever its name says. Sizes are compared
//! with [`MAX_UNPACKED`](super::MAX_UNPACKED) before memory is taken for pixels, also for those of
//! a resized picture. Samples of 16 bits become 8.
//!
//! Does not: turn a picture as its EXIF data asks for, or convert colors by its profile; neither
//! does torchvision. Pixels of a JPEG file may differ by 3 from those of another decoder.

use std::io::Cursor;
use std::path::Path;

use ::image::imageops::FilterType;
use ::image::{DynamicImage, GrayImage, ImageDecoder, ImageFormat, ImageReader, Limits};
use bytes::Bytes;
use gt_ir::{DType, Element, HostTensor};

use super::unpack::Unpacking;
use super::{InFile, Refusal, tensor};
use crate::error::Result;

/// How a picture is read. Its fields apply in their order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ImageConfig {
    /// Its channels.
    pub mode: ImageReadMode,
    /// Its height and width; as the file has them without.
    pub resize: Option<ResizeTo>,
    /// The height and width of a part from its middle: torchvision's `CenterCrop`.
    pub center_crop: Option<[usize; 2]>,
    /// The tensor that it becomes.
    pub layout: Layout,
}

/// The channels of a picture: torchvision's `ImageReadMode`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ImageReadMode {
    /// Three: red, green and blue. Transparency is left out.
    #[default]
    Rgb,
    /// Four: red, green, blue and opacity.
    RgbAlpha,
    /// One: brightness, `0.299 R + 0.587 G + 0.114 B`.
    Gray,
    /// One to four, as the file has them.
    Unchanged,
}

/// The size to which a picture is resized: torchvision's `Resize` of single pictures. Pixels are
/// averaged where it becomes smaller, as by Pillow's `BILINEAR`, and differ from Pillow's by 1 at
/// most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResizeTo {
    /// This height and width.
    Exactly([usize; 2]),
    /// The shorter side has this size, and the other one follows.
    Shorter(usize),
}

/// The tensor that a picture becomes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Layout {
    /// `u8[channels, height, width]`, which [`transforms`](crate::data::transforms) take in
    /// batches: `ToFloat` makes floats of them on the worker, so that bytes are uploaded.
    #[default]
    ChannelsFirst,
    /// `u8[height, width, channels]`, as NumPy has pictures.
    ChannelsLast,
    /// `f32[channels, height, width]` from 0 to 1: torchvision's `ToTensor`.
    Floats,
}

/// Reads a picture (feature `images`): torchvision's `read_image`.
///
/// ```no_run
/// # extern crate gt_lang as gt;
/// # use gt::prelude::*;
/// use gt::io::image::{ImageConfig, ResizeTo};
///
/// let config = ImageConfig {
///     resize: Some(ResizeTo::Shorter(256)),
///     center_crop: Some([224, 224]),
///     ..Default::default()
/// };
/// let cat = io::image::load("cat.jpg", config)?; // u8[3, 224, 224]
/// # Ok::<(), gt::Error>(())
/// ```
///
/// # Errors
/// The file cannot be read, is damaged, is neither PNG nor JPEG, or is larger unpacked than
/// [`MAX_UNPACKED`](super::MAX_UNPACKED) allows. Also when the part from the middle is larger than
/// the picture.
#[doc(alias = "read_image")]
#[track_caller]
pub fn load(path: impl AsRef<Path>, config: ImageConfig) -> Result<HostTensor> {
    let path = path.as_ref();
    from_bytes(&super::read(path)?, config, path)
}

/// The picture of a file's bytes; errors name the file as `path`.
///
/// # Errors
/// As [`load`].
#[doc(alias = "decode_image")]
#[track_caller]
pub fn from_bytes(bytes: &[u8], config: ImageConfig, path: impl AsRef<Path>) -> Result<HostTensor> {
    parse(bytes, config).in_file(path.as_ref())
}

fn parse(bytes: &[u8], config: ImageConfig) -> Result<HostTensor, Refusal> {
    let mut left = Unpacking::of(bytes.len()).map_err(|e| Refusal::new(e.message()))?;
    let mut picture = with_mode(decode(bytes, &mut left)?, config.mode);
    if let Some(to) = config.resize {
        picture = resized(&picture, to, &mut left)?;
    }
    if let Some(size) = config.center_crop {
        picture = cropped(&picture, size)?;
    }
    laid_out(picture, config.layout)
}

fn decode(bytes: &[u8], left: &mut Unpacking) -> Result<DynamicImage, Refusal> {
    let Ok(format @ (ImageFormat::Png | ImageFormat::Jpeg)) = ::image::guess_format(bytes) else {
        let hint = "other formats are not read: convert the file, as by `magick OLD NEW.png`";
        return Err(Refusal::new("neither a PNG nor a JPEG file").hint(hint));
    };
    if format == ImageFormat::Jpeg && !has_end(bytes) {
        return Err(Refusal::new("the file is cut off: it has no end").hint("fetch it again"));
    }
    let told = |e: ::image::ImageError| format!("a damaged file: {e}");
    let mut reader = ImageReader::with_format(Cursor::new(bytes), format);
    let mut limits = Limits::no_limits();
    limits.max_alloc = Some(left.left());
    reader.limits(limits);
    let decoder = reader.into_decoder().map_err(told)?;
    left.take(decoder.total_bytes())?;
    Ok(DynamicImage::from_decoder(decoder).map_err(told)?)
}

/// Whether the pixels of a JPEG file are followed by the mark of its end. The decoder makes up the
/// rest of a picture that is cut off.
fn has_end(bytes: &[u8]) -> bool {
    let last = bytes.windows(2).rev().find(|pair| matches!(pair, [0xff, 0xd9 | 0xda]));
    last == Some(&[0xff, 0xd9])
}

/// The picture with these channels of 8 bits.
fn with_mode(picture: DynamicImage, mode: ImageReadMode) -> DynamicImage {
    match (mode, picture.color().channel_count()) {
        (ImageReadMode::Rgb, _) | (ImageReadMode::Unchanged, 3) => picture.into_rgb8().into(),
        (ImageReadMode::Gray, 1 | 2) | (ImageReadMode::Unchanged, 1) => picture.into_luma8().into(),
        (ImageReadMode::Unchanged, 2) => picture.into_luma_alpha8().into(),
        (ImageReadMode::Gray, _) => gray(&picture).into(),
        (ImageReadMode::RgbAlpha | ImageReadMode::Unchanged, _) => picture.into_rgba8().into(),
    }
}

/// Brightness as Pillow computes it, in integers.
fn gray(picture: &DynamicImage) -> GrayImage {
    let colors = picture.to_rgb8();
    GrayImage::from_fn(colors.width(), colors.height(), |x, y| {
        let [r, g, b] = colors.get_pixel(x, y).0.map(u32::from);
        ::image::Luma([((19_595 * r + 38_470 * g + 7_471 * b + 0x8000) >> 16) as u8])
    })
}

fn resized(
    picture: &DynamicImage,
    to: ResizeTo,
    left: &mut Unpacking,
) -> Result<DynamicImage, Refusal> {
    let (width, height) = (u64::from(picture.width()), u64::from(picture.height()));
    let [to_height, to_width] = match to {
        ResizeTo::Exactly(size) => size.map(|n| n as u64),
        ResizeTo::Shorter(short) => {
            let short = short as u64;
            let follows = |long: u64, other: u64| short.saturating_mul(long) / other.max(1);
            if width < height {
                [follows(height, width), short]
            } else {
                [short, follows(width, height)]
            }
        }
    };
    let what = || format!("resized to {to_height} x {to_width}");
    if to_height == 0 || to_width == 0 {
        return Err(Refusal::new(what()).hint("height and width are at least 1"));
    }
    // In between, there are as many rows as in the end, of pixels of four floats.
    let between = width.saturating_mul(to_height).saturating_mul(16);
    let after = to_width.saturating_mul(to_height).saturating_mul(4);
    left.take(between.saturating_add(after)).map_err(|refusal| refusal.of(&what()))?;
    let size = u32::try_from(to_width).and_then(|w| Ok((w, u32::try_from(to_height)?)));
    let (w, h) = size.map_err(|_| what())?;
    Ok(picture.resize_exact(w, h, FilterType::Triangle))
}

fn cropped(picture: &DynamicImage, size: [usize; 2]) -> Result<DynamicImage, Refusal> {
    let (width, height) = (picture.width(), picture.height());
    let [Ok(h), Ok(w)] = size.map(u32::try_from) else {
        return Err(format!("center_crop: {size:?} of {height} x {width} pixels").into());
    };
    if h > height || w > width || h == 0 || w == 0 {
        let what = format!("center_crop: {h} x {w} of {height} x {width} pixels");
        return Err(Refusal::new(what).hint("resize the pictures before, by `resize`"));
    }
    // As PyTorch rounds.
    let start = |whole: u32, part: u32| (f64::from(whole - part) / 2.0).round_ties_even() as u32;
    Ok(picture.crop_imm(start(width, w), start(height, h), w, h))
}

fn laid_out(picture: DynamicImage, layout: Layout) -> Result<HostTensor, Refusal> {
    let n = usize::from(picture.color().channel_count());
    let (height, width) = (picture.height() as usize, picture.width() as usize);
    let bytes = picture.into_bytes();
    let first = [n, height, width];
    let planes = (0..n).flat_map(|i| bytes.iter().skip(i).step_by(n)).copied();
    match layout {
        Layout::ChannelsLast => tensor(DType::U8, &[height, width, n], Bytes::from(bytes)),
        Layout::ChannelsFirst => tensor(DType::U8, &first, Bytes::from(planes.collect::<Vec<_>>())),
        Layout::Floats => {
            let floats = planes.map(|byte| f32::from(byte) / 255.0).collect();
            tensor(DType::F32, &first, f32::into_bytes(floats))
        }
    }
}
