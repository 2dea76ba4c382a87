/// How a whole field is cut over ranks, and which cells neighbours exchange: arithmetic, without MPI.
#pragma once

#include <spider/distributed.h>
#include <spider/kernel.h>

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "backend.h"
#include "rims_first.h"

namespace spider::distributed {

using Extents = std::array<std::int64_t, 3>;
using Parts = std::array<std::int32_t, 3>;
using backend::Outcome;

/// A field as cuts and exchanges see it.
struct CutField {
  std::string name;  ///< for words: of its kernel, or "the field u of waves2d"
  std::int32_t storage = SPIDER_F32;
  bool axes[3] = {true, true, true};  ///< has it cells along z, y, x? Elsewhere it is the same for all;
                                      ///< of kernels without planes z is that of images
  Face faces[3][2] = {};              ///< as spider_kernel::faces
  std::int64_t reach_low[3] = {};     ///< how far sweeps look below a point, >= 0
  std::int64_t reach_high[3] = {};    ///< and above it
};

/// The input of a kernel that is no system, as so many of its steps read it; of so many images.
[[nodiscard]] CutField input_of(const spider_kernel& kernel, std::int32_t steps, std::int64_t images = 1);

/// Where along an axis a part begins; that of part `parts` is the axis's extent. Parts begin at multiples of
/// `unit` cells.
[[nodiscard]] std::int64_t part_begin(std::int64_t whole, std::int32_t parts, std::int64_t unit,
                                      std::int32_t part);

/// Cuts along x and y at multiples that blocks and vectors of kernels begin at, as long as parts stay about
/// equal.
[[nodiscard]] std::int64_t cut_unit(int axis, std::int64_t whole, std::int32_t parts);

/// The layout of one rank's part of a field; the reason why there is none, the same on every rank.
struct LayoutOutcome {
  Outcome outcome;
  spider_grid_layout layout{};
};
/// `whole` has the extents along all axes, also those that the field has not: there every
/// rank has all of it.
[[nodiscard]] LayoutOutcome make_layout(const CutField& field, const Extents& whole, const Parts& parts,
                                        std::int32_t rank);

/// The cells that one rank sends to another; boxes are relative to the first interior element.
struct Message {
  std::int32_t to;
  std::int32_t from;
  std::int32_t tag;  ///< 0 to 26: the direction in which it is sent; both ends count the same
  Box send;
  Box receive;
  bool sends;  ///< there is a neighbour in this direction
  bool receives;
  std::int64_t send_at;  ///< in cells, from the start of the buffer of all messages
  std::int64_t receive_at;
};

/// Those of a rank, in the same order on all; and the cells of the buffers for them. Each message starts on a
/// multiple of 128 cells.
struct Messages {
  std::vector<Message> all;
  std::int64_t send_cells = 0;
  std::int64_t receive_cells = 0;
};
[[nodiscard]] Messages make_messages(const CutField& field, const spider_grid_layout& layout);
/// Where the cells of a message go in the receiver's part, which has these extents.
[[nodiscard]] Box place_of(const Message& message, const std::int64_t extent[3]);

/// The planes at both ends of a part that neighbours take, where they take nothing else; else none.
[[nodiscard]] RimPlanes rim_planes(const Messages& messages);

[[nodiscard]] std::int64_t count_cells(const Box& box);

/// The UUID of a device: the same for every process, whatever number the process sees it under.
using DeviceId = std::array<char, 16>;

/// Gives each rank one of the devices that it sees, and none to two; as its index there, -1 where too few are
/// left. Where ranks see the same devices in the same order, each gets the first that no lower rank has.
[[nodiscard]] std::vector<int> assign_devices(const std::vector<std::vector<DeviceId>>& seen);

/// Boxes that cover a part: those that read no cell of neighbours nor write one that neighbours take, where a
/// sweep looks as far as into this field, and the rest.
struct Boxes {
  std::vector<Box> interior;  ///< one at most
  std::vector<Box> rims;
};
[[nodiscard]] Boxes divide_part(const CutField& field, const spider_grid_layout& layout);

}  // namespace spider::distributed
