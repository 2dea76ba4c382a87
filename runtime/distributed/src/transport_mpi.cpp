/// Halos of fields in host memory.
#include <cstddef>
#include <cstring>
#include <vector>

#include "agreement.h"
#include "transport.h"

namespace spider::distributed {
namespace {

/// Calls copy(a row of the field, so many bytes of the buffer before it, bytes of the row) for each row of a
/// box.
template <class Copy>
void for_each_row(const spider_field& field, const Box& box, std::int64_t element_bytes, const Copy& copy) {
  const std::int64_t bytes = box.extent[2] * element_bytes;
  std::int64_t at = 0;
  for (std::int64_t z = 0; z < box.extent[0]; ++z) {
    for (std::int64_t y = 0; y < box.extent[1]; ++y, at += bytes) {
      // A stride counts only where there is a second plane or row.
      const std::int64_t plane = box.offset[0] + z;
      const std::int64_t row = box.offset[1] + y;
      const std::int64_t cell =
          (plane == 0 ? 0 : plane * field.stride[0]) + (row == 0 ? 0 : row * field.stride[1]) + box.offset[2];
      copy(static_cast<std::byte*>(field.data) + cell * element_bytes, at, static_cast<std::size_t>(bytes));
    }
  }
}

class MpiTransport final : public Transport {
 public:
  MpiTransport(MPI_Comm communicator, const Messages& messages, std::int64_t element_bytes)
      : communicator_(communicator),
        element_bytes_(element_bytes),
        sent_(static_cast<std::size_t>(messages.send_cells * element_bytes)),
        received_(static_cast<std::size_t>(messages.receive_cells * element_bytes)) {
    requests_.reserve(2 * messages.all.size());
    MPI_Type_contiguous(static_cast<int>(element_bytes), MPI_BYTE, &cell_);
    MPI_Type_commit(&cell_);
  }
  MpiTransport(const MpiTransport&) = delete;
  MpiTransport& operator=(const MpiTransport&) = delete;
  ~MpiTransport() override { MPI_Type_free(&cell_); }

  Outcome begin(const spider_field& field, const Messages& messages, void* /*stream*/,
                bool /*after_rims*/) override {
    messages_ = &messages;
    requests_.clear();
    for (const Message& message : messages.all) {
      if (!message.receives) continue;
      const int posted = MPI_Irecv(received_.data() + message.receive_at * element_bytes_,
                                   static_cast<int>(count_cells(message.receive)), cell_, message.from,
                                   message.tag, communicator_, &requests_.emplace_back());
      if (posted != MPI_SUCCESS) return of_mpi(posted, "receiving a halo");
    }
    for (const Message& message : messages.all) {
      if (!message.sends) continue;
      std::byte* const buffer = sent_.data() + message.send_at * element_bytes_;
      for_each_row(field, message.send, element_bytes_,
                   [&](const std::byte* row, std::int64_t at, std::size_t bytes) {
                     std::memcpy(buffer + at, row, bytes);
                   });
      const int posted = MPI_Isend(buffer, static_cast<int>(count_cells(message.send)), cell_, message.to,
                                   message.tag, communicator_, &requests_.emplace_back());
      if (posted != MPI_SUCCESS) return of_mpi(posted, "sending a halo");
    }
    return {};
  }

  Outcome complete(const spider_field& field) override {
    const int done = MPI_Waitall(static_cast<int>(requests_.size()), requests_.data(), MPI_STATUSES_IGNORE);
    if (done != MPI_SUCCESS) return of_mpi(done, "waiting for halos");
    for (const Message& message : messages_->all) {
      if (!message.receives) continue;
      const std::byte* const buffer = received_.data() + message.receive_at * element_bytes_;
      for_each_row(
          field, message.receive, element_bytes_,
          [&](std::byte* row, std::int64_t at, std::size_t bytes) { std::memcpy(row, buffer + at, bytes); });
    }
    return {};
  }

  void* rim_stream(void* stream) override { return stream; }
  Outcome join(void* /*stream*/) override { return {}; }
  Outcome wait(void* /*stream*/, double /*seconds*/) override { return {}; }
  Outcome state() override { return {}; }

 private:
  MPI_Comm communicator_;
  const Messages* messages_ = nullptr;  ///< of the exchange that is under way
  std::int64_t element_bytes_;
  MPI_Datatype cell_ = MPI_DATATYPE_NULL;
  std::vector<std::byte> sent_;
  std::vector<std::byte> received_;
  std::vector<MPI_Request> requests_;
};

}  // namespace

TransportOutcome make_mpi_transport(MPI_Comm communicator, const Messages& messages,
                                    std::int64_t element_bytes) {
  return {{}, std::make_unique<MpiTransport>(communicator, messages, element_bytes)};
}

}  // namespace spider::distributed
