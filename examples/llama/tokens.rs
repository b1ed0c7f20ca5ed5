//! Texts as tokens: by the folder's `tokenizer.json` with the feature `tokenizers`, else numbers.

use anyhow::{Context as _, Result};
use std::path::Path;

#[cfg(feature = "tokenizers")]
use gt::data::text::{SpecialTokens, Tokenizer};

/// The tokenizer of a checkpoint.
pub struct Tokens {
    #[cfg(feature = "tokenizers")]
    tokenizer: Option<Tokenizer>,
}

impl Tokens {
    /// The tokenizer of this folder; without one, texts are numbers of tokens.
    #[cfg(feature = "tokenizers")]
    pub fn load(folder: &Path) -> Result<Tokens> {
        let file = folder.join("tokenizer.json");
        let tokenizer = file.exists().then(|| Tokenizer::from_file(file)).transpose()?;
        Ok(Tokens { tokenizer })
    }

    /// Texts are numbers of tokens.
    #[cfg(not(feature = "tokenizers"))]
    pub fn load(_: &Path) -> Result<Tokens> {
        Ok(Tokens {})
    }

    /// The tokens of a prompt.
    pub fn encode(&self, text: &str) -> Result<Vec<i64>> {
        #[cfg(feature = "tokenizers")]
        if let Some(tokenizer) = &self.tokenizer {
            return Ok(tokenizer.encode(text, SpecialTokens::With)?);
        }
        let number = |word: &str| {
            word.parse().with_context(|| {
                format!(
                    "`{word}` is not the number of a token\nhint: texts need tokenizer.json in \
                     the folder, and a build with `--features tokenizers`"
                )
            })
        };
        text.split_whitespace().map(number).collect()
    }

    /// The text that the last of these tokens adds to the others; nothing as long as it ends within
    /// a character.
    pub fn added(&self, all: &[i64]) -> Result<String> {
        #[cfg(feature = "tokenizers")]
        if let Some(tokenizer) = &self.tokenizer {
            let text = |ids: &[i64]| tokenizer.decode(ids, SpecialTokens::Without);
            let whole = text(all)?;
            if whole.ends_with(char::REPLACEMENT_CHARACTER) {
                return Ok(String::new());
            }
            // Before a character that was not whole, more than one token is new.
            let mut before = all.len().saturating_sub(1);
            let mut shown = text(&all[..before])?;
            while before > 0 && shown.ends_with(char::REPLACEMENT_CHARACTER) {
                before -= 1;
                shown = text(&all[..before])?;
            }
            return Ok(whole.strip_prefix(shown.as_str()).unwrap_or(&whole).to_owned());
        }
        Ok(all.last().map(|token| format!(" {token}")).unwrap_or_default())
    }
}
