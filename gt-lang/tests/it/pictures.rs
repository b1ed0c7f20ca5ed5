//! Pictures of PNG and JPEG files, and folders of them: pixels exactly, files that are damaged, and
//! files that are read only when they are asked for.

#![expect(clippy::unwrap_used, reason = "in helpers of tests, whose failures they are")]

use std::io::Cursor;
use std::path::Path;

use ::image::{DynamicImage, GrayImage, ImageFormat, RgbImage, RgbaImage};
use gt::data::vision::ImageFolder;
use gt::io::image::{self, ImageConfig, ImageReadMode, Layout, ResizeTo};
use gt::prelude::*;
use gt_ir::testing::Source;

use crate::files::damaged;
use crate::run;

fn encoded(picture: impl Into<DynamicImage>, format: ImageFormat) -> Vec<u8> {
    let mut out = Cursor::new(Vec::new());
    picture.into().write_to(&mut out, format).unwrap();
    out.into_inner()
}

fn png(picture: impl Into<DynamicImage>) -> Vec<u8> {
    encoded(picture, ImageFormat::Png)
}

/// Two rows of three pixels: 0, 1, 2 are the first.
fn colors() -> RgbImage {
    RgbImage::from_raw(3, 2, (0..18).collect()).unwrap()
}

fn pixels(bytes: &[u8], config: ImageConfig) -> (Vec<usize>, Vec<f64>) {
    let read = image::from_bytes(bytes, config, "x").unwrap();
    (read.ty().shape.sizes().to_vec(), read.to_f64())
}

fn mode(mode: ImageReadMode) -> ImageConfig {
    ImageConfig { mode, layout: Layout::ChannelsLast, ..Default::default() }
}

#[test]
fn pixels_are_laid_out_as_asked_for() {
    let bytes = png(colors());
    let with = |layout| ImageConfig { layout, ..Default::default() };
    let last: Vec<f64> = (0..18).map(f64::from).collect();
    assert_eq!(pixels(&bytes, with(Layout::ChannelsLast)), (vec![2, 3, 3], last));
    let first: Vec<u8> = (0..3).flat_map(|c| (0..6).map(move |i| 3 * i + c)).collect();
    let read = image::from_bytes(&bytes, ImageConfig::default(), "x").unwrap();
    assert_eq!((read.ty().to_string(), read.bytes()), ("u8[3,2,3]".into(), &first.clone().into()));
    let read = image::from_bytes(&bytes, with(Layout::Floats), "x").unwrap();
    let floats: Vec<f32> = first.iter().map(|byte| f32::from(*byte) / 255.0).collect();
    assert_eq!((read.ty().to_string().as_str(), read.to_vec().unwrap()), ("f32[3,2,3]", floats));
}

#[test]
fn channels_are_those_asked_for() {
    let clear = png(RgbaImage::from_raw(1, 2, vec![255, 0, 0, 9, 10, 20, 30, 40]).unwrap());
    assert_eq!(pixels(&clear, mode(ImageReadMode::Rgb)).1, [255., 0., 0., 10., 20., 30.]);
    // As Pillow's `convert("L")`.
    assert_eq!(pixels(&clear, mode(ImageReadMode::Gray)), (vec![2, 1, 1], vec![76., 18.]));
    assert_eq!(pixels(&clear, mode(ImageReadMode::Unchanged)).0, [2, 1, 4]);
    let opaque = pixels(&png(colors()), mode(ImageReadMode::RgbAlpha));
    assert_eq!((opaque.0, &opaque.1[..4]), (vec![2, 3, 4], &[0., 1., 2., 255.][..]));
    let gray = png(GrayImage::from_raw(2, 1, vec![7, 9]).unwrap());
    assert_eq!(pixels(&gray, mode(ImageReadMode::Rgb)).1, [7., 7., 7., 9., 9., 9.]);
    assert_eq!(pixels(&gray, mode(ImageReadMode::Gray)), (vec![1, 2, 1], vec![7., 9.]));
    assert_eq!(pixels(&gray, mode(ImageReadMode::Unchanged)), (vec![1, 2, 1], vec![7., 9.]));
    let deep = ::image::ImageBuffer::from_raw(2, 1, vec![0_u16, 65_535]).unwrap();
    let deep = png(DynamicImage::ImageLuma16(deep));
    assert_eq!(pixels(&deep, mode(ImageReadMode::Unchanged)).1, [0., 255.]);
    // JPEG keeps a plain gray exactly.
    let plain = encoded(RgbImage::from_pixel(17, 9, ::image::Rgb([128; 3])), ImageFormat::Jpeg);
    assert_eq!(pixels(&plain, mode(ImageReadMode::Rgb)), (vec![9, 17, 3], vec![128.0; 459]));
}

