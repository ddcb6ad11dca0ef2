//! Control groups: how many processors' worth of time the process gets, however many it may run on.
//!
//! A limit on any group above ours binds us too, so we take the least on the way up to the root of what we can see.

use super::read;

/// The processors' worth of time that control groups allow this process, if they limit it.
///
/// ```
/// if let Some(quota) = barewire_sys::cpu::cpu_quota() {
///     assert!(quota > 0.0);
/// }
/// ```
pub fn cpu_quota() -> Option<f64> {
    let cgroup = read("/proc/self/cgroup")?;
    let mounts = read("/proc/self/mountinfo")?;
    quota_with(&cgroup, &mounts, &read)
}

fn quota_with(cgroup: &str, mounts: &str, read: &dyn Fn(&str) -> Option<String>) -> Option<f64> {
    let groups = cgroup.lines().filter_map(Group::parse);
    let mounts: Vec<Mount> = mounts.lines().filter_map(Mount::parse).collect();
    groups
        .filter_map(|group| {
            let mount = mounts.iter().find(|mount| mount.unified == group.unified)?;
            let limits = mount.directories(group.path).filter_map(|at| limit(&at, group.unified, read));
            limits.min_by(f64::total_cmp)
        })
        .min_by(f64::total_cmp)
}

fn limit(directory: &str, unified: bool, read: &dyn Fn(&str) -> Option<String>) -> Option<f64> {
    if unified {
        parse_cpu_max(&read(&format!("{directory}/cpu.max"))?)
    } else {
        let quota = read(&format!("{directory}/cpu.cfs_quota_us"))?;
        let period = read(&format!("{directory}/cpu.cfs_period_us"))?;
        ratio(quota.trim(), period.trim())
    }
}

/// `max 100000` or `250000 100000`: microseconds of work in a period of microseconds.
fn parse_cpu_max(text: &str) -> Option<f64> {
    let mut words = text.split_whitespace();
    ratio(words.next()?, words.next().unwrap_or("100000"))
}

/// `None` for `max`, for -1 and for nonsense: no limit.
fn ratio(quota: &str, period: &str) -> Option<f64> {
    let quota: u64 = quota.parse().ok().filter(|&quota| quota > 0)?;
    let period: u64 = period.parse().ok().filter(|&period| period > 0)?;
    Some(quota as f64 / period as f64)
}

/// A line of `/proc/self/cgroup` that has to do with processor time.
struct Group<'a> {
    unified: bool,
    path: &'a str,
}

impl<'a> Group<'a> {
    fn parse(line: &'a str) -> Option<Self> {
        let mut fields = line.splitn(3, ':');
        let (number, controllers, path) = (fields.next()?, fields.next()?, fields.next()?);
        let unified = number == "0" && controllers.is_empty();
        (unified || controllers.split(',').any(|name| name == "cpu")).then_some(Self { unified, path })
    }
}

/// A line of `/proc/self/mountinfo` where such groups are mounted.
struct Mount {
    unified: bool,
    /// Which group the mount point shows.
    root: String,
    point: String,
}

impl Mount {
    fn parse(line: &str) -> Option<Self> {
        let (before, after) = line.split_once(" - ")?;
        let mut before = before.split(' ').skip(3);
        let (root, point) = (before.next()?, before.next()?);
        let mut after = after.split(' ');
        let (kind, options) = (after.next()?, after.nth(1)?);
        let unified = kind == "cgroup2";
        let limits = unified || kind == "cgroup" && options.split(',').any(|option| option == "cpu");
        limits.then(|| Self { unified, root: unescape(root), point: unescape(point) })
    }

    /// Where a group and all the groups above it are found, the lowest first.
    fn directories(&self, group: &str) -> impl Iterator<Item = String> {
        let root = self.root.trim_end_matches('/');
        // Inside a container the path may lie outside what is mounted, and then the mount itself is the group.
        let below =
            group.strip_prefix(root).filter(|rest| rest.is_empty() || rest.starts_with('/')).unwrap_or("");
        let below = if below.split('/').any(|name| name == "..") { "" } else { below.trim_end_matches('/') };
        let (point, below) = (self.point.clone(), below.to_owned());
        std::iter::successors(Some(below.len()), {
            let below = below.clone();
            move |&end| below[..end].rfind('/')
        })
        .map(move |end| format!("{point}{}", &below[..end]))
    }
}

