/// runtime/src/backend.h where kernels are loops on the host.
#include "src/backend.h"

#include <cstdlib>
#include <cstring>

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

Outcome compile(const std::vector<const spider_kernel*>& /*kernels*/) {
  return {};
}

Outcome check_memory(const void* /*memory*/, const char* /*name*/) {
  return {};
}

Outcome launch(const spider_kernel& /*kernel*/, const Start& start, const SweepArguments& arguments,
               const spider_field& /*input*/, const spider_field& /*output*/) {
  start.form.sweep(arguments);
  return {};
}

Outcome prepare_points(const spider_kernel& /*kernel*/) {
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

Outcome allocate_scratch(std::uint64_t bytes, void** memory, void* /*stream*/) {
  return allocate(bytes, memory);
}

Outcome release_scratch(void* memory, void* /*stream*/) {
  return release(memory);
}

Outcome upload(void* to, std::uint64_t to_pitch, const void* from, std::uint64_t from_pitch,
               std::uint64_t row_bytes, std::uint64_t rows) {
  copy_rows(to, to_pitch, from, from_pitch, row_bytes, rows);
  return {};
}

Outcome download(void* to, std::uint64_t to_pitch, const void* from, std::uint64_t from_pitch,
                 std::uint64_t row_bytes, std::uint64_t rows) {
  copy_rows(to, to_pitch, from, from_pitch, row_bytes, rows);
  return {};
}

Outcome synchronize(void* /*stream*/) {
  return {};
}

Outcome clear(void* memory, std::uint64_t bytes) {
  std::memset(memory, 0, bytes);
  return {};
}

}  // namespace spider::backend
