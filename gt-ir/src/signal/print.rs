//! Signals as people read them: one line a signal, what is usual left out. Nothing reads this text
//! back.

use std::fmt;

use super::{Reduction, Schedule, ShardAxis, ShardConfig, SignalConfig, Signals};

impl fmt::Display for ShardAxis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ShardAxis::Number(axis) => axis.fmt(f),
            ShardAxis::Named(name) => name.fmt(f),
        }
    }
}

/// The word of configuration files.
impl fmt::Display for Schedule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Schedule::Gpipe => "gpipe",
            Schedule::OneForwardOneBackward => "1f1b",
        })
    }
}

/// `axis 0 of workers 0, 1, or elsewhere; priority 2`.
impl fmt::Display for ShardConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.replicated {
            true => f.write_str("replicated on")?,
            false => write!(f, "axis {} over", self.axis)?,
        }
        let names =
            |list: &[u32]| list.iter().map(u32::to_string).collect::<Vec<String>>().join(", ");
        match (&self.workers, &self.mesh) {
            (None, None) => f.write_str(" all workers")?,
            (Some(list), _) => write!(f, " workers {}", names(list))?,
            (None, Some(rows)) => {
                let rows: Vec<String> = rows.iter().map(|row| names(row)).collect();
                write!(f, " rows of workers {}", rows.join(" | "))?;
            }
        }
        if let Some(columns) = &self.columns {
            write!(f, ", axis {columns} over the columns")?;
        }
        if let Some(n) = self.microbatches.filter(|&n| n > 1) {
            write!(f, ", {n} micro-batches by {}", self.schedule)?;
        }
        if self.open {
            f.write_str(", if nothing else is faster")?;
        }
        if self.reduction == Reduction::Pinned {
            f.write_str(", pinned sums")?;
        }
        if self.priority > 0 { write!(f, ", priority {}", self.priority) } else { Ok(()) }
    }
}

/// `shard axis 0 over all workers; backward "b"; compile`.
impl fmt::Display for SignalConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut parts = Vec::new();
        parts.extend(self.shard.as_ref().map(|shard| format!("shard {shard}")));
        parts.extend(self.backward.as_ref().map(|name| format!("backward {name:?}")));
        parts.extend(self.compile.then(|| "compile".to_owned()));
        f.write_str(if parts.is_empty() { "nothing" } else { "" })?;
        f.write_str(&parts.join("; "))
    }
}

/// One line a signal.
impl fmt::Display for Signals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|(name, config)| writeln!(f, "signal {name:?}: {config}"))
    }
}
