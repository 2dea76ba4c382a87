/// Halos of fields on GPUs: one kernel packs messages, NCCL moves them, one kernel unpacks them, on a stream
/// of their own. What lies together in the field, as planes do, moves from field to field.
#undef CUDA_API_PER_THREAD_DEFAULT_STREAM
#include <cuda_runtime_api.h>
#include <nccl.h>

#include <unistd.h>
#include <algorithm>
#include <array>
#include <chrono>
#include <string>
#include <thread>

#include "agreement.h"
#include "transport.h"

namespace spider::distributed {
namespace {

constexpr int most_messages = 26;
constexpr int threads_per_block = 256;

/// A box of a field and where its cells lie in a buffer, in cells.
struct PackedBox {
  long long offset[3];
  int extent[3];
  long long at;
};

struct PackedBoxes {
  PackedBox box[most_messages];
};

/// Copies the cells of box blockIdx.y between field and buffer: groups of lanes take pieces of rows. A group
/// has as many lanes as a row has cells, up to a warp, and each of its lanes takes four cells of a piece.
template <class Cell, bool packs>
__global__ void __launch_bounds__(threads_per_block)
    copy_boxes(Cell* __restrict__ field, long long plane_stride, long long row_stride,
               Cell* __restrict__ buffer, const PackedBoxes boxes) {
  constexpr unsigned cells_of_lane = 4;
  const PackedBox& box = boxes.box[blockIdx.y];
  const auto width = static_cast<unsigned>(box.extent[2]);
  const auto height = static_cast<unsigned>(box.extent[1]);
  const unsigned log_lanes = width >= 32 ? 5 : 32 - __clz(static_cast<int>(width - 1));
  const unsigned lanes = 1U << log_lanes;
  const unsigned pieces = (width + cells_of_lane * lanes - 1) / (cells_of_lane * lanes);
  const unsigned count = static_cast<unsigned>(box.extent[0]) * height * pieces;
  const unsigned step = (gridDim.x * threads_per_block) >> log_lanes;
  for (unsigned i = (blockIdx.x * threads_per_block + threadIdx.x) >> log_lanes; i < count; i += step) {
    const unsigned row = i / pieces;
    const unsigned z = row / height;
    const unsigned y = row - z * height;
    Cell* const cells =
        field + (box.offset[0] + z) * plane_stride + (box.offset[1] + y) * row_stride + box.offset[2];
    Cell* const packed = buffer + box.at + static_cast<long long>(row) * width;
    const unsigned first = (i - row * pieces) * cells_of_lane * lanes + (threadIdx.x & (lanes - 1));
#pragma unroll
    for (unsigned j = 0; j < cells_of_lane; ++j) {
      const unsigned x = first + j * lanes;
      if (x >= width) break;
      if (packs) {
        packed[x] = cells[x];
      } else {
        cells[x] = packed[x];
      }
    }
  }
}

/// Does nothing of the field lie between a box's first and last cell but the box?
bool lies_together(const spider_field& field, const Box& box) {
  const std::int64_t row = box.extent[1] == 1 ? box.extent[2] : field.stride[1];
  const std::int64_t plane = box.extent[0] == 1 ? box.extent[1] * row : field.stride[0];
  return row == box.extent[2] && plane == box.extent[1] * row;
}

/// A CUDA call's outcome; an error of this call does not stay behind for the caller to find.
Outcome of_cuda(cudaError_t error, const char* what) {
  if (error == cudaSuccess) return {};
  static_cast<void>(cudaGetLastError());
  return {error == cudaErrorMemoryAllocation ? SPIDER_ERROR_MEMORY : SPIDER_ERROR_LAUNCH,
          std::string(what) + " failed: " + cudaGetErrorString(error)};
}

Outcome of_nccl(ncclResult_t result, const char* what) {
  if (result == ncclSuccess) return {};
  return {SPIDER_ERROR_RANKS, std::string(what) + " failed: NCCL: " + ncclGetErrorString(result)};
}

cudaStream_t to_stream(void* stream) {
  return stream == nullptr ? cudaStreamLegacy : static_cast<cudaStream_t>(stream);
}

class NcclTransport final : public Transport {
 public:
  explicit NcclTransport(const Exchanges& largest) : exchanges_(largest) {}
  NcclTransport(const NcclTransport&) = delete;
  NcclTransport& operator=(const NcclTransport&) = delete;

