//! The serving half of PMI-1: one session a rank, one store a job.

use std::collections::HashMap;

use super::super::Layout;
use super::Line;

/// The keys and values of one job, and its published names.
#[derive(Debug)]
pub struct Store {
    name: String,
    values: HashMap<String, String>,
    names: HashMap<String, String>,
    bytes: usize,
}

/// What one rank has half said: a spawn command has several lines.
#[derive(Debug, Default)]
pub struct Session {
    in_spawn: bool,
}

/// What to do about a line.
#[derive(Debug, PartialEq, Eq)]
pub enum Answer {
    /// Nothing yet.
    Nothing,
    /// Send this line.
    Line(String),
    /// The rank waits for the others.
    Barrier,
    /// The rank ends the job.
    Abort {
        /// With this status.
        code: i32,
        /// And these words.
        message: String,
    },
}

impl Store {
    /// The store of job `name`, which knows where the ranks are.
    pub fn new(name: &str, layout: &Layout) -> Self {
        let mut store =
            Self { name: format!("kvs_{name}"), values: HashMap::new(), names: HashMap::new(), bytes: 0 };
        let mapping = layout.to_pmi();
        if mapping.len() <= VALUE_BYTES_MAX {
            store.put("PMI_process_mapping", &mapping).expect("an empty store has room");
        }
        store
    }

    fn put(&mut self, key: &str, value: &str) -> Result<(), &'static str> {
        if key.len() > KEY_BYTES_MAX || value.len() > VALUE_BYTES_MAX {
            return Err("too_long");
        }
        let old = self.values.get(key).map_or(0, |old| key.len() + old.len());
        let bytes = self.bytes - old + key.len() + value.len();
        if bytes > STORE_BYTES_MAX {
            return Err("store_is_full");
        }
        self.bytes = bytes;
        self.values.insert(key.to_owned(), value.to_owned());
        Ok(())
    }
}

impl Session {
    /// Answers a line of this rank.
    pub fn line(&mut self, line: &[u8], store: &mut Store, size: u32) -> Answer {
        let Ok(text) = std::str::from_utf8(line) else { return unknown() };
        if self.in_spawn {
            if text.trim_end() != "endcmd" {
                return Answer::Nothing;
            }
            self.in_spawn = false;
            return reply("spawn_result rc=-1 msg=spawn_not_supported".into());
        }
        let Some(line) = Line::parse(text) else { return unknown() };
        match line.command() {
            "spawn" if line.get("mcmd").is_some() => {
                self.in_spawn = true;
                Answer::Nothing
            }
            "init" => init(&line),
            "initack" => reply("initack rc=0".into()),
            "get_maxes" => reply(format!(
                "maxes rc=0 kvsname_max={NAME_BYTES_MAX} keylen_max={KEY_BYTES_MAX} vallen_max={VALUE_BYTES_MAX}"
            )),
            "get_appnum" => reply("appnum rc=0 appnum=0".into()),
            "get_my_kvsname" => reply(format!("my_kvsname rc=0 kvsname={}", store.name)),
            "get_universe_size" => reply(format!("universe_size rc=0 size={size}")),
            "get_ranks2hosts" => reply("put_ranks2hosts rc=-1 msg=not_supported".into()),
            "put" => put(&line, store),
            "get" => get(&line, store),
            "barrier_in" => Answer::Barrier,
            "finalize" => reply("finalize_ack rc=0".into()),
            "abort" => Answer::Abort {
                code: line.number("exitcode").unwrap_or(1),
                message: line.get("message").or_else(|| line.get("error_msg")).unwrap_or_default().to_owned(),
            },
            "publish_name" | "unpublish_name" | "lookup_name" => name_service(&line, store),
            _ => unknown(),
        }
    }
}

/// The line that lets a rank out of a barrier.
pub fn barrier_out(complete: bool) -> String {
    format!("cmd=barrier_out rc={}\n", if complete { 0 } else { -1 })
}

fn reply(text: String) -> Answer {
    Answer::Line(format!("cmd={text}\n"))
}

fn unknown() -> Answer {
    reply("unknown_command rc=-1 msg=unknown_command".into())
}

fn init(line: &Line<'_>) -> Answer {
    let version = line.get("pmi_version").unwrap_or("1");
    let rc = if version == "1" { 0 } else { -1 };
    reply(format!("response_to_init rc={rc} pmi_version=1 pmi_subversion=1"))
}

