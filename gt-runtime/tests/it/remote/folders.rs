//! A user whose folders for socket files were made by somebody else first. A server and its
//! programs use tcp then, and leave nothing in these folders.

use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown, symlink};
use std::path::{Path, PathBuf};

use super::doors::User;

/// The user `nobody` of most systems.
const NOBODY: u32 = 65_534;

/// The folders in which a user looks for socket files, below a folder for temporary files.
fn candidates(temporary: &Path) -> [PathBuf; 2] {
    let uid = fs::metadata("/proc/self").unwrap().uid();
    [temporary.join("gt/run"), temporary.join(format!("gt-{uid}"))]
}

fn private(folder: &Path) {
    fs::create_dir_all(folder).unwrap();
    fs::set_permissions(folder, Permissions::from_mode(0o700)).unwrap();
}

/// Runs a program of a user whose folders were made by `take`, and returns the files in them.
fn files_after(name: &str, take: impl Fn(&Path)) -> Vec<PathBuf> {
    let user = User::new("folders", name);
    let temporary = user.0.join("tmp0");
    let folders = candidates(&temporary);
    fs::create_dir_all(temporary.join("gt")).unwrap();
    folders.iter().for_each(|folder| take(folder));
    // The processes of this user share their folders.
    ["tmp1", "tmp2"].iter().for_each(|other| symlink(&temporary, user.0.join(other)).unwrap());
    let (_server, address) = user.server(false);
    let _worker = user.worker(&address);
    user.says_soon("child_program", &address, "it worked");
    let inside = folders.iter().filter_map(|folder| fs::read_dir(folder).ok()).flatten();
    inside.map(|entry| entry.unwrap().path()).collect()
}

#[test]
fn a_private_folder_holds_the_socket_files() {
    // The server's file and the worker's, for values of other workers.
    let files = files_after("own", private);
    assert_eq!(files.len(), 2, "{files:?}");
    assert!(files.iter().all(|file| file.extension().unwrap() == "ipc"), "{files:?}");
}

#[test]
fn folders_that_others_may_enter_hold_no_socket_file() {
    let open = |folder: &Path| {
        private(folder);
        fs::set_permissions(folder, Permissions::from_mode(0o755)).unwrap();
    };
    assert!(files_after("open", open).is_empty());
}

#[test]
fn folders_behind_links_hold_no_socket_file() {
    let linked = |folder: &Path| {
        let target = folder.with_extension("target");
        private(&target);
        symlink(target, folder).unwrap();
    };
    assert!(files_after("link", linked).is_empty());
}

#[test]
fn a_file_in_place_of_a_folder_stops_nobody() {
    assert!(files_after("file", |folder| fs::write(folder, "").unwrap()).is_empty());
}

/// Only root may give folders away. Folders of any other user are open to the user's group here.
#[test]
fn folders_of_another_user_hold_no_socket_file() {
    let given = |folder: &Path| {
        private(folder);
        if chown(folder, Some(NOBODY), None).is_err() {
            fs::set_permissions(folder, Permissions::from_mode(0o770)).unwrap();
        }
    };
    assert!(files_after("given", given).is_empty());
}
