//! What became of the job: the first failure, the exit status, and a summary that says what to look at.

use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;

use crate::signals;

/// Why the job ended as it did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Failure {
    /// A rank ended badly.
    Rank {
        /// Which.
        rank: u32,
        /// What wait(2) said.
        status: i32,
    },
    /// A rank asked for the end of the job.
    Abort {
        /// Which.
        rank: u32,
        /// With this status.
        code: i32,
        /// And these words.
        message: String,
    },
    /// A host was lost.
    Host {
        /// Its name.
        host: String,
        /// What is known about it.
        reason: String,
    },
    /// A program, or a whole host, could not be started.
    NotStarted {
        /// Where.
        host: String,
        /// The status a shell would give.
        status: i32,
        /// Why, and what to do.
        reason: String,
    },
    /// Somebody ended the launcher.
    Signal(i32),
    /// The time was up.
    Timeout(std::time::Duration),
    /// Nobody reads the output any more.
    NobodyReads,
    /// What ranks printed could not be written: where, and why.
    Unwritten(String),
}

impl Failure {
    /// Whether a rank was killed by a signal, and not by the one that asks it to end.
    pub fn is_a_kill(&self) -> bool {
        let Failure::Rank { status, .. } = self else { return false };
        ExitStatus::from_raw(*status).signal().is_some_and(|signal| signal != signal_hook::consts::SIGTERM)
    }

    /// What the summary says of it.
    fn lines(&self, view: &View<'_>) -> Vec<String> {
        let line = match self {
            Self::Rank { rank, status } => {
                let line = format!("{} {}", view.name(*rank), ending(*status));
                return std::iter::once(line).chain(view.words(*rank)).collect();
            }
            Self::Abort { rank, code, message } => {
                let words = if message.is_empty() { String::new() } else { format!(": {message}") };
                format!("{} aborted the job with status {code}{words}", view.name(*rank))
            }
            Self::Host { host, reason } => format!("host {host} was lost: {reason}"),
            Self::NotStarted { host, reason, .. } => format!("host {host}: {reason}"),
            Self::Signal(signal) => format!("ended by {}", signals::name(*signal)),
            Self::Timeout(after) => format!("the time of {after:?} was up"),
            Self::Unwritten(what) => what.clone(),
            Self::NobodyReads => return Vec::new(),
        };
        vec![line]
    }
}

/// Collects failures as they happen.
#[derive(Debug, Default)]
pub struct Outcome {
    first: Option<Failure>,
    /// What a job that keeps going survived before that.
    before: Option<Failure>,
    /// Ranks that failed later, and not because they were asked to end.
    also: Vec<(u32, i32)>,
    /// Hosts that were lost later.
    also_lost: Vec<Failure>,
    /// Output that was lost, though something else went wrong first.
    unwritten: Option<String>,
}

impl Outcome {
    /// Notes a failure; true if it is the first.
    pub fn note(&mut self, failure: Failure) -> bool {
        match (&self.first, failure) {
            (None, failure) => {
                self.first = Some(failure);
                true
            }
            (Some(_), Failure::Rank { rank, status }) => {
                self.also.push((rank, status));
                false
            }
            (Some(_), host @ Failure::Host { .. }) => {
                self.also_lost.push(host);
                false
            }
            (Some(Failure::Unwritten(_)), Failure::Unwritten(_)) => false,
            (Some(_), Failure::Unwritten(what)) => {
                self.unwritten.get_or_insert(what);
                false
            }
            _ => false,
        }
    }

    /// Notes what ends the job: it decides, whatever a job that keeps going has survived before.
    pub fn note_the_end(&mut self, failure: Failure) {
        self.before = self.first.replace(failure);
    }

    /// The first failure, or what ended a job that had kept going.
    pub fn first(&self) -> Option<&Failure> {
        self.first.as_ref()
    }

    /// The status to end with. A job that keeps going survives ranks that signals kill and hosts that vanish.
    pub fn exit_code(&self, keep_going: bool) -> u8 {
        match self.code(keep_going) {
            0 if self.unwritten.is_some() => 1,
            code => code,
        }
    }

