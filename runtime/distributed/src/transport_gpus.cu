/// Halos of fields on GPUs, on a stream of their own. Copy engines, and a kernel where rows are narrow, write
/// them into the memory of peers, and from there into fields; to other ranks NCCL moves what a kernel packs
/// and unpacks, and from field to field what lies together, as planes do.
#undef CUDA_API_PER_THREAD_DEFAULT_STREAM
#include <cuda_runtime_api.h>
#include <nccl.h>

#include <unistd.h>
#include <algorithm>
#include <array>
#include <chrono>
#include <string>
#include <thread>
#include <utility>

#include "agreement.h"
#include "copy_boxes.h"
#include "cuda_calls.h"
#include "peer_fields.h"
#include "peers.h"
#include "transport.h"

namespace spider::distributed {
namespace {

Outcome of_nccl(ncclResult_t result, const char* what) {
  if (result == ncclSuccess) return {};
  return {SPIDER_ERROR_RANKS, std::string(what) + " failed: NCCL: " + ncclGetErrorString(result)};
}

class GpuTransport final : public Transport {
 public:
  explicit GpuTransport(Exchanges largest) : exchanges_(std::move(largest)) {}
  GpuTransport(const GpuTransport&) = delete;
  GpuTransport& operator=(const GpuTransport&) = delete;

