//! What two programs that train draw themselves: the curves of `cnn` and the digits of `vae`.

use super::FOLDER;
use crate::shell::{Step, root, target_folder};
use anyhow::{Context, Result};
use std::path::Path;

pub(super) fn draw(folder: &Path) -> Result<()> {
    let program = |name: &str| folder.join("examples").join(name).to_string_lossy().into_owned();
    let run = target_folder().join("curves");
    Step::new(&program("cnn"), &["--curves", &run.to_string_lossy()]).run()?;
    let (curves, picture) = (run.join("run.svg"), root().join(FOLDER).join("curve.svg"));
    std::fs::copy(&curves, picture).with_context(|| format!("no {}", curves.display()))?;
    Step::new(&program("vae"), &["--picture", &format!("{FOLDER}/digits.svg")]).run()
}