  ~NcclTransport() override {
    if (communicator_ != nullptr) {
      if (failed_) {
        ncclCommAbort(communicator_);
      } else {
        cudaStreamSynchronize(stream_);
        ncclCommDestroy(communicator_);
      }
    }
    cudaFree(sent_);
    cudaFree(received_);
    for (cudaEvent_t event : {ready_, packed_, done_}) {
      if (event != nullptr) cudaEventDestroy(event);
    }
    if (stream_ != nullptr) cudaStreamDestroy(stream_);
  }

  /// Collective. The first messages make the connections that NCCL would else make within a time step.
  Outcome open(MPI_Comm communicator) {
    int rank = 0;
    int ranks = 1;
    MPI_Comm_rank(communicator, &rank);
    MPI_Comm_size(communicator, &ranks);
    Outcome made = agree(communicator, prepare());
    if (made.status != SPIDER_OK || ranks == 1) return made;
    ncclUniqueId id{};
    if (rank == 0) made = of_nccl(ncclGetUniqueId(&id), "naming the communicator");
    if (made = agree(communicator, made); made.status != SPIDER_OK) return made;
    made = of_mpi(MPI_Bcast(&id, sizeof id, MPI_BYTE, 0, communicator), "naming the communicator");
    if (made.status == SPIDER_OK)
      made = of_nccl(ncclCommInitRank(&communicator_, ranks, id, rank), "making the communicator");
    if (made = agree(communicator, made); made.status != SPIDER_OK) return made;
    made = send_all(false);
    if (made.status == SPIDER_OK) made = of_cuda(cudaStreamSynchronize(stream_), "the first messages");
    return made;
  }

  Outcome begin(const Exchanges& exchanges, void* stream, bool after_rims) override {
    exchanges_ = exchanges;
    if (!has_messages(exchanges_)) return {};
    const auto wait = [](cudaStream_t waiting, cudaEvent_t event) {
      return of_cuda(cudaStreamWaitEvent(waiting, event, 0), "waiting for an event");
    };
    Outcome outcome = of_cuda(cudaEventRecord(ready_, to_stream(stream)), "recording an event");
    if (outcome.status == SPIDER_OK && !after_rims) outcome = wait(stream_, ready_);
    if (outcome.status == SPIDER_OK) outcome = copy_all<true>();
    if (outcome.status == SPIDER_OK)
      outcome = of_cuda(cudaEventRecord(packed_, stream_), "recording an event");
    const Outcome sent = send_all(true);  // also where packing failed: the others wait for it
    if (outcome.status == SPIDER_OK) outcome = sent;
    if (outcome.status == SPIDER_OK) outcome = copy_all<false>();
    if (outcome.status == SPIDER_OK && after_rims) outcome = wait(stream_, ready_);
    // A sweep of the interior that is there first takes all places on the device until it is done.
    if (outcome.status == SPIDER_OK) outcome = wait(to_stream(stream), packed_);
    return outcome;
  }

  Outcome complete() override { return {}; }

  void* rim_stream(void* stream) override { return has_messages(exchanges_) ? stream_ : stream; }

  Outcome join(void* stream) override {
    if (!has_messages(exchanges_)) return {};
    Outcome outcome = of_cuda(cudaEventRecord(done_, stream_), "recording an event");
    if (outcome.status == SPIDER_OK)
      outcome = of_cuda(cudaStreamWaitEvent(to_stream(stream), done_, 0), "waiting for an event");
    return outcome;
  }

  Outcome wait(void* stream, double seconds) override {
    using Clock = std::chrono::steady_clock;
    const auto begin = Clock::now();
    while (true) {
      const cudaError_t reached = cudaStreamQuery(to_stream(stream));
      if (reached == cudaSuccess) return state();
      if (reached != cudaErrorNotReady) return of_cuda(reached, "waiting for the stream");
      static_cast<void>(cudaGetLastError());
      if (Outcome sound = state(); sound.status != SPIDER_OK) return sound;
      const std::chrono::duration<double> waited = Clock::now() - begin;
      if (seconds > 0 && waited.count() > seconds) {
        failed_ = true;
        return {SPIDER_ERROR_RANKS, "the stream's work was not done in " + std::to_string(seconds) +
                                        " seconds: another rank may have ended"};
      }
      if (waited.count() > 1e-3) std::this_thread::sleep_for(std::chrono::microseconds(50));
    }
  }

