//! Copies between the host's memory and the device's, by way of page-locked memory.
//!
//! Guarantees: the caller's bytes are read or written when a call returns; copies take effect in
//! the order of the engine's stream. An upload waits for the device only when the staging memory is
//! full of uploads that have not run; a download waits for what its stream was given before it, and
//! copies one part out of the staging memory while the next arrives.
//!
//! A large upload comes in on a stream of its own while kernels run, and reaches its place by a
//! copy within the device in its turn: that place may be memory that earlier kernels still read.
//! What is small is copied in its turn at once.

use std::{
    result::Result as Done,
    sync::{Mutex, PoisonError},
};

use super::{
    ffi::{Failure, Pinned, Result, Stream},
    resources::{Block, Device, Event, OwnStream, Retired},
};
use crate::{device::Reader, error::EngineError};

/// Uploads up to this size take the direct way.
const SMALL: usize = SEGMENT;
/// The ring for them: so many segments, each with an event.
const SEGMENT: usize = 128 << 10;
const SEGMENTS: usize = 16;
/// Large copies go in parts of this size, of which so many are on their way.
const PART: usize = 4 << 20;
const PARTS: usize = 3;
/// Small uploads begin at multiples of this.
const ALIGN: usize = 64;

/// Uploads to one stream.
pub(super) struct Uploads {
    ring: Ring,
    lane: Lane,
}

impl Uploads {
    /// Takes all the memory it will ever need.
    pub(super) fn new(device: &Device, compute: Stream) -> Result<Uploads> {
        Ok(Uploads { ring: Ring::new(device, compute)?, lane: Lane::new(device, compute)? })
    }

    pub(super) fn upload(&mut self, from: &[u8], to: u64) -> Result<()> {
        if from.len() <= SMALL {
            return self.ring.upload(from, to);
        }
        let mut at = to;
        for part in from.chunks(PART) {
            self.lane.upload(part, at)?;
            at += part.len() as u64;
        }
        Ok(())
    }
}

/// Page-locked memory that small uploads go through in turn.
struct Ring {
    memory: Pinned,
    /// Passed when the copies out of a segment have run.
    free: Vec<Event>,
    segment: usize,
    used: usize,
    stream: Stream,
    device: Device,
}

impl Ring {
    fn new(device: &Device, stream: Stream) -> Result<Ring> {
        let free = (0..SEGMENTS).map(|_| device.event()).collect::<Result<_>>()?;
        let memory = device.pinned(SEGMENT * SEGMENTS)?;
        Ok(Ring { memory, free, segment: 0, used: 0, stream, device: *device })
    }

    fn upload(&mut self, from: &[u8], to: u64) -> Result<()> {
        if self.used + from.len() > SEGMENT {
            self.next_segment()?;
        }
        let offset = self.segment * SEGMENT + self.used;
        self.memory.write(offset, from)?;
        self.device.shim.upload(&self.stream, &self.memory, offset, to, from.len())?;
        self.used += from.len().next_multiple_of(ALIGN);
        Ok(())
    }

    /// An event that was never recorded has passed.
    fn next_segment(&mut self) -> Result<()> {
        self.free[self.segment].record(&self.stream)?;
        self.segment = (self.segment + 1) % SEGMENTS;
        self.used = 0;
        self.free[self.segment].wait()
    }
}

/// What large uploads go through: a stream, and slots in turn.
struct Lane {
    slots: Vec<Slot>,
    next: usize,
    copies: OwnStream,
    compute: Stream,
    device: Device,
}

/// Memory on both sides. `arrived`: it is on the device; `free`: it is in its place.
struct Slot {
    host: Pinned,
    block: Block,
    arrived: Event,
    free: Event,
}

impl Lane {
    fn new(device: &Device, compute: Stream) -> Result<Lane> {
        let copies = device.stream(true)?;
        let slots = (0..PARTS).map(|_| Slot::new(device, &copies)).collect::<Result<_>>()?;
        Ok(Lane { slots, next: 0, copies, compute, device: *device })
    }

