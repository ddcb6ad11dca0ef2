//! docs/mpi-coverage.md, written from the tables and the shims that exist.

use super::table::{Forms, Function, HandWritten};
use std::collections::BTreeMap;
use std::fmt::Write;

pub fn coverage<'a>(
    functions: &[Function],
    written: &BTreeMap<String, HandWritten>,
    forms: &Forms,
    not_in_fortran: impl Iterator<Item = &'a Function>,
) -> String {
    let mut out = String::from(
        "# MPI: what is there\n\n\
         Every function of MPI 5.0 is exported by `libmpi_abi.so.1`. Those listed as missing return\n\
         `MPI_ERR_UNSUPPORTED_OPERATION` through the error handler (`MPI_T_` functions: `MPI_T_ERR_NOT_SUPPORTED`).\n\n\
         | tier | functions | there | missing |\n|---|---|---|---|\n",
    );
    let has =
        |function: &&Function| written.contains_key(&function.name) || forms.of(&function.name).is_some();
    for tier in 1..=3 {
        let all = functions.iter().filter(|f| f.tier == tier).count();
        let there = functions.iter().filter(|f| f.tier == tier).filter(has).count();
        put(&mut out, format_args!("| {tier} | {all} | {there} | {} |\n", all - there));
    }
    let there = functions.iter().filter(has).count();
    put(&mut out, format_args!("| all | {} | {there} | {} |\n", functions.len(), functions.len() - there));
    out.push_str("\nTier 1 is what nearly every program uses, tier 2 what many use, tier 3 the rest.\n");
    out.push_str("\n## Missing\n");
    for tier in 1..=3 {
        let missing = functions.iter().filter(|f| f.tier == tier && !has(f));
        section(&mut out, &format!("Tier {tier}"), missing.map(|f| f.name.as_str()));
    }
    let without = not_in_fortran.map(|f| f.name.as_str()).filter(|name| !name.starts_with("MPI_File_"));
    put(
        &mut out,
        format_args!(
            "\n## Fortran\n\n\
             What is there can be called with `mpif.h` and with `use mpi`, but for large counts, files, tools and `MPI_Abi_`\n\
             functions. So can names of MPI 1 that the standard has dropped: `MPI_ADDRESS`, `MPI_TYPE_STRUCT`,\n\
             `MPI_ERRHANDLER_SET` and their like, not `MPI_LB` and `MPI_UB`. Every entry point has its `PMPI_` name. There is no\n\
             `use mpi_f08`. No entry points at all have {}.\n",
            without.map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", "),
        ),
    );
    out.push_str("\n## There\n");
    let mut topics: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (name, shim) in written {
        topics.entry(&shim.module).or_default().push(name);
    }
    let formed: Vec<(String, &str)> = functions
        .iter()
        .filter(|function| !written.contains_key(&function.name))
        .filter_map(|function| Some((forms.of(&function.name)?.module, function.name.as_str())))
        .collect();
    for (topic, name) in &formed {
        topics.entry(topic).or_default().push(name);
    }
    for (topic, names) in topics {
        section(&mut out, &format!("`shim/{topic}.rs`"), names.into_iter());
    }
    out
}

fn section<'a>(out: &mut String, title: &str, names: impl Iterator<Item = &'a str>) {
    let names = names.map(|name| format!("`{name}`")).collect::<Vec<_>>();
    if !names.is_empty() {
        put(out, format_args!("\n### {title}\n\n{}\n", names.join(" ")));
    }
}

fn put(out: &mut String, text: std::fmt::Arguments<'_>) {
    out.write_fmt(text).expect("a string takes any text");
}
