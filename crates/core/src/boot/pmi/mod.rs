//! PMI-1: the start-up protocol of MPICH, Intel MPI, Slurm and their relatives.
//!
//! One command a line, `cmd=name key=value …`, over the descriptor in `PMI_FD`. A job shares one space of keys and
//! values: every rank puts, all meet in a barrier, then everybody gets. [`client`] lets our programs start under other
//! launchers, [`server`] lets programs of other MPIs start under ours.

pub mod client;
pub mod server;

/// The fields of a line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line<'a> {
    fields: Vec<(&'a str, &'a str)>,
}

impl<'a> Line<'a> {
    /// Reads a line; `None` if it has no command.
    pub fn parse(text: &'a str) -> Option<Self> {
        let fields: Vec<_> = text.split_ascii_whitespace().filter_map(|word| word.split_once('=')).collect();
        let line = Self { fields };
        (line.get("cmd").is_some() || line.get("mcmd").is_some()).then_some(line)
    }

    /// What is asked or answered.
    pub fn command(&self) -> &'a str {
        self.get("cmd").or_else(|| self.get("mcmd")).unwrap_or_default()
    }

    /// A field's value.
    pub fn get(&self, name: &str) -> Option<&'a str> {
        self.fields.iter().find(|(key, _)| *key == name).map(|&(_, value)| value)
    }

    /// A field's number.
    pub fn number<T: std::str::FromStr>(&self, name: &str) -> Option<T> {
        self.get(name)?.parse().ok()
    }

    /// Whether the answer is a success.
    pub fn is_ok(&self) -> bool {
        self.get("rc").is_none_or(|rc| rc == "0")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_may_hold_an_equals_sign() {
        let line = Line::parse("cmd=get_result rc=0 value=a=b").unwrap();
        assert_eq!((line.command(), line.get("value"), line.get("msg")), ("get_result", Some("a=b"), None));
    }
}
