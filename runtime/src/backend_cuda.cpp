/// The CUDA back end: plain host C++ on the CUDA runtime library.
// If a consumer defines this globally, the null stream is not the one of spider.h.
#undef CUDA_API_PER_THREAD_DEFAULT_STREAM
#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <limits>
#include <map>
#include <mutex>
#include <shared_mutex>
#include <string>
#include <utility>
#include <vector>

#include "backend.h"
#include "tiling.h"

namespace spider::backend {
namespace {

/// True if the error is permanent once work on the device has met it: any later call returns it.
bool is_sticky(cudaError_t error) {
  // Missing in older toolkits.
  constexpr int contained = 226;
  constexpr int tensor_memory_leak = 721;
  switch (static_cast<int>(error)) {
    case contained:
    case tensor_memory_leak:
    case cudaErrorNvlinkUncorrectable:
    case cudaErrorMpsClientTerminated:
    case cudaErrorExternalDevice:
    case cudaErrorIllegalAddress:
    case cudaErrorLaunchTimeout:
    case cudaErrorAssert:
    case cudaErrorHardwareStackError:
    case cudaErrorIllegalInstruction:
    case cudaErrorMisalignedAddress:
    case cudaErrorInvalidAddressSpace:
    case cudaErrorInvalidPc:
    case cudaErrorLaunchFailure:
    case cudaErrorECCUncorrectable:
      return true;
    default:
      return false;
  }
}

/// A CUDA call of ours that may fail. Clears only an error that the call itself caused; errors of earlier
/// work remain.
class CudaCall {
 public:
  CudaCall() : earlier_(cudaPeekAtLastError()) {}

  /// For calls that start work: an error of work on the device is then one of earlier work.
  [[nodiscard]] Outcome outcome(cudaError_t error, const char* what, spider_status status) const {
    if (is_sticky(error)) {
      return {SPIDER_ERROR_DEVICE,
              std::string("the device is lost to this process, since earlier work failed: ") +
                  cudaGetErrorString(error) + "; " + what + " was not tried"};
    }
    return outcome_of_work(error, what, status);
  }

  /// For calls that wait for work.
  [[nodiscard]] Outcome outcome_of_work(cudaError_t error, const char* what, spider_status status) const {
    if (error == cudaSuccess) return {};
    if (earlier_ == cudaSuccess) static_cast<void>(cudaGetLastError());
    return {error == cudaErrorMemoryAllocation ? SPIDER_ERROR_MEMORY : status,
            std::string(what) + " failed: " + cudaGetErrorString(error) + hint(error)};
  }

 private:
  /// Every call of a forked process fails like this if its parent had used CUDA, whoever called it there.
  static const char* hint(cudaError_t error) {
    if (error != cudaErrorInitializationError) return "";
    return ". CUDA cannot be used in a process that was forked after its parent had initialised CUDA: "
           "start the process with spawn or forkserver instead (Python: "
           "multiprocessing.set_start_method), or fork before the first use of CUDA";
  }

