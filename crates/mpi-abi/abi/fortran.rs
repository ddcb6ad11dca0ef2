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

/// Written by hand, because they follow no rule.
pub const BY_HAND: [&str; 14] = [
    "MPI_Pcontrol",
    "MPI_Comm_create_keyval",
    "MPI_Type_create_keyval",
    "MPI_Win_create_keyval",
    "MPI_Keyval_create",
    "MPI_Comm_set_attr",
    "MPI_Type_set_attr",
    "MPI_Win_set_attr",
    "MPI_Attr_put",
    "MPI_Comm_get_attr",
    "MPI_Type_get_attr",
    "MPI_Win_get_attr",
    "MPI_Attr_get",
    "MPI_Grequest_start",
];

/// Names of long ago, and the functions that took their places. Where those have addresses, these have `INTEGER`s.
const OLD: [(&str, &str); 7] = [
    ("MPI_Address", "MPI_Get_address"),
    ("MPI_Errhandler_create", "MPI_Comm_create_errhandler"),
    ("MPI_Errhandler_get", "MPI_Comm_get_errhandler"),
    ("MPI_Errhandler_set", "MPI_Comm_set_errhandler"),
    ("MPI_Type_hindexed", "MPI_Type_create_hindexed"),
    ("MPI_Type_hvector", "MPI_Type_create_hvector"),
    ("MPI_Type_struct", "MPI_Type_create_struct"),
];

/// The types that `MPI_SIZEOF` knows, and the bytes of their kinds; an element of `complex` has two parts.
const INTRINSIC: [(&str, &[usize]); 4] = [
    ("integer", &[1, 2, 4, 8, 16]),
    ("real", &[4, 8, 16]),
    ("complex", &[4, 8, 16]),
    ("logical", &[1, 2, 4, 8]),
];

/// Whether Fortran can call a function by the rules here.
pub fn has(function: &Function) -> bool {
    let name = function.name.as_str();
    let left_out = BY_HAND.contains(&name)
        || ["_c", "_fromint", "_toint", "_c2f", "_f2c"].iter().any(|end| name.ends_with(end))
        || ["MPI_T_", "MPI_File_", "MPI_Abi_"].iter().any(|start| name.starts_with(start));
    let strange = |p: &&Parameter| {
        (is_function(p) && !called_alike(p))
            || (p.base == "char" && p.array && !p.constant)
            || p.base == "MPI_File"
    };
    !left_out && !parameters(function).iter().any(strange)
}

/// The functions of the standard that Fortran programs would call and cannot; those with large counts they only have in a
/// module that is not there.
pub fn missing(functions: &[Function]) -> impl Iterator<Item = &Function> {
    let of_c = |name: &str| {
        ["_c", "_fromint", "_toint"].iter().any(|end| name.ends_with(end))
            || name.starts_with("MPI_T_")
            || name.starts_with("MPI_Abi_")
    };
    functions.iter().filter(move |f| !of_c(&f.name) && !has(f) && !BY_HAND.contains(&f.name.as_str()))
}

/// The entry points for Fortran, each under its own name and under the one that a program's own is to call.
pub fn entry_points(functions: &[Function]) -> String {
    let mut out = String::new();
    for function in functions.iter().filter(|function| has(function)) {
        entry_point(&mut out, function, &function.name, Width::Long);
    }
    for (old, new) in OLD {
        let function = functions.iter().find(|function| function.name == new);
        entry_point(&mut out, function.expect("the table has it"), old, Width::Short);
    }
    for (name, size) in intrinsic() {
        put(
            &mut out,
            format_args!(
                "/// `MPI_SIZEOF` for one type.\n#[unsafe(no_mangle)]\npub extern \"C\" fn {name}_(_x: *mut c_void, \
                 size: *mut c_int, ierror: *mut c_int) {{ give(size, {size}); give(ierror, 0); }}\n"
            ),
        );
    }
    out
}

/// What addresses and counts are as arguments.
#[derive(Clone, Copy, PartialEq)]
enum Width {
    /// As wide as in C.
    Long,
    /// Plain integers.
    Short,
}

/// The parameters that Fortran has: the arguments of the program are known to whoever starts it.
fn parameters(function: &Function) -> Vec<&Parameter> {
    let dropped = function.parameters.iter().filter(|p| !is_command_line(function, p));
    dropped.collect()
}

fn is_command_line(function: &Function, p: &Parameter) -> bool {
    function.parameters.iter().any(|p| p.name == "argc") && matches!(p.name.as_str(), "argc" | "argv")
}

