/// The transport of halos: MPI between fields in host memory; between those of GPUs copies into the
/// neighbour's memory where both reach each other, else NCCL.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "layout.h"

namespace spider::distributed {

/// A field whose halo is to be filled, by messages that live until the next exchange.
struct Exchange {
  spider_field field;
  const Messages* messages;
  std::int64_t element_bytes;
};

/// The fields of one exchange, the same on all ranks, in the same order.
using Exchanges = std::vector<Exchange>;

/// Are there cells to send or to receive?
[[nodiscard]] bool has_messages(const Exchanges& exchanges);

/// One exchange at a time: begin, then complete, in the order of the caller's stream.
class Transport {
 public:
  Transport() = default;
  Transport(const Transport&) = delete;
  Transport& operator=(const Transport&) = delete;
  virtual ~Transport() = default;

  /// Takes the cells that others need when the stream's work so far is done; or, where `after_rims`, as soon
  /// as the rim stream's is, which wrote all of them: then before the stream's work ends, at whose end the
  /// device has room for NCCL. Work that follows on the rim stream comes after the stream's work, too.
  /// The messages are those that the transport was made for, or as many with fewer cells.
  [[nodiscard]] virtual Outcome begin(const Exchanges& exchanges, void* stream, bool after_rims) = 0;

  /// Collective. The fields whose halos the sweeps of a call will fill, in the same order on all ranks, once
  /// with the messages of each exchange: where all ranks can, those behind the first one go straight into the
  /// neighbours' fields, until close_fields.
  [[nodiscard]] virtual Outcome open_fields(const Exchanges& /*fields*/, void* /*stream*/) { return {}; }
  virtual void close_fields() {}
  /// Between these two: could all ranks?
  [[nodiscard]] virtual bool are_fields_open() const { return false; }

  /// What the rim blocks of a sweep on the stream are to raise (RimGrid::counter), so that begin_behind_rims
  /// can follow; null where there is no such way.
  [[nodiscard]] virtual std::uint32_t* rim_counter(void* /*stream*/) { return nullptr; }
  /// As begin, of fields that a sweep writes which has been started: takes their cells as soon as so many
  /// blocks have raised rim_counter(); 0: none will.
  [[nodiscard]] virtual Outcome begin_behind_rims(const Exchanges& /*exchanges*/, std::uint32_t /*blocks*/) {
    return {SPIDER_ERROR_UNSUPPORTED, "this transport waits for no rims"};
  }

  /// Fills the halos. Work that reads them is for rim_stream.
  [[nodiscard]] virtual Outcome complete() = 0;
  [[nodiscard]] virtual void* rim_stream(void* stream) = 0;
  /// Lets the stream wait for the rim stream.
  [[nodiscard]] virtual Outcome join(void* stream) = 0;

  /// Waits for the stream at most so many seconds; 0: for ever.
  [[nodiscard]] virtual Outcome wait(void* stream, double seconds) = 0;
  /// How halos come to this rank and leave it, in words; with fields that are open or without.
  [[nodiscard]] virtual std::string routes(bool into_fields) const = 0;
  /// What went wrong since; a sweep of a rank that failed must not keep the others waiting.
  [[nodiscard]] virtual Outcome state() = 0;
};

struct TransportOutcome {
  Outcome outcome;
  std::unique_ptr<Transport> transport;
};

/// For exchanges of no more cells than all of these together, whose messages live until the first one. Their
/// fields do not count.
[[nodiscard]] TransportOutcome make_mpi_transport(MPI_Comm communicator, const Exchanges& largest);
/// For the current device; collective.
[[nodiscard]] TransportOutcome make_gpu_transport(MPI_Comm communicator, const Exchanges& largest);

/// Bytes of buffers for what is sent, and received, in an exchange.
struct BufferBytes {
  std::int64_t sent = 0;
  std::int64_t received = 0;
};
/// Those of the first `count` fields; where the buffers of the next one begin.
[[nodiscard]] BufferBytes buffer_bytes(const Exchanges& exchanges, std::size_t count);

/// The current device, for ranks to find that they share one: its UUID, and its name for people.
struct DeviceOutcome {
  Outcome outcome;
  DeviceId id{};
  std::string name;
};
[[nodiscard]] DeviceOutcome name_device();
/// The devices that this process sees, by CUDA's numbers.
struct DevicesOutcome {
  Outcome outcome;
  std::vector<DeviceId> devices;
};
[[nodiscard]] DevicesOutcome visible_devices();
[[nodiscard]] Outcome make_current(int device);

}  // namespace spider::distributed
