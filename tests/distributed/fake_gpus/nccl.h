/// As much of NCCL as halos on GPUs take, made up: MPI sends and receives, in host memory, and keeps the
/// order of messages between two ranks, as NCCL does.
#pragma once

#include <mpi.h>

#include <cstddef>
#include <memory>
#include <vector>

struct ncclUniqueId {
  int number;
};
enum ncclResult_t { ncclSuccess, ncclInProgress };
enum ncclDataType_t { ncclInt8 };

struct FakeCommunicator {
  MPI_Comm ranks = MPI_COMM_NULL;
  std::vector<MPI_Request> begun;
};
using ncclComm_t = FakeCommunicator*;
/// That whose group is open: there is one at a time.
inline ncclComm_t fake_group = nullptr;

inline const char* ncclGetErrorString(ncclResult_t /*result*/) {
  return "an error";
}
inline ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  id->number = 0;
  return ncclSuccess;
}
/// The ranks of MPI_COMM_WORLD below `count`: those that tests take.
inline ncclResult_t ncclCommInitRank(ncclComm_t* communicator, int count, ncclUniqueId /*id*/, int rank) {
  MPI_Group world = MPI_GROUP_NULL;
  MPI_Group some = MPI_GROUP_NULL;
  std::vector<int> ranks;
  for (int i = 0; i < count; ++i) ranks.push_back(i);
  auto made = std::make_unique<FakeCommunicator>();
  MPI_Comm_group(MPI_COMM_WORLD, &world);
  MPI_Group_incl(world, count, ranks.data(), &some);
  MPI_Comm_create_group(MPI_COMM_WORLD, some, 0, &made->ranks);
  MPI_Group_free(&some);
  MPI_Group_free(&world);
  int own = -1;
  MPI_Comm_rank(made->ranks, &own);
  if (own != rank) MPI_Abort(MPI_COMM_WORLD, 1);
  *communicator = made.release();
  return ncclSuccess;
}
inline ncclResult_t ncclCommDestroy(ncclComm_t communicator) {
  const std::unique_ptr<FakeCommunicator> owner(communicator);
  MPI_Comm_free(&owner->ranks);
  return ncclSuccess;
}
inline ncclResult_t ncclCommAbort(ncclComm_t communicator) {
  return ncclCommDestroy(communicator);
}
inline ncclResult_t ncclCommGetAsyncError(ncclComm_t /*communicator*/, ncclResult_t* result) {
  *result = ncclSuccess;
  return ncclSuccess;
}
inline ncclResult_t ncclGroupStart() {
  return ncclSuccess;
}
inline ncclResult_t ncclSend(const void* from, std::size_t bytes, ncclDataType_t /*type*/, int to,
                             ncclComm_t communicator, cudaStream_t /*stream*/) {
  fake_group = communicator;
  MPI_Isend(from, static_cast<int>(bytes), MPI_BYTE, to, 0, communicator->ranks,
            &communicator->begun.emplace_back());
  return ncclSuccess;
}
inline ncclResult_t ncclRecv(void* to, std::size_t bytes, ncclDataType_t /*type*/, int from,
                             ncclComm_t communicator, cudaStream_t /*stream*/) {
  fake_group = communicator;
  MPI_Irecv(to, static_cast<int>(bytes), MPI_BYTE, from, 0, communicator->ranks,
            &communicator->begun.emplace_back());
  return ncclSuccess;
}
inline ncclResult_t ncclGroupEnd() {
  if (fake_group == nullptr) return ncclSuccess;
  std::vector<MPI_Request>& begun = fake_group->begun;
  MPI_Waitall(static_cast<int>(begun.size()), begun.data(), MPI_STATUSES_IGNORE);
  begun.clear();
  fake_group = nullptr;
  return ncclSuccess;
}
