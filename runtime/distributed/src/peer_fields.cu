/// Fields that ranks of one host open to each other.
#undef CUDA_API_PER_THREAD_DEFAULT_STREAM
#include "peer_fields.h"

#include <cuda.h>

#include <algorithm>
#include <array>
#include <set>

#include "agreement.h"
#include "copy_boxes.h"
#include "cuda_calls.h"

namespace spider::distributed {
namespace {

using AskPointer = CUresult (*)(void*, CUpointer_attribute, CUdeviceptr);

/// A field as a rank tells of it.
struct ToldField {
  cudaIpcMemHandle_t handle;
  std::uint64_t allocation;  ///< 0: it cannot be opened
  std::int64_t offset;       ///< bytes from the allocation's first one
  std::int64_t stride[2];
  std::int64_t extent[3];
};

bool is_same_field(const spider_field& one, const spider_field& other) {
  return one.data == other.data && std::equal(std::begin(one.stride), std::end(one.stride), other.stride) &&
         std::equal(std::begin(one.extent), std::end(one.extent), other.extent);
}

/// Can engines copy all messages, both where they come from and where they go?
bool do_engines_suit(const Exchanges& fields) {
  return std::all_of(fields.begin(), fields.end(), [](const Exchange& of) {
    const std::vector<Message>& all = of.messages->all;
    return std::all_of(all.begin(), all.end(), [&](const Message& message) {
      return (!message.sends || suits_engines(of.field, message.send, of.element_bytes)) &&
             (!message.receives || suits_engines(of.field, message.receive, of.element_bytes));
    });
  });
}

/// The ranks that get messages.
std::set<int> receivers(const Exchanges& fields) {
  std::set<int> ranks;
  for (const Exchange& exchange : fields) {
    for (const Message& message : exchange.messages->all) {
      if (message.sends) ranks.insert(message.to);
    }
  }
  return ranks;
}

}  // namespace

PeerFields::~PeerFields() {
  for (const auto& [key, memory] : opened_) cudaIpcCloseMemHandle(memory);
}

std::vector<PeerFields::Own> PeerFields::look_up(const Exchanges& fields) {
  static const auto ask = reinterpret_cast<AskPointer>(find_driver_function("cuPointerGetAttribute"));
  std::vector<Own> own;
  for (const Exchange& exchange : fields) {
    Own one{exchange.field, 0, nullptr};
    const auto address = static_cast<CUdeviceptr>(reinterpret_cast<std::uintptr_t>(exchange.field.data));
    unsigned long long number = 0;
    CUdeviceptr base = 0;
    if (ask != nullptr && ask(&number, CU_POINTER_ATTRIBUTE_BUFFER_ID, address) == CUDA_SUCCESS &&
        ask(&base, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, address) == CUDA_SUCCESS) {
      one.allocation = number;
      one.base = reinterpret_cast<char*>(static_cast<std::uintptr_t>(base));
    }
    own.push_back(one);
  }
  return own;
}

std::size_t PeerFields::find(const spider_field& field) const {
  const auto is_it = [&](const Own& own) { return is_same_field(own.field, field); };
  return static_cast<std::size_t>(std::find_if(own_.begin(), own_.end(), is_it) - own_.begin());
}

bool PeerFields::are_same(const std::vector<Own>& some, const std::vector<Own>& others) {
  return std::equal(some.begin(), some.end(), others.begin(), others.end(), [](const Own& a, const Own& b) {
    return is_same_field(a.field, b.field) && a.allocation == b.allocation;
  });
}

Outcome PeerFields::open(MPI_Comm communicator, const Exchanges& fields, bool can, cudaStream_t stream) {
  are_in_use_ = false;
  std::vector<Own> own = look_up(fields);
  for (const Own& one : own) can = can && one.allocation != 0;
  const auto count = static_cast<int>(own.size());
  std::array<int, 4> asked{can && do_engines_suit(fields) ? 0 : 1, are_same(own, own_) ? 0 : 1, count,
                           -count};
  Outcome done = of_mpi(MPI_Allreduce(MPI_IN_PLACE, asked.data(), static_cast<int>(asked.size()), MPI_INT,
                                      MPI_MAX, communicator),
                        "opening fields");
  const bool are_as_many = asked[2] == -asked[3];  // ranks may differ in what they write in place
  if (done.status != SPIDER_OK || asked[0] != 0 || !are_as_many) return done;
  if (asked[1] != 0) {
    own_ = std::move(own);
    are_open_ = false;
    done = tell(communicator, fields, stream);
    if (done.status != SPIDER_OK) own_.clear();
  }
  are_in_use_ = done.status == SPIDER_OK && are_open_;
  return done;
}

Outcome PeerFields::tell(MPI_Comm communicator, const Exchanges& fields, cudaStream_t stream) {
  int ranks = 1;
  MPI_Comm_size(communicator, &ranks);
  std::vector<ToldField> mine;
  for (const Own& own : own_) {
    ToldField& told = mine.emplace_back();
    const bool is_open =
        of_cuda(cudaIpcGetMemHandle(&told.handle, own.base), "sharing a field").status == SPIDER_OK;
    told.allocation = is_open ? own.allocation : 0;
    told.offset = static_cast<char*>(own.field.data) - own.base;
    std::copy_n(own.field.stride, 2, told.stride);
    std::copy_n(own.field.extent, 3, told.extent);
  }
  const auto bytes = static_cast<int>(mine.size() * sizeof(ToldField));
  std::vector<ToldField> all(mine.size() * static_cast<std::size_t>(ranks));
  Outcome done =
      of_mpi(MPI_Allgather(mine.data(), bytes, MPI_BYTE, all.data(), bytes, MPI_BYTE, communicator),
             "sharing fields");
  if (done.status != SPIDER_OK) return done;
  std::set<Key> needed;
  int failed = 0;
  theirs_.assign(all.size(), {});
  const std::set<int> others = receivers(fields);
  for (const int rank : others) {
    for (std::size_t i = 0; i < mine.size(); ++i)
      needed.emplace(rank, all[static_cast<std::size_t>(rank) * mine.size() + i].allocation);
  }
  close_others(needed, stream);  // before memory is opened that may have its addresses now
  for (const int rank : others) {
    for (std::size_t i = 0; i < mine.size(); ++i) {
      const std::size_t at = static_cast<std::size_t>(rank) * mine.size() + i;
      const ToldField& told = all[at];
      char* const memory = open_memory({rank, told.allocation}, told.handle);
      if (memory == nullptr) failed = 1;
      theirs_[at].data = memory == nullptr ? nullptr : memory + told.offset;
      std::copy_n(told.stride, 2, theirs_[at].stride);
      std::copy_n(told.extent, 3, theirs_[at].extent);
    }
  }
  done = of_mpi(MPI_Allreduce(MPI_IN_PLACE, &failed, 1, MPI_INT, MPI_MAX, communicator), "opening fields");
  are_open_ = done.status == SPIDER_OK && failed == 0;
  return done;
}

void PeerFields::close_others(const std::set<Key>& needed, cudaStream_t stream) {
  for (auto known = opened_.begin(); known != opened_.end();) {
    if (needed.count(known->first) != 0) {
      ++known;
      continue;
    }
    cudaStreamSynchronize(stream);  // what it still writes there
    cudaIpcCloseMemHandle(known->second);
    known = opened_.erase(known);
  }
}

char* PeerFields::open_memory(const Key& key, const cudaIpcMemHandle_t& handle) {
  const auto known = opened_.find(key);
  if (known != opened_.end()) return known->second;
  void* memory = nullptr;
  if (key.second == 0 ||
      of_cuda(cudaIpcOpenMemHandle(&memory, handle, cudaIpcMemLazyEnablePeerAccess), "opening a field")
              .status != SPIDER_OK)
    return nullptr;
  return opened_[key] = static_cast<char*>(memory);
}

}  // namespace spider::distributed
