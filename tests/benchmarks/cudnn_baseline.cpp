#include "cudnn_baseline.h"

#include <cudnn.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <set>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>

#include "storage.h"

namespace bench {
namespace {

constexpr std::int64_t largest_workspace = std::int64_t{8} << 30;
constexpr std::int64_t most_configurations = 24;  // of each kind of heuristics
constexpr double search_seconds = 4;  // for one view and kind of heuristics; some plans compile a kernel
constexpr int timed_runs = 3;
constexpr double long_microseconds = 10e3;      // a run as long as this is timed at once, not warmed up
constexpr double endless_microseconds = 100e3;  // more than this is not timed in bursts

void require(cudnnStatus_t status, const char* what) {
  if (status != CUDNN_STATUS_SUCCESS) {
    throw std::runtime_error(std::string("cuDNN: ") + what + ": " + cudnnGetErrorString(status));
  }
}

/// An object of cuDNN's graph interface: made, given attributes, finalised.
class Descriptor {
 public:
  explicit Descriptor(cudnnBackendDescriptorType_t type) {
    require(cudnnBackendCreateDescriptor(type, &descriptor_), "making a descriptor");
  }
  ~Descriptor() {
    if (descriptor_ != nullptr) cudnnBackendDestroyDescriptor(descriptor_);
  }
  Descriptor(Descriptor&& other) noexcept : descriptor_(std::exchange(other.descriptor_, nullptr)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(descriptor_, other.descriptor_);
    return *this;
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;

  [[nodiscard]] cudnnBackendDescriptor_t get() const { return descriptor_; }

  template <class Value>
  void set(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
           const std::vector<Value>& values) {
    require(cudnnBackendSetAttribute(descriptor_, name, type, static_cast<std::int64_t>(values.size()),
                                     values.data()),
            "setting an attribute");
  }
  template <class Value>
  void set(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, Value value) {
    require(cudnnBackendSetAttribute(descriptor_, name, type, 1, &value), "setting an attribute");
  }
  void set(cudnnBackendAttributeName_t name, const Descriptor& part) {
    set(name, CUDNN_TYPE_BACKEND_DESCRIPTOR, part.get());
  }

  void finalise(const char* what) { require(cudnnBackendFinalize(descriptor_), what); }

 private:
  cudnnBackendDescriptor_t descriptor_ = nullptr;
};

struct HandleDestroy {
  void operator()(cudnnHandle_t handle) const { cudnnDestroy(handle); }
};
using Handle = std::unique_ptr<std::remove_pointer_t<cudnnHandle_t>, HandleDestroy>;

Handle make_handle() {
  cudnnHandle_t handle = nullptr;
  require(cudnnCreate(&handle), "starting");
  return Handle(handle);
}

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

/// How a field is told to cuDNN: one channel, or some neighbouring columns as the channels of one pixel,
/// which tensor cores like better. Either is the same bytes; the filter of the second is a band along x.
struct View {
  const char* name;
  std::int64_t channels;
  bool channels_last;  ///< NHWC; it also decides which kernels cuDNN offers for one channel
};

const std::vector<View> plain_views{{"NHWC", 1, true}, {"NCHW", 1, false}};
const std::vector<View> blocked_views{{"NHWC", 8, true}};

/// Sizes along z, y, x in pixels. Taps reach `padding` pixels.
struct Shape {
  View view;
  Extents field;
  Extents filter;
  Extents padding;
  std::size_t first_axis;  ///< 0 where the field has several planes, else 1
};

Shape make_shape(const View& view, const Extents& extents, const std::array<int, 3>& radius) {
  Shape shape{view,
              extents,
              {},
              {radius[0], radius[1], (radius[2] + view.channels - 1) / view.channels},
              extents[0] > 1 ? std::size_t{0} : std::size_t{1}};
  shape.field[2] /= view.channels;
  for (std::size_t axis = 0; axis < 3; ++axis) shape.filter[axis] = 2 * shape.padding[axis] + 1;
  return shape;
}

/// The filter in device memory: output channel, z, y, x, input channel. From input channel c of the pixel s
/// further, to output channel k, it is the weight at dx = channels * s + c - k.
DeviceMemory upload_filter(const Stencil& stencil, const Shape& shape, int storage) {
  const std::int64_t channels = shape.view.channels;
  const Extents& size = shape.filter;
  std::vector<double> weights(static_cast<std::size_t>(channels * point_count(size) * channels), 0.0);
  for (const spider::Tap& tap : stencil.taps) {
    for (std::int64_t k = 0; k < channels; ++k) {
      const std::int64_t column = tap.dx + k + channels * shape.padding[2];  // >= 0
      const std::int64_t row =
          (k * size[0] + tap.dz + shape.padding[0]) * size[1] + tap.dy + shape.padding[1];
      weights[static_cast<std::size_t>(row * size[2] * channels + column)] = tap.weight;
    }
  }
  const auto bytes = static_cast<std::size_t>(element_bytes(storage));
  std::vector<std::uint8_t> packed;
  for (const double weight : weights) {
    const std::uint64_t bits = encode(storage, weight);
    for (std::size_t byte = 0; byte < bytes; ++byte)
      packed.push_back(static_cast<std::uint8_t>(bits >> 8 * byte));
  }
  DeviceMemory memory = allocate_device(static_cast<std::int64_t>(packed.size()));
  bench::require(cudaMemcpy(memory.get(), packed.data(), packed.size(), cudaMemcpyHostToDevice),
                 "sending the filter");
  return memory;
}

/// Names by which a plan is told where its tensors are.
constexpr std::int64_t input_id = 1;
constexpr std::int64_t filter_id = 2;
constexpr std::int64_t output_id = 3;

/// `images` of the shape's channels, with these sizes along z, y, x.
Descriptor make_tensor(std::int64_t id, int storage, const Shape& shape, std::int64_t images,
                       const Extents& size) {
  const std::int64_t channels = shape.view.channels;
  std::vector<std::int64_t> sizes{images, channels};
  std::vector<std::int64_t> strides{channels * point_count(size),
                                    shape.view.channels_last ? 1 : point_count(size)};
  std::int64_t stride = (shape.view.channels_last ? channels : 1) * point_count(size);
  for (std::size_t axis = 0; axis < 3; ++axis) {
    stride /= size[axis];
    if (axis < shape.first_axis) continue;
    sizes.push_back(size[axis]);
    strides.push_back(stride);
  }
  Descriptor tensor(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
  tensor.set(CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, id);
  tensor.set(CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, data_type(storage));
  tensor.set(CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, sizes);
  tensor.set(CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, strides);
  tensor.set(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, std::int64_t{16});
  tensor.finalise("describing a tensor");
  return tensor;
}

/// A convolution with unit strides that keeps the size of the field.
Descriptor make_convolution(const Shape& shape) {
  const std::vector<std::int64_t> padding(
      shape.padding.begin() + static_cast<std::ptrdiff_t>(shape.first_axis), shape.padding.end());
  const std::vector<std::int64_t> ones(padding.size(), 1);
  Descriptor convolution(CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR);
  convolution.set(CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, CUDNN_DATA_FLOAT);
  convolution.set(CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE, CUDNN_CROSS_CORRELATION);
  convolution.set(CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, CUDNN_TYPE_INT64,
                  static_cast<std::int64_t>(padding.size()));
  convolution.set(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, CUDNN_TYPE_INT64, padding);
  convolution.set(CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, CUDNN_TYPE_INT64, padding);
  convolution.set(CUDNN_ATTR_CONVOLUTION_DILATIONS, CUDNN_TYPE_INT64, ones);
  convolution.set(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, CUDNN_TYPE_INT64, ones);
  convolution.finalise("describing a convolution");
  return convolution;
}

/// The graph of one operation, and the operation, which must live as long.
struct Graph {
  Descriptor operation;
  Descriptor graph;
};

/// The graph of the convolution.
Graph make_graph(const Handle& handle, const Shape& shape, int storage) {
  const Descriptor input = make_tensor(input_id, storage, shape, 1, shape.field);
  const Descriptor filter = make_tensor(filter_id, storage, shape, shape.view.channels, shape.filter);
  const Descriptor output = make_tensor(output_id, storage, shape, 1, shape.field);
  const Descriptor convolution = make_convolution(shape);
  Descriptor operation(CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR);
  operation.set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X, input);
  operation.set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W, filter);
  operation.set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y, output);
  operation.set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC, convolution);
  operation.set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA, CUDNN_TYPE_FLOAT, 1.0F);
  operation.set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA, CUDNN_TYPE_FLOAT, 0.0F);
  operation.finalise("describing the operation");
  Descriptor graph(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
  graph.set(CUDNN_ATTR_OPERATIONGRAPH_OPS, operation);
  graph.set(CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, handle.get());
  graph.finalise("making the graph");
  return {std::move(operation), std::move(graph)};
}

