/// What ranks with kernels for GPUs are refused before NCCL is called: two under mpiexec, on a machine
/// without a GPU. The linker puts functions of this file in the place of the runtime's (--wrap).
#include <spider/distributed.h>
#include <spider/kernel.h>

#include <array>
#include <cstdint>
#include <cstdio>
#include <string>

#include "kernel_by_hand.h"
#include "transport.h"

using spider::distributed::DeviceOutcome;

namespace {

bool share_a_device = false;

}  // namespace

std::int32_t kind_of_backend() asm("__wrap__ZN6spider7backend4kindEv");
std::int32_t kind_of_backend() {
  return SPIDER_BACKEND_CUDA;
}

DeviceOutcome real_name() asm("__real__ZN6spider11distributed11name_deviceEv");
DeviceOutcome name_of_device() asm("__wrap__ZN6spider11distributed11name_deviceEv");
DeviceOutcome name_of_device() {
  return share_a_device ? DeviceOutcome{{}, {}, "0000:17:00.0 of here"} : real_name();
}

int main(int count, char** arguments) {
  MPI_Init(&count, &arguments);
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  spider_kernel kernel = kernel_by_hand("by_hand", 2, SPIDER_F32);
  kernel.info.reach_low[1] = 1;
  kernel.info.backend = SPIDER_BACKEND_HOST;  // as the runtime itself goes on to see it
  kernel.form_count = 1;
  kernel.forms[0].steps = 1;

  const std::array<std::int64_t, 3> whole{1, 64, 64};
  int failures = 0;
  struct Case {
    bool share;
    spider_status status;
    const char* words;
  };
  for (const Case& one : {Case{false, SPIDER_ERROR_UNSUPPORTED, "was built without NCCL"},
                          Case{true, SPIDER_ERROR_RANKS, "ranks 0 and 1 have one device, 0000:17:00.0"}}) {
    share_a_device = one.share;
    spider_grid* grid = nullptr;
    const spider_status status = spider_grid_create(MPI_COMM_WORLD, &kernel, whole.data(), nullptr, &grid);
    const std::string told = spider_last_error();
    if (status == one.status && told.find(one.words) != std::string::npos) continue;
    ++failures;
    std::fprintf(stderr, "rank %d: status %d, wanted %d and '%s': %s\n", rank, status, one.status, one.words,
                 told.c_str());
  }
  MPI_Finalize();
  return failures == 0 ? 0 : 1;
}
