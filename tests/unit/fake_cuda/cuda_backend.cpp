// The CUDA back end on machines that are made up: two devices, memory of each, threads, and errors of earlier
// work. tests/gpu/misuse.cu checks the same on real ones.
#include <cuda_runtime_api.h>
#include <spider/kernel.h>
#include <spider/memory.h>
#include <spider/points.h>
#include <spider/spider.h>

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace {

struct Device {
  int arch = 90;
  int multiprocessors = 132;
  int code_arch = 90;                        ///< that kernels were compiled for
  std::map<const void*, int> loads;          ///< of a kernel, by cudaFuncGetAttributes
  std::map<const void*, int> shared_memory;  ///< that a kernel may have beyond 48 KiB
  std::vector<int> grids;                    ///< blocks of each launch
  std::vector<int> images;                   ///< of each launch
  std::vector<const void*> functions;        ///< of each launch
  std::vector<bool> early;                   ///< whether each launch may start while the one ahead runs
  std::vector<cudaStream_t> streams;         ///< of each launch
};

struct Allocation {
  std::unique_ptr<std::byte[]> bytes;
  std::size_t size = 0;
  int device = 0;
};

/// A machine. Peers: {who, whose memory}.
struct Machine {
  std::mutex mutex;
  std::vector<Device> devices;
  std::map<const std::byte*, Allocation> allocations;
  std::map<std::pair<int, int>, bool> peers;
  int driver = 13000;
  cudaError_t sticky = cudaSuccess;           ///< of earlier work: every later call gives it
  int largest_shared = 227 << 10;             ///< dynamic shared memory of a block, in bytes
  int copies = 0;                             ///< calls that copy
  cudaStream_t captured = nullptr;            ///< that a graph is captured from
  cudaStream_t awaited = nullptr;             ///< by the last call that waited for a stream
  int pools = 0;                              // made
  std::vector<cudaStream_t> scratch_streams;  // of memory in the order of a stream, given and taken back
};

Machine machine;
thread_local int current = 0;
thread_local cudaError_t last_error = cudaSuccess;

cudaError_t fail(cudaError_t error) {
  return last_error = error;
}

using Lock = std::lock_guard<std::mutex>;

Device& here() {
  return machine.devices[static_cast<std::size_t>(current)];
}

const Allocation* find_allocation(const void* pointer) {
  const auto* place = static_cast<const std::byte*>(pointer);
  auto next = machine.allocations.upper_bound(place);
  if (next == machine.allocations.begin()) return nullptr;
  const auto& [begin, allocation] = *--next;
  return place < begin + allocation.size ? &allocation : nullptr;
}

}  // namespace

