#include "cudnn.h"

#include <cudnn.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>

#include "storage.h"

namespace bench {
namespace {

constexpr std::int64_t largest_workspace = std::int64_t{8} << 30;

void require(cudnnStatus_t status, const char* what) {
  if (status != CUDNN_STATUS_SUCCESS) {
    throw std::runtime_error(std::string("cuDNN: ") + what + ": " + cudnnGetErrorString(status));
  }
}

/// Owner of a cuDNN object that one function makes and another destroys.
template <class Pointer>
class Owned {
 public:
  Owned(cudnnStatus_t (*create)(Pointer*), cudnnStatus_t (*destroy)(Pointer)) : destroy_(destroy) {
    require(create(&pointer_), "making a descriptor");
  }
  ~Owned() { destroy_(pointer_); }
  Owned(const Owned&) = delete;
  Owned& operator=(const Owned&) = delete;
  [[nodiscard]] Pointer get() const { return pointer_; }

 private:
  cudnnStatus_t (*destroy_)(Pointer);
  Pointer pointer_{};
};

cudnnDataType_t data_type(int storage) {
  if (storage == SPIDER_F16) return CUDNN_DATA_HALF;
  return storage == SPIDER_BF16 ? CUDNN_DATA_BFLOAT16 : CUDNN_DATA_FLOAT;
}

/// The radius along each axis: the filter has 2 * radius + 1 weights, and the padding is the radius.
std::array<int, 3> filter_radius(const Stencil& stencil) {
  std::array<int, 3> radius{};
  for (const spider::Tap& tap : stencil.taps) {
    const std::array<int, 3> offset{tap.dz, tap.dy, tap.dx};
    for (std::size_t axis = 0; axis < 3; ++axis)
      radius[axis] = std::max(radius[axis], std::abs(offset[axis]));
  }
  return radius;
}

/// The filter in device memory, slowest axis first.
DeviceMemory upload_filter(const Stencil& stencil, const std::array<int, 3>& radius, int storage) {
  const auto width = [&](std::size_t axis) { return 2 * radius[axis] + 1; };
  std::vector<double> weights(static_cast<std::size_t>(width(0)) * width(1) * width(2), 0.0);
  for (const spider::Tap& tap : stencil.taps) {
    const int index = ((tap.dz + radius[0]) * width(1) + tap.dy + radius[1]) * width(2) + tap.dx + radius[2];
    weights[static_cast<std::size_t>(index)] = tap.weight;
  }
  const auto bytes = static_cast<std::size_t>(element_bytes(storage));
  std::vector<std::uint8_t> packed;
  for (const double weight : weights) {
    const std::uint32_t bits = encode(storage, weight);
    for (std::size_t byte = 0; byte < bytes; ++byte)
      packed.push_back(static_cast<std::uint8_t>(bits >> 8 * byte));
  }
  DeviceMemory memory = allocate_device(static_cast<std::int64_t>(packed.size()));
  bench::require(cudaMemcpy(memory.get(), packed.data(), packed.size(), cudaMemcpyHostToDevice),
                 "sending the filter");
  return memory;
}

/// A convolution in one layout; 3D where the field has several planes, else 2D.
class Convolution {
 public:
  Convolution(const Stencil& stencil, const DeviceFields& fields, cudnnTensorFormat_t format)
      : fields_(fields), radius_(filter_radius(stencil)) {
    const Extents& extents = fields.layout().extents;
    const std::size_t first_axis = extents[0] > 1 ? 0 : 1;
    std::vector<int> field_sizes{1, 1};
    std::vector<int> filter_sizes{1, 1};
    std::vector<int> padding;
    for (std::size_t axis = first_axis; axis < 3; ++axis) {
      field_sizes.push_back(static_cast<int>(extents[axis]));
      filter_sizes.push_back(2 * radius_[axis] + 1);
      padding.push_back(radius_[axis]);
    }
    const std::vector<int> ones(padding.size(), 1);
    const auto axes = static_cast<int>(field_sizes.size());
    const cudnnDataType_t type = data_type(fields.storage());
    require(cudnnSetTensorNdDescriptorEx(field_.get(), format, type, axes, field_sizes.data()),
            "the fields' sizes");
    require(cudnnSetFilterNdDescriptor(filter_.get(), type, format, axes, filter_sizes.data()),
            "the filter's sizes");
    require(cudnnSetConvolutionNdDescriptor(convolution_.get(), axes - 2, padding.data(), ones.data(),
                                            ones.data(), CUDNN_CROSS_CORRELATION, CUDNN_DATA_FLOAT),
            "the convolution");
    require(cudnnSetConvolutionMathType(convolution_.get(), CUDNN_TENSOR_OP_MATH), "tensor cores");
    weights_ = upload_filter(stencil, radius_, fields.storage());
  }

