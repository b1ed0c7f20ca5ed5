//! Sound in WAV files, by the crate `hound`. Feature `audio`.
//!
//! Guarantees: integers of 8 to 32 bits become `f32` from -1 to 1 as torchaudio makes them, and
//! floats stay as they are. A file that ends before its last sample is an error.
//!
//! Does not: resample, or read compressed sound.

use std::io::{Cursor, Write};
use std::path::Path;

use gt_ir::{DType, Element, HostTensor};
use hound::{SampleFormat, WavReader, WavSpec, WavWriter};

use super::{InFile, Refusal, atomic, tensor};
use crate::error::Result;
use crate::state::data_error;

/// The bytes that a file can have behind its header, whose sizes have 32 bits.
const MOST: usize = u32::MAX as usize - 1024;

/// A sound.
#[derive(Clone, Debug, PartialEq)]
pub struct Audio {
    /// `f32[channels, samples]`, from -1 to 1.
    pub waveform: HostTensor,
    /// Samples of a channel in a second.
    pub sample_rate: u32,
}

/// How the samples of a file are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Encoding {
    /// Integers of 16 bits. What is not from -1 to 1 is clipped.
    Pcm16,
    /// Integers of 24 bits, clipped as well.
    Pcm24,
    /// The floats as they are.
    #[default]
    F32,
}

impl Encoding {
    fn bits(self) -> u16 {
        match self {
            Encoding::Pcm16 => 16,
            Encoding::Pcm24 => 24,
            Encoding::F32 => 32,
        }
    }
}

/// Reads a sound (feature `audio`): `torchaudio.load`.
///
/// ```no_run
/// # extern crate gt_lang as gt;
/// # use gt::prelude::*;
/// let sound = io::wav::load("speech.wav")?;
/// let waveform = DynTensor::from_host(sound.waveform); // f32[channels, samples]
/// # Ok::<(), gt::Error>(())
/// ```
///
/// # Errors
/// The file cannot be read, is damaged, or has samples of another kind.
#[doc(alias = "load_wav")]
#[track_caller]
pub fn load(path: impl AsRef<Path>) -> Result<Audio> {
    let path = path.as_ref();
    from_bytes(&super::read(path)?, path)
}

/// The sound of a file's bytes; errors name the file as `path`.
///
/// # Errors
/// As [`load`].
#[track_caller]
pub fn from_bytes(bytes: &[u8], path: impl AsRef<Path>) -> Result<Audio> {
    parse(bytes).in_file(path.as_ref())
}

fn parse(bytes: &[u8]) -> Result<Audio, Refusal> {
    let reader = WavReader::new(bytes).map_err(refusal)?;
    let WavSpec { channels, sample_rate, bits_per_sample, sample_format } = reader.spec();
    // A sample takes a byte or more.
    if reader.len() as usize > bytes.len() {
        let (n, there) = (reader.len(), bytes.len());
        return Err(format!("the header says {n} samples, but the file has {there} bytes").into());
    }
    let mut samples = Vec::with_capacity(reader.len() as usize);
    match sample_format {
        SampleFormat::Float => {
            for sample in reader.into_samples::<f32>() {
                samples.push(sample.map_err(refusal)?);
            }
        }
        SampleFormat::Int => {
            let scale = (-f32::from(bits_per_sample - 1)).exp2();
            for sample in reader.into_samples::<i32>() {
                samples.push(sample.map_err(refusal)? as f32 * scale);
            }
        }
    }
    let channels = usize::from(channels);
    let sizes = [channels, samples.len() / channels];
    let apart = (0..channels).flat_map(|i| samples.iter().skip(i).step_by(channels)).copied();
    let waveform = tensor(DType::F32, &sizes, f32::into_bytes(apart.collect()))?;
    Ok(Audio { waveform, sample_rate })
}

fn refusal(error: hound::Error) -> Refusal {
    let what = match &error {
        hound::Error::IoError(_) => "the file ends before its last sample".to_owned(),
        hound::Error::FormatError(what) => format!("not a WAV file, or a damaged one: {what}"),
        _ => {
            let hint = "the samples are integers of 8 to 32 bits or floats of 32; a program such \
                        as `ffmpeg -i OLD -c:a pcm_s16le NEW.wav` makes such a file of others";
            return Refusal::new("its samples are of a kind that is not known here").hint(hint);
        }
    };
    Refusal::new(what)
}

