/// Memory that ranks of one host open to each other.
#undef CUDA_API_PER_THREAD_DEFAULT_STREAM
#include "peers.h"

#include <cuda.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <set>
#include <string>

#include "agreement.h"
#include "cuda_calls.h"

namespace spider::distributed {
namespace {

constexpr std::int64_t slot_alignment = 512;   // bytes
constexpr std::int64_t shared_unit = 2 << 20;  // what CUDA allocates, and opens, as one
constexpr double longest_farewell = 2;         // seconds
constexpr double longest_release = 10;         // seconds

using TakeSteps = CUresult (*)(CUstream, unsigned, CUstreamBatchMemOpParams*, unsigned);

/// The handles of its memory that a rank sends to the others.
struct Told {
  cudaIpcMemHandle_t handle;
  std::int64_t slots[directions];
  char host[64];
  std::int32_t is_open;
};

std::int64_t round_up(std::int64_t number, std::int64_t unit) {
  return (number + unit - 1) / unit * unit;
}

CUdeviceptr address_of(const std::uint32_t* flag) {
  return static_cast<CUdeviceptr>(reinterpret_cast<std::uintptr_t>(flag));
}

/// Calls visit(message) once for each direction in which an exchange sends, or receives, cells.
template <class Visit>
void for_each_direction(const Exchanges& exchanges, bool sends, const Visit& visit) {
  std::array<bool, directions> seen{};
  for (const Exchange& exchange : exchanges) {
    for (const Message& message : exchange.messages->all) {
      bool& is_seen = seen[static_cast<std::size_t>(message.tag)];
      if (is_seen || !(sends ? message.sends : message.receives)) continue;
      is_seen = true;
      visit(message);
    }
  }
}

}  // namespace

bool is_switched_off(const char* name) {
  const char* const said = std::getenv(name);
  return said != nullptr && std::strcmp(said, "0") == 0;
}

std::int64_t offset_in_slot(const Exchanges& exchanges, std::size_t i, const Message& message, bool sends) {
  std::int64_t bytes = 0;
  for (std::size_t before = 0; before < i; ++before) {
    for (const Message& other : exchanges[before].messages->all) {
      if (other.tag != message.tag || !(sends ? other.sends : other.receives)) continue;
      bytes += round_up(count_cells(sends ? other.send : other.receive) * exchanges[before].element_bytes,
                        slot_alignment);
    }
  }
  return bytes;
}

Peers::~Peers() {
  for (const Their& their : theirs_) {
    if (their.memory != nullptr) cudaIpcCloseMemHandle(their.memory);
  }
  // Memory that others have open outlives them; but not for a rank that is gone.
  int ended = 0;
  MPI_Finalized(&ended);
  if (communicator_ != MPI_COMM_NULL && ended == 0) {
    MPI_Request all = MPI_REQUEST_NULL;
    int done = 0;
    const auto begin = std::chrono::steady_clock::now();
    if (MPI_Ibarrier(communicator_, &all) != MPI_SUCCESS) done = 1;
    while (done == 0) {
      if (MPI_Test(&all, &done, MPI_STATUS_IGNORE) != MPI_SUCCESS) break;
      const std::chrono::duration<double> waited = std::chrono::steady_clock::now() - begin;
      if (waited.count() > longest_farewell) break;
    }
  }
  cudaFree(memory_);
}

Outcome Peers::prepare(const Exchanges& largest) {
  std::set<int> ranks;
  std::array<std::int64_t, directions> bytes{};
  for (const Exchange& exchange : largest) {
    for (const Message& message : exchange.messages->all) {
      if (message.sends) ranks.insert(message.to);
      if (!message.receives) continue;
      ranks.insert(message.from);
      bytes[static_cast<std::size_t>(message.tag)] +=
          round_up(count_cells(message.receive) * exchange.element_bytes, slot_alignment);
    }
  }
  neighbours_.assign(ranks.begin(), ranks.end());
  take_steps_ = is_switched_off("SPIDER_PEER_COPIES") ? nullptr : find_driver_function("cuStreamBatchMemOp");
  if (take_steps_ == nullptr) return {};
  std::int64_t end = round_up(sizeof(Flags), slot_alignment);
  for (std::size_t tag = 0; tag < bytes.size(); ++tag) {
    slots_[tag] = end;
    end += bytes[tag];
  }
  void* memory = nullptr;
  Outcome made = of_cuda(cudaMalloc(&memory, static_cast<std::size_t>(round_up(end, shared_unit))),
                         "allocating slots of halos");
  memory_ = static_cast<char*>(memory);
  return made.status == SPIDER_OK ? reset_flags() : made;
}

Outcome Peers::reset_flags() {
  std::vector<Flags> flags(1);
  for (auto& room : flags[0].room) room[0] = 1;
  return of_cuda(cudaMemcpy(memory_, flags.data(), sizeof(Flags), cudaMemcpyHostToDevice), "setting flags");
}

/// Opens what neighbours of this host have; what cannot be opened stays null.
Outcome Peers::map_neighbours(MPI_Comm communicator) {
  int ranks = 1;
  int rank = 0;
  MPI_Comm_size(communicator, &ranks);
  MPI_Comm_rank(communicator, &rank);
  Told own{};
  std::copy(slots_.begin(), slots_.end(), own.slots);
  gethostname(own.host, sizeof own.host - 1);
  if (memory_ != nullptr &&
      of_cuda(cudaIpcGetMemHandle(&own.handle, memory_), "sharing memory").status == SPIDER_OK)
    own.is_open = 1;
  std::vector<Told> all(static_cast<std::size_t>(ranks));
  if (Outcome told =
          of_mpi(MPI_Allgather(&own, sizeof own, MPI_BYTE, all.data(), sizeof own, MPI_BYTE, communicator),
                 "sharing memory");
      told.status != SPIDER_OK)
    return told;
  theirs_.resize(all.size());
  for (const int other : neighbours_) {
    const Told& told = all[static_cast<std::size_t>(other)];
    Their& their = theirs_[static_cast<std::size_t>(other)];
    std::copy_n(told.slots, directions, their.slots.begin());
    if (own.is_open == 0 || told.is_open == 0 || other == rank || std::strcmp(told.host, own.host) != 0)
      continue;
    void* memory = nullptr;
    const cudaError_t opened = cudaIpcOpenMemHandle(&memory, told.handle, cudaIpcMemLazyEnablePeerAccess);
    if (of_cuda(opened, "opening memory").status == SPIDER_OK) their.memory = static_cast<char*>(memory);
  }
  return {};
}

/// Writes into the memory that is open as an exchange does, and looks at what others wrote. The ranks that
/// are good both ways stay in `good`.
Outcome Peers::try_neighbours(const Exchanges& largest, std::vector<char>& good) {
  int rank = 0;
  MPI_Comm_rank(communicator_, &rank);
  for (const int other : neighbours_) {
    const auto i = static_cast<std::size_t>(other);
    good[i] = theirs_[i].memory != nullptr ? 1 : 0;
  }
  for_each_direction(largest, true, [&](const Message& message) {
    if (good[static_cast<std::size_t>(message.to)] == 1)
      steps_.push_back(
          {flags_of(message.to)->full[message.tag], static_cast<std::uint32_t>(rank) + 2, false});
  });
  Outcome tried = take();
  if (tried.status == SPIDER_OK) tried = of_cuda(cudaStreamSynchronize(stream_), "trying memory of others");
  if (tried.status != SPIDER_OK) std::fill(good.begin(), good.end(), char{0});
  if (Outcome told = of_mpi(MPI_Barrier(communicator_), "trying memory of others"); told.status != SPIDER_OK)
    return told;
  std::vector<Flags> seen(1);
  if (memory_ != nullptr &&
      of_cuda(cudaMemcpy(seen.data(), memory_, sizeof(Flags), cudaMemcpyDeviceToHost), "reading flags")
              .status != SPIDER_OK)
    std::fill(good.begin(), good.end(), char{0});
  for_each_direction(largest, false, [&](const Message& message) {
    if (seen[0].full[message.tag][0] != static_cast<std::uint32_t>(message.from) + 2)
      good[static_cast<std::size_t>(message.from)] = 0;
  });
  return {};
}

Outcome Peers::open(MPI_Comm communicator, const Exchanges& largest, cudaStream_t stream) {
  stream_ = stream;
  if (Outcome made = agree(communicator, prepare(largest)); made.status != SPIDER_OK) return made;
  if (Outcome mapped = agree(communicator, map_neighbours(communicator)); mapped.status != SPIDER_OK)
    return mapped;
  communicator_ = communicator;
  std::vector<char> good(theirs_.size(), 0);
  std::vector<char> they_say(theirs_.size(), 0);
  if (Outcome tried = agree(communicator, try_neighbours(largest, good)); tried.status != SPIDER_OK)
    return tried;
  if (Outcome told =
          of_mpi(MPI_Alltoall(good.data(), 1, MPI_CHAR, they_say.data(), 1, MPI_CHAR, communicator),
                 "sharing memory");
      told.status != SPIDER_OK)
    return told;
  for (std::size_t i = 0; i < good.size(); ++i) theirs_[i].is_peer = good[i] == 1 && they_say[i] == 1;
  // No rank sends before all have their flags.
  return agree(communicator, memory_ == nullptr ? Outcome{} : reset_flags());
}

int Peers::count_peers() const {
  return static_cast<int>(
      std::count_if(neighbours_.begin(), neighbours_.end(), [&](int rank) { return has(rank); }));
}

Peers::Flags* Peers::flags_of(int rank) const {
  return reinterpret_cast<Flags*>(theirs_[static_cast<std::size_t>(rank)].memory);
}

char* Peers::slot_to(const Message& message) const {
  const Their& their = theirs_[static_cast<std::size_t>(message.to)];
  return their.memory + their.slots[static_cast<std::size_t>(message.tag)];
}

char* Peers::slot_from(const Message& message) const {
  return memory_ + slots_[static_cast<std::size_t>(message.tag)];
}

Outcome Peers::take() {
  if (steps_.empty()) return {};
  std::array<CUstreamBatchMemOpParams, std::size_t{4} * directions> operations{};
  for (std::size_t i = 0; i < steps_.size(); ++i) {
    if (steps_[i].waits) {
      operations[i].waitValue.operation = CU_STREAM_MEM_OP_WAIT_VALUE_32;
      operations[i].waitValue.address = address_of(steps_[i].flag);
      operations[i].waitValue.value = steps_[i].value;
      operations[i].waitValue.flags = CU_STREAM_WAIT_VALUE_GEQ;
    } else {
      operations[i].writeValue.operation = CU_STREAM_MEM_OP_WRITE_VALUE_32;
      operations[i].writeValue.address = address_of(steps_[i].flag);
      operations[i].writeValue.value = steps_[i].value;
      operations[i].writeValue.flags = CU_STREAM_WRITE_VALUE_DEFAULT;
    }
  }
  const CUresult taken = reinterpret_cast<TakeSteps>(take_steps_)(
      stream_, static_cast<unsigned>(steps_.size()), operations.data(), 0);
  steps_.clear();
  if (taken == CUDA_SUCCESS) return {};
  return {SPIDER_ERROR_LAUNCH, "a flag of a halo failed: cuStreamBatchMemOp says " +
                                   std::to_string(static_cast<int>(taken)) +
                                   "; SPIDER_PEER_COPIES=0 in the environment leaves halos to NCCL"};
}

void Peers::await_rims(std::uint32_t blocks) {
  steps_.push_back({own_flags()->rim_blocks, blocks, true});
  steps_.push_back({own_flags()->rim_blocks, 0, false});
}

void Peers::await_room(const Exchanges& exchanges) {
  for_each_direction(exchanges, true, [&](const Message& message) {
    if (!has(message.to)) return;
    steps_.push_back({own_flags()->room[message.tag], 1, true});
    steps_.push_back({own_flags()->room[message.tag], 0, false});
  });
}

void Peers::say_full(const Exchanges& exchanges) {
  for_each_direction(exchanges, true, [&](const Message& message) {
    if (has(message.to)) steps_.push_back({flags_of(message.to)->full[message.tag], 1, false});
  });
}

void Peers::await_full(const Exchanges& exchanges) {
  for_each_direction(exchanges, false, [&](const Message& message) {
    if (!has(message.from)) return;
    steps_.push_back({own_flags()->full[message.tag], 1, true});
    steps_.push_back({own_flags()->full[message.tag], 0, false});
  });
}

void Peers::say_room(const Exchanges& exchanges) {
  for_each_direction(exchanges, false, [&](const Message& message) {
    if (has(message.from)) steps_.push_back({flags_of(message.from)->room[message.tag], 1, false});
  });
}

void Peers::release() {
  if (count_peers() == 0) return;
  cudaStream_t other = nullptr;
  if (cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking) != cudaSuccess) return;
  const auto begin = std::chrono::steady_clock::now();
  while (cudaStreamQuery(stream_) == cudaErrorNotReady) {
    static_cast<void>(cudaGetLastError());
    for (int tag = 0; tag < directions; ++tag) {
      // The lowest byte: a little-endian 1.
      cudaMemsetAsync(own_flags()->full[tag], 1, 1, other);
      cudaMemsetAsync(own_flags()->room[tag], 1, 1, other);
    }
    cudaStreamSynchronize(other);
    const std::chrono::duration<double> waited = std::chrono::steady_clock::now() - begin;
    if (waited.count() > longest_release) break;
  }
  static_cast<void>(cudaGetLastError());
  cudaStreamDestroy(other);
}

}  // namespace spider::distributed
