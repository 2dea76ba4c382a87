/// runtime/src/backend.h where kernels are loops on the host.
#include "src/backend.h"

#include <cstdlib>

#include "host_points.h"
#include "src/float_mode.h"
#include "src/host_memory.h"

namespace spider::backend {

std::int32_t kind() {
  return SPIDER_BACKEND_HOST;
}

Outcome prepare(const spider_kernel& /*kernel*/, Residencies& residencies) {
  residencies.fill({});
  return {};
}

Outcome load(const spider_kernel& kernel, const FormSet& /*forms*/, Residencies& residencies) {
  return prepare(kernel, residencies);
}

Outcome launch(const spider_kernel& /*kernel*/, const Start& start, const SweepArguments& arguments,
               const spider_field& /*input*/, const spider_field& /*output*/) {
  start.form.sweep(arguments);
  return {};
}

Outcome access_points(const spider_kernel& /*kernel*/, const PointArguments& points, void* /*stream*/) {
  const WithSubnormals mode;
  access_on_host(points);
  return {};
}

Outcome allocate(std::uint64_t bytes, void** memory) {
  return allocate_on_host(bytes, memory);
}

Outcome release(void* memory) {
  std::free(memory);
  return {};
}

}  // namespace spider::backend
