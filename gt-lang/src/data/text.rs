//! Texts as numbers: the tokenizers of Hugging Face, by their crate. Feature `tokenizers`.
//!
//! Guarantees: a `tokenizer.json` gives the tokens that Hugging Face's libraries make with it. A
//! file that is damaged is an error that names it, also where the crate would panic.
//!
//! Does not: train tokenizers, or fetch files. A file with `dropout` gives other tokens each time,
//! whatever the seed.

use std::path::{Path, PathBuf};

use gt_ir::{DType, Element, HostTensor};
use tokenizers::utils::padding::PaddingStrategy;
use tokenizers::{PaddingDirection, PaddingParams};

use crate::error::Result;
use crate::io::{InFile, Refusal, guarded, tensor};

/// The longest padding that a file may ask for.
const MOST: usize = 1 << 20;

/// A tokenizer from a `tokenizer.json` (feature `tokenizers`).
///
/// ```no_run
/// # extern crate gt_lang as gt;
/// # use gt::prelude::*;
/// use gt::data::text::{PaddingSide, SpecialTokens, Tokenizer};
///
/// let tokenizer = Tokenizer::from_file("model/tokenizer.json")?;
/// let ids = tokenizer.encode("a text", SpecialTokens::With)?;
/// let text = tokenizer.decode(&ids, SpecialTokens::Without)?;
///
/// let tokenizer = tokenizer.enable_padding("<pad>", PaddingSide::Right)?;
/// let batch = tokenizer.encode_batch(&["a text", "a longer text"], SpecialTokens::With)?;
/// let ids = DynTensor::from_host(batch.input_ids); // i64[2, longest]
/// # Ok::<(), gt::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Tokenizer {
    inner: tokenizers::Tokenizer,
    path: PathBuf,
    padding: Option<Padding>,
    /// What the lengths of padded batches are multiples of.
    multiple: usize,
}

/// The tokens around a text, such as its beginning and its end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SpecialTokens {
    /// They are added, or stay in the text.
    #[default]
    With,
    /// They are not added, or left out of the text.
    Without,
}

/// The side of a text on which a batch is padded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PaddingSide {
    /// Behind it.
    #[default]
    Right,
    /// Before it, so that texts end together: for text that is to be continued.
    Left,
}

/// How texts become equally long.
#[derive(Clone, Copy, Debug)]
struct Padding {
    id: i64,
    side: PaddingSide,
    /// The least length.
    least: usize,
}

/// The texts of a batch: Hugging Face's `BatchEncoding`.
#[derive(Clone, Debug, PartialEq)]
pub struct BatchEncoding {
    /// `i64[texts, longest]`: the tokens.
    pub input_ids: HostTensor,
    /// `bool[texts, longest]`: true where there is text, false where there is padding.
    pub attention_mask: HostTensor,
}

impl Tokenizer {
    /// Reads a `tokenizer.json`. Its truncation and its padding apply.
    ///
    /// # Errors
    /// The file cannot be read or is damaged, or has a part that the crate does not know.
    #[track_caller]
    pub fn from_file(path: impl AsRef<Path>) -> Result<Tokenizer> {
        let path = path.as_ref();
        Tokenizer::from_bytes(&std::fs::read(path).in_file(path)?, path)
    }

    /// The tokenizer of a file's bytes; errors name the file as `path`.
    ///
    /// # Errors
    /// As [`Tokenizer::from_file`].
    #[track_caller]
    pub fn from_bytes(bytes: &[u8], path: impl AsRef<Path>) -> Result<Tokenizer> {
        let path = path.as_ref();
        let mut inner = guarded(|| parse(bytes)).in_file(path)?;
        // Done here, within limits.
        let params = inner.get_padding().cloned();
        inner.with_padding(None);
        let padding = params.as_ref().map(padding).transpose().in_file(path)?;
        let multiple = params.and_then(|params| params.pad_to_multiple_of).unwrap_or(1).max(1);
        Ok(Tokenizer { inner, path: path.to_owned(), padding, multiple })
    }

    /// The tokenizer with a token of the vocabulary that pads batches, in place of what the file
    /// says.
    ///
    /// # Errors
    /// The vocabulary does not have the token.
    #[track_caller]
    pub fn enable_padding(self, token: &str, side: PaddingSide) -> Result<Tokenizer> {
        let id = self.token_to_id(token).ok_or_else(|| {
            Refusal::new(format!("there is no token `{token}`"))
                .hint("texts may be padded by any token, such as the one that ends them")
        });
        let id = id.in_file(&self.path)?;
        Ok(Tokenizer { padding: Some(Padding { id, side, least: 0 }), ..self })
    }

    /// Rounds lengths of padded batches up to a multiple, as
    /// [`Pad::multiple_of`](super::Pad::multiple_of).
    #[must_use]
    pub fn pad_to_multiple_of(self, n: usize) -> Tokenizer {
        Tokenizer { multiple: n.max(1), ..self }
    }

    /// The tokens of a text.
    ///
    /// # Errors
    /// The tokenizer cannot take the text, such as one without a token for unknown words.
    #[track_caller]
    pub fn encode(&self, text: &str, special: SpecialTokens) -> Result<Vec<i64>> {
        let add = special == SpecialTokens::With;
        let encode = || self.inner.encode(text, add).map_err(Refusal::from);
        let encoding = guarded(encode).in_file(&self.path)?;
        Ok(ids(&encoding))
    }