cudaError_t cudaPeekAtLastError() {
  return last_error;
}
cudaError_t cudaGetLastError() {
  return std::exchange(last_error, machine.sticky);
}
const char* cudaGetErrorString(cudaError_t error) {
  return error == cudaErrorMemoryAllocation ? "out of memory" : "an error";
}
cudaError_t cudaGetDevice(int* device) {
  if (machine.devices.empty()) return fail(cudaErrorNoDevice);
  *device = current;
  return cudaSuccess;
}
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device) {
  const Device& asked = machine.devices.at(static_cast<std::size_t>(device));
  switch (attribute) {
    case cudaDevAttrMultiProcessorCount:
      *value = asked.multiprocessors;
      break;
    case cudaDevAttrComputeCapabilityMajor:
      *value = asked.arch / 10;
      break;
    case cudaDevAttrComputeCapabilityMinor:
      *value = asked.arch % 10;
      break;
    case cudaDevAttrMaxSharedMemoryPerBlockOptin:
      *value = machine.largest_shared;
      break;
    case cudaDevAttrPageableMemoryAccess:
      *value = 0;
      break;
  }
  return cudaSuccess;
}
cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attributes, const void* function) {
  if (machine.sticky != cudaSuccess) return fail(machine.sticky);
  const Lock lock(machine.mutex);
  attributes->ptxVersion = here().code_arch;
  ++here().loads[function];
  return cudaSuccess;
}
cudaError_t cudaFuncSetAttribute(const void* function, cudaFuncAttribute attribute, int value) {
  const Lock lock(machine.mutex);
  if (attribute == cudaFuncAttributeMaxDynamicSharedMemorySize) {
    if (value > machine.largest_shared) return fail(cudaErrorInvalidValue);
    here().shared_memory[function] = value;
  }
  return cudaSuccess;
}
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, const void* /*function*/,
                                                          int /*threads*/, std::size_t /*shared_bytes*/) {
  *blocks = 1;
  return cudaSuccess;
}
cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes, const void* pointer) {
  const Lock lock(machine.mutex);
  const Allocation* found = find_allocation(pointer);
  *attributes = {};
  if (found == nullptr) return cudaSuccess;
  const bool reachable = found->device == current || machine.peers[{current, found->device}];
  *attributes = {cudaMemoryTypeDevice, found->device, reachable ? const_cast<void*>(pointer) : nullptr,
                 nullptr};
  return cudaSuccess;
}
cudaError_t cudaDriverGetVersion(int* version) {
  *version = machine.driver;
  return cudaSuccess;
}
cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t* config, const void* function,
                                void** /*arguments*/) {
  if (machine.sticky != cudaSuccess) return fail(machine.sticky);
  const Lock lock(machine.mutex);
  if (config->dynamicSmemBytes > static_cast<std::size_t>(here().shared_memory[function]))
    return fail(cudaErrorInvalidValue);
  here().grids.push_back(static_cast<int>(config->gridDim.x));
  here().images.push_back(static_cast<int>(config->gridDim.y));
  here().functions.push_back(function);
  here().streams.push_back(config->stream);
  here().early.push_back(config->numAttrs == 1 &&
                         config->attrs->id == cudaLaunchAttributeProgrammaticStreamSerialization &&
                         config->attrs->val.programmaticStreamSerializationAllowed == 1);
  return cudaSuccess;
}
cudaError_t cudaMalloc(void** memory, std::size_t bytes) {
  if (bytes > std::size_t{1} << 40) return fail(cudaErrorMemoryAllocation);
  const Lock lock(machine.mutex);
  Allocation made{std::make_unique<std::byte[]>(bytes), bytes, current};
  *memory = made.bytes.get();
  machine.allocations[made.bytes.get()] = std::move(made);
  return cudaSuccess;
}
cudaError_t cudaFree(void* memory) {
  const Lock lock(machine.mutex);
  machine.allocations.erase(static_cast<const std::byte*>(memory));
  return cudaSuccess;
}
cudaError_t cudaMemPoolCreate(cudaMemPool_t* pool, const cudaMemPoolProps* properties) {
  ++machine.pools;
  *pool = reinterpret_cast<cudaMemPool_t>(static_cast<std::uintptr_t>(properties->location.id) + 1);
  return cudaSuccess;
}
cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t /*pool*/, cudaMemPoolAttr /*attribute*/, void* /*value*/) {
  return cudaSuccess;
}
cudaError_t cudaMallocFromPoolAsync(void** memory, std::size_t bytes, cudaMemPool_t /*pool*/,
                                    cudaStream_t stream) {
  machine.scratch_streams.push_back(stream);
  return cudaMalloc(memory, bytes);
}
cudaError_t cudaFreeAsync(void* memory, cudaStream_t stream) {
  machine.scratch_streams.push_back(stream);
  return cudaFree(memory);
}
cudaError_t cudaMemcpy(void* to, const void* from, std::size_t bytes, cudaMemcpyKind /*kind*/) {
  std::memcpy(to, from, bytes);
  ++machine.copies;
  return cudaSuccess;
}
cudaError_t cudaMemset(void* memory, int value, std::size_t bytes) {
  if (machine.sticky != cudaSuccess) return fail(machine.sticky);
  std::memset(memory, value, bytes);
  machine.awaited = nullptr;
  return cudaSuccess;
}
cudaError_t cudaMemcpy2D(void* to, std::size_t to_pitch, const void* from, std::size_t from_pitch,
                         std::size_t width, std::size_t height, cudaMemcpyKind /*kind*/) {
  constexpr std::size_t largest_pitch = 0x7fffffff;
  if (width > std::min(to_pitch, from_pitch) || std::max(to_pitch, from_pitch) > largest_pitch)
    return fail(cudaErrorInvalidPitchValue);
  ++machine.copies;
  for (std::size_t row = 0; row < height; ++row) {
    std::memcpy(static_cast<std::byte*>(to) + row * to_pitch,
                static_cast<const std::byte*>(from) + row * from_pitch, width);
  }
  return cudaSuccess;
}
cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus* status) {
  *status = stream == machine.captured ? cudaStreamCaptureStatusActive : cudaStreamCaptureStatusNone;
  return cudaSuccess;
}
cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  machine.awaited = stream;
  return machine.sticky == cudaSuccess ? cudaSuccess : fail(machine.sticky);
}

