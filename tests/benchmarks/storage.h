/// What fields hold: the same random value of a cell on the device, where it is written, and on the host,
/// where the reference reads it, so that no field is ever copied from one to the other.
#pragma once

#include <cstdint>
#include <string>

namespace bench {

/// Of SPIDER_F16, SPIDER_F32, SPIDER_BF16 or SPIDER_F64. Throws std::invalid_argument for other values.
[[nodiscard]] std::int64_t element_bytes(int storage);
/// "f16", "f32", "bf16" or "f64".
[[nodiscard]] std::string storage_name(int storage);
/// Significant bits of the type, 11, 24, 8 or 53: results are rounded by 2^-bits of themselves at most.
[[nodiscard]] int significant_bits(int storage);
/// The largest number below 1 that the type holds.
[[nodiscard]] double largest_below_one(int storage);

/// SplitMix64: 64 bits that look random, of any 64.
constexpr std::uint64_t scramble(std::uint64_t x) {
  x += 0x9E37'79B9'7F4A'7C15;
  x = (x ^ (x >> 30)) * 0xBF58'476D'1CE4'E5B9;
  x = (x ^ (x >> 27)) * 0x94D0'49BB'1331'11EB;
  return x ^ (x >> 31);
}

/// Uniform in [-1, limit], before it is rounded to the storage. Every operation is exact.
constexpr float random_value(std::uint64_t seed, std::uint64_t index, float limit) {
  const std::uint64_t bits = scramble(scramble(seed) ^ index) >> 40;
  const float value = static_cast<float>(bits) * 0x1p-23F - 1.0F;
  return value < limit ? value : limit;
}

/// The same of a double, all of whose digits are random.
constexpr double random_double(std::uint64_t seed, std::uint64_t index) {
  const std::uint64_t bits = scramble(scramble(seed) ^ index) >> 11;
  return static_cast<double>(bits) * 0x1p-52 - 1.0;
}

/// What the cell at `index` elements from the start of a field's memory holds: random_value rounded to
/// nearest, or random_double, in [-1, 1).
[[nodiscard]] double cell_value(int storage, std::uint64_t seed, std::int64_t index);

/// Rounds to nearest, as packing a weight for this storage does; exact for f32 as far as float is.
[[nodiscard]] double round_to_storage(int storage, double value);

/// A bit pattern of the type as a number.
[[nodiscard]] double decode(int storage, std::uint64_t bits);
/// The bit pattern of the nearest number of the type.
[[nodiscard]] std::uint64_t encode(int storage, double value);

}  // namespace bench
