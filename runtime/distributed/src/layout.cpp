#include "layout.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>

#include "fields.h"

namespace spider::distributed {
namespace {

constexpr std::array<const char*, 3> axis_names{"z", "y", "x"};

std::int64_t divide_up(std::int64_t a, std::int64_t b) {
  return (a + b - 1) / b;
}

std::int64_t round_up(std::int64_t number, std::int64_t multiple) {
  return divide_up(number, multiple) * multiple;
}

bool is_mirror_rule(FaceRule rule) {
  return rule == FaceRule::reflect || rule == FaceRule::mirror || rule == FaceRule::antisymmetric ||
         rule == FaceRule::antireflect || rule == FaceRule::antimirror;
}

/// How far parts of an axis look into their neighbours. An index that a face turns round stays as near to
/// where it came from, but may be on its other side.
HaloWidth look(const CutField& field, int axis) {
  const std::int64_t low = field.reach_low[axis];
  const std::int64_t high = field.reach_high[axis];
  const std::int64_t far = std::max(low, high);
  const bool turns = is_mirror_rule(field.faces[axis][0].rule) || is_mirror_rule(field.faces[axis][1].rule);
  return turns ? HaloWidth{far, far} : HaloWidth{low, high};
}

/// Is there another rank on this side, 0 low or 1 high, of a part of an axis?
bool has_neighbour(const spider_grid_layout& layout, int axis, int side) {
  if (layout.parts[axis] == 1) return false;
  if (layout.periodic[axis] != 0) return true;
  return side == 0 ? layout.place[axis] > 0 : layout.place[axis] + 1 < layout.parts[axis];
}

/// The cells that a rank has of an axis to give: its own, and what the caller keeps beyond `halo` faces.
struct Range {
  std::int64_t begin;
  std::int64_t end;
};

Range owned(const spider_grid_layout& layout, int axis) {
  return {has_neighbour(layout, axis, 0) ? 0 : -layout.low[axis],
          layout.extent[axis] + (has_neighbour(layout, axis, 1) ? 0 : layout.high[axis])};
}

Box box_of(const std::array<Range, 3>& ranges) {
  Box box{};
  for (std::size_t axis = 0; axis < 3; ++axis) {
    box.offset[axis] = ranges[axis].begin;
    box.extent[axis] = ranges[axis].end - ranges[axis].begin;
  }
  return box;
}

/// The rank one further along the axes of `step`; the axes have such a neighbour.
std::int32_t neighbour(const spider_grid_layout& layout, const std::array<int, 3>& step) {
  std::int32_t rank = 0;
  for (std::size_t axis = 0; axis < 3; ++axis) {
    const std::int32_t count = layout.parts[axis];
    rank = rank * count + (layout.place[axis] + step[axis] + count) % count;
  }
  return rank;
}

/// The cells along an axis that go to the neighbour in direction `step`, and those that come from the
/// neighbour opposite, for a message in that direction.
Range sent(const spider_grid_layout& layout, int axis, int step) {
  const std::int64_t extent = layout.extent[axis];
  // What a neighbour keeps: the halo is as wide on every rank that has one.
  if (step < 0) return {0, layout.high[axis]};
  if (step > 0) return {extent - layout.low[axis], extent};
  return owned(layout, axis);
}

Range received(const spider_grid_layout& layout, int axis, int step) {
  const std::int64_t extent = layout.extent[axis];
  if (step < 0) return {extent, extent + layout.high[axis]};
  if (step > 0) return {-layout.low[axis], 0};
  return owned(layout, axis);
}

/// Is there a rank in direction `step` along all its axes?
bool reaches_rank(const spider_grid_layout& layout, const std::array<int, 3>& step, int sign) {
  for (int axis = 0; axis < 3; ++axis) {
    const int along = sign * step[static_cast<std::size_t>(axis)];
    if (along != 0 && !has_neighbour(layout, axis, along < 0 ? 0 : 1)) return false;
  }
  return true;
}

/// The layout with the widths of halo at faces between parts on every side, also where there is none.
spider_grid_layout with_look(const CutField& field, spider_grid_layout layout) {
  for (int axis = 0; axis < 3; ++axis) {
    if (layout.parts[axis] == 1) continue;
    layout.low[axis] = look(field, axis).low;
    layout.high[axis] = look(field, axis).high;
  }
  return layout;
}

/// The direction of a message by its tag.
std::array<int, 3> step_of(int tag) {
  return {tag / 9 - 1, tag / 3 % 3 - 1, tag % 3 - 1};
}

/// What goes in one direction, and what comes from the one opposite. `wide` is the layout with_look.
Message make_message(const spider_grid_layout& layout, const spider_grid_layout& wide,
                     const std::array<int, 3>& step) {
  Message message{};
  std::array<Range, 3> send{};
  std::array<Range, 3> receive{};
  for (int axis = 0; axis < 3; ++axis) {
    const auto i = static_cast<std::size_t>(axis);
    send[i] = step[i] == 0 ? owned(layout, axis) : sent(wide, axis, step[i]);
    receive[i] = step[i] == 0 ? owned(layout, axis) : received(wide, axis, step[i]);
  }
  message.send = box_of(send);
  message.receive = box_of(receive);
  message.sends = reaches_rank(layout, step, 1) && count_cells(message.send) > 0;
  message.receives = reaches_rank(layout, step, -1) && count_cells(message.receive) > 0;
  if (message.sends) message.to = neighbour(layout, step);
  if (message.receives) message.from = neighbour(layout, {-step[0], -step[1], -step[2]});
  return message;
}

/// A matching of ranks and devices, rank by rank.
struct Assignment {
  const std::vector<std::vector<DeviceId>>& seen;
  std::map<DeviceId, std::size_t> owners;
  std::vector<int> chosen;  ///< -1: none yet

