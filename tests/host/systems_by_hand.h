#pragma once

// Systems of equations as the generator writes them, by hand, and what their sweeps mean: cell by cell, by
// rules that are said once more here.

#include <spider/spider.h>
#include <spider/system_form.h>
#include <spider/half.hpp>

#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

namespace by_hand {

using spider::Face;
using spider::FaceRule;

/// A field in memory of its own, with room around it.
struct Grid {
  static constexpr std::int64_t margin = 8;

  spider::SystemField facts{};
  std::array<std::int64_t, 3> extent{};
  std::array<std::int64_t, 3> room{};  ///< cells before the interior, and behind it
  std::int64_t stride[2] = {};
  std::vector<std::byte> memory;

  Grid() = default;
  Grid(const spider::SystemField& field, const std::array<std::int64_t, 3>& extents) : facts(field) {
    for (std::size_t axis = 0; axis < 3; ++axis) {
      extent[axis] = field.axes[axis] ? extents[axis] : 1;
      room[axis] = field.axes[axis] ? margin : 0;
    }
    stride[1] = extent[2] + 2 * room[2];
    stride[0] = stride[1] * (extent[1] + 2 * room[1]);
    memory.resize(static_cast<std::size_t>(stride[0] * (extent[0] + 2 * room[0]) * bytes()));
  }

  [[nodiscard]] std::int64_t bytes() const {
    return facts.storage == SPIDER_F64 ? 8 : facts.storage == SPIDER_F32 ? 4 : 2;
  }
  [[nodiscard]] std::size_t place(std::int64_t z, std::int64_t y, std::int64_t x) const {
    return static_cast<std::size_t>(((z + room[0]) * stride[0] + (y + room[1]) * stride[1] + x + room[2]) *
                                    bytes());
  }

  [[nodiscard]] double load(std::int64_t z, std::int64_t y, std::int64_t x) const {
    const std::byte* cell = memory.data() + place(z, y, x);
    if (facts.storage == SPIDER_F64) return read<double>(cell);
    if (facts.storage == SPIDER_F32) return read<float>(cell);
    const auto bits = read<std::uint16_t>(cell);
    if (facts.storage == SPIDER_F16) return spider::half::from_bits(bits);
    return std::bit_cast<float>(std::uint32_t{bits} << 16);
  }
  void store(std::int64_t z, std::int64_t y, std::int64_t x, double value) {
    std::byte* cell = memory.data() + place(z, y, x);
    if (facts.storage == SPIDER_F64) return write(cell, value);
    if (facts.storage == SPIDER_F32) return write(cell, static_cast<float>(value));
    if (facts.storage == SPIDER_F16) return write(cell, spider::half(value).bits());
    write(cell, nearest_bf16(value));
  }

  /// Any numbers, halo included.
  void fill(std::uint32_t seed) {
    for (std::int64_t z = -room[0]; z < extent[0] + room[0]; ++z) {
      for (std::int64_t y = -room[1]; y < extent[1] + room[1]; ++y) {
        for (std::int64_t x = -room[2]; x < extent[2] + room[2]; ++x) {
          seed = seed * 1664525U + 1013904223U;
          store(z, y, x, static_cast<double>(seed >> 8) / (1 << 23) - 1);
        }
      }
    }
  }

  /// Of this place, as far as `extents` go.
  [[nodiscard]] spider_field part(const std::array<std::int64_t, 3>& origin,
                                  const std::array<std::int64_t, 3>& extents) {
    spider_field field{};
    std::int64_t at[3];
    for (std::size_t axis = 0; axis < 3; ++axis) {
      at[axis] = facts.axes[axis] ? origin[axis] : 0;
      field.extent[axis] = facts.axes[axis] ? extents[axis] : 1;
    }
    field.data = memory.data() + place(at[0], at[1], at[2]);
    field.stride[0] = stride[0];
    field.stride[1] = stride[1];
    return field;
  }
  [[nodiscard]] spider_field field() { return part({0, 0, 0}, extent); }

  /// What a rule says of a cell, inside or beyond faces.
  [[nodiscard]] double at(std::int64_t z, std::int64_t y, std::int64_t x) const {
    std::int64_t index[3] = {z, y, x};
    double sign = 1;
    for (int axis = 2; axis >= 0; --axis) {
      if (!facts.axes[axis]) {
        index[axis] = 0;
        continue;
      }
      const std::int64_t n = extent[static_cast<std::size_t>(axis)];
      while (index[axis] < 0 || index[axis] >= n) {
        const int side = index[axis] < 0 ? 0 : 1;
        const Face& face = facts.faces[axis][side];
        const std::int64_t beyond = side == 0 ? -index[axis] : index[axis] - (n - 1);  // 1: the first one
        std::int64_t inwards = 0;                                                      // from the last cell
        if (face.rule == FaceRule::halo) break;
        if (face.rule == FaceRule::constant) return sign * face.value;
        if (face.rule == FaceRule::periodic) {
          index[axis] += side == 0 ? n : -n;
          continue;
        }
        if (face.rule == FaceRule::reflect) inwards = beyond - 1;
        if (face.rule == FaceRule::mirror) inwards = n == 1 ? 0 : beyond;
        if (face.rule == FaceRule::antisymmetric) {
          if (beyond == 1) return 0;
          inwards = beyond - 2;
          sign = -sign;
        }
        index[axis] = side == 0 ? inwards : n - 1 - inwards;
      }
    }
    return sign * load(index[0], index[1], index[2]);
  }