#[test]
fn pictures_are_resized_and_cropped() {
    let line = png(GrayImage::from_raw(4, 1, vec![0, 70, 140, 210]).unwrap());
    let resize =
        |to, crop| ImageConfig { resize: Some(to), center_crop: crop, ..mode(ImageReadMode::Gray) };
    // Means of a triangle's weights: 3, 3 and 1 parts of 7.
    let halves = pixels(&line, resize(ResizeTo::Exactly([1, 2]), None));
    assert_eq!(halves, (vec![1, 2, 1], vec![50., 160.]));
    let doubled = pixels(&line, resize(ResizeTo::Shorter(2), None)).0;
    assert_eq!(doubled, [2, 8, 1]);
    let tall = png(GrayImage::from_raw(2, 3, vec![1, 2, 3, 4, 5, 6]).unwrap());
    assert_eq!(pixels(&tall, resize(ResizeTo::Shorter(5), None)).0, [7, 5, 1]);
    let crop = |size| ImageConfig { center_crop: Some(size), ..mode(ImageReadMode::Gray) };
    assert_eq!(pixels(&tall, crop([1, 2])), (vec![1, 2, 1], vec![3., 4.]));
    // 1.5 rows before become 2, and half a row none.
    assert_eq!(pixels(&line, crop([1, 1])).1, [140.]);
    assert_eq!(pixels(&tall, crop([2, 2])).1, [1., 2., 3., 4.]);
    for (config, text) in [
        (crop([4, 1]), "center_crop: 4 x 1 of 3 x 2 pixels"),
        (resize(ResizeTo::Exactly([0, 1]), None), "resized to 0 x 1"),
        (resize(ResizeTo::Shorter(usize::MAX), None), "unpacks to more than"),
    ] {
        let error = image::from_bytes(&tall, config, "x").unwrap_err();
        assert!(error.message().starts_with("x: ") && error.message().contains(text), "{error}");
        assert!(
            error.cure().is_some() && error.loc().file().ends_with("it/pictures.rs"),
            "{error}"
        );
    }
    assert_eq!(pixels(&tall, resize(ResizeTo::Shorter(4), Some([4, 4]))).0, [4, 4, 1]);
}

/// The sizes in the header are of more pixels than there may be.
#[test]
fn no_memory_is_taken_for_what_only_the_header_says() {
    let mut huge = png(colors());
    huge[16..24].copy_from_slice(&[0, 0, 255, 255, 0, 0, 255, 255]);
    let sum = crc32fast::hash(&huge[12..29]);
    huge[29..33].copy_from_slice(&sum.to_be_bytes());
    let error = image::from_bytes(&huge, ImageConfig::default(), "x").unwrap_err();
    assert!(error.message().starts_with("x: the file unpacks to more than 1.1 GB"), "{error}");
    assert!(error.cure().unwrap().contains("GT_MAX_UNPACKED"), "{error}");
    let thin = png(GrayImage::new(1, 60_000));
    let resize = Some(ResizeTo::Shorter(3000));
    let config = ImageConfig { resize, ..Default::default() };
    let error = image::from_bytes(&thin, config, "x").unwrap_err();
    assert!(error.message().contains("resized to 180000000 x 3000: the file unpacks"), "{error}");
}

#[test]
fn damaged_pictures_are_errors_or_of_some_pixels() {
    let noise = |i: u32| (i.wrapping_mul(2_654_435_761) >> 24) as u8;
    let picture = RgbImage::from_raw(23, 17, (0..23 * 17 * 3).map(noise).collect()).unwrap();
    let gray = ::image::imageops::grayscale(&picture);
    let files = [
        png(picture.clone()),
        encoded(picture, ImageFormat::Jpeg),
        encoded(gray, ImageFormat::Jpeg),
    ];
    let check = |error: gt::Error| {
        assert!(error.message().starts_with("x: "), "{error}");
        assert!(error.loc().file().ends_with("it/pictures.rs"), "{error}");
    };
    for (i, whole) in files.iter().enumerate() {
        let read = |bytes: &[u8]| image::from_bytes(bytes, ImageConfig::default(), "x");
        let size = read(whole).unwrap().bytes().len();
        // The last part of a PNG file has no pixels.
        let end = if i == 0 { whole.len() - 12 } else { whole.len() };
        (0..end).for_each(|n| check(read(&whole[..n]).unwrap_err()));
        let mut source = Source::from_seed(i as u64);
        let mut refused = 0;
        for _ in 0..3000 {
            match read(&damaged(whole, &mut source)) {
                Ok(picture) => assert!(picture.bytes().len() <= 4096 * size),
                Err(error) => {
                    check(error);
                    refused += 1;
                }
            }
        }
        assert!(refused > 1000, "file {i}: {refused} of 3000 refused");
    }
    for bytes in [&b""[..], b"GIF89a\x01\0\x01\0", b"no picture at all"] {
        let error = image::from_bytes(bytes, ImageConfig::default(), "x").unwrap_err();
        assert_eq!(error.message(), "x: neither a PNG nor a JPEG file");
    }
}