  void take(std::size_t rank, std::size_t index) {
    owners[seen[rank][index]] = rank;
    chosen[rank] = static_cast<int>(index);
  }

  /// Gives a rank a free device, else one whose owner can move to another. Each device is asked for once.
  bool place(std::size_t rank, std::set<DeviceId>& asked) {
    const std::vector<DeviceId>& devices = seen[rank];
    for (std::size_t i = 0; i < devices.size(); ++i) {
      if (owners.contains(devices[i])) continue;
      take(rank, i);
      return true;
    }
    for (std::size_t i = 0; i < devices.size(); ++i) {
      if (!asked.insert(devices[i]).second || !place(owners[devices[i]], asked)) continue;
      take(rank, i);
      return true;
    }
    return false;
  }
};

/// The cells of a part.
std::int64_t part_extent(int axis, std::int64_t whole, std::int32_t parts, std::int32_t part) {
  const std::int64_t unit = cut_unit(axis, whole, parts);
  return part_begin(whole, parts, unit, part + 1) - part_begin(whole, parts, unit, part);
}

/// Whether an axis has cells, and all parts of it are as wide as the halo.
Outcome check_parts(const CutField& field, int axis, std::int64_t whole, std::int32_t parts) {
  const std::string name = axis_names[static_cast<std::size_t>(axis)];
  if (whole <= 0) {
    return {SPIDER_ERROR_EXTENT,
            "the whole has extent 0 on axis " + name + "; ranks divide at least one cell"};
  }
  const HaloWidth between = look(field, axis);
  const auto widest = std::max<std::int64_t>({between.low, between.high, 1});
  for (std::int32_t part = 0; part < parts && parts > 1; ++part) {
    const std::int64_t extent = part_extent(axis, whole, parts, part);
    if (extent >= widest) continue;
    return {SPIDER_ERROR_EXTENT,
            "the halo of " + field.name + " has " + std::to_string(widest) + " cells along " + name +
                ", and of " + std::to_string(parts) + " parts of " + std::to_string(whole) + " cells part " +
                std::to_string(part) + " has " + std::to_string(extent) + "; take fewer ranks along " + name +
                ", for which a Cartesian communicator is the means"};
  }
  return {};
}

/// Fills in where a part lies along an axis, and its halo.
void place_axis(const CutField& field, int axis, std::int64_t whole, spider_grid_layout& layout) {
  const std::int32_t parts = layout.parts[axis];
  const FaceRule rules[2] = {field.faces[axis][0].rule, field.faces[axis][1].rule};
  layout.periodic[axis] = rules[0] == FaceRule::periodic ? 1 : 0;
  layout.part.whole[axis] = whole;
  layout.part.origin[axis] = part_begin(whole, parts, cut_unit(axis, whole, parts), layout.place[axis]);
  layout.extent[axis] = part_extent(axis, whole, parts, layout.place[axis]);
  const HaloWidth beyond =
      halo_of_reach({rules[0], rules[1], whole, 0, whole}, {field.reach_low[axis], field.reach_high[axis]});
  const HaloWidth between = look(field, axis);
  layout.low[axis] = has_neighbour(layout, axis, 0) ? between.low : beyond.low;
  layout.high[axis] = has_neighbour(layout, axis, 1) ? between.high : beyond.high;
}

}  // namespace

CutField input_of(const spider_kernel& kernel, std::int32_t steps, std::int64_t images) {
  CutField field{kernel.info.name, kernel.info.storage};
  for (int axis = 0; axis < 3; ++axis) {
    field.axes[axis] = axis >= 3 - kernel.info.dimensions || (axis == 0 && images > 1);
    std::copy_n(kernel.faces[axis], 2, field.faces[axis]);
    field.reach_low[axis] = kernel.info.reach_low[axis] / kernel.info.steps * steps;
    field.reach_high[axis] = kernel.info.reach_high[axis] / kernel.info.steps * steps;
  }
  return field;
}

std::int64_t cut_unit(int axis, std::int64_t whole, std::int32_t parts) {
  constexpr std::array<std::int64_t, 3> largest{1, 16, 128};
  constexpr std::array<std::int64_t, 3> least{1, 1, 16};  // rows of f16 on 32 bytes
  constexpr std::int64_t units_of_a_part = 32;
  std::int64_t unit = largest[static_cast<std::size_t>(axis)];
  while (unit > least[static_cast<std::size_t>(axis)] && unit * units_of_a_part * parts > whole) unit /= 2;
  return unit * parts > whole ? 1 : unit;
}

std::int64_t part_begin(std::int64_t whole, std::int32_t parts, std::int64_t unit, std::int32_t part) {
  return std::min(whole, divide_up(whole, unit) * part / parts * unit);
}

LayoutOutcome make_layout(const CutField& field, const Extents& whole, const Parts& parts,
                          std::int32_t rank) {
  LayoutOutcome result;
  spider_grid_layout& layout = result.layout;
  layout.size = sizeof layout;
  layout.rank = rank;
  layout.ranks = parts[0] * parts[1] * parts[2];
  for (int axis = 2; axis >= 0; --axis) {
    const auto i = static_cast<std::size_t>(axis);
    layout.parts[axis] = parts[i];
    layout.place[axis] = rank % parts[i];
    rank /= parts[i];
  }
  for (int axis = 0; axis < 3; ++axis) {
    const auto i = static_cast<std::size_t>(axis);
    if (!field.axes[axis]) {
      layout.part.whole[axis] = layout.extent[axis] = 1;
      continue;
    }
    if (result.outcome = check_parts(field, axis, whole[i], parts[i]); result.outcome.status != SPIDER_OK)
      return result;
    place_axis(field, axis, whole[i], layout);
  }
  return result;
}

Messages make_messages(const CutField& field, const spider_grid_layout& layout) {
  constexpr std::int64_t cells_of_start = 128;
  constexpr int directions = 27;
  Messages messages;
  const spider_grid_layout wide = with_look(field, layout);
  for (int tag = 0; tag < directions; ++tag) {
    const std::array<int, 3> step = step_of(tag);
    if (step == std::array<int, 3>{}) continue;
    Message message = make_message(layout, wide, step);
    message.tag = tag;
    if (!message.sends && !message.receives) continue;
    message.send_at = messages.send_cells;
    message.receive_at = messages.receive_cells;
    if (message.sends) messages.send_cells += round_up(count_cells(message.send), cells_of_start);
    if (message.receives) messages.receive_cells += round_up(count_cells(message.receive), cells_of_start);
    messages.all.push_back(message);
  }
  return messages;
}

Box place_of(const Message& message, const std::int64_t extent[3]) {
  const std::array<int, 3> step = step_of(message.tag);
  Box place = message.send;
  for (int axis = 0; axis < 3; ++axis) {
    if (step[static_cast<std::size_t>(axis)] > 0) place.offset[axis] = -message.send.extent[axis];
    if (step[static_cast<std::size_t>(axis)] < 0) place.offset[axis] = extent[axis];
  }
  return place;
}

RimPlanes rim_planes(const Messages& messages) {
  constexpr int down = 4;  // tags of messages along z alone
  constexpr int up = 22;
  RimPlanes rims;
  for (const Message& message : messages.all) {
    if (message.tag != down && message.tag != up) return {};
    if (message.sends) (message.tag == down ? rims.low : rims.high) = message.send.extent[0];
  }
  return rims;
}

std::int64_t count_cells(const Box& box) {
  return box.extent[0] * box.extent[1] * box.extent[2];
}

Boxes divide_part(const CutField& field, const spider_grid_layout& layout) {
  constexpr std::int64_t columns_of_a_rim = 128;  // so that the interior's blocks are whole
  constexpr std::int64_t parts_of_a_thick_rim = 6;
  std::array<Range, 3> inner{};
  for (int axis = 0; axis < 3; ++axis) {
    const auto i = static_cast<std::size_t>(axis);
    const HaloWidth between = look(field, axis);
    const std::int64_t rim = std::max(between.low, between.high);
    std::int64_t low = has_neighbour(layout, axis, 0) ? rim : 0;
    std::int64_t high = has_neighbour(layout, axis, 1) ? rim : 0;
    // Blocks walk along z, and read the planes of their reach beyond what they write: thin boxes waste most
    // of it.
    if (axis == 0) {
      const std::int64_t thick = layout.extent[axis] / parts_of_a_thick_rim;
      low = low == 0 ? 0 : std::max(low, thick);
      high = high == 0 ? 0 : std::max(high, thick);
    }
    if (axis == 2 && layout.extent[axis] >= 8 * columns_of_a_rim) {
      low = round_up(low, columns_of_a_rim);
      high = high == 0
                 ? 0
                 : layout.extent[axis] - (layout.extent[axis] - high) / columns_of_a_rim * columns_of_a_rim;
    }
    inner[i] = {low, layout.extent[axis] - high};
  }
  Boxes boxes;
  std::array<Range, 3> rest{Range{0, layout.extent[0]}, Range{0, layout.extent[1]},
                            Range{0, layout.extent[2]}};
  const bool has_interior =
      std::all_of(inner.begin(), inner.end(), [](const Range& r) { return r.begin < r.end; });
  if (!has_interior) return {{}, {box_of(rest)}};
  for (std::size_t axis = 0; axis < 3; ++axis) {
    std::array<Range, 3> rim = rest;
    rim[axis].end = inner[axis].begin;
    if (rim[axis].begin < rim[axis].end) boxes.rims.push_back(box_of(rim));
    rim[axis] = {inner[axis].end, rest[axis].end};
    if (rim[axis].begin < rim[axis].end) boxes.rims.push_back(box_of(rim));
    rest[axis] = inner[axis];
  }
  boxes.interior.push_back(box_of(inner));
  return boxes;
}

std::vector<int> assign_devices(const std::vector<std::vector<DeviceId>>& seen) {
  Assignment assignment{seen, {}, std::vector<int>(seen.size(), -1)};
  for (std::size_t rank = 0; rank < seen.size(); ++rank) {
    std::set<DeviceId> asked;
    assignment.place(rank, asked);
  }
  return assignment.chosen;
}

}  // namespace spider::distributed
