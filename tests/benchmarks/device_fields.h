/// Pairs of fields on the device, filled and read there.
#pragma once

#include <spider/spider.h>

#include <cstdint>
#include <vector>

#include "cuda_resources.h"
#include "layout.h"

namespace bench {

/// `pairs` inputs and outputs of one layout. Inputs hold cell_value(storage, seed of the pair, index) in
/// every cell, halo and padding too; outputs are NaN until something else is written.
class DeviceFields {
 public:
  DeviceFields(const FieldLayout& layout, int storage, int pairs, std::uint64_t seed);

  /// Device memory that the constructor takes.
  [[nodiscard]] static std::int64_t bytes_needed(const FieldLayout& layout, int storage, int pairs);

  [[nodiscard]] const FieldLayout& layout() const { return layout_; }
  [[nodiscard]] int storage() const { return storage_; }
  [[nodiscard]] int pairs() const { return static_cast<int>(inputs_.size()); }
  [[nodiscard]] std::uint64_t seed(int pair) const { return seed_ + static_cast<std::uint64_t>(pair); }

  /// For the C interface.
  [[nodiscard]] const spider_field& input(int pair) const {
    return input_views_[static_cast<std::size_t>(pair)];
  }
  [[nodiscard]] const spider_field& output(int pair) const {
    return output_views_[static_cast<std::size_t>(pair)];
  }

  /// Where the memory of a pair starts.
  [[nodiscard]] const void* input_memory(int pair) const {
    return inputs_[static_cast<std::size_t>(pair)].get();
  }
  [[nodiscard]] void* output_memory(int pair) const { return outputs_[static_cast<std::size_t>(pair)].get(); }

  /// Makes an output NaN again.
  void poison_output(int pair, cudaStream_t stream) const;

  /// What an output holds at these indices of its memory. Waits for the stream.
  [[nodiscard]] std::vector<double> read_output(int pair, const std::vector<std::int64_t>& indices,
                                                cudaStream_t stream) const;

 private:
  [[nodiscard]] std::int64_t bytes() const;
  [[nodiscard]] spider_field view(void* memory) const;

  FieldLayout layout_;
  int storage_;
  std::uint64_t seed_;
  std::vector<DeviceMemory> inputs_;
  std::vector<DeviceMemory> outputs_;
  std::vector<spider_field> input_views_;
  std::vector<spider_field> output_views_;
};

}  // namespace bench
