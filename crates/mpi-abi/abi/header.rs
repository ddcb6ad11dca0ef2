//! mpi.h, written from the tables.
//!
//! The tables hold the names, values and prototypes; this file adds what a table cannot say: the types, and the order.

use super::table::{Constant, Function};
use std::fmt::Write;

/// Handle types, each a pointer to a structure nobody defines.
const HANDLES: [&str; 11] = [
    "MPI_Comm",
    "MPI_Datatype",
    "MPI_Errhandler",
    "MPI_File",
    "MPI_Group",
    "MPI_Info",
    "MPI_Message",
    "MPI_Op",
    "MPI_Request",
    "MPI_Session",
    "MPI_Win",
];
const TOOL_HANDLES: [&str; 6] = [
    "MPI_T_enum",
    "MPI_T_cvar_handle",
    "MPI_T_pvar_handle",
    "MPI_T_pvar_session",
    "MPI_T_event_registration",
    "MPI_T_event_instance",
];

/// Function types: result, name, parameters.
const CALLBACKS: &[(&str, &str, &str)] = &[
    ("void", "MPI_User_function", "void *, void *, int *, MPI_Datatype *"),
    ("void", "MPI_User_function_c", "void *, void *, MPI_Count *, MPI_Datatype *"),
    ("int", "MPI_Grequest_query_function", "void *, MPI_Status *"),
    ("int", "MPI_Grequest_free_function", "void *"),
    ("int", "MPI_Grequest_cancel_function", "void *, int"),
    ("int", "MPI_Copy_function", "MPI_Comm, int, void *, void *, void *, int *"),
    ("int", "MPI_Delete_function", "MPI_Comm, int, void *, void *"),
    ("int", "MPI_Comm_copy_attr_function", "MPI_Comm, int, void *, void *, void *, int *"),
    ("int", "MPI_Comm_delete_attr_function", "MPI_Comm, int, void *, void *"),
    ("int", "MPI_Type_copy_attr_function", "MPI_Datatype, int, void *, void *, void *, int *"),
    ("int", "MPI_Type_delete_attr_function", "MPI_Datatype, int, void *, void *"),
    ("int", "MPI_Win_copy_attr_function", "MPI_Win, int, void *, void *, void *, int *"),
    ("int", "MPI_Win_delete_attr_function", "MPI_Win, int, void *, void *"),
    ("int", "MPI_Datarep_extent_function", "MPI_Datatype, MPI_Aint *, void *"),
    ("int", "MPI_Datarep_conversion_function", "void *, MPI_Datatype, int, void *, MPI_Offset, void *"),
    (
        "int",
        "MPI_Datarep_conversion_function_c",
        "void *, MPI_Datatype, MPI_Count, void *, MPI_Offset, void *",
    ),
    ("void", "MPI_Comm_errhandler_function", "MPI_Comm *, int *, ..."),
    ("void", "MPI_File_errhandler_function", "MPI_File *, int *, ..."),
    ("void", "MPI_Win_errhandler_function", "MPI_Win *, int *, ..."),
    ("void", "MPI_Session_errhandler_function", "MPI_Session *, int *, ..."),
    (
        "void",
        "MPI_T_event_cb_function",
        "MPI_T_event_instance, MPI_T_event_registration, MPI_T_cb_safety, void *",
    ),
    ("void", "MPI_T_event_free_cb_function", "MPI_T_event_registration, MPI_T_cb_safety, void *"),
    (
        "void",
        "MPI_T_event_dropped_cb_function",
        "MPI_Count, MPI_T_event_registration, int, MPI_T_cb_safety, void *",
    ),
];

pub fn header(functions: &[Function], constants: &[Constant]) -> String {
    let mut out = String::from(
        "/* MPI 5.0, standard ABI 1.0. Written from the tables in crates/mpi-abi/abi; do not edit. */\n\
         #ifndef BAREWIRE_MPI_H\n#define BAREWIRE_MPI_H\n\n#include <stdint.h>\n\n\
         #ifdef __cplusplus\nextern \"C\" {\n#endif\n\n\
         typedef intptr_t MPI_Aint;\ntypedef int64_t MPI_Count;\ntypedef int64_t MPI_Offset;\n\n\
         typedef struct MPI_Status {\n    int MPI_SOURCE;\n    int MPI_TAG;\n    int MPI_ERROR;\n    \
         int MPI_internal[5];\n} MPI_Status;\n\n",
    );
    for name in HANDLES {
        put(&mut out, format_args!("typedef struct {} *{name};\n", name.replacen("MPI_", "MPI_ABI_", 1)));
    }
    for name in TOOL_HANDLES {
        put(&mut out, format_args!("typedef struct {name}_t *{name};\n"));
    }
    enumeration(&mut out, "MPI_T_cb_safety", "MPI_T_CB_REQUIRE_", constants);
    enumeration(&mut out, "MPI_T_source_order", "MPI_T_SOURCE_", constants);
    out.push('\n');
    for (result, name, parameters) in CALLBACKS {
        put(&mut out, format_args!("typedef {result} {name}({parameters});\n"));
    }
    for kind in ["Comm", "File", "Win", "Session"] {
        put(&mut out, format_args!("typedef MPI_{kind}_errhandler_function MPI_{kind}_errhandler_fn;\n"));
    }
    out.push('\n');
    let in_enumeration =
        |name: &str| name.starts_with("MPI_T_CB_REQUIRE_") || name.starts_with("MPI_T_SOURCE_");
    for constant in constants.iter().filter(|constant| !in_enumeration(&constant.name)) {
        put(&mut out, format_args!("#define {} {}\n", constant.name, value(constant)));
    }
    for prefix in ["", "P"] {
        out.push('\n');
        for Function { name, returns, prototype, .. } in functions {
            put(&mut out, format_args!("{returns} {prefix}{name}({prototype});\n"));
        }
    }
    fortran_integers(&mut out);
    removed_names(&mut out);
    out.push_str("\n#ifdef __cplusplus\n}\n#endif\n\n#endif\n");
    out
}

