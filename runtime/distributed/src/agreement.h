/// One status for all ranks.
#pragma once

#include <cstdint>
#include <functional>

#include "layout.h"

namespace spider::distributed {

/// What MPI answered, in words.
[[nodiscard]] Outcome of_mpi(int error, const char* what);

/// The outcome of the first rank with the highest status, on every rank; its words say which rank. `same`
/// must be equal on all ranks, else that is the outcome, and `what` says what `same` stands for. One
/// reduction of 24 bytes where all is well.
[[nodiscard]] Outcome agree(MPI_Comm communicator, const Outcome& own, std::uint64_t same = 0,
                            const char* what = "");

/// Exceptions of `body` as outcomes, so that no rank leaves the others waiting.
[[nodiscard]] Outcome caught(const std::function<Outcome()>& body);

}  // namespace spider::distributed
