//! The tables of the ABI, read: which functions and constants there are, and which functions are written by hand.
//!
//! The build script and the tests include this file; it depends on nothing.

use std::collections::BTreeMap;
use std::path::Path;

/// A function of the standard.
pub struct Function {
    pub name: String,
    pub tier: u8,
    pub returns: String,
    /// As the C prototype has them.
    pub prototype: String,
    pub parameters: Vec<Parameter>,
}

pub struct Parameter {
    pub name: String,
    /// The type with neither `const` nor `*` nor `[]`.
    pub base: String,
    pub pointer: bool,
    /// Declared with `[]`.
    pub array: bool,
    pub constant: bool,
}

/// A constant of the standard.
pub struct Constant {
    pub name: String,
    pub kind: String,
    pub value: String,
}

/// An entry point written by hand in `src/shim`.
pub struct HandWritten {
    pub module: String,
    /// Names and types, as written.
    pub parameters: Vec<(String, String)>,
    pub returns: String,
}

pub fn functions(text: &str) -> Vec<Function> {
    rows(text)
        .map(|row| Function {
            name: row[0].to_owned(),
            tier: row[1].parse().expect("the tier is a number"),
            returns: row[2].to_owned(),
            prototype: row[3].to_owned(),
            parameters: row[3].split(", ").filter(|p| *p != "void" && *p != "...").map(parameter).collect(),
        })
        .collect()
}

pub fn constants(text: &str) -> Vec<Constant> {
    let constant =
        |row: Vec<&str>| Constant { name: row[0].into(), kind: row[1].into(), value: row[2].into() };
    rows(text).map(constant).collect()
}

fn rows(text: &str) -> impl Iterator<Item = Vec<&str>> {
    text.lines().skip(1).map(|line| line.split('\t').collect())
}

fn parameter(text: &str) -> Parameter {
    let declarator = text.find('[').map_or(text, |bracket| &text[..bracket]);
    let split = declarator.rfind([' ', '*']).expect("a parameter has a type and a name") + 1;
    let (kind, name) = declarator.split_at(split);
    Parameter {
        name: name.to_owned(),
        base: kind.replace('*', " ").split_whitespace().filter(|word| *word != "const").collect(),
        pointer: kind.contains('*') || text.contains('['),
        array: text.contains('['),
        constant: text.starts_with("const"),
    }
}

impl Parameter {
    /// How a stub declares it in Rust; all pointers look alike to a stub.
    pub fn rust_type(&self) -> &str {
        match self.base.as_str() {
            _ if self.pointer => "*mut c_void",
            "int" | "MPI_T_cb_safety" => "c_int",
            "MPI_Count" | "MPI_Offset" | "MPI_Aint" => "i64",
            function if function.ends_with("_function") => "*mut c_void",
            tool if tool.starts_with("MPI_T_") => "usize",
            handle => handle,
        }
    }
}

impl Function {
    pub fn rust_return(&self) -> &str {
        match self.returns.as_str() {
            "int" => "c_int",
            "double" => "f64",
            "MPI_Aint" => "i64",
            handle => handle,
        }
    }

    /// The parameter whose error handler is told about a failure.
    pub fn error_object(&self) -> Option<&Parameter> {
        let with_handler = ["MPI_Comm", "MPI_Win", "MPI_File", "MPI_Session"];
        self.parameters.iter().find(|p| !p.pointer && with_handler.contains(&p.base.as_str()))
    }

    /// Says what is wrong with a hand-written entry point, if its signature is not this function's.
    pub fn mismatch(&self, written: &HandWritten) -> Option<String> {
        let width = |kind: &str| match kind {
            "c_int" | "i64" | "usize" | "f64" => kind.to_owned(),
            handle if handle.starts_with("MPI_") => handle.to_owned(),
            _ => "*mut c_void".to_owned(),
        };
        if self.rust_return() != written.returns {
            return Some(format!("{} returns {}, not {}", self.name, self.rust_return(), written.returns));
        }
        if self.parameters.len() != written.parameters.len() {
            return Some(format!("{} has {} parameters", self.name, self.parameters.len()));
        }
        let wrong = self
            .parameters
            .iter()
            .zip(&written.parameters)
            .find(|(p, (_, kind))| p.rust_type() != width(kind));
        wrong.map(|(p, (name, kind))| {
            format!("{}: {name} is a {kind}, the table says {}", self.name, p.rust_type())
        })
    }
}