namespace {

constexpr spider::TapRow rows_of_taps[] = {{0, -1, 0, 0}, {0, 0, -1, 1}, {0, 1, 0, 0}};

void sweep_of_nothing(spider::SweepArguments /*arguments*/) {}
void other_sweep_of_nothing(spider::SweepArguments /*arguments*/) {}
void boxes_of_nothing(spider::BoxesArguments /*arguments*/) {}
void system_of_nothing(spider::SystemArguments /*arguments*/) {}
void other_system_of_nothing(spider::SystemArguments /*arguments*/) {}
void points_of_nothing(spider::PointArguments /*arguments*/) {}

/// A kernel of its own for each test, since what is loaded stays known.
std::unique_ptr<spider_kernel> make_kernel() {
  auto kernel = std::make_unique<spider_kernel>();
  kernel->abi = SPIDER_ABI;
  kernel->size = sizeof(spider_kernel);
  kernel->launch_size = sizeof(spider::SweepArguments);
  kernel->info = {sizeof(spider_kernel_info),
                  SPIDER_ABI,
                  "five",
                  "by hand",
                  "",
                  2,
                  SPIDER_F16,
                  SPIDER_F32,
                  1,
                  {0, 1, 1},
                  {0, 1, 1},
                  80,
                  0,
                  SPIDER_BACKEND_CUDA,
                  nullptr,
                  0,
                  0,
                  nullptr,
                  nullptr,
                  nullptr,
                  0,
                  nullptr,
                  nullptr,
                  nullptr,
                  0,
                  SPIDER_F16};
  kernel->form_count = 1;
  kernel->forms[0].sweep = sweep_of_nothing;
  kernel->forms[0].tiling.kind = spider::TilingKind::strips;
  kernel->forms[0].tiling.warps_per_block = 1;
  kernel->forms[0].tiling.shared_bytes = 100 << 10;
  kernel->forms[0].tiling.input_alignment = kernel->forms[0].tiling.output_alignment = 16;
  kernel->forms[0].tiling.tile_extent[2] = 128;
  kernel->forms[0].tiling.anchor = 64;
  kernel->tap_rows = rows_of_taps;
  kernel->tap_row_count = 3;
  kernel->points = points_of_nothing;
  return kernel;
}

struct Release {
  void operator()(void* memory) const { static_cast<void>(spider_free(memory)); }
};

constexpr std::int64_t rows = 2000;
constexpr std::int64_t columns = 3000;
constexpr std::int64_t stride = 3008;

/// A field with its halo, in memory of the device that was current.
class Grid {
 public:
  Grid() {
    void* memory = nullptr;
    EXPECT_EQ(spider_allocate(2 * (rows + 4) * stride, &memory), SPIDER_OK);
    memory_.reset(memory);
  }

  [[nodiscard]] spider_field field() const {
    return {static_cast<std::uint16_t*>(memory_.get()) + 2 * stride + 8, {1, rows, columns}, {0, stride}};
  }

 private:
  std::unique_ptr<void, Release> memory_;
};

/// A machine with two devices, of which the first is current.
class CudaBackend : public ::testing::Test {
 protected:
  // Kernels that were loaded stay known by their address: none is released before all tests are over.
  static std::vector<std::unique_ptr<spider_kernel>>& all_kernels() {
    static std::vector<std::unique_ptr<spider_kernel>> kernels;
    return kernels;
  }

  CudaBackend() {
    machine.devices.assign(2, {});
    machine.peers.clear();
    machine.driver = 13000;
    machine.sticky = cudaSuccess;
    machine.captured = nullptr;
    machine.copies = 0;
    current = 0;
    last_error = cudaSuccess;
    all_kernels().push_back(make_kernel());
    kernel_ = all_kernels().back().get();
  }

  [[nodiscard]] spider_status apply(const Grid& in, const Grid& out, void* stream = nullptr) const {
    const spider_field from = in.field();
    const spider_field to = out.field();
    return spider_apply(kernel_, &from, &to, stream);
  }

  [[nodiscard]] int loads(std::size_t device) const {
    return machine.devices[device].loads[reinterpret_cast<const void*>(kernel_->forms[0].sweep.plain)];
  }

  static bool last_error_says(const std::string& words) {
    return std::string(spider_last_error()).find(words) != std::string::npos;
  }