  ~GpuTransport() override {
    if (failed_) {
      if (communicator_ != nullptr) ncclCommAbort(communicator_);
      peers_.release();
    } else if (stream_ != nullptr) {
      cudaStreamSynchronize(stream_);
      if (communicator_ != nullptr) ncclCommDestroy(communicator_);
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
    int ranks = 1;
    MPI_Comm_size(communicator, &ranks);
    Outcome made = agree(communicator, prepare());
    if (made.status != SPIDER_OK || ranks == 1) return made;
    if (made = peers_.open(communicator, exchanges_, stream_); made.status != SPIDER_OK) return made;
    int others = peers_.count_others();
    made = of_mpi(MPI_Allreduce(MPI_IN_PLACE, &others, 1, MPI_INT, MPI_MAX, communicator), "sharing memory");
    if (made = agree(communicator, made); made.status != SPIDER_OK) return made;
    ranks_ = communicator;
    are_all_peers_ = others == 0;
    if (others > 0) made = open_nccl(communicator);
    if (made = agree(communicator, made); made.status != SPIDER_OK) return made;
    made = exchange(false);
    if (made.status == SPIDER_OK) made = of_cuda(cudaStreamSynchronize(stream_), "the first messages");
    return made;
  }

  Outcome begin(const Exchanges& exchanges, void* stream, bool after_rims) override {
    exchanges_ = exchanges;
    if (!has_messages(exchanges_)) return {};
    Outcome outcome = of_cuda(cudaEventRecord(ready_, to_stream(stream)), "recording an event");
    if (outcome.status == SPIDER_OK && !after_rims) outcome = await(stream_, ready_);
    const Outcome exchanged = exchange(true);  // also where that failed: the others wait for it
    if (outcome.status == SPIDER_OK) outcome = exchanged;
    if (outcome.status == SPIDER_OK && after_rims) outcome = await(stream_, ready_);
    // A sweep of the interior that is there first takes all places on the device until it is done.
    if (outcome.status == SPIDER_OK && takes_places_) outcome = await(to_stream(stream), packed_);
    return outcome;
  }

  Outcome open_fields(const Exchanges& fields, void* stream) override {
    is_first_of_call_ = true;
    // A graph would copy into fields that are not open any more.
    return are_all_peers_ ? fields_.open(ranks_, fields, !are_fields_off_ && !is_capturing(stream), stream_)
                          : Outcome{};
  }

  void close_fields() override { fields_.close(); }
  [[nodiscard]] bool are_fields_open() const override { return fields_.are_open(); }

  std::uint32_t* rim_counter(void* stream) override {
    if (communicator_ != nullptr || are_signals_off_) return nullptr;
    // A graph is free to start a wait ahead of the sweep that it waits for, and this one behind it.
    return is_capturing(stream) ? nullptr : peers_.rim_counter();
  }

  Outcome begin_behind_rims(const Exchanges& exchanges, std::uint32_t blocks) override {
    exchanges_ = exchanges;
    if (blocks > 0) peers_.await_rims(blocks);
    Outcome begun = exchange(true);
    // Then nothing resets the counter, and a later exchange would not wait.
    failed_ = failed_ || begun.status != SPIDER_OK;
    return begun;
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

  [[nodiscard]] std::string routes(bool into_fields) const override {
    const auto some = [](int count, const char* how) {
      return count == 0 ? std::string()
                        : how + std::to_string(count) + (count == 1 ? " neighbour" : " neighbours");
    };
    const std::string by_peers =
        some(peers_.count_peers(), into_fields ? "copies into fields of " : "copies into slots of ");
    const std::string by_nccl = some(peers_.count_others(), "NCCL with ");
    return by_peers + (by_peers.empty() || by_nccl.empty() ? "" : ", ") + by_nccl;
  }

  Outcome state() override {
    if (communicator_ == nullptr) {
      if (failed_) return {SPIDER_ERROR_RANKS, "an exchange of this grid failed before: make another one"};
      return {};
    }
    ncclResult_t result = ncclSuccess;
    Outcome outcome = of_nccl(ncclCommGetAsyncError(communicator_, &result), "asking NCCL");
    if (outcome.status == SPIDER_OK && result != ncclInProgress) outcome = of_nccl(result, "an exchange");
    failed_ = failed_ || outcome.status != SPIDER_OK;
    return outcome;
  }

 private:
  static Outcome await(cudaStream_t waiting, cudaEvent_t event) {
    return of_cuda(cudaStreamWaitEvent(waiting, event, 0), "waiting for an event");
  }

  static bool is_capturing(void* stream) {
    cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
    const Outcome asked = of_cuda(cudaStreamIsCapturing(to_stream(stream), &status), "asking the stream");
    return asked.status != SPIDER_OK || status != cudaStreamCaptureStatusNone;
  }

  /// Collective: a communicator of NCCL, and buffers for its messages.
  Outcome open_nccl(MPI_Comm communicator) {
    int rank = 0;
    int ranks = 1;
    MPI_Comm_rank(communicator, &rank);
    MPI_Comm_size(communicator, &ranks);
    Outcome made;
    const auto allocate = [&](void** memory, std::int64_t bytes) {
      if (made.status != SPIDER_OK || bytes == 0) return;
      made = of_cuda(cudaMalloc(memory, static_cast<std::size_t>(bytes)), "allocating buffers of halos");
    };
    const BufferBytes bytes = buffer_bytes(exchanges_, exchanges_.size());
    allocate(&sent_, bytes.sent);
    allocate(&received_, bytes.received);
    ncclUniqueId id{};
    if (made.status == SPIDER_OK && rank == 0)
      made = of_nccl(ncclGetUniqueId(&id), "naming the communicator");
    if (made = agree(communicator, made); made.status != SPIDER_OK) return made;
    made = of_mpi(MPI_Bcast(&id, sizeof id, MPI_BYTE, 0, communicator), "naming the communicator");
    if (made.status == SPIDER_OK)
      made = of_nccl(ncclCommInitRank(&communicator_, ranks, id, rank), "making the communicator");
    return made;
  }

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
    return outcome;
  }

  /// Sends and receives the messages of exchanges_, without `of_fields` those of buffers alone. Each rank
  /// says all that it has to say, whatever failed: others wait for it.
  Outcome exchange(bool of_fields) {
    Outcome outcome;
    const auto keep = [&](const Outcome& next) {
      if (outcome.status == SPIDER_OK) outcome = next;
    };
    peers_.await_room(exchanges_);
    keep(peers_.take());
    takes_places_ = communicator_ != nullptr;
    if (of_fields) {
      keep(copy_all<true>(Means::kernel));
      if (takes_places_) keep(of_cuda(cudaEventRecord(packed_, stream_), "recording an event"));
      keep(copy_all<true>(Means::engine));
      keep(copy_into_fields());
    }
    peers_.say_full(exchanges_);
    if (communicator_ != nullptr) {
      keep(peers_.take());
      keep(send_all(of_fields));
    }
    peers_.await_full(exchanges_);
    if (of_fields && count_slotted() > 0) {
      keep(peers_.take());
      keep(copy_all<false>(Means::engine));
      keep(copy_all<false>(Means::kernel));
    }
    peers_.say_room(exchanges_);
    keep(peers_.take());
    is_first_of_call_ = is_first_of_call_ && !of_fields;
    return outcome;
  }

  /// Does a field's halo go straight into the fields of peers? The first one of a call does not: the ranks
  /// may still be at work before it. Its end says that they are not, and that of each later one that no sweep
  /// reads the halo any more which the next one fills: this is that of the sweep's output, which was read by
  /// rims that were stored before this exchange began.
  [[nodiscard]] bool is_direct(std::size_t i) const {
    return !is_first_of_call_ && fields_.has(exchanges_[i].field);
  }
  [[nodiscard]] std::size_t count_slotted() const {
    std::size_t count = 0;
    for (std::size_t i = 0; i < exchanges_.size(); ++i) count += is_direct(i) ? 0 : 1;
    return count;
  }

  Outcome copy_into_fields() {
    for (std::size_t i = 0; i < exchanges_.size(); ++i) {
      if (!is_direct(i)) continue;
      const Exchange& exchange = exchanges_[i];
      EngineCopies together;
      Outcome copied;
      for (const Message& message : exchange.messages->all) {
        if (!message.sends || copied.status != SPIDER_OK) continue;
        const spider_field& theirs = fields_.of(message.to, exchange.field);
        copied = copy_by_engine({exchange.field, message.send}, {theirs, place_of(message, theirs.extent)},
                                exchange.element_bytes, stream_, together);
      }
      if (copied.status == SPIDER_OK) copied = together.start(stream_);
      if (copied.status != SPIDER_OK) return copied;
    }
    return {};
  }

  enum class Means { engine, kernel };

  template <bool packs>
  Outcome copy_all(Means means) {
    Outcome outcome;
    for (std::size_t i = 0; i < exchanges_.size() && outcome.status == SPIDER_OK; ++i) {
      if (is_direct(i)) continue;
      const std::int64_t bytes = exchanges_[i].element_bytes;
      outcome = means == Means::engine ? copy_by_engines<packs>(i)
                : bytes == 2           ? copy_cells<unsigned short, packs>(i)
                : bytes == 4           ? copy_cells<unsigned, packs>(i)
                                       : copy_cells<unsigned long long, packs>(i);
    }
    return outcome;
  }

  /// A message of a field whose cells lie packed somewhere: in the slot of a peer, or in a buffer for NCCL.
  struct Packed {
    const Box* box;
    char* cells;
    bool of_peer;
  };
  [[nodiscard]] Packed packed_of(std::size_t i, const Message& message, bool packs) const {
    const Exchange& exchange = exchanges_[i];
    if (packs) {
      if (!peers_.has(message.to))
        return {&message.send, sent_from(i) + message.send_at * exchange.element_bytes, false};
      return {&message.send, peers_.slot_to(message) + offset_in_slot(exchanges_, i, message, true), true};
    }
    if (!peers_.has(message.from))
      return {&message.receive, received_from(i) + message.receive_at * exchange.element_bytes, false};
    return {&message.receive, peers_.slot_from(message) + offset_in_slot(exchanges_, i, message, false),
            true};
  }

  template <bool packs>
  Outcome copy_by_engines(std::size_t i) {
    const Exchange& exchange = exchanges_[i];
    EngineCopies together;
    for (const Message& message : exchange.messages->all) {
      if (!(packs ? message.sends : message.receives)) continue;
      const Packed packed = packed_of(i, message, packs);
      if (!packed.of_peer || !suits_engines(exchange.field, *packed.box, exchange.element_bytes)) continue;
      const Box at_start{{0, 0, 0}, {packed.box->extent[0], packed.box->extent[1], packed.box->extent[2]}};
      const spider_field cells = packed_field(packed.cells, at_start);
      const FieldBox of_field{exchange.field, *packed.box};
      const FieldBox of_slot{cells, at_start};
      Outcome copied = copy_by_engine(packs ? of_field : of_slot, packs ? of_slot : of_field,
                                      exchange.element_bytes, stream_, together);
      if (copied.status != SPIDER_OK) return copied;
    }
    return together.start(stream_);
  }

  /// Where the messages of a field begin in the buffers.
  [[nodiscard]] char* sent_from(std::size_t i) const {
    return static_cast<char*>(sent_) + buffer_bytes(exchanges_, i).sent;
  }
  [[nodiscard]] char* received_from(std::size_t i) const {
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
      if (!(packs ? message.sends : message.receives)) continue;
      const Packed of_message = packed_of(i, message, packs);
      const Box& box = *of_message.box;
      if (of_message.of_peer ? suits_engines(field, box, sizeof(Cell)) : lies_together(field, box)) continue;
      PackedBox& packed = boxes.box[count++];
      for (int axis = 0; axis < 3; ++axis) {
        packed.offset[axis] = box.offset[axis];
        packed.extent[axis] = static_cast<int>(box.extent[axis]);
      }
      packed.packed = of_message.cells;
      most = std::max(most, count_cells(box));
    }
    if (count == 0) return {};
    takes_places_ = takes_places_ || packs;
    const auto blocks = static_cast<unsigned>(
        std::min(most_blocks, (most + 4 * threads_per_block - 1) / (4 * threads_per_block)));
    auto* data = static_cast<Cell*>(field.data);
    long long plane = field.stride[0];
    long long row = field.stride[1];
    void* arguments[] = {&data, &plane, &row, &boxes};
    return of_cuda(cudaLaunchKernel(reinterpret_cast<const void*>(&copy_boxes<Cell, packs>),
                                    dim3(blocks, count), dim3(threads_per_block), arguments, 0, stream_),
                   packs ? "packing halos" : "unpacking halos");
  }