/// Writes a sound (feature `audio`), as a whole or not at all: `torchaudio.save`.
///
/// ```no_run
/// # extern crate gt_lang as gt;
/// # use gt::prelude::*;
/// use gt::data::array;
/// use gt::io::wav::{Audio, Encoding};
///
/// let step = 440.0 * std::f32::consts::TAU / 16_000.0;
/// let tone: Vec<f32> = (0..16_000).map(|i| (i as f32 * step).sin()).collect();
/// let sound = Audio { waveform: array(tone, [1, 16_000])?, sample_rate: 16_000 };
/// io::wav::save("tone.wav", &sound, Encoding::Pcm16)?;
/// # Ok::<(), gt::Error>(())
/// ```
///
/// # Errors
/// The file cannot be written, the waveform is not `f32[channels, samples]`, or it is too large for
/// the format, whose files have at most 4 GiB.
#[doc(alias = "save_wav")]
#[track_caller]
pub fn save(path: impl AsRef<Path>, audio: &Audio, encoding: Encoding) -> Result<()> {
    let path = path.as_ref();
    let bytes = written(audio, encoding).in_file(path)?;
    atomic::write(path, |file| file.write_all(&bytes))
}

/// The bytes of a sound's file.
///
/// # Errors
/// The waveform is not `f32[channels, samples]`, or it is too large for the format.
#[track_caller]
pub fn to_bytes(audio: &Audio, encoding: Encoding) -> Result<Vec<u8>> {
    match written(audio, encoding) {
        Ok(bytes) => Ok(bytes),
        Err(refusal) => Err(data_error(format!("wav: {}", refusal.message))),
    }
}

fn written(audio: &Audio, encoding: Encoding) -> Result<Vec<u8>, Refusal> {
    let (spec, frames) = spec(audio, encoding)?;
    let mut out = Cursor::new(Vec::new());
    let mut writer = WavWriter::new(&mut out, spec).map_err(|e| e.to_string())?;
    let samples = audio.waveform.to_vec::<f32>().map_err(|e| e.message)?;
    let most = f32::from(spec.bits_per_sample - 1).exp2();
    for frame in 0..frames {
        for sample in samples.iter().skip(frame).step_by(frames) {
            let put = match encoding {
                Encoding::F32 => writer.write_sample(*sample),
                // As PyTorch rounds. NaN becomes silence.
                _ => {
                    let whole = (sample * most).round_ties_even().clamp(-most, most - 1.0);
                    writer.write_sample(whole as i32)
                }
            };
            put.map_err(|e| e.to_string())?;
        }
    }
    writer.finalize().map_err(|e| e.to_string())?;
    Ok(out.into_inner())
}

/// The header of a sound, if it has one, and its samples in each channel.
fn spec(audio: &Audio, encoding: Encoding) -> Result<(WavSpec, usize), Refusal> {
    let ty = audio.waveform.ty();
    let &[channels, frames] = ty.shape.sizes() else {
        return Err(format!("a waveform is f32[channels, samples], not {ty}").into());
    };
    if ty.dtype != DType::F32 {
        return Err(format!("a waveform is f32[channels, samples], not {ty}").into());
    }
    let bits = encoding.bits();
    let block = channels.saturating_mul(usize::from(bits / 8));
    let second = (audio.sample_rate as usize).saturating_mul(block);
    let is_small = block <= usize::from(u16::MAX) && second <= MOST;
    if channels == 0 || !is_small || frames.saturating_mul(block) > MOST {
        let rate = audio.sample_rate;
        return Err(format!("{ty} with {rate} samples a second is no sound of a WAV file").into());
    }
    let sample_format = match encoding {
        Encoding::F32 => SampleFormat::Float,
        _ => SampleFormat::Int,
    };
    let (channels, sample_rate) = (channels as u16, audio.sample_rate);
    Ok((WavSpec { channels, sample_rate, bits_per_sample: bits, sample_format }, frames))
}
