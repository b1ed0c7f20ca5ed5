//! The memory of this host that the values of a process may take.
//!
//! A container has its own limit, below that of the machine: a process that passes it is killed
//! without a word, so values keep to nine tenths of it.

use std::fs;
use std::path::Path;

use gt_settings::quantity;

/// The environment variable that says how many bytes values may take.
pub(crate) const VARIABLE: &str = "GT_MEMORY";

/// The bytes in [`VARIABLE`]; otherwise nine tenths of [`memory`]. A text that is no size counts as
/// none, and `gt-cli config` says so.
pub(crate) fn wanted() -> usize {
    let bytes = gt_settings::var(VARIABLE).and_then(|text| quantity::bytes(&text).ok());
    let bytes = bytes.map(|bytes| usize::try_from(bytes).unwrap_or(usize::MAX));
    bytes.unwrap_or_else(|| memory() / 10 * 9)
}

/// Bytes of memory that this process may have: those of the host, or fewer if a control group sets
/// a limit. A guess where the system does not say.
pub(crate) fn memory() -> usize {
    let text = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let line = text.lines().find_map(|l| l.strip_prefix("MemTotal:"));
    let kib: Option<usize> = line.and_then(|l| l.trim().trim_end_matches("kB").trim().parse().ok());
    let groups = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let limit = of_groups(&groups, Path::new("/sys/fs/cgroup"));
    kib.map_or(8 << 30, |k| k << 10).min(limit.unwrap_or(usize::MAX))
}

/// The least limit of memory of some control groups, as `/proc/self/cgroup` lists them, and of
/// those that contain them. Within a container, `root` is its own group. Versions 1 and 2 differ in
/// where the files are; without a limit they hold `max`, or a number beyond all memory.
fn of_groups(groups: &str, root: &Path) -> Option<usize> {
    let folders = groups.lines().filter_map(|line| {
        let mut parts = line.splitn(3, ':').skip(1);
        let (kinds, group) = (parts.next()?, parts.next()?.trim_start_matches('/'));
        match kinds {
            "" => Some((root.to_owned(), group, "memory.max")),
            _ if kinds.split(',').any(|kind| kind == "memory") => {
                Some((root.join("memory"), group, "memory.limit_in_bytes"))
            }
            _ => None,
        }
    });
    let limits = folders.flat_map(|(root, group, file)| {
        let within = |folder: &&Path| folder.starts_with(&root);
        let own = root.join(group);
        let files: Vec<_> = own.ancestors().take_while(within).map(|f| f.join(file)).collect();
        files.into_iter().filter_map(|file| fs::read_to_string(file).ok()?.trim().parse().ok())
    });
    limits.min()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_limit_of_all_groups_counts() {
        let root = std::env::temp_dir().join(format!("gt-groups-{}", std::process::id()));
        let write = |folder: &str, file: &str, text: &str| {
            fs::create_dir_all(root.join(folder)).unwrap();
            fs::write(root.join(folder).join(file), text).unwrap();
        };
        write("a/b/c", "memory.max", "max\n");
        write("a/b", "memory.max", "4096\n");
        write("a", "memory.max", "8192\n");
        write("memory/d", "memory.limit_in_bytes", "1024\n");
        let found = |groups: &str| of_groups(groups, &root);
        assert_eq!(found("0::/a/b/c\n"), Some(4096));
        assert_eq!(found("0::/a\n"), Some(8192));
        assert_eq!(found("5:cpu,cpuacct:/d\n4:memory:/d\n"), Some(1024));
        // A container that is another group for the host than for itself.
        assert_eq!(found("0::/elsewhere\n"), None);
        assert_eq!(found("5:cpu:/d\nnonsense\n"), None);
        fs::remove_dir_all(&root).unwrap();
    }

    #[test]
    fn a_host_has_memory() {
        assert!(memory() > 1 << 20 && wanted() > 0);
    }
}