  /// Where a message begins: in the field, or in the buffer of its messages.
  [[nodiscard]] static void* message_start(const Exchange& exchange, bool of_fields, const Box& box,
                                           char* buffer, std::int64_t at) {
    if (of_fields && lies_together(exchange.field, box))
      return start_of(exchange.field, box, exchange.element_bytes);
    return buffer + at * exchange.element_bytes;
  }

  Outcome send_field(std::size_t i, bool of_fields) {
    const Exchange& exchange = exchanges_[i];
    const std::int64_t bytes = exchange.element_bytes;
    for (const Message& message : exchange.messages->all) {
      if (message.sends && !peers_.has(message.to)) {
        Outcome sent =
            of_nccl(ncclSend(message_start(exchange, of_fields, message.send, sent_from(i), message.send_at),
                             static_cast<std::size_t>(count_cells(message.send) * bytes), ncclInt8,
                             message.to, communicator_, stream_),
                    "sending a halo");
        if (sent.status != SPIDER_OK) return sent;
      }
      if (message.receives && !peers_.has(message.from)) {
        Outcome received = of_nccl(ncclRecv(message_start(exchange, of_fields, message.receive,
                                                          received_from(i), message.receive_at),
                                            static_cast<std::size_t>(count_cells(message.receive) * bytes),
                                            ncclInt8, message.from, communicator_, stream_),
                                   "receiving a halo");
        if (received.status != SPIDER_OK) return received;
      }
    }
    return {};
  }