    /// The tokens of several texts, on several threads, padded to the longest of them.
    ///
    /// # Errors
    /// As [`Tokenizer::encode`]; also when texts of different lengths are not to be padded.
    #[track_caller]
    pub fn encode_batch<T: AsRef<str>>(
        &self,
        texts: &[T],
        special: SpecialTokens,
    ) -> Result<BatchEncoding> {
        let add = special == SpecialTokens::With;
        let texts: Vec<&str> = texts.iter().map(AsRef::as_ref).collect();
        let encode = || self.inner.encode_batch(texts, add).map_err(Refusal::from);
        let rows = guarded(encode).in_file(&self.path)?;
        let rows: Vec<Vec<i64>> = rows.iter().map(ids).collect();
        self.padded(&rows).in_file(&self.path)
    }

    /// The text of tokens. Numbers beyond the vocabulary are left out, as Hugging Face does.
    ///
    /// # Errors
    /// A number is negative or has more than 32 bits, or the tokens are no text.
    #[track_caller]
    pub fn decode(&self, ids: &[i64], special: SpecialTokens) -> Result<String> {
        let ids = ids.iter().map(|id| u32::try_from(*id).map_err(|_| format!("{id} is no token")));
        let ids: Vec<u32> = ids.collect::<Result<_, _>>().in_file(&self.path)?;
        let skip = special == SpecialTokens::Without;
        guarded(|| self.inner.decode(&ids, skip).map_err(Refusal::from)).in_file(&self.path)
    }

    /// How many tokens there are, added ones among them.
    pub fn vocab_size(&self) -> usize {
        self.inner.get_vocab_size(true)
    }

    /// The number of a token.
    pub fn token_to_id(&self, token: &str) -> Option<i64> {
        self.inner.token_to_id(token).map(i64::from)
    }

    /// The token of a number.
    pub fn id_to_token(&self, id: i64) -> Option<String> {
        u32::try_from(id).ok().and_then(|id| self.inner.id_to_token(id))
    }

    /// Rows of tokens with padding.
    fn padded(&self, rows: &[Vec<i64>]) -> Result<BatchEncoding, Refusal> {
        let longest = rows.iter().map(Vec::len).max().unwrap_or(0);
        let least = self.padding.map_or(0, |padding| padding.least);
        let width = longest.max(least).checked_next_multiple_of(self.multiple);
        let width =
            width.filter(|width| width.saturating_mul(rows.len()) <= isize::MAX as usize / 8);
        let width = width.ok_or_else(|| {
            let (n, multiple) = (rows.len(), self.multiple);
            format!("there is no room for {n} texts of a multiple of {multiple} tokens")
        })?;
        let Some(Padding { id, side, .. }) = self.padding else {
            if rows.iter().all(|row| row.len() == width) {
                return encoding(rows, width, |_| (0, 0));
            }
            let hint = "name a token for it by `enable_padding`";
            return Err(Refusal::new("the texts differ in length, and are not padded").hint(hint));
        };
        encoding(rows, width, |missing| match side {
            PaddingSide::Left => (id, missing),
            PaddingSide::Right => (id, 0),
        })
    }
}

fn ids(encoding: &tokenizers::Encoding) -> Vec<i64> {
    encoding.get_ids().iter().map(|id| i64::from(*id)).collect()
}

fn parse(bytes: &[u8]) -> Result<tokenizers::Tokenizer, Refusal> {
    let told = |e: tokenizers::Error| {
        let hint =
            "it reads the `tokenizer.json` of fast tokenizers, which `save_pretrained` writes";
        Refusal::new(format!("not a tokenizer, or a damaged one: {e}")).hint(hint)
    };
    let mut inner = tokenizers::Tokenizer::from_bytes(bytes).map_err(told)?;
    // What the file says of truncation is only checked when it is set.
    let truncation = inner.get_truncation().cloned();
    inner.with_truncation(truncation).map_err(told)?;
    Ok(inner)
}

/// What a file says of padding.
fn padding(params: &PaddingParams) -> Result<Padding, Refusal> {
    let side = match params.direction {
        PaddingDirection::Left => PaddingSide::Left,
        PaddingDirection::Right => PaddingSide::Right,
    };
    let least = match params.strategy {
        PaddingStrategy::BatchLongest => 0,
        PaddingStrategy::Fixed(n) => n,
    };
    let most = least.max(params.pad_to_multiple_of.unwrap_or(1));
    if most > MOST {
        return Err(format!("it pads to {most} tokens, but may to {MOST}").into());
    }
    Ok(Padding { id: i64::from(params.pad_id), side, least })
}

/// Rows of a width. A function says by which token a row is padded that misses so many, and how
/// many of them stand before it.
fn encoding(
    rows: &[Vec<i64>],
    width: usize,
    pad: impl Fn(usize) -> (i64, usize),
) -> Result<BatchEncoding, Refusal> {
    let (mut input_ids, mut mask) = (Vec::new(), Vec::new());
    for row in rows {
        let missing = width - row.len();
        let (id, before) = pad(missing);
        input_ids.extend(std::iter::repeat_n(id, before));
        input_ids.extend_from_slice(row);
        input_ids.extend(std::iter::repeat_n(id, missing - before));
        mask.extend((0..width).map(|i| (before..before + row.len()).contains(&i)));
    }
    let sizes = [rows.len(), width];
    let input_ids = tensor(DType::I64, &sizes, i64::into_bytes(input_ids))?;
    let attention_mask = tensor(DType::Bool, &sizes, bool::into_bytes(mask))?;
    Ok(BatchEncoding { input_ids, attention_mask })
}
