// Breadth-first search over a graph from a text file, level by level, one thread per node.
//
// Trap: the sizes of all allocations come from the file, through globals, and the number of launches depends on the
// data: one pair per level, each pair followed by a one-byte copy that decides whether there is another.
#include <cuda_runtime.h>

#include "../common/app.h"

#define APP "bfs"
#define USAGE "bfs GRAPH [--verify] [-o FILE]   (make a graph with: rodinia-gen bfs)"
#define THREADS_MAX 512

struct Node {
  int starting;
  int no_of_edges;
};

static int no_of_nodes;
static int edge_list_size;

// Visits the neighbours of this level's nodes. Several threads may write the same value to one neighbour.
__global__ void Kernel(const Node *nodes, const int *edges, bool *mask, bool *updating_mask, const bool *visited,
                       int *cost, int count) {
  int node = blockIdx.x * THREADS_MAX + threadIdx.x;
  if (node >= count || !mask[node]) return;
  mask[node] = false;
  int end = nodes[node].starting + nodes[node].no_of_edges;
  for (int i = nodes[node].starting; i < end; i++) {
    int neighbour = edges[i];
    if (!visited[neighbour]) {
      cost[neighbour] = cost[node] + 1;
      updating_mask[neighbour] = true;
    }
  }
}

// Makes the nodes just found the next level and says whether there are any.
__global__ void Kernel2(bool *mask, bool *updating_mask, bool *visited, bool *over, int count) {
  int node = blockIdx.x * THREADS_MAX + threadIdx.x;
  if (node >= count || !updating_mask[node]) return;
  mask[node] = true;
  visited[node] = true;
  *over = true;
  updating_mask[node] = false;
}

// Reads one integer in [lo, hi] or says which one of what is wrong.
static int read_integer(FILE *f, const char *path, const char *what, long index, long lo, long hi) {
  int value;
  if (fscanf(f, "%d", &value) != 1)
    app_fail(EXIT_USAGE, APP, "'%s': %s %ld is missing or not a number", path, what, index);
  if (value < lo || value > hi)
    app_fail(EXIT_USAGE, APP, "'%s': %s %ld is %d, must be from %ld to %ld", path, what, index, value, lo, hi);
  return value;
}

struct Graph {
  Node *nodes;
  int *edges;
  int source;
};

// N; N lines "first_edge edges"; the source; E; E lines "destination cost".
static Graph read_graph(const char *path) {
  FILE *f = fopen(path, "r");
  if (!f) app_fail(EXIT_USAGE, APP, "cannot read '%s': %s", path, strerror(errno));
  Graph g;
  const long limit = 2147483647;
  no_of_nodes = read_integer(f, path, "number of nodes", 0, 1, limit);
  g.nodes = (Node *)app_alloc(APP, sizeof(Node) * (size_t)no_of_nodes);
  for (int i = 0; i < no_of_nodes; i++) {
    g.nodes[i].starting = read_integer(f, path, "first edge of node", i, 0, limit);
    g.nodes[i].no_of_edges = read_integer(f, path, "degree of node", i, 0, limit);
  }
  g.source = read_integer(f, path, "source", 0, 0, no_of_nodes - 1);
  edge_list_size = read_integer(f, path, "number of edges", 0, 1, limit);
  for (int i = 0; i < no_of_nodes; i++)
    if ((long)g.nodes[i].starting + g.nodes[i].no_of_edges > edge_list_size)
      app_fail(EXIT_USAGE, APP, "'%s': the edges of node %d end after edge %d, the last", path, i, edge_list_size - 1);
  g.edges = (int *)app_alloc(APP, sizeof(int) * (size_t)edge_list_size);
  for (int i = 0; i < edge_list_size; i++) {
    g.edges[i] = read_integer(f, path, "destination of edge", i, 0, no_of_nodes - 1);
    read_integer(f, path, "cost of edge", i, 0, limit);
  }
  fclose(f);
  return g;
}

static void verify(const Graph *g, const int *cost) {
  int *want = (int *)app_alloc(APP, sizeof(int) * (size_t)no_of_nodes);
  int *queue = (int *)app_alloc(APP, sizeof(int) * (size_t)no_of_nodes);
  for (int i = 0; i < no_of_nodes; i++) want[i] = -1;
  int head = 0, tail = 0;
  want[g->source] = 0;
  queue[tail++] = g->source;
  while (head < tail) {
    int node = queue[head++];
    for (int i = 0; i < g->nodes[node].no_of_edges; i++) {
      int neighbour = g->edges[g->nodes[node].starting + i];
      if (want[neighbour] < 0) {
        want[neighbour] = want[node] + 1;
        queue[tail++] = neighbour;
      }
    }
  }
  app_compare_ints(APP, "cost", cost, want, no_of_nodes);
  free(want);
  free(queue);
  app_verified();
}

