/// A hand-made kernel and its fields, for tests of single instructions.
#pragma once

#include <spider/instructions_emulated.h>
#include <spider/kernel.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <string>
#include <vector>

#include "src/backend.h"

namespace spider::test {

/// A field in the middle of an allocation of its own.
class Field {
 public:
  Field(std::int64_t rows, std::int64_t columns, std::int64_t stride, std::uint16_t value = 0)
      : rows_(rows),
        columns_(columns),
        stride_(stride),
        cells_(static_cast<std::size_t>((rows + 2 * margin) * stride), value) {}

  [[nodiscard]] std::uint16_t* data() { return &cells_[static_cast<std::size_t>(margin * stride_)]; }
  [[nodiscard]] std::uint16_t& at(std::int64_t y, std::int64_t x) { return data()[y * stride_ + x]; }
  [[nodiscard]] std::int64_t stride() const { return stride_; }
  [[nodiscard]] spider_field view() { return {data(), {1, rows_, columns_}, {0, stride_}}; }

 private:
  static constexpr std::int64_t margin = 8;
  std::int64_t rows_;
  std::int64_t columns_;
  std::int64_t stride_;
  // Vectors of 16-bit elements start on 16 bytes, and so does the interior where the stride is a multiple
  // of 8.
  std::vector<std::uint16_t> cells_;
};

struct LaunchCase {
  std::int32_t dimensions = 2;
  std::int32_t rows = 1;
  std::int32_t columns = 1;
  std::int64_t stride = 64;
  std::int32_t warps = 1;
  std::int32_t shared_bytes = 1024;
  std::int64_t blocks = 1;
  bool starts_early = false;
  bool overlaps_rims = false;
  std::vector<TapRow> taps = {{0, 0, 0, 0}};
  Face y_low{FaceRule::halo, 0};
  Face y_high{FaceRule::halo, 0};
  Face x_low{FaceRule::halo, 0};
  Face x_high{FaceRule::halo, 0};
  Box box{};               ///< empty: the whole field
  std::vector<Box> boxes;  ///< of a launch of several, one block each
};

/// Launches `sweep` through the back end, with `input` and `output` of the case's extents.
inline backend::Outcome launch_any(SweepFunction sweep, const LaunchCase& launch_case, Field& input,
                                   Field& output) {
  spider_kernel kernel{};
  kernel.abi = SPIDER_ABI;
  kernel.size = sizeof kernel;
  kernel.launch_size = sizeof(SweepArguments);
  kernel.info.name = "probe";
  kernel.info.dimensions = launch_case.dimensions;
  kernel.form_count = 1;
  kernel.forms[0].sweep = sweep;
  kernel.forms[0].starts_early = launch_case.starts_early;
  kernel.forms[0].overlaps_rims = launch_case.overlaps_rims;
  kernel.forms[0].tiling.warps_per_block = launch_case.warps;
  kernel.forms[0].tiling.shared_bytes = launch_case.shared_bytes;
  kernel.tap_rows = launch_case.taps.data();
  kernel.tap_row_count = static_cast<std::int32_t>(launch_case.taps.size());
  kernel.faces[1][0] = launch_case.y_low;
  kernel.faces[1][1] = launch_case.y_high;
  kernel.faces[2][0] = launch_case.x_low;
  kernel.faces[2][1] = launch_case.x_high;
  BoxesArguments arguments{};
  for (std::size_t i = 0; i < most_boxes; ++i) {
    const std::size_t count = launch_case.boxes.size();
    if (i < count) arguments.boxes[i].box = launch_case.boxes[i];
    arguments.boxes[i].end_block = static_cast<std::int32_t>(std::min(i + 1, count));
  }
  arguments.input = input.data();
  arguments.output = output.data();
  arguments.input_stride[1] = input.stride();
  arguments.output_stride[1] = output.stride();
  const spider_field in = input.view();
  const spider_field out = output.view();
  std::copy_n(in.extent, 3, arguments.extent);
  arguments.box = launch_case.box;
  if (launch_case.box.extent[2] == 0) std::copy_n(in.extent, 3, arguments.box.extent);
  return backend::launch(kernel, {kernel.forms[0], launch_case.blocks, false, nullptr}, arguments, in, out);
}

inline backend::Outcome launch_any(SweepFunction sweep, const LaunchCase& launch_case) {
  Field input(launch_case.rows, launch_case.columns, launch_case.stride);
  Field output(launch_case.rows, launch_case.columns, launch_case.stride);
  return launch_any(sweep, launch_case, input, output);
}

inline backend::Outcome launch(Sweep sweep, const LaunchCase& launch_case, Field& input, Field& output) {
  return launch_any(sweep, launch_case, input, output);
}
inline backend::Outcome launch(Sweep sweep, const LaunchCase& launch_case) {
  return launch_any(sweep, launch_case);
}
inline backend::Outcome launch_boxes(BoxesSweep sweep, const LaunchCase& launch_case) {
  return launch_any(sweep, launch_case);
}

/// Sets an environment variable for as long as it lives.
class Environment {
 public:
  Environment(const char* name, const std::string& value) : name_(name) {
    if (const char* before = std::getenv(name)) before_ = before;
    setenv(name, value.c_str(), 1);
  }
  Environment(const Environment&) = delete;
  Environment& operator=(const Environment&) = delete;
  ~Environment() {
    if (before_) {
      setenv(name_, before_->c_str(), 1);
    } else {
      unsetenv(name_);
    }
  }

 private:
  const char* name_;
  std::optional<std::string> before_;
};

inline const std::uint16_t* input_of(const SweepArguments& arguments) {
  return static_cast<const std::uint16_t*>(arguments.input);
}
inline std::uint16_t* output_of(const SweepArguments& arguments) {
  return static_cast<std::uint16_t*>(arguments.output);
}

/// Writes the whole box once, so that a launch which tests something else ends well.
inline void write_output(const SweepArguments& arguments) {
  if (device::block_index() != 0 || device::warp_index() != 0 || device::lane_index() != 0) return;
  const Box& box = arguments.box;
  for (std::int64_t y = box.offset[1]; y < box.offset[1] + box.extent[1]; ++y) {
    for (std::int64_t x = box.offset[2]; x < box.offset[2] + box.extent[2]; ++x) {
      device::store_field(output_of(arguments) + y * arguments.output_stride[1] + x, std::uint16_t{0});
    }
  }
}

/// A launch that ended well.
inline void expect_good(const backend::Outcome& outcome) {
  EXPECT_EQ(outcome.status, SPIDER_OK) << outcome.reason;
}

/// A launch stopped by the emulator, whose reason holds every one of `parts`.
inline void expect_violation(const backend::Outcome& outcome, const std::vector<std::string>& parts) {
  EXPECT_EQ(outcome.status, SPIDER_ERROR_EMULATION);
  for (const std::string& part : parts) {
    EXPECT_NE(outcome.reason.find(part), std::string::npos) << "no '" << part << "' in: " << outcome.reason;
  }
}

}  // namespace spider::test
