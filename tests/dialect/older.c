/* nvcc gives C sources to gcc, which warns where clang refuses. */
#include <stdio.h>
twice(x) { return 2 * x; }
int main() {
    long number = 5;
    unsigned *bits = &number;
    char *text = malloc(8);
    int address = text;
    printf(twice(*bits) == later(9) && address != 1 ? "ok\n" : "not so\n");
    return 0;
}
int later(int x) { return x + 1; }
