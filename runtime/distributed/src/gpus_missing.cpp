/// Where NCCL, or the language CUDA, was missing when the library was built.
#include "transport.h"

namespace spider::distributed {

namespace {

Outcome missing() {
  return {
      SPIDER_ERROR_UNSUPPORTED,
      "this program's SpiderGen::distributed was built without NCCL, which moves halos between GPUs: enable "
      "the language CUDA, and set NCCL_ROOT to a folder with include/nccl.h and lib/libnccl.so"};
}

}  // namespace

TransportOutcome make_gpu_transport(MPI_Comm /*communicator*/, const Exchanges& /*largest*/) {
  return {missing(), nullptr};
}

DeviceOutcome name_device() {
  return {missing(), {}, {}};
}

DevicesOutcome visible_devices() {
  return {missing(), {}};
}

Outcome make_current(int /*device*/) {
  return missing();
}

}  // namespace spider::distributed
