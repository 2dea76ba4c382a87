/// Fields that ranks of one host open to each other for the sweeps of a call, so that copy engines write
/// halos where they belong, with no slot between.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "transport.h"

namespace spider::distributed {

class PeerFields {
 public:
  PeerFields() = default;
  PeerFields(const PeerFields&) = delete;
  PeerFields& operator=(const PeerFields&) = delete;
  ~PeerFields();

  /// Collective. Opens the fields whose halos a call will fill, in the same order on all ranks: those of all
  /// ranks, or none where a rank cannot, or where memory cannot be opened or engines cannot copy a message.
  /// That is no error. A field may be there more than once, with other messages. Memory stays open until a
  /// call has other fields; then the stream's work is waited for.
  [[nodiscard]] Outcome open(MPI_Comm communicator, const Exchanges& fields, bool can, cudaStream_t stream);
  /// Later exchanges do not use them.
  void close() { are_in_use_ = false; }
  [[nodiscard]] bool are_open() const { return are_in_use_; }

  [[nodiscard]] bool has(const spider_field& field) const { return are_in_use_ && find(field) < own_.size(); }
  /// The field of a rank that gets messages which takes the place of this one there; has() says yes.
  [[nodiscard]] const spider_field& of(int rank, const spider_field& field) const {
    return theirs_[static_cast<std::size_t>(rank) * own_.size() + find(field)];
  }

 private:
  struct Own {
    spider_field field;
    std::uint64_t allocation;  ///< CUDA's number of it, which no other has had; 0: not CUDA's
    char* base;
  };

  using Key = std::pair<int, std::uint64_t>;  ///< a rank and its allocation

  [[nodiscard]] static std::vector<Own> look_up(const Exchanges& fields);
  [[nodiscard]] Outcome tell(MPI_Comm communicator, const Exchanges& fields, cudaStream_t stream);
  void close_others(const std::set<Key>& needed, cudaStream_t stream);
  /// Null where it cannot be opened.
  [[nodiscard]] char* open_memory(const Key& key, const cudaIpcMemHandle_t& handle);
  [[nodiscard]] std::size_t find(const spider_field& field) const;
  [[nodiscard]] static bool are_same(const std::vector<Own>& some, const std::vector<Own>& others);

  std::vector<Own> own_;              ///< as all were told last
  std::vector<spider_field> theirs_;  ///< of all ranks, as this process reaches them; else without memory
  std::map<Key, char*> opened_;
  bool are_open_ = false;
  bool are_in_use_ = false;
};

}  // namespace spider::distributed
