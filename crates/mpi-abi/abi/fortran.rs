//! Fortran: the header `mpif.h`, and an entry point `mpi_x_` for every function Fortran can call as it is in C.
//!
//! Fortran passes addresses: of numbers, of handles as integers, of strings with their lengths at the end.

use super::table::{Constant, Function, Parameter};
use std::fmt::Write;

/// Arrays whose beginnings Fortran programs compare with: the common block, what it holds, and its value in C.
pub const MARKS: [(&str, &str, usize); 6] = [
    ("BAREWIRE_BOTTOM", "MPI_BOTTOM", 0),
    ("BAREWIRE_IN_PLACE", "MPI_IN_PLACE", 1),
    ("BAREWIRE_STATUS_IGNORE", "MPI_STATUS_IGNORE(8)", 0),
    ("BAREWIRE_STATUSES_IGNORE", "MPI_STATUSES_IGNORE(8,1)", 0),
    ("BAREWIRE_UNWEIGHTED", "MPI_UNWEIGHTED(1)", 10),
    ("BAREWIRE_WEIGHTS_EMPTY", "MPI_WEIGHTS_EMPTY(1)", 11),
];

/// Written by hand, or of no use from Fortran.
const LEFT_OUT: &[&str] =
    &["MPI_Init", "MPI_Init_thread", "MPI_Wtime", "MPI_Wtick", "MPI_Pcontrol", "MPI_Comm_get_attr"];

/// Whether Fortran can call a function by the rules here.
pub fn has(function: &Function) -> bool {
    let name = function.name.as_str();
    let left_out = LEFT_OUT.contains(&name)
        || ["_c", "_fromint", "_toint", "_c2f", "_f2c", "_get_contents"]
            .iter()
            .any(|end| name.ends_with(end))
        || ["MPI_T_", "MPI_File_", "MPI_Abi_", "MPI_Grequest_start"]
            .iter()
            .any(|start| name.starts_with(start));
    let strange = |p: &Parameter| {
        (p.base.ends_with("_function") && name != "MPI_Op_create")
            || (p.base == "char" && p.array)
            || (p.base == "char" && function.prototype.contains("***"))
            || p.name == "extra_state"
            || p.base == "MPI_File"
    };
    !left_out && function.returns == "int" && !function.parameters.iter().any(strange)
}

/// The entry points for Fortran.
pub fn entry_points(functions: &[Function]) -> String {
    let mut out = String::new();
    for function in functions.iter().filter(|function| has(function)) {
        entry_point(&mut out, function);
    }
    out
}

fn entry_point(out: &mut String, function: &Function) {
    let parameters = &function.parameters;
    let mut declared: Vec<String> =
        parameters.iter().map(|p| format!("{}: *mut {}", p.name, pointed_to(p))).collect();
    declared.push("ierror: *mut c_int".to_owned());
    declared.extend(parameters.iter().filter(|p| is_text(p)).map(|p| format!("{}_len: usize", p.name)));
    let taken: Vec<String> = parameters.iter().map(|p| format!("{}: {}", p.name, c_type(p))).collect();
    let before: String = parameters.iter().map(|p| before(function, p)).collect();
    let passed: Vec<String> = parameters.iter().map(passed).collect();
    let after: String = parameters.iter().map(after).collect();
    let name = &function.name;
    let lower = name.to_lowercase();
    put(
        out,
        format_args!(
            "/// The Fortran form of `{name}`.\n#[unsafe(no_mangle)]\npub extern \"C\" fn {lower}_({}) {{\n\
             unsafe extern \"C\" {{ fn {name}({}) -> c_int; }}\n{before}\
             // SAFETY: the function has this signature; what Fortran passes is valid as the standard says.\n\
             let code_ = unsafe {{ {name}({}) }};\n{after}give(ierror, code_);\n}}\n",
            declared.join(", "),
            taken.join(", "),
            passed.join(", "),
        ),
    );
}

fn is_handle(p: &Parameter) -> bool {
    p.base.starts_with("MPI_")
        && !matches!(
            p.base.as_str(),
            "MPI_Aint" | "MPI_Count" | "MPI_Offset" | "MPI_Status" | "MPI_User_function"
        )
}

fn is_text(p: &Parameter) -> bool {
    p.base == "char"
}

/// What Fortran's address of an argument points to.
fn pointed_to(p: &Parameter) -> &str {
    match p.base.as_str() {
        "int" => "c_int",
        "MPI_Aint" | "MPI_Count" | "MPI_Offset" => "i64",
        "void" | "MPI_User_function" => "c_void",
        "char" => "u8",
        "MPI_Status" => "c_int",
        _ => "c_int",
    }
}

/// The argument as C takes it.
fn c_type(p: &Parameter) -> &str {
    match p.base.as_str() {
        _ if p.pointer => "*mut c_void",
        "int" => "c_int",
        "MPI_Aint" | "MPI_Count" | "MPI_Offset" => "i64",
        _ => "usize",
    }
}

/// The functions that turn handles into integers and back.
fn convert(p: &Parameter) -> &str {
    match p.base.as_str() {
        "MPI_Datatype" => "Type",
        base => base.trim_start_matches("MPI_"),
    }
}