static void write_costs(const char *path, const int *cost) {
  FILE *f = app_create(APP, path);
  for (int i = 0; i < no_of_nodes; i++) fprintf(f, "%d) cost:%d\n", i, cost[i]);
  app_close(APP, path, f);
}

static void BFSGraph(const char *path, app_flags flags) {
  Graph g = read_graph(path);
  size_t nodes = (size_t)no_of_nodes;
  bool *h_mask = (bool *)app_alloc(APP, sizeof(bool) * nodes);
  bool *h_updating_mask = (bool *)app_alloc(APP, sizeof(bool) * nodes);
  bool *h_visited = (bool *)app_alloc(APP, sizeof(bool) * nodes);
  int *h_cost = (int *)app_alloc(APP, sizeof(int) * nodes);
  for (size_t i = 0; i < nodes; i++) {
    h_mask[i] = h_updating_mask[i] = h_visited[i] = false;
    h_cost[i] = -1;
  }
  h_mask[g.source] = h_visited[g.source] = true;
  h_cost[g.source] = 0;

  Node *d_nodes;
  int *d_edges, *d_cost;
  bool *d_mask, *d_updating_mask, *d_visited, *d_over;
  CUDA(cudaMalloc((void **)&d_nodes, sizeof(Node) * no_of_nodes));
  CUDA(cudaMemcpy(d_nodes, g.nodes, sizeof(Node) * no_of_nodes, cudaMemcpyHostToDevice));
  CUDA(cudaMalloc((void **)&d_edges, sizeof(int) * edge_list_size));
  CUDA(cudaMemcpy(d_edges, g.edges, sizeof(int) * edge_list_size, cudaMemcpyHostToDevice));
  CUDA(cudaMalloc((void **)&d_mask, sizeof(bool) * no_of_nodes));
  CUDA(cudaMemcpy(d_mask, h_mask, sizeof(bool) * no_of_nodes, cudaMemcpyHostToDevice));
  CUDA(cudaMalloc((void **)&d_updating_mask, sizeof(bool) * no_of_nodes));
  CUDA(cudaMemcpy(d_updating_mask, h_updating_mask, sizeof(bool) * no_of_nodes, cudaMemcpyHostToDevice));
  CUDA(cudaMalloc((void **)&d_visited, sizeof(bool) * no_of_nodes));
  CUDA(cudaMemcpy(d_visited, h_visited, sizeof(bool) * no_of_nodes, cudaMemcpyHostToDevice));
  CUDA(cudaMalloc((void **)&d_cost, sizeof(int) * no_of_nodes));
  CUDA(cudaMemcpy(d_cost, h_cost, sizeof(int) * no_of_nodes, cudaMemcpyHostToDevice));
  CUDA(cudaMalloc((void **)&d_over, sizeof(bool)));

  int threads = no_of_nodes < THREADS_MAX ? no_of_nodes : THREADS_MAX;
  dim3 grid((unsigned)((nodes + THREADS_MAX - 1) / THREADS_MAX), 1, 1);
  dim3 block(threads, 1, 1);
  int levels = 0;
  bool stop;
  do {
    stop = false;
    CUDA(cudaMemcpy(d_over, &stop, sizeof(bool), cudaMemcpyHostToDevice));
    Kernel<<<grid, block, 0>>>(d_nodes, d_edges, d_mask, d_updating_mask, d_visited, d_cost, no_of_nodes);
    CUDA_LAUNCHED("Kernel");
    Kernel2<<<grid, block, 0>>>(d_mask, d_updating_mask, d_visited, d_over, no_of_nodes);
    CUDA_LAUNCHED("Kernel2");
    CUDA(cudaMemcpy(&stop, d_over, sizeof(bool), cudaMemcpyDeviceToHost));
    levels++;
  } while (stop);
  CUDA(cudaMemcpy(h_cost, d_cost, sizeof(int) * no_of_nodes, cudaMemcpyDeviceToHost));

  write_costs(flags.output ? flags.output : "/dev/null", h_cost);
  printf("bfs: %d nodes, %d edges, %d levels\n", no_of_nodes, edge_list_size, levels);
  if (flags.verify) verify(&g, h_cost);

  free(g.nodes);
  free(g.edges);
  free(h_mask);
  free(h_updating_mask);
  free(h_visited);
  free(h_cost);
  // d_over is left to the end of the process, as in the original: one buffer of the program is never freed.
  CUDA(cudaFree(d_nodes));
  CUDA(cudaFree(d_edges));
  CUDA(cudaFree(d_mask));
  CUDA(cudaFree(d_updating_mask));
  CUDA(cudaFree(d_visited));
  CUDA(cudaFree(d_cost));
}

int main(int argc, char **argv) {
  app_flags flags = app_take_flags(APP, USAGE, &argc, argv);
  if (argc != 2) app_fail(EXIT_USAGE, APP, "usage: %s", USAGE);
  BFSGraph(argv[1], flags);
  return 0;
}
