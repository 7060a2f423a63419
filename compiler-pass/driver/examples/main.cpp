#include <cstdio>
#include <vector>

int sum_on_gpu(const int *values, int n);

int main() {
  std::vector<int> values(1000);
  for (int i = 0; i < 1000; i++) values[i] = i;
  std::printf("sum %d\n", sum_on_gpu(values.data(), 1000));
}