  spider_kernel* kernel_ = nullptr;
};

TEST_F(CudaBackend, LoadsAKernelOnceOnEachDevice) {
  for (const int device : {0, 1, 0, 1}) {
    current = device;
    const Grid in;
    const Grid out;
    ASSERT_EQ(apply(in, out), SPIDER_OK) << spider_last_error();
    ASSERT_EQ(apply(in, out), SPIDER_OK) << spider_last_error();
  }
  EXPECT_EQ(loads(0), 1);
  EXPECT_EQ(loads(1), 1);
  EXPECT_EQ(machine.devices[0].grids.size(), 4U);
  EXPECT_EQ(machine.devices[1].grids.size(), 4U);
}

TEST_F(CudaBackend, LoadsAKernelAgainWhereItsContextIsGone) {
  int stream = 0;
  const Grid in;
  const Grid out;
  const auto lose_context = [] { machine.devices[0].shared_memory.clear(); };
  ASSERT_EQ(apply(in, out, &stream), SPIDER_OK) << spider_last_error();
  lose_context();
  ASSERT_EQ(apply(in, out, &stream), SPIDER_OK) << spider_last_error();
  ASSERT_EQ(apply(in, out, &stream), SPIDER_OK) << spider_last_error();
  EXPECT_EQ(loads(0), 2);
  EXPECT_EQ(machine.devices[0].grids.size(), 3U);
  EXPECT_EQ(cudaPeekAtLastError(), cudaSuccess);

  lose_context();
  machine.captured = reinterpret_cast<cudaStream_t>(&stream);
  EXPECT_EQ(apply(in, out, &stream), SPIDER_ERROR_LAUNCH) << "nothing is loaded during a capture";
  EXPECT_EQ(loads(0), 2);
  ASSERT_EQ(spider_prepare(kernel_), SPIDER_OK) << spider_last_error();
  EXPECT_EQ(loads(0), 3);
  EXPECT_EQ(apply(in, out, &stream), SPIDER_OK) << spider_last_error();
  EXPECT_EQ(cudaPeekAtLastError(), cudaSuccess);
}

TEST_F(CudaBackend, TriesALaunchThatFailsOnceMore) {
  const Grid in;
  const Grid out;
  ASSERT_EQ(spider_prepare(kernel_), SPIDER_OK) << spider_last_error();
  kernel_->forms[0].tiling.shared_bytes = machine.largest_shared + 1;
  EXPECT_EQ(apply(in, out), SPIDER_ERROR_DEVICE);
  EXPECT_TRUE(last_error_says("reserving shared memory failed")) << spider_last_error();
  EXPECT_EQ(loads(0), 2);
  EXPECT_EQ(cudaPeekAtLastError(), cudaSuccess);
}

TEST_F(CudaBackend, LeavesOutAFormThatTheDeviceHasNoSharedMemoryFor) {
  const Grid in;
  const Grid out;
  kernel_->forms[1] = kernel_->forms[0];
  kernel_->form_count = 2;
  kernel_->forms[0].tiling.shared_bytes = machine.largest_shared + 1;
  EXPECT_EQ(apply(in, out), SPIDER_OK) << spider_last_error();
  EXPECT_EQ(cudaPeekAtLastError(), cudaSuccess);
}

TEST_F(CudaBackend, CutsAFieldForTheDeviceThatSweepsIt) {
  machine.devices[1].multiprocessors = 8;
  for (current = 0; current < 2; ++current) {
    const Grid in;
    const Grid out;
    ASSERT_EQ(apply(in, out), SPIDER_OK) << spider_last_error();
  }
  EXPECT_GT(machine.devices[0].grids.at(0), machine.devices[1].grids.at(0));
}

TEST_F(CudaBackend, RefusesMemoryOfAnotherDevice) {
  const Grid on_first;
  current = 1;
  const Grid on_second;
  EXPECT_EQ(apply(on_first, on_second), SPIDER_ERROR_DEVICE);
  EXPECT_TRUE(last_error_says("the input is in the memory of device 0, which device 1 cannot reach"))
      << spider_last_error();
  EXPECT_EQ(apply(on_second, on_first), SPIDER_ERROR_DEVICE);
  EXPECT_TRUE(last_error_says("the output is in the memory of device 0")) << spider_last_error();
  EXPECT_TRUE(machine.devices[1].grids.empty());
  machine.peers[{1, 0}] = true;
  EXPECT_EQ(apply(on_first, on_second), SPIDER_OK) << spider_last_error();
  EXPECT_EQ(machine.devices[1].grids.size(), 1U);
}

TEST_F(CudaBackend, RefusesMemoryOfTheHost) {
  const Grid out;
  std::vector<std::uint16_t> host((rows + 4) * stride);
  const spider_field from{&host[2 * stride + 8], {1, rows, columns}, {0, stride}};
  const spider_field to = out.field();
  EXPECT_EQ(spider_apply(kernel_, &from, &to, nullptr), SPIDER_ERROR_DEVICE);
  EXPECT_TRUE(last_error_says("the input is in host memory, which device 0 cannot reach"))
      << spider_last_error();
}

TEST_F(CudaBackend, RefusesTheDeviceThatCannotRunAKernelAndNoOther) {
  machine.devices[1].arch = 75;
  current = 1;
  EXPECT_EQ(spider_prepare(kernel_), SPIDER_ERROR_DEVICE);
  EXPECT_TRUE(last_error_says("needs compute capability 8.0; device 1 has 7.5")) << spider_last_error();
  current = 0;
  EXPECT_EQ(spider_prepare(kernel_), SPIDER_OK) << spider_last_error();
}

TEST_F(CudaBackend, ThreadsOnTwoDevicesDoNotDisturbEachOther) {
  constexpr int threads = 8;
  constexpr std::size_t sweeps = 50;
  std::array<int, threads> right{};
  std::vector<std::thread> all;
  for (int number = 0; number < threads; ++number) {
    all.emplace_back([&, number] {
      current = number % 2;
      const Grid in;
      const Grid out;
      for (std::size_t i = 0; i < sweeps; ++i)
        right[static_cast<std::size_t>(number)] += apply(in, out) == SPIDER_OK ? 1 : 0;
    });
  }
  for (std::thread& thread : all) thread.join();
  for (const int sweeps_done : right) EXPECT_EQ(sweeps_done, static_cast<int>(sweeps));
  for (const Device& device : machine.devices) EXPECT_EQ(device.grids.size(), threads / 2 * sweeps);
}

TEST_F(CudaBackend, StartsEarlyWhatWaitsItselfOnStreamsOfTheCaller) {
  int streams[2] = {};
  const Grid in;
  const Grid out;
  const auto sweep_on = [&](void* stream) {
    EXPECT_EQ(apply(in, out, stream), SPIDER_OK) << spider_last_error();
    return machine.devices[0].early.back();
  };
  EXPECT_FALSE(sweep_on(streams));
  const auto next_kernel = [&] {
    all_kernels().push_back(make_kernel());
    kernel_ = all_kernels().back().get();
    kernel_->forms[0].starts_early = true;
  };
  next_kernel();
  EXPECT_TRUE(sweep_on(streams));
  EXPECT_TRUE(sweep_on(streams + 1));
  EXPECT_FALSE(sweep_on(nullptr));
  EXPECT_FALSE(sweep_on(cudaStreamLegacy));
  next_kernel();
  machine.driver = 12020;
  EXPECT_FALSE(sweep_on(streams));
  next_kernel();
  machine.driver = 13000;
  machine.devices[0].code_arch = 80;
  EXPECT_FALSE(sweep_on(streams));
  next_kernel();
  machine.devices[0].code_arch = 90;
  machine.devices[0].arch = 89;
  EXPECT_FALSE(sweep_on(streams));
}

TEST_F(CudaBackend, TakesNoStreamForTheLegacyDefaultStream) {
  const Grid in;
  const Grid out;
  int own = 0;
  for (void* stream : {static_cast<void*>(nullptr), static_cast<void*>(&own)})
    ASSERT_EQ(apply(in, out, stream), SPIDER_OK) << spider_last_error();
  EXPECT_EQ(machine.devices[0].streams,
            (std::vector{cudaStreamLegacy, reinterpret_cast<cudaStream_t>(&own)}));
  machine.awaited = nullptr;
  EXPECT_EQ(spider_synchronize(nullptr), SPIDER_OK);
  EXPECT_EQ(machine.awaited, cudaStreamLegacy);
}

TEST_F(CudaBackend, AccessesPointsInOneLaunchOnTheStream) {
  const Grid grid;
  const Grid values;
  const spider_field field = grid.field();
  // 300 points in 129 cells.
  std::vector<std::int64_t> cells;
  for (std::int64_t i = 0; i < 300; ++i) cells.insert(cells.end(), {0, 5, i % 129});
  spider_points* points = nullptr;
  ASSERT_EQ(spider_points_create(kernel_, field.extent, cells.data(), 300, &points), SPIDER_OK)
      << spider_last_error();
  // Loaded before a capture could see it.
  EXPECT_EQ(machine.devices[0].loads[reinterpret_cast<const void*>(points_of_nothing)], 1);
  int own = 0;
  const int copies = machine.copies;
  ASSERT_EQ(spider_points_add(points, &field, values.field().data, &own), SPIDER_OK) << spider_last_error();
  ASSERT_EQ(spider_points_read(points, &field, values.field().data, nullptr), SPIDER_OK)
      << spider_last_error();
  EXPECT_EQ(machine.devices[0].grids, (std::vector{2, 2}));
  EXPECT_EQ(machine.devices[0].functions,
            (std::vector<const void*>(2, reinterpret_cast<const void*>(points_of_nothing))));
  EXPECT_EQ(machine.devices[0].early, (std::vector{false, false}));
  EXPECT_EQ(machine.devices[0].streams,
            (std::vector{reinterpret_cast<cudaStream_t>(&own), cudaStreamLegacy}));
  EXPECT_EQ(machine.copies, copies);

  std::vector<float> host(300);
  EXPECT_EQ(spider_points_add(points, &field, host.data(), nullptr), SPIDER_ERROR_DEVICE);
  EXPECT_TRUE(last_error_says("the list of values is in host memory")) << spider_last_error();
  current = 1;
  const Grid on_second;
  const spider_field there = on_second.field();
  EXPECT_EQ(spider_points_add(points, &there, on_second.field().data, nullptr), SPIDER_ERROR_OVERLAP);
  EXPECT_EQ(spider_points_add(points, &field, values.field().data, nullptr), SPIDER_ERROR_DEVICE);
  EXPECT_TRUE(last_error_says("the field is in the memory of device 0")) << spider_last_error();
  current = 0;
  EXPECT_EQ(machine.devices[0].grids.size(), 2U);
  EXPECT_EQ(spider_points_free(points), SPIDER_OK);

  kernel_->points = nullptr;
  EXPECT_EQ(spider_points_create(kernel_, field.extent, cells.data(), 300, &points), SPIDER_ERROR_KERNEL);
  EXPECT_TRUE(last_error_says("generate it again")) << spider_last_error();
}

TEST_F(CudaBackend, LoadsAllFormsAndTakesTheFirstThatAFieldFills) {
  kernel_->form_count = 2;
  kernel_->forms[1] = kernel_->forms[0];
  kernel_->forms[1].sweep = other_sweep_of_nothing;
  const Grid in;
  const Grid out;
  for (const int min_blocks_per_sm : {0, 1000}) {
    kernel_->forms[0].min_blocks_per_sm = min_blocks_per_sm;
    ASSERT_EQ(apply(in, out), SPIDER_OK) << spider_last_error();
  }
  for (std::size_t i = 0; i < 2; ++i) {
    const auto* function = reinterpret_cast<const void*>(kernel_->forms[i].sweep.plain);
    EXPECT_EQ(machine.devices[0].loads[function], 1);
    EXPECT_EQ(machine.devices[0].functions.at(i), function);
  }
}

/// One field that a first launch writes into its second buffer, and a second one in place.
TEST_F(CudaBackend, RunsAllLaunchesOfASystem) {
  static constexpr spider::SystemField field = {SPIDER_F16, {false, true, true}, {}};
  static constexpr spider::ReadRow around[] = {{0, 0, -1, 0, 0}, {0, 0, 0, -1, 1}};
  static constexpr spider::ReadRow at_point[] = {{0, 0, 0, 0, 0}};
  static constexpr spider::WrittenField other[] = {{0, true}};
  static constexpr spider::WrittenField same[] = {{0, false}};
  static constexpr spider::SystemSweep sweeps[] = {
      {1, around, 2, other, 1, {0, 1, 1}, {0, 0, 1}, 8, nullptr, 0, {}},
      {1, at_point, 1, same, 1, {}, {}, 8, nullptr, 0, {}}};
  static constexpr spider::SystemFacts system = {&field, sweeps};
  static constexpr const char* names[] = {"u"};
  static constexpr std::int32_t storages[] = {SPIDER_F16};
  kernel_->system = &system;
  kernel_->info.field_count = 1;
  kernel_->info.field_names = names;
  kernel_->info.field_storages = storages;
  kernel_->info.launch_count = kernel_->form_count = 2;
  kernel_->launch_size = sizeof(spider::SystemArguments);
  kernel_->forms[1] = kernel_->forms[0];
  kernel_->forms[0].sweep = system_of_nothing;
  kernel_->forms[1].sweep = other_system_of_nothing;
  for (spider::SweepForm& form : kernel_->forms) {
    form.tiling.kind = spider::TilingKind::blocks;
    form.tiling.anchor = 8;
    std::copy_n(std::array{1, 16, 64}.data(), 3, form.tiling.tile_extent);
  }
  const Grid first;
  const Grid second;
  const spider_field u = first.field();
  const spider_field output = second.field();
  const spider_field* fields[] = {&u};
  const spider_field* outputs[] = {&output};
  spider_sweep sweep{};
  sweep.size = sizeof sweep;
  sweep.fields = fields;
  sweep.outputs = outputs;
  ASSERT_EQ(spider_run_steps(kernel_, &sweep, 3, nullptr), SPIDER_OK) << spider_last_error();
  const Device& device = machine.devices[0];
  ASSERT_EQ(device.functions.size(), 6U);
  for (std::size_t i = 0; i < 6; ++i) {
    EXPECT_EQ(device.functions[i], reinterpret_cast<const void*>(kernel_->forms[i % 2].sweep.system));
    EXPECT_EQ(device.grids[i], 125 * 47);
  }
  EXPECT_EQ(spider_apply(kernel_, &u, &output, nullptr), SPIDER_ERROR_UNSUPPORTED);
  // All launches run: one that the device has no shared memory for is no reason to take another.
  all_kernels().push_back(std::make_unique<spider_kernel>(*kernel_));
  kernel_ = all_kernels().back().get();
  kernel_->forms[0].tiling.shared_bytes = 1 << 20;
  EXPECT_NE(spider_run(kernel_, &sweep), SPIDER_OK);
}

/// One launch where the function finds its images by itself, as many as CUDA's grids have rows; else each.
TEST_F(CudaBackend, SweepsImages) {
  const Grid first;
  const Grid second;
  spider_field in = first.field();
  spider_field out = second.field();
  in.extent[1] = out.extent[1] = 10;
  spider_sweep sweep{};
  sweep.size = sizeof sweep;
  sweep.in = &in;
  sweep.out = &out;
  sweep.batch = 5;
  sweep.batch_stride = 20 * stride;
  ASSERT_EQ(spider_run(kernel_, &sweep), SPIDER_OK) << spider_last_error();
  EXPECT_EQ(machine.devices[0].images, std::vector<int>(5, 1));
  machine.devices[0].images.clear();
  kernel_->forms[0].takes_images = true;
  ASSERT_EQ(spider_run(kernel_, &sweep), SPIDER_OK) << spider_last_error();
  EXPECT_EQ(machine.devices[0].images, std::vector<int>{5});
  ASSERT_EQ(spider_run_steps(kernel_, &sweep, 3, nullptr), SPIDER_OK) << spider_last_error();
  EXPECT_EQ(machine.devices[0].images, std::vector<int>(4, 5));
  machine.devices[0].images.clear();
  in.extent[1] = out.extent[1] = in.extent[2] = out.extent[2] = 1;
  sweep.batch = 70000;
  sweep.batch_stride = 64;
  ASSERT_EQ(spider_run(kernel_, &sweep), SPIDER_OK) << spider_last_error();
  EXPECT_EQ(machine.devices[0].images, (std::vector{65535, 4465}));
}

/// Addresses of zeros; pages that are touched get memory.
class WideMemory {
 public:
  explicit WideMemory(std::size_t bytes)
      : bytes_(bytes),
        begin_(mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1,
                    0)) {}
  WideMemory(const WideMemory&) = delete;
  WideMemory& operator=(const WideMemory&) = delete;
  ~WideMemory() {
    if (mapped()) munmap(begin_, bytes_);
  }

