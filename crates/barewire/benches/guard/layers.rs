//! `docs/layers.md`: how long each layer is, and what it adds to an operation of the core, from the counts on record.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::{Path, PathBuf};

/// A layer: its name, its sources, and its paths, each with those of the core that it stands on.
type Layer = (&'static str, &'static [&'static str], &'static [(&'static str, &'static str)]);

const LAYERS: [Layer; 12] = [
    (
        "core",
        &["../core/src"],
        &[
            ("message send", ""),
            ("message take", ""),
            ("tagged send", "message send"),
            ("tagged take", "message take"),
            ("reach write", ""),
            ("reach read", ""),
            ("region put", "reach write"),
        ],
    ),
    ("am, short", &["src/am/simple.rs"], &[("am send", "message send"), ("am take", "message take")]),
    ("am", &["src/am"], &[("am2 send", "message send"), ("am2 take", "message take")]),
    ("am over via", &["src/am/over_via"], &[("amvia send", "message send"), ("amvia take", "message take")]),
    ("fm", &["src/fm"], &[("fm send", "message send"), ("fm take", "message take")]),
    (
        "via",
        &["src/via"],
        &[("via send", "message send"), ("via take", "message take"), ("via rdma write", "region put")],
    ),
    ("vmmc", &["src/vmmc"], &[("vmmc send", "region put")]),
    (
        "splitc",
        &["src/splitc"],
        &[("splitc read", "reach read"), ("splitc put", "reach write"), ("splitc store", "reach write")],
    ),
    ("shmem", &["src/shmem"], &[("shmem get", "reach read"), ("shmem put", "reach write")]),
    ("ga", &["src/ga"], &[("ga put", "reach write")]),
    ("bmi", &["src/bmi"], &[("bmi send", "tagged send"), ("bmi take", "tagged take")]),
    ("mpi", &MPI, &[("mpi send", "tagged send"), ("mpi take", "tagged take")]),
];

/// What of `src/mpi` is the layer; the rest is what C's has too.
const MPI: [&str; 9] = [
    "src/mpi/buffer.rs",
    "src/mpi/collective",
    "src/mpi/comm.rs",
    "src/mpi/engine.rs",
    "src/mpi/fault.rs",
    "src/mpi/message.rs",
    "src/mpi/names.rs",
    "src/mpi/request.rs",
    "src/mpi/window",
];

/// Sources that several layers share.
const SHARED: [(&str, &str); 3] = [
    ("src/spmd", "under splitc, shmem, ga and mpi"),
    ("src/registered.rs", "under am, via and vmmc"),
    ("src/slab.rs", "under via and vmmc"),
];

/// Writes the document from the counts on record.
pub fn document(recorded: &BTreeMap<String, f64>, compiler: &str) -> std::io::Result<PathBuf> {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut text = format!(
        "# What the layers cost\n\nWritten by `./test guard --document`; do not edit. Lines are those that are neither blank nor comment nor test. \
         Instructions are those of one operation of 8 bytes over shared memory, as callgrind counts them in a release build ({compiler}); the \
         last columns are what the layer adds to the operation of the core that it stands on.\n\n\
         | layer | lines | operation | instructions | over | adds |\n|---|---|---|---|---|---|\n"
    );
    for (layer, sources, paths) in LAYERS {
        let mut first = Some((layer, sources.iter().map(|source| lines(&here.join(source))).sum::<usize>()));
        for (path, below) in paths {
            let Some(count) = recorded.get(*path) else { continue };
            let (layer, lines) = first.take().map_or((String::new(), String::new()), |(layer, lines)| {
                (format!("`{layer}`"), lines.to_string())
            });
            let (over, adds) = recorded.get(*below).map_or((String::new(), String::new()), |base| {
                ((*below).to_owned(), format!("{:+.0}", count - base))
            });
            let _ = writeln!(text, "| {layer} | {lines} | {path} | {count:.0} | {over} | {adds} |");
        }
    }
    text += "\nShared by several layers, in lines:";
    for (at, (source, what)) in SHARED.into_iter().enumerate() {
        let _ = write!(
            text,
            "{} `{source}` {}, {what}",
            if at == 0 { "" } else { ";" },
            lines(&here.join(source))
        );
    }
    text += ".\n\n- A *take* is everything after the send: progress, matching, the completion, posting the next receive, and the receiver's share of \
             acknowledgements. For `tagged` and `bmi` it includes posting the receive; \
             `mpi` receives without posting what is there already.\n\
             - *reach* is memory of a neighbour that is mapped: found by its key, copied, its owner nudged. *region put* is the same as an operation \
             with an end of its own.\n";
    let to = here.join("../../docs/layers.md");
    std::fs::write(&to, text)?;
    Ok(to)
}

/// Lines of a file, or of all files below a folder, that are neither blank nor comment nor test.
fn lines(source: &Path) -> usize {
    if source.is_dir() {
        let entries = std::fs::read_dir(source).expect("the sources are there");
        return entries.map(|entry| lines(&entry.expect("the sources are there").path())).sum();
    }
    let name = source.file_name().unwrap_or_default().to_string_lossy();
    if !name.ends_with(".rs") || name.ends_with("tests.rs") {
        return 0;
    }
    let text = std::fs::read_to_string(source).expect("the sources are there");
    // Tests are at the end of a file.
    let code = text.split("\n#[cfg(test)]\nmod tests").next().unwrap_or_default();
    let counts = |line: &&str| !line.trim().is_empty() && !line.trim().starts_with("//");
    code.lines().filter(counts).count()
}