  /// Algorithms that ran, with their times.
  [[nodiscard]] std::vector<cudnnConvolutionFwdAlgoPerf_t> find() const {
    std::size_t free_bytes = 0;
    std::size_t total_bytes = 0;
    bench::require(cudaMemGetInfo(&free_bytes, &total_bytes), "asking for free memory");
    const std::int64_t space = std::min(largest_workspace, static_cast<std::int64_t>(free_bytes) / 2);
    const DeviceMemory workspace = allocate_device(space);
    std::array<cudnnConvolutionFwdAlgoPerf_t, 2 * CUDNN_CONVOLUTION_FWD_ALGO_COUNT> found{};
    int count = 0;
    require(cudnnFindConvolutionForwardAlgorithmEx(
                handle_.get(), field_.get(), fields_.input_memory(0), filter_.get(), weights_.get(),
                convolution_.get(), field_.get(), fields_.output_memory(0), static_cast<int>(found.size()),
                &count, found.data(), workspace.get(), static_cast<std::size_t>(space)),
            "finding algorithms");
    std::vector<cudnnConvolutionFwdAlgoPerf_t> usable(found.begin(), found.begin() + count);
    std::erase_if(usable, [](const auto& algorithm) { return algorithm.status != CUDNN_STATUS_SUCCESS; });
    return usable;
  }

  void run(const cudnnConvolutionFwdAlgoPerf_t& algorithm, int pair, cudaStream_t stream) {
    if (algorithm.memory > workspace_bytes_) {
      workspace_.reset();
      workspace_ = allocate_device(static_cast<std::int64_t>(algorithm.memory));
      workspace_bytes_ = algorithm.memory;
    }
    constexpr float one = 1;
    constexpr float zero = 0;
    require(cudnnSetStream(handle_.get(), stream), "the stream");
    require(cudnnSetConvolutionMathType(convolution_.get(), algorithm.mathType), "the kind of arithmetic");
    require(
        cudnnConvolutionForward(handle_.get(), &one, field_.get(), fields_.input_memory(pair), filter_.get(),
                                weights_.get(), convolution_.get(), algorithm.algo, workspace_.get(),
                                workspace_bytes_, &zero, field_.get(), fields_.output_memory(pair)),
        "the convolution");
  }

 private:
  const DeviceFields& fields_;
  std::array<int, 3> radius_;
  Owned<cudnnHandle_t> handle_{cudnnCreate, cudnnDestroy};
  Owned<cudnnTensorDescriptor_t> field_{cudnnCreateTensorDescriptor, cudnnDestroyTensorDescriptor};
  Owned<cudnnFilterDescriptor_t> filter_{cudnnCreateFilterDescriptor, cudnnDestroyFilterDescriptor};
  Owned<cudnnConvolutionDescriptor_t> convolution_{cudnnCreateConvolutionDescriptor,
                                                   cudnnDestroyConvolutionDescriptor};
  DeviceMemory weights_;
  DeviceMemory workspace_;
  std::size_t workspace_bytes_ = 0;
};

const char* name_of(cudnnConvolutionFwdAlgo_t algorithm) {
  constexpr std::array<const char*, CUDNN_CONVOLUTION_FWD_ALGO_COUNT> names{
      "implicit GEMM", "implicit precomputed GEMM", "GEMM", "direct", "FFT", "tiled FFT",
      "Winograd",      "non-fused Winograd"};
  return static_cast<std::size_t>(algorithm) < names.size() ? names[algorithm] : "another algorithm";
}

}  // namespace

bool has_cudnn() {
  return true;
}

std::string cudnn_version() {
  const std::size_t version = cudnnGetVersion();
  return std::to_string(version / 10000) + "." + std::to_string(version / 100 % 100) + "." +
         std::to_string(version % 100);
}

std::vector<Contestant> cudnn_baselines(const Contestant& kernel, const DeviceFields& fields) {
  if (kernel.steps != 1) throw std::runtime_error("one convolution is one time step");
  std::vector<std::pair<float, Contestant>> found;
  for (const auto& [format, layout] :
       {std::pair{CUDNN_TENSOR_NCHW, "NCHW"}, std::pair{CUDNN_TENSOR_NHWC, "NHWC"}}) {
    Contestant convolution;
    convolution.label = "baseline";
    convolution.name = "cudnn:" + kernel.name;
    convolution.fields = &fields;
    convolution.layout = fields.layout();
    convolution.stencil = zero_padded(kernel.stencil, fields.storage());
    convolution.arithmetic = {fields.storage(), static_cast<int>(kernel.stencil.taps.size())};
    const auto shared = std::make_shared<Convolution>(convolution.stencil, fields, format);
    for (const cudnnConvolutionFwdAlgoPerf_t& algorithm : shared->find()) {
      convolution.detail = std::string(layout) + ", " + name_of(algorithm.algo);
      convolution.launch = [shared, algorithm](int pair, cudaStream_t stream) {
        shared->run(algorithm, pair, stream);
      };
      found.emplace_back(algorithm.time, convolution);
    }
  }
  if (found.empty()) throw std::runtime_error("cuDNN has no algorithm for this convolution");
  std::stable_sort(found.begin(), found.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<Contestant> sorted;
  for (auto& [time, convolution] : found) sorted.push_back(std::move(convolution));
  return sorted;
}

}  // namespace bench
