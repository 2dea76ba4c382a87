#include "driver.h"

#include <dlfcn.h>

#include <type_traits>

namespace spider::driver {
namespace {

Driver load() {
  Driver found;
  void* const library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return found;
  bool is_whole = true;
  const auto look_up = [&](auto& function, const char* name) {
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(library, name));
    is_whole = is_whole && function != nullptr;
  };
#define SPIDER_LOOK_UP(name, ...) look_up(found.name, #name);
  SPIDER_DRIVER_FUNCTIONS(SPIDER_LOOK_UP)
#undef SPIDER_LOOK_UP
  return is_whole ? found : Driver{};
}

}  // namespace

const Driver& driver() {
  static const Driver loaded = load();
  return loaded;
}

cudaError_t enter() {
  const Driver& cuda = driver();
  if (cuda.cuInit == nullptr) return cudaErrorInsufficientDriver;
  Context context = nullptr;
  if (cuda.cuCtxGetCurrent(&context) == cudaSuccess && context != nullptr) return cudaSuccess;
  int device = 0;
  cudaError_t error = cuda.cuInit(0);
  if (error == cudaSuccess) error = cuda.cuDeviceGet(&device, 0);
  if (error == cudaSuccess) error = cuda.cuDevicePrimaryCtxRetain(&context, device);
  return error == cudaSuccess ? cuda.cuCtxSetCurrent(context) : error;
}

}  // namespace spider::driver
