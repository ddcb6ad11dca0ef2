//! Writes the entry points nobody has written by hand, and an `MPI_` name for every `PMPI_` name.
//!
//! A function without a shim reports that it is not supported. A shim whose signature is not the table's does not build.
//! The `MPI_` functions only call their `PMPI_` twin, so a profiling library may define its own `MPI_` functions in front.

use std::fmt::Write;
use std::path::Path;

#[path = "abi/table.rs"]
#[allow(dead_code, reason = "the tests use the rest")]
mod table;

#[path = "abi/fortran.rs"]
#[allow(dead_code, reason = "the tests use the rest")]
mod fortran;

fn main() {
    println!("cargo:rerun-if-changed=abi");
    println!("cargo:rerun-if-changed=src/shim");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libmpi_abi.so.1");
    let functions =
        table::functions(&std::fs::read_to_string("abi/functions.tsv").expect("the table is there"));
    let written = table::hand_written(Path::new("src/shim"));
    for name in written.keys() {
        assert!(functions.iter().any(|f| f.name == *name), "P{name} is not a function of the standard");
    }
    let forms = table::Forms::read(Path::new("src/shim"));
    let mut out = String::new();
    for function in &functions {
        let written = written.get(&function.name);
        match forms.of(&function.name).filter(|_| written.is_none()) {
            Some(form) => one_of_several(&mut out, function, &form),
            None => entry_points(&mut out, function, written),
        }
    }
    let directory = std::env::var("OUT_DIR").expect("cargo sets OUT_DIR");
    std::fs::write(Path::new(&directory).join("entry_points.rs"), out).expect("OUT_DIR is writable");
    let fortran = fortran::entry_points(&functions);
    std::fs::write(Path::new(&directory).join("fortran.rs"), fortran).expect("OUT_DIR is writable");
}

fn entry_points(out: &mut String, function: &table::Function, written: Option<&table::HandWritten>) {
    let name = &function.name;
    let parameters: Vec<(String, String)> = match written {
        Some(shim) => {
            if let Some(problem) = function.mismatch(shim) {
                panic!("{problem}");
            }
            shim.parameters.clone()
        }
        None => function.parameters.iter().map(|p| (p.name.clone(), p.rust_type().to_owned())).collect(),
    };
    let declared =
        parameters.iter().map(|(name, kind)| format!("{name}: {kind}")).collect::<Vec<_>>().join(", ");
    let passed = parameters.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>().join(", ");
    let returns = function.rust_return();
    let twin = match written {
        Some(shim) => format!("crate::shim::{}::P{name}", shim.module),
        None => {
            stub(out, function, &declared);
            format!("P{name}")
        }
    };
    let header = format!("/// The standard's `{name}`.\n#[unsafe(no_mangle)]\npub extern \"C\" fn");
    writeln!(out, "{header} {name}({declared}) -> {returns} {{ {twin}({passed}) }}")
        .expect("a string takes it");
}

/// An entry point that is one form of a function written once for all of them.
fn one_of_several(out: &mut String, function: &table::Function, form: &table::Form) {
    let name = &function.name;
    let declared: Vec<String> =
        function.parameters.iter().map(|p| format!("{}: {}", p.name, p.argument_type())).collect();
    let declared = declared.join(", ");
    let names: Vec<&str> = function.parameters.iter().map(|p| p.name.as_str()).collect();
    let given = &names[..names.len() - form.taken];
    let arguments: Vec<&str> = form.how.into_iter().chain(given.iter().copied()).collect();
    let on = function.error_object().expect("a function with several forms has an error handler");
    let width = match (form.generic, form.wide) {
        (false, _) => "",
        (true, false) => "::<c_int>",
        (true, true) => "::<i64>",
    };
    let called = format!("crate::shim::{}::{}{width}({})", form.module, form.function, arguments.join(", "));
    let header = "#[unsafe(no_mangle)]\npub extern \"C\" fn";
    writeln!(
        out,
        "/// The standard's `{name}`.\n{header} P{name}({declared}) -> c_int {{ \
         crate::fault::guard({}.into(), \"P{name}\", || {called}) }}\n\
         /// The standard's `{name}`.\n{header} {name}({declared}) -> c_int {{ P{name}({}) }}",
        on.name,
        names.join(", "),
    )
    .expect("a string takes it");
}

fn stub(out: &mut String, function: &table::Function, declared: &str) {
    let name = &function.name;
    assert_eq!(function.returns, "int", "{name} needs a shim: it cannot return an error code");
    let body = if name.starts_with("MPI_T_") {
        "crate::fault::unsupported_tool()".to_owned()
    } else {
        let on = function
            .error_object()
            .map_or("crate::fault::On::Nothing".to_owned(), |p| format!("{}.into()", p.name));
        format!("crate::fault::unsupported({on}, \"{name}\")")
    };
    let header = format!(
        "/// The standard's `{name}`, not supported yet.\n#[unsafe(no_mangle)]\n#[allow(unused_variables)]\npub extern \"C\" fn"
    );
    writeln!(out, "{header} P{name}({declared}) -> c_int {{ {body} }}").expect("a string takes it");
}
