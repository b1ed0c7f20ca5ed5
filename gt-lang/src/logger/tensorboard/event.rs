//! Events in the encoding of Protocol Buffers: the few fields of `event.proto` and `summary.proto`
//! that are written here.

use super::image::Png;

/// One event.
pub(super) struct Event<'a> {
    pub(super) seconds: f64,
    pub(super) step: u64,
    pub(super) what: What<'a>,
}

/// What an event tells.
pub(super) enum What<'a> {
    /// The version of the format, first in each file.
    Version,
    Scalars(&'a [(&'a str, f64)]),
    Histogram(&'a str, &'a Histogram),
    Image(&'a str, &'a Png),
}

impl Event<'_> {
    /// The message `Event`.
    pub(super) fn encoded(&self) -> Vec<u8> {
        let mut event = Message::default();
        event.double(1, self.seconds);
        event.varint(2, self.step);
        match self.what {
            What::Version => event.bytes(3, b"brain.Event:2"),
            What::Scalars(values) => {
                let mut summary = Message::default();
                for (name, value) in values {
                    summary.value(name, |message| message.float(2, *value as f32));
                }
                event.bytes(5, &summary.0);
            }
            What::Histogram(name, histogram) => {
                let mut summary = Message::default();
                summary.value(name, |message| message.bytes(5, &histogram.encoded().0));
                event.bytes(5, &summary.0);
            }
            What::Image(name, image) => {
                let mut summary = Message::default();
                summary.value(name, |message| message.bytes(4, &encoded(image).0));
                event.bytes(5, &summary.0);
            }
        }
        event.0
    }
}

/// The message `Summary.Image`.
fn encoded(image: &Png) -> Message {
    let mut message = Message::default();
    message.varint(1, image.height as u64);
    message.varint(2, image.width as u64);
    message.varint(3, image.channels as u64);
    message.bytes(4, &image.bytes);
    message
}

/// Values by the bucket they are in. Values that are not finite are left out.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Histogram {
    low: f64,
    high: f64,
    sum: f64,
    sum_squares: f64,
    counts: [u64; BUCKETS],
}

/// As many as TensorFlow's summaries have.
const BUCKETS: usize = 30;

impl Histogram {
    /// Equal buckets from the smallest value to the largest; `None` of no values.
    pub(super) fn of(values: &[f64]) -> Option<Histogram> {
        let values = || values.iter().copied().filter(|value| value.is_finite());
        let low = values().reduce(f64::min)?;
        let high = values().fold(low, f64::max);
        let mut counts = [0; BUCKETS];
        for value in values() {
            let share = if high > low { (value - low) / (high - low) } else { 0.0 };
            counts[((share * BUCKETS as f64) as usize).min(BUCKETS - 1)] += 1;
        }
        let sum_squares = values().map(|value| value * value).sum();
        Some(Histogram { low, high, sum: values().sum(), sum_squares, counts })
    }

    /// The message `HistogramProto`.
    fn encoded(&self) -> Message {
        let n = self.counts.iter().sum::<u64>() as f64;
        let mut message = Message::default();
        let numbers = [self.low, self.high, n, self.sum, self.sum_squares];
        (1..).zip(numbers).for_each(|(field, number)| message.double(field, number));
        let width = (self.high - self.low) / BUCKETS as f64;
        let limits = (1..=BUCKETS).map(|i| match i {
            BUCKETS => self.high,
            i => self.low + width * i as f64,
        });
        message.bytes(6, &limits.flat_map(f64::to_le_bytes).collect::<Vec<_>>());
        let counts = self.counts.iter().flat_map(|count| (*count as f64).to_le_bytes());
        message.bytes(7, &counts.collect::<Vec<_>>());
        message
    }
}

/// A message in the making.
#[derive(Default)]
struct Message(Vec<u8>);

impl Message {
    fn raw(&mut self, mut number: u64) {
        while number >= 0x80 {
            self.0.push(number as u8 | 0x80);
            number >>= 7;
        }
        self.0.push(number as u8);
    }

    fn varint(&mut self, field: u64, number: u64) {
        self.raw(field << 3);
        self.raw(number);
    }

    fn double(&mut self, field: u64, number: f64) {
        self.raw(field << 3 | 1);
        self.0.extend(number.to_le_bytes());
    }

    fn float(&mut self, field: u64, number: f32) {
        self.raw(field << 3 | 5);
        self.0.extend(number.to_le_bytes());
    }

    fn bytes(&mut self, field: u64, bytes: &[u8]) {
        self.raw(field << 3 | 2);
        self.raw(bytes.len() as u64);
        self.0.extend_from_slice(bytes);
    }

    /// A `Summary.Value` of this name, in a summary.
    fn value(&mut self, name: &str, fill: impl FnOnce(&mut Message)) {
        let mut value = Message::default();
        value.bytes(1, name.as_bytes());
        fill(&mut value);
        self.bytes(1, &value.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_hold_every_finite_value() {
        let values: Vec<f64> = (0..60).map(f64::from).chain([f64::NAN, f64::INFINITY]).collect();
        let histogram = Histogram::of(&values).unwrap();
        assert_eq!(histogram.counts.iter().sum::<u64>(), 60);
        assert!(histogram.counts.iter().all(|count| *count == 2), "{histogram:?}");
        assert_eq!((histogram.low, histogram.high, histogram.sum), (0.0, 59.0, 1770.0));
        assert_eq!(Histogram::of(&[2.0; 3]).unwrap().counts[0], 3);
        assert_eq!((Histogram::of(&[]), Histogram::of(&[f64::NAN])), (None, None));
    }
}
