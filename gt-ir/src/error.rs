//! The error of a rule: an op was given operands it cannot take. Always the user's fault, never
//! GT's.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Why an op does not apply to its operands; the message names the op and every shape involved.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
pub struct OpError {
    /// The mistake, in lower case and without a final stop.
    pub message: String,
    /// The cure, when one is known.
    pub hint: Option<String>,
}

impl OpError {
    /// An error without a hint.
    pub fn new(message: impl Into<String>) -> Self {
        OpError { message: message.into(), hint: None }
    }

    /// The same error with a hint.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}

impl fmt::Display for OpError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        self.hint.iter().try_for_each(|hint| write!(f, "\nhint: {hint}"))
    }
}
