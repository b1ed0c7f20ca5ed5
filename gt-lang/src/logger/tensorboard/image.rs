//! Images as PNG.

use gt_ir::{DType, HostTensor};
use png::ColorType;

use crate::error::Result;
use crate::state::data_error;

/// An image, packed.
pub(super) struct Png {
    pub(super) height: usize,
    pub(super) width: usize,
    pub(super) channels: usize,
    pub(super) bytes: Vec<u8>,
}

impl Png {
    /// The image of a tensor `[height, width]` or `[channels, height, width]`.
    #[track_caller]
    pub(super) fn of(image: &HostTensor) -> Result<Png> {
        let (sizes, dtype) = (image.ty().shape.sizes(), image.ty().dtype);
        let (channels, height, width) = match *sizes {
            [height, width] => (1, height, width),
            [channels @ (1 | 3 | 4), height, width] => (channels, height, width),
            _ => return Err(no_image(image)),
        };
        if sizes.contains(&0) || !(dtype.is_float() || dtype == DType::U8) {
            return Err(no_image(image));
        }
        let pixels = interleaved(&levels(image), channels);
        match packed(&pixels, channels, height, width) {
            Ok(bytes) => Ok(Png { height, width, channels, bytes }),
            Err(error) => Err(data_error(format!("image: {}: {error}", image.ty()))),
        }
    }
}

#[track_caller]
fn no_image(image: &HostTensor) -> crate::error::Error {
    let error = data_error(format!("image: {} is no image", image.ty()));
    error.hint(
        "an image is [height, width] or [channels, height, width] of 1, 3 or 4 channels, of u8 or \
         of floats from 0 to 1",
    )
}

/// Elements from 0 to 255.
fn levels(image: &HostTensor) -> Vec<u8> {
    match image.ty().dtype {
        DType::U8 => image.bytes().to_vec(),
        _ => image.to_f64().iter().map(|v| (v.clamp(0.0, 1.0) * 255.0).round() as u8).collect(),
    }
}

/// Channels one after the other as pixels one after the other.
fn interleaved(levels: &[u8], channels: usize) -> Vec<u8> {
    let n = levels.len() / channels;
    (0..n).flat_map(|i| (0..channels).map(move |c| levels[c * n + i])).collect()
}

fn packed(
    pixels: &[u8],
    channels: usize,
    height: usize,
    width: usize,
) -> std::result::Result<Vec<u8>, Box<dyn std::error::Error>> {
    let mut bytes = Vec::new();
    let mut encoder = png::Encoder::new(&mut bytes, width.try_into()?, height.try_into()?);
    encoder.set_color(match channels {
        1 => ColorType::Grayscale,
        3 => ColorType::Rgb,
        _ => ColorType::Rgba,
    });
    encoder.write_header()?.write_image_data(pixels)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use gt_ir::Shape;

    use super::*;

    #[test]
    fn pixels_come_back() {
        let image = |sizes: &[usize], data: Vec<f32>| {
            HostTensor::from_vec(data, Shape::new(sizes).unwrap()).unwrap()
        };
        let rgb = image(&[3, 1, 2], vec![0.0, 1.0, 0.5, 2.0, -1.0, 0.2]);
        let png = Png::of(&rgb).unwrap();
        let mut reader = png::Decoder::new(&png.bytes[..]).read_info().unwrap();
        let mut pixels = vec![0; reader.output_buffer_size()];
        reader.next_frame(&mut pixels).unwrap();
        assert_eq!(pixels, [0, 128, 0, 255, 255, 51]);
        for sizes in [&[2, 3, 1][..], &[0, 3], &[4], &[1, 1, 1, 4]] {
            let n = sizes.iter().product();
            let error = Png::of(&image(sizes, vec![0.0; n])).err().unwrap();
            assert!(error.message().ends_with("is no image"), "{error}");
        }
    }
}
