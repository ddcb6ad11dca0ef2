//! The files written from the tables are in step with them. `BAREWIRE_BLESS=1` writes them anew.

#[path = "../abi/coverage.rs"]
mod coverage;
#[path = "../abi/fortran.rs"]
#[allow(dead_code, reason = "the build script uses the rest")]
mod fortran;
#[path = "../abi/header.rs"]
mod header;
#[path = "../abi/table.rs"]
#[allow(dead_code, reason = "the build script uses the rest")]
mod table;

use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

fn tables() -> (Vec<table::Function>, Vec<table::Constant>) {
    let read = |name: &str| std::fs::read_to_string(root().join("abi").join(name)).unwrap();
    (table::functions(&read("functions.tsv")), table::constants(&read("constants.tsv")))
}

fn in_step(path: &Path, expected: &str) {
    if std::env::var_os("BAREWIRE_BLESS").is_some() {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, expected).unwrap();
    }
    let found = std::fs::read_to_string(path).unwrap();
    assert!(found == expected, "{} is out of step; run the test with BAREWIRE_BLESS=1", path.display());
}

#[test]
fn the_header_is_what_the_tables_say() {
    let (functions, constants) = tables();
    in_step(&root().join("include/mpi.h"), &header::header(&functions, &constants));
}

#[test]
fn the_header_and_module_for_fortran_are_what_the_tables_say() {
    let (_, constants) = tables();
    in_step(&root().join("include/mpif.h"), &fortran::header(&constants));
    in_step(&root().join("include/mpi.f90"), &fortran::module());
}

#[test]
fn fortran_can_call_every_function_of_the_first_tier() {
    let (functions, _) = tables();
    let missing: Vec<&str> =
        fortran::missing(&functions).filter(|f| f.tier == 1).map(|f| f.name.as_str()).collect();
    assert_eq!(missing, Vec::<&str>::new());
}

#[test]
fn the_list_of_missing_functions_is_what_the_shims_leave_out() {
    let (functions, _) = tables();
    let (written, forms) =
        (table::hand_written(&root().join("src/shim")), table::Forms::read(&root().join("src/shim")));
    let text = coverage::coverage(&functions, &written, &forms, fortran::missing(&functions));
    in_step(&root().join("../../docs/mpi-coverage.md"), &text);
}

#[test]
fn the_tables_are_complete() {
    let (functions, constants) = tables();
    assert_eq!(functions.len(), 664);
    assert_eq!(constants.len(), 364);
}

/// Every error class and every predefined datatype and operation inside has the value of the table, and none is left out.
#[test]
fn the_numbers_inside_are_those_of_the_table() {
    use barewire::mpi::{datatype::Basic, error::Class, op::Builtin};
    let (_, constants) = tables();
    let number = |text: &str| match text.strip_prefix("0x") {
        Some(hex) => i64::from_str_radix(hex, 16).unwrap(),
        None => text.parse().unwrap(),
    };
    let mut seen = (0, 0, 0);
    for constant in &constants {
        let name = constant.name.as_str();
        match constant.kind.as_str() {
            "MPI_Datatype" if name != "MPI_DATATYPE_NULL" => {
                let basic =
                    Basic::from_handle(number(&constant.value) as usize).unwrap_or_else(|| panic!("{name}"));
                let other_names = ["MPI_LONG_LONG", "MPI_C_FLOAT_COMPLEX"];
                assert!(basic.name() == name || other_names.contains(&name), "{name} is {}", basic.name());
                seen.0 += 1;
            }
            "MPI_Op" if name != "MPI_OP_NULL" => {
                assert_eq!(Builtin::from_handle(number(&constant.value) as usize).unwrap().name(), name);
                seen.1 += 1;
            }
            "int"
                if name == "MPI_SUCCESS"
                    || name.starts_with("MPI_ERR_")
                    || name.starts_with("MPI_T_ERR_") =>
            {
                match name {
                    "MPI_ERR_LASTCODE" => {
                        assert_eq!(number(&constant.value), barewire::mpi::error::LAST_CODE.into())
                    }
                    _ => {
                        assert_eq!(Class::from_value(number(&constant.value) as i32).unwrap().name(), name);
                        seen.2 += 1;
                    }
                }
            }
            _ => {}
        }
    }
    assert_eq!(seen, (Basic::all().len(), Builtin::ALL.len(), Class::ALL.len()));
}

#[test]
fn the_header_is_c_of_every_year() {
    for (compiler, language, standards) in
        [("cc", "c", &["c89", "c99", "c11"][..]), ("c++", "c++", &["c++11", "c++17"])]
    {
        for standard in standards {
            let mut command = std::process::Command::new(compiler);
            command.args([&format!("-std={standard}"), "-x", language, "-pedantic-errors", "-fsyntax-only"]);
            let Ok(output) = command.arg(root().join("include/mpi.h")).output() else {
                // Without C++ the tests of C are all there is.
                assert_ne!(compiler, "cc", "a C compiler is installed");
                continue;
            };
            assert!(output.status.success(), "{standard}: {}", String::from_utf8_lossy(&output.stderr));
        }
    }
}
