/// What a spider_grid holds.
#pragma once

#include <spider/distributed.h>
#include <spider/kernel.h>

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "agreement.h"
#include "layout.h"
#include "system.h"
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

namespace spider::distributed {

/// What a rank does around one of a system's launches.
struct GridLaunch {
  struct Halo {
    std::int32_t field;
    Messages messages;  ///< as deep as launches read what the field holds
  };
  std::vector<Halo> halos;  ///< of fields that it reads around its points
  Boxes boxes;
};

}  // namespace spider::distributed

/// Members are freed last first: the transport before the communicator that it uses.
struct spider_grid {
  /// The grids of a system's fields have the communicator and the transport of the system's.
  std::shared_ptr<const spider::distributed::Communicator> communicator;
  const spider_kernel* kernel = nullptr;
  spider::distributed::CutField cut;  ///< the input; of a system the hull of its fields, or one of them
  std::int64_t element_bytes = 0;     ///< of that
  spider_grid_layout layout{};
  std::int64_t images = 1;  ///< of each field: its planes, where the kernel sweeps none together
  spider_part part{};       ///< of an image
  spider::distributed::Messages messages;            ///< of all steps of a sweep
  spider::distributed::Messages messages_of_a_step;  ///< fewer cells, in the same order
  spider::distributed::Boxes boxes;                  ///< of an image
  spider::RimCuts rim_cuts;
  std::shared_ptr<spider::distributed::Transport> transport;
  /// Of its halos, in words: by slots or messages, and where fields are open.
  std::array<std::string, 2> routes;
  bool went_into_fields = false;  ///< in the last call that took steps
  bool is_of_field = false;       ///< one of a system's fields?
  /// Of a system.
  std::vector<std::unique_ptr<spider_grid>> fields;
  std::vector<spider::distributed::GridLaunch> launches;
};

namespace spider::distributed {

/// Whether a field can be this rank's part, halo included; the reason, which begins with `name`, if not.
[[nodiscard]] Outcome check_part_field(const spider_grid& grid, const spider_field* field, const char* name);

/// Whether the grid has cells of one field: that of a system has not.
[[nodiscard]] Outcome check_has_field(const spider_grid& grid);

/// The bytes of a field with its halo, from the first to the last.
struct Span {
  std::uintptr_t begin;
  std::uintptr_t end;
  [[nodiscard]] bool meets(const Span& other) const { return begin < other.end && other.begin < end; }
};
[[nodiscard]] Span span_of(const spider_grid& grid, const spider_field& field);

void keep_first(Outcome& kept, Outcome next);

/// Takes boxes of a sweep one after the other on a stream, as long as all is well.
void sweep_boxes(const spider_grid& grid, spider_sweep sweep, const std::vector<Box>& boxes,
                 std::int32_t steps, void* stream, Outcome& outcome);

/// Cuts the fields of a system: layouts, messages and launches of `grid`, whose kernel, communicator and
/// layout are known.
[[nodiscard]] Outcome cut_system(spider_grid& grid, const Extents& whole, const Parts& parts);

/// Whether a sweep of a system can take steps of the whole; the reason if not.
[[nodiscard]] Outcome check_system_steps(const spider_grid& grid, const spider_sweep& sweep);

/// Steps begin to end - 1 of the whole, which are checked: fields are where those before left them. A rank
/// that failed goes on exchanging.
[[nodiscard]] Outcome take_system_steps(spider_grid& grid, const spider_sweep& sweep, std::int64_t begin,
                                        std::int64_t end);

/// The same until a reduction is at most a bound. Collective: all ranks take as many, or fail.
[[nodiscard]] Outcome take_system_steps_until(spider_grid& grid, const spider_sweep& sweep,
                                              std::int64_t steps, ReductionBound& until);

/// spider_grid_read_reductions.
[[nodiscard]] Outcome read_all_reductions(const spider_grid& grid, spider_reductions* reductions,
                                          double* values, void* stream);

/// Reads or writes a file that all ranks have opened together.
[[nodiscard]] Outcome read_npy(const spider_grid& grid, const char* path, const spider_field* field);
[[nodiscard]] Outcome write_npy(const spider_grid& grid, const spider_field* field, const char* path);

}  // namespace spider::distributed
