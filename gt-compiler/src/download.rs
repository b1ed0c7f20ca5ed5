//! A value on its way from an engine to the host.
//!
//! Guarantees: what arrives are the bytes the value had when the download began, whatever the
//! engine was asked for since, and whoever freed the value since; waiting is for the device only,
//! on any thread, and holds up no engine. It decides no order: several downloads of one engine may
//! be waited for in any.

use gt_ir::HostTensor;

use crate::error::EngineError;

/// What [`Engine::begin_download`](crate::Engine::begin_download) gives.
pub enum Download {
    /// It is there.
    Here(HostTensor),
    /// It comes.
    Coming(Box<dyn Transfer>),
}

/// The rest of a download. Dropped, it is called off.
pub trait Transfer: Send {
    /// Waits for some more, which takes a few milliseconds once the value has been computed; gives
    /// the value when all of it is there, and then holds nothing of the engine any more.
    ///
    /// # Errors
    /// The device failed; so has its engine, then.
    fn advance(&mut self) -> Result<Option<HostTensor>, EngineError>;
}

impl Download {
    /// Waits for some more, as [`Transfer::advance`].
    ///
    /// # Errors
    /// As that.
    pub fn advance(self) -> Result<Download, EngineError> {
        match self {
            Download::Here(_) => Ok(self),
            Download::Coming(mut transfer) => {
                let here = transfer.advance()?;
                Ok(here.map_or(Download::Coming(transfer), Download::Here))
            }
        }
    }

    /// Waits for all of it.
    ///
    /// # Errors
    /// As [`Transfer::advance`].
    pub fn wait(mut self) -> Result<HostTensor, EngineError> {
        loop {
            match self.advance()? {
                Download::Here(data) => return Ok(data),
                coming @ Download::Coming(_) => self = coming,
            }
        }
    }
}