/// Every `fn PMPI_…` in a directory of Rust files, by its name without the P.
pub fn hand_written(directory: &Path) -> BTreeMap<String, HandWritten> {
    let mut found = BTreeMap::new();
    for entry in std::fs::read_dir(directory).expect("the directory of shims is readable") {
        let path = entry.expect("the directory of shims is readable").path();
        let text = std::fs::read_to_string(&path).expect("a shim file is readable");
        let module = path.file_stem().expect("a file has a name").to_string_lossy().into_owned();
        for piece in text.split("fn P").skip(1).filter(|piece| piece.starts_with("MPI_")) {
            let open = piece.find('(').expect("a function has parameters");
            let close = piece.find(')').expect("the parameters end");
            let body = close + piece[close..].find('{').expect("a function has a body");
            let returns = piece[close + 1..body].trim().strip_prefix("->").map_or("c_int", str::trim);
            let parameters =
                piece[open + 1..close].split(", ").flat_map(|p| p.split(",\n")).filter_map(|p| {
                    let (name, kind) = p.trim().trim_end_matches(',').split_once(": ")?;
                    Some((name.to_owned(), kind.trim().to_owned()))
                });
            let written = HandWritten {
                module: module.clone(),
                parameters: parameters.collect(),
                returns: returns.to_owned(),
            };
            found.insert(piece[..open].to_owned(), written);
        }
    }
    found
}

/// How an entry point is one of several forms of a function that is written once.
pub struct Form {
    pub module: String,
    /// The Rust function.
    pub function: String,
    /// What it gets before the arguments, if it comes in blocking, non-blocking and persistent forms.
    pub how: Option<&'static str>,
    /// Parameters at the end that are in `how`.
    pub taken: usize,
    /// Whether the Rust function is generic over the width of counts.
    pub generic: bool,
    /// Whether counts are wide.
    pub wide: bool,
}

/// Every `pub(crate) fn name<N: Number>(` and every `pub(crate) fn name(how: How` in a directory of Rust files.
pub struct Forms(Vec<(String, String, bool, bool)>);

impl Forms {
    pub fn read(directory: &Path) -> Forms {
        let mut found = Vec::new();
        for entry in std::fs::read_dir(directory).expect("the directory of shims is readable") {
            let path = entry.expect("the directory of shims is readable").path();
            let text = std::fs::read_to_string(&path).expect("a shim file is readable");
            let module = path.file_stem().expect("a file has a name").to_string_lossy().into_owned();
            for piece in text.split("\npub(crate) fn ").skip(1) {
                let open = piece.find('(').expect("a function has parameters");
                let (name, generic) = match piece[..open].strip_suffix("<N: Number>") {
                    Some(name) => (name, true),
                    None => (&piece[..open], false),
                };
                let timed = piece[open + 1..].trim_start().starts_with("how: How");
                if generic || timed {
                    found.push((name.to_owned(), module.clone(), generic, timed));
                }
            }
        }
        Forms(found)
    }

    /// The form an entry point is, if its function is there.
    pub fn of(&self, name: &str) -> Option<Form> {
        let lower = name.strip_prefix("MPI_")?.to_lowercase();
        let (base, wide) = lower.strip_suffix("_c").map_or((lower.as_str(), false), |base| (base, true));
        let find = |name: &str| self.0.iter().find(|(known, ..)| known == name);
        let ways = [
            (Some(base), "crate::coll::How::Now", 0),
            (base.strip_prefix('i'), "crate::coll::How::Later(request)", 1),
            (base.strip_suffix("_init"), "crate::coll::How::Again(info, request)", 2),
        ];
        ways.into_iter().find_map(|(name, how, taken)| {
            let (function, module, generic, timed) = find(name?)?;
            let how = if *timed { Some(how) } else { None };
            let fits = (*generic || !wide) && (*timed || taken == 0);
            let form = Form {
                module: module.clone(),
                function: function.clone(),
                how,
                taken,
                generic: *generic,
                wide,
            };
            fits.then_some(form)
        })
    }
}

impl Parameter {
    /// How an entry point that is one of several forms declares it.
    pub fn argument_type(&self) -> String {
        match (self.base.as_str(), self.pointer) {
            ("void", true) => "Memory".to_owned(),
            ("MPI_Request" | "MPI_Win", true) => format!("Out<{}>", self.base),
            ("int", true) => "List<c_int>".to_owned(),
            ("MPI_Count" | "MPI_Aint", true) => "List<i64>".to_owned(),
            (base, true) => format!("List<{base}>"),
            _ => self.rust_type().to_owned(),
        }
    }
}