fn put(line: &Line<'_>, store: &mut Store) -> Answer {
    match (line.get("key"), line.get("value")) {
        (Some(key), value) if line.get("kvsname").is_none_or(|name| name == store.name) => {
            match store.put(key, value.unwrap_or_default()) {
                Ok(()) => reply("put_result rc=0 msg=success".into()),
                Err(why) => reply(format!("put_result rc=-1 msg={why}")),
            }
        }
        _ => reply("put_result rc=-1 msg=no_such_kvs".into()),
    }
}

fn get(line: &Line<'_>, store: &Store) -> Answer {
    let value = line.get("key").and_then(|key| store.values.get(key));
    match value {
        Some(value) => reply(format!("get_result rc=0 msg=success value={value}")),
        None => reply("get_result rc=-1 msg=key_not_found value=unknown".into()),
    }
}

fn name_service(line: &Line<'_>, store: &mut Store) -> Answer {
    let service = line.get("service").unwrap_or_default().to_owned();
    match line.command() {
        "publish_name" => {
            let port = line.get("port").unwrap_or_default();
            let fits = store.bytes + service.len() + port.len() <= STORE_BYTES_MAX;
            if !fits || store.names.contains_key(&service) {
                return reply("publish_result rc=-1 info=already_published".into());
            }
            store.bytes += service.len() + port.len();
            store.names.insert(service, port.to_owned());
            reply("publish_result rc=0 info=ok".into())
        }
        "unpublish_name" => {
            let rc = if store.names.remove(&service).is_some() { 0 } else { -1 };
            reply(format!("unpublish_result rc={rc} info=ok"))
        }
        _ => match store.names.get(&service) {
            Some(port) => reply(format!("lookup_result rc=0 port={port} info=ok")),
            None => reply("lookup_result rc=-1 info=not_published".into()),
        },
    }
}

const NAME_BYTES_MAX: usize = 256;
const KEY_BYTES_MAX: usize = 64;
const VALUE_BYTES_MAX: usize = 4096;
/// Most that a job may store: 4096 ranks of 16 KiB.
const STORE_BYTES_MAX: usize = 64 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(lines: &[&str]) -> Vec<Answer> {
        let mut store = Store::new("j", &Layout::new([(0, 2), (1, 2)]));
        let mut session = Session::default();
        lines.iter().map(|line| session.line(line.as_bytes(), &mut store, 4)).collect()
    }

    fn says(answer: &Answer, words: &str) -> bool {
        matches!(answer, Answer::Line(line) if words.split(' ').all(|word| line.split_ascii_whitespace().any(|w| w == word)))
    }

    #[test]
    fn what_was_put_last_can_be_got() {
        let answers = ask(&[
            "cmd=put kvsname=kvs_j key=a value=x=1",
            "cmd=get kvsname=kvs_j key=a",
            "cmd=put kvsname=kvs_j key=a value=y",
            "cmd=get kvsname=kvs_j key=a",
            "cmd=get kvsname=kvs_j key=b",
            "cmd=put kvsname=other key=a value=y",
        ]);
        let wanted = [
            "cmd=put_result rc=0",
            "rc=0 value=x=1",
            "rc=0",
            "rc=0 value=y",
            "cmd=get_result rc=-1",
            "rc=-1",
        ];
        for (answer, words) in answers.iter().zip(wanted) {
            assert!(says(answer, words), "{answer:?} {words}");
        }
    }

    #[test]
    fn the_layout_is_there_from_the_start() {
        assert!(says(&ask(&["cmd=get kvsname=kvs_j key=PMI_process_mapping"])[0], "value=(vector,(0,2,2))"));
    }

    #[test]
    fn a_spawn_is_refused_as_a_whole() {
        let answers = ask(&["mcmd=spawn", "nprocs=2", "cmd=put key=a value=b", "endcmd", "cmd=get_appnum"]);
        assert_eq!(answers[..3], [Answer::Nothing, Answer::Nothing, Answer::Nothing]);
        assert!(says(&answers[3], "cmd=spawn_result rc=-1"));
        assert!(says(&answers[4], "cmd=appnum appnum=0"));
    }

    #[test]
    fn an_abort_carries_its_status() {
        assert_eq!(ask(&["cmd=abort exitcode=7"]), [Answer::Abort { code: 7, message: String::new() }]);
    }

    #[test]
    fn nonsense_is_answered_and_forgotten() {
        let answers = ask(&["cmd", "cmd=fly", "\u{7f}\u{7f}"]);
        assert!(answers.iter().all(|answer| says(answer, "rc=-1")), "{answers:?}");
    }
}