/// What the heuristics of a kind propose, best first; nothing where they have no answer.
std::vector<Descriptor> propose(const Descriptor& graph, cudnnBackendHeurMode_t mode) {
  Descriptor heuristics(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
  heuristics.set(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph);
  heuristics.set(CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, mode);
  if (cudnnBackendFinalize(heuristics.get()) != CUDNN_STATUS_SUCCESS) return {};
  std::vector<Descriptor> configurations;
  std::vector<cudnnBackendDescriptor_t> places;
  for (std::int64_t i = 0; i < most_configurations; ++i) {
    configurations.emplace_back(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
    places.push_back(configurations.back().get());
  }
  std::int64_t count = 0;
  if (cudnnBackendGetAttribute(heuristics.get(), CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR,
                               most_configurations, &count, places.data()) != CUDNN_STATUS_SUCCESS) {
    return {};
  }
  configurations.erase(configurations.begin() + std::min(count, most_configurations), configurations.end());
  return configurations;
}

std::int64_t engine_number(const Descriptor& configuration) {
  const Descriptor engine(CUDNN_BACKEND_ENGINE_DESCRIPTOR);
  cudnnBackendDescriptor_t place = engine.get();
  std::int64_t count = 0;
  std::int64_t number = -1;
  require(cudnnBackendGetAttribute(configuration.get(), CUDNN_ATTR_ENGINECFG_ENGINE,
                                   CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &count, &place),
          "asking for the engine");
  require(cudnnBackendGetAttribute(engine.get(), CUDNN_ATTR_ENGINE_GLOBAL_INDEX, CUDNN_TYPE_INT64, 1, &count,
                                   &number),
          "asking for the engine's number");
  return number;
}

/// A way of computing the convolution, ready to run.
class Plan {
 public:
  Plan(std::shared_ptr<const Handle> handle, std::shared_ptr<const DeviceMemory> weights,
       const DeviceFields& fields, Descriptor configuration)
      : handle_(std::move(handle)),
        weights_(std::move(weights)),
        fields_(fields),
        configuration_(std::move(configuration)) {
    plan_.set(CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, handle_->get());
    plan_.set(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, configuration_);
    plan_.finalise("planning");
    std::int64_t count = 0;
    require(cudnnBackendGetAttribute(plan_.get(), CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64,
                                     1, &count, &workspace_bytes_),
            "asking for the workspace");
  }

  [[nodiscard]] std::int64_t workspace_bytes() const { return workspace_bytes_; }
  void drop_workspace() { workspace_.reset(); }

  void run(int pair, cudaStream_t stream) {
    if (workspace_ == nullptr && workspace_bytes_ > 0) workspace_ = allocate_device(workspace_bytes_);
    require(cudnnSetStream(handle_->get(), stream), "the stream");
    Descriptor pack(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
    // The interface takes pointers to what is only read without const, too.
    pack.set(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR,
             std::vector<void*>{const_cast<void*>(fields_.input_memory(pair)), weights_->get(),
                                fields_.output_memory(pair)});
    pack.set(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64,
             std::vector{input_id, filter_id, output_id});
    pack.set(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, workspace_.get());
    pack.finalise("naming the tensors");
    require(cudnnBackendExecute(handle_->get(), plan_.get(), pack.get()), "the convolution");
  }

 private:
  std::shared_ptr<const Handle> handle_;
  std::shared_ptr<const DeviceMemory> weights_;
  const DeviceFields& fields_;
  Descriptor configuration_;
  Descriptor plan_{CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR};
  std::int64_t workspace_bytes_ = 0;
  DeviceMemory workspace_;
};

/// The shortest of a few runs after a warm one, in microseconds; the first alone where it is long.
double time_plan(Plan& plan) {
  const Stream stream = make_stream();
  const Event start = make_event();
  const Event stop = make_event();
  double shortest = std::numeric_limits<double>::infinity();
  for (int i = 0; i <= timed_runs; ++i) {
    bench::require(cudaEventRecord(start.get(), stream.get()), "recording an event");
    plan.run(0, stream.get());
    bench::require(cudaEventRecord(stop.get(), stream.get()), "recording an event");
    const double time = microseconds_between(start, stop);
    if (time > long_microseconds) return time;
    if (i > 0) shortest = std::min(shortest, time);
  }
  return shortest;
}

struct TimedPlan {
  double microseconds;
  std::string name;
  std::shared_ptr<Plan> plan;
};

bool faster(const TimedPlan& a, const TimedPlan& b) {
  return a.microseconds < b.microseconds;
}

std::int64_t workspace_limit() {
  std::size_t free_bytes = 0;
  std::size_t total_bytes = 0;
  bench::require(cudaMemGetInfo(&free_bytes, &total_bytes), "asking for free memory");
  return std::min(largest_workspace, static_cast<std::int64_t>(free_bytes) / 2);
}

/// Tries what one kind of heuristics proposes. A proposal that cannot run is no error; of an engine that
/// takes many times the shortest time so far no other configuration is tried.
void try_proposals(const std::shared_ptr<const Handle>& handle,
                   const std::shared_ptr<const DeviceMemory>& weights, const DeviceFields& fields,
                   const View& view, std::vector<Descriptor> configurations, std::vector<TimedPlan>& timed) {
  constexpr double hopeless = 4;
  const auto began = std::chrono::steady_clock::now();
  std::set<std::int64_t> slow_engines;
  for (Descriptor& configuration : configurations) {
    if (std::chrono::steady_clock::now() - began > std::chrono::duration<double>(search_seconds)) return;
    try {
      const std::int64_t engine = engine_number(configuration);
      if (slow_engines.contains(engine)) continue;
      const auto plan = std::make_shared<Plan>(handle, weights, fields, std::move(configuration));
      if (plan->workspace_bytes() > workspace_limit()) continue;
      const double time = time_plan(*plan);
      plan->drop_workspace();
      timed.push_back({time, std::string(view.name) + ", engine " + std::to_string(engine), plan});
      const auto best = std::min_element(timed.begin(), timed.end(), faster);
      if (time > hopeless * best->microseconds || time > endless_microseconds) slow_engines.insert(engine);
    } catch (const std::runtime_error&) {
      continue;
    }
  }
}

void try_view(const std::shared_ptr<const Handle>& handle, const Stencil& stencil, const DeviceFields& fields,
              const View& view, std::vector<TimedPlan>& timed) {
  if (fields.layout().extents[2] % view.channels != 0) return;
  const Shape shape = make_shape(view, fields.layout().extents, filter_radius(stencil));
  const auto weights = std::make_shared<const DeviceMemory>(upload_filter(stencil, shape, fields.storage()));
  const Graph graph = make_graph(*handle, shape, fields.storage());
  for (const cudnnBackendHeurMode_t mode : {CUDNN_HEUR_MODE_A, CUDNN_HEUR_MODE_FALLBACK}) {
    try_proposals(handle, weights, fields, view, propose(graph.graph, mode), timed);
  }
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

std::vector<Contestant> cudnn_baselines(const Contestant& kernel, const DeviceFields& fields,
                                        CudnnView view) {
  if (kernel.steps != 1) throw std::runtime_error("one convolution is one time step");
  const bool blocked = view == CudnnView::blocked;
  Contestant convolution;
  convolution.label = "baseline";
  convolution.name = (blocked ? "cudnn8:" : "cudnn:") + kernel.name;
  convolution.fields = &fields;
  convolution.layout = fields.layout();
  convolution.stencil = zero_padded(kernel.stencil, fields.storage());
  convolution.arithmetic = {fields.storage(), static_cast<int>(kernel.stencil.taps.size())};

  const auto handle = std::make_shared<const Handle>(make_handle());
  std::vector<TimedPlan> timed;
  for (const View& one : blocked ? blocked_views : plain_views) {
    try_view(handle, convolution.stencil, fields, one, timed);
  }
  if (timed.empty()) throw std::runtime_error("cuDNN proposes nothing that runs");
  std::stable_sort(timed.begin(), timed.end(), faster);
  if (timed.front().microseconds > endless_microseconds) {
    throw std::runtime_error("the fastest that cuDNN proposes takes " +
                             std::to_string(std::lround(timed.front().microseconds / 1e3)) + " ms");
  }
  std::vector<Contestant> sorted;
  for (const TimedPlan& one : timed) {
    convolution.detail = one.name;
    convolution.launch = [plan = one.plan](int pair, cudaStream_t stream) { plan->run(pair, stream); };
    sorted.push_back(convolution);
  }
  return sorted;
}

}  // namespace bench
