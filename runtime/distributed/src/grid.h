/// What a spider_grid holds.
#pragma once

#include <spider/distributed.h>
#include <spider/kernel.h>

#include <cstdint>
#include <memory>
#include <utility>

#include "agreement.h"
#include "layout.h"
#include "transport.h"

namespace spider::distributed {

/// A duplicate of a communicator, freed with its owner unless MPI has ended.
class Communicator {
 public:
  Communicator() = default;
  explicit Communicator(MPI_Comm owned) : communicator_(owned) {}
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;
  Communicator(Communicator&& other) noexcept : communicator_(other.communicator_) {
    other.communicator_ = MPI_COMM_NULL;
  }
  Communicator& operator=(Communicator&&) = delete;
  ~Communicator() {
    int ended = 0;
    MPI_Finalized(&ended);
    if (communicator_ != MPI_COMM_NULL && ended == 0) MPI_Comm_free(&communicator_);
  }
  [[nodiscard]] MPI_Comm get() const { return communicator_; }

 private:
  MPI_Comm communicator_ = MPI_COMM_NULL;
};

}  // namespace spider::distributed

/// Members are freed last first: the transport before the communicator that it uses.
struct spider_grid {
  explicit spider_grid(spider::distributed::Communicator owned) : communicator(std::move(owned)) {}

  spider::distributed::Communicator communicator;
  const spider_kernel* kernel = nullptr;
  std::int64_t element_bytes = 0;
  spider_grid_layout layout{};
  spider::distributed::Messages messages;            ///< of all steps of a sweep
  spider::distributed::Messages messages_of_a_step;  ///< fewer cells, in the same order
  spider::distributed::Boxes boxes;
  std::unique_ptr<spider::distributed::Transport> transport;
};

namespace spider::distributed {

/// Whether a field can be this rank's part, halo included; the reason, which begins with `name`, if not.
[[nodiscard]] Outcome check_part_field(const spider_grid& grid, const spider_field* field, const char* name);

/// Reads or writes a file that all ranks have opened together.
[[nodiscard]] Outcome read_npy(const spider_grid& grid, const char* path, const spider_field* field);
[[nodiscard]] Outcome write_npy(const spider_grid& grid, const spider_field* field, const char* path);

}  // namespace spider::distributed
