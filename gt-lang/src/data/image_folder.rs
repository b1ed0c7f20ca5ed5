//! Pictures in a folder for each class: torchvision's `ImageFolder`. Feature `images`.
//!
//! Guarantees: classes and files are numbered by their names, on every machine alike. Making the
//! dataset reads names only; a file is read when its example is asked for, and one that is gone or
//! damaged is an error of that example alone.
//!
//! Does not: follow links to folders below the folders of classes, which could lead in circles.

use std::path::{Path, PathBuf};

use gt_ir::HostTensor;

use super::{Dataset, unplaced, without_place};
use crate::error::Result;
use crate::io::InFile;
use crate::io::image::{ImageConfig, load};
use crate::state::data_error;

/// The ends of names of pictures, in lower case.
const PICTURES: [&str; 3] = ["jpeg", "jpg", "png"];

/// Pictures in a folder for each class (feature `images`). An example is a picture, as the
/// configuration has it (`u8[3, height, width]` by default), and the number of its class (`i64`).
///
/// The pictures of a batch have one size, so they are resized or cropped here.
/// [`transforms`](super::transforms) then change whole batches on the worker.
///
/// ```no_run
/// # extern crate gt_lang as gt;
/// # use gt::prelude::*;
/// use gt::data::vision::ImageFolder;
/// use gt::io::image::{ImageConfig, ResizeTo};
///
/// // pets/cat/1.jpg, pets/cat/2.png, pets/dog/1.jpg, ..
/// let size = Some(ResizeTo::Exactly([224, 224]));
/// let pets = ImageFolder::new("pets", ImageConfig { resize: size, ..Default::default() })?;
/// assert_eq!(pets.classes(), ["cat", "dog"]);
/// let config = LoaderConfig { batch_size: 32, threads: 2, ..Default::default() };
/// let mut loader = DataLoader::new(pets, config)?;
/// # Ok::<(), gt::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct ImageFolder {
    classes: Vec<String>,
    samples: Vec<(PathBuf, usize)>,
    config: ImageConfig,
}

impl ImageFolder {
    /// The pictures below a folder, whose own folders are the classes. Files are pictures if their
    /// names end in `.jpg`, `.jpeg` or `.png`, in any case; others are left out.
    ///
    /// # Errors
    /// A folder cannot be read, there is no class, a class has no picture, or its name is not of
    /// Unicode.
    #[track_caller]
    pub fn new(root: impl AsRef<Path>, config: ImageConfig) -> Result<ImageFolder> {
        let root = root.as_ref();
        let (folders, _) = listed(root).in_file(root)?;
        if folders.is_empty() {
            let error = data_error(format!("{}: there is no folder of a class", root.display()));
            return Err(error.hint("pictures are in one folder for each class, as `cat/1.jpg`"));
        }
        let (mut classes, mut samples) = (Vec::new(), Vec::new());
        for (class, folder) in folders.iter().enumerate() {
            classes.push(class_name(folder).in_file(folder)?);
            let found = pictures(folder).in_file(folder)?;
            if found.is_empty() {
                let error = data_error(format!("{}: there is no picture", folder.display()));
                return Err(error.hint("pictures are files that end in .jpg, .jpeg or .png"));
            }
            samples.extend(found.into_iter().map(|path| (path, class)));
        }
        Ok(ImageFolder { classes, samples, config })
    }

    /// The names of the classes, by their numbers.
    pub fn classes(&self) -> &[String] {
        &self.classes
    }

    /// The files and the numbers of their classes, in the order of the examples.
    pub fn samples(&self) -> impl ExactSizeIterator<Item = (&Path, usize)> {
        self.samples.iter().map(|(path, class)| (path.as_path(), *class))
    }
}

impl Dataset for ImageFolder {
    fn len(&self) -> usize {
        self.samples.len()
    }

    fn get(&self, index: usize) -> Result<Vec<HostTensor>> {
        let Some((path, class)) = self.samples.get(index) else {
            return Err(unplaced(format!("image folder: there is no example {index}")));
        };
        let picture = load(path, self.config).map_err(|error| without_place(&error))?;
        Ok(vec![picture, HostTensor::scalar(*class as i64)])
    }
}

/// The name of a class.
fn class_name(folder: &Path) -> Result<String, &'static str> {
    let name = folder.file_name().and_then(|name| name.to_str());
    name.map(str::to_owned).ok_or("the name of a class is not of Unicode")
}

/// The folders and the files of a folder, links among them, sorted by their bytes as Python sorts
/// names.
fn listed(folder: &Path) -> std::io::Result<(Vec<PathBuf>, Vec<PathBuf>)> {
    let (mut folders, mut files) = (Vec::new(), Vec::new());
    for entry in folder.read_dir()? {
        let entry = entry?;
        let (kind, path) = (entry.file_type()?, entry.path());
        let is_folder = kind.is_dir() || (kind.is_symlink() && path.is_dir());
        if is_folder { &mut folders } else { &mut files }.push(path);
    }
    for paths in [&mut folders, &mut files] {
        paths.sort_unstable_by(|a, b| a.as_os_str().cmp(b.as_os_str()));
    }
    Ok((folders, files))
}

/// The pictures below the folder of a class: those of one folder after those of another.
fn pictures(class: &Path) -> std::io::Result<Vec<PathBuf>> {
    let (mut waiting, mut found) = (vec![class.to_owned()], Vec::new());
    while let Some(folder) = waiting.pop() {
        let (folders, mut files) = listed(&folder)?;
        files.retain(|file| is_picture(file));
        found.push((folder, files));
        waiting.extend(folders.into_iter().filter(|folder| !folder.is_symlink()));
    }
    found.sort_unstable_by(|(a, _), (b, _)| a.as_os_str().cmp(b.as_os_str()));
    Ok(found.into_iter().flat_map(|(_, files)| files).collect())
}

/// Whether a file is a picture by its name.
fn is_picture(path: &Path) -> bool {
    let end = path.extension().and_then(|end| end.to_str()).map(str::to_ascii_lowercase);
    end.is_some_and(|end| PICTURES.contains(&end.as_str()))
}