  cudaError_t earlier_;
};

/// Kernels loaded so far, by device.
struct Loaded {
  std::shared_mutex mutex;
  std::map<std::pair<const spider_kernel*, int>, Residencies> kernels;
};

Loaded& loaded() {
  static Loaded all;
  return all;
}

constexpr int first_arch_of_early_starts = 90;

/// Whether a device can start a kernel while the one ahead of it on the stream ends, in graphs too.
Outcome check_early_starts(int arch, bool& can_start_early) {
  constexpr int first_driver = 12030;
  const CudaCall call;
  int driver = 0;
  Outcome asked = call.outcome(cudaDriverGetVersion(&driver), "asking the driver", SPIDER_ERROR_DEVICE);
  can_start_early = arch >= first_arch_of_early_starts && driver >= first_driver;
  return asked;
}

/// Also requests the largest shared memory that a block may use.
Outcome check_device(const spider_kernel& kernel, int device, Residency& residency, int& block_shared_bytes) {
  const CudaCall call;
  int major = 0;
  int minor = 0;
  for (const auto& [value, attribute] :
       {std::pair{&major, cudaDevAttrComputeCapabilityMajor},
        std::pair{&minor, cudaDevAttrComputeCapabilityMinor},
        std::pair{&residency.multiprocessors, cudaDevAttrMultiProcessorCount},
        std::pair{&block_shared_bytes, cudaDevAttrMaxSharedMemoryPerBlockOptin}}) {
    if (Outcome failed = call.outcome(cudaDeviceGetAttribute(value, attribute, device), "asking the device",
                                      SPIDER_ERROR_DEVICE))
      return failed;
  }
  const int arch = 10 * major + minor;
  if (arch >= kernel.info.minimum_arch) return check_early_starts(arch, residency.starts_early);
  return {SPIDER_ERROR_DEVICE, std::string("kernel ") + kernel.info.name + " needs compute capability " +
                                   std::to_string(kernel.info.minimum_arch / 10) + "." +
                                   std::to_string(kernel.info.minimum_arch % 10) + "; device " +
                                   std::to_string(device) + " has " + std::to_string(major) + "." +
                                   std::to_string(minor)};
}

const void* function_of(const SweepForm& form) {
  if (form.sweep.system != nullptr) return reinterpret_cast<const void*>(form.sweep.system);
  if (form.sweep.boxes != nullptr) return reinterpret_cast<const void*>(form.sweep.boxes);
  if (form.sweep.update != nullptr) return reinterpret_cast<const void*>(form.sweep.update);
  return reinterpret_cast<const void*>(form.sweep.plain);
}

/// The split of the memory shared by shared memory and the L1 cache that a kernel prefers.
int preferred_carveout(const SweepForm& form) {
  const Tiling& tiling = form.tiling;
  // Concurrent launches must use the same split: a multiprocessor changes it only when it is idle.
  if (form.sweep.boxes != nullptr || has_rims(form)) return cudaSharedmemCarveoutMaxShared;
  if (tiling.shared_bytes == 0) return cudaSharedmemCarveoutMaxL1;
  // Reductions of a system need little shared memory; its rows come from the cache.
  if (form.sweep.system != nullptr) {
    constexpr int most_of_few = 8 * 1024;
    constexpr int percent_of_few = 15;
    return tiling.shared_bytes <= most_of_few ? percent_of_few : cudaSharedmemCarveoutDefault;
  }
  // Lines and most tiles come from the cache, except at edges. For tiles in shared memory the driver sees how
  // many fit.
  if (tiling.kind == TilingKind::lines || tiling.kind == TilingKind::tiles)
    return cudaSharedmemCarveoutDefault;
  return cudaSharedmemCarveoutMaxShared;
}

#ifdef SPIDER_COMPILES_FORMS
using driver::compile_code;
using driver::has_code;
#else
bool has_code(const void* /*function*/) {
  return true;
}
cudaError_t compile_code(const std::vector<const void*>& /*functions*/) {
  return cudaSuccess;
}
#endif

Outcome compile_functions(const std::vector<const void*>& functions) {
  std::vector<const void*> missing;
  std::copy_if(functions.begin(), functions.end(), std::back_inserter(missing),
               [](const void* function) { return !has_code(function); });
  if (missing.empty()) return {};
  const CudaCall call;
  return call.outcome(compile_code(missing), "compiling the kernel", SPIDER_ERROR_DEVICE);
}

Outcome load_form(const spider_kernel& kernel, const SweepForm& form, Residency& residency) {
  const CudaCall call;
  const Tiling& tiling = form.tiling;
  const void* const function = function_of(form);
  cudaFuncAttributes attributes{};
  if (Outcome failed = call.outcome(cudaFuncGetAttributes(&attributes, function), "loading the kernel",
                                    SPIDER_ERROR_DEVICE)) {
    failed.reason += " (was it compiled for this device's architecture?)";
    return failed;
  }
  // Code for older architectures has no instruction to wait for the kernel ahead (wait_on_dependency).
  // JIT-compiled code has the architecture that its PTX was compiled for.
  residency.starts_early = residency.starts_early && attributes.ptxVersion >= first_arch_of_early_starts;
  const auto set = [&](cudaFuncAttribute attribute, int value, const char* what) {
    return call.outcome(cudaFuncSetAttribute(function, attribute, value), what, SPIDER_ERROR_DEVICE);
  };
  if (Outcome failed =
          set(cudaFuncAttributeMaxDynamicSharedMemorySize, tiling.shared_bytes, "reserving shared memory"))
    return failed;
  // A preference, for speed only: rings in shared memory, or the cache for kernels without any.
  if (Outcome failed = set(cudaFuncAttributePreferredSharedMemoryCarveout, preferred_carveout(form),
                           "preferring shared memory"))
    return failed;
  if (Outcome failed = call.outcome(
          cudaOccupancyMaxActiveBlocksPerMultiprocessor(&residency.blocks_per_multiprocessor, function,
                                                        tiling.warps_per_block * 32, tiling.shared_bytes),
          "asking for the occupancy", SPIDER_ERROR_DEVICE))
    return failed;
  if (residency.blocks_per_multiprocessor >= 1) return {};
  return {SPIDER_ERROR_DEVICE,
          std::string("kernel ") + kernel.info.name + " needs more shared memory than the device has"};
}

/// The other forms that the device has room for are marked as not loaded.
Outcome load_forms(const spider_kernel& kernel, int device, const FormSet& forms, Residencies& residencies) {
  Residency all;
  int block_shared_bytes = 0;
  if (Outcome failed = check_device(kernel, device, all, block_shared_bytes)) return failed;
  const auto is_wanted = [&](std::int32_t i) { return forms.test(static_cast<std::size_t>(i)); };
  std::vector<const void*> functions;
  FormSet fitting;
  for (std::int32_t i = 0; i < kernel.form_count; ++i) {
    Residency& residency = residencies.at(static_cast<std::size_t>(i));
    const SweepForm& form = kernel.forms[i];
    residency = all;
    // A system has one form for each sweep.
    if (kernel.system == nullptr && !is_last_form(kernel, i) &&
        form.tiling.shared_bytes > block_shared_bytes) {
      residency.blocks_per_multiprocessor = 0;
      continue;
    }
    residency.starts_early = all.starts_early && (form.starts_early || form.overlaps_rims);
    residency.is_loaded = is_wanted(i);
    if (!is_wanted(i)) continue;
    fitting.set(static_cast<std::size_t>(i));
    functions.push_back(function_of(form));
  }
  Outcome outcome = compile_functions(functions);
  for (std::int32_t i = 0; i < kernel.form_count && outcome.status == SPIDER_OK; ++i) {
    const auto index = static_cast<std::size_t>(i);
    if (fitting.test(index)) outcome = load_form(kernel, kernel.forms[i], residencies.at(index));
  }
  return outcome;
}

Outcome find_device(int& device) {
  const CudaCall call;
  return call.outcome(cudaGetDevice(&device), "finding the current device", SPIDER_ERROR_DEVICE);
}

/// Loads and records forms, in addition to those recorded already.
Outcome load_on(int device, const spider_kernel& kernel, const FormSet& forms, Residencies& residencies) {
  if (Outcome failed = load_forms(kernel, device, forms, residencies)) return failed;
  const std::unique_lock lock(loaded().mutex);
  auto& known = loaded().kernels.try_emplace(std::pair{&kernel, device}, residencies).first->second;
  for (std::size_t i = 0; i < known.size(); ++i) {
    if (residencies.at(i).is_loaded) known.at(i) = residencies.at(i);
  }
  residencies = known;
  return {};
}

/// The forms of a kernel that need no compiler any more.
FormSet compiled_forms(const spider_kernel& kernel) {
  FormSet forms;
  for (std::int32_t i = 0; i < kernel.form_count; ++i)
    forms.set(static_cast<std::size_t>(i), has_code(function_of(kernel.forms[i])));
  return forms;
}

/// cudaMemcpy2D accepts no pitch less than its row, even for a single row, and none above
/// cudaDevAttrMaxPitch.
cudaError_t copy_rows(void* to, std::uint64_t to_pitch, const void* from, std::uint64_t from_pitch,
                      std::uint64_t row_bytes, std::uint64_t rows, cudaMemcpyKind kind) {
  constexpr std::uint64_t largest_pitch = std::numeric_limits<std::int32_t>::max();
  if (row_bytes == 0 || rows == 0) return cudaSuccess;
  if (rows == 1 || (to_pitch == row_bytes && from_pitch == row_bytes))
    return cudaMemcpy(to, from, row_bytes * rows, kind);
  if (std::max(to_pitch, from_pitch) <= largest_pitch)
    return cudaMemcpy2D(to, to_pitch, from, from_pitch, row_bytes, rows, kind);
  for (std::uint64_t row = 0; row < rows; ++row) {
    const cudaError_t copied =
        cudaMemcpy(static_cast<std::byte*>(to) + row * to_pitch,
                   static_cast<const std::byte*>(from) + row * from_pitch, row_bytes, kind);
    if (copied != cudaSuccess) return copied;
  }
  return cudaSuccess;
}

/// By name, since CUDA's null stream is per thread in some compilations.
cudaStream_t to_stream(void* stream) {
  return stream == nullptr ? cudaStreamLegacy : static_cast<cudaStream_t>(stream);
}

/// The legacy default stream waits for other streams, too: its work starts when all of theirs is done.
bool is_default_stream(void* stream) {
  return to_stream(stream) == cudaStreamLegacy;
}

/// True if nothing may be loaded; also if that is unknown.
bool is_capturing(cudaStream_t stream) {
  const CudaCall call;
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  const Outcome asked =
      call.outcome(cudaStreamIsCapturing(stream, &status), "asking the stream", SPIDER_ERROR_LAUNCH);
  return asked || status != cudaStreamCaptureStatusNone;
}

/// Pools of scratch memory, by device.
struct Pools {
  std::mutex mutex;
  std::map<int, cudaMemPool_t> by_device;
};

Pools& pools() {
  static Pools all;
  return all;
}

/// The pool of a device. It retains its memory: freeing it at every synchronisation takes as long as many
/// sweeps. `anew`: the last one is lost.
Outcome find_pool(int device, bool anew, cudaMemPool_t& pool) {
  const std::lock_guard lock(pools().mutex);
  if (anew) pools().by_device.erase(device);
  if (const auto known = pools().by_device.find(device); known != pools().by_device.end()) {
    pool = known->second;
    return {};
  }
  cudaMemPoolProps wanted{};
  wanted.allocType = cudaMemAllocationTypePinned;
  wanted.location.type = cudaMemLocationTypeDevice;
  wanted.location.id = device;
  const CudaCall call;
  if (Outcome failed =
          call.outcome(cudaMemPoolCreate(&pool, &wanted), "making a pool of memory", SPIDER_ERROR_DEVICE))
    return failed;
  std::uint64_t everything = std::numeric_limits<std::uint64_t>::max();
  if (Outcome failed =
          call.outcome(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &everything),
                       "setting up a pool of memory", SPIDER_ERROR_DEVICE))
    return failed;
  pools().by_device.emplace(device, pool);
  return {};
}

}  // namespace

