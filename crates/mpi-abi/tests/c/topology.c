/* Grids, graphs and neighbourhoods of one process. */
#include "check.h"

static void grids(void)
{
    MPI_Comm grid, sub, dup, empty;
    int dims[] = {1, 1}, rings[] = {1, 0}, n, d[2], r[2], c[2], rank, from, to, place[] = {5, 0}, outside[] = {0, 1};
    int keep[] = {0, 1}, big[] = {2, 2}, nobody[] = {2, 0}, kind;
    MUST(MPI_Cart_create(MPI_COMM_WORLD, 2, dims, rings, 1, &grid));
    MUST(MPI_Topo_test(grid, &kind));
    MUST(MPI_Cartdim_get(grid, &n));
    MUST(MPI_Cart_get(grid, 2, d, r, c));
    printf("kind %d, %d dimensions: %d %d, rings %d %d, at %d %d\n", kind, n, d[0], d[1], r[0], r[1], c[0], c[1]);
    MUST(MPI_Cart_rank(grid, place, &rank));
    printf("round the ring: %d\n", rank);
    printf("beyond the end %d\n", class_of(MPI_Cart_rank(grid, outside, &rank)));
    MUST(MPI_Cart_coords(grid, 0, 2, c));
    printf("coordinates %d %d\n", c[0], c[1]);
    MUST(MPI_Cart_shift(grid, 0, 3, &from, &to));
    printf("shift on the ring %d %d\n", from, to);
    MUST(MPI_Cart_shift(grid, 1, 1, &from, &to));
    printf("shift over the end %d %d\n", from, to);
    MUST(MPI_Cart_sub(grid, keep, &sub));
    MUST(MPI_Cartdim_get(sub, &n));
    printf("part has %d dimensions\n", n);
    MUST(MPI_Comm_dup(grid, &dup));
    MUST(MPI_Topo_test(dup, &kind));
    printf("copy is of kind %d\n", kind);
    MUST(MPI_Cart_map(MPI_COMM_WORLD, 2, dims, rings, &rank));
    printf("mapped to %d\n", rank);
    MUST(MPI_Cart_map(MPI_COMM_WORLD, 2, nobody, rings, &rank));
    MUST(MPI_Cart_create(MPI_COMM_WORLD, 2, nobody, rings, 0, &empty));
    printf("in a grid for nobody: %d %d\n", rank == MPI_UNDEFINED, empty == MPI_COMM_NULL);
    MUST(MPI_Comm_free(&sub));
    MUST(MPI_Comm_free(&dup));
    MUST(MPI_Comm_free(&grid));
    MUST(MPI_Cart_create(MPI_COMM_WORLD, 0, dims, rings, 0, &grid));
    MUST(MPI_Cartdim_get(grid, &n));
    printf("a point has %d dimensions\n", n);
    MUST(MPI_Comm_free(&grid));
    printf("too large %d\n", class_of(MPI_Cart_create(MPI_COMM_WORLD, 2, big, rings, 0, &grid)));
    printf("no grid %d\n", class_of(MPI_Cartdim_get(MPI_COMM_WORLD, &n)));
}

static void graphs(void)
{
    MPI_Comm graph;
    int index[] = {2}, edges[] = {0, 0}, nodes, n, i[1], e[2], kind, count;
    MUST(MPI_Graph_create(MPI_COMM_WORLD, 1, index, edges, 0, &graph));
    MUST(MPI_Topo_test(graph, &kind));
    MUST(MPI_Graphdims_get(graph, &nodes, &n));
    MUST(MPI_Graph_get(graph, 1, 2, i, e));
    MUST(MPI_Graph_neighbors_count(graph, 0, &count));
    printf("kind %d, %d nodes, %d edges, index %d, to %d %d, neighbours %d\n", kind, nodes, n, i[0], e[0], e[1], count);
    MUST(MPI_Graph_neighbors(graph, 0, 2, e));
    MUST(MPI_Comm_free(&graph));
    printf("no graph %d\n", class_of(MPI_Graphdims_get(MPI_COMM_WORLD, &nodes, &n)));
}

static void neighbourhoods(void)
{
    MPI_Comm graph;
    int zero[] = {0, 0}, in_weights[] = {3, 4}, out_weights[] = {5}, in, out, weighted, s[2], sw[2], d[2], dw[2];
    MUST(MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, 2, zero, in_weights, 1, zero, out_weights, MPI_INFO_NULL, 0, &graph));
    MUST(MPI_Dist_graph_neighbors_count(graph, &in, &out, &weighted));
    MUST(MPI_Dist_graph_neighbors(graph, 2, s, sw, 1, d, dw));
    printf("in %d out %d weighted %d: %d/%d %d/%d to %d/%d\n", in, out, weighted, s[0], sw[0], s[1], sw[1], d[0], dw[0]);
    MUST(MPI_Comm_free(&graph));
    int one[] = {0}, degrees[] = {2};
    MUST(MPI_Dist_graph_create(MPI_COMM_WORLD, 1, one, degrees, zero, MPI_UNWEIGHTED, MPI_INFO_NULL, 0, &graph));
    MUST(MPI_Dist_graph_neighbors_count(graph, &in, &out, &weighted));
    MUST(MPI_Dist_graph_neighbors(graph, 2, s, MPI_UNWEIGHTED, 2, d, MPI_UNWEIGHTED));
    printf("in %d out %d weighted %d: %d %d to %d %d\n", in, out, weighted, s[0], s[1], d[0], d[1]);
    MUST(MPI_Comm_free(&graph));
    printf("no neighbourhood %d\n", class_of(MPI_Dist_graph_neighbors_count(MPI_COMM_WORLD, &in, &out, &weighted)));
}

int main(void)
{
    begin();
    grids();
    graphs();
    neighbourhoods();
    MUST(MPI_Finalize());
    return 0;
}