  [[nodiscard]] bool mapped() const { return begin_ != MAP_FAILED; }
  [[nodiscard]] std::byte* begin() const { return static_cast<std::byte*>(begin_); }

 private:
  std::size_t bytes_;
  void* begin_;
};

TEST_F(CudaBackend, LaunchesTheFormOfRimsAheadOfTheOneThatHasThem) {
  kernel_->form_count = 2;
  kernel_->forms[1] = kernel_->forms[0];
  kernel_->forms[0].starts_early = true;
  kernel_->forms[0] = spider::with_rims(kernel_->forms[0], {32, 0, 0, 0}, {64, 0});
  EXPECT_FALSE(kernel_->forms[0].starts_early);
  kernel_->forms[1].sweep = boxes_of_nothing;
  spider::Tiling& rectangles = kernel_->forms[1].tiling;
  rectangles.kind = spider::TilingKind::rectangles;
  rectangles.tile_cells = 6000;
  kernel_->launch_size = sizeof(spider::BoxesArguments);
  const Grid in;
  const Grid out;
  int stream = 0;
  ASSERT_EQ(apply(in, out, &stream), SPIDER_OK);
  const Device& device = machine.devices[0];
  const std::vector<const void*> expected{reinterpret_cast<const void*>(boxes_of_nothing),
                                          reinterpret_cast<const void*>(sweep_of_nothing)};
  EXPECT_EQ(device.functions, expected);
  ASSERT_EQ(device.streams.size(), 2U);
  EXPECT_EQ(device.streams[0], device.streams[1]);
  // A box that lies in the rims, or beside them, has one of them; the form starts early beside its rims
  // alone.
  const spider_field from = in.field();
  const spider_field to = out.field();
  const std::int64_t at_face[3] = {0, 0, 0};
  const std::int64_t beside[3] = {0, 40, 0};
  const std::int64_t extent[3] = {1, 20, 100};
  ASSERT_EQ(spider_apply_box(kernel_, &from, &to, at_face, extent, &stream), SPIDER_OK);
  ASSERT_EQ(spider_apply_box(kernel_, &from, &to, beside, extent, &stream), SPIDER_OK);
  ASSERT_EQ(device.functions.size(), 4U);
  EXPECT_EQ(device.functions[2], expected[0]);
  EXPECT_EQ(device.functions[3], expected[1]);
  EXPECT_EQ(device.early, (std::vector{false, true, false, false}));
}

