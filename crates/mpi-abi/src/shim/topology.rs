//! Topologies: grids, graphs and neighbourhoods.

use super::comm::within_one_group;
use super::shims;
use crate::boundary::{List, MPI_Comm, MPI_Info, Out, OutList};
use crate::object::{Comm, CommRef};
use crate::shim::comm::{give, split};
use crate::world::{PROC_NULL, UNDEFINED, lock, world};
use barewire::mpi::error::{Class, Error, Result};
use barewire::mpi::topology::{Cart, DistGraph, Graph, Topology, balance};
use std::ffi::c_int;

shims! {
    fn PMPI_Topo_test(comm: MPI_Comm, status: Out<c_int>) on comm {
        status.put(match world().comm(comm)?.topology {
            None => UNDEFINED,
            Some(Topology::Cart(_)) => 211,
            Some(Topology::Graph(_)) => 212,
            Some(Topology::DistGraph(_)) => 213,
        })?
    }

    fn PMPI_Dims_create(nnodes: c_int, ndims: c_int, dims: OutList<c_int>) {
        let mut sizes = dims.to_vec(ndims.into())?;
        balance(nnodes, &mut sizes)?;
        dims.put(&sizes)?
    }

    fn PMPI_Cart_create(
        comm_old: MPI_Comm, ndims: c_int, dims: List<c_int>, periods: List<c_int>, reorder: c_int,
        comm_cart: Out<MPI_Comm>,
    ) on comm_old {
        comm_cart.put(MPI_Comm::NULL)?;
        let _ = reorder;
        let parent = world().comm(comm_old)?;
        comm_cart.put(match read_cart(ndims, dims, periods)? {
            Some(cart) => {
                let size = cart.size();
                place(&parent, Topology::Cart(cart), size)?
            }
            None => MPI_Comm::NULL,
        })?
    }

    fn PMPI_Cart_map(comm: MPI_Comm, ndims: c_int, dims: List<c_int>, periods: List<c_int>, newrank: Out<c_int>) on comm {
        let comm = world().comm(comm)?;
        let size = read_cart(ndims, dims, periods)?.map_or(0, |cart| cart.size());
        newrank.put(keep_rank(&comm, size)?)?
    }

    fn PMPI_Cartdim_get(comm: MPI_Comm, ndims: Out<c_int>) on comm {
        ndims.put(cart(comm)?.1.sizes().len() as c_int)?
    }

    fn PMPI_Cart_get(
        comm: MPI_Comm, maxdims: c_int, dims: OutList<c_int>, periods: OutList<c_int>, coords: OutList<c_int>,
    ) on comm {
        let (comm, cart) = cart(comm)?;
        let room = room(maxdims, cart.sizes().len())?;
        let rings: Vec<c_int> = cart.rings().iter().map(|&ring| ring.into()).collect();
        dims.put(&cart.sizes()[..room])?;
        periods.put(&rings[..room])?;
        coords.put(&cart.coordinates(comm.rank as c_int)?[..room])?
    }

    fn PMPI_Cart_rank(comm: MPI_Comm, coords: List<c_int>, rank: Out<c_int>) on comm {
        let (_, cart) = cart(comm)?;
        rank.put(cart.rank(&coords.to_vec(cart.sizes().len() as i64)?)?)?
    }

    fn PMPI_Cart_coords(comm: MPI_Comm, rank: c_int, maxdims: c_int, coords: OutList<c_int>) on comm {
        let (_, cart) = cart(comm)?;
        let place = cart.coordinates(rank)?;
        coords.put(&place[..room(maxdims, place.len())?])?
    }

    fn PMPI_Cart_shift(
        comm: MPI_Comm, direction: c_int, disp: c_int, rank_source: Out<c_int>, rank_dest: Out<c_int>,
    ) on comm {
        let (comm, cart) = cart(comm)?;
        let (source, destination) = cart.shift(comm.rank as c_int, direction, disp)?;
        rank_source.put(source.unwrap_or(PROC_NULL))?;
        rank_dest.put(destination.unwrap_or(PROC_NULL))?
    }

    fn PMPI_Cart_sub(comm: MPI_Comm, remain_dims: List<c_int>, newcomm: Out<MPI_Comm>) on comm {
        newcomm.put(MPI_Comm::NULL)?;
        let (comm, cart) = cart(comm)?;
        let keep: Vec<bool> = remain_dims.to_vec(cart.sizes().len() as i64)?.iter().map(|&keep| keep != 0).collect();
        let (part, color, key) = cart.part(comm.rank as c_int, &keep)?;
        let mut made = split(&comm, color, key)?;
        if let Some(made) = &mut made {
            made.topology = Some(Topology::Cart(part));
        }
        newcomm.put(give(made))?
    }

    fn PMPI_Graph_create(
        comm_old: MPI_Comm, nnodes: c_int, indx: List<c_int>, edges: List<c_int>, reorder: c_int,
        comm_graph: Out<MPI_Comm>,
    ) on comm_old {
        comm_graph.put(MPI_Comm::NULL)?;
        let _ = reorder;
        let parent = world().comm(comm_old)?;
        let graph = read_graph(nnodes, indx, edges)?;
        comm_graph.put(place(&parent, Topology::Graph(graph), nnodes)?)?
    }

    fn PMPI_Graph_map(comm: MPI_Comm, nnodes: c_int, indx: List<c_int>, edges: List<c_int>, newrank: Out<c_int>) on comm {
        let comm = world().comm(comm)?;
        newrank.put(keep_rank(&comm, read_graph(nnodes, indx, edges)?.size())?)?
    }

    fn PMPI_Graphdims_get(comm: MPI_Comm, nnodes: Out<c_int>, nedges: Out<c_int>) on comm {
        let graph = graph(comm)?;
        nnodes.put(graph.size())?;
        nedges.put(graph.edges().len() as c_int)?
    }

    fn PMPI_Graph_get(comm: MPI_Comm, maxindex: c_int, maxedges: c_int, indx: OutList<c_int>, edges: OutList<c_int>) on comm {
        let graph = graph(comm)?;
        indx.put(&graph.index()[..room(maxindex, graph.index().len())?])?;
        edges.put(&graph.edges()[..room(maxedges, graph.edges().len())?])?
    }

    fn PMPI_Graph_neighbors_count(comm: MPI_Comm, rank: c_int, nneighbors: Out<c_int>) on comm {
        nneighbors.put(graph(comm)?.neighbours(rank)?.len() as c_int)?
    }

    fn PMPI_Graph_neighbors(comm: MPI_Comm, rank: c_int, maxneighbors: c_int, neighbors: OutList<c_int>) on comm {
        let graph = graph(comm)?;
        let list = graph.neighbours(rank)?;
        neighbors.put(&list[..room(maxneighbors, list.len())?])?
    }

    fn PMPI_Dist_graph_create_adjacent(
        comm_old: MPI_Comm, indegree: c_int, sources: List<c_int>, sourceweights: List<c_int>, outdegree: c_int,
        destinations: List<c_int>, destweights: List<c_int>, info: MPI_Info, reorder: c_int,
        comm_dist_graph: Out<MPI_Comm>,
    ) on comm_old {
        comm_dist_graph.put(MPI_Comm::NULL)?;
        let _ = reorder;
        let parent = world().comm(comm_old)?;
        let (sources, destinations) = (sources.to_vec(indegree.into())?, destinations.to_vec(outdegree.into())?);
        check_ranks(&parent, sources.iter().chain(&destinations))?;
        let weights = match (weights(sourceweights, indegree.into())?, weights(destweights, outdegree.into())?) {
            (Some(of_sources), Some(of_destinations)) => Some((of_sources, of_destinations)),
            (None, None) => None,
            _ => return Err(Error::new(Class::Arg, "either all edges have weights or none").into()),
        };
        comm_dist_graph.put(neighbourhood(&parent, DistGraph { sources, destinations, weights }, info)?)?
    }

    fn PMPI_Dist_graph_create(
        comm_old: MPI_Comm, n: c_int, sources: List<c_int>, degrees: List<c_int>, destinations: List<c_int>,
        weights: List<c_int>, info: MPI_Info, reorder: c_int, comm_dist_graph: Out<MPI_Comm>,
    ) on comm_old {
        comm_dist_graph.put(MPI_Comm::NULL)?;
        let _ = reorder;
        let parent = world().comm(comm_old)?;
        let (nodes, degrees) = (sources.to_vec(n.into())?, degrees.to_vec(n.into())?);
        if let Some(degree) = degrees.iter().find(|&&degree| degree < 0) {
            return Err(Error::new(Class::Arg, format!("a degree is {degree}")).into());
        }
        let edges = degrees.iter().map(|&degree| i64::from(degree)).sum();
        let ends = destinations.to_vec(edges)?;
        check_ranks(&parent, nodes.iter().chain(&ends))?;
        let weighted = self::weights(weights, edges)?;
        let from = nodes.iter().zip(&degrees).flat_map(|(&node, &degree)| std::iter::repeat_n(node, degree as usize));
        let all = exchange(&parent, &from.collect::<Vec<_>>(), &ends, weighted.as_deref())?;
        comm_dist_graph.put(neighbourhood(&parent, all, info)?)?
    }

    fn PMPI_Dist_graph_neighbors_count(
        comm: MPI_Comm, indegree: Out<c_int>, outdegree: Out<c_int>, weighted: Out<c_int>,
    ) on comm {
        let graph = dist_graph(comm)?;
        indegree.put(graph.sources.len() as c_int)?;
        outdegree.put(graph.destinations.len() as c_int)?;
        weighted.put(graph.weights.is_some().into())?
    }

    fn PMPI_Dist_graph_neighbors(
        comm: MPI_Comm, maxindegree: c_int, sources: OutList<c_int>, sourceweights: OutList<c_int>,
        maxoutdegree: c_int, destinations: OutList<c_int>, destweights: OutList<c_int>,
    ) on comm {
        let graph = dist_graph(comm)?;
        let ins = room(maxindegree, graph.sources.len())?;
        let outs = room(maxoutdegree, graph.destinations.len())?;
        sources.put(&graph.sources[..ins])?;
        destinations.put(&graph.destinations[..outs])?;
        if let Some((of_sources, of_destinations)) = &graph.weights {
            sourceweights.put_wanted(&of_sources[..ins], UNWEIGHTED)?;
            destweights.put_wanted(&of_destinations[..outs], UNWEIGHTED)?;
        }
    }
}

