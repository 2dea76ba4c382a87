#include <stdexcept>

#include "cudnn_baseline.h"

namespace bench {

bool has_cudnn() {
  return false;
}

std::string cudnn_version() {
  return "";
}

std::vector<Contestant> cudnn_baselines(const Contestant&, const DeviceFields&, CudnnView) {
  throw std::runtime_error("spider-bench was built without cuDNN: run.sh found no header or library");
}

}  // namespace bench