TEST_F(CudaBackend, CopiesRowsAtAnyPitch) {
  constexpr std::uint64_t far = std::uint64_t{3} << 30;
  constexpr std::uint64_t row_bytes = 5;
  constexpr std::uint64_t row_count = 3;
  const WideMemory device(row_count * far);
  if (!device.mapped()) GTEST_SKIP() << "no addresses for " << row_count * far << " bytes";
  const std::string text = "first2ndo_third";
  std::string back(text.size(), ' ');
  const auto copy = [&](std::uint64_t pitch, std::uint64_t host_pitch, std::uint64_t rows_of_it) {
    back.assign(text.size(), ' ');
    machine.copies = 0;
    EXPECT_EQ(spider_upload(device.begin(), pitch, text.data(), host_pitch, row_bytes, rows_of_it), SPIDER_OK)
        << spider_last_error();
    EXPECT_EQ(spider_download(back.data(), host_pitch, device.begin(), pitch, row_bytes, rows_of_it),
              SPIDER_OK)
        << spider_last_error();
    return machine.copies;
  };
  EXPECT_EQ(copy(far, row_bytes, row_count), 2 * static_cast<int>(row_count));
  EXPECT_EQ(back, text);
  EXPECT_EQ(std::string(reinterpret_cast<const char*>(device.begin() + 2 * far), row_bytes), "third");
  for (const std::uint64_t pitch : {std::uint64_t{64}, row_bytes}) {
    EXPECT_EQ(copy(pitch, row_bytes, row_count), 2) << "all rows at once where that can be";
    EXPECT_EQ(back, text);
  }
  for (const std::uint64_t pitch : {std::uint64_t{0}, row_bytes, far}) {
    EXPECT_EQ(copy(pitch, pitch, 1), 2) << "the pitch of a single row does not count";
    EXPECT_EQ(back.substr(0, row_bytes), "first");
  }
  EXPECT_EQ(copy(64, 64, 0), 0);
  EXPECT_EQ(cudaPeekAtLastError(), cudaSuccess);
}