std::int32_t kind() {
  return SPIDER_BACKEND_CUDA;
}

Outcome prepare(const spider_kernel& kernel, Residencies& residencies) {
  int device = 0;
  if (Outcome failed = find_device(device)) return failed;
  {
    const std::shared_lock lock(loaded().mutex);
    const auto& kernels = loaded().kernels;
    if (const auto known = kernels.find({&kernel, device}); known != kernels.end()) {
      residencies = known->second;
      return {};
    }
  }
  return load_on(device, kernel, compiled_forms(kernel), residencies);
}

Outcome load(const spider_kernel& kernel, const FormSet& forms, Residencies& residencies) {
  int device = 0;
  if (Outcome failed = find_device(device)) return failed;
  if (kernel.pass_count > 0) {
    cudaMemPool_t pool{};
    if (Outcome failed = find_pool(device, false, pool)) return failed;
  }
  return load_on(device, kernel, forms, residencies);
}

Outcome compile(const std::vector<const spider_kernel*>& kernels) {
  std::vector<const void*> functions;
  for (const spider_kernel* kernel : kernels)
    std::transform(kernel->forms, kernel->forms + kernel->form_count, std::back_inserter(functions),
                   function_of);
  return compile_functions(functions);
}

Outcome check_memory(const void* memory, const char* name) {
  const CudaCall call;
  cudaPointerAttributes attributes{};
  Outcome asked = call.outcome(cudaPointerGetAttributes(&attributes, memory), "looking up a pointer",
                               SPIDER_ERROR_DEVICE);
  if (asked || attributes.devicePointer != nullptr) return asked;
  int device = 0;
  int reaches_host = 0;
  asked = call.outcome(cudaGetDevice(&device), "finding the current device", SPIDER_ERROR_DEVICE);
  if (asked) return asked;
  if (attributes.type == cudaMemoryTypeUnregistered) {
    asked = call.outcome(cudaDeviceGetAttribute(&reaches_host, cudaDevAttrPageableMemoryAccess, device),
                         "asking the device", SPIDER_ERROR_DEVICE);
    if (asked || reaches_host != 0) return asked;
    return {SPIDER_ERROR_DEVICE, std::string(name) + " is in host memory, which device " +
                                     std::to_string(device) +
                                     " cannot reach; allocate it with cudaMalloc or spider_allocate"};
  }
  return {SPIDER_ERROR_DEVICE, std::string(name) + " is in the memory of device " +
                                   std::to_string(attributes.device) + ", which device " +
                                   std::to_string(device) +
                                   " cannot reach; call cudaSetDevice, or enable peer access"};
}

