#include "agreement.h"

#include <algorithm>
#include <array>
#include <exception>
#include <new>
#include <string>

namespace spider::distributed {

Outcome of_mpi(int error, const char* what) {
  if (error == MPI_SUCCESS) return {};
  std::array<char, MPI_MAX_ERROR_STRING> text{};
  int length = 0;
  MPI_Error_string(error, text.data(), &length);
  return {SPIDER_ERROR_RANKS, std::string(what) + " failed: " + std::string(text.data(), length)};
}

Outcome caught(const std::function<Outcome()>& body) {
  try {
    return body();
  } catch (const std::bad_alloc&) {
    return {SPIDER_ERROR_MEMORY, "the host is out of memory"};
  } catch (const std::exception& error) {
    return {SPIDER_ERROR_LAUNCH, error.what()};
  }
}

Outcome agree(MPI_Comm communicator, const Outcome& own, std::uint64_t same, const char* what) {
  constexpr std::size_t most_words = 1024;
  int rank = 0;
  int ranks = 1;
  MPI_Comm_rank(communicator, &rank);
  MPI_Comm_size(communicator, &ranks);
  // The highest status, of the lowest rank; the largest and the least of `same`.
  std::array<std::uint64_t, 3> all{static_cast<std::uint64_t>(own.status) << 32U |
                                       static_cast<std::uint64_t>(own.status == SPIDER_OK ? 0 : ranks - rank),
                                   same, ~same};
  const int reduced = MPI_Allreduce(MPI_IN_PLACE, all.data(), 3, MPI_UINT64_T, MPI_MAX, communicator);
  if (reduced != MPI_SUCCESS) return of_mpi(reduced, "agreeing with the other ranks");
  const auto status = static_cast<spider_status>(all[0] >> 32U);
  if (status == SPIDER_OK) {
    if (all[1] == ~all[2]) return {};
    return {SPIDER_ERROR_RANKS, std::string("ranks differ in ") + what};
  }
  const int worst = ranks - static_cast<int>(all[0] & 0xFFFFFFFFU);
  std::array<char, most_words> words{};
  if (rank == worst) own.reason.copy(words.data(), most_words - 1);
  const int sent = MPI_Bcast(words.data(), most_words, MPI_CHAR, worst, communicator);
  if (sent != MPI_SUCCESS) return of_mpi(sent, "telling the other ranks");
  return {status, "rank " + std::to_string(worst) + ": " + words.data()};
}

}  // namespace spider::distributed
