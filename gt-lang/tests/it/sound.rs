//! Sound in WAV files: every kind of samples to the last bit, and files that are damaged.

#![expect(clippy::unwrap_used, reason = "in helpers of tests, whose failures they are")]

use std::io::Cursor;

use gt::data::array;
use gt::io::wav::{self, Audio, Encoding};
use gt_ir::testing::Source;
use hound::{SampleFormat, WavSpec, WavWriter};

use crate::files::damaged;

/// A file of integers, as the crate writes it.
fn file(channels: u16, bits: u16, samples: &[i32]) -> Vec<u8> {
    let spec = WavSpec {
        channels,
        sample_rate: 8000,
        bits_per_sample: bits,
        sample_format: SampleFormat::Int,
    };
    let mut out = Cursor::new(Vec::new());
    let mut writer = WavWriter::new(&mut out, spec).unwrap();
    samples.iter().for_each(|sample| writer.write_sample(*sample).unwrap());
    writer.finalize().unwrap();
    out.into_inner()
}

fn sound(samples: Vec<f32>, channels: usize) -> Audio {
    let n = samples.len() / channels;
    Audio { waveform: array(samples, [channels, n]).unwrap(), sample_rate: 44_100 }
}

#[test]
fn integers_become_floats_from_minus_one_to_one() {
    // By hand: a header of 44 bytes, then two channels, one sample after the other.
    let head = [&b"RIFF\x2c\0\0\0WAVEfmt \x10\0\0\0"[..], &[1, 0, 2, 0], &8000_u32.to_le_bytes()];
    let rest = [&32_000_u32.to_le_bytes()[..], &[4, 0, 16, 0], b"data\x08\0\0\0"];
    let samples = [0_i16, i16::MIN, 16_384, i16::MAX].map(i16::to_le_bytes).concat();
    let bytes = [head.concat(), rest.concat(), samples].concat();
    let sound = wav::from_bytes(&bytes, "x").unwrap();
    assert_eq!((sound.sample_rate, sound.waveform.ty().to_string().as_str()), (8000, "f32[2,2]"));
    assert_eq!(sound.waveform.to_vec::<f32>().unwrap(), [0.0, 0.5, -1.0, 32_767.0 / 32_768.0]);
    for bits in [8, 16, 24, 32] {
        let half = 1 << (bits - 2);
        let read = wav::from_bytes(&file(1, bits, &[half, -half, -2 * half, 0]), "x").unwrap();
        assert_eq!(read.waveform.to_vec::<f32>().unwrap(), [0.5, -0.5, -1.0, 0.0], "{bits} bits");
    }
}

#[test]
fn what_is_written_is_read() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.wav");
    let odd = sound(vec![0.1, -0.7, 3.5, f32::MIN_POSITIVE, -0.0, 1e-20], 3);
    wav::save(&path, &odd, Encoding::F32).unwrap();
    assert_eq!(wav::load(&path).unwrap(), odd);

    let whole: Vec<f32> = (-32_768..32_768).map(|i| i as f32 / 32_768.0).collect();
    let whole = sound(whole, 2);
    let bytes = wav::to_bytes(&whole, Encoding::Pcm16).unwrap();
    assert_eq!(bytes.len(), 44 + 2 * 65_536);
    assert_eq!(wav::from_bytes(&bytes, "x").unwrap(), whole);
    let bytes = wav::to_bytes(&whole, Encoding::Pcm24).unwrap();
    assert_eq!(wav::from_bytes(&bytes, "x").unwrap(), whole);

    let loud = sound(vec![2.0, -2.0, f32::NAN, 1.0], 1);
    let read = wav::from_bytes(&wav::to_bytes(&loud, Encoding::Pcm16).unwrap(), "x").unwrap();
    let top = 32_767.0 / 32_768.0;
    assert_eq!(read.waveform.to_vec::<f32>().unwrap(), [top, -1.0, 0.0, top]);
    let none = sound(Vec::new(), 1);
    assert_eq!(wav::from_bytes(&wav::to_bytes(&none, Encoding::F32).unwrap(), "x").unwrap(), none);
}

#[test]
fn what_is_no_sound_is_not_written() {
    let audio = |waveform, sample_rate| Audio { waveform, sample_rate };
    for (audio, text) in [
        (audio(array(vec![0.0_f32; 4], [4]).unwrap(), 1), "not f32[4]"),
        (audio(array(vec![0.0_f64; 4], [1, 4]).unwrap(), 1), "not f64[1,4]"),
        (audio(array(Vec::<f32>::new(), [0, 4]).unwrap(), 1), "f32[0,4] with 1 samples a second"),
        (audio(array(vec![0.0_f32; 4], [1, 4]).unwrap(), u32::MAX), "is no sound of a WAV file"),
    ] {
        let error = wav::to_bytes(&audio, Encoding::F32).unwrap_err();
        assert!(error.message().contains(text), "{error}");
        assert!(error.loc().file().ends_with("it/sound.rs"), "{error}");
    }
}

#[test]
fn damaged_sound_is_an_error_or_what_it_says() {
    let whole = file(2, 16, &(0..200).collect::<Vec<_>>());
    for n in 0..whole.len() {
        let error = wav::from_bytes(&whole[..n], "x").unwrap_err();
        assert!(error.message().starts_with("x: "), "{error}");
        assert!(error.loc().file().ends_with("it/sound.rs"), "{error}");
    }
    let mut long = whole.clone();
    long[40..44].copy_from_slice(&0xffff_fffc_u32.to_le_bytes());
    let error = wav::from_bytes(&long, "x").unwrap_err();
    assert!(error.message().contains("but the file has"), "{error}");
    let mut packed = whole.clone();
    packed[20] = 2;
    let error = wav::from_bytes(&packed, "x").unwrap_err();
    assert!(error.message().contains("of a kind that is not known here"), "{error}");
    let mut source = Source::from_seed(0);
    let mut refused = 0;
    for _ in 0..4000 {
        match wav::from_bytes(&damaged(&whole, &mut source), "x") {
            Ok(sound) => assert!(sound.waveform.bytes().len() <= 4 * whole.len()),
            Err(error) => {
                assert!(error.message().starts_with("x: "), "{error}");
                refused += 1;
            }
        }
    }
    assert!(refused > 1500, "{refused} of 4000 refused");
}
