//! Arguments as people type them: `-np 4 -host a,b prog args : -n 1 other`.
//!
//! Other launchers' long options have one dash and the program needs no `--` before it. This turns such a line into what
//! clap understands, guided by clap's own table of options, and cuts it into one list for each program.

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};

use anyhow::bail;
use clap::{ArgAction, Command};

/// Cuts a command line at the lone colons, and makes each part readable for clap.
pub fn normalise(command: &Command, words: impl IntoIterator<Item = OsString>) -> Vec<Vec<OsString>> {
    let options = Options::of(command);
    let mut parts = vec![Vec::new()];
    for word in words {
        if word == ":" {
            parts.push(Vec::new());
        } else {
            parts.last_mut().expect("there is always a part").push(word);
        }
    }
    parts.into_iter().map(|part| options.normalise(part)).collect()
}

/// Refuses `--env NAME=VALUE`, which would take the next word, often the program, for the value.
pub fn check_variables(part: &[OsString]) -> anyhow::Result<()> {
    let options = part.iter().take_while(|word| *word != "--");
    for (option, name) in options.zip(&part[1.min(part.len())..]) {
        let (Some(option @ ("--env" | "--genv")), Some(text)) = (option.to_str(), name.to_str()) else {
            continue;
        };
        match text.split_once('=') {
            None if text.is_empty() => bail!("{option}: the name is empty; write {option} NAME VALUE"),
            Some((name, value)) => bail!(
                "{option} {text}: name and value are two words; write {option} {name} {value}, or -x {text}"
            ),
            None => {}
        }
    }
    Ok(())
}

/// How many values each option takes, by name.
struct Options {
    long: HashMap<String, usize>,
    short: HashMap<char, usize>,
}

impl Options {
    fn of(command: &Command) -> Self {
        let (mut long, mut short) = (HashMap::new(), HashMap::new());
        for arg in command.get_arguments().filter(|arg| !arg.is_positional()) {
            let takes = match arg.get_action() {
                ArgAction::Set | ArgAction::Append => {
                    arg.get_num_args().map_or(1, |range| range.max_values())
                }
                _ => 0,
            };
            let names = arg.get_long().into_iter().chain(arg.get_all_aliases().into_iter().flatten());
            long.extend(names.map(|name| (name.to_owned(), takes)));
            let letters =
                arg.get_short().into_iter().chain(arg.get_all_short_aliases().into_iter().flatten());
            short.extend(letters.map(|letter| (letter, takes)));
        }
        Self { long, short }
    }

    /// Puts two dashes before long names and `--` before the program.
    fn normalise(&self, words: Vec<OsString>) -> Vec<OsString> {
        let mut words = words.into_iter();
        let mut done = Vec::new();
        while let Some(word) = words.next() {
            if word == "--" {
                done.push(word);
                break;
            }
            let Some((word, values)) = self.option(&word) else {
                if !is_option(&word) {
                    done.push("--".into());
                }
                done.push(word);
                break;
            };
            done.push(word);
            done.extend(words.by_ref().take(values));
        }
        done.extend(words);
        done
    }

    /// The option in clap's spelling and the number of words that follow it.
    fn option(&self, word: &OsStr) -> Option<(OsString, usize)> {
        let text = word.to_str()?;
        let bare = text.strip_prefix("--").or_else(|| text.strip_prefix('-'))?;
        let (name, attached) = match bare.split_once('=') {
            Some((name, _)) => (name, true),
            None => (bare, false),
        };
        let mut letters = name.chars();
        let single = letters.next().filter(|_| letters.next().is_none() && !text.starts_with("--"));
        if let Some(takes) = single.and_then(|letter| self.short.get(&letter)) {
            return Some((word.to_owned(), if attached { 0 } else { *takes }));
        }
        if let Some(takes) = self.long.get(name) {
            return Some((format!("--{bare}").into(), if attached { 0 } else { *takes }));
        }
        // A letter with its value attached, as in -n4.
        let letter = name.chars().next().filter(|_| !text.starts_with("--"))?;
        let takes = *self.short.get(&letter)?;
        let digits = takes == 1 && name[letter.len_utf8()..].starts_with(|c: char| c.is_ascii_digit());
        (digits || (takes == 1 && letter == 'x')).then(|| (word.to_owned(), 0))
    }
}

fn is_option(word: &OsStr) -> bool {
    word.to_str().is_some_and(|text| text.starts_with('-') && text.len() > 1)
}

#[cfg(test)]
mod tests {
    use super::super::options::RunOptions;
    use super::*;

    fn parts(line: &str) -> Vec<String> {
        let command = <RunOptions as clap::Args>::augment_args(Command::new("run"));
        let words = line.split(' ').map(OsString::from);
        let parts = normalise(&command, words);
        let text =
            |part: Vec<OsString>| part.iter().map(|w| w.to_str().unwrap()).collect::<Vec<_>>().join(" ");
        parts.into_iter().map(text).collect()
    }

    #[test]
    fn options_of_other_launchers_are_understood() {
        assert_eq!(parts("-np 4 prog -np 5"), ["--np 4 -- prog -np 5"]);
        assert_eq!(parts("-n 4 -host a,b -ppn 2 prog"), ["-n 4 --host a,b --ppn 2 -- prog"]);
        assert_eq!(parts("-n4 -genv A b -env C d prog"), ["-n4 --genv A b --env C d -- prog"]);
        assert_eq!(parts("--bind-to core --oversubscribe prog"), ["--bind-to core --oversubscribe -- prog"]);
        assert_eq!(parts("-wdir /x -x A=1 -xB prog"), ["--wdir /x -x A=1 -xB -- prog"]);
        assert_eq!(parts("--timeout=5 prog"), ["--timeout=5 -- prog"]);
    }

    #[test]
    fn a_variable_and_its_value_are_two_words() {
        let refused = |words: &[&str]| {
            let words: Vec<OsString> = words.iter().map(OsString::from).collect();
            check_variables(&words).err().map(|error| error.to_string())
        };
        assert!(refused(&["--env", "A=1", "prog"]).unwrap().contains("write --env A 1, or -x A=1"));
        assert!(refused(&["--genv", "", "1"]).unwrap().contains("the name is empty"));
        assert_eq!(refused(&["--env", "A", "b=c", "--", "prog", "--env", "x=y"]), None);
        assert_eq!(refused(&[]), None);
    }

    #[test]
    fn a_lone_colon_starts_the_next_program() {
        assert_eq!(parts("-n 1 a x : -n 2 b"), ["-n 1 -- a x", "-n 2 -- b"]);
    }

    #[test]
    fn what_is_not_known_is_left_for_clap_to_refuse() {
        assert_eq!(parts("-n 4 --tag-outptu prog"), ["-n 4 --tag-outptu prog"]);
        assert_eq!(parts("-n 4 -- -strange"), ["-n 4 -- -strange"]);
    }
}
