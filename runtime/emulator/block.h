#pragma once

#include <spider/kernel.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "bulk_copies.h"
#include "field_access.h"
#include "fragments.h"
#include "lane.h"
#include "shared_memory.h"
#include "system_access.h"

namespace spider::emulator {

/// The part of a launch that its blocks share.
struct Launch {
  const SweepForm& form;
  const SweepArguments& arguments;
  FieldAccess* fields;        ///< of launches with one input and one output
  SystemAccess* system;       ///< of launches of a system of equations
  std::uint64_t seed;         ///< determines the order of lanes and warps
  int products_at_once = 16;  ///< of multiply_sparse and multiply_dense (fragments.h)
  std::int32_t image = 0;     ///< index in a launch of several
};

/// Runs the blocks of a launch, one after the other, on the calling thread. Every lane is a fiber that runs
/// until its next collective; the last of a warp (for sync_block: of the block) to arrive performs it for
/// all. The order of lanes and warps depends only on the seed and the block's number.
class Block {
 public:
  explicit Block(const Launch& launch);
  ~Block();
  Block(const Block&) = delete;
  Block& operator=(const Block&) = delete;

  /// Runs a block to its end. Returns which rule was broken and by whom, if any.
  [[nodiscard]] std::optional<std::string> run(std::int64_t number);

  // Queries of a running lane; all may throw Violation.
  [[nodiscard]] std::int64_t number() const { return number_; }
  [[nodiscard]] std::int32_t image() const { return launch_.image; }
  [[nodiscard]] FieldAccess& fields() { return *launch_.fields; }
  /// Null unless the launch is that of a system.
  [[nodiscard]] SystemAccess* system() { return launch_.system; }
  [[nodiscard]] bool starts_early() const { return launch_.form.starts_early; }
  [[nodiscard]] SharedMemory& shared() { return shared_; }
  [[nodiscard]] BulkCopies& bulk_copies() { return bulk_copies_; }
  [[nodiscard]] Moment moment(const Lane& lane) const;
  /// Waits with the others at a collective.
  void arrive(Lane& lane, const Arrival& arrival);

 private:
  struct Warp {
    std::vector<std::unique_ptr<Lane>> lanes;
    std::uint32_t epoch = 0;
    int waiting = 0;  ///< lanes at the next collective
    int returned = 0;
    const Lane* first_waiting = nullptr;
  };

  /// Thrown out of arrive() to unwind a lane's stack after another has broken a rule.
  struct Abandoned {};

  void live(Lane& lane);
  void run_kernel(Lane& lane);
  void begin(std::int64_t number);
  void run_to_collective(Warp& warp);
  void abandon();
  void check_company(const Lane& lane, const Arrival& arrival) const;
  void check_return(const Lane& lane) const;
  static void exchange_words(Warp& warp, Arrival::Kind kind);
  void perform(Warp& warp, const Arrival& arrival);
  [[nodiscard]] std::string describe(const Lane& lane) const;
  [[nodiscard]] std::uint32_t random();

  const Launch& launch_;
  std::vector<Warp> warps_;
  std::vector<std::size_t> runnable_;  // warps
  SharedMemory shared_;
  BulkCopies bulk_copies_;
  SparsePattern pattern_;
  std::int64_t number_ = 0;
  std::uint32_t epoch_ = 0;
  int at_block_barrier_ = 0;  // lanes
  const Lane* first_at_block_barrier_ = nullptr;
  std::uint64_t random_state_ = 0;
  std::vector<int> lane_order_;
  std::optional<std::string> violation_;
  bool abandoning_ = false;
  bool closing_ = false;
};

/// The lane running on this thread, or null.
[[nodiscard]] Lane* current_lane();

}  // namespace spider::emulator