TEST_F(CudaBackend, ClearsMemoryAndWaits) {
  void* memory = nullptr;
  ASSERT_EQ(spider_allocate(8, &memory), SPIDER_OK);
  const std::unique_ptr<void, Release> owner(memory);
  std::memset(memory, 1, 8);
  EXPECT_EQ(spider_clear(memory, 6), SPIDER_OK) << spider_last_error();
  EXPECT_EQ(std::memcmp(memory, "\0\0\0\0\0\0\1\1", 8), 0);
  EXPECT_EQ(machine.awaited, cudaStreamLegacy);
  machine.sticky = cudaErrorLaunchFailure;
  EXPECT_EQ(spider_clear(memory, 6), SPIDER_ERROR_DEVICE);
  machine.sticky = cudaSuccess;
}

TEST_F(CudaBackend, RunsPassesWithMemoryInTheOrderOfTheStream) {
  all_kernels().push_back(make_kernel());
  spider_kernel* const other = all_kernels().back().get();
  other->info.reach_low[1] = other->info.reach_high[1] = 0;
  kernel_->info.reach_low[2] = kernel_->info.reach_high[2] = 0;
  all_kernels().push_back(make_kernel());
  spider_kernel* const both = all_kernels().back().get();
  const std::array<const spider_kernel*, 2> passes{other, kernel_};
  both->passes = passes.data();
  both->pass_count = 2;
  const Grid in;
  const Grid out;
  const spider_field from = in.field();
  const spider_field to = out.field();
  ASSERT_EQ(spider_prepare(both), SPIDER_OK) << spider_last_error();
  machine.scratch_streams.clear();
  auto* const stream = reinterpret_cast<cudaStream_t>(std::uintptr_t{64});
  const spider_field* result = nullptr;
  ASSERT_EQ(spider_iterate(both, &from, &to, 3, stream, &result), SPIDER_OK) << spider_last_error();
  EXPECT_EQ(result, &to);
  EXPECT_EQ(machine.devices[0].streams, std::vector<cudaStream_t>(6, stream));
  EXPECT_EQ(machine.scratch_streams, std::vector<cudaStream_t>(2, stream)) << "one for all steps";
  EXPECT_EQ(machine.pools, 1);
}