/// The address that stands for no weights at all.
const UNWEIGHTED: usize = 10;
/// The address that stands for the weights of no edges.
const WEIGHTS_EMPTY: usize = 11;

/// As many entries as there are and the program has room for.
fn room(max: c_int, there: usize) -> Result<usize> {
    let max = usize::try_from(max)
        .map_err(|_| Error::new(Class::Arg, format!("there is room for {max} entries")))?;
    Ok(max.min(there))
}

/// A grid, or none where a dimension is 0: other MPIs allow that too, and nobody is in it.
fn read_cart(dimensions: c_int, sizes: List<c_int>, rings: List<c_int>) -> Result<Option<Cart>> {
    if dimensions < 0 {
        return Err(Error::new(Class::Dims, format!("ndims is {dimensions}")));
    }
    let rings: Vec<bool> = rings.to_vec(dimensions.into())?.iter().map(|&ring| ring != 0).collect();
    let sizes = sizes.to_vec(dimensions.into())?;
    if sizes.contains(&0) {
        return Ok(None);
    }
    Cart::new(&sizes, &rings).map(Some)
}

fn read_graph(nodes: c_int, index: List<c_int>, edges: List<c_int>) -> Result<Graph> {
    if nodes < 0 {
        return Err(Error::new(Class::Arg, format!("nnodes is {nodes}")));
    }
    let index = index.to_vec(nodes.into())?;
    let edges = edges.to_vec(index.last().copied().unwrap_or(0).into())?;
    Graph::new(&index, &edges)
}

