//! Finding a program, and saying what is wrong when it is not there.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// A program that cannot be started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NoProgram {
    /// The status a shell would give.
    pub status: i32,
    /// Why, and what to do.
    pub reason: String,
}

/// The file to execute for `name`, seen from `directory`, with this search path.
pub fn resolve(name: &OsStr, directory: &Path, search: Option<&OsStr>) -> Result<PathBuf, NoProgram> {
    if name.is_empty() {
        return Err(missing("the name of the program is empty: is a variable not set?".into()));
    }
    if directory.exists() && !directory.is_dir() {
        return Err(missing(format!("the working directory {} is not a folder", directory.display())));
    }
    if !directory.is_dir() {
        return Err(missing(format!("the working directory {} does not exist here", directory.display())));
    }
    if name.as_bytes().contains(&b'/') {
        let path = directory.join(name);
        return check(&path, name).map(|()| path);
    }
    let mut first_problem = None;
    for folder in std::env::split_paths(search.unwrap_or(OsStr::new("/usr/bin:/bin"))) {
        let path = directory.join(folder).join(name);
        if !path.is_file() {
            continue;
        }
        match check(&path, path.as_os_str()) {
            Ok(()) => return Ok(path),
            Err(problem) => first_problem = first_problem.or(Some(problem)),
        }
    }
    Err(first_problem.unwrap_or_else(|| not_in_path(name, directory, search)))
}

/// Why a file that is there and executable does not execute.
pub fn explain_exec(path: &Path, error: &std::io::Error) -> String {
    let shown = path.display();
    if error.kind() != std::io::ErrorKind::NotFound {
        return format!("{shown} cannot be executed: {error}");
    }
    let start = fs::read(path).unwrap_or_default();
    let first = start.split(|&byte| byte == b'\n').next().unwrap_or_default();
    match first.strip_prefix(b"#!") {
        Some(interpreter) => format!(
            "{shown} is a script for `{}`, which does not exist here",
            String::from_utf8_lossy(interpreter).trim()
        ),
        None => format!(
            "{shown} needs a program loader that does not exist here: was it built for another system?"
        ),
    }
}

fn missing(reason: String) -> NoProgram {
    NoProgram { status: 127, reason }
}

fn check(path: &Path, shown: &OsStr) -> Result<(), NoProgram> {
    let shown = shown.to_string_lossy();
    let metadata = match fs::metadata(path) {
        Ok(metadata) => metadata,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            let place = if Path::new(shown.as_ref()).is_absolute() {
                String::new()
            } else {
                format!(": no {}", path.display())
            };
            return Err(missing(format!("{shown} does not exist here{place}{}", did_you_mean(path))));
        }
        Err(error) => return Err(NoProgram { status: 126, reason: format!("{shown}: {error}") }),
    };
    if metadata.is_dir() {
        return Err(NoProgram { status: 126, reason: format!("{shown} is a directory, not a program") });
    }
    if metadata.permissions().mode() & 0o111 == 0 {
        let reason =
            format!("{shown} is not executable: run `chmod +x {shown}`{}", interpreter_hint(path, &shown));
        return Err(NoProgram { status: 126, reason });
    }
    Ok(())
}

fn interpreter_hint(path: &Path, shown: &str) -> String {
    match path.extension().and_then(OsStr::to_str) {
        Some("py") => format!(", or start it with `python3 {shown}`"),
        Some("sh") => format!(", or start it with `sh {shown}`"),
        _ => String::new(),
    }
}

fn not_in_path(name: &OsStr, directory: &Path, search: Option<&OsStr>) -> NoProgram {
    let shown = name.to_string_lossy();
    if directory.join(name).is_file() {
        return missing(format!("there is no `{shown}` in PATH; did you mean `./{shown}`?"));
    }
    let folders = std::env::split_paths(search.unwrap_or_default());
    let names = folders.flat_map(|folder| names_in(&folder));
    match nearest(&shown, names) {
        Some(near) => missing(format!("there is no `{shown}` in PATH; did you mean `{near}`?")),
        None => missing(format!("there is no `{shown}` in PATH; write where it is, such as ./{shown}")),
    }
}

fn did_you_mean(path: &Path) -> String {
    let folder = path.parent().unwrap_or(Path::new("."));
    if !folder.is_dir() {
        return format!(" (nor does the directory {})", folder.display());
    }
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    match nearest(&name, names_in(folder).into_iter()) {
        Some(near) => format!("; did you mean `{}`?", folder.join(near).display()),
        None => String::new(),
    }
}

fn names_in(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.map(|entry| entry.file_name()).map(|name: OsString| name.to_string_lossy().into_owned()).collect()
}

/// The name within two edits of `name`.
fn nearest(name: &str, names: impl Iterator<Item = String>) -> Option<String> {
    let close = names.filter(|other| other.len().abs_diff(name.len()) <= 2);
    let allowed = if name.len() <= 3 { 1 } else { 2 };
    let counted = close.map(|other| (edits(name, &other), other)).filter(|(edits, _)| *edits <= allowed);
    counted.min().map(|(_, other)| other)
}

fn edits(from: &str, to: &str) -> usize {
    barewire_core::boot::environment::edits(from, to)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reason(name: &str) -> String {
        resolve(OsStr::new(name), Path::new("/"), Some(OsStr::new("/usr/bin:/bin"))).unwrap_err().reason
    }

    #[test]
    fn programs_are_found_in_the_search_path_and_by_path() {
        let search = Some(OsStr::new("/nowhere:/usr/bin:/bin"));
        assert!(resolve(OsStr::new("true"), Path::new("/"), search).unwrap().ends_with("true"));
        assert!(resolve(OsStr::new("bin/sh"), Path::new("/"), None).is_ok());
    }

    #[test]
    fn what_is_wrong_is_said() {
        assert!(reason("slepe").contains("did you mean `sleep`?"));
        assert!(reason("/etc/passwd").contains("chmod +x"));
        assert!(reason("/etc").contains("is a directory"));
        assert!(reason("").contains("is empty"));
        let file = resolve(OsStr::new("true"), Path::new("/etc/passwd"), None).unwrap_err();
        assert!(file.reason.contains("/etc/passwd is not a folder"));
        assert!(reason("/nowhere/x").contains("nor does the directory"));
        let no_directory = resolve(OsStr::new("true"), Path::new("/nowhere"), None).unwrap_err();
        assert!(no_directory.reason.contains("working directory"));
    }
}