 private:
  template <class Cell>
  static Cell read(const std::byte* from) {
    Cell cell{};
    std::memcpy(&cell, from, sizeof cell);
    return cell;
  }
  template <class Cell>
  static void write(std::byte* to, Cell cell) {
    std::memcpy(to, &cell, sizeof cell);
  }
  /// Of the three next to the truncated f32 the nearest one, the even one of two.
  static std::uint16_t nearest_bf16(double value) {
    const auto truncated =
        static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(static_cast<float>(value)) >> 16);
    std::uint16_t best = truncated;
    const auto far = [&](std::uint16_t bits) {
      return std::fabs(std::bit_cast<float>(std::uint32_t{bits} << 16) - value);
    };
    for (const int step : {-1, 1}) {
      const auto other = static_cast<std::uint16_t>(truncated + step);
      if (far(other) < far(best) || (far(other) == far(best) && other % 2 == 0)) best = other;
    }
    return best;
  }
};

/// The fields of a system and their second buffers.
struct State {
  std::vector<Grid> first;
  std::vector<Grid> second;  ///< without memory where there is none
  std::vector<double> scalars;
};

/// A point as System::compute takes it.
template <class System>
struct Point {
  using Number = typename System::Number;
  const State& state;
  const std::vector<const Grid*>& current;
  std::array<std::int64_t, 3> place;
  std::array<std::int64_t, 3> extents;

  template <int row, int dx>
  Number read() const {
    constexpr spider::ReadRow r = System::rows[row];
    static_assert(dx >= r.low && dx <= r.high);
    return static_cast<Number>(current[r.field]->at(place[0] + r.dz, place[1] + r.dy, place[2] + dx));
  }
  Number scalar(int i) const { return static_cast<Number>(state.scalars[static_cast<std::size_t>(i)]); }
  Number index(int axis) const { return static_cast<Number>(place[static_cast<std::size_t>(axis)]); }
  Number extent(int axis) const { return static_cast<Number>(extents[static_cast<std::size_t>(axis)]); }
  template <int field, int dz, int dy, int dx>
  Number bounded(Number value) const {
    const int offset[3] = {dz, dy, dx};
    for (int axis = 2; axis >= 0; --axis) {
      const auto at = place[static_cast<std::size_t>(axis)] + offset[axis];
      if (offset[axis] == 0 || (at >= 0 && at < extents[static_cast<std::size_t>(axis)])) continue;
      const Face& face = System::fields[field].faces[axis][at < 0 ? 0 : 1];
      if (face.rule == FaceRule::constant) return static_cast<Number>(face.value);
    }
    return value;
  }
};

/// One launch over all points. `turns` says which fields are in their second buffers.
template <class System>
void launch(State& state, std::vector<bool>& turns, const std::array<std::int64_t, 3>& extents) {
  std::vector<const Grid*> current;
  for (std::size_t i = 0; i < state.first.size(); ++i)
    current.push_back(turns[i] ? &state.second[i] : &state.first[i]);
  std::vector<Grid> written;
  for (const spider::WrittenField& w : System::written) {
    const auto i = static_cast<std::size_t>(w.field);
    written.push_back(w.into_other != turns[i] ? state.second[i] : state.first[i]);
  }
  for (std::int64_t z = 0; z < extents[0]; ++z) {
    for (std::int64_t y = 0; y < extents[1]; ++y) {
      for (std::int64_t x = 0; x < extents[2]; ++x) {
        typename System::Number results[System::written_count];
        System::compute(Point<System>{state, current, {z, y, x}, extents}, results);
        for (std::size_t k = 0; k < written.size(); ++k) written[k].store(z, y, x, results[k]);
      }
    }
  }
  for (std::size_t k = 0; k < written.size(); ++k) {
    const auto i = static_cast<std::size_t>(System::written[k].field);
    if (System::written[k].into_other) turns[i] = !turns[i];
    (turns[i] ? state.second[i] : state.first[i]) = std::move(written[k]);
  }
}

/// A sweep's steps.
template <class... Systems>
void run(State& state, const std::array<std::int64_t, 3>& extents, std::int64_t steps) {
  std::vector<bool> turns(state.first.size());
  for (std::int64_t step = 0; step < steps; ++step) (launch<Systems>(state, turns, extents), ...);
}

/// What the C interface takes.
struct Call {
  std::vector<spider_field> fields;
  std::vector<spider_field> second;
  std::vector<const spider_field*> field_pointers;
  std::vector<const spider_field*> output_pointers;
  spider_sweep sweep{};

  explicit Call(State& state) {
    const std::size_t count = state.first.size();
    for (std::size_t i = 0; i < count; ++i) {
      fields.push_back(state.first[i].field());
      second.push_back(state.second[i].memory.empty() ? spider_field{} : state.second[i].field());
    }
    set_pointers(state);
  }
  /// Of a part.
  Call(State& state, const std::array<std::int64_t, 3>& origin, const std::array<std::int64_t, 3>& extents) {
    for (std::size_t i = 0; i < state.first.size(); ++i) {
      fields.push_back(state.first[i].part(origin, extents));
      second.push_back(state.second[i].memory.empty() ? spider_field{}
                                                      : state.second[i].part(origin, extents));
    }
    set_pointers(state);
  }
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;

 private:
  void set_pointers(State& state) {
    for (std::size_t i = 0; i < fields.size(); ++i) {
      field_pointers.push_back(&fields[i]);
      output_pointers.push_back(state.second[i].memory.empty() ? nullptr : &second[i]);
    }
    sweep.size = sizeof sweep;
    sweep.fields = field_pointers.data();
    sweep.outputs = output_pointers.data();
    sweep.scalars = state.scalars.empty() ? nullptr : state.scalars.data();
  }
};

}  // namespace by_hand
