#include "parallel.h"

#include <exception>

#if defined(_OPENMP)
#include <omp.h>
#endif

namespace spider::host {

int thread_count() {
#if defined(_OPENMP)
  return omp_get_max_threads();
#else
  return 1;
#endif
}

void for_each(std::int64_t count, const std::function<void(std::int64_t)>& body) {
  if (count == 1) return body(0);
  std::exception_ptr failure;
#pragma omp parallel for schedule(dynamic)
  for (std::int64_t i = 0; i < count; ++i) {
    try {
      body(i);
    } catch (...) {
#pragma omp critical(spider_host_failure)
      failure = std::current_exception();
    }
  }
  if (failure) std::rethrow_exception(failure);
}

}  // namespace spider::host