Outcome launch(const spider_kernel& kernel, const Start& start, const SweepArguments& arguments,
               const spider_field& /*input*/, const spider_field& /*output*/) {
  if (start.blocks > std::numeric_limits<std::int32_t>::max()) {
    return {SPIDER_ERROR_EXTENT, "the field needs more blocks than one launch can have"};
  }
  const Tiling& tiling = start.form.tiling;
  // CUDA copies as many bytes as the function takes, possibly those of a type derived from this one, and
  // writes none.
  void* parameters[] = {const_cast<SweepArguments*>(&arguments)};
  cudaLaunchAttribute early{};
  early.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  early.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(static_cast<unsigned>(start.blocks), static_cast<unsigned>(start.images));
  config.blockDim = dim3(static_cast<unsigned>(tiling.warps_per_block * 32));
  config.dynamicSmemBytes = static_cast<std::size_t>(tiling.shared_bytes);
  config.stream = to_stream(start.stream);
  config.attrs = &early;
  config.numAttrs = start.early && !is_default_stream(start.stream) ? 1 : 0;
  const void* const function = function_of(start.form);
  const auto try_launch = [&](cudaError_t& error) {
    const CudaCall call;
    error = cudaLaunchKernelExC(&config, function, parameters);
    return call.outcome(error, "the launch", SPIDER_ERROR_LAUNCH);
  };
  cudaError_t error = cudaSuccess;
  Outcome outcome = try_launch(error);
  // cudaDeviceReset, and another context, undo the request for shared memory made when loading.
  if (error == cudaErrorInvalidValue && !is_capturing(config.stream)) {
    Residencies residencies;
    if (Outcome failed = load(kernel, compiled_forms(kernel), residencies)) return failed;
    outcome = try_launch(error);
  }
  return outcome;
}