TEST_F(CudaBackend, LeavesErrorsOfItsCallerAlone) {
  const Grid in;
  const Grid out;
  last_error = cudaErrorMemoryAllocation;
  EXPECT_EQ(apply(in, out), SPIDER_OK) << spider_last_error();
  EXPECT_EQ(cudaPeekAtLastError(), cudaErrorMemoryAllocation);
  last_error = cudaSuccess;
  void* memory = nullptr;
  EXPECT_EQ(spider_allocate(std::uint64_t{1} << 50, &memory), SPIDER_ERROR_MEMORY);
  EXPECT_EQ(cudaPeekAtLastError(), cudaSuccess);
}

TEST_F(CudaBackend, SaysThatADeviceWasLostToEarlierWork) {
  const Grid in;
  const Grid out;
  ASSERT_EQ(spider_prepare(kernel_), SPIDER_OK);
  // All that CUDA's reference says of that the process must be relaunched, and memory that decays.
  for (const int number : {214, 220, 226, 700, 702, 710, 714, 715, 716, 717, 718, 719, 721, 810, 911}) {
    machine.sticky = last_error = static_cast<cudaError_t>(number);
    EXPECT_EQ(apply(in, out), SPIDER_ERROR_DEVICE) << number;
    EXPECT_TRUE(last_error_says("earlier work failed")) << number << ": " << spider_last_error();
    EXPECT_EQ(cudaPeekAtLastError(), number);
  }
  machine.sticky = cudaSuccess;
}

TEST_F(CudaBackend, NamesForkWhereCudaSaysThatItIsNotInitialised) {
  const Grid in;
  const Grid out;
  ASSERT_EQ(apply(in, out), SPIDER_OK) << spider_last_error();
  // As in a child: what was loaded before the fork is still known, and every call fails.
  machine.sticky = cudaErrorInitializationError;
  EXPECT_NE(apply(in, out), SPIDER_OK);
  EXPECT_TRUE(last_error_says("forked")) << spider_last_error();
  EXPECT_TRUE(last_error_says("spawn or forkserver")) << spider_last_error();
  EXPECT_NE(spider_prepare(kernel_), SPIDER_OK);
  EXPECT_TRUE(last_error_says("forked")) << spider_last_error();
  EXPECT_NE(spider_clear(in.field().data, 1), SPIDER_OK);
  EXPECT_TRUE(last_error_says("forked")) << spider_last_error();
  machine.sticky = cudaSuccess;
}

TEST_F(CudaBackend, SaysThatThereIsNoDevice) {
  machine.devices.clear();
  EXPECT_EQ(spider_prepare(kernel_), SPIDER_ERROR_DEVICE);
  EXPECT_TRUE(last_error_says("finding the current device failed")) << spider_last_error();
  EXPECT_EQ(cudaPeekAtLastError(), cudaSuccess);
}

}  // namespace