fn entry_point(out: &mut String, function: &Function, known_as: &str, width: Width) {
    let parameters = parameters(function);
    let mut declared: Vec<String> =
        parameters.iter().map(|p| format!("{}: *mut {}", p.name, pointed_to(p, width))).collect();
    if function.returns == "int" {
        declared.push("ierror: *mut c_int".to_owned());
    }
    declared.extend(parameters.iter().filter(|p| is_text(p)).map(|p| format!("{}_len: usize", p.name)));
    let handed: Vec<&str> = declared.iter().filter_map(|p| Some(p.split_once(':')?.0)).collect();
    let taken: Vec<String> =
        function.parameters.iter().map(|p| format!("{}: {}", p.name, c_type(p))).collect();
    let before: String = parameters.iter().map(|p| before(function, p, width)).collect();
    let passed: Vec<String> = function
        .parameters
        .iter()
        .map(|p| match is_command_line(function, p) {
            true if p.pointer => "std::ptr::null_mut()".to_owned(),
            true => "0".to_owned(),
            false => passed(p, width),
        })
        .collect();
    let after: String = parameters.iter().map(|p| after(p, width)).collect();
    // A function has no error code, and only numbers for arguments.
    let (arrow, returns, kept, result) = match function.returns.as_str() {
        "int" => ("", "", "let code_ = ", ";\n"),
        _ => ("-> ", function.rust_return(), "", ""),
    };
    let after = if returns.is_empty() { format!("{after}give(ierror, code_);") } else { after };
    let (returned, form) = (function.rust_return(), format!("form_of_{}", known_as.to_lowercase()));
    let (declared, taken) = (declared.join(", "), taken.join(", "));
    put(
        out,
        format_args!(
            "#[inline]\nfn {form}(call_: unsafe extern \"C\" fn({taken}) -> {returned}, {declared}) {arrow}{returns} {{\n\
             {before}\
             // SAFETY: the function has this signature; what Fortran passes is valid as the standard says.\n\
             {kept}unsafe {{ call_({}) }}{result}{after}\n}}\n",
            passed.join(", "),
        ),
    );
    for prefix in ["", "P"] {
        let (called, name) = (&function.name, format!("{prefix}{known_as}_").to_lowercase());
        put(
            out,
            format_args!(
                "/// The Fortran form of `{prefix}{known_as}`.\n#[unsafe(no_mangle)]\n\
                 pub extern \"C\" fn {name}({declared}) {arrow}{returns} {{\n\
                 unsafe extern \"C\" {{ fn {prefix}{called}({taken}) -> {returned}; }}\n\
                 {form}({prefix}{called}, {})\n}}\n",
                handed.join(", "),
            ),
        );
    }
}

/// A function of the program's.
fn is_function(p: &Parameter) -> bool {
    p.base.ends_with("_function")
}

/// A function that Fortran and C write alike, as it gets addresses.
fn called_alike(p: &Parameter) -> bool {
    p.base == "MPI_User_function" || p.base.ends_with("_errhandler_function")
}

fn is_address(p: &Parameter) -> bool {
    matches!(p.base.as_str(), "MPI_Aint" | "MPI_Count" | "MPI_Offset")
}

fn is_handle(p: &Parameter) -> bool {
    p.base.starts_with("MPI_") && !is_address(p) && !is_function(p) && p.base != "MPI_Status"
}

fn is_text(p: &Parameter) -> bool {
    p.base == "char"
}

/// What Fortran's address of an argument points to.
fn pointed_to(p: &Parameter, width: Width) -> &str {
    match p.base.as_str() {
        _ if is_address(p) && width == Width::Long => "i64",
        "void" => "c_void",
        _ if is_function(p) => "c_void",
        "char" => "u8",
        _ => "c_int",
    }
}