/// Makes a communicator of the first `size` processes of another, with a topology.
fn place(parent: &Comm, topology: Topology, size: c_int) -> Result<MPI_Comm> {
    within_one_group(parent)?;
    let rank = keep_rank(parent, size)?;
    let mut made = split(parent, if rank == UNDEFINED { UNDEFINED } else { 0 }, rank)?;
    if let Some(made) = &mut made {
        made.topology = Some(topology);
    }
    Ok(give(made))
}

/// Ranks are never reordered: the rank in the topology is the old one, for those that find a place.
fn keep_rank(comm: &Comm, size: c_int) -> Result<c_int> {
    if size as usize > comm.group.size() {
        let what = format!("{size} processes are needed, the communicator has {}", comm.group.size());
        return Err(Error::new(Class::Arg, what));
    }
    Ok(if comm.rank < size as usize { comm.rank as c_int } else { UNDEFINED })
}

fn cart(comm: MPI_Comm) -> Result<(CommRef, Cart)> {
    let comm = world().comm(comm)?;
    match &comm.topology {
        Some(Topology::Cart(cart)) => Ok((comm.clone(), cart.clone())),
        _ => Err(Error::new(Class::Topology, "the communicator is not a grid")),
    }
}

fn graph(comm: MPI_Comm) -> Result<Graph> {
    match &world().comm(comm)?.topology {
        Some(Topology::Graph(graph)) => Ok(graph.clone()),
        _ => Err(Error::new(Class::Topology, "the communicator is not a graph")),
    }
}

