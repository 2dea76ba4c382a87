/// Halos of fields in host memory.
#include <array>
#include <cstddef>
#include <cstring>
#include <string>
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

constexpr int most_directions = 27;  // tags of a field's messages

class MpiTransport final : public Transport {
 public:
  MpiTransport(MPI_Comm communicator, const Exchanges& largest) : communicator_(communicator) {
    const BufferBytes bytes = buffer_bytes(largest, largest.size());
    sent_.resize(static_cast<std::size_t>(bytes.sent));
    received_.resize(static_cast<std::size_t>(bytes.received));
    for (std::size_t i = 0; i < cells_.size(); ++i) {
      MPI_Type_contiguous(2 << i, MPI_BYTE, &cells_[i]);
      MPI_Type_commit(&cells_[i]);
    }
  }
  MpiTransport(const MpiTransport&) = delete;
  MpiTransport& operator=(const MpiTransport&) = delete;
  ~MpiTransport() override {
    for (MPI_Datatype& cell : cells_) MPI_Type_free(&cell);
  }

  Outcome begin(const Exchanges& exchanges, void* /*stream*/, bool /*after_rims*/) override {
    exchanges_ = exchanges;
    requests_.clear();
    for (std::size_t i = 0; i < exchanges.size(); ++i) {
      if (Outcome posted = receive(i); posted.status != SPIDER_OK) return posted;
    }
    for (std::size_t i = 0; i < exchanges.size(); ++i) {
      if (Outcome posted = send(i); posted.status != SPIDER_OK) return posted;
    }
    return {};
  }

  Outcome complete() override {
    const int done = MPI_Waitall(static_cast<int>(requests_.size()), requests_.data(), MPI_STATUSES_IGNORE);
    if (done != MPI_SUCCESS) return of_mpi(done, "waiting for halos");
    for (std::size_t i = 0; i < exchanges_.size(); ++i) {
      const Exchange& exchange = exchanges_[i];
      for (const Message& message : exchange.messages->all) {
        if (!message.receives) continue;
        const std::byte* const buffer = received_at(i, message);
        for_each_row(exchange.field, message.receive, exchange.element_bytes,
                     [&](std::byte* row, std::int64_t at, std::size_t bytes) {
                       std::memcpy(row, buffer + at, bytes);
                     });
      }
    }
    return {};
  }

  void* rim_stream(void* stream) override { return stream; }
  Outcome join(void* /*stream*/) override { return {}; }
  Outcome wait(void* /*stream*/, double /*seconds*/) override { return {}; }
  [[nodiscard]] std::string routes(bool /*into_fields*/) const override { return "MPI"; }
  Outcome state() override { return {}; }

 private:
  /// Of the element size of a field.
  [[nodiscard]] MPI_Datatype cell_of(const Exchange& exchange) const {
    return cells_[exchange.element_bytes == 2 ? 0 : exchange.element_bytes == 4 ? 1 : 2];
  }

  [[nodiscard]] std::byte* received_at(std::size_t i, const Message& message) {
    return received_.data() + buffer_bytes(exchanges_, i).received +
           message.receive_at * exchanges_[i].element_bytes;
  }

  Outcome receive(std::size_t i) {
    const Exchange& exchange = exchanges_[i];
    for (const Message& message : exchange.messages->all) {
      if (!message.receives) continue;
      const int posted = MPI_Irecv(received_at(i, message), static_cast<int>(count_cells(message.receive)),
                                   cell_of(exchange), message.from, tag_of(i, message), communicator_,
                                   &requests_.emplace_back());
      if (posted != MPI_SUCCESS) return of_mpi(posted, "receiving a halo");
    }
    return {};
  }

  Outcome send(std::size_t i) {
    const Exchange& exchange = exchanges_[i];
    for (const Message& message : exchange.messages->all) {
      if (!message.sends) continue;
      std::byte* const buffer =
          sent_.data() + buffer_bytes(exchanges_, i).sent + message.send_at * exchange.element_bytes;
      for_each_row(exchange.field, message.send, exchange.element_bytes,
                   [&](const std::byte* row, std::int64_t at, std::size_t bytes) {
                     std::memcpy(buffer + at, row, bytes);
                   });
      const int posted = MPI_Isend(buffer, static_cast<int>(count_cells(message.send)), cell_of(exchange),
                                   message.to, tag_of(i, message), communicator_, &requests_.emplace_back());
      if (posted != MPI_SUCCESS) return of_mpi(posted, "sending a halo");
    }
    return {};
  }

  static int tag_of(std::size_t i, const Message& message) {
    return static_cast<int>(i) * most_directions + message.tag;
  }

  MPI_Comm communicator_;
  Exchanges exchanges_;  ///< under way
  std::array<MPI_Datatype, 3> cells_{};
  std::vector<std::byte> sent_;
  std::vector<std::byte> received_;
  std::vector<MPI_Request> requests_;
};

}  // namespace

TransportOutcome make_mpi_transport(MPI_Comm communicator, const Exchanges& largest) {
  return {{}, std::make_unique<MpiTransport>(communicator, largest)};
}

}  // namespace spider::distributed
