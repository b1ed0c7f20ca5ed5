//! Collected lines: numbers, whose text is made when they are written, and texts.

use super::config::Format;
use super::told::Told;

/// The bytes that are written together.
const PORTION: usize = 64 << 10;
/// The most bytes that are kept for later lines.
const SPARE: usize = 1 << 20;

/// Lines in the order in which they were added.
#[derive(Debug, Default)]
pub(super) struct Lines {
    list: Vec<Collected>,
    /// The texts of those that are texts, one after the other.
    texts: String,
}

/// A line.
#[derive(Debug)]
enum Collected {
    /// The part of the texts that ends here.
    Text(usize),
    Told(Told),
}

impl Lines {
    /// Adds a line.
    #[inline]
    pub(super) fn tell(&mut self, told: Told) {
        self.list.push(Collected::Told(told));
    }

    /// Adds a line that `print` adds to a text.
    pub(super) fn print(&mut self, print: impl FnOnce(&mut String)) {
        print(&mut self.texts);
        self.list.push(Collected::Text(self.texts.len()));
    }

    /// The bytes that they take.
    pub(super) fn bytes(&self) -> usize {
        self.texts.len() + self.list.len() * size_of::<Collected>()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Passes their texts to `write`, in portions of whole lines. The last line has this number.
    pub(super) fn write<E>(
        &self,
        (format, last): (Format, u64),
        portion: &mut String,
        mut write: impl FnMut(&str) -> Result<(), E>,
    ) -> Result<(), E> {
        let (mut n, mut at) = (last - self.list.len() as u64, 0);
        for line in &self.list {
            n += 1;
            match line {
                Collected::Told(told) => told.print(portion, format, n),
                &Collected::Text(end) => {
                    portion.push_str(&self.texts[std::mem::replace(&mut at, end)..end]);
                }
            }
            if portion.len() >= PORTION {
                write(portion)?;
                portion.clear();
            }
        }
        write(portion)?;
        portion.clear();
        Ok(())
    }

    /// Forgets them, and keeps some memory.
    pub(super) fn clear(&mut self) {
        self.list.clear();
        self.list.shrink_to(SPARE / size_of::<Collected>());
        self.texts.clear();
        self.texts.shrink_to(SPARE);
    }
}
