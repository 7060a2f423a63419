// nvcc: what it includes by itself, and launch brackets that stand apart, in headers of the program's own as well.
#include "implied.cuh"

template <typename T> struct Box { T value; };
// k << <1, 1 >> >() in a comment stays, and so does it in a text.
static const char *text = "k << <1, 1 >> >()";
struct Out { int sum = 0; };
template <typename T> Out &operator<< (Out &out, T value) { out.sum += value; return out; }

int main() {
    int *p;
    cudaMallocManaged(&p, 64 * sizeof *p);
    memset(p, 0, 64 * sizeof *p);
    fill << <2, 32 >> > (p, 5);
    fill_all(p);
    cudaDeviceSynchronize();
    Box<Box<Box<int>> > nested = {{{7}}};
    Out out;
    out << 1 << 2;
    operator<< <int>(out, 4);
    clock_t start = clock();
    time_t now = time(NULL);
    int *copy = (int *)malloc(sizeof *p);
    *copy = abs(-p[63]);
    assert(start >= 0 && now > 0 && INT_MAX > 0);
    bool right = *copy == 6 && p[0] == 6 && nested.value.value.value == 7 && strlen(text) == 17 && out.sum == 7 && text[3] == '<';
    printf(right ? "ok\n" : "not so: %d %d\n", *copy, p[0]);
    free(copy);
    exit(EXIT_SUCCESS);
}