    fn code(&self, keep_going: bool) -> u8 {
        let survived = |status: i32| keep_going && ExitStatus::from_raw(status).signal().is_some();
        let statuses = self.also.iter().map(|(_, status)| *status);
        match &self.first {
            None => 0,
            Some(Failure::Rank { status, .. }) if survived(*status) => {
                statuses.filter(|status| !survived(*status)).map(code_of).next().unwrap_or(0)
            }
            Some(Failure::Host { .. }) if keep_going => {
                statuses.filter(|status| !survived(*status)).map(code_of).next().unwrap_or(0)
            }
            Some(Failure::Rank { status, .. }) => code_of(*status),
            Some(Failure::Abort { code, .. }) => {
                u8::try_from(code & 0xff).ok().filter(|code| *code != 0).unwrap_or(1)
            }
            Some(Failure::Host { .. }) => 1,
            Some(Failure::NotStarted { status, .. }) => u8::try_from(*status).unwrap_or(1),
            Some(Failure::Signal(signal)) => u8::try_from(128 + signal).unwrap_or(1),
            Some(Failure::Timeout(_)) => 124,
            Some(Failure::NobodyReads) => 141,
            Some(Failure::Unwritten(_)) => 1,
        }
    }

    /// Output that was lost, in words; that is said even to those who want no summary.
    pub fn unwritten(&self) -> Option<&str> {
        match (&self.before, &self.first) {
            (Some(Failure::Unwritten(what)), _) | (_, Some(Failure::Unwritten(what))) => Some(what),
            _ => self.unwritten.as_deref(),
        }
    }

    /// The summary's lines.
    pub fn summary(&self, view: &View<'_>) -> Vec<String> {
        let mut lines = Vec::new();
        if matches!(self.first, None | Some(Failure::NobodyReads)) {
            return lines;
        }
        for failure in self.before.iter().chain(&self.first).chain(&self.also_lost) {
            lines.extend(failure.lines(view));
        }
        lines.extend(self.unwritten.clone());
        lines.extend(self.others(view));
        if view.ended > 0 {
            lines.push(self.ended_by_us(view.ended));
        }
        lines
    }

    fn ended_by_us(&self, count: usize) -> String {
        let others = matches!(self.first, Some(Failure::Rank { .. } | Failure::Abort { .. }));
        match (others, count) {
            (true, 1) => "the other rank was ended".into(),
            (true, count) => format!("the other {count} ranks were ended"),
            (false, 1) => "1 rank was ended".into(),
            (false, count) => format!("{count} ranks were ended"),
        }
    }

    /// Ranks that failed by themselves as well, those alike together.
    fn others(&self, view: &View<'_>) -> Vec<String> {
        let mut groups: Vec<(i32, Vec<u32>)> = Vec::new();
        for (rank, status) in &self.also {
            match groups.iter_mut().find(|(known, _)| known == status) {
                Some((_, ranks)) => ranks.push(*rank),
                None => groups.push((*status, vec![*rank])),
            }
        }
        let line = |(status, mut ranks): (i32, Vec<u32>)| match ranks.as_slice() {
            [rank] => format!("{} {} as well", view.name(*rank), ending(status)),
            _ => {
                ranks.sort_unstable();
                format!("ranks {} {} as well", intervals(&ranks), endings(status))
            }
        };
        groups.into_iter().map(line).collect()
    }
}

/// What the summary needs to know about ranks.
pub struct View<'a> {
    /// Rank to host name and process.
    pub place: &'a dyn Fn(u32) -> (String, Option<u32>),
    /// Rank to its last words.
    pub last_words: &'a dyn Fn(u32) -> Option<String>,
    /// How many ranks were ended by us.
    pub ended: usize,
}

impl View<'_> {
    fn name(&self, rank: u32) -> String {
        let (host, pid) = (self.place)(rank);
        let pid = pid.map(|pid| format!(" (process {pid})")).unwrap_or_default();
        format!("rank {rank} on {host}{pid}")
    }

    fn words(&self, rank: u32) -> Option<String> {
        (self.last_words)(rank).map(|words| format!("  its last words: {words}"))
    }
}

/// How a rank ended, in words.
pub fn ending(status: i32) -> String {
    let status = ExitStatus::from_raw(status);
    match (status.signal(), status.code()) {
        (Some(signal), _) => {
            let meaning = match signals::meaning(signal) {
                "" => String::new(),
                meaning => format!(" ({meaning})"),
            };
            let core = if status.core_dumped() { ", core dumped" } else { "" };
            format!("was killed by {}{meaning}{core}", signals::name(signal))
        }
        (None, code) => format!("ended with status {}", code.unwrap_or(-1)),
    }
}

/// How several ranks ended, in words.
fn endings(status: i32) -> String {
    let one = ending(status);
    one.strip_prefix("was ").map(|rest| format!("were {rest}")).unwrap_or(one)
}