Outcome prepare_points(const spider_kernel& kernel) {
  if (kernel.points == nullptr)
    return {SPIDER_ERROR_KERNEL, "the kernel has no function for points; generate it again"};
  const CudaCall call;
  cudaFuncAttributes attributes{};
  return call.outcome(cudaFuncGetAttributes(&attributes, reinterpret_cast<const void*>(kernel.points)),
                      "loading the kernel's function for points", SPIDER_ERROR_DEVICE);
}

Outcome access_points(const spider_kernel& kernel, const PointArguments& points, void* stream) {
  constexpr std::int64_t threads = 128;
  const std::int64_t blocks = (points.cell_count + threads - 1) / threads;
  if (blocks > std::numeric_limits<std::int32_t>::max())
    return {SPIDER_ERROR_EXTENT, "there are more points than one launch can have"};
  void* parameters[] = {const_cast<PointArguments*>(&points)};
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(static_cast<unsigned>(blocks));
  config.blockDim = dim3(static_cast<unsigned>(threads));
  config.stream = to_stream(stream);
  const CudaCall call;
  return call.outcome(cudaLaunchKernelExC(&config, reinterpret_cast<const void*>(kernel.points), parameters),
                      "the launch", SPIDER_ERROR_LAUNCH);
}

Outcome allocate(std::uint64_t bytes, void** memory) {
  const CudaCall call;
  *memory = nullptr;
  // cudaMalloc of 0 bytes gives no pointer, and a field without data.
  return call.outcome(cudaMalloc(memory, bytes == 0 ? 1 : bytes), "allocating device memory",
                      SPIDER_ERROR_DEVICE);
}