  Outcome state() override {
    if (communicator_ == nullptr) return {};
    ncclResult_t result = ncclSuccess;
    Outcome outcome = of_nccl(ncclCommGetAsyncError(communicator_, &result), "asking NCCL");
    if (outcome.status == SPIDER_OK && result != ncclInProgress) outcome = of_nccl(result, "an exchange");
    failed_ = failed_ || outcome.status != SPIDER_OK;
    return outcome;
  }

 private:
  Outcome prepare() {
    int least = 0;
    int greatest = 0;
    cudaDeviceGetStreamPriorityRange(&least, &greatest);
    Outcome outcome =
        of_cuda(cudaStreamCreateWithPriority(&stream_, cudaStreamNonBlocking, greatest), "making a stream");
    for (cudaEvent_t* event : {&ready_, &packed_, &done_}) {
      if (outcome.status == SPIDER_OK)
        outcome = of_cuda(cudaEventCreateWithFlags(event, cudaEventDisableTiming), "making an event");
    }
    const auto allocate = [&](void** memory, std::int64_t bytes) {
      if (outcome.status != SPIDER_OK || bytes == 0) return;
      outcome = of_cuda(cudaMalloc(memory, static_cast<std::size_t>(bytes)), "allocating buffers of halos");
    };
    const BufferBytes bytes = buffer_bytes(exchanges_, exchanges_.size());
    allocate(&sent_, bytes.sent);
    allocate(&received_, bytes.received);
    return outcome;
  }

  template <bool packs>
  Outcome copy_all() {
    Outcome outcome;
    for (std::size_t i = 0; i < exchanges_.size() && outcome.status == SPIDER_OK; ++i) {
      const std::int64_t bytes = exchanges_[i].element_bytes;
      outcome = bytes == 2   ? copy_cells<unsigned short, packs>(i)
                : bytes == 4 ? copy_cells<unsigned, packs>(i)
                             : copy_cells<unsigned long long, packs>(i);
    }
    return outcome;
  }

  /// Where the messages of a field begin in the buffers.
  [[nodiscard]] void* sent_from(std::size_t i) const {
    return static_cast<char*>(sent_) + buffer_bytes(exchanges_, i).sent;
  }
  [[nodiscard]] void* received_from(std::size_t i) const {
    return static_cast<char*>(received_) + buffer_bytes(exchanges_, i).received;
  }

  template <class Cell, bool packs>
  Outcome copy_cells(std::size_t i) {
    constexpr std::int64_t most_blocks = 1024;
    const spider_field& field = exchanges_[i].field;
    PackedBoxes boxes{};
    unsigned count = 0;
    std::int64_t most = 0;
    for (const Message& message : exchanges_[i].messages->all) {
      const Box& box = packs ? message.send : message.receive;
      if (!(packs ? message.sends : message.receives) || lies_together(field, box)) continue;
      PackedBox& packed = boxes.box[count++];
      for (int axis = 0; axis < 3; ++axis) {
        packed.offset[axis] = box.offset[axis];
        packed.extent[axis] = static_cast<int>(box.extent[axis]);
      }
      packed.at = packs ? message.send_at : message.receive_at;
      most = std::max(most, count_cells(box));
    }
    if (count == 0) return {};
    const auto blocks = static_cast<unsigned>(
        std::min(most_blocks, (most + 4 * threads_per_block - 1) / (4 * threads_per_block)));
    auto* data = static_cast<Cell*>(field.data);
    long long plane = field.stride[0];
    long long row = field.stride[1];
    auto* buffer = static_cast<Cell*>(packs ? sent_from(i) : received_from(i));
    void* arguments[] = {&data, &plane, &row, &buffer, &boxes};
    return of_cuda(cudaLaunchKernel(reinterpret_cast<const void*>(&copy_boxes<Cell, packs>),
                                    dim3(blocks, count), dim3(threads_per_block), arguments, 0, stream_),
                   packs ? "packing halos" : "unpacking halos");
  }

