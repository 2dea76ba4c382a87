#include "parallel.h"

#include <algorithm>
#include <exception>

#if defined(_OPENMP)
#include <omp.h>
#include <pthread.h>

#include <atomic>
#endif

namespace spider::host {

#if defined(_OPENMP)
namespace {

/// LLVM's OpenMP has this function too, also where it replaces GNU's, and survives a fork by itself.
extern "C" [[gnu::weak]] void
__kmpc_fork_call();  // NOLINT(bugprone-reserved-identifier,cert-dcl37-c,cert-dcl51-cpp)

/// Set once a sweep of this process has run on several threads.
std::atomic<bool>& has_shared() {
  static std::atomic<bool> has = false;
  return has;
}

/// GNU's OpenMP reuses the threads of a region for the next one. A forked child has none of them and would
/// wait for them for ever, so the forking thread ends them first. The next region starts new ones.
void end_threads() {
  if (has_shared() && __kmpc_fork_call == nullptr) omp_pause_resource_all(omp_pause_soft);
}

const int watches_forks = pthread_atfork(end_threads, nullptr, nullptr);

}  // namespace

int threads_for(double operations) {
  constexpr double operations_of_thread = 1 << 20;
  const double paying = operations / operations_of_thread;
  return paying < 2 ? 1 : static_cast<int>(std::min<double>(paying, omp_get_max_threads()));
}

void share(std::int64_t count, int threads, const std::function<void(std::int64_t)>& body) {
  std::exception_ptr failure;
  const auto run = [&](std::int64_t i) {
    try {
      body(i);
    } catch (...) {
#pragma omp critical(spider_host_failure)
      failure = std::current_exception();
    }
  };
  has_shared() = watches_forks == 0;
#pragma omp parallel num_threads(threads)
  {
    const WithSubnormals mode;
#pragma omp for schedule(dynamic)
    for (std::int64_t i = 0; i < count; ++i) run(i);
  }
  if (failure) std::rethrow_exception(failure);
}

#else

int threads_for(double /*operations*/) {
  return 1;
}

void share(std::int64_t count, int /*threads*/, const std::function<void(std::int64_t)>& body) {
  for_each(count, 1, body);
}

#endif

}  // namespace spider::host
