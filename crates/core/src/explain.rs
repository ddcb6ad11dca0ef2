//! Which wire leads to whom, in words for people who ask while the job runs.

use std::collections::BTreeMap;

use crate::endpoint::Endpoint;
use crate::{Peer, PeerState};

impl Endpoint {
    /// A line for each wire in use: why it was chosen, a tab, and the peers it leads to, such as `1-3,7`.
    pub(crate) fn describe_wires(&self) -> String {
        let mut wires: BTreeMap<String, Vec<u32>> = BTreeMap::new();
        for peer in 0..self.size() {
            let wire = match (self.peer_state(Peer(peer)), self.wire_choice(Peer(peer))) {
                (PeerState::Lost(why), _) => format!("none: it was lost: {why}"),
                (PeerState::Connecting, _) => "none yet: it is being connected".to_owned(),
                (_, Some(choice)) => choice.to_owned(),
                (_, None) => continue,
            };
            wires.entry(wire).or_default().push(peer);
        }
        let line = |(wire, peers): (&String, &Vec<u32>)| {
            format!("{}\t{}\n", wire.replace(['\n', '\t'], " "), ranges(peers))
        };
        wires.iter().map(line).collect()
    }
}

/// Ascending numbers as `0-3,7`.
fn ranges(numbers: &[u32]) -> String {
    let mut ranges: Vec<(u32, u32)> = Vec::new();
    for &number in numbers {
        match ranges.last_mut() {
            Some((_, last)) if *last + 1 == number => *last = number,
            _ => ranges.push((number, number)),
        }
    }
    let shown = |&(first, last): &(u32, u32)| match first == last {
        true => first.to_string(),
        false => format!("{first}-{last}"),
    };
    ranges.iter().map(shown).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Config, Ignore, Port, job::Job};

    #[test]
    fn peers_with_the_same_wire_stand_in_one_line() {
        assert_eq!(ranges(&[0, 1, 2, 7]), "0-2,7");
        let jobs = Job::threads(4).unwrap();
        let mut ends: Vec<_> =
            jobs.into_iter().map(|job| Endpoint::open(job, Config::default()).unwrap()).collect();
        assert_eq!(ends[0].describe_wires(), "");
        for to in [1, 2, 3] {
            while ends[0].send(Peer(to), Port(0), 0, b"x").is_err() {
                for end in &mut ends {
                    end.progress(&mut Ignore, usize::MAX);
                }
            }
        }
        assert_eq!(ends[0].describe_wires(), "shm: it is on the same host\t1-3\n");
    }
}
