// The program around the tests: `main [part of a name]`. Prints one line per test, with a digest of all bytes that were
// read back so far; ends with 0 if all passed.
#pragma once
#include "suite.h"

int main(int argc, char **argv) {
    int failed = 0, run = 0;
    for (const Test &test : tests()) {
        if (argc > 1 && !strstr(test.name, argv[1])) continue;
        bool passed = test.run();
        printf("%s %s %016llx\n", passed ? "ok    " : "FAILED", test.name, digest());
        failed += !passed;
        run++;
    }
    printf("%d tests, %d failed\n", run, failed);
    return failed || !run;
}