Outcome release(void* memory) {
  const CudaCall call;
  return call.outcome_of_work(cudaFree(memory), "freeing device memory", SPIDER_ERROR_LAUNCH);
}

Outcome allocate_scratch(std::uint64_t bytes, void** memory, void* stream) {
  *memory = nullptr;
  int device = 0;
  if (Outcome failed = find_device(device)) return failed;
  for (const bool is_again : {false, true}) {
    cudaMemPool_t pool{};
    if (Outcome failed = find_pool(device, is_again, pool)) return failed;
    const CudaCall call;
    const cudaError_t error = cudaMallocFromPoolAsync(memory, bytes, pool, to_stream(stream));
    // cudaDeviceReset destroys pools.
    const bool is_lost = error == cudaErrorInvalidValue && !is_again && !is_capturing(to_stream(stream));
    if (Outcome got = call.outcome(error, "allocating memory between passes", SPIDER_ERROR_DEVICE); !is_lost)
      return got;
  }
  return {};
}

Outcome release_scratch(void* memory, void* stream) {
  const CudaCall call;
  return call.outcome(cudaFreeAsync(memory, to_stream(stream)), "freeing memory between passes",
                      SPIDER_ERROR_LAUNCH);
}

Outcome upload(void* to, std::uint64_t to_pitch, const void* from, std::uint64_t from_pitch,
               std::uint64_t row_bytes, std::uint64_t rows) {
  const CudaCall call;
  Outcome copied =
      call.outcome_of_work(copy_rows(to, to_pitch, from, from_pitch, row_bytes, rows, cudaMemcpyHostToDevice),
                           "the copy to the device", SPIDER_ERROR_LAUNCH);
  // A copy of memory that is not pinned may return before the device has the data.
  return copied.status == SPIDER_OK ? synchronize(nullptr) : copied;
}

Outcome download(void* to, std::uint64_t to_pitch, const void* from, std::uint64_t from_pitch,
                 std::uint64_t row_bytes, std::uint64_t rows) {
  const CudaCall call;
  return call.outcome_of_work(
      copy_rows(to, to_pitch, from, from_pitch, row_bytes, rows, cudaMemcpyDeviceToHost),
      "the copy from the device", SPIDER_ERROR_LAUNCH);
}

Outcome synchronize(void* stream) {
  const CudaCall call;
  return call.outcome_of_work(cudaStreamSynchronize(to_stream(stream)), "waiting for the stream",
                              SPIDER_ERROR_LAUNCH);
}

Outcome clear(void* memory, std::uint64_t bytes) {
  const CudaCall call;
  Outcome set = call.outcome(cudaMemset(memory, 0, bytes), "clearing device memory", SPIDER_ERROR_LAUNCH);
  return set.status == SPIDER_OK ? synchronize(nullptr) : set;
}

}  // namespace spider::backend