/// Conversions to and from the integers of Fortran. The ABI leaves them to the header: what they call is in every library.
fn fortran_integers(out: &mut String) {
    out.push_str("\ntypedef int MPI_Fint;\n\n");
    for handle in HANDLES {
        let name = if handle == "MPI_Datatype" { "MPI_Type" } else { handle };
        put(
            out,
            format_args!("static __inline MPI_Fint {name}_c2f({handle} c) {{ return {name}_toint(c); }}\n"),
        );
        put(
            out,
            format_args!("static __inline {handle} {name}_f2c(MPI_Fint f) {{ return {name}_fromint(f); }}\n"),
        );
    }
    let head = ["MPI_SOURCE", "MPI_TAG", "MPI_ERROR"];
    out.push_str("static __inline int MPI_Status_c2f(const MPI_Status *c, MPI_Fint *f) {\n    int i;\n");
    for (at, field) in head.iter().enumerate() {
        put(out, format_args!("    f[{at}] = c->{field};\n"));
    }
    out.push_str("    for (i = 0; i < 5; i++) f[3 + i] = c->MPI_internal[i];\n    return MPI_SUCCESS;\n}\n");
    out.push_str("static __inline int MPI_Status_f2c(const MPI_Fint *f, MPI_Status *c) {\n    int i;\n");
    for (at, field) in head.iter().enumerate() {
        put(out, format_args!("    c->{field} = f[{at}];\n"));
    }
    out.push_str("    for (i = 0; i < 5; i++) c->MPI_internal[i] = f[3 + i];\n    return MPI_SUCCESS;\n}\n");
    for handle in HANDLES.iter().chain(["MPI_Status"].iter()) {
        let name = if *handle == "MPI_Datatype" { "MPI_Type" } else { handle };
        put(out, format_args!("#define P{name}_c2f {name}_c2f\n#define P{name}_f2c {name}_f2c\n"));
    }
}

/// Names that MPI 3 removed and that programs still use. The ABI has none of them; what took their place is in every library.
fn removed_names(out: &mut String) {
    out.push_str("\n/* Removed by MPI 3; old programs use them. */\n");
    let renamed = [
        ("MPI_Address", "MPI_Get_address"),
        ("MPI_Errhandler_create", "MPI_Comm_create_errhandler"),
        ("MPI_Errhandler_get", "MPI_Comm_get_errhandler"),
        ("MPI_Errhandler_set", "MPI_Comm_set_errhandler"),
        ("MPI_Handler_function", "MPI_Comm_errhandler_function"),
        ("MPI_Type_hindexed", "MPI_Type_create_hindexed"),
        ("MPI_Type_hvector", "MPI_Type_create_hvector"),
        ("MPI_Type_struct", "MPI_Type_create_struct"),
    ];
    for (old, new) in renamed {
        put(out, format_args!("#ifndef {old}\n#define {old} {new}\n#endif\n"));
    }
    for (old, answer) in [("extent", "extent"), ("lb", "lb"), ("ub", "lb + extent")] {
        put(
            out,
            format_args!(
                "#ifndef MPI_Type_{old}\nstatic __inline int MPI_Type_{old}(MPI_Datatype datatype, MPI_Aint *{old}_out) {{\n    \
                 MPI_Aint lb = 0, extent = 0;\n    int code = MPI_Type_get_extent(datatype, &lb, &extent);\n    \
                 *{old}_out = {answer};\n    return code;\n}}\n#endif\n"
            ),
        );
    }
}

fn put(out: &mut String, text: std::fmt::Arguments<'_>) {
    out.write_fmt(text).expect("a string takes any text");
}

/// An enumeration type of C; its members are constants too.
fn enumeration(out: &mut String, name: &str, prefix: &str, constants: &[Constant]) {
    let members = constants.iter().filter(|constant| constant.name.starts_with(prefix));
    let members: Vec<_> =
        members.map(|constant| format!("    {} = {}", constant.name, constant.value)).collect();
    // No comma behind the last: C of 1989 takes it for an error.
    put(out, format_args!("\ntypedef enum {name} {{\n{}\n}} {name};\n", members.join(",\n")));
}

/// The value as C writes it, with the type it has.
fn value(constant: &Constant) -> String {
    let value = &constant.value;
    match (constant.name.as_str(), constant.kind.as_str()) {
        ("MPI_ARGV_NULL" | "MPI_ARGVS_NULL", _) => format!("(({value})"),
        ("MPI_ERRCODES_IGNORE" | "MPI_UNWEIGHTED" | "MPI_WEIGHTS_EMPTY", _) => format!("((int *){value})"),
        (_, "int") if value.starts_with('-') => format!("({value})"),
        (_, "int") => value.clone(),
        (_, kind) if HANDLES.contains(&kind) || TOOL_HANDLES.contains(&kind) || kind == "MPI_Offset" => {
            format!("(({kind}){value})")
        }
        (_, kind) => format!("(({kind} *){value})"),
    }
}
