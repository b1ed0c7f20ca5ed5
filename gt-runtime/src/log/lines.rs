//! Collected lines: numbers, whose text is made when they are written, and texts.

use super::config::Format;
use super::line::Line;
use super::told::{Names, Told};
use crate::clock::Time;
use crate::words::Facts;

/// The bytes that are written together.
const PORTION: usize = 64 << 10;
/// The most bytes that are kept for later lines.
const SPARE: usize = 1 << 20;

/// Lines in the order in which they were added.
#[derive(Debug, Default)]
pub(super) struct Lines {
    list: Vec<Collected>,
    n_lines: u64,
    /// The texts of those that are texts, one after the other.
    texts: String,
    names: Names,
}

/// A line, or lines.
#[derive(Debug)]
enum Collected {
    /// The part of the texts that ends here, and the number of its lines.
    Texts(usize, u64),
    Told(Told),
}

impl Lines {
    /// Adds a line of numbers. False if there is no room for its name.
    #[inline]
    pub(super) fn tell(
        &mut self,
        now: Time,
        line: &Line<'_>,
        command: &'static str,
        facts: Facts,
    ) -> bool {
        let told = Told::new(now, line, command, facts, &mut self.names).map(Collected::Told);
        let Some(told) = told else { return false };
        self.n_lines += 1;
        self.list.push(told);
        true
    }

    /// Adds a line that `print` adds to a text.
    pub(super) fn print(&mut self, print: impl FnOnce(&mut String)) {
        print(&mut self.texts);
        self.n_lines += 1;
        let end = self.texts.len();
        match self.list.last_mut() {
            Some(Collected::Texts(last, n)) => (*last, *n) = (end, *n + 1),
            Some(Collected::Told(_)) | None => self.list.push(Collected::Texts(end, 1)),
        }
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
        let (mut n, mut at) = (last - self.n_lines, 0);
        for line in &self.list {
            match line {
                Collected::Told(told) => {
                    n += 1;
                    told.print(portion, format, n, &self.names);
                }
                &Collected::Texts(end, count) => {
                    n += count;
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
        self.n_lines = 0;
        self.list.clear();
        self.list.shrink_to(SPARE / size_of::<Collected>());
        self.texts.clear();
        self.texts.shrink_to(SPARE);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::RequestId;
    use crate::log::{Source, What};
    use gt_ir::ValueId;

    #[test]
    fn numbers_and_texts_come_out_in_order_with_their_numbers() {
        let facts = Facts::value(RequestId(1), ValueId(2));
        let line = Line::new(What::Send, Source::Worker("w1"), "Fetch");
        let mut lines = Lines::default();
        for n in 8..20 {
            match n % 4 {
                0 => assert!(lines.tell(Time::ZERO, &line, "Fetch", facts)),
                _ => lines.print(|text| *text += &format!("\"seq\":{n}\n")),
            }
        }
        let (mut all, mut portion) = (String::new(), String::new());
        let wrote: Result<(), ()> = lines.write((Format::Json, 19), &mut portion, |text| {
            all += text;
            Ok(())
        });
        wrote.unwrap();
        assert_eq!(all.lines().count(), 12);
        for (n, line) in (8..20).zip(all.lines()) {
            assert!(line.contains(&format!("\"seq\":{n}")), "{n}: {line}");
        }
        lines.clear();
        assert!(lines.is_empty() && lines.bytes() == 0);
    }
}
