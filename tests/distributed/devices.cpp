/// Which device each rank takes, and which are refused: three under mpiexec, with a CUDA that is made up
/// (fake_gpus/). The linker puts kind_of_backend in the place of the runtime's (--wrap).
#include <spider/distributed.h>
#include <spider/kernel.h>

#include <cuda_runtime_api.h>

#include <array>
#include <cstdint>
#include <cstdio>
#include <string>

#include "kernel_by_hand.h"

std::int32_t kind_of_backend() asm("__wrap__ZN6spider7backend4kindEv");
std::int32_t kind_of_backend() {
  return SPIDER_BACKEND_CUDA;
}

namespace {

/// A letter is a device: what each rank sees, and what it takes, or the words that refuse.
struct Case {
  std::array<const char*, 3> seen;
  const char* taken;
  const char* words;
};

constexpr const char* too_few = "each rank needs a device of its own, and other ranks need ";

constexpr std::array<Case, 9> cases{{
    {{"ABC", "ABC", "ABC"}, "ABC", ""},
    {{"ABCD", "ABCD", "ABCD"}, "ABC", ""},
    {{"A", "B", "C"}, "ABC", ""},    // a launcher that shows each rank its own
    {{"AB", "AB", "C"}, "ABC", ""},  // two hosts
    {{"ABC", "BCA", "CAB"}, "ABC", ""},
    {{"ABC", "AB", "A"}, "CBA", ""},  // lower ranks move
    {{"A", "B", "A"}, "", "rank 2: each rank needs a device of its own, and other ranks need the one that"},
    {{"AB", "AB", "AB"}, "", "all 2 that this rank sees"},
    {{"A", "A", "A"}, "", too_few},
}};

bool fits(const Case& one, int rank, spider_status status) {
  const std::string words = spider_last_error();
  if (one.taken[0] == '\0') return status == SPIDER_ERROR_RANKS && words.find(one.words) != std::string::npos;
  return status == SPIDER_OK &&
         fake_devices[static_cast<std::size_t>(fake_current_device)] == one.taken[rank];
}

/// A grid of ranks with these devices.
bool grid_fits(const std::array<char, 3>& devices, int rank, const spider_kernel& kernel, const char* words) {
  fake_devices = devices[static_cast<std::size_t>(rank)];
  fake_current_device = 0;
  const std::array<std::int64_t, 3> whole{1, 64, 64};
  spider_grid* grid = nullptr;
  const spider_status status = spider_grid_create(MPI_COMM_WORLD, &kernel, whole.data(), nullptr, &grid);
  if (words == nullptr) return status == SPIDER_OK && spider_grid_free(grid) == SPIDER_OK;
  return status == SPIDER_ERROR_RANKS && std::string(spider_last_error()).find(words) != std::string::npos;
}

}  // namespace

int main(int count, char** arguments) {
  MPI_Init(&count, &arguments);
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  int failures = 0;
  for (const Case& one : cases) {
    fake_devices = one.seen[static_cast<std::size_t>(rank)];
    fake_current_device = 0;
    const spider_status status = spider_select_device(MPI_COMM_WORLD);
    if (fits(one, rank, status)) continue;
    ++failures;
    std::fprintf(stderr, "rank %d of those that see %s, %s and %s: status %d, device %d: %s\n", rank,
                 one.seen[0], one.seen[1], one.seen[2], status, fake_current_device, spider_last_error());
  }
  spider_kernel kernel = kernel_by_hand("by_hand", 2, SPIDER_F32);
  kernel.info.reach_low[1] = 1;
  kernel.info.backend = SPIDER_BACKEND_HOST;  // as the runtime itself goes on to see it
  kernel.form_count = 1;
  kernel.forms[0].steps = 1;
  if (!grid_fits({'A', 'B', 'C'}, rank, kernel, nullptr) ||
      !grid_fits({'A', 'B', 'A'}, rank, kernel, "ranks 0 and 2 have one device, bus A of ")) {
    ++failures;
    std::fprintf(stderr, "rank %d: a grid: %s\n", rank, spider_last_error());
  }
  MPI_Finalize();
  return failures == 0 ? 0 : 1;
}