/// The status a shell would give.
fn code_of(status: i32) -> u8 {
    let status = ExitStatus::from_raw(status);
    let code = status.code().or(status.signal().map(|signal| 128 + signal)).unwrap_or(1);
    u8::try_from(code).unwrap_or(1)
}

/// `0-3, 7` for sorted ranks.
pub fn intervals(ranks: &[u32]) -> String {
    let mut parts: Vec<(u32, u32)> = Vec::new();
    for &rank in ranks {
        match parts.last_mut() {
            Some((_, last)) if *last + 1 == rank => *last = rank,
            _ => parts.push((rank, rank)),
        }
    }
    let text = |(first, last): &(u32, u32)| match first == last {
        true => first.to_string(),
        false => format!("{first}-{last}"),
    };
    parts.iter().map(text).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    const EXIT_3: i32 = 3 << 8;
    const KILLED: i32 = 9;

    fn outcome(failures: &[Failure]) -> Outcome {
        let mut outcome = Outcome::default();
        for failure in failures {
            outcome.note(failure.clone());
        }
        outcome
    }

    fn rank(rank: u32, status: i32) -> Failure {
        Failure::Rank { rank, status }
    }

    #[test]
    fn the_first_failure_decides() {
        assert_eq!(outcome(&[]).exit_code(false), 0);
        assert_eq!(outcome(&[rank(2, EXIT_3), rank(0, KILLED)]).exit_code(false), 3);
        assert_eq!(outcome(&[rank(2, KILLED), rank(0, EXIT_3)]).exit_code(false), 137);
        assert_eq!(outcome(&[Failure::Signal(2)]).exit_code(false), 130);
        let abort = |code| Failure::Abort { rank: 0, code, message: String::new() };
        assert_eq!((outcome(&[abort(7)]).exit_code(false), outcome(&[abort(256)]).exit_code(false)), (7, 1));
    }

    #[test]
    fn a_job_that_keeps_going_survives_kills_but_not_bad_statuses() {
        assert_eq!(outcome(&[rank(2, KILLED)]).exit_code(true), 0);
        assert_eq!(outcome(&[rank(2, KILLED), rank(1, EXIT_3)]).exit_code(true), 3);
        assert_eq!(outcome(&[rank(2, EXIT_3)]).exit_code(true), 3);
    }

    #[test]
    fn the_summary_names_rank_host_cause_and_words() {
        let view = View {
            place: &|_| ("node1".into(), Some(42)),
            last_words: &|_| Some("no convergence".into()),
            ended: 2,
        };
        let outcome = outcome(&[rank(2, 11 | 0x80), rank(5, EXIT_3), rank(4, EXIT_3), rank(7, EXIT_3)]);
        let text = outcome.summary(&view).join("\n");
        assert!(
            text.contains(
                "rank 2 on node1 (process 42) was killed by SIGSEGV (segmentation fault), core dumped"
            ),
            "{text}"
        );
        assert!(text.contains("its last words: no convergence"), "{text}");
        assert!(text.contains("ranks 4-5, 7 ended with status 3 as well"), "{text}");
        assert!(text.contains("the other 2 ranks were ended"), "{text}");
        let several = super::tests::outcome(&[Failure::Signal(2), rank(0, KILLED), rank(1, KILLED)]);
        assert!(several.summary(&view).contains(&format!("ranks 0-1 {} as well", endings(KILLED))));
        assert!(endings(KILLED).starts_with("were killed by SIGKILL"));
    }

    #[test]
    fn what_ends_a_job_that_kept_going_decides_and_the_rest_is_told() {
        let mut outcome = outcome(&[rank(1, KILLED)]);
        outcome.note_the_end(Failure::Signal(2));
        assert_eq!(outcome.exit_code(true), 130);
        let view = View { place: &|_| ("a".into(), None), last_words: &|_| None, ended: 2 };
        let text = outcome.summary(&view).join("\n");
        assert!(text.contains("rank 1 on a was killed") && text.contains("ended by SIGINT"), "{text}");
        assert!(text.contains("\n2 ranks were ended"), "{text}");
        let lost = Failure::Host { host: "node7".into(), reason: "no route".into() };
        let text = super::tests::outcome(&[rank(1, KILLED), lost]).summary(&view).join("\n");
        assert!(text.contains("rank 1 on a was killed") && text.contains("host node7 was lost"), "{text}");
    }
}
