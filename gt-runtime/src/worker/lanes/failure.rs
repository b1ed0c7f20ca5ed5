//! Why a lane ends.

use gt_compiler::torch::lane::LaneError;

use crate::wire::codec::WireError;

/// Why a lane ended.
#[derive(Debug, thiserror::Error)]
pub(super) enum Failure {
    /// The library, or the other end.
    #[error(transparent)]
    Lane(#[from] LaneError),
    /// The other end is somebody else.
    #[error("the other end does not know the door's key")]
    Proof,
    /// What came is no packet.
    #[error(transparent)]
    Wire(#[from] WireError),
    /// What came is a packet of another kind.
    #[error("there is no chunk in a packet that came over it")]
    Empty,
}
