//! `bmi.h` says what the tables say, and the library exports it. `BAREWIRE_BLESS=1` writes the header anew.

use std::fmt::Write;
use std::path::Path;

const FUNCTIONS: &str = include_str!("../abi/functions.tsv");
const CONSTANTS: &str = include_str!("../abi/constants.tsv");

const OPENING: &str = "\
/* bmi.h: the Buffered Message Interface on Barewire. Made from the tables in abi/; do not edit. */
#ifndef BMI_H
#define BMI_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern \"C\" {
#endif

typedef int64_t bmi_size_t;
typedef int64_t bmi_context_id;
typedef int64_t bmi_op_id_t;
typedef int64_t BMI_addr_t;
typedef int32_t bmi_msg_tag_t;
typedef int32_t bmi_error_code_t;
/* Nothing here takes hints: NULL. */
typedef struct bmi_hint_list *bmi_hint;

enum bmi_op_type { BMI_SEND = 1, BMI_RECV = 2 };
enum bmi_buffer_type { BMI_PRE_ALLOC = 1, BMI_EXT_ALLOC = 2 };

struct BMI_unexpected_info {
    bmi_error_code_t error_code;
    BMI_addr_t addr;
    void *buffer;
    bmi_size_t size;
    bmi_msg_tag_t tag;
};

";

const CLOSING: &str = "
#ifdef __cplusplus
}
#endif

#endif
";

fn rows(table: &'static str) -> impl Iterator<Item = Vec<&'static str>> {
    table.lines().skip(1).filter(|line| !line.is_empty()).map(|line| line.split('\t').collect())
}

/// The names of a C function's parameters.
fn names(parameters: &str) -> Vec<String> {
    let name = |parameter: &str| {
        let word = |c: char| c.is_ascii_alphanumeric() || c == '_';
        parameter.rsplit(|c| !word(c)).next().unwrap_or_default().to_owned()
    };
    parameters.split(',').map(name).collect()
}

fn header() -> String {
    let mut text = OPENING.to_owned();
    for row in rows(CONSTANTS) {
        // The two enumerations are above.
        if !["BMI_SEND", "BMI_RECV", "BMI_PRE_ALLOC", "BMI_EXT_ALLOC"].contains(&row[0]) {
            writeln!(text, "#define {} ({})", row[0], row[1]).unwrap();
        }
    }
    text += "\n";
    let functions: Vec<_> = rows(FUNCTIONS).collect();
    for row in functions.iter().filter(|row| row[1] != "macro") {
        writeln!(text, "{} {}({});", row[1], row[0], row[2]).unwrap();
    }
    text += "\n";
    for row in functions.iter().filter(|row| row[1] == "macro") {
        let class = format!("{}_class", row[0]);
        let of_class = functions.iter().find(|row| row[0] == class).expect("a macro stands for a function");
        let all = names(of_class[2]);
        let passed: Vec<String> = all
            .iter()
            .map(|name| if name == "msg_class" { "0".into() } else { format!("({name})") })
            .collect();
        let taken: Vec<&str> = all.iter().map(String::as_str).filter(|name| *name != "msg_class").collect();
        writeln!(text, "#define {}({}) \\\n    {class}({})", row[0], taken.join(", "), passed.join(", "))
            .unwrap();
    }
    text + CLOSING
}

#[test]
fn the_header_is_what_the_tables_say() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("include/bmi.h");
    if std::env::var_os("BAREWIRE_BLESS").is_some() {
        std::fs::write(&path, header()).unwrap();
    }
    let there = std::fs::read_to_string(path).unwrap_or_default();
    assert!(there == header(), "bmi.h and the tables differ; BAREWIRE_BLESS=1 writes it anew");
}

#[test]
fn every_function_of_the_table_has_an_entry_point() {
    let source = include_str!("../src/shim.rs");
    for row in rows(FUNCTIONS).filter(|row| row[1] != "macro") {
        assert!(source.contains(&format!("pub extern \"C\" fn {}(", row[0])), "{} is missing", row[0]);
    }
}

#[test]
fn the_numbers_of_errors_are_the_table_s() {
    use barewire::bmi::{Error, Failure};
    let number = |name: &str| {
        let row = rows(CONSTANTS).find(|row| row[0] == name).unwrap();
        row[1].split('|').fold(0, |sum, part| {
            sum | match part.strip_prefix("(1<<") {
                Some(bit) => 1 << bit.trim_end_matches(')').parse::<i32>().unwrap(),
                None => part.parse::<i32>().unwrap(),
            }
        })
    };
    assert_eq!(-Failure::Cancelled.code(), number("BMI_ECANCEL"));
    assert_eq!(-Failure::Lost.code(), number("BMI_ECONNRESET"));
    assert_eq!(-Failure::Unreachable.code(), number("BMI_ECONNREFUSED"));
    assert_eq!(-Failure::TooLong.code(), number("BMI_EMSGSIZE"));
    assert_eq!(-Error::NoSuchOp.code(), number("BMI_EINVAL"));
    assert_eq!(-Error::NoSuchOption.code(), number("BMI_ENOSYS"));
    assert_eq!(-Error::Finalized.code(), number("BMI_ENODEV"));
}