/// How many entries an array of handles has.
fn length(function: &Function) -> String {
    let has = |name: &str| function.parameters.iter().any(|p| p.name == name);
    match ["count", "incount"].into_iter().find(|name| has(name)) {
        Some(name) => format!("take({name}) as usize"),
        None => "partners(take(comm))".to_owned(),
    }
}

fn before(function: &Function, p: &Parameter) -> String {
    let (name, kind) = (&p.name, convert(p));
    let from = format!("|integer| convert::PMPI_{kind}_fromint(integer).0");
    match (is_handle(p), p.pointer, is_text(p)) {
        (true, true, _) if p.array => {
            format!("let mut {name}_c = handles({name}, {}, {from});\n", length(function))
        }
        (true, true, _) => format!("let mut {name}_c = convert::PMPI_{kind}_fromint(take({name})).0;\n"),
        (true, false, _) => format!("let {name}_c = convert::PMPI_{kind}_fromint(take({name})).0;\n"),
        (_, _, true) => format!("let mut {name}_c = Text::new({name}, {name}_len);\n"),
        _ => String::new(),
    }
}

fn passed(p: &Parameter) -> String {
    let name = &p.name;
    match (is_handle(p), p.pointer) {
        (true, true) if p.array => format!("{name}_c.as_mut_ptr().cast()"),
        (true, true) => format!("(&raw mut {name}_c).cast()"),
        (true, false) => format!("{name}_c"),
        _ if is_text(p) => format!("{name}_c.pointer()"),
        (false, true) => format!("mark({name}.cast())"),
        (false, false) => format!("take({name})"),
    }
}

fn after(p: &Parameter) -> String {
    let (name, kind) = (&p.name, convert(p));
    let to = format!("|handle| convert::PMPI_{kind}_toint(boundary::{}(handle))", p.base);
    match (is_handle(p), p.pointer) {
        (true, true) if p.array => format!("give_all({name}, &{name}_c, {to});\n"),
        (true, true) => {
            format!("give({name}, convert::PMPI_{kind}_toint(boundary::{}({name}_c)));\n", p.base)
        }
        _ if is_text(p) && !p.constant => format!("{name}_c.give({name}, {name}_len);\n"),
        _ if name == "indx" => format!("one_based({name}, 1);\n"),
        _ if name == "array_of_indices" => format!("one_based({name}, take(outcount));\n"),
        _ => String::new(),
    }
}

/// The header for programs in either source form.
pub fn header(constants: &[Constant]) -> String {
    let mut out =
        String::from("! MPI for Fortran. Written from the tables in crates/mpi-abi/abi; do not edit.\n");
    let mut number = |name: &str, value: i64| {
        put(&mut out, format_args!("      INTEGER {name}\n      PARAMETER ({name}={value})\n"));
    };
    let own = [
        ("MPI_STATUS_SIZE", 8),
        ("MPI_SOURCE", 1),
        ("MPI_TAG", 2),
        ("MPI_ERROR", 3),
        ("MPI_ADDRESS_KIND", 8),
        ("MPI_COUNT_KIND", 8),
        ("MPI_OFFSET_KIND", 8),
        ("MPI_INTEGER_KIND", 4),
    ];
    for (name, value) in own {
        number(name, value);
    }
    let is_mark = |name: &str| MARKS.iter().any(|(_, what, _)| what.split('(').next() == Some(name));
    let taken =
        |name: &str| own.iter().any(|(own, _)| *own == name) || name.starts_with("MPI_T_") || is_mark(name);
    for constant in constants.iter().filter(|constant| !taken(&constant.name)) {
        let handle = [
            "Comm",
            "Datatype",
            "Errhandler",
            "File",
            "Group",
            "Info",
            "Message",
            "Op",
            "Request",
            "Session",
            "Win",
        ]
        .iter()
        .any(|kind| constant.kind == format!("MPI_{kind}"));
        if constant.kind != "int" && !handle {
            continue;
        }
        let text = constant.value.as_str();
        let value = match text.strip_prefix("0x") {
            Some(hex) => i64::from_str_radix(hex, 16),
            None => text.parse(),
        };
        // Strings have no final zero in Fortran.
        let less = i64::from(constant.name.starts_with("MPI_MAX_"));
        if let Ok(value) = value {
            number(&constant.name, value - less);
        }
    }
    for (block, what, _) in MARKS {
        let name = what.split('(').next().unwrap_or(what);
        put(&mut out, format_args!("      INTEGER {what}\n      COMMON /{block}/ {name}\n"));
    }
    out.push_str("      DOUBLE PRECISION MPI_WTIME, MPI_WTICK\n      EXTERNAL MPI_WTIME, MPI_WTICK\n");
    out
}

/// The module: what the header declares.
pub fn module() -> String {
    "! The module of MPI for Fortran.\nmodule mpi\n  implicit none\n  include 'mpif.h'\nend module mpi\n"
        .to_owned()
}

fn put(out: &mut String, text: std::fmt::Arguments<'_>) {
    out.write_fmt(text).expect("a string takes any text");
}