    fn upload(&mut self, from: &[u8], to: u64) -> Result<()> {
        let slot = &mut self.slots[self.next];
        self.next = (self.next + 1) % PARTS;
        slot.free.wait()?;
        slot.host.write(0, from)?;
        let (shim, staged) = (self.device.shim, slot.block.address());
        shim.upload(&self.copies, &slot.host, 0, staged, from.len())?;
        slot.arrived.record(&self.copies)?;
        slot.arrived.block(&self.compute)?;
        shim.copy(&self.compute, staged, to, from.len())?;
        slot.free.record(&self.compute)
    }
}

impl Slot {
    /// The block belongs to the stream that writes it first; it lives as long as the lane, so
    /// nobody takes it over.
    fn new(device: &Device, copies: &Stream) -> Result<Slot> {
        Ok(Slot {
            host: device.pinned(PART)?,
            block: device.block(copies, PART)?,
            arrived: device.event()?,
            free: device.event()?,
        })
    }
}

/// Downloads on one stream.
pub(super) struct Downloads {
    device: Device,
    stream: Stream,
    part: usize,
    halves: [Half; 2],
}

struct Half {
    host: Pinned,
    arrived: Event,
}

impl Downloads {
    /// In parts of so many bytes. Takes all the memory it will ever need.
    fn new(device: &Device, stream: Stream, part: usize) -> Result<Downloads> {
        let halves = [Half::new(device, part)?, Half::new(device, part)?];
        Ok(Downloads { device: *device, stream, part, halves })
    }

    /// On the stream of everything else, of a few words.
    pub(super) fn of_words(device: &Device, compute: Stream) -> Result<Downloads> {
        Downloads::new(device, compute, SEGMENT)
    }

    pub(super) fn download(&mut self, from: u64, to: &mut [u8]) -> Result<()> {
        let (shim, stream, halves) = (self.device.shim, self.stream, &mut self.halves);
        let mut waiting: Option<(usize, &mut [u8])> = None;
        let mut at = from;
        for (i, part) in to.chunks_mut(self.part).enumerate() {
            let half = &mut halves[i % 2];
            shim.download(&stream, at, &mut half.host, part.len())?;
            half.arrived.record(&stream)?;
            at += part.len() as u64;
            if let Some((i, part)) = waiting.replace((i, part)) {
                halves[i % 2].finish(part)?;
            }
        }
        waiting.map_or(Ok(()), |(i, part)| halves[i % 2].finish(part))
    }
}

impl Half {
    fn new(device: &Device, len: usize) -> Result<Half> {
        Ok(Half { host: device.pinned(len)?, arrived: device.event()? })
    }

    fn finish(&self, to: &mut [u8]) -> Result<()> {
        self.arrived.wait()?;
        self.host.read(to)
    }
}

/// Brings values to the host on a stream of its own.
pub(crate) struct CudaReader {
    downloads: Mutex<Downloads>,
    /// Every read waits for what it enqueued there.
    _stream: OwnStream,
}

impl CudaReader {
    pub(super) fn new(device: &Device) -> Result<CudaReader> {
        let stream = device.stream(true)?;
        let downloads = Mutex::new(Downloads::new(device, *stream, PART)?);
        Ok(CudaReader { downloads, _stream: stream })
    }
}

impl Reader for CudaReader {
    type Mark = CudaMark;

    fn read(&self, mark: &CudaMark, from: u64, to: &mut [u8]) -> Done<(), EngineError> {
        let mut downloads = self.downloads.lock().unwrap_or_else(PoisonError::into_inner);
        let read = mark.passed.block(&downloads.stream).and_then(|()| downloads.download(from, to));
        read.map_err(|failure| match failure {
            Failure::OutOfMemory(why) | Failure::Failed(why) => EngineError::Call(why),
        })
    }
}

/// A point in the work of a stream, and modules of which nothing runs behind it.
pub(crate) struct CudaMark {
    passed: Event,
    unused: Vec<Retired>,
}

impl CudaMark {
    pub(super) fn new(device: &Device, compute: &Stream, unused: Vec<Retired>) -> Result<CudaMark> {
        let mark = CudaMark { passed: device.event()?, unused };
        mark.passed.record(compute)?;
        Ok(mark)
    }
}

impl Drop for CudaMark {
    fn drop(&mut self) {
        // A failure says that the device is lost, and nothing of them runs.
        if !self.unused.is_empty() {
            let _ = self.passed.wait();
        }
    }
}