  /// Where a message begins: in the field, or in the buffer of its messages.
  [[nodiscard]] static void* start_of(const Exchange& exchange, bool from_fields, const Box& box,
                                      void* buffer, std::int64_t at) {
    const spider_field& field = exchange.field;
    if (!from_fields || !lies_together(field, box))
      return static_cast<char*>(buffer) + at * exchange.element_bytes;
    return static_cast<char*>(field.data) +
           (box.offset[0] * field.stride[0] + box.offset[1] * field.stride[1] + box.offset[2]) *
               exchange.element_bytes;
  }

  Outcome send_field(std::size_t i, bool from_fields) {
    const Exchange& exchange = exchanges_[i];
    const std::int64_t bytes = exchange.element_bytes;
    for (const Message& message : exchange.messages->all) {
      if (message.sends) {
        Outcome sent =
            of_nccl(ncclSend(start_of(exchange, from_fields, message.send, sent_from(i), message.send_at),
                             static_cast<std::size_t>(count_cells(message.send) * bytes), ncclInt8,
                             message.to, communicator_, stream_),
                    "sending a halo");
        if (sent.status != SPIDER_OK) return sent;
      }
      if (message.receives) {
        Outcome received = of_nccl(
            ncclRecv(start_of(exchange, from_fields, message.receive, received_from(i), message.receive_at),
                     static_cast<std::size_t>(count_cells(message.receive) * bytes), ncclInt8, message.from,
                     communicator_, stream_),
            "receiving a halo");
        if (received.status != SPIDER_OK) return received;
      }
    }
    return {};
  }

  /// Both ends of two ranks take their messages field after field, in the order of the directions in which
  /// they are sent. Without `from_fields` all are in buffers.
  Outcome send_all(bool from_fields) {
    Outcome outcome = of_nccl(ncclGroupStart(), "beginning an exchange");
    for (std::size_t i = 0; i < exchanges_.size() && outcome.status == SPIDER_OK; ++i)
      outcome = send_field(i, from_fields);
    const Outcome ended = of_nccl(ncclGroupEnd(), "an exchange");
    return outcome.status == SPIDER_OK ? ended : outcome;
  }

  Exchanges exchanges_;  ///< the last one; at first the largest
  ncclComm_t communicator_ = nullptr;
  bool failed_ = false;
  cudaStream_t stream_ = nullptr;
  cudaEvent_t ready_ = nullptr;
  cudaEvent_t packed_ = nullptr;
  cudaEvent_t done_ = nullptr;
  void* sent_ = nullptr;
  void* received_ = nullptr;
};

/// The UUID of a device; of a slice (MIG) its own.
Outcome identify(int device, DeviceId& id) {
  cudaDeviceProp properties{};
  Outcome outcome = of_cuda(cudaGetDeviceProperties(&properties, device), "identifying the device");
  static_assert(sizeof properties.uuid.bytes == sizeof id);
  std::copy_n(properties.uuid.bytes, id.size(), id.begin());
  return outcome;
}

}  // namespace

TransportOutcome make_nccl_transport(MPI_Comm communicator, const Exchanges& largest) {
  auto transport = std::make_unique<NcclTransport>(largest);
  Outcome opened = transport->open(communicator);
  return {opened, std::move(transport)};
}

DeviceOutcome name_device() {
  DeviceOutcome device;
  int number = 0;
  std::array<char, 64> bus{};
  std::array<char, 128> host{};
  device.outcome = of_cuda(cudaGetDevice(&number), "finding the current device");
  if (device.outcome.status == SPIDER_OK)
    device.outcome = of_cuda(cudaDeviceGetPCIBusId(bus.data(), bus.size(), number), "naming the device");
  if (device.outcome.status == SPIDER_OK) device.outcome = identify(number, device.id);
  gethostname(host.data(), host.size() - 1);
  device.name = std::string(bus.data()) + " of " + host.data();
  return device;
}

DevicesOutcome visible_devices() {
  DevicesOutcome seen;
  int count = 0;
  seen.outcome = of_cuda(cudaGetDeviceCount(&count), "counting devices");
  for (int device = 0; device < count && seen.outcome.status == SPIDER_OK; ++device)
    seen.outcome = identify(device, seen.devices.emplace_back());
  return seen;
}

Outcome make_current(int device) {
  return of_cuda(cudaSetDevice(device), "choosing the device");
}

}  // namespace spider::distributed