/// A folder with two classes, whose files are of one color each, and some that are no pictures.
fn pets() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    for sub in ["dog/old/deep", "dog/old-1", "cat"] {
        std::fs::create_dir_all(at(sub)).unwrap();
    }
    let plain = |gray: u8, side: u32| RgbImage::from_pixel(side, side, ::image::Rgb([gray; 3]));
    for (name, gray, side) in [
        ("dog/b.PNG", 1, 4),
        ("dog/a.png", 2, 4),
        ("dog/old/deep/z.png", 3, 4),
        ("dog/old-1/y.png", 4, 4),
        ("cat/10.png", 5, 4),
        ("cat/9.png", 6, 8),
    ] {
        std::fs::write(at(name), png(plain(gray, side))).unwrap();
    }
    // Contents decide the format.
    std::fs::write(at("cat/c.jpeg"), encoded(plain(128, 4), ImageFormat::Jpeg)).unwrap();
    std::fs::write(at("cat/notes.txt"), "no picture").unwrap();
    std::fs::write(at("readme.png"), "of no class").unwrap();
    folder
}

#[test]
fn folders_are_classes_and_files_are_read_when_asked_for() {
    let folder = pets();
    let set = ImageFolder::new(folder.path(), ImageConfig::default()).unwrap();
    assert_eq!(set.classes(), ["cat", "dog"]);
    let name = |(path, class): (&Path, usize)| {
        let path = path.strip_prefix(folder.path()).unwrap();
        (path.to_str().unwrap().to_owned(), class)
    };
    // The order of torchvision: folders by their whole paths, byte by byte.
    let order = ["cat/10.png", "cat/9.png", "cat/c.jpeg", "dog/a.png", "dog/b.PNG"];
    let order = [&order[..], &["dog/old-1/y.png", "dog/old/deep/z.png"]].concat();
    let names: Vec<(String, usize)> = set.samples().map(name).collect();
    let want: Vec<_> = order
        .iter()
        .map(|name| ((*name).to_owned(), usize::from(name.starts_with("dog"))))
        .collect();
    assert_eq!(names, want);
    let example = set.get(4).unwrap();
    assert_eq!((example[0].to_f64(), example[1].to_f64()), (vec![1.0; 48], vec![1.0]));
    assert_eq!(example[1].ty().to_string(), "i64[]");

    std::fs::remove_file(folder.path().join("cat/10.png")).unwrap();
    std::fs::write(folder.path().join("dog/a.png"), "no picture").unwrap();
    for (i, file) in order.iter().enumerate() {
        let told = set.get(i).map(|_| ()).map_err(|error| error.message().to_owned());
        let is_gone = i == 0 || i == 3;
        assert_eq!(told.is_err(), is_gone, "{file}: {told:?}");
        told.err().iter().for_each(|told| assert!(told.contains(file), "{told}"));
    }
    assert!(set.get(7).unwrap_err().message().contains("no example 7"));
}

#[test]
fn batches_of_a_folder_have_one_size() {
    let folder = pets();
    let loader = |resize| {
        let set = ImageFolder::new(folder.path(), ImageConfig { resize, ..Default::default() });
        let config = LoaderConfig { batch_size: 4, threads: 2, ..Default::default() };
        DataLoader::new(set.unwrap(), config).unwrap()
    };
    run(|| {
        let mut fitting = loader(Some(ResizeTo::Exactly([2, 3])));
        let batches: Vec<_> = fitting.epoch().map(Result::unwrap).collect();
        assert_eq!(batches[0][0].ty().to_string(), "u8[4,3,2,3]");
        let means = batches[1][0].to_dtype(DType::F32).mean([1, 2, 3]).to_vec::<f32>().unwrap();
        assert_eq!(means, [1.0, 4.0, 3.0]);
        assert_eq!(batches[0][1].to_vec::<i64>().unwrap(), [0, 0, 0, 1]);
        let error = loader(None).epoch().next().unwrap().unwrap_err();
        assert!(
            error.message().contains("example 1 is u8[3,8,8], others are u8[3,4,4]"),
            "{error}"
        );
        assert!(error.loc().file().ends_with("it/pictures.rs"), "{error}");
        std::fs::remove_file(folder.path().join("cat/10.png")).unwrap();
    });
    let plain = |name: &str| {
        let made = ImageFolder::new(folder.path().join(name), ImageConfig::default());
        made.map(|_| ()).unwrap_err()
    };
    std::fs::create_dir_all(folder.path().join("none/cat")).unwrap();
    for (name, text) in [
        ("missing", "missing: No such file"),
        ("dog/old-1", "dog/old-1: there is no folder of a class"),
        ("none", "none/cat: there is no picture"),
    ] {
        let error = plain(name);
        assert!(error.message().contains(text), "{error}");
        assert!(error.loc().file().ends_with("it/pictures.rs"), "{error}");
    }
}

#[cfg(unix)]
#[test]
fn links_are_followed_to_files_and_classes_only() {
    use std::os::unix::fs::symlink;
    let folder = pets();
    let at = |name: &str| folder.path().join(name);
    symlink(at("dog"), at("dog/old/circle")).unwrap();
    symlink(at("cat"), at("zebra")).unwrap();
    symlink(at("dog/a.png"), at("cat/link.png")).unwrap();
    let set = ImageFolder::new(folder.path(), ImageConfig::default()).unwrap();
    assert_eq!((set.classes().len(), set.len()), (3, 4 + 4 + 4));
    assert_eq!(set.get(3).unwrap()[0].to_f64()[0], 2.0);
}