/// The kernel writes blanks in paths as `\040` and the like.
fn unescape(text: &str) -> String {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, tail @ ..] = rest {
        let octal = |digits: &[u8]| u8::from_str_radix(std::str::from_utf8(digits).ok()?, 8).ok();
        match (first, tail.get(..3).and_then(octal)) {
            (b'\\', Some(byte)) => {
                out.push(byte);
                rest = &tail[3..];
            }
            _ => {
                out.push(*first);
                rest = tail;
            }
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use proptest::prelude::*;

    use super::*;

    const V2: &str = "31 23 0:28 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate\n";
    const V1: &str = "32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n\
                      33 31 0:30 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n";

    fn quota(cgroup: &str, mounts: &str, files: &[(&str, &str)]) -> Option<f64> {
        let files: HashMap<&str, &str> = files.iter().copied().collect();
        quota_with(cgroup, mounts, &|path| files.get(path).map(|text| (*text).to_owned()))
    }

    #[test]
    fn a_limit_on_any_group_above_binds() {
        let files = [
            ("/sys/fs/cgroup/user.slice/job/cpu.max", "max 100000\n"),
            ("/sys/fs/cgroup/user.slice/cpu.max", "150000 100000\n"),
        ];
        assert_eq!(quota("0::/user.slice/job\n", V2, &files), Some(1.5));
        let tighter = [files[0], files[1], ("/sys/fs/cgroup/cpu.max", "50000 100000")];
        assert_eq!(quota("0::/user.slice/job\n", V2, &tighter), Some(0.5));
    }

    #[test]
    fn the_older_groups_are_read_where_they_are_mounted() {
        let files = [
            ("/sys/fs/cgroup/cpu,cpuacct/box/cpu.cfs_quota_us", "200000\n"),
            ("/sys/fs/cgroup/cpu,cpuacct/box/cpu.cfs_period_us", "100000\n"),
            ("/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "-1\n"),
            ("/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000\n"),
        ];
        assert_eq!(quota("5:memory:/box\n4:cpu,cpuacct:/box\n0::/\n", V1, &files), Some(2.0));
    }

    #[test]
    fn a_container_that_sees_only_its_own_group_finds_it() {
        let mounts = "32 31 0:29 /docker/abc /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n";
        let files = [
            ("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "300000"),
            ("/sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000"),
        ];
        assert_eq!(quota("4:cpu:/docker/abc", mounts, &files), Some(3.0));
        assert_eq!(quota("4:cpu:/elsewhere", mounts, &files), Some(3.0));
        assert_eq!(quota("4:cpu:/docker/abcdef", mounts, &files), Some(3.0));
    }

    #[test]
    fn a_path_that_climbs_out_is_not_followed() {
        let files =
            [("/sys/fs/cgroup/cpu.max", "100000 100000"), ("/sys/fs/cgroup/../../x/cpu.max", "1 100000")];
        assert_eq!(quota("0::/../../x\n", V2, &files), Some(1.0));
    }

    #[test]
    fn no_files_or_no_limit_means_no_quota() {
        assert_eq!(quota("", "", &[]), None);
        assert_eq!(quota("0::/\n", V2, &[]), None);
        assert_eq!(quota("0::/\n", V2, &[("/sys/fs/cgroup/cpu.max", "max 100000\n")]), None);
        assert_eq!(quota("4:cpuset:/\n", V1, &[]), None);
    }

    #[test]
    fn odd_limits_are_no_limits() {
        for text in ["", "max", "0 100000", "-5 100000", "100000 0", "x y", "1e5 100000"] {
            assert_eq!(parse_cpu_max(text), None, "{text:?}");
        }
        assert_eq!(parse_cpu_max("250000 100000\n"), Some(2.5));
        assert_eq!(parse_cpu_max("50000"), Some(0.5));
    }

    #[test]
    fn blanks_in_mount_points_are_read() {
        assert_eq!(unescape(r"/a\040b"), "/a b");
        assert_eq!(unescape(r"/a\04"), r"/a\04");
        assert_eq!(unescape(r"/a\999"), r"/a\999");
    }

    proptest! {
        #[test]
        fn any_text_gives_an_answer(cgroup in "[0-9:,/.a-z\\\\\n-]{0,60}", mounts in "[0-9 :,/.a-z\\\\\n-]{0,80}") {
            let _ = quota_with(&cgroup, &mounts, &|_| Some("100000 100000".into()));
        }
    }
}
