//! Text as GPT-2's tokens and back: byte pair encoding (Sennrich et al. 2016) over bytes, with a
//! checkpoint's `vocab.json` and `merges.txt`.
//!
//! Without these files tokens are bytes. Letters are the characters that Unicode calls alphabetic,
//! a few marks more than in the original's pattern.

use anyhow::{Context as _, Result, ensure};
use std::collections::BTreeMap;
use std::path::Path;

/// The tokenizer of a checkpoint.
pub enum Tokens {
    Bytes,
    Pairs(Pairs),
}

/// The vocabulary, and the pairs to merge with their ranks.
pub struct Pairs {
    ids: BTreeMap<String, i64>,
    spellings: BTreeMap<i64, String>,
    ranks: BTreeMap<(String, String), usize>,
}

impl Tokens {
    pub fn load(folder: &Path) -> Result<Tokens> {
        let (vocabulary, merges) = (folder.join("vocab.json"), folder.join("merges.txt"));
        if !vocabulary.exists() {
            return Ok(Tokens::Bytes);
        }
        let read = |file: &Path| {
            std::fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))
        };
        let ids = serde_json::from_str(&read(&vocabulary)?);
        let ids = ids.with_context(|| format!("{} is not a vocabulary", vocabulary.display()))?;
        Ok(Tokens::Pairs(Pairs::new(ids, &read(&merges)?)))
    }

    pub fn encode(&self, text: &str) -> Result<Vec<i64>> {
        match self {
            Tokens::Bytes => Ok(text.bytes().map(i64::from).collect()),
            Tokens::Pairs(pairs) => pairs.encode(text),
        }
    }

    /// The bytes of a token, which may be a part of a character.
    pub fn decode(&self, token: i64) -> Vec<u8> {
        match self {
            Tokens::Bytes => u8::try_from(token).into_iter().collect(),
            Tokens::Pairs(pairs) => pairs.decode(token),
        }
    }
}

impl Pairs {
    fn new(ids: BTreeMap<String, i64>, merges: &str) -> Pairs {
        let lines = merges.lines().filter(|line| !line.starts_with("#version"));
        let pairs = lines.filter_map(|line| line.split_once(' '));
        let pairs = pairs.map(|(a, b)| (a.to_owned(), b.trim_end().to_owned()));
        Pairs {
            spellings: ids.iter().map(|(word, id)| (*id, word.clone())).collect(),
            ranks: pairs.enumerate().map(|(rank, pair)| (pair, rank)).collect(),
            ids,
        }
    }

    fn encode(&self, text: &str) -> Result<Vec<i64>> {
        let mut tokens = Vec::new();
        for word in words(text) {
            for part in self.merged(word) {
                let id = self.ids.get(&part);
                tokens.push(*id.with_context(|| format!("vocab.json has no token `{part}`"))?);
            }
        }
        ensure!(!tokens.is_empty() || text.is_empty(), "no tokens in `{text}`");
        Ok(tokens)
    }

    /// Merges neighbors in the order of their ranks until no known pair is left.
    fn merged(&self, word: &str) -> Vec<String> {
        let mut parts: Vec<String> = word.bytes().map(|b| letter(b).to_string()).collect();
        loop {
            let rank = |pair: &[String]| self.ranks.get(&(pair[0].clone(), pair[1].clone()));
            let ranked = parts.windows(2).enumerate().filter_map(|(i, p)| Some((*rank(p)?, i)));
            let Some((_, at)) = ranked.min() else { return parts };
            let (a, b) = (parts[at].clone(), parts[at + 1].clone());
            let mut next = Vec::with_capacity(parts.len());
            let mut rest = parts.iter();
            while let Some(part) = rest.next() {
                if *part == a && rest.as_slice().first() == Some(&b) {
                    rest.next();
                    next.push(format!("{a}{b}"));
                } else {
                    next.push(part.clone());
                }
            }
            parts = next;
        }
    }

    fn decode(&self, token: i64) -> Vec<u8> {
        let Some(spelling) = self.spellings.get(&token) else { return Vec::new() };
        let byte = |c: char| (0..=255).find(|&b| letter(b) == c);
        spelling.chars().filter_map(byte).collect()
    }
}

/// The character that represents a byte in the files: the byte's own if it is printable, else one
/// from 256 on.
fn letter(byte: u8) -> char {
    let printed = |b: u8| matches!(b, b'!'..=b'~' | 0xa1..=0xac | 0xae..=0xff);
    if printed(byte) {
        return char::from(byte);
    }
    let before = (0..byte).filter(|&b| !printed(b)).count() as u32;
    char::from_u32(256 + before).unwrap_or('\u{100}')
}

/// Splits a text into words, numbers, marks and spaces. A single space belongs to the next word.
fn words(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let (word, after) = rest.split_at_checked(first(rest))?;
        rest = after;
        (!word.is_empty()).then_some(word)
    })
}

/// The length of the first word in bytes, by the pattern `'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+|
/// ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+`.
fn first(text: &str) -> usize {
    const ENDINGS: [&str; 7] = ["'s", "'t", "'re", "'ve", "'m", "'ll", "'d"];
    if let Some(ending) = ENDINGS.iter().find(|e| text.starts_with(**e)) {
        return ending.len();
    }
    let space = usize::from(text.starts_with(' '));
    let run = |of: &dyn Fn(char) -> bool| {
        let body = &text[space..];
        Some(body.find(|c| !of(c)).unwrap_or(body.len())).filter(|&n| n > 0).map(|n| n + space)
    };
    let mark = |c: char| !c.is_whitespace() && !c.is_alphabetic() && !c.is_numeric();
    let word = run(&char::is_alphabetic).or_else(|| run(&char::is_numeric)).or_else(|| run(&mark));
    word.unwrap_or_else(|| spaces(text))
}

/// The length of the leading spaces in bytes, less the last space if a word follows several.
fn spaces(text: &str) -> usize {
    let end = text.find(|c: char| !c.is_whitespace());
    let all = &text[..end.unwrap_or(text.len())];
    let last = all.chars().next_back().map_or(0, char::len_utf8);
    if end.is_some() && all.len() > last { all.len() - last } else { all.len() }
}
