//! Programs as bytes: what the cache on disk and ahead-of-time artifacts hold.
//!
//! A checksum finds damage, and a target (build, processor features, threads) what was made for
//! something else; neither makes bytes from a stranger safe to run, since they hold machine code. A
//! program comes back as it was: the same plan, the same code.

use std::hash::Hasher;

use gt_ir::DType;
use serde::{Deserialize, Serialize};

use super::{cache::Mixer, context::Products, matmul::has_rows, plan::Plan};
use crate::{error::ArtifactError, kernel::Code, report::Report};

/// The first bytes of an artifact, with the number of the format.
const MAGIC: &[u8; 8] = b"gtprog\x00\x01";

/// The build and the machine that a program was made for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Target {
    /// The build of the compiler.
    pub(super) build: String,
    /// The processor's family and the vector features that code uses.
    pub(super) processor: String,
    pub(super) threads: usize,
}

impl Target {
    /// This build, on this processor, for an engine with a library of matrix products or without.
    pub(super) fn here(library: Option<&dyn Products>, simd: &str, threads: usize) -> Target {
        let version = concat!(env!("CARGO_PKG_VERSION"), "-", env!("GT_COMPILER_FINGERPRINT"));
        let library = library.map_or_else(String::new, |library| {
            let dtypes: Vec<&str> = library.dtypes().iter().map(|dtype| dtype.name()).collect();
            format!(" with {} for {}", library.name(), dtypes.join(" "))
        });
        let pairs = if has_rows(DType::Bf16) { " bf16" } else { "" };
        let processor = format!("{} {simd}{pairs}{library}", std::env::consts::ARCH);
        Target { build: version.into(), processor, threads }
    }
}

/// A plan and the code of its kernels.
#[derive(Serialize, Deserialize)]
pub(super) struct Artifact {
    pub(super) target: Target,
    /// The sources of the program, by which it is looked up.
    pub(super) key: Vec<u8>,
    /// The report of its compilation.
    pub(super) report: Option<Report>,
    pub(super) plan: Plan,
    pub(super) code: Vec<Code>,
}

/// A checksum that every change of one byte changes; no defence against those who mean harm.
#[must_use]
pub fn checksum(bytes: &[u8]) -> u64 {
    let mut mixer = Mixer::default();
    mixer.write(bytes);
    mixer.write_usize(bytes.len());
    mixer.finish()
}

impl Artifact {
    /// The bytes of an artifact; `None` where it cannot be written, which no plan has been.
    pub(super) fn to_bytes(&self) -> Option<Vec<u8>> {
        let payload = postcard::to_stdvec(self).ok()?;
        let mut bytes = MAGIC.to_vec();
        bytes.extend_from_slice(&checksum(&payload).to_le_bytes());
        bytes.extend_from_slice(&payload);
        Some(bytes)
    }

    /// The artifact, if it is one for `here`.
    pub(super) fn from_bytes(bytes: &[u8], here: &Target) -> Result<Artifact, ArtifactError> {
        let rest = bytes.strip_prefix(MAGIC).ok_or(ArtifactError::Format)?;
        let (sum, payload) = rest.split_first_chunk::<8>().ok_or(ArtifactError::Damaged)?;
        if u64::from_le_bytes(*sum) != checksum(payload) {
            return Err(ArtifactError::Damaged);
        }
        // The target comes first, so that one of another build is known before its plan, which may
        // have another form.
        let (target, _) =
            postcard::take_from_bytes::<Target>(payload).map_err(|_| ArtifactError::Damaged)?;
        if target.build != here.build {
            return Err(ArtifactError::Build { theirs: target.build, ours: here.build.clone() });
        }
        if target != *here {
            let spell = |t: &Target| format!("{} with {} threads", t.processor, t.threads);
            return Err(ArtifactError::Processor { theirs: spell(&target), ours: spell(here) });
        }
        postcard::from_bytes(payload).map_err(|_| ArtifactError::Damaged)
    }
}