/// The argument as C takes it.
fn c_type(p: &Parameter) -> &str {
    match p.base.as_str() {
        _ if p.pointer => "*mut c_void",
        "int" => "c_int",
        _ if is_address(p) => "i64",
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

/// How many entries an array of handles or addresses has; what is sent in place has no types.
fn length(function: &Function, p: &Parameter) -> String {
    let has = |name: &str| function.parameters.iter().any(|p| p.name == name);
    if p.name == "sendtypes" {
        return "if is_in_place(sendbuf) { 0 } else { partners(take(comm)) }".to_owned();
    }
    match ["count", "incount", "max_datatypes"].into_iter().find(|name| has(name)) {
        Some(name) => format!("usize::try_from(take({name})).unwrap_or(0)"),
        None => "partners(take(comm))".to_owned(),
    }
}

fn before(function: &Function, p: &Parameter, width: Width) -> String {
    let (name, kind) = (&p.name, convert(p));
    let from = format!("|integer| convert::PMPI_{kind}_fromint(integer).0");
    match (is_handle(p), p.pointer, is_text(p)) {
        (true, true, _) if p.array => {
            format!("let mut {name}_c = handles({name}, {}, {from});\n", length(function, p))
        }
        (true, true, _) => format!("let mut {name}_c = convert::PMPI_{kind}_fromint(take({name})).0;\n"),
        (true, false, _) => format!("let {name}_c = convert::PMPI_{kind}_fromint(take({name})).0;\n"),
        (_, _, true) if p.constant => format!("let mut {name}_c = Text::new({name}, {name}_len);\n"),
        (_, _, true) => format!("let mut {name}_c = Text::room({name}, {name}_len);\n"),
        _ if name == "buflen" => "let mut buflen_c = with_zero(take(buflen));\n".to_owned(),
        _ if !is_address(p) || width == Width::Long || !p.pointer => String::new(),
        _ if p.array => format!("let mut {name}_c = widened({name}, {});\n", length(function, p)),
        _ => format!("let mut {name}_c = 0i64;\n"),
    }
}

fn passed(p: &Parameter, width: Width) -> String {
    let name = &p.name;
    let own = is_handle(p) || (is_address(p) && width == Width::Short) || name == "buflen";
    match (own, p.pointer) {
        (true, true) if p.array => format!("{name}_c.as_mut_ptr().cast()"),
        (true, true) => format!("(&raw mut {name}_c).cast()"),
        (true, false) if is_handle(p) => format!("{name}_c"),
        (true, false) => format!("take({name}).into()"),
        _ if is_text(p) => format!("{name}_c.pointer()"),
        (false, true) => format!("mark({name}.cast())"),
        (false, false) => format!("take({name})"),
    }
}

fn after(p: &Parameter, width: Width) -> String {
    let (name, kind) = (&p.name, convert(p));
    let to = format!("|handle| convert::PMPI_{kind}_toint(boundary::{}(handle))", p.base);
    match (is_handle(p), p.pointer) {
        (true, true) if p.constant => String::new(),
        (true, true) if p.array => format!("give_all({name}, &{name}_c, {to});\n"),
        (true, true) => {
            format!("give({name}, convert::PMPI_{kind}_toint(boundary::{}({name}_c)));\n", p.base)
        }
        (false, true) if is_address(p) && width == Width::Short && !p.array => {
            format!("give({name}, {name}_c as c_int);\n")
        }
        _ if is_text(p) && !p.constant => format!("{name}_c.give({name}, {name}_len);\n"),
        _ if name == "buflen" => "if take(flag) != 0 { give(buflen, buflen_c - 1); }\n".to_owned(),
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
        // Some are other names of another.
        let other = constants.iter().find(|other| other.name == constant.value);
        let text = other.unwrap_or(constant).value.as_str();
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
    let functions = constants.iter().filter(|constant| constant.kind.ends_with("_function"));
    for function in functions.filter(|function| !function.name.starts_with("MPI_CONVERSION")) {
        put(&mut out, format_args!("      EXTERNAL {}\n", function.name));
    }
    for prefix in ["", "P"] {
        for (kind, name) in [
            ("DOUBLE PRECISION", "MPI_WTIME"),
            ("DOUBLE PRECISION", "MPI_WTICK"),
            ("INTEGER(KIND=MPI_ADDRESS_KIND)", "MPI_AINT_ADD"),
            ("INTEGER(KIND=MPI_ADDRESS_KIND)", "MPI_AINT_DIFF"),
        ] {
            put(&mut out, format_args!("      {kind} {prefix}{name}\n      EXTERNAL {prefix}{name}\n"));
        }
    }
    out
}

/// The subroutines behind `MPI_SIZEOF`, and the sizes they tell.
fn intrinsic() -> impl Iterator<Item = (String, usize)> {
    INTRINSIC.into_iter().flat_map(|(kind, sizes)| {
        let parts = if kind == "complex" { 2 } else { 1 };
        sizes.iter().map(move |size| (format!("barewire_sizeof_{kind}{size}"), size * parts))
    })
}

/// The module: what the header declares, and the one subroutine that has to know the type of its argument.
pub fn module() -> String {
    let mut out = String::from(
        "! The module of MPI for Fortran. Written from the tables in crates/mpi-abi/abi; do not edit.\n\
         module mpi\n  implicit none\n  include 'mpif.h'\n  interface\n",
    );
    let types = INTRINSIC.into_iter().flat_map(|(kind, sizes)| sizes.iter().map(move |size| (kind, size)));
    for (kind, size) in types {
        put(
            &mut out,
            format_args!(
                "    subroutine barewire_sizeof_{kind}{size}(x, size, ierror)\n      \
                 {kind}({size}), dimension(..), intent(in) :: x\n      \
                 integer, intent(out) :: size, ierror\n    end subroutine\n"
            ),
        );
    }
    out.push_str(
        "    subroutine barewire_sizeof_character(x, size, ierror)\n      \
         character(*), dimension(..), intent(in) :: x\n      \
         integer, intent(out) :: size, ierror\n    end subroutine\n  end interface\n",
    );
    let names: Vec<String> =
        intrinsic().map(|(name, _)| name).chain(["barewire_sizeof_character".to_owned()]).collect();
    for generic in ["mpi_sizeof", "pmpi_sizeof"] {
        put(&mut out, format_args!("  interface {generic}\n"));
        for name in &names {
            put(&mut out, format_args!("    procedure {name}\n"));
        }
        out.push_str("  end interface\n");
    }
    for name in &names {
        put(&mut out, format_args!("  private :: {name}\n"));
    }
    out.push_str("end module mpi\n");
    out
}

fn put(out: &mut String, text: std::fmt::Arguments<'_>) {
    out.write_fmt(text).expect("a string takes any text");
}
