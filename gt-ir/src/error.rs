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
        self.print(f)
    }
}

/// An error of several kinds that may know its cure. It prints as an [`OpError`] does: the message,
/// then a line with the hint.
pub trait Hinted {
    /// What is wrong, in lower case without a final stop.
    fn message(&self) -> String;

    /// What would mend it, when that is known.
    fn hint(&self) -> Option<String>;

    /// Prints message and hint, for [`fmt::Display`].
    ///
    /// # Errors
    /// The formatter fails.
    fn print(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message())?;
        self.hint().iter().try_for_each(|hint| write!(f, "\nhint: {hint}"))
    }
}

impl Hinted for OpError {
    fn message(&self) -> String {
        self.message.clone()
    }

    fn hint(&self) -> Option<String> {
        self.hint.clone()
    }
}