  /// Both ends of two ranks take their messages field after field, in the order of the directions in which
  /// they are sent. Without `of_fields` all are in buffers.
  Outcome send_all(bool of_fields) {
    Outcome outcome = of_nccl(ncclGroupStart(), "beginning an exchange");
    for (std::size_t i = 0; i < exchanges_.size() && outcome.status == SPIDER_OK; ++i)
      outcome = send_field(i, of_fields);
    const Outcome ended = of_nccl(ncclGroupEnd(), "an exchange");
    return outcome.status == SPIDER_OK ? ended : outcome;
  }

  Exchanges exchanges_;  ///< the last one; at first the largest
  ncclComm_t communicator_ = nullptr;
  bool failed_ = false;
  const bool are_signals_off_ = is_switched_off("SPIDER_RIM_SIGNALS");
  const bool are_fields_off_ = is_switched_off("SPIDER_PEER_FIELDS");
  bool are_all_peers_ = false;     ///< on all ranks
  bool is_first_of_call_ = false;  ///< is the next exchange the first one since open_fields?
  MPI_Comm ranks_ = MPI_COMM_NULL;
  bool takes_places_ = false;  ///< did the last exchange need multiprocessors?
  cudaStream_t stream_ = nullptr;
  cudaEvent_t ready_ = nullptr;
  cudaEvent_t packed_ = nullptr;
  cudaEvent_t done_ = nullptr;
  void* sent_ = nullptr;
  void* received_ = nullptr;
  Peers peers_;
  PeerFields fields_;
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

TransportOutcome make_gpu_transport(MPI_Comm communicator, const Exchanges& largest) {
  auto transport = std::make_unique<GpuTransport>(largest);
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