fn dist_graph(comm: MPI_Comm) -> Result<DistGraph> {
    match &world().comm(comm)?.topology {
        Some(Topology::DistGraph(graph)) => Ok(graph.clone()),
        _ => Err(Error::new(Class::Topology, "the communicator is not a distributed graph")),
    }
}

fn weights(list: List<c_int>, len: i64) -> Result<Option<Vec<c_int>>> {
    match list.address() {
        UNWEIGHTED => Ok(None),
        WEIGHTS_EMPTY if len == 0 => Ok(Some(Vec::new())),
        WEIGHTS_EMPTY => {
            Err(Error::new(Class::Arg, format!("MPI_WEIGHTS_EMPTY is for no edges, not for {len}")))
        }
        _ => {
            let weights = list.to_vec(len)?;
            match weights.iter().find(|weight| **weight < 0) {
                Some(weight) => Err(Error::new(Class::Arg, format!("an edge has the weight {weight}"))),
                None => Ok(Some(weights)),
            }
        }
    }
}

fn check_ranks<'a>(comm: &Comm, mut ranks: impl Iterator<Item = &'a c_int>) -> Result<()> {
    let size = comm.group.size() as c_int;
    match ranks.find(|rank| !(0..size).contains(*rank)) {
        Some(rank) => Err(Error::new(Class::Rank, format!("rank {rank} is not in a communicator of {size}"))),
        None => Ok(()),
    }
}

fn neighbourhood(parent: &Comm, graph: DistGraph, info: MPI_Info) -> Result<MPI_Comm> {
    within_one_group(parent)?;
    let hints = world().hints(info)?;
    let mut made = split(parent, 0, parent.rank as c_int)?;
    if let Some(made) = &mut made {
        made.topology = Some(Topology::DistGraph(graph));
        *lock(&made.info) = hints;
    }
    Ok(give(made))
}

/// Tells everybody the edges this process knows; keeps those that begin or end here.
fn exchange(parent: &Comm, from: &[c_int], to: &[c_int], weights: Option<&[c_int]>) -> Result<DistGraph> {
    within_one_group(parent)?;
    let mut mine = vec![u8::from(weights.is_some())];
    for (i, (from, to)) in from.iter().zip(to).enumerate() {
        let weight = weights.and_then(|weights| weights.get(i)).copied().unwrap_or(0);
        mine.extend([*from, *to, weight].iter().flat_map(|word| word.to_le_bytes()));
    }
    let own = parent.rank as c_int;
    let mut graph = DistGraph::default();
    let (mut in_weights, mut out_weights) = (Vec::new(), Vec::new());
    for said in parent.net.all_gather(parent, parent.next_tag(), &mine)? {
        for edge in said.get(1..).unwrap_or_default().chunks_exact(12) {
            let word = |i: usize| {
                c_int::from_le_bytes(edge[4 * i..4 * i + 4].try_into().expect("four of twelve bytes"))
            };
            if word(1) == own {
                graph.sources.push(word(0));
                in_weights.push(word(2));
            }
            if word(0) == own {
                graph.destinations.push(word(1));
                out_weights.push(word(2));
            }
        }
    }
    graph.weights = weights.map(|_| (in_weights, out_weights));
    Ok(graph)
}
