//! Collective calls between neighbours of a topology.

use super::{Call, Data};
use crate::object::Comm;
use barewire::mpi::error::{Class, Error, Result};
use barewire::mpi::topology::Topology;

/// Whom a process hears from and whom it tells, in order; none for neighbours beyond an edge.
pub(crate) struct Edges {
    /// Whom it hears from.
    pub sources: Vec<Option<usize>>,
    /// Whom it tells.
    pub targets: Vec<Option<usize>>,
    /// Neighbours come in pairs: what goes one way arrives from the other.
    pairs: bool,
}

impl Edges {
    /// The neighbours in a communicator's topology.
    pub fn of(comm: &Comm) -> Result<Edges> {
        let rank = comm.rank as i32;
        let known = |ranks: &[i32]| ranks.iter().map(|&rank| usize::try_from(rank).ok()).collect::<Vec<_>>();
        match &comm.topology {
            Some(Topology::Cart(cart)) => {
                let all: Vec<_> =
                    cart.neighbours(rank)?.into_iter().map(|rank| usize::try_from(rank?).ok()).collect();
                Ok(Edges { sources: all.clone(), targets: all, pairs: true })
            }
            Some(Topology::Graph(graph)) => {
                let all = known(graph.neighbours(rank)?);
                Ok(Edges { sources: all.clone(), targets: all, pairs: false })
            }
            Some(Topology::DistGraph(graph)) => Ok(Edges {
                sources: known(&graph.sources),
                targets: known(&graph.destinations),
                pairs: false,
            }),
            None => Err(Error::new(Class::Topology, "the communicator has no topology")),
        }
    }
}

/// To every neighbour its part, and from each its part.
///
/// Where two are neighbours twice, messages are told apart by their order alone. In a grid what is sent up arrives from below, so
/// each pair is sent in the other order than it is received.
pub(crate) async fn exchange(call: &Call, edges: &Edges, parts: &[Data], places: &[Data]) -> Result<()> {
    let mut pending = Vec::with_capacity(parts.len() + places.len());
    for (source, place) in edges.sources.iter().zip(places) {
        pending.extend(source.map(|from| call.start_receive(from, place)));
    }
    for i in 0..edges.targets.len() {
        let i = if edges.pairs { i ^ 1 } else { i };
        pending.extend(edges.targets[i].map(|to| call.start_send(to, &parts[i])));
    }
    call.finish_all(pending).await
}
