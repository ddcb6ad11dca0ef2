//! The house rules that a machine can check, over every Rust file of the project.

use std::fs;
use std::path::{Path, PathBuf};

/// Lines a file may have before it is time to think about its shape.
const LINES_MAX: usize = 700;

fn sources() -> Vec<(PathBuf, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap();
    let mut found = Vec::new();
    let mut folders = vec![root.join("crates"), root.join("fuzz")];
    while let Some(folder) = folders.pop() {
        let Ok(entries) = fs::read_dir(&folder) else { continue };
        for path in entries.map(|entry| entry.unwrap().path()) {
            if path.is_dir() && !path.ends_with("target") {
                folders.push(path);
            } else if path.extension().is_some_and(|e| e == "rs") {
                let text = fs::read_to_string(&path).unwrap();
                found.push((path.strip_prefix(&root).unwrap().to_owned(), text));
            }
        }
    }
    assert!(found.len() > 20, "the search found the sources");
    found
}

/// Fails with every line for which `wrong(path, lines, n)` holds.
fn no_line(rule: &str, wrong: impl Fn(&Path, &[&str], usize) -> bool) {
    let mut offenders = Vec::new();
    for (path, text) in sources() {
        let lines: Vec<&str> = text.lines().collect();
        for n in (0..lines.len()).filter(|&n| wrong(&path, &lines, n)) {
            offenders.push(format!("{}:{}: {}", path.display(), n + 1, lines[n].trim()));
        }
    }
    assert!(offenders.is_empty(), "{rule}:\n  {}", offenders.join("\n  "));
}

#[test]
fn every_file_opens_with_its_idea() {
    no_line("a file opens with a //! line that says its idea", |_, lines, n| {
        n == 0 && !lines[0].starts_with("//!")
    });
}

#[test]
fn no_file_is_a_heap() {
    no_line("files have at most 700 lines", |_, _, n| n + 1 == LINES_MAX + 1);
}

#[test]
fn unchecked_code_lives_in_sys_and_the_c_interfaces() {
    let allowed = ["crates/sys/", "crates/mpi-abi/", "crates/bmi-abi/", "fuzz/"];
    let keyword = concat!("un", "safe");
    let forms = [format!("{keyword} {{"), format!("{keyword} fn"), format!("{keyword} impl")];
    no_line("only sys and the C interfaces hold unchecked code", |path, lines, n| {
        let code = lines[n].split("//").next().unwrap_or("");
        !allowed.iter().any(|a| path.starts_with(a)) && forms.iter().any(|form| code.contains(form))
    });
}

#[test]
fn nothing_is_left_for_later_in_silence() {
    let words =
        [concat!("todo", "!("), concat!("unimplemented", "!("), concat!("TO", "DO"), concat!("FIX", "ME")];
    no_line("what is not done is an issue, not a remark", |_, lines, n| {
        words.iter().any(|word| lines[n].contains(word))
    });
}

#[test]
fn whatever_is_not_run_by_itself_names_the_step_that_runs_it() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let steps = fs::read_to_string(root.join("test")).unwrap();
    let attribute = concat!("#[", "ignore");
    no_line("an ignored test ends its reason with \": ./test STEP\"", |_, lines, n| {
        let step = lines[n].trim().strip_suffix("\"]").and_then(|line| line.rsplit_once(": ./test "));
        let is_step = |name: &str| steps.lines().any(|line| line.starts_with(&format!("{name}() {{")));
        lines[n].trim().starts_with(attribute) && !step.is_some_and(|(_, name)| is_step(name))
    });
}

#[test]
fn every_ordering_in_sys_names_its_partner() {
    let kinds = ["Ordering::Acquire", "Ordering::Release", "Ordering::AcqRel", "Ordering::SeqCst"];
    no_line("an ordering names its partner in a SYNC remark above it", |path, lines, n| {
        path.starts_with("crates/sys/src")
            && !path.ends_with("tests.rs")
            && !lines[n].trim_start().starts_with("//")
            && kinds.iter().any(|kind| lines[n].contains(kind))
            && !lines[..n].iter().any(|line| line.contains("#[cfg(test)]"))
            && !lines[n.saturating_sub(8)..=n].iter().any(|line| line.contains("SYNC"))
    });
}
